/* Derives scale and zero point of each group of x from the group itself; y = the group's quantized
 * values.
 *
 * A group is `count` elements, x_step and y_step apart; its other dimensions are outer.v[0 …
 * rank-1].
 *
 *   TDM_COLUMNS not defined   one work-item per group, N elements of it at a time (both steps are 1
 *                             if N > 1); work-items y take neighbouring groups
 *   TDM_COLUMNS               `inner` groups are side by side, one per lane, x_column apart in x, 1
 *                             in y; work-items x stride over them by N, work-items y over the outer
 *                             ones
 *
 * A group is read twice, the second time from the cache if it fits. Both elements of a byte of s4
 * belong to one work-item. Defines: DT the source's type, N vector width, TDM_BUILT_IN_DIVIDE as in
 * divide.h.
 *
 * On CPU cores that use quantize_finite.h, the next group's range is found while a group is
 * quantized. Memory is then read continuously and in order, as by a kernel that reads once. Short
 * groups use quantize_short_groups.h there. Quantized values that come from multiplications are
 * stored 64 at a time. */
#include "kernels/dialect/dialect.h"
#define TDM_CODES_OF_HALVES
#include "quantize_bits.h"
#include "quantize_types.h"

/* 1 if the next group's range is found while a group is quantized. */
#if TDM_FINITE_CODES && !defined(TDM_COLUMNS)
#define FINDS_NEXT 1
#else
#define FINDS_NEXT 0
#endif

#if TDM_FINITE_CODES
#define PRODUCT(v, m) tdm_code_of_finite(v, m, zeros, side)
#else
#define PRODUCT(v, m) tdm_code_by_products(v, m)
#endif

#ifdef TDM_COLUMNS
/* Loads lanes 0 … left-1, `column` apart. */
TDM_DEVICE F tdm_columns(TDM_GLOBAL const TDM_TYPE(DT) * x, long i, long column, int left) {
    if (column == 1 && left == N)
        return TDM_LOADV_GLOBAL(N, DT, x, i);
    float part[N];
    TDM_FEW_PASSES for (int lane = 0; lane < N; lane++) part[lane] =
        lane < left ? TDM_LOAD(DT, x, i + lane * column) : 0.0f;
    return TDM_LOADV(N, f32, part, 0);
}

TDM_DEVICE void tdm_quantize_columns(TDM_GLOBAL const TDM_TYPE(DT) * x, long from, long x_step,
                                     long x_column, TDM_GLOBAL void *y, long to, long y_step,
                                     long count, int left, tdm_parameter_place place,
                                     tdm_quant_arg arg) {
    tdm_range range = tdm_range_start();
    for (long k = 0; k < count; k++)
        range = tdm_range_add(range, tdm_columns(x, from + k * x_step, x_column, left));
    const tdm_quantizer q = tdm_derive(range, place, left, arg.target);
    for (long k = 0; k < count; k++)
        tdm_store_codes(arg.target_type,
                        tdm_code(tdm_columns(x, from + k * x_step, x_column, left), q), y,
                        to + k * y_step, left);
}
#else
TDM_DEVICE F tdm_some(TDM_GLOBAL const TDM_TYPE(DT) * x, long from, long k, long x_step, int left) {
    if (left == N)
        return TDM_LOADV_GLOBAL(N, DT, x, from + k * x_step);
    return TDM_LOAD_PART(DT, x, from + k, left, 0.0f);
}

/* Sets all lanes to the range that covers those of all lanes. Without zero points only the larger
 * end counts, and the range is made symmetric. */
TDM_DEVICE tdm_range tdm_range_across(tdm_range r, tdm_quant_side side) {
    if (side.zero_type == 0) {
        r.high = K(TDM_CAT4(f32x, N, _, hmax)(tdm_max(r.high, K(0.0f) - r.low)));
        r.low = K(0.0f) - r.high;
        return r;
    }
    r.low = K(TDM_CAT4(f32x, N, _, hmin)(r.low));
    r.high = K(TDM_CAT4(f32x, N, _, hmax)(r.high));
    return r;
}

/* Returns the range of a group. careful: values that are not finite count as 0; otherwise
 * infinities appear in the range. */
TDM_INLINE tdm_range tdm_range_of_group(TDM_GLOBAL const TDM_TYPE(DT) * x, long from, long x_step,
                                        long count, int careful) {
    tdm_range range = tdm_range_start(), other = range;
    long k = 0;
    for (; k + 2 * N <= count; k += 2 * N) {
        range = tdm_range_widen(range, TDM_LOADV_GLOBAL(N, DT, x, from + k * x_step), careful);
        other =
            tdm_range_widen(other, TDM_LOADV_GLOBAL(N, DT, x, from + (k + N) * x_step), careful);
    }
    for (; k < count; k += N) {
        const int left = (int)(count - k < N ? count - k : N);
        range = tdm_range_widen(range, tdm_some(x, from, k, x_step, left), careful);
    }
    return tdm_range_widen(tdm_range_widen(range, other.low, careful), other.high, careful);
}

/* Quantizes elements k … count-1 by division. */
TDM_INLINE void tdm_rest_of_codes(TDM_GLOBAL const TDM_TYPE(DT) * x, long from, long x_step,
                                  TDM_GLOBAL void *y, long to, long y_step, long k, long count,
                                  tdm_quantizer q, int type) {
    for (; k < count; k += N) {
        const int left = (int)(count - k < N ? count - k : N);
        tdm_store_codes(type, tdm_code(tdm_some(x, from, k, x_step, left), q), y, to + k * y_step,
                        left);
    }
}

#if TDM_BY_PRODUCTS
/* The first elements of a contiguous group and of the next one in x, which may be equal, and of the
 * group in y. */
typedef struct {
    long from, next, to, count;
} tdm_group;

#if FINDS_NEXT
/* Returns the range of the next group; `bits` holds that of its first k elements. */
TDM_INLINE tdm_range tdm_range_of_next(TDM_GLOBAL const TDM_TYPE(DT) * x, tdm_group g,
                                       tdm_bits bits, long k) {
    for (; k + CODES_LINE <= g.count; k += CODES_LINE)
        bits = tdm_bits_pass(bits, x, g.next + k, CODES_LINE, 0);
    const tdm_range range = tdm_range_of(bits, 0);
    tdm_word_bits rest = tdm_word_bits_start();
    for (; k < g.count; k += N)
        rest = tdm_word_bits_add(
            rest, tdm_some(x, g.next, k, 1, (int)(g.count - k < N ? g.count - k : N)), 0);
    const tdm_range last = tdm_range_of_words(rest, 0);
    return tdm_range_widen(tdm_range_widen(range, last.low, 0), last.high, 0);
}
#define START_NEXT tdm_bits bits = tdm_bits_start()
#define PASS_NEXT bits = tdm_bits_pass(bits, x, g.next + k, CODES_LINE, 0)
#define RANGE_OF_NEXT tdm_range_of_next(x, g, bits, k)
#else
#define START_NEXT (void)0
#define PASS_NEXT (void)0
#define RANGE_OF_NEXT tdm_range_start()
#endif

/* Quantizes the whole vectors of a group, whose scale is plain, and returns the next group's range
 * if FINDS_NEXT. `zeros` and all of `type` except TDM_STREAMED are literals. */
TDM_INLINE tdm_range tdm_whole_codes(TDM_GLOBAL const TDM_TYPE(DT) * x, TDM_GLOBAL void *y,
                                     tdm_group g, tdm_multiplier m, int zeros, tdm_quant_side side,
                                     int type) {
    START_NEXT;
    long k = 0;
    for (; k + CODES_LINE <= g.count; k += CODES_LINE) {
        I codes[CODES_LINE / N];
        PASS_NEXT;
        TDM_UNROLL for (int v = 0; v < CODES_LINE / N; v++) codes[v] =
            PRODUCT(TDM_LOADV_GLOBAL(N, DT, x, g.from + k + v * N), m);
        tdm_store_line(type, codes, y, g.to + k);
    }
    const tdm_range range = RANGE_OF_NEXT;
    for (; k + N <= g.count; k += N)
        tdm_store_codes(type, PRODUCT(TDM_LOADV_GLOBAL(N, DT, x, g.from + k), m), y, g.to + k, N);
    return range;
}

/* Quantizes a group. *range is its range on entry, and that of the next group on return. Without
 * FINDS_NEXT neither value is used. */
TDM_BODY void tdm_quantize_group(TDM_GLOBAL const TDM_TYPE(DT) * x, TDM_GLOBAL void *y, tdm_group g,
                                 tdm_parameter_place place, tdm_quant_arg arg, tdm_range *range) {
    if (!FINDS_NEXT)
        *range = tdm_range_of_group(x, g.from, 1, g.count, 0);
    const int finite = tdm_range_is_finite(*range);
    const tdm_range careful = finite ? *range : tdm_range_of_group(x, g.from, 1, g.count, 1);
    const tdm_quantizer q =
        tdm_derive_one(tdm_range_across(careful, arg.target), place, arg.target);
    if (!tdm_products_fit(tdm_products_unfit(q.scale, arg.target.scale_type), finite)) {
#if FINDS_NEXT
        *range = tdm_range_of_next(x, g, tdm_bits_start(), 0);
#endif
        tdm_rest_of_codes(x, g.from, 1, y, g.to, 1, 0, g.count, q, arg.target_type);
        return;
    }
    const tdm_multiplier m = tdm_multiplier_of(q);
    const int type = tdm_store_type(y, g.to, arg.target_type, arg.streams);
#define CALL(T) *range = tdm_whole_codes(x, y, g, m, 0, arg.target, T)
#define CALL_ZEROS(T) *range = tdm_whole_codes(x, y, g, m, 1, arg.target, T)
    BY_ZEROS(arg.target.zero_type != 0, type, CALL, CALL_ZEROS)
#undef CALL
#undef CALL_ZEROS
    tdm_rest_of_codes(x, g.from, 1, y, g.to, 1, g.count / N * N, g.count, q, arg.target_type);
}
#else
TDM_BODY_OF_16 void tdm_quantize_group(TDM_GLOBAL const TDM_TYPE(DT) * x, long from, long x_step,
                                       TDM_GLOBAL void *y, long to, long y_step, long count,
                                       tdm_parameter_place place, tdm_quant_arg arg) {
    const tdm_range range = tdm_range_of_group(x, from, x_step, count, 1);
    const tdm_quantizer q = tdm_derive_one(tdm_range_across(range, arg.target), place, arg.target);
    long k = 0;
#if N > 1
    TDM_WHOLE_CODES(arg.target_type, tdm_code(TDM_LOADV_GLOBAL(N, DT, x, from + k), q), y, to, k,
                    count)
#endif
    tdm_rest_of_codes(x, from, x_step, y, to, y_step, k, count, q, arg.target_type);
}
#endif

#if FINDS_NEXT
#include "quantize_short_groups.h"
#endif
#endif

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const TDM_TYPE(DT) * x, long x_offset, TDM_GLOBAL void *scale, long scale_offset,
 TDM_GLOBAL void *zero, long zero_offset, TDM_GLOBAL void *y, long y_offset, tdm_dims outer,
 tdm_dims x_strides, tdm_dims scale_strides, tdm_dims zero_strides, tdm_dims y_strides, int rank,
 long rows, long inner, long count, long x_step, long y_step, long x_column, long scale_column,
 long zero_column, tdm_quant_arg arg) {
    TDM_ITEM_BEGIN;
    TDM_ROW_SHARE(rows, first, last);
    tdm_parameter_place place;
    place.scale = scale;
    place.zero = zero;
    place.scale_step = scale_column;
    place.zero_step = zero_column;
#if FINDS_NEXT
    if (rank <= 1 && count <= SHORT_GROUP && count % BITS_VECTOR == 0 && scale_strides.v[0] <= 1 &&
        zero_strides.v[0] <= 1) {
        tdm_groups g;
        g.x = x, g.y = y;
        g.from = x_offset, g.x_stride = x_strides.v[0];
        g.to = y_offset, g.y_stride = y_strides.v[0];
        g.count = (int)count;
        g.place = place;
        g.place.s = scale_offset, g.place.scale_step = scale_strides.v[0];
        g.place.z = zero_offset, g.place.zero_step = zero_strides.v[0];
        g.arg = arg;
        g = tdm_groups_from(g, first);
        tdm_quantize_short_groups(&g, last - first);
        if (arg.streams)
            tdm_stream_end();
        return;
    }
#endif
#if TDM_BY_PRODUCTS && !defined(TDM_COLUMNS)
    tdm_group g;
    g.count = count;
    g.next = x_offset + tdm_row_offset(first, rank, &outer, &x_strides);
    tdm_range range = tdm_range_start();
#if FINDS_NEXT
    if (first < last)
        range = tdm_range_of_next(x, g, tdm_bits_start(), 0);
#endif
#endif
    for (long row = first; row < last; row++) {
        tdm_dims along;
        tdm_row_along(&along, row, rank, &outer);
        const long to = y_offset + tdm_offset_along(&along, rank, &y_strides);
        place.s = scale_offset + tdm_offset_along(&along, rank, &scale_strides);
        place.z = zero_offset + tdm_offset_along(&along, rank, &zero_strides);
#if TDM_BY_PRODUCTS && !defined(TDM_COLUMNS)
        g.from = g.next;
        g.to = to;
        if (row + 1 < last)
            g.next = x_offset + tdm_row_offset(row + 1, rank, &outer, &x_strides);
        tdm_quantize_group(x, y, g, place, arg, &range);
#else
        const long from = x_offset + tdm_offset_along(&along, rank, &x_strides);
#ifdef TDM_COLUMNS
        const long s = place.s, z = place.z;
        for (long i = tdm_global_x() * N; i < inner; i += tdm_global_size_x() * N) {
            place.s = s + i * scale_column;
            place.z = z + i * zero_column;
            tdm_quantize_columns(x, from + i * x_column, x_step, x_column, y, to + i, y_step, count,
                                 (int)(inner - i < N ? inner - i : N), place, arg);
        }
#else
        tdm_quantize_group(x, from, x_step, y, to, y_step, count, place, arg);
#endif
#endif
    }
    if (N > 1 && arg.streams)
        tdm_stream_end();
}
