/* y = sum, mean, max or min of x over dimensions that do not include the contiguous one: a work-item
 * owns N neighbouring outputs, one per lane, and walks down.
 *
 *            inner (contiguous in x and y), N outputs per work-item x, `span` of them in all
 *          +----+----+----+----
 *   run    | ↓↓ | ↓↓ |    |         red_shape (red_rows in all), then `run` elements x_step apart
 *          +----+----+----+----
 *
 * Outer outputs are out_shape.v[0 … out_rank-1], walked by work-items y. Defines: DT storage type, N
 * vector width, TDM_INTEGER for s32. */
#include "dialect.h"
#include "strided_rows.h"
#include "reduce_steps.h"

TDM_INT_PART_FUNCTIONS(s32)
TDM_PART_FUNCTIONS(f32)
TDM_PART_FUNCTIONS(f16)
TDM_PART_FUNCTIONS(bf16)

TDM_DEVICE V tdm_reduce_down(TDM_GLOBAL const TDM_TYPE(DT) *x, long base, int left, int red_rank,
                             const tdm_dims *red_shape, const tdm_dims *red_strides, long red_rows,
                             long run, long x_step, int op) {
    tdm_running running = tdm_running_start(op);
    for (long row = 0; row < red_rows; row++) {
        const long at = base + tdm_row_offset(row, red_rank, red_shape, red_strides);
        for (long start = 0; start < run; start += TDM_BLOCK) {
            const long stop = run - start < TDM_BLOCK ? run : start + TDM_BLOCK;
            V block = VALUE_SPLAT(tdm_neutral(op));
            for (long i = start; i < stop; i++) {
                V v;
                if (left == N)
                    v = VALUE_LOADV(x, at + i * x_step);
                else
                    v = TDM_LOAD_PART(DT, x, at + i * x_step, left, tdm_neutral(op));
                block = tdm_step(block, v, op);
            }
            running = tdm_running_add(running, block, op);
        }
    }
    return tdm_running_end(running);
}

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const TDM_TYPE(DT) *x, long x_offset, TDM_GLOBAL TDM_TYPE(DT) *y, long y_offset,
 tdm_dims out_shape, tdm_dims out_strides, tdm_dims y_strides, int out_rank, long out_rows, long inner,
 tdm_dims red_shape, tdm_dims red_strides, int red_rank, long red_rows, long run, long x_step,
 float divisor, int op) {
    for (long o = tdm_global_y(); o < out_rows; o += tdm_global_size_y()) {
        const long base = x_offset + tdm_row_offset(o, out_rank, &out_shape, &out_strides);
        const long to = y_offset + tdm_row_offset(o, out_rank, &out_shape, &y_strides);
        for (long i = tdm_global_x() * N; i < inner; i += tdm_global_size_x() * N) {
            const int left = (int)(inner - i < N ? inner - i : N);
            V v = tdm_reduce_down(x, base + i, left, red_rank, &red_shape, &red_strides, red_rows, run,
                                  x_step, op);
#ifndef TDM_INTEGER
            if (op == TDM_CODE_REDUCE_MEAN)
                v = v / VALUE_SPLAT(divisor);
#endif
            if (left == N)
                VALUE_STOREV(v, y, to + i);
            else
                TDM_STORE_PART(DT, v, y, to + i, left);
        }
    }
}
