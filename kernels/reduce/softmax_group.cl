/* y = exp(x - max) / Σ exp(x - max) along one dimension, one work-group per row. Work-items stride
 * through the row by cells of N elements; trees in local memory join their maxima and sums. Rows
 * and rules are those of softmax.cl. With N > 1, x_step and y_step are 1. The fewer than N elements
 * after the last cell go to as many work-items, one each.
 *
 * The group size is a launch-time power of two up to 256. Defines: DT storage type, N elements of a
 * cell. */
#include "kernels/dialect/dialect.h"
#include "kernels/elementwise/strided_rows.h"
#include "reduce_steps.h"
#include "reduce_cells.h"
#include "join_items.h"

/* With one element per cell a block is unrolled, which limits the iteration count (see the
 * dialect). */
#if N == 1
#define BLOCK_UNROLL TDM_UNROLL
#else
#define BLOCK_UNROLL TDM_NO_UNROLL
#endif

#if N == 1
#define CELL_AT(k, step) ((k) * (step))
#else
#define CELL_AT(k, step) ((k)*N)
#endif
#define CELL(k) TDM_LOADV_GLOBAL(N, DT, x, from + CELL_AT(k, x_step))
/* Calls a function of this source on the row's cells. */
#define OF_ROW(function, ...)                                                                      \
    (TDM_IS_FROM_16(x + from) ? function(TDM_FROM_16(x + from), 0, __VA_ARGS__)            \
                                       : function(x, from, __VA_ARGS__))
#define TAIL TDM_LOAD(DT, x, from + cells * N + item)

TDM_DEVICE float tdm_item_max(TDM_GLOBAL const TDM_TYPE(DT) * x, long from, long cells,
                              long x_step) {
    V most = VALUE_SPLAT(-INFINITY);
    for (long k = tdm_item_x(); k < cells; k += tdm_group_size_x())
        most = tdm_max_nan(most, CELL(k));
    return tdm_across(most, TDM_CODE_REDUCE_MAX);
}

TDM_DEVICE float tdm_item_sum(TDM_GLOBAL const TDM_TYPE(DT) *x, long from, long cells, long x_step,
                              float best) {
    tdm_running running = tdm_running_start(TDM_CODE_REDUCE_SUM);
    const V most = VALUE_SPLAT(best);
    const int items = tdm_group_size_x();
    long k = tdm_item_x();
    for (; k + (TDM_BLOCK - 1) * (long)items < cells; k += TDM_BLOCK * (long)items) {
        V block = VALUE_SPLAT(0.0f);
        BLOCK_UNROLL for (int n = 0; n < TDM_BLOCK; n++)
            block = block + tdm_exp(CELL(k + (long)n * items) - most);
        running = tdm_running_add(running, block, TDM_CODE_REDUCE_SUM);
    }
    V block = VALUE_SPLAT(0.0f);
    for (; k < cells; k += items)
        block = block + tdm_exp(CELL(k) - most);
    running = tdm_running_add(running, block, TDM_CODE_REDUCE_SUM);
    return tdm_across(tdm_running_end(running), TDM_CODE_REDUCE_SUM);
}

TDM_DEVICE void tdm_item_write(TDM_GLOBAL const TDM_TYPE(DT) *x, long from,
                               TDM_GLOBAL TDM_TYPE(DT) *y, long to, long cells, long x_step,
                               long y_step, float best, float sum) {
    const V most = VALUE_SPLAT(best), divisor = VALUE_SPLAT(sum);
    for (long k = tdm_item_x(); k < cells; k += tdm_group_size_x())
        TDM_STOREV_GLOBAL(N, DT, tdm_exp(CELL(k) - most) / divisor, y, to + CELL_AT(k, y_step));
}

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const TDM_TYPE(DT) * x, long x_offset, TDM_GLOBAL TDM_TYPE(DT) * y, long y_offset,
 tdm_dims outer, tdm_dims x_strides, tdm_dims y_strides, int rank, long rows, long inner,
 long count, long x_step, long y_step) {
    TDM_LOCAL_ARRAY(float, joined, MAX_GROUP);
    const int item = tdm_item_x();
    const long cells = count / N;
    const int tail = (int)(count - cells * N);
    for (long row = tdm_group_x(); row < rows; row += tdm_groups_x()) {
        tdm_dims along;
        tdm_row_along(&along, row, rank, &outer);
        const long from = x_offset + tdm_offset_along(&along, rank, &x_strides);
        const long to = y_offset + tdm_offset_along(&along, rank, &y_strides);
        float mine = OF_ROW(tdm_item_max, cells, x_step);
        if (item < tail)
            mine = tdm_max_nan(mine, TAIL);
        JOIN(joined, mine, TDM_CODE_REDUCE_MAX);
        const float best = joined[0];
        tdm_barrier();
        mine = OF_ROW(tdm_item_sum, cells, x_step, best);
        if (item < tail)
            mine += tdm_exp(TAIL - best);
        JOIN(joined, mine, TDM_CODE_REDUCE_SUM);
        const float sum = joined[0];
        tdm_barrier();
        if (TDM_IS_FROM_16(x + from) && TDM_IS_FROM_16(y + to))
            tdm_item_write(TDM_FROM_16(x + from), 0, TDM_FROM_16(y + to), 0, cells, x_step, y_step,
                           best, sum);
        else
            tdm_item_write(x, from, y, to, cells, x_step, y_step, best, sum);
        if (item < tail)
            TDM_STORE(DT, tdm_exp(TAIL - best) / sum, y, to + cells * N + item);
    }
}
