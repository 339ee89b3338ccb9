/* As quantize_dynamic.cl, one work-group per group of elements: its items stride through the elements by
 * pairs, which may share a byte of s4, and a tree in local memory joins their ranges.
 *
 * The group size is a launch-time power of two up to 256. Defines: DT the source's type. */
#include "dialect.h"
#define N 1
#include "quantize_derive.h"

#define MAX_GROUP 256

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const TDM_TYPE(DT) *x, long x_offset, TDM_GLOBAL void *scale, long scale_offset,
 TDM_GLOBAL void *zero, long zero_offset, TDM_GLOBAL void *y, long y_offset, tdm_dims outer,
 tdm_dims x_strides, tdm_dims scale_strides, tdm_dims zero_strides, tdm_dims y_strides, int rank,
 long rows, long inner, long count, long x_step, long y_step, long x_column, long scale_column,
 long zero_column, tdm_quant_arg arg) {
    TDM_LOCAL_ARRAY(float, lows, MAX_GROUP);
    TDM_LOCAL_ARRAY(float, highs, MAX_GROUP);
    TDM_LOCAL_ARRAY(float, derived_scale, 1);
    const int item = tdm_item_x(), items = tdm_group_size_x();
    for (long row = tdm_group_x(); row < rows; row += tdm_groups_x()) {
        const long from = x_offset + tdm_row_offset(row, rank, &outer, &x_strides);
        const long to = y_offset + tdm_row_offset(row, rank, &outer, &y_strides);
        tdm_range range = tdm_range_start();
        for (long k = 2 * item; k < count; k += 2 * items) {
            range = tdm_range_add(range, TDM_LOAD(DT, x, from + k * x_step));
            if (k + 1 < count)
                range = tdm_range_add(range, TDM_LOAD(DT, x, from + (k + 1) * x_step));
        }
        lows[item] = range.low;
        highs[item] = range.high;
        tdm_barrier();
        for (int width = items / 2; width > 0; width /= 2) {
            if (item < width) {
                lows[item] = tdm_min(lows[item], lows[item + width]);
                highs[item] = tdm_max(highs[item], highs[item + width]);
            }
            tdm_barrier();
        }
        range.low = lows[0];
        range.high = highs[0];
        if (item == 0) {
            const long s = scale_offset + tdm_row_offset(row, rank, &outer, &scale_strides);
            const long z = zero_offset + tdm_row_offset(row, rank, &outer, &zero_strides);
            const float kept = tdm_keep_scale(tdm_derived_scale(range, arg.target), scale, s,
                                              arg.target.scale_type);
            tdm_keep_zero(tdm_derived_zero(range, kept, arg.target), zero, z,
                          arg.target.zero_type);
            derived_scale[0] = kept;
        }
        tdm_barrier();
        const float kept = derived_scale[0];
        const tdm_quantizer q = tdm_quantizer_make(kept, tdm_derived_zero(range, kept, arg.target),
                                                   arg.target.low, arg.target.high);
        for (long k = 2 * item; k < count; k += 2 * items) {
            tdm_store_codes(arg.target_type, tdm_code(TDM_LOAD(DT, x, from + k * x_step), q), y,
                            to + k * y_step, 1);
            if (k + 1 < count)
                tdm_store_codes(arg.target_type,
                                tdm_code(TDM_LOAD(DT, x, from + (k + 1) * x_step), q), y,
                                to + (k + 1) * y_step, 1);
        }
        tdm_barrier();
    }
}
