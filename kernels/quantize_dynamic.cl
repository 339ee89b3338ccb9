/* Scale and zero point of each group of x from the group itself, and y = the group's codes.
 *
 * A group is `count` elements, x_step and y_step apart; its other dimensions are outer.v[0 … rank-1].
 *
 *   TDM_COLUMNS not defined   one work-item per group, N elements of it at a time (both steps are 1
 *                             where N > 1); work-items y take neighbouring groups
 *   TDM_COLUMNS               `inner` groups stand side by side, one per lane, x_column apart in x, 1
 *                             in y; work-items x stride over them by N, work-items y over the outer ones
 *
 * The second reading of a group is from the cache, unless it is longer than that. Both ask for the next
 * group (`ahead` is the distance, where rows are one dimension), so that memory is busy all the time: the first, which does less for
 * an element, for every fourth vector of it. Both elements of a
 * byte of s4 belong to one work-item. Defines: DT the source's type, N vector width,
 * TDM_BUILT_IN_DIVIDE as divide.h says. With 16 lanes on CPU cores the parameters of 16 short groups are made at once. */
#include "dialect.h"
#include "quantize_derive.h"

/* One call for each type that the launch may give, as in quant_rows.h. */
#ifdef TDM_DIALECT_CXX
#define BY_CODES(type, call) call(type);
#else
#define EACH_CODES(type, call)                                                                     \
    case type:                                                                                     \
        call(type);                                                                                \
        break;
#if TDM_BY_PRODUCTS && defined(TDM_CAN_STREAM)
#define EACH_STREAMED(call)                                                                        \
    EACH_CODES(TDM_STREAMED + TDM_CODE_S8, call)                                                   \
    EACH_CODES(TDM_STREAMED + TDM_CODE_U8, call)                                                   \
    EACH_CODES(TDM_STREAMED + TDM_CODE_S4, call)
#else
#define EACH_STREAMED(call)
#endif
#define BY_CODES(type, call)                                                                       \
    switch (type) {                                                                                \
        EACH_CODES(TDM_CODE_S8, call)                                                              \
        EACH_CODES(TDM_CODE_U8, call)                                                              \
        EACH_CODES(TDM_CODE_S4, call)                                                              \
        EACH_STREAMED(call)                                                                        \
    }
#endif

/* The parameters of 16 short groups at once, in arrays that a CPU core's cache holds. */
#if N == 16 && !defined(TDM_COLUMNS) && !defined(TDM_DIALECT_CXX)
#define SHORT_GROUPS
#endif

#ifdef TDM_COLUMNS
/* Lanes 0 … left-1, `column` apart. */
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

/* All lanes hold the widest of them; where only the larger end counts, both ends are as far. */
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

/* The range of a group; careful: what is not finite counts as 0, else infinities show. */
TDM_INLINE tdm_range tdm_range_of_group(TDM_GLOBAL const TDM_TYPE(DT) * x, long from, long x_step,
                                        long count, long ahead, int careful) {
    tdm_range range = tdm_range_start(), other = range;
    long k = 0;
    for (; k + 2 * N <= count; k += 2 * N) {
        if (TDM_BY_PRODUCTS && (k & 3 * N) == 0)
            tdm_prefetch_far(x + from + k + ahead);
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

#if TDM_BY_PRODUCTS
/* The whole vectors of a contiguous group, whose scale is plain; the type stands in the text. */
TDM_INLINE void tdm_whole_codes(TDM_GLOBAL const TDM_TYPE(DT) * x, long from, TDM_GLOBAL void *y,
                                long to, long count, long ahead, tdm_multiplier m, int type) {
    for (long k = 0; k + N <= count; k += N) {
        if ((k & 3 * N) != 0)
            tdm_prefetch_far(x + from + k + ahead);
        tdm_store_codes(type, tdm_code_by_products(TDM_LOADV_GLOBAL(N, DT, x, from + k), m), y,
                        to + k, N);
    }
}
#endif

TDM_DEVICE void tdm_quantize_group(TDM_GLOBAL const TDM_TYPE(DT) * x, long from, long x_step,
                                   TDM_GLOBAL void *y, long to, long y_step, long count, long ahead,
                                   tdm_parameter_place place, tdm_quant_arg arg) {
    tdm_range range = tdm_range_of_group(x, from, x_step, count, ahead, N < 16);
    if (N == 16 && !tdm_range_is_finite(range))
        range = tdm_range_of_group(x, from, x_step, count, ahead, 1);
    const tdm_quantizer q = tdm_derive_one(tdm_range_across(range, arg.target), place, arg.target);
    long k = 0;
#if TDM_BY_PRODUCTS
    if (tdm_scales_are_plain(q.scale)) {
        const tdm_multiplier m = tdm_multiplier_of(q);
#define CALL(T) tdm_whole_codes(x, from, y, to, count, ahead, m, T)
        BY_CODES(tdm_store_type(y, to, arg.target_type, arg.streams), CALL)
#undef CALL
        k = count / N * N;
    }
#elif N > 1
    TDM_WHOLE_CODES(
        arg.target_type,
        (tdm_prefetch_far(x + from + k + ahead), tdm_code(TDM_LOADV_GLOBAL(N, DT, x, from + k), q)),
        y, to, k, count)
#endif
    for (; k < count; k += N) {
        const int left = (int)(count - k < N ? count - k : N);
        tdm_store_codes(arg.target_type, tdm_code(tdm_some(x, from, k, x_step, left), q), y,
                        to + k * y_step, left);
    }
}

#ifdef SHORT_GROUPS
#define SHORT_GROUP 256
#define BYTES_AHEAD 8192

/* Lane i: the greatest element of v[i]. */
TDM_INLINE F tdm_greatest_of_each(F v[N]) {
    TDM_UNROLL for (int width = N / 2; width > 0; width /= 2)
        TDM_UNROLL for (int i = 0; i < width; i++) {
        const F even = TDM_CAT4(f32x, N, _, evens)(v[2 * i], v[2 * i + 1]);
        const F odd = TDM_CAT4(f32x, N, _, odds)(v[2 * i], v[2 * i + 1]);
        v[i] = TDM_SELECT_LT(N, even, odd, odd, even);
    }
    return v[0];
}

/* Lane i: the range of group i, `stride` elements after the one before; both ends are as far where there are no
 * zero points. Groups that are not there are empty. careful: as tdm_range_of_group. */
TDM_INLINE tdm_range tdm_ranges_of_groups(TDM_GLOBAL const TDM_TYPE(DT) * x, long from, long stride,
                                          int groups, int count, int symmetric, int careful) {
    F below[N], above[N];
    for (int group = 0; group < N; group++) {
        tdm_range range = tdm_range_start();
        for (int k = 0; group < groups && k < count; k += N) {
            const F v = TDM_LOADV(N, DT, x, from + k);
            tdm_prefetch_far(x + from + k + BYTES_AHEAD / (int)sizeof *x);
            range = tdm_range_widen(range, symmetric ? tdm_abs(v) : v, careful);
        }
        below[group] = K(0.0f) - range.low;
        above[group] = range.high;
        from += stride;
    }
    tdm_range ranges;
    ranges.high = tdm_greatest_of_each(above);
    ranges.low = K(0.0f) - (symmetric ? ranges.high : tdm_greatest_of_each(below));
    return ranges;
}

/* What makes the codes of N groups: element i of each is group i's. */
typedef struct {
    float scale[N], reciprocal[N], low[N], high[N];
    int zero[N];
} tdm_group_steps;

TDM_INLINE void tdm_codes_of_groups(TDM_GLOBAL const TDM_TYPE(DT) * x, long from, long stride,
                                    TDM_GLOBAL void *y, long to, long y_stride, int groups,
                                    int count, const tdm_group_steps *steps, int products,
                                    int type) {
    for (int group = 0; group < groups; group++) {
        tdm_quantizer q;
        q.scale = K(steps->scale[group]);
        q.low = K(steps->low[group]);
        q.high = K(steps->high[group]);
        q.zero = TDM_INT_SPLAT(N, steps->zero[group]);
        const tdm_multiplier m = {q.scale, K(steps->reciprocal[group]), q.low, q.high, q.zero};
        for (int k = 0; k < count; k += N) {
            const F v = TDM_LOADV(N, DT, x, from + k);
            tdm_store_codes(type, products ? tdm_code_by_products(v, m) : tdm_code(v, q), y, to + k,
                            N);
        }
        from += stride;
        to += y_stride;
    }
}

/* `groups` ≤ N groups of whole vectors. */
TDM_INLINE void tdm_quantize_groups(TDM_GLOBAL const TDM_TYPE(DT) * x, long from, long stride,
                                    TDM_GLOBAL void *y, long to, long y_stride, int groups,
                                    int count, tdm_parameter_place place, tdm_quant_arg arg) {
    tdm_group_steps steps;
    tdm_range ranges;
    if (arg.target.zero_type == 0)
        ranges = tdm_ranges_of_groups(x, from, stride, groups, count, 1, 0);
    else
        ranges = tdm_ranges_of_groups(x, from, stride, groups, count, 0, 0);
    if (!tdm_range_is_finite(ranges))
        ranges = tdm_ranges_of_groups(x, from, stride, groups, count, arg.target.zero_type == 0, 1);
    const tdm_quantizer q = tdm_derive(ranges, place, groups, arg.target);
    TDM_STOREV(N, f32, q.scale, steps.scale, 0);
    TDM_INT_STOREV(N, s32, q.zero, steps.zero, 0);
#if TDM_BY_PRODUCTS
    if (tdm_scales_are_plain(q.scale)) {
        const tdm_multiplier m = tdm_multiplier_of(q);
        TDM_STOREV(N, f32, m.reciprocal, steps.reciprocal, 0);
        TDM_STOREV(N, f32, m.low, steps.low, 0);
        TDM_STOREV(N, f32, m.high, steps.high, 0);
#define CALL(T) tdm_codes_of_groups(x, from, stride, y, to, y_stride, groups, count, &steps, 1, T)
        BY_CODES(y_stride % N == 0 ? tdm_store_type(y, to, arg.target_type, arg.streams)
                                   : arg.target_type,
                 CALL)
#undef CALL
        return;
    }
#endif
    TDM_STOREV(N, f32, q.scale, steps.reciprocal, 0);
    TDM_STOREV(N, f32, q.low, steps.low, 0);
    TDM_STOREV(N, f32, q.high, steps.high, 0);
#define CALL(T) tdm_codes_of_groups(x, from, stride, y, to, y_stride, groups, count, &steps, 0, T)
    BY_CODES(arg.target_type, CALL)
#undef CALL
}
#endif
#endif

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const TDM_TYPE(DT) * x, long x_offset, TDM_GLOBAL void *scale, long scale_offset,
 TDM_GLOBAL void *zero, long zero_offset, TDM_GLOBAL void *y, long y_offset, tdm_dims outer,
 tdm_dims x_strides, tdm_dims scale_strides, tdm_dims zero_strides, tdm_dims y_strides, int rank,
 long rows, long inner, long count, long x_step, long y_step, long x_column, long scale_column,
 long zero_column, tdm_quant_arg arg) {
    TDM_ROW_SHARE(rows, first, last);
    tdm_parameter_place place;
    place.scale = scale;
    place.zero = zero;
    place.scale_step = scale_column;
    place.zero_step = zero_column;
#ifdef SHORT_GROUPS
    place.scale_step = scale_strides.v[0];
    place.zero_step = zero_strides.v[0];
    if (rank <= 1 && count <= SHORT_GROUP && count % N == 0 && place.scale_step <= 1 &&
        place.zero_step <= 1) {
        for (long row = first; row < last; row += N) {
            place.s = scale_offset + row * place.scale_step;
            place.z = zero_offset + row * place.zero_step;
            tdm_quantize_groups(x, x_offset + row * x_strides.v[0], x_strides.v[0], y,
                                y_offset + row * y_strides.v[0], y_strides.v[0],
                                (int)(last - row < N ? last - row : N), (int)count, place, arg);
        }
        if (arg.streams)
            tdm_stream_end();
        return;
    }
#endif
    for (long row = first; row < last; row++) {
        tdm_dims along;
        tdm_row_along(&along, row, rank, &outer);
        const long from = x_offset + tdm_offset_along(&along, rank, &x_strides);
        const long to = y_offset + tdm_offset_along(&along, rank, &y_strides);
        const long s = scale_offset + tdm_offset_along(&along, rank, &scale_strides);
        const long z = zero_offset + tdm_offset_along(&along, rank, &zero_strides);
#ifdef TDM_COLUMNS
        for (long i = tdm_global_x() * N; i < inner; i += tdm_global_size_x() * N) {
            place.s = s + i * scale_column;
            place.z = z + i * zero_column;
            tdm_quantize_columns(x, from + i * x_column, x_step, x_column, y, to + i, y_step, count,
                                 (int)(inner - i < N ? inner - i : N), place, arg);
        }
#else
        place.s = s;
        place.z = z;
        tdm_quantize_group(x, from, x_step, y, to, y_step, count, x_strides.v[0], place, arg);
#endif
    }
    if (N > 1 && arg.streams)
        tdm_stream_end();
}
