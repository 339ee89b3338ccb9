/* Many rows at once in the kernel of quant_rows.h, with 16 lanes on CPU cores. Their parameters are
 * widened first. */
#ifndef TDM_QUANT_TRAVERSAL_STRIPS_H
#define TDM_QUANT_TRAVERSAL_STRIPS_H

#include "quant_traversal_row.h"

#ifdef MANY_AT_ONCE
/* Parameters of up to STRIP columns or rows, widened. The arrays hold vectors because PoCL aligns
 * other arrays on the stack to 8 bytes only. Each load would then touch two cache lines. */
typedef struct {
    F scale[STRIP / N];
#if PRODUCTS
    F reciprocal[STRIP / N];
#endif
#ifdef BOUNDS
    F low[STRIP / N], high[STRIP / N];
#endif
#ifdef DEQUANTIZED_BY_PRODUCTS
    F least[STRIP / N], most[STRIP / N];
#endif
#ifdef SEPARATE_CORRECTION
    F correction[STRIP / N];
#endif
    I zero[STRIP / N];
#ifdef TDM_TWO_SIDES
    I from_zero[STRIP / N];
#endif
} tdm_widened;

TDM_INLINE void tdm_prefetch_entry(TDM_GLOBAL const void *p, long i, int type) {
    const int wide = type == TDM_CODE_F32 || type == TDM_CODE_S32;
    const int narrow = type == TDM_CODE_S8 || type == TDM_CODE_U8;
    tdm_prefetch_far((TDM_GLOBAL const char *)p + i * (wide ? 4 : narrow ? 1 : 2));
}

/* Prefetches the parameters PREFETCH_ENTRIES after lane i. Otherwise memory would be idle while a
 * core waits for them, once in each group along columns. */
TDM_INLINE void tdm_prefetch_entries(tdm_traversal w, tdm_entries at, tdm_entries step, long i) {
    const tdm_entries then = tdm_entries_on(at, step, i + PREFETCH_ENTRIES);
    tdm_prefetch_entry(w.scale, then.scale, SIDE(w).scale_type);
    if (SIDE(w).zero_type != 0)
        tdm_prefetch_entry(w.zero, then.zero, SIDE(w).zero_type);
}

TDM_INLINE int tdm_widen_lanes(tdm_traversal w, tdm_entries at, tdm_entries step, long first,
                               long end, int zeros, tdm_widened *to) {
    F not_plain = K(0.0f);
    for (long i = first; i < end; i += N) {
        const int left = (int)(end - i < N ? end - i : N);
        tdm_parameters p;
        tdm_prefetch_entries(w, at, step, i);
        tdm_parameters_at(&p, w, tdm_entries_on(at, step, i), step, left);
        to->scale[i / N] = p.scale;
#if PRODUCTS
        not_plain = not_plain + tdm_scales_not_plain(p.scale);
#ifdef SEPARATE_CORRECTION
        tdm_reciprocal_of(p.scale, &to->reciprocal[i / N], &to->correction[i / N]);
#else
        tdm_reciprocal_of(p.scale, &to->reciprocal[i / N], &to->scale[i / N]);
#endif
#endif
        if (!zeros)
            continue;
#ifdef DEQUANTIZED_BY_PRODUCTS
        to->least[i / N] = p.least;
        to->most[i / N] = p.most;
#endif
        to->zero[i / N] = p.zero;
#ifdef BOUNDS
        to->low[i / N] = p.low;
        to->high[i / N] = p.high;
#endif
#ifdef TDM_TWO_SIDES
        to->from_zero[i / N] = p.from_zero;
#endif
    }
    return TDM_CAT4(f32x, N, _, hmax)(not_plain) == 0.0f;
}

/* Widens the parameters of lanes first … end-1, where lane 0 has entries `at`. Returns 1 if the
 * widened parameters may be used. Zero points and bounds are widened only if `zeros`. The usual
 * type has loops of its own, because the general loop checks the type for each vector. */
TDM_INLINE int tdm_widen(tdm_traversal w, tdm_entries at, tdm_entries step, long first, long end,
                         int zeros, tdm_widened *to) {
    if (SIDE(w).scale_type != TDM_CODE_F32)
        return tdm_widen_lanes(w, at, step, first, end, zeros, to);
    SIDE(w).scale_type = TDM_CODE_F32;
    return zeros ? tdm_widen_lanes(w, at, step, first, end, 1, to)
                 : tdm_widen_lanes(w, at, step, first, end, 0, to);
}

/* Sets the parameters of lanes N·i … N·i + N - 1. Zero points and bounds come from `shared` unless
 * `zeros`, which must be the value given to tdm_widen. */
TDM_INLINE void tdm_parameters_widened(tdm_parameters *to, const tdm_widened *from, long i,
                                       int zeros, tdm_parameters shared) {
    tdm_parameters p = shared;
    p.scale = from->scale[i];
    p.reciprocal = p.correction = p.scale;
    p.products = PRODUCTS;
#if PRODUCTS
    p.reciprocal = from->reciprocal[i];
#endif
#ifdef SEPARATE_CORRECTION
    p.correction = from->correction[i];
#endif
    if (zeros) {
        p.zero = p.from_zero = from->zero[i];
#ifdef BOUNDS
        p.low = from->low[i];
        p.high = from->high[i];
#endif
#ifdef DEQUANTIZED_BY_PRODUCTS
        p.least = from->least[i];
        p.most = from->most[i];
#endif
#ifdef TDM_TWO_SIDES
        p.from_zero = from->from_zero[i];
#endif
    } else {
        tdm_bound_dequantized(&p);
    }
    *to = p;
}

/* Returns how many rows to do at once. It is limited by the rows left in the block and by those
 * that share parameters. */
TDM_INLINE int tdm_rows_together(long of_block, long alike) {
    const long most = of_block < TOGETHER ? of_block : TOGETHER;
    return (int)(alike < most ? alike : most);
}

#define LANE(type, vectors, i) (((const type *)(vectors))[i])

/* Sets all lanes to the parameters of lane i. `zeros` and `shared` are as in
 * tdm_parameters_widened. */
TDM_INLINE void tdm_parameters_one(tdm_parameters *to, const tdm_widened *from, int i, int zeros,
                                   tdm_parameters shared) {
    tdm_parameters p = shared;
    p.scale = K(LANE(float, from->scale, i));
    p.reciprocal = p.correction = p.scale;
    p.products = PRODUCTS;
#if PRODUCTS
    p.reciprocal = K(LANE(float, from->reciprocal, i));
#endif
#ifdef SEPARATE_CORRECTION
    p.correction = K(LANE(float, from->correction, i));
#endif
    if (zeros) {
        p.zero = p.from_zero = TDM_INT_SPLAT(N, LANE(int, from->zero, i));
#ifdef BOUNDS
        p.low = K(LANE(float, from->low, i));
        p.high = K(LANE(float, from->high, i));
#endif
#ifdef DEQUANTIZED_BY_PRODUCTS
        p.least = K(LANE(float, from->least, i));
        p.most = K(LANE(float, from->most, i));
#endif
#ifdef TDM_TWO_SIDES
        p.from_zero = TDM_INT_SPLAT(N, LANE(int, from->from_zero, i));
#endif
    } else {
        tdm_bound_dequantized(&p);
    }
    *to = p;
}

/* Processes elements first … end-1 of each of `rows` rows with equal parameters, and prefetches
 * `ahead` elements ahead. Several rows at once have the effect of unrolling. If the function were
 * not inlined, the parameters would stay in memory. */
TDM_INLINE void tdm_tile(tdm_traversal w, tdm_place at, tdm_place strides, int rows, long first,
                         long end, long ahead, const tdm_widened *widened, int zeros,
                         tdm_parameters shared, int type) {
    long i = first;
    tdm_parameters p;
#ifdef LINES
    for (; LINES_FIT(w, type) && i + CODES_LINE <= end; i += CODES_LINE) {
        tdm_parameters of[CODES_LINE / N];
        TDM_UNROLL for (int v = 0; v < CODES_LINE / N; v++)
            tdm_parameters_widened(&of[v], widened, i / N + v, zeros, shared);
        TDM_UNROLL for (int row = 0; row < rows; row++)
            tdm_put_line(w, at.x + row * strides.x + i, ahead, at.y + row * strides.y + i,
                         at.mask + row * strides.mask + i, of, 1, type);
    }
#endif
    for (; i + N <= end; i += N) {
        tdm_parameters_widened(&p, widened, i / N, zeros, shared);
        TDM_UNROLL for (int row = 0; row < rows; row++) {
            const long x = at.x + row * strides.x + i;
            tdm_prefetch_parameters(w, x + ahead);
            tdm_put(WHOLE(w.x, x), p, w, at.y + row * strides.y + i,
                    at.mask + row * strides.mask + i, N, type);
        }
    }
    if (i == end)
        return;
    const int left = (int)(end - i);
    tdm_parameters_widened(&p, widened, i / N, zeros, shared);
    for (int row = 0; row < rows; row++)
        tdm_put(TDM_LOAD_PART(DT, w.x, at.x + row * strides.x + i, left, NOTHING), p, w,
                at.y + row * strides.y + i, at.mask + row * strides.mask + i, left, type);
}

TDM_INLINE void tdm_next_rows(tdm_place *at, tdm_place strides, int rows) {
    at->x += rows * strides.x;
    at->y += rows * strides.y;
    at->mask += rows * strides.mask;
}

/* Processes elements first … end-1 of the `count` elements of each of `rows` rows. Results with
 * non-temporal stores are computed row by row. Meanwhile the same number of rows that begin at
 * `next` is prefetched in memory order. Other results are computed in tiles of rows, which read
 * parameters once. */
TDM_INLINE void tdm_strip(tdm_traversal w, tdm_place at, tdm_place strides, int rows, long first,
                          long end, long count, long next, const tdm_widened *widened, int zeros,
                          tdm_parameters shared, int type) {
    int row = 0;
    for (; TILE > 1 && type < TDM_STREAMED && row + TILE <= rows; row += TILE) {
        tdm_tile(w, at, strides, TILE, first, end, TILE * strides.x, widened, zeros, shared, type);
        tdm_next_rows(&at, strides, TILE);
    }
    for (; row < rows; row++) {
        const long prefetched = first * rows + row * (end - first);
        const long below = tdm_quotient(prefetched, count);
        const long ahead = next + below * strides.x + prefetched - below * count - at.x - first;
        tdm_tile(w, at, strides, 1, first, end, ahead, widened, zeros, shared, type);
        tdm_next_rows(&at, strides, 1);
    }
}

#ifdef LINES
/* Processes `rows` rows of tdm_short_rows from `row` on that make one line: `inner` elements each,
 * contiguous in y and mask. */
TDM_INLINE void tdm_rows_of_line(tdm_traversal w, tdm_place at, tdm_place strides, int row,
                                 int rows, const tdm_widened *widened, int zeros,
                                 tdm_parameters shared, int type) {
    tdm_made_line line;
    const int vectors = CODES_LINE / N / rows;
    TDM_UNROLL for (int r = 0; r < rows; r++) {
        tdm_parameters p;
        tdm_parameters_one(&p, widened, row + r, zeros, shared);
        TDM_UNROLL for (int v = 0; v < vectors; v++) {
            const long x = at.x + (row + r) * strides.x + v * N;
            if (tdm_is_line_of_x(w, v))
                tdm_prefetch_parameters(w, x + AHEAD);
            tdm_make_in_line(&line, r * vectors + v, WHOLE(w.x, x), p, w);
        }
    }
    tdm_store_made_line(&line, w, at.y + row * strides.y, at.mask + row * strides.mask, type);
}
#endif

/* Processes `rows` ≤ STRIP rows of `inner` elements, whole vectors, each row with parameters of its
 * own. */
TDM_INLINE void tdm_short_rows(tdm_traversal w, tdm_place at, tdm_place strides, int rows,
                               int inner, const tdm_widened *widened, int zeros,
                               tdm_parameters shared, int type) {
    int first = 0;
#ifdef LINES
    if (strides.y == inner && LINES_OF_MASK(w, strides, inner)) {
        for (; inner == CODES_LINE / 2 && first + 2 <= rows; first += 2)
            tdm_rows_of_line(w, at, strides, first, 2, widened, zeros, shared, type);
    }
    at.x += first * strides.x;
    at.y += first * strides.y;
    at.mask += first * strides.mask;
#endif
    for (int row = first; row < rows; row++) {
        tdm_parameters p;
        tdm_parameters_one(&p, widened, row, zeros, shared);
        int i = 0;
#ifdef LINES
        for (; LINES_FIT(w, type) && i + CODES_LINE <= inner; i += CODES_LINE)
            tdm_put_line(w, at.x + i, AHEAD, at.y + i, at.mask + i, &p, 0, type);
#endif
        for (; i < inner; i += N) {
            tdm_prefetch_parameters(w, at.x + i + AHEAD);
            tdm_put(WHOLE(w.x, at.x + i), p, w, at.y + i, at.mask + i, N, type);
        }
        at.x += strides.x;
        at.y += strides.y;
        at.mask += strides.mask;
    }
}
#endif

#endif
