/* One row of the kernel of quant_rows.h, whose elements have parameters of their own, or all of them the same. */
#ifndef TDM_QUANT_WALK_ROW_H
#define TDM_QUANT_WALK_ROW_H

#include "quant_walk.h"

/* ---- lines of s4 ---- */

#if defined(MANY_AT_ONCE) && defined(TDM_TARGET_CODES) && defined(TDM_CAN_STREAM_NARROW)
#define S4_LINES
#define S4_LINE 128 /* elements of 64 bytes */

TDM_INLINE int tdm_begins_line(TDM_GLOBAL const void *y, long i) {
    return (tdm_address((TDM_GLOBAL const tdm_u8 *)y) + (ulong)i / 2) % (S4_LINE / 2) == 0;
}

/* Neighbours of a and then of b, the second of each `bits` above the first. */
TDM_INLINE I tdm_neighbours(I a, I b, int bits) {
    const F x = TDM_CAT4(s32x, N, _, float)(a), y = TDM_CAT4(s32x, N, _, float)(b);
    const I first = TDM_BITS(N, TDM_CAT4(f32x, N, _, evens)(x, y));
    const I second = TDM_BITS(N, TDM_CAT4(f32x, N, _, odds)(x, y));
    const I below = TDM_INT_SPLAT(N, (1 << bits) - 1);
    return (first & below) | ((second << bits) & ~below);
}

/* Stored past the caches at element i of y, which begins a line. The last step makes words of eight. */
TDM_INLINE void tdm_stream_s4_line(I codes[S4_LINE / N], TDM_GLOBAL void *y, long i) {
    TDM_UNROLL for (int v = 0; v < 4; v++) codes[v] =
        tdm_neighbours(codes[2 * v], codes[2 * v + 1], 4);
    TDM_UNROLL for (int v = 0; v < 2; v++) codes[v] =
        tdm_neighbours(codes[2 * v], codes[2 * v + 1], 8);
    const I words = tdm_neighbours(codes[0], codes[1], 16);
    TDM_STREAMV(N, TDM_CAT4(s32x, N, _, float)(words), (TDM_GLOBAL tdm_f32 *)y, i / 8);
}
#endif

/* ---- rows ---- */

/* Elements start … stop-1 of a row of which each may have parameters of its own. */
TDM_INLINE void tdm_own(tdm_walk w, tdm_place at, long start, long stop, int type) {
    TDM_FEW_PASSES for (long i = start; i < stop; i += N) {
        const int left = (int)(stop - i < N ? stop - i : N);
        const V v = N > 1 && w.x_step == 0 ? REPEATED(w.x, at.x)
                    : left == N            ? WHOLE(w.x, at.x + i * w.x_step)
                                           : TDM_LOAD_PART(DT, w.x, at.x + i, left, NOTHING);
        tdm_parameters p;
        tdm_parameters_at(&p, w, tdm_entries_on(at.entry, w.step, i), w.step, left);
        tdm_put(v, p, w, at.y + i * w.y_step, at.mask + i * w.mask_step, left, type);
    }
}

/* The same where all have the parameters p. */
TDM_INLINE void tdm_alike(tdm_walk w, tdm_place at, tdm_parameters p, long start, long stop,
                          int type) {
    long i = start;
    p.products = PRODUCTS;
#ifdef S4_LINES
    if (w.x_step == 1 && type == TDM_STREAMED + TDM_CODE_S4) {
        for (; i + N <= stop && !tdm_begins_line(w.y, at.y + i); i += N)
            tdm_put(WHOLE(w.x, at.x + i), p, w, at.y + i, at.mask + i, N, type);
        for (; i + S4_LINE <= stop; i += S4_LINE) {
            I codes[S4_LINE / N];
            TDM_UNROLL for (int v = 0; v < S4_LINE / N; v++) {
                tdm_ask_ahead(w, at.x + i + v * N);
                codes[v] = tdm_made_code(WHOLE(w.x, at.x + i + v * N), p, w);
            }
            tdm_stream_s4_line(codes, w.y, at.y + i);
        }
    }
#endif
#if N > 1
    if (w.x_step == 1)
        TDM_FEW_PASSES for (; i + N <= stop; i += N) {
#ifdef TDM_TARGET_CODES
            tdm_ask_ahead(w, at.x + i);
#endif
            tdm_put(WHOLE(w.x, at.x + i), p, w, at.y + i, at.mask + i, N, type);
        }
#endif
    TDM_FEW_PASSES for (; i < stop; i += N) {
        const int left = (int)(stop - i < N ? stop - i : N);
        const V v = N > 1 && w.x_step == 0 ? REPEATED(w.x, at.x)
                    : left == N            ? WHOLE(w.x, at.x + i * w.x_step)
                                           : TDM_LOAD_PART(DT, w.x, at.x + i, left, NOTHING);
        tdm_put(v, p, w, at.y + i * w.y_step, at.mask + i * w.mask_step, left, type);
    }
}

#endif
