/* y = index of the first largest or smallest element of x over one dimension or all, in row-major
 * order of the reduced elements. The first NaN counts as this element. One work-item per output
 * finds the extreme value, N lanes at a time, then searches for its first index.
 *
 * The arguments are those of reduce_rows.cl, without parts. op is TDM_CODE_REDUCE_MAX or
 * TDM_CODE_REDUCE_MIN. Defines: DT storage type, N vector width,
 * TDM_INTEGER for s32. */
#include "kernels/dialect/dialect.h"
#include "kernels/elementwise/strided_rows.h"
#include "reduce_steps.h"

TDM_DEVICE tdm_value tdm_row_extreme(TDM_GLOBAL const TDM_TYPE(DT) * x, long run, long inner,
                                     long x_step, int op) {
    V best = VALUE_SPLAT(tdm_neutral(op));
    long i = 0;
    for (; i + TDM_BLOCK * N <= inner; i += TDM_BLOCK * N) {
        const V block = tdm_block_of(x, run + i * x_step, x_step, op);
        best = tdm_step(best, block, op);
    }
    tdm_value result = tdm_across(best, op);
    for (; i < inner; i++)
        result = tdm_step_one(result, VALUE_LOAD(x, run + i * x_step), op);
    return result;
}

/* Returns the first index of `best` in the run, or `inner` if it is not there. */
TDM_DEVICE long tdm_row_find(TDM_GLOBAL const TDM_TYPE(DT) * x, long run, long inner, long x_step,
                             tdm_value best) {
    long place = inner;
    long i = 0;
    for (; i + TDM_BLOCK <= inner && place == inner; i += TDM_BLOCK)
        TDM_UNROLL for (int n = TDM_BLOCK - 1; n >= 0; n--) {
            const tdm_value v = VALUE_LOAD(x, run + (i + n) * x_step);
            place = VALUE_MATCHES(v, best) ? i + n : place;
        }
    for (; i < inner && place == inner; i++) {
        const tdm_value v = VALUE_LOAD(x, run + i * x_step);
        place = VALUE_MATCHES(v, best) ? i : place;
    }
    return place;
}

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const TDM_TYPE(DT) * x, long x_offset, TDM_GLOBAL tdm_s32 *y, long y_offset,
 tdm_dims out_shape, tdm_dims out_strides, tdm_dims y_strides, int out_rank, long outputs,
 tdm_dims red_shape, tdm_dims red_strides, int red_rank, long red_rows, long inner, long x_step,
 int op) {
    TDM_ITEM_BEGIN;
    for (long o = tdm_global_x(); o < outputs; o += tdm_global_size_x()) {
        const long base = x_offset + tdm_row_offset(o, out_rank, &out_shape, &out_strides);
        tdm_value best = tdm_neutral(op);
        for (long row = 0; row < red_rows; row++) {
            const long run = base + tdm_row_offset(row, red_rank, &red_shape, &red_strides);
            best = tdm_step_one(best, tdm_row_extreme(x, run, inner, x_step, op), op);
        }
        long found = -1;
        for (long row = 0; row < red_rows && found < 0; row++) {
            const long run = base + tdm_row_offset(row, red_rank, &red_shape, &red_strides);
            const long place = tdm_row_find(x, run, inner, x_step, best);
            found = place < inner ? row * inner + place : -1;
        }
        y[y_offset + tdm_row_offset(o, out_rank, &out_shape, &y_strides)] = (int)found;
    }
}
