/* y = sum, mean, max or min of x over dimensions that do not include the contiguous one. A
 * work-item owns WIDE·N neighbouring outputs, N per vector, and reduces down the columns.
 *
 *            inner (contiguous in x and y), WIDE·N outputs per work-item
 *          +-------------+-------------+----
 *   run    | ↓↓ ↓↓ ↓↓ ↓↓ | ↓↓ ↓↓ ↓↓ ↓↓ |    red_shape (red_rows in all), then `run` elements
 *          +-------------+-------------+----    that are x_step apart
 *
 * A work-item takes several adjacent vectors because each row of a large matrix is a new page. The
 * outer outputs are out_shape.v[0 … out_rank-1]; work-items y iterate over them. Defines: DT
 * storage type, N vector width, TDM_INTEGER for s32. */
#include "kernels/dialect/dialect.h"
#include "kernels/elementwise/strided_rows.h"
#include "reduce_steps.h"

#define WIDE 4

TDM_INT_PART_FUNCTIONS(s32)
TDM_PART_FUNCTIONS(f32)
TDM_PART_FUNCTIONS(f16)
TDM_PART_FUNCTIONS(bf16)

/* The vectors of one strip of columns. */
typedef struct {
    V v[WIDE];
} tdm_strip;

typedef struct {
    tdm_running v[WIDE];
} tdm_running_strip;

TDM_DEVICE V tdm_load_columns(TDM_GLOBAL const TDM_TYPE(DT) * x, long at, long left,
                              tdm_value filler) {
    if (left >= N)
        return VALUE_LOADV(x, at);
    return TDM_LOAD_PART(DT, x, at, left > 0 ? (int)left : 0, filler);
}

/* Reduces up to TDM_BLOCK rows of a strip, `step` apart. `left` columns exist. */
TDM_DEVICE tdm_strip tdm_block_of_rows(TDM_GLOBAL const TDM_TYPE(DT) * x, long at, long rows,
                                       long step, long left, int op) {
    tdm_strip block;
    TDM_UNROLL for (int w = 0; w < WIDE; w++)
        block.v[w] = VALUE_SPLAT(tdm_neutral(op));
    if (left >= WIDE * N) {
        for (long row = 0; row < rows; row++)
            TDM_UNROLL for (int w = 0; w < WIDE; w++)
                block.v[w] = tdm_step(block.v[w], VALUE_LOADV(x, at + row * step + w * N), op);
        return block;
    }
    for (long row = 0; row < rows; row++)
        TDM_UNROLL for (int w = 0; w < WIDE; w++) {
            const V v = tdm_load_columns(x, at + row * step + w * N, left - w * N, tdm_neutral(op));
            block.v[w] = tdm_step(block.v[w], v, op);
        }
    return block;
}

TDM_DEVICE tdm_strip tdm_reduce_down(TDM_GLOBAL const TDM_TYPE(DT) * x, long base, long left,
                                     int red_rank, const tdm_dims *red_shape,
                                     const tdm_dims *red_strides, long red_rows, long run,
                                     long x_step, int op) {
    tdm_running_strip running;
    TDM_UNROLL for (int w = 0; w < WIDE; w++)
        running.v[w] = tdm_running_start(op);
    for (long row = 0; row < red_rows; row++) {
        const long at = base + tdm_row_offset(row, red_rank, red_shape, red_strides);
        for (long start = 0; start < run; start += TDM_BLOCK) {
            const long rows = run - start < TDM_BLOCK ? run - start : TDM_BLOCK;
            const tdm_strip block =
                tdm_block_of_rows(x, at + start * x_step, rows, x_step, left, op);
            TDM_UNROLL for (int w = 0; w < WIDE; w++)
                running.v[w] = tdm_running_add(running.v[w], block.v[w], op);
        }
    }
    tdm_strip result;
    TDM_UNROLL for (int w = 0; w < WIDE; w++)
        result.v[w] = tdm_running_end(running.v[w]);
    return result;
}

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const TDM_TYPE(DT) * x, long x_offset, TDM_GLOBAL TDM_TYPE(DT) * y, long y_offset,
 tdm_dims out_shape, tdm_dims out_strides, tdm_dims y_strides, int out_rank, long out_rows,
 long inner, tdm_dims red_shape, tdm_dims red_strides, int red_rank, long red_rows, long run,
 long x_step, float divisor, int op) {
    TDM_ITEM_BEGIN;
    for (long o = tdm_global_y(); o < out_rows; o += tdm_global_size_y()) {
        const long base = x_offset + tdm_row_offset(o, out_rank, &out_shape, &out_strides);
        const long to = y_offset + tdm_row_offset(o, out_rank, &out_shape, &y_strides);
        for (long i = tdm_global_x() * WIDE * N; i < inner; i += tdm_global_size_x() * WIDE * N) {
            const tdm_strip strip = tdm_reduce_down(x, base + i, inner - i, red_rank, &red_shape,
                                                    &red_strides, red_rows, run, x_step, op);
            TDM_UNROLL for (int w = 0; w < WIDE; w++) {
                const long left = inner - i - w * N;
                V v = strip.v[w];
#ifndef TDM_INTEGER
                if (op == TDM_CODE_REDUCE_MEAN)
                    v = v / VALUE_SPLAT(divisor);
#endif
                if (left >= N)
                    VALUE_STOREV(v, y, to + i + w * N);
                else
                    TDM_STORE_PART(DT, v, y, to + i + w * N, (int)left);
            }
        }
    }
}
