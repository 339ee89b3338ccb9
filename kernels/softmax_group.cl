/* y = exp(x - max) / Σ exp(x - max) along one dimension, one work-group per row: items stride through
 * the row, trees in local memory join their maxima and sums. Rows and rules as in softmax.cl.
 *
 * The group size is a launch-time power of two up to 256. Defines: DT storage type. */
#include "dialect.h"
#include "strided_rows.h"
#define N 1
#include "reduce_steps.h"

#define MAX_GROUP 256

/* joined[0] of all items' values of `mine`. Uniform: all items run it. A macro, because PoCL 3.1 lets the
 * groups of different threads share a local array that is handed to a function. */
#define JOIN(joined, mine, op)                                                                     \
    do {                                                                                           \
        joined[item] = mine;                                                                       \
        tdm_barrier();                                                                             \
        for (int width = tdm_group_size_x() / 2; width > 0; width /= 2) {                          \
            if (item < width)                                                                      \
                joined[item] = tdm_step_one(joined[item], joined[item + width], op);               \
            tdm_barrier();                                                                         \
        }                                                                                          \
    } while (0)

TDM_DEVICE float tdm_item_sum(TDM_GLOBAL const TDM_TYPE(DT) *x, long from, long count, long x_step,
                              float best) {
    tdm_running running = tdm_running_start(TDM_CODE_REDUCE_SUM);
    const int items = tdm_group_size_x();
    long k = tdm_item_x();
    for (; k + (TDM_BLOCK - 1) * (long)items < count; k += TDM_BLOCK * (long)items) {
        float block = 0.0f;
        TDM_UNROLL for (int n = 0; n < TDM_BLOCK; n++)
            block += tdm_exp(TDM_LOAD(DT, x, from + (k + (long)n * items) * x_step) - best);
        running = tdm_running_add(running, block, TDM_CODE_REDUCE_SUM);
    }
    float block = 0.0f;
    for (; k < count; k += items)
        block += tdm_exp(TDM_LOAD(DT, x, from + k * x_step) - best);
    running = tdm_running_add(running, block, TDM_CODE_REDUCE_SUM);
    return tdm_running_end(running);
}

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const TDM_TYPE(DT) *x, long x_offset, TDM_GLOBAL TDM_TYPE(DT) *y, long y_offset,
 tdm_dims outer, tdm_dims x_strides, tdm_dims y_strides, int rank, long rows, long inner, long count,
 long x_step, long y_step) {
    TDM_LOCAL_ARRAY(float, joined, MAX_GROUP);
    const int item = tdm_item_x();
    for (long row = tdm_group_x(); row < rows; row += tdm_groups_x()) {
        tdm_dims along;
        tdm_row_along(&along, row, rank, &outer);
        const long from = x_offset + tdm_offset_along(&along, rank, &x_strides);
        const long to = y_offset + tdm_offset_along(&along, rank, &y_strides);
        float mine = -INFINITY;
        for (long k = tdm_item_x(); k < count; k += tdm_group_size_x())
            mine = tdm_max_nan(mine, TDM_LOAD(DT, x, from + k * x_step));
        JOIN(joined, mine, TDM_CODE_REDUCE_MAX);
        const float best = joined[0];
        tdm_barrier();
        mine = tdm_item_sum(x, from, count, x_step, best);
        JOIN(joined, mine, TDM_CODE_REDUCE_SUM);
        const float sum = joined[0];
        tdm_barrier();
        for (long k = tdm_item_x(); k < count; k += tdm_group_size_x()) {
            const float v = tdm_exp(TDM_LOAD(DT, x, from + k * x_step) - best) / sum;
            TDM_STORE(DT, v, y, to + k * y_step);
        }
    }
}
