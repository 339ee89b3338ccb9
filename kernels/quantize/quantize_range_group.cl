/* quantize_range.cl for CUDA. The work-items of a group share a strip of each row by cells of N
 * neighbours (N 1: elements any step apart). A tree in local memory joins their ranges.
 *
 *   group (x, y)    elements x·span … (x+1)·span - 1 of its share of the rows
 *                   → ranges[y][x] smallest, largest
 *
 * With TDM_JOIN, one group derives scale and zero point from `count` such ranges. The group size is
 * a launch-time power of two up to 256. Defines: DT the source's type (TDM_JOIN: none), N. */
#include "kernels/dialect/dialect.h"
#include "quantize_derive.h"

#define MAX_GROUP 256
#define CELLS_AT_ONCE 4

/* Joins the ranges of all work-items into lows[0] and highs[0]. All work-items must run it. */
#define JOIN_ITEMS(range)                                                                          \
    do {                                                                                           \
        lows[item] = TDM_CAT4(f32x, N, _, hmin)((range).low);                                      \
        highs[item] = TDM_CAT4(f32x, N, _, hmax)((range).high);                                    \
        tdm_barrier();                                                                             \
        for (int width = items / 2; width > 0; width /= 2) {                                       \
            if (item < width) {                                                                    \
                lows[item] = tdm_min(lows[item], lows[item + width]);                              \
                highs[item] = tdm_max(highs[item], highs[item + width]);                           \
            }                                                                                      \
            tdm_barrier();                                                                         \
        }                                                                                          \
    } while (0)

#ifdef TDM_JOIN
TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const float *ranges, long ranges_offset, TDM_GLOBAL void *scale, long scale_offset,
 TDM_GLOBAL void *zero, long zero_offset, long count, tdm_quant_arg arg) {
    TDM_LOCAL_ARRAY(float, lows, MAX_GROUP);
    TDM_LOCAL_ARRAY(float, highs, MAX_GROUP);
    const int item = tdm_item_x(), items = tdm_group_size_x();
    tdm_range range = tdm_range_start();
    for (long i = item; i < count; i += items) {
        range = tdm_range_add(range, ranges[ranges_offset + 2 * i]);
        range = tdm_range_add(range, ranges[ranges_offset + 2 * i + 1]);
    }
    JOIN_ITEMS(range);
    if (item > 0)
        return;
    range.low = lows[0];
    range.high = highs[0];
    tdm_parameter_place place;
    place.scale = scale;
    place.zero = zero;
    place.s = scale_offset;
    place.z = zero_offset;
    place.scale_step = 0;
    place.zero_step = 0;
    tdm_derive(range, place, 1, arg.target);
}
#else
#include "kernels/reduce/reduce_cells.h"

#if N == 1
#undef TDM_CELL
#define TDM_CELL(k) TDM_LOAD(DT, x, base + (k)*x_step)
#endif

TDM_DEVICE tdm_range tdm_range_of_cells(tdm_range range, TDM_GLOBAL const TDM_TYPE(DT) * x,
                                        long base, long x_step, long cells) {
    const int items = tdm_group_size_x();
    long k = tdm_item_x();
    TDM_FEW_PASSES for (; k + (CELLS_AT_ONCE - 1) * (long)items < cells;
                        k += CELLS_AT_ONCE * (long)items) {
        F v[CELLS_AT_ONCE];
        TDM_UNROLL for (int i = 0; i < CELLS_AT_ONCE; i++) v[i] = TDM_CELL(k + i * (long)items);
        TDM_UNROLL for (int i = 0; i < CELLS_AT_ONCE; i++) range = tdm_range_add(range, v[i]);
    }
    TDM_FEW_PASSES for (; k < cells; k += items) range = tdm_range_add(range, TDM_CELL(k));
    return range;
}

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const TDM_TYPE(DT) * x, long x_offset, TDM_GLOBAL float *ranges, long ranges_offset,
 tdm_dims shape, tdm_dims x_strides, int rank, long rows, long inner, long x_step, long span) {
    TDM_LOCAL_ARRAY(float, lows, MAX_GROUP);
    TDM_LOCAL_ARRAY(float, highs, MAX_GROUP);
    const int item = tdm_item_x(), items = tdm_group_size_x();
    const long start = tdm_group_x() * span;
    const long stop = start + span < inner ? start + span : inner;
    const long cells = (stop - start) / N;
    const int tail = (int)(stop - start - cells * N);
    TDM_ROW_SHARE(rows, first, last);
    tdm_range range = tdm_range_start();
    for (long row = first; row < last; row++) {
        const long from = x_offset + tdm_row_offset(row, rank, &shape, &x_strides) + start * x_step;
        if (TDM_IS_FROM_16(x + from))
            range = tdm_range_of_cells(range, TDM_FROM_16(x + from), 0, x_step, cells);
        else
            range = tdm_range_of_cells(range, x, from, x_step, cells);
        if (item < tail)
            range = tdm_range_add(range, K(TDM_LOAD(DT, x, from + cells * N + item)));
    }
    JOIN_ITEMS(range);
    if (item == 0) {
        const long place = ranges_offset + 2 * (tdm_group_y() * tdm_groups_x() + tdm_group_x());
        ranges[place] = lows[0];
        ranges[place + 1] = highs[0];
    }
}
#endif
