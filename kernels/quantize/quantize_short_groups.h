/* Contiguous groups of a few whole vectors, for quantize_dynamic.cl. The parameters of a block of
 * groups are derived at once. While the block is quantized, the ranges of the next block are found,
 * group by group. */
#ifndef TDM_QUANTIZE_SHORT_GROUPS_H
#define TDM_QUANTIZE_SHORT_GROUPS_H

#define SHORT_GROUP 256

/* Number of groups whose parameters are derived before the first is quantized. With one vector of
 * groups, the core would wait for each step. */
#define GROUPS_BLOCK 64

/* Groups of `count` elements each: the offsets of the first group in x and y, and the strides to
 * the others. */
typedef struct {
    TDM_GLOBAL const TDM_TYPE(DT) * x;
    TDM_GLOBAL void *y;
    long from, to, x_stride, y_stride;
    int count;
    tdm_parameter_place place;
    tdm_quant_arg arg;
} tdm_groups;

TDM_INLINE tdm_groups tdm_groups_from(tdm_groups g, long group) {
    g.from += group * g.x_stride;
    g.to += group * g.y_stride;
    g.place.s += group * g.place.scale_step;
    g.place.z += group * g.place.zero_step;
    return g;
}

/* ---- ranges ---- */

TDM_INLINE tdm_bits tdm_bits_of_group(TDM_GLOBAL const TDM_TYPE(DT) * x, long from, int count,
                                      int symmetric) {
    tdm_bits bits = tdm_bits_start();
    for (int k = 0; k < count; k += BITS_VECTOR)
        bits = tdm_bits_pass(bits, x, from + k, BITS_VECTOR, symmetric);
    return bits;
}

/* Stores bits; for a symmetric range the low end is not stored. */
TDM_INLINE void tdm_keep_bits(tdm_bits *to, tdm_bits bits, int symmetric) {
    to->high = bits.high;
    if (!symmetric)
        to->low = bits.low;
}

/* Every other element of a, then of b. */
#define EVENS(T, a, b)                                                                             \
    __builtin_astype(TDM_CAT4(f32x, N, _, evens)(__builtin_astype(a, F), __builtin_astype(b, F)), T)
#define ODDS(T, a, b)                                                                              \
    __builtin_astype(TDM_CAT4(f32x, N, _, odds)(__builtin_astype(a, F), __builtin_astype(b, F)), T)

/* Returns in lane i the bits that join all lanes of of[i]. */
TDM_INLINE tdm_bits tdm_bits_of_each(const tdm_bits of[N], int symmetric) {
    tdm_bits v[N];
    TDM_UNROLL for (int i = 0; i < N; i++) {
        v[i].high = of[i].high;
        v[i].low = symmetric ? tdm_bits_start().low : of[i].low;
    }
    TDM_UNROLL for (int width = N / 2; width > 0; width /= 2)
        TDM_UNROLL for (int i = 0; i < width; i++) {
        const tdm_bits a = v[2 * i], b = v[2 * i + 1];
        tdm_bits even, odd;
        even.high = EVENS(BITS_HIGH, a.high, b.high);
        odd.high = ODDS(BITS_HIGH, a.high, b.high);
        even.low = EVENS(BITS_LOW, a.low, b.low);
        odd.low = ODDS(BITS_LOW, a.low, b.low);
        v[i] = tdm_bits_join(even, odd);
    }
    return v[0];
}

/* Sets lane i to the range of group i. */
TDM_BODY void tdm_ranges_of_groups(const tdm_bits of[N], int symmetric, tdm_range *ranges) {
    if (symmetric)
        *ranges = tdm_range_of(tdm_bits_of_each(of, 1), 1);
    else
        *ranges = tdm_range_of(tdm_bits_of_each(of, 0), 0);
}

/* Returns in lane i the range of group i of `groups` groups; values that are not finite count as 0.
 * Other lanes have empty ranges. */
TDM_INLINE tdm_range tdm_ranges_of_finite(tdm_groups g, int groups) {
    float low[N], high[N];
    for (int i = 0; i < N; i++) {
        const tdm_range range =
            tdm_range_of_group(g.x, g.from + i * g.x_stride, 1, i < groups ? g.count : 0, 1);
        const tdm_range across = tdm_range_across(range, g.arg.target);
        low[i] = TDM_CAT4(f32x, N, _, hmin)(across.low);
        high[i] = TDM_CAT4(f32x, N, _, hmax)(across.high);
    }
    tdm_range ranges;
    ranges.low = TDM_LOADV(N, f32, low, 0);
    ranges.high = TDM_LOADV(N, f32, high, 0);
    return ranges;
}

/* ---- parameters ---- */

/* The parameters of a block: element i of each array belongs to group i. */
typedef struct {
    float scale[GROUPS_BLOCK], correction[GROUPS_BLOCK], reciprocal[GROUPS_BLOCK];
    int zero[GROUPS_BLOCK];
} tdm_group_steps;

/* Derives and stores the parameters of `groups` groups from their ranges. Returns 1 if quotients
 * may come from multiplications. */
TDM_INLINE int tdm_steps_of_block(tdm_groups g, int groups, const tdm_range ranges[],
                                  tdm_group_steps *steps) {
    tdm_range all = tdm_range_start();
    F unfit = K(0.0f);
    for (int i = 0; i * N < groups; i++)
        all = tdm_range_widen(tdm_range_widen(all, ranges[i].low, 0), ranges[i].high, 0);
    const int finite = tdm_range_is_finite(all);
    for (int group = 0; group < groups; group += N) {
        const int left = groups - group < N ? groups - group : N;
        const tdm_range range = finite ? ranges[group / N] : tdm_ranges_of_finite(g, left);
        const tdm_quantizer q = tdm_derive(range, g.place, left, g.arg.target);
        const tdm_multiplier m = tdm_multiplier_of(q);
        TDM_STOREV(N, f32, q.scale, steps->scale, group);
        TDM_STOREV(N, f32, m.correction, steps->correction, group);
        TDM_STOREV(N, f32, m.reciprocal, steps->reciprocal, group);
        TDM_INT_STOREV(N, s32, q.zero, steps->zero, group);
        for (int lane = left; lane < N; lane++)
            steps->scale[group + lane] = 1.0f;
        unfit = unfit +
                tdm_products_unfit(TDM_LOADV(N, f32, steps->scale, group), g.arg.target.scale_type);
        g = tdm_groups_from(g, N);
    }
    return tdm_products_fit(unfit, finite);
}

/* Returns the multiplier of a group without bounds: finite numbers need only those of the quantized
 * type. */
TDM_INLINE tdm_multiplier tdm_multiplier_at(const tdm_group_steps *steps, int group) {
    tdm_multiplier m;
    m.correction = K(steps->correction[group]);
    m.reciprocal = K(steps->reciprocal[group]);
    m.zero = TDM_INT_SPLAT(N, steps->zero[group]);
    return m;
}

/* ---- quantized values ---- */

/* Returns the offset of group `group` in the block after g's, of which `left` groups exist. If that
 * group does not exist, returns the offset of one of g's. */
TDM_INLINE long tdm_next_of(tdm_groups g, int group, long left) {
    return g.from + (group < left ? GROUPS_BLOCK * g.x_stride : 0);
}

/* Quantizes groups `group` … end-1 of a block; g begins with the first of them. Meanwhile it finds
 * the bits of the groups of the next block, of which `left` exist, and stores them in `next`. */
TDM_INLINE void tdm_codes_of_groups(tdm_groups g, int group, int end, const tdm_group_steps *steps,
                                    long left, tdm_bits *next, int zeros, int type) {
    const tdm_quant_side side = g.arg.target;
    const int half_line = CODES_LINE / 2, count = g.count;
    for (; count == half_line && g.y_stride == count && group + 2 <= end; group += 2) {
        I codes[CODES_LINE / N];
        TDM_UNROLL for (int v = 0; v < CODES_LINE / N; v++) {
            const int one = v * N / half_line, k = v * N % half_line;
            if (k == 0)
                tdm_keep_bits(next++,
                              tdm_bits_pass(tdm_bits_start(), g.x,
                                            tdm_next_of(g, group + one, left) + one * g.x_stride,
                                            half_line, !zeros),
                              !zeros);
            codes[v] = PRODUCT(TDM_LOADV_GLOBAL(N, DT, g.x, g.from + one * g.x_stride + k),
                               tdm_multiplier_at(steps, group + one));
        }
        tdm_store_line(type, codes, g.y, g.to);
        g = tdm_groups_from(g, 2);
    }
    for (; group < end; group++) {
        const long from = tdm_next_of(g, group, left);
        const tdm_multiplier m = tdm_multiplier_at(steps, group);
        tdm_bits bits = tdm_bits_start();
        int k = 0;
        for (; k + CODES_LINE <= count; k += CODES_LINE) {
            I codes[CODES_LINE / N];
            bits = tdm_bits_pass(bits, g.x, from + k, CODES_LINE, !zeros);
            TDM_UNROLL for (int v = 0; v < CODES_LINE / N; v++) codes[v] =
                PRODUCT(TDM_LOADV_GLOBAL(N, DT, g.x, g.from + k + v * N), m);
            tdm_store_line(type, codes, g.y, g.to + k);
        }
        bits = tdm_bits_join(bits, tdm_bits_of_group(g.x, from + k, count - k, !zeros));
        tdm_keep_bits(next++, bits, !zeros);
        for (; k < count; k += N)
            tdm_store_codes(type, PRODUCT(TDM_LOADV_GLOBAL(N, DT, g.x, g.from + k), m), g.y,
                            g.to + k, N);
        g = tdm_groups_from(g, 1);
    }
}

/* Does the work of tdm_codes_of_groups by division. */
TDM_INLINE void tdm_divided_codes_of_groups(tdm_groups g, int group, int end,
                                            const tdm_group_steps *steps, long left,
                                            tdm_bits *next) {
    const tdm_quant_side side = g.arg.target;
    for (; group < end; group++) {
        const tdm_quantizer q = tdm_quantizer_make(
            K(steps->scale[group]), TDM_INT_SPLAT(N, steps->zero[group]), side.low, side.high);
        *next++ = tdm_bits_of_group(g.x, tdm_next_of(g, group, left), g.count, side.zero_type == 0);
        tdm_rest_of_codes(g.x, g.from, 1, g.y, g.to, 1, 0, g.count, q, g.arg.target_type);
        g = tdm_groups_from(g, 1);
    }
}

TDM_BODY void tdm_quantize_short_groups(const tdm_groups *all, long left) {
    tdm_groups g = *all;
    const int symmetric = g.arg.target.zero_type == 0;
    tdm_group_steps steps;
    tdm_bits next[N];
    tdm_range ranges[GROUPS_BLOCK / N];
    for (int first = 0; first < GROUPS_BLOCK && first < left; first += N) {
        for (int i = 0; i < N; i++) {
            const long group = first + i < left ? first + i : first;
            next[i] = tdm_bits_of_group(g.x, g.from + group * g.x_stride, g.count, symmetric);
        }
        tdm_ranges_of_groups(next, symmetric, ranges + first / N);
    }
    for (; left > 0; left -= GROUPS_BLOCK) {
        const int groups = left < GROUPS_BLOCK ? (int)left : GROUPS_BLOCK;
        const long after = left - groups;
        const int products = tdm_steps_of_block(g, groups, ranges, &steps);
        const int type = g.y_stride % N == 0
                             ? tdm_store_type(g.y, g.to, g.arg.target_type, g.arg.streams)
                             : g.arg.target_type;
        for (int first = 0; first < groups; first += N) {
            const int end = first + N < groups ? first + N : groups;
#define CALL(T) tdm_codes_of_groups(g, first, end, &steps, after, next, 0, T)
#define CALL_ZEROS(T) tdm_codes_of_groups(g, first, end, &steps, after, next, 1, T)
            if (products) {
                BY_ZEROS(!symmetric, type, CALL, CALL_ZEROS)
            } else {
                tdm_divided_codes_of_groups(g, first, end, &steps, after, next);
            }
#undef CALL_ZEROS
#undef CALL
            if (first < after)
                tdm_ranges_of_groups(next, symmetric, ranges + first / N);
            g = tdm_groups_from(g, N);
        }
    }
}

#endif
