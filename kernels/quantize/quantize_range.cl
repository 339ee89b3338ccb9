/* Derives the parameters of a whole tensor, in two launches.
 *
 * Without TDM_JOIN, each work-item finds the range of its share of x. It writes this range at its
 * own offset in `ranges`, as two floats: the smallest and the largest element. strided_rows.h
 * describes the rows. With TDM_JOIN, one work-item derives scale and zero point from `count` such
 * ranges.
 *
 * Defines: DT the source's type, N vector width (1 for TDM_JOIN). */
#include "kernels/dialect/dialect.h"
#include "quantize_derive.h"

#ifdef TDM_JOIN
TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const float *ranges, long ranges_offset, TDM_GLOBAL void *scale, long scale_offset,
 TDM_GLOBAL void *zero, long zero_offset, long count, tdm_quant_arg arg) {
    TDM_ITEM_BEGIN;
    tdm_range range = tdm_range_start();
    for (long i = 0; i < count; i++) {
        range = tdm_range_add(range, ranges[ranges_offset + 2 * i]);
        range = tdm_range_add(range, ranges[ranges_offset + 2 * i + 1]);
    }
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
TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const TDM_TYPE(DT) *x, long x_offset, TDM_GLOBAL float *ranges, long ranges_offset,
 tdm_dims shape, tdm_dims x_strides, int rank, long rows, long inner, long x_step, long span) {
    TDM_ITEM_BEGIN;
    const long start = tdm_global_x() * span;
    const long stop = start + span < inner ? start + span : inner;
    TDM_ROW_SHARE(rows, first, last);
    tdm_range range = tdm_range_start(), other = range;
    for (long row = first; row < last; row++) {
        const long from = x_offset + tdm_row_offset(row, rank, &shape, &x_strides);
        long i = start;
        for (; i + 2 * N <= stop; i += 2 * N) {
            range = tdm_range_add(range, TDM_LOADV_GLOBAL(N, DT, x, from + i * x_step));
            other = tdm_range_add(other, TDM_LOADV_GLOBAL(N, DT, x, from + (i + N) * x_step));
        }
        for (; i < stop; i++)
            range = tdm_range_add(range, K(TDM_LOAD(DT, x, from + i * x_step)));
    }
    range = tdm_range_add(tdm_range_add(range, other.low), other.high);
    const long place = ranges_offset + 2 * (tdm_global_y() * tdm_global_size_x() + tdm_global_x());
    ranges[place] = TDM_CAT4(f32x, N, _, hmin)(range.low);
    ranges[place + 1] = TDM_CAT4(f32x, N, _, hmax)(range.high);
}
#endif
