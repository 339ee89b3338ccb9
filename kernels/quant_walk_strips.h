/* Many rows at once of the kernel of quant_rows.h, with 16 lanes on CPU cores: their parameters are widened before. */
#ifndef TDM_QUANT_WALK_STRIPS_H
#define TDM_QUANT_WALK_STRIPS_H

#include "quant_walk_row.h"

#ifdef MANY_AT_ONCE
/* Parameters of up to STRIP columns or rows, widened. Vectors, because PoCL aligns a stack of anything else to 8 bytes: each
 * load would then be of two cache lines. */
typedef struct {
    F scale[STRIP / N];
#if PRODUCTS
    F reciprocal[STRIP / N];
#endif
#ifdef BOUNDS
    F low[STRIP / N], high[STRIP / N];
#endif
    I zero[STRIP / N];
#ifdef TDM_TWO_SIDES
    I from_zero[STRIP / N];
#endif
} tdm_widened;

/* Those of `count` lanes from entries `at` on; whether what is widened may be used for them. Zero points and bounds only where they
 * differ (zeros). */
TDM_INLINE int tdm_widen(tdm_walk w, tdm_entries at, tdm_entries step, long count, int zeros,
                         tdm_widened *to) {
    F not_plain = K(0.0f);
    for (long i = 0; i < count; i += N) {
        const int left = (int)(count - i < N ? count - i : N);
        tdm_parameters p;
        tdm_parameters_at(&p, w, tdm_entries_on(at, step, i), step, left);
        to->scale[i / N] = p.scale;
#if PRODUCTS
        not_plain = not_plain + tdm_scales_not_plain(p.scale);
        tdm_reciprocal_of(p.scale, &to->reciprocal[i / N], &to->scale[i / N]);
#endif
        if (!zeros)
            continue;
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

/* Of lanes i … i + N - 1; zero points and bounds from `shared` where not `zeros`, which was given to tdm_widen. */
TDM_INLINE void tdm_parameters_widened(tdm_parameters *to, const tdm_widened *from, long i,
                                       int zeros, tdm_parameters shared) {
    tdm_parameters p = shared;
    p.scale = from->scale[i / N];
    p.reciprocal = p.mend = p.scale;
    p.products = PRODUCTS;
#if PRODUCTS
    p.reciprocal = from->reciprocal[i / N];
#endif
    if (zeros) {
        p.zero = p.from_zero = from->zero[i / N];
#ifdef BOUNDS
        p.low = from->low[i / N];
        p.high = from->high[i / N];
#endif
#ifdef TDM_TWO_SIDES
        p.from_zero = from->from_zero[i / N];
#endif
    }
#ifdef TDM_BOUND_REALS
    if (!zeros) {
        p.low = p.scale * p.low;
        p.high = p.scale * p.high;
    }
#endif
    *to = p;
}

#define LANE(type, vectors, i) (((const type *)(vectors))[i])

/* Of lane i alone, in all lanes. */
TDM_INLINE void tdm_parameters_one(tdm_parameters *to, const tdm_widened *from, int i) {
    tdm_parameters p;
    p.scale = K(LANE(float, from->scale, i));
    p.zero = p.from_zero = TDM_INT_SPLAT(N, LANE(int, from->zero, i));
    p.reciprocal = p.mend = p.scale;
    p.products = PRODUCTS;
#if PRODUCTS
    p.reciprocal = K(LANE(float, from->reciprocal, i));
#endif
    p.low = p.high = p.scale;
#ifdef BOUNDS
    p.low = K(LANE(float, from->low, i));
    p.high = K(LANE(float, from->high, i));
#endif
#ifdef TDM_TWO_SIDES
    p.from_zero = TDM_INT_SPLAT(N, LANE(int, from->from_zero, i));
#endif
    *to = p;
}

/* The first `count` elements of each of `rows` rows whose parameters differ along them alike. Asks for later rows
 * meanwhile, of a single long one for what comes soon. Tiles of several rows are as good as unrolled. A function of their own
 * would leave the parameters in memory. */
TDM_INLINE void tdm_strip(tdm_walk w, tdm_place at, tdm_place strides, int rows, long count,
                          const tdm_widened *widened, int zeros, tdm_parameters shared, int type) {
    const long near = BYTES_NEAR / (int)sizeof *w.x;
    long i = 0, ahead = (rows > ROWS_AHEAD ? rows : ROWS_AHEAD) * strides.x;
    tdm_parameters p;
    for (; BESIDE > 1 && i + BESIDE * N <= count; i += BESIDE * N) {
        tdm_parameters of[BESIDE];
        if (IN_ORDER && rows == 1 && count >= near)
            ahead = i + near < count ? near : near - count + strides.x;
        TDM_UNROLL for (int v = 0; v < BESIDE; v++)
            tdm_parameters_widened(&of[v], widened, i + v * N, zeros, shared);
#ifdef LINES
        TDM_UNROLL for (int row = 0; row < rows; row++) {
            I codes[BESIDE];
            TDM_UNROLL for (int v = 0; v < BESIDE; v++) {
                const long x = at.x + row * strides.x + i + v * N;
                if (tdm_is_line_of_x(w, v))
                    tdm_ask_in_strip(w, x + ahead, rows == 1);
                codes[v] = tdm_made_code(WHOLE(w.x, x), of[v], w);
            }
            tdm_store_line(type, codes, w.y, at.y + row * strides.y + i);
        }
#else
        TDM_UNROLL for (int row = 0; row < rows; row++)
            TDM_UNROLL for (int v = 0; v < BESIDE; v++) {
            const long x = at.x + row * strides.x + i + v * N;
            tdm_ask_in_strip(w, x + ahead, rows == 1);
            tdm_put(WHOLE(w.x, x), of[v], w, at.y + row * strides.y + i + v * N,
                    at.mask + row * strides.mask + i + v * N, N, type);
        }
#endif
    }
    for (; i + N <= count; i += N) {
        tdm_parameters_widened(&p, widened, i, zeros, shared);
        TDM_UNROLL for (int row = 0; row < rows; row++) {
            const long x = at.x + row * strides.x + i;
            tdm_ask_in_strip(w, x + ahead, rows == 1);
            tdm_put(WHOLE(w.x, x), p, w, at.y + row * strides.y + i,
                    at.mask + row * strides.mask + i, N, type);
        }
    }
    if (i == count)
        return;
    const int left = (int)(count - i);
    tdm_parameters_widened(&p, widened, i, zeros, shared);
    for (int row = 0; row < rows; row++)
        tdm_put(TDM_LOAD_PART(DT, w.x, at.x + row * strides.x + i, left, NOTHING), p, w,
                at.y + row * strides.y + i, at.mask + row * strides.mask + i, left, type);
}

#ifdef LINES
/* `rows` rows from `row` on, as tdm_short_rows has them, that make a line: `inner` elements each, one after the other in y. */
TDM_INLINE void tdm_rows_of_line(tdm_walk w, tdm_place at, tdm_place strides, int row, int rows,
                                 const tdm_widened *widened, int type) {
    I codes[CODES_LINE / N];
    const int vectors = CODES_LINE / N / rows;
    TDM_UNROLL for (int r = 0; r < rows; r++) {
        tdm_parameters p;
        tdm_parameters_one(&p, widened, row + r);
        TDM_UNROLL for (int v = 0; v < vectors; v++) {
            const long x = at.x + (row + r) * strides.x + v * N;
            if (tdm_is_line_of_x(w, v))
                tdm_ask_ahead(w, x);
            codes[r * vectors + v] = tdm_made_code(WHOLE(w.x, x), p, w);
        }
    }
    tdm_store_line(type, codes, w.y, at.y + row * strides.y);
}
#endif

/* `rows` ≤ STRIP rows of `inner` elements, whole vectors, each with parameters of its own. */
TDM_INLINE void tdm_short_rows(tdm_walk w, tdm_place at, tdm_place strides, int rows, int inner,
                               const tdm_widened *widened, int type) {
    int first = 0;
#ifdef LINES
    if (strides.y == inner) {
        for (; inner == CODES_LINE / 2 && first + 2 <= rows; first += 2)
            tdm_rows_of_line(w, at, strides, first, 2, widened, type);
    }
    at.x += first * strides.x;
    at.y += first * strides.y;
#endif
    for (int row = first; row < rows; row++) {
        tdm_parameters p;
        tdm_parameters_one(&p, widened, row);
        int i = 0;
#ifdef LINES
        for (; i + CODES_LINE <= inner; i += CODES_LINE) {
            I codes[CODES_LINE / N];
            TDM_UNROLL for (int v = 0; v < CODES_LINE / N; v++) {
                if (tdm_is_line_of_x(w, v))
                    tdm_ask_ahead(w, at.x + i + v * N);
                codes[v] = tdm_made_code(WHOLE(w.x, at.x + i + v * N), p, w);
            }
            tdm_store_line(type, codes, w.y, at.y + i);
        }
#endif
        for (; i < inner; i += N) {
            tdm_ask_ahead(w, at.x + i);
            tdm_put(WHOLE(w.x, at.x + i), p, w, at.y + i, at.mask + i, N, type);
        }
        at.x += strides.x;
        at.y += strides.y;
        at.mask += strides.mask;
    }
}
#endif

#endif
