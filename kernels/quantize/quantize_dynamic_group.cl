/* quantize_dynamic.cl with one work-group per group of elements. Its work-items stride through the
 * elements by cells, and a tree in local memory joins their ranges.
 *
 *   N 1    a cell is a pair, which may share a byte of s4
 *   N 16   a cell is 16 neighbours (both steps are 1), see reduce_cells.h; the rest of the group is
 *          pairs
 *
 * The group size is a launch-time power of two up to 256. Defines: DT the source's type, N,
 * TDM_BUILT_IN_DIVIDE as in divide.h. */
#include "kernels/dialect/dialect.h"
#include "quantize_derive.h"
#include "kernels/reduce/reduce_cells.h"

#define MAX_GROUP 256

#if N > 1
/* Returns the range of the work-item's cells, two at a time. */
TDM_DEVICE tdm_range tdm_range_of_cells(TDM_GLOBAL const TDM_TYPE(DT) * x, long base, long cells) {
    const int items = tdm_group_size_x();
    tdm_range range = tdm_range_start();
    long k = tdm_item_x();
    TDM_FEW_PASSES for (; k + items < cells; k += 2 * (long)items) {
        const F v = TDM_CELL(k), w = TDM_CELL(k + items);
        range = tdm_range_add(tdm_range_add(range, v), w);
    }
    if (k < cells)
        range = tdm_range_add(range, TDM_CELL(k));
    return range;
}

/* These quantize the work-item's cells: by division, and by multiplications for a plain scale. */
#define EACH_CELL(code)                                                                            \
    TDM_FEW_PASSES for (long k = tdm_item_x(); k < cells; k += tdm_group_size_x())                 \
        tdm_store_codes(type, code, y, to + k * N, N);
TDM_DEVICE void tdm_codes_of_cells(TDM_GLOBAL const TDM_TYPE(DT) * x, long base, long cells,
                                   TDM_GLOBAL void *y, long to, tdm_quantizer q,
                                   int type){EACH_CELL(tdm_code(TDM_CELL(k), q))} TDM_DEVICE
    void tdm_products_of_cells(TDM_GLOBAL const TDM_TYPE(DT) * x, long base, long cells,
                               TDM_GLOBAL void *y, long to, tdm_multiplier m, int type) {
    EACH_CELL(tdm_code_by_products(TDM_CELL(k), m))
}
#endif

/* Loads one element into all lanes. */
#define ELEMENT(k) K(TDM_LOAD(DT, x, from + (k)*x_step))
#define STORE_ELEMENT(k)                                                                           \
    tdm_store_codes(arg.target_type, tdm_code(ELEMENT(k), q), y, to + (k)*y_step, 1)
/* Returns any lane of a vector of equal lanes. */
#define ANY_LANE(v) TDM_CAT4(f32x, N, _, hmax)(v)

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const TDM_TYPE(DT) * x, long x_offset, TDM_GLOBAL void *scale, long scale_offset,
 TDM_GLOBAL void *zero, long zero_offset, TDM_GLOBAL void *y, long y_offset, tdm_dims outer,
 tdm_dims x_strides, tdm_dims scale_strides, tdm_dims zero_strides, tdm_dims y_strides, int rank,
 long rows, long inner, long count, long x_step, long y_step, long x_column, long scale_column,
 long zero_column, tdm_quant_arg arg) {
    TDM_LOCAL_ARRAY(float, lows, MAX_GROUP);
    TDM_LOCAL_ARRAY(float, highs, MAX_GROUP);
    TDM_LOCAL_ARRAY(float, derived_scale, 1);
    const int item = tdm_item_x(), items = tdm_group_size_x();
    const long cells = N > 1 ? count / N : 0;
    for (long row = tdm_group_x(); row < rows; row += tdm_groups_x()) {
        const long from = x_offset + tdm_row_offset(row, rank, &outer, &x_strides);
        const long to = y_offset + tdm_row_offset(row, rank, &outer, &y_strides);
        tdm_range range = tdm_range_start();
#if N > 1
        if (TDM_IS_FROM_16(x + from))
            range = tdm_range_of_cells(TDM_FROM_16(x + from), 0, cells);
        else
            range = tdm_range_of_cells(x, from, cells);
#endif
        for (long k = cells * N + 2 * item; k < count; k += 2 * items) {
            range = tdm_range_add(range, ELEMENT(k));
            if (k + 1 < count)
                range = tdm_range_add(range, ELEMENT(k + 1));
        }
        lows[item] = TDM_CAT4(f32x, N, _, hmin)(range.low);
        highs[item] = TDM_CAT4(f32x, N, _, hmax)(range.high);
        tdm_barrier();
        for (int width = items / 2; width > 0; width /= 2) {
            if (item < width) {
                lows[item] = tdm_min(lows[item], lows[item + width]);
                highs[item] = tdm_max(highs[item], highs[item + width]);
            }
            tdm_barrier();
        }
        range.low = K(lows[0]);
        range.high = K(highs[0]);
        if (item == 0) {
            const long s = scale_offset + tdm_row_offset(row, rank, &outer, &scale_strides);
            const long z = zero_offset + tdm_row_offset(row, rank, &outer, &zero_strides);
            const float kept = tdm_keep_scale(ANY_LANE(tdm_derived_scale(range, arg.target)), scale,
                                              s, arg.target.scale_type);
            int zeros[N];
            TDM_INT_STOREV(N, s32, tdm_derived_zero(range, K(kept), arg.target), zeros, 0);
            tdm_keep_zero(zeros[0], zero, z, arg.target.zero_type);
            derived_scale[0] = kept;
        }
        tdm_barrier();
        const F kept = K(derived_scale[0]);
        const tdm_quantizer q = tdm_quantizer_make(kept, tdm_derived_zero(range, kept, arg.target),
                                                   arg.target.low, arg.target.high);
#if N > 1
        if (!tdm_scales_are_plain(q.scale))
            tdm_codes_of_cells(x, from, cells, y, to, q, arg.target_type);
        else if (TDM_IS_FROM_16(x + from))
            tdm_products_of_cells(TDM_FROM_16(x + from), 0, cells, y, to, tdm_multiplier_of(q),
                                  arg.target_type);
        else
            tdm_products_of_cells(x, from, cells, y, to, tdm_multiplier_of(q), arg.target_type);
#endif
        for (long k = cells * N + 2 * item; k < count; k += 2 * items) {
            STORE_ELEMENT(k);
            if (k + 1 < count)
                STORE_ELEMENT(k + 1);
        }
        tdm_barrier();
    }
}
