/* One row of the kernel of quant_rows.h, whose elements have parameters of their own, or all of them the same. */
#ifndef TDM_QUANT_WALK_ROW_H
#define TDM_QUANT_WALK_ROW_H

#include "quant_walk.h"

/* Codes of CODES_LINE elements are put together and stored as one. */
#if defined(MANY_AT_ONCE) && defined(TDM_TARGET_CODES) && defined(TDM_CODES_STORE_LINE)
#define LINES
#endif

/* ---- rows ---- */

/* Whether vector v of neighbours is the first in 64 bytes of x, which are asked for as one. */
TDM_INLINE int tdm_is_line_of_x(tdm_walk w, int v) {
    return v * N * (int)sizeof *w.x % 64 == 0;
}

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
#ifdef LINES
    if (w.x_step == 1) {
        for (; i + N <= stop && !tdm_begins_line(type, w.y, at.y + i); i += N)
            tdm_put(WHOLE(w.x, at.x + i), p, w, at.y + i, at.mask + i, N, type);
        for (; i + CODES_LINE <= stop; i += CODES_LINE) {
            I codes[CODES_LINE / N];
            TDM_UNROLL for (int v = 0; v < CODES_LINE / N; v++) {
                if (tdm_is_line_of_x(w, v))
                    tdm_ask_ahead(w, at.x + i + v * N);
                codes[v] = tdm_made_code(WHOLE(w.x, at.x + i + v * N), p, w);
            }
            tdm_store_line(type, codes, w.y, at.y + i);
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
