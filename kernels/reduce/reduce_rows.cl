/* y = sum, mean, max or min of x over some dimensions, one work-item per output (and part).
 *
 *   outputs   out_shape.v[0 … out_rank-1], row-major; out_strides in x, y_strides in y
 *   reduced   red_shape.v[0 … red_rank-1] (red_rows in all), then `inner` elements x_step apart
 *
 * Work-item (o, p) reduces part p of output o: rows p·part_rows … of the reduced rows, elements
 * p·part_inner … of each run. Parts divide only one of the two; the other is whole in each part.
 * The value of a part goes to y at the offset of output o plus p·part_step. If there are several
 * parts, a second launch joins them. With N > 1 x_step is 1. `type` is the code of y's storage
 * type.
 *
 * Defines: DT storage type, N vector width, TDM_INTEGER for s32. */
#include "kernels/dialect/dialect.h"
#include "kernels/elementwise/strided_rows.h"
#include "reduce_steps.h"

TDM_INT_PART_FUNCTIONS(s32)
TDM_PART_FUNCTIONS(f32)
TDM_PART_FUNCTIONS(f16)
TDM_PART_FUNCTIONS(bf16)

/* Reduces elements first … last-1 of one run, a block at a time. */
TDM_DEVICE tdm_running tdm_reduce_run(tdm_running running, TDM_GLOBAL const TDM_TYPE(DT) * x,
                                      long run, long first, long last, long x_step, int op) {
    long i = first;
    for (; i + TDM_BLOCK * N <= last; i += TDM_BLOCK * N)
        running = tdm_running_add(running, tdm_block_of(x, run + i * x_step, x_step, op), op);
    V block = VALUE_SPLAT(tdm_neutral(op));
    for (; i + N <= last; i += N)
        block = tdm_step(block, VALUE_LOADV(x, run + i * x_step), op);
    if (N > 1 && i < last) {
        const V end = TDM_LOAD_PART(DT, x, run + i, (int)(last - i), tdm_neutral(op));
        block = tdm_step(block, end, op);
    }
    return tdm_running_add(running, block, op);
}

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const TDM_TYPE(DT) *x, long x_offset, TDM_GLOBAL void *y, long y_offset, int type,
 tdm_dims out_shape, tdm_dims out_strides, tdm_dims y_strides, int out_rank, long outputs,
 tdm_dims red_shape, tdm_dims red_strides, int red_rank, long red_rows, long inner, long x_step,
 long part_rows, long part_inner, long part_step, float divisor, int op) {
    TDM_ITEM_BEGIN;
    const long part = tdm_global_y();
    const long row_first = part_rows < red_rows ? part * part_rows : 0;
    const long row_last = row_first + part_rows < red_rows ? row_first + part_rows : red_rows;
    const long first = part_inner < inner ? part * part_inner : 0;
    const long last = first + part_inner < inner ? first + part_inner : inner;
    for (long o = tdm_global_x(); o < outputs; o += tdm_global_size_x()) {
        const long base = x_offset + tdm_row_offset(o, out_rank, &out_shape, &out_strides);
        tdm_running running = tdm_running_start(op);
        for (long row = row_first; row < row_last; row++) {
            const long run = base + tdm_row_offset(row, red_rank, &red_shape, &red_strides);
            running = tdm_reduce_run(running, x, run, first, last, x_step, op);
        }
        tdm_value result = tdm_across(tdm_running_end(running), op);
#ifndef TDM_INTEGER
        if (op == TDM_CODE_REDUCE_MEAN)
            result = result / divisor;
#endif
        const long to = y_offset + tdm_row_offset(o, out_rank, &out_shape, &y_strides);
        tdm_store_value(result, y, type, to + part * part_step);
    }
}
