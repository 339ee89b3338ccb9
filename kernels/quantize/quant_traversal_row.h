/* One row of the kernel of quant_rows.h. Its elements have parameters of their own, or share
 * them. */
#ifndef TDM_QUANT_TRAVERSAL_ROW_H
#define TDM_QUANT_TRAVERSAL_ROW_H

#include "quant_lines.h"

/* The results of CODES_LINE elements are packed and stored at once: quantized values, or f16 and
 * bf16 values by lines, and their mask. */
#if defined(MANY_AT_ONCE) && defined(TDM_TARGET_CODES) && defined(TDM_CODES_STORE_LINE)
#define LINES
#define MADE I
#define MADE_OF(v, p, w) tdm_made_code(v, p, w)
#define BEGINS_LINE(type, y, i) tdm_begins_line(type, y, i)
#define STORE_LINE(type, made, y, i) tdm_store_line(type, made, y, i)
#elif defined(DEQUANTIZED_LINES)
#define LINES
#define MADE F
#define MADE_OF(v, p, w) tdm_made_real(v, p)
#define BEGINS_LINE(type, y, i) tdm_dequantized_begin_line(type, y, i)
#define STORE_LINE(type, made, y, i) tdm_store_dequantized_line(type, made, y, i)
#endif
/* f32 results without a mask are not stored by lines, because it gains nothing. Groups of half a
 * line do gain from it, and do not check this. */
#if defined(TDM_MASK)
#define LINES_OF_MASK(w, strides, inner) (!(w).arg.masks || (strides).mask == (inner))
#define LINES_FIT(w, type)                                                                         \
    ((w).arg.masks || ((type) != TDM_CODE_F32 && (type) != TDM_STREAMED + TDM_CODE_F32))
#else
#define LINES_OF_MASK(w, strides, inner) 1
#define LINES_FIT(w, type) 1
#endif

/* ---- rows ---- */

/* Returns 1 if vector v of neighbouring vectors is the first in 64 bytes of x. Each 64 bytes are
 * prefetched once. */
TDM_INLINE int tdm_is_line_of_x(tdm_traversal w, int v) {
    return v * N * (int)sizeof *w.x % 64 == 0;
}

#ifdef LINES
/* The results of CODES_LINE elements. */
typedef struct {
    MADE made[CODES_LINE / N];
#ifdef TDM_MASK
    I passes[CODES_LINE / N];
#endif
} tdm_made_line;

TDM_INLINE void tdm_make_in_line(tdm_made_line *line, int v, V x, tdm_parameters p,
                                 tdm_traversal w) {
#ifdef TDM_MASK
    if (w.arg.masks) {
        line->made[v] = tdm_made_masked(x, p, &line->passes[v]);
        return;
    }
#endif
    line->made[v] = MADE_OF(x, p, w);
}

#ifdef TDM_MASK
#define MASK_TYPE(w) ((w).mask_streams ? TDM_STREAMED + TDM_CODE_U8 : TDM_CODE_U8)
#endif

TDM_INLINE void tdm_store_made_line(const tdm_made_line *line, tdm_traversal w, long y, long mask,
                                    int type) {
    STORE_LINE(type, line->made, w.y, y);
#ifdef TDM_MASK
    if (w.arg.masks)
        tdm_store_line(MASK_TYPE(w), line->passes, w.mask, mask);
#endif
}

TDM_INLINE int tdm_made_line_begins(tdm_traversal w, long y, long mask, int type) {
#ifdef TDM_MASK
    if (w.arg.masks && !tdm_begins_line(MASK_TYPE(w), w.mask, mask))
        return 0;
#endif
    return BEGINS_LINE(type, w.y, y);
}

/* Converts the CODES_LINE elements from x on and stores the results from y and mask on. Vector v
 * uses parameters p[v · step]. The elements `ahead` of them are prefetched. */
TDM_INLINE void tdm_put_line(tdm_traversal w, long x, long ahead, long y, long mask,
                             const tdm_parameters *p, int step, int type) {
    tdm_made_line line;
    TDM_UNROLL for (int v = 0; v < CODES_LINE / N; v++) {
        if (tdm_is_line_of_x(w, v))
            tdm_prefetch_parameters(w, x + v * N + ahead);
        tdm_make_in_line(&line, v, WHOLE(w.x, x + v * N), p[v * step], w);
    }
    tdm_store_made_line(&line, w, y, mask, type);
}
#endif

/* Processes elements start … stop-1 of a row; each may have parameters of its own. */
TDM_BODY_OF_16 void tdm_own(tdm_traversal w, tdm_place at, long start, long stop, int type) {
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

/* Processes elements start … stop-1 of a row that share the parameters p. */
TDM_INLINE void tdm_alike(tdm_traversal w, tdm_place at, tdm_parameters p, long start, long stop,
                          int type) {
    long i = start;
    p.products = PRODUCTS;
#ifdef LINES
    if (w.x_step == 1 && LINES_FIT(w, type)) {
        for (; i + N <= stop && !tdm_made_line_begins(w, at.y + i, at.mask + i, type); i += N)
            tdm_put(WHOLE(w.x, at.x + i), p, w, at.y + i, at.mask + i, N, type);
        for (; i + CODES_LINE <= stop; i += CODES_LINE)
            tdm_put_line(w, at.x + i, AHEAD, at.y + i, at.mask + i, &p, 0, type);
    }
#endif
#if N > 1
    if (w.x_step == 1)
        TDM_FEW_PASSES for (; i + N <= stop; i += N) {
#ifndef TDM_SOURCE_CODES
            tdm_prefetch_parameters(w, at.x + i + AHEAD);
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
