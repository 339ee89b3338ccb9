/* y = sum, mean, max or min of x over some dimensions, one work-group per output (and part).
 * Work-items stride through the cells of the reduced elements (reduce_cells.h), so that neighbours
 * read neighbouring cells. A tree in local memory joins their results.
 *
 * The arguments are those of reduce_rows.cl, but with part_size, the number of cells in a part.
 * Groups with y index p reduce part p: cells p·part_size … in row-major order. The last part has
 * the tail too.
 *
 * The group size is a launch-time power of two up to 256. Defines: DT storage type, N elements of a
 * cell, TDM_INTEGER for s32. */
#include "kernels/dialect/dialect.h"
#include "kernels/elementwise/strided_rows.h"
#include "reduce_steps.h"
#include "reduce_cells.h"

#define MAX_GROUP 256
/* A work-item loads this many cells of a block before it reduces them. */
#define CELLS_AT_ONCE 4

TDM_DEVICE V tdm_reduce_cells(TDM_GLOBAL const TDM_TYPE(DT) *x, long base, int red_rank,
                              const tdm_dims *red_shape, const tdm_dims *red_strides, long inner,
                              long x_step, long first, long last, int op) {
    tdm_running running = tdm_running_start(op);
    const int items = tdm_group_size_x();
    long k = first + tdm_item_x();
    for (; k + (TDM_BLOCK - 1) * (long)items < last; k += TDM_BLOCK * (long)items) {
        V block = VALUE_SPLAT(tdm_neutral(op));
        TDM_UNROLL_PASSES for (int n = 0; n < TDM_BLOCK; n += CELLS_AT_ONCE) {
            V cells[CELLS_AT_ONCE];
            TDM_UNROLL for (int i = 0; i < CELLS_AT_ONCE; i++) cells[i] =
                TDM_CELL(k + (long)(n + i) * items);
            TDM_UNROLL for (int i = 0; i < CELLS_AT_ONCE; i++) block =
                tdm_step(block, cells[i], op);
        }
        running = tdm_running_add(running, block, op);
    }
    V block = VALUE_SPLAT(tdm_neutral(op));
    for (; k < last; k += items)
        block = tdm_step(block, TDM_CELL(k), op);
    return tdm_running_end(tdm_running_add(running, block, op));
}

#define REDUCE_CELLS(x, base)                                                                      \
    tdm_reduce_cells(x, base, red_rank, &red_shape, &red_strides, inner, x_step, first, last, op)

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const TDM_TYPE(DT) *x, long x_offset, TDM_GLOBAL void *y, long y_offset, int type,
 tdm_dims out_shape, tdm_dims out_strides, tdm_dims y_strides, int out_rank, long outputs,
 tdm_dims red_shape, tdm_dims red_strides, int red_rank, long red_rows, long inner, long x_step,
 long part_size, long part_step, float divisor, int op) {
    TDM_LOCAL_ARRAY(tdm_value, joined, MAX_GROUP);
    const int item = tdm_item_x();
    const long part = tdm_group_y();
    const long cells = inner / N, count = red_rows * cells;
    const long first = part * part_size;
    const long last = first + part_size < count ? first + part_size : count;
    const int tail = part + 1 == tdm_groups_y() ? (int)(inner - cells * N) : 0;
    for (long o = tdm_group_x(); o < outputs; o += tdm_groups_x()) {
        const long base = x_offset + tdm_row_offset(o, out_rank, &out_shape, &out_strides);
        V lanes;
        if (TDM_IS_FROM_16(x + base))
            lanes = REDUCE_CELLS(TDM_FROM_16(x + base), 0);
        else
            lanes = REDUCE_CELLS(x, base);
        tdm_value mine = tdm_across(lanes, op);
        if (item < tail)
            mine = tdm_step_one(mine, VALUE_LOAD(x, base + cells * N + item), op);
        joined[item] = mine;
        tdm_barrier();
        for (int width = tdm_group_size_x() / 2; width > 0; width /= 2) {
            if (item < width)
                joined[item] = tdm_step_one(joined[item], joined[item + width], op);
            tdm_barrier();
        }
        if (item == 0) {
            tdm_value result = joined[0];
#ifndef TDM_INTEGER
            if (op == TDM_CODE_REDUCE_MEAN)
                result = result / divisor;
#endif
            const long to = y_offset + tdm_row_offset(o, out_rank, &out_shape, &y_strides);
            tdm_store_value(result, y, type, to + part * part_step);
        }
        tdm_barrier();
    }
}
