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
 * TDM_BUILT_IN_DIVIDE as divide.h says. With 16 lanes on CPU cores the parameters of many short groups are made at once,
 * codes are stored 64 at a time, and ranges and codes are found as quantize_finite.h says. */
#include "dialect.h"
#define TDM_CODES_OF_HALVES
#include "quantize_finite.h"
#include "quantize_types.h"

/* The parameters of many short groups at once, in arrays that a CPU core's cache holds. */
#if N == 16 && !defined(TDM_COLUMNS) && !defined(TDM_DIALECT_CXX) && !TDM_STANDS_BY
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

#if TDM_FINITE_CODES
/* The same of contiguous elements by their bits: an infinity and a NaN show. */
TDM_INLINE tdm_range tdm_range_by_bits(TDM_GLOBAL const TDM_TYPE(DT) * x, long from, long count,
                                       long ahead) {
    tdm_word_bits bits = tdm_word_bits_start(), other = bits;
    long k = 0;
#if TDM_HALF_PRODUCTS
    k = count / HALVES * HALVES;
    const tdm_range halves = tdm_range_of_bits(tdm_half_bits_of(x, from, k, ahead, 0), 0);
    bits = tdm_word_bits_add(tdm_word_bits_add(bits, halves.low, 0), halves.high, 0);
#endif
    for (; k + 2 * N <= count; k += 2 * N) {
        if ((k & 3 * N) == 0)
            tdm_prefetch_far(x + from + k + ahead);
        bits = tdm_word_bits_add(bits, TDM_LOADV_GLOBAL(N, DT, x, from + k), 0);
        other = tdm_word_bits_add(other, TDM_LOADV_GLOBAL(N, DT, x, from + k + N), 0);
    }
    for (; k < count; k += N)
        bits = tdm_word_bits_add(bits,
                                 tdm_some(x, from, k, 1, (int)(count - k < N ? count - k : N)), 0);
    return tdm_range_of_words(tdm_word_bits_join(bits, other), 0);
}
#endif

#if TDM_HALF_PRODUCTS
#define tdm_ask_for_row(p) tdm_prefetch(p) /* the first cache holds two rows of halves */
#else
#define tdm_ask_for_row(p) tdm_prefetch_far(p)
#endif

#if TDM_FINITE_CODES
#define PRODUCT(v, m) tdm_code_of_finite(v, m, zeros, side)
#else
#define PRODUCT(v, m) tdm_code_by_products(v, m)
#endif

#if TDM_BY_PRODUCTS
/* The whole vectors of a contiguous group, whose scale is plain; zeros and all of the type but streaming stand in the text. */
TDM_INLINE void tdm_whole_codes(TDM_GLOBAL const TDM_TYPE(DT) * x, long from, TDM_GLOBAL void *y,
                                long to, long count, long ahead, tdm_multiplier m, int zeros,
                                tdm_quant_side side, int type) {
    long k = 0;
    for (; k + CODES_LINE <= count; k += CODES_LINE) {
        I codes[CODES_LINE / N];
        TDM_UNROLL for (int v = 0; v < CODES_LINE / N; v++) {
            if (v != 0 && v * N * (int)sizeof *x % 64 == 0)
                tdm_ask_for_row(x + from + k + v * N + ahead);
            codes[v] = PRODUCT(TDM_LOADV_GLOBAL(N, DT, x, from + k + v * N), m);
        }
        tdm_store_line(type, codes, y, to + k);
    }
    for (; k + N <= count; k += N) {
        if ((k & 3 * N) != 0)
            tdm_ask_for_row(x + from + k + ahead);
        tdm_store_codes(type, PRODUCT(TDM_LOADV_GLOBAL(N, DT, x, from + k), m), y, to + k, N);
    }
}
#endif

TDM_BODY_OF_16 void tdm_quantize_group(TDM_GLOBAL const TDM_TYPE(DT) * x, long from, long x_step,
                                 TDM_GLOBAL void *y, long to, long y_step, long count, long ahead,
                                 tdm_parameter_place place, tdm_quant_arg arg) {
#if TDM_FINITE_CODES
    tdm_range range = tdm_range_by_bits(x, from, count, ahead);
#else
    tdm_range range = tdm_range_of_group(x, from, x_step, count, ahead, N < 16);
#endif
    const int finite = N < 16 || tdm_range_is_finite(range);
    if (!finite)
        range = tdm_range_of_group(x, from, x_step, count, ahead, 1);
    const tdm_quantizer q = tdm_derive_one(tdm_range_across(range, arg.target), place, arg.target);
    long k = 0;
#if TDM_BY_PRODUCTS
    if (tdm_products_fit(tdm_products_unfit(q.scale, arg.target.scale_type), finite)) {
        const tdm_multiplier m = tdm_multiplier_of(q);
        const int type = tdm_store_type(y, to, arg.target_type, arg.streams);
#define CALL(T) tdm_whole_codes(x, from, y, to, count, ahead, m, 0, arg.target, T)
#define CALL_ZEROS(T) tdm_whole_codes(x, from, y, to, count, ahead, m, 1, arg.target, T)
        BY_ZEROS(arg.target.zero_type != 0, type, CALL, CALL_ZEROS)
#undef CALL
#undef CALL_ZEROS
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

#if TDM_HALF_PRODUCTS
TDM_INLINE tdm_ushort32 tdm_every_other(tdm_ushort32 a, tdm_ushort32 b, int odds) {
    const F x = __builtin_astype(a, F), y = __builtin_astype(b, F);
    return __builtin_astype(
        odds ? TDM_CAT4(f32x, N, _, odds)(x, y) : TDM_CAT4(f32x, N, _, evens)(x, y), tdm_ushort32);
}

/* As tdm_greatest_of_each, of pairs. */
TDM_INLINE tdm_half_bits tdm_greatest_pairs_of_each(tdm_half_bits v[N], int symmetric) {
    TDM_UNROLL for (int width = N / 2; width > 0; width /= 2)
        TDM_UNROLL for (int i = 0; i < width; i++) {
        const tdm_ushort32 a = __builtin_astype(v[2 * i].high, tdm_ushort32);
        const tdm_ushort32 b = __builtin_astype(v[2 * i + 1].high, tdm_ushort32);
        v[i].high = tdm_greater_short(__builtin_astype(tdm_every_other(a, b, 0), tdm_short32),
                                      __builtin_astype(tdm_every_other(a, b, 1), tdm_short32));
        if (!symmetric)
            v[i].low = tdm_greater_ushort(tdm_every_other(v[2 * i].low, v[2 * i + 1].low, 0),
                                          tdm_every_other(v[2 * i].low, v[2 * i + 1].low, 1));
    }
    return v[0];
}

TDM_INLINE tdm_range tdm_ranges_of_halves(TDM_GLOBAL const TDM_TYPE(DT) * x, long from, long stride,
                                          int groups, int count, int symmetric) {
    tdm_half_bits bits[N];
    if (groups == N && count == HALVES) {
        TDM_UNROLL for (int group = 0; group < N; group++) {
            if (group % 2 == 0)
                tdm_prefetch_far(x + from + BYTES_AHEAD / (int)sizeof *x);
            bits[group] = tdm_half_bits_add(tdm_half_bits_start(), x, from, symmetric);
            from += stride;
        }
        return tdm_range_of_bits(tdm_greatest_pairs_of_each(bits, symmetric), symmetric);
    }
    for (int group = 0; group < N; group++) {
        bits[group] = tdm_half_bits_start();
        for (int k = 0; group < groups && k < count; k += HALVES) {
            bits[group] = tdm_half_bits_add(bits[group], x, from + k, symmetric);
            tdm_prefetch_far(x + from + k + BYTES_AHEAD / (int)sizeof *x);
        }
        from += stride;
    }
    return tdm_range_of_bits(tdm_greatest_pairs_of_each(bits, symmetric), symmetric);
}
#endif

#if TDM_FINITE_CODES
/* The range of a group of whole vectors by their bits. Of floats every other vector is asked for, the others when codes are made: else
 * memory would rest then. */
TDM_INLINE tdm_range tdm_range_of_short_group(TDM_GLOBAL const TDM_TYPE(DT) * x, long from,
                                              int count, int symmetric) {
    tdm_word_bits bits = tdm_word_bits_start();
    for (int k = 0; k < count; k += N) {
        bits = tdm_word_bits_add(bits, TDM_LOADV(N, DT, x, from + k), symmetric);
        if (TDM_HALF_PRODUCTS || k % (2 * N) == 0)
            tdm_prefetch_far(x + from + k + BYTES_AHEAD / (int)sizeof *x);
    }
    return tdm_range_of_words(bits, symmetric);
}
#endif

/* Lane i: the range of group i, `stride` elements after the one before; both ends are as far where there are no
 * zero points. Groups that are not there are empty. careful: as tdm_range_of_group; else
 * infinities show, and where codes are made of finite numbers NaN. */
TDM_INLINE tdm_range tdm_ranges_of_groups(TDM_GLOBAL const TDM_TYPE(DT) * x, long from, long stride,
                                          int groups, int count, int symmetric, int careful) {
#if TDM_HALF_PRODUCTS
    if (!careful && count % HALVES == 0)
        return tdm_ranges_of_halves(x, from, stride, groups, count, symmetric);
#endif
    F below[N], above[N];
    for (int group = 0; group < N; group++) {
        tdm_range range = tdm_range_start();
        int k = group < groups ? 0 : count;
#if TDM_FINITE_CODES
        if (!careful) {
            range = tdm_range_of_short_group(x, from, count - k, symmetric);
            k = count;
        }
#endif
        for (; k < count; k += N) {
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

/* Groups whose parameters are made before the first of their codes: one vector's make the core wait for each step. */
#define GROUPS_BLOCK 64

/* What makes the codes of groups: element i of each is group i's. */
typedef struct {
    float scale[GROUPS_BLOCK], mend[GROUPS_BLOCK], reciprocal[GROUPS_BLOCK];
    float low[GROUPS_BLOCK], high[GROUPS_BLOCK];
    int zero[GROUPS_BLOCK];
} tdm_group_steps;

/* Vector v of a group, of which those that ranges leave out ask for what follows. */
TDM_INLINE F tdm_vector_of_group(TDM_GLOBAL const TDM_TYPE(DT) * x, long from, int v) {
#if TDM_FINITE_CODES && !TDM_HALF_PRODUCTS
    if (v % 2 != 0)
        tdm_prefetch_far(x + from + v * N + BYTES_AHEAD / (int)sizeof *x);
#endif
    return TDM_LOADV(N, DT, x, from + v * N);
}

TDM_INLINE tdm_multiplier tdm_multiplier_at(const tdm_group_steps *steps, int group) {
    tdm_multiplier m;
    m.mend = K(steps->mend[group]);
    m.reciprocal = K(steps->reciprocal[group]);
    m.low = K(steps->low[group]);
    m.high = K(steps->high[group]);
    m.zero = TDM_INT_SPLAT(N, steps->zero[group]);
    return m;
}

TDM_INLINE void tdm_codes_of_groups(TDM_GLOBAL const TDM_TYPE(DT) * x, long from, long stride,
                                    TDM_GLOBAL void *y, long to, long y_stride, int groups,
                                    int count, const tdm_group_steps *steps, int products,
                                    int zeros, tdm_quant_side side, int type) {
    int group = 0;
    for (; products && count == CODES_LINE / 2 && y_stride == count && group + 2 <= groups;
         group += 2) {
        I codes[CODES_LINE / N];
        if (TDM_HALF_PRODUCTS) /* what the ranges did not ask for */
            tdm_prefetch_far(x + from + stride + BYTES_AHEAD / (int)sizeof *x);
        TDM_UNROLL for (int v = 0; v < CODES_LINE / N; v++) codes[v] =
            PRODUCT(tdm_vector_of_group(x, from + v / 2 * stride, v % 2),
                    tdm_multiplier_at(steps, group + v / 2));
        tdm_store_line(type, codes, y, to);
        from += 2 * stride;
        to += 2 * y_stride;
    }
    for (; group < groups; group++) {
        const tdm_multiplier m = tdm_multiplier_at(steps, group);
        const tdm_quantizer q =
            tdm_quantizer_make(K(steps->scale[group]), m.zero, side.low, side.high);
        int k = 0;
        for (; products && k + CODES_LINE <= count; k += CODES_LINE) {
            I codes[CODES_LINE / N];
            TDM_UNROLL for (int v = 0; v < CODES_LINE / N; v++) codes[v] =
                PRODUCT(tdm_vector_of_group(x, from + k, v), m);
            tdm_store_line(type, codes, y, to + k);
        }
        for (; k < count; k += N) {
            const F v = tdm_vector_of_group(x, from, k / N);
            tdm_store_codes(type, products ? PRODUCT(v, m) : tdm_code(v, q), y, to + k, N);
        }
        from += stride;
        to += y_stride;
    }
}

/* `groups` ≤ GROUPS_BLOCK groups of whole vectors. */
TDM_BODY_OF_16 void tdm_quantize_groups(TDM_GLOBAL const TDM_TYPE(DT) * x, long from, long stride,
                                  TDM_GLOBAL void *y, long to, long y_stride, int groups, int count,
                                  tdm_parameter_place place, tdm_quant_arg arg) {
    const int symmetric = arg.target.zero_type == 0;
    tdm_group_steps steps;
    tdm_range ranges[GROUPS_BLOCK / N], all = tdm_range_start();
    F unfit = K(0.0f);
    for (int group = 0; group < groups; group += N) {
        const long at = from + group * stride;
        const int left = groups - group < N ? groups - group : N;
        const tdm_range range = symmetric ? tdm_ranges_of_groups(x, at, stride, left, count, 1, 0)
                                          : tdm_ranges_of_groups(x, at, stride, left, count, 0, 0);
        all = tdm_range_widen(tdm_range_widen(all, range.low, 0), range.high, 0);
        ranges[group / N] = range;
    }
    const int finite = tdm_range_is_finite(all);
    for (int group = 0; group < groups; group += N) {
        const int left = groups - group < N ? groups - group : N;
        if (!finite)
            ranges[group / N] =
                tdm_ranges_of_groups(x, from + group * stride, stride, left, count, symmetric, 1);
        const tdm_quantizer q = tdm_derive(ranges[group / N], place, left, arg.target);
        const tdm_multiplier m = tdm_multiplier_of(q);
        TDM_STOREV(N, f32, q.scale, steps.scale, group);
        TDM_STOREV(N, f32, m.mend, steps.mend, group);
        TDM_STOREV(N, f32, m.reciprocal, steps.reciprocal, group);
        TDM_STOREV(N, f32, m.low, steps.low, group);
        TDM_STOREV(N, f32, m.high, steps.high, group);
        TDM_INT_STOREV(N, s32, q.zero, steps.zero, group);
        for (int lane = left; lane < N; lane++)
            steps.scale[group + lane] = 1.0f;
        unfit = unfit +
                tdm_products_unfit(TDM_LOADV(N, f32, steps.scale, group), arg.target.scale_type);
        place.s += N * place.scale_step;
        place.z += N * place.zero_step;
    }
#define CALL_(products, zeros, T)                                                                  \
    tdm_codes_of_groups(x, from, stride, y, to, y_stride, groups, count, &steps, products, zeros,  \
                        arg.target, T)
#if TDM_BY_PRODUCTS
#define CALL(T) CALL_(1, 0, T)
#define CALL_ZEROS(T) CALL_(1, 1, T)
    if (tdm_products_fit(unfit, finite)) {
        const int type = y_stride % N == 0 ? tdm_store_type(y, to, arg.target_type, arg.streams)
                                           : arg.target_type;
        BY_ZEROS(!symmetric, type, CALL, CALL_ZEROS)
        return;
    }
    CALL_(0, 0, arg.target_type);
#undef CALL_ZEROS
#else
#define CALL(T) CALL_(0, 0, T)
    BY_CODES(arg.target_type, CALL)
#endif
#undef CALL
#undef CALL_
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
        for (long row = first; row < last; row += GROUPS_BLOCK) {
            place.s = scale_offset + row * place.scale_step;
            place.z = zero_offset + row * place.zero_step;
            tdm_quantize_groups(x, x_offset + row * x_strides.v[0], x_strides.v[0], y,
                                y_offset + row * y_strides.v[0], y_strides.v[0],
                                (int)(last - row < GROUPS_BLOCK ? last - row : GROUPS_BLOCK),
                                (int)count, place, arg);
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
