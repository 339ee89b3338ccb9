/* Definitions for the loops of quant_rows.h: their sizes, the offsets of operands, and the
 * parameters of N lanes. A kernel source first defines what quant_rows.h lists. */
#ifndef TDM_QUANT_TRAVERSAL_H
#define TDM_QUANT_TRAVERSAL_H

#include "kernels/dialect/prefetch.h"
#include "quant_steps.h"
#include "quantize_types.h"

/* For f16 and bf16 bounds apply to the quotients, not to their inputs. */
#if TDM_HALF_PRODUCTS
#undef TDM_BOUND_DEQUANTIZED
#endif

#ifdef TDM_CAN_STREAM
#define STRIP 8192
#define TILE 4
#else
#define STRIP 2048
#define TILE 1
#endif
/* Columns of a strip that are processed for several rows before the next columns. */
#define CELL 512
/* Number of rows done together. */
#define TOGETHER 4
/* If the data is not in the caches, f32 rows of more columns than this are processed one by one.
 * Their parameters then come from the second-level cache. Four runs at a time, more than 16 KiB
 * apart, are slower to read from memory. With fewer columns the faster order depends on the
 * memory. */
#define NARROW 4096
#define PREFETCH_ENTRIES 1024 /* prefetch distance of parameters */
#define SHORT_ROW 256
#define SHORT_ROWS 64
#define ROWS_BLOCK 64

#if defined(TDM_SOURCE_CODES) && defined(TDM_TARGET_CODES)
#define TDM_TWO_SIDES
#endif
#if defined(TDM_TARGET_CODES) || !defined(TDM_SOURCE_CODES)
#define BOUNDS
#endif
/* MANY_AT_ONCE enables the loops of quant_traversal_strips.h. Without non-temporal stores
 * requantize does not have them, because all of its forms are too much to compile. */
#if N == 16 && !defined(TDM_DIALECT_CXX) && !(defined(BOUNDS) && TDM_STANDS_BY) &&                 \
    (defined(TDM_CAN_STREAM) || !defined(TDM_TWO_SIDES))
#define MANY_AT_ONCE
#endif
/* Dequantized values are stored by cache lines. */
#if defined(MANY_AT_ONCE) && defined(TDM_DEQUANTIZED_STORE_LINE) && !defined(TDM_TARGET_CODES)
#define DEQUANTIZED_LINES
#endif
#if defined(TDM_SOURCE_CODES)
#define PRODUCTS 0
#else
#define PRODUCTS TDM_BY_PRODUCTS
#endif
#if defined(TDM_MASK) && PRODUCTS && !defined(TDM_DIALECT_CXX)
#define DEQUANTIZED_BY_PRODUCTS
/* For f32 bounds apply to the dequantized values. For f16 and bf16 they apply to the quotients, and
 * the scale is not the correction term. */
#if TDM_HALF_PRODUCTS
#define SEPARATE_CORRECTION
#endif
#endif

#ifdef TDM_SOURCE_CODES
#define V I
#define WHOLE(x, i) TDM_INT_LOADV_GLOBAL(N, DT, x, i)
#define REPEATED(x, i) TDM_INT_SPLAT(N, TDM_CAT2(tdm_int_, DT)(x, i))
#define NOTHING 0
#else
#define V F
#define WHOLE(x, i) TDM_LOADV_GLOBAL(N, DT, x, i)
#define REPEATED(x, i) K(TDM_LOAD(DT, x, i))
#define NOTHING 0.0f
#endif

/* BY_TYPE(type, call) is BY_CODES or BY_DEQUANTIZED, depending on what the source stores. With
 * BY_TYPE_AND_PAST there are separate loops for non-temporal stores too. This doubles the code, and
 * is worth it for quantized values of short rows. */
#ifdef TDM_TARGET_CODES
#define BY_TYPE(type, call) BY_CODES(type, call)
#else
#define BY_TYPE(type, call) BY_DEQUANTIZED(type, call)
#endif
#if defined(TDM_TARGET_CODES) && defined(TDM_CAN_STREAM_NARROW)
#define BY_TYPE_AND_PAST(type, call)                                                               \
    if ((type) < TDM_STREAMED) {                                                                   \
        BY_PLAIN_CODES(type, 0, call)                                                              \
    } else {                                                                                       \
        BY_PLAIN_CODES((type)-TDM_STREAMED, TDM_STREAMED, call)                                    \
    }
#else
#define BY_TYPE_AND_PAST(type, call) BY_TYPE(type, call)
#endif
#if defined(TDM_SOURCE_CODES) && !defined(TDM_TARGET_CODES)
#define SIDE(w) (w).arg.source
#else
#define SIDE(w) (w).arg.target
#endif

/* Parameters: the offsets of one element's scale and zero point, or the steps between those of
 * neighbours. */
typedef struct {
    long scale, zero;
#ifdef TDM_TWO_SIDES
    long from_scale, from_zero;
#endif
} tdm_entries;

typedef struct {
    TDM_GLOBAL const TDM_TYPE(DT) * x;
    TDM_GLOBAL const void *scale, *zero;
#ifdef TDM_TWO_SIDES
    TDM_GLOBAL const void *from_scale, *from_zero;
#endif
    TDM_GLOBAL void *y;
    TDM_GLOBAL tdm_u8 *mask;
    long x_step, y_step, mask_step;
    int mask_streams; /* 1: whole vectors of the mask use non-temporal stores */
    tdm_entries step;
    tdm_quant_arg arg;
} tdm_traversal;

/* The offsets of a row, or the strides between rows. */
typedef struct {
    long x, y, mask;
    tdm_entries entry;
} tdm_place;

/* Parameters of N lanes. `scale` is the scale; with two sides, that of the source divided by that
 * of the target. zero and from_zero are zero points. low and high bound quantized value - zero, if
 * the target is quantized. products: 1 if quotients may come from `reciprocal`; otherwise it and
 * the correction term `correction` have no meaning. least and most bound a real number that is
 * quantized and dequantized (f16 and bf16: its quotient). With a mask they are one quantized value
 * wider. */
typedef struct {
    F scale, reciprocal, correction, low, high;
#ifdef DEQUANTIZED_BY_PRODUCTS
    F least, most;
#endif
    I zero, from_zero;
    int products;
} tdm_parameters;

/* Stores the results of elements v of a row, the first `left` of them, at y and mask. */
TDM_INLINE void tdm_put(V v, tdm_parameters p, tdm_traversal w, long y, long mask, int left,
                        int type);

#ifdef TDM_TARGET_CODES
TDM_INLINE I tdm_made_code(V v, tdm_parameters p, tdm_traversal w);

TDM_INLINE void tdm_put(V v, tdm_parameters p, tdm_traversal w, long y, long mask, int left,
                        int type) {
    tdm_store_codes(type, tdm_made_code(v, p, w), w.y, y, left);
}
#else
#if defined(TDM_SOURCE_CODES) || defined(DEQUANTIZED_BY_PRODUCTS)
TDM_INLINE F tdm_made_real(V v, tdm_parameters p);
#endif
#ifdef DEQUANTIZED_BY_PRODUCTS
TDM_INLINE F tdm_made_masked(V v, tdm_parameters p, I *passes);
#endif
#endif

TDM_INLINE int tdm_row_type(tdm_traversal w, long y) {
    return tdm_store_type(w.y, y, w.arg.target_type, w.arg.streams);
}

/* Prefetch distance in elements. */
#define AHEAD (PREFETCH_BYTES / (int)sizeof(TDM_TYPE(DT)) * (2 - (int)PLACE_OF(1)))

/* Prefetches element x of the source. */
TDM_INLINE void tdm_prefetch_parameters(tdm_traversal w, long x) {
    tdm_prefetch_far(w.x + PLACE_OF(x));
}

/* ---- parameters ---- */

TDM_INLINE int tdm_entries_differ(tdm_entries a, tdm_entries b) {
#ifdef TDM_TWO_SIDES
    if (a.from_scale != b.from_scale || a.from_zero != b.from_zero)
        return 1;
#endif
    return a.scale != b.scale || a.zero != b.zero;
}

TDM_INLINE int tdm_has_zeros(tdm_traversal w) {
#ifdef TDM_TWO_SIDES
    if (w.arg.source.zero_type != 0)
        return 1;
#endif
    return SIDE(w).zero_type != 0;
}

TDM_INLINE int tdm_zeros_differ(tdm_traversal w) {
#ifdef TDM_TWO_SIDES
    if (w.arg.source.zero_type != 0 && w.step.from_zero != 0)
        return 1;
#endif
    return SIDE(w).zero_type != 0 && w.step.zero != 0;
}

/* Returns the largest step between neighbours. */
TDM_INLINE long tdm_entries_apart(tdm_entries step) {
    long most = step.scale > step.zero ? step.scale : step.zero;
#ifdef TDM_TWO_SIDES
    most = most > step.from_scale ? most : step.from_scale;
    most = most > step.from_zero ? most : step.from_zero;
#endif
    return most;
}

TDM_INLINE tdm_entries tdm_entries_on(tdm_entries at, tdm_entries step, long i) {
    at.scale += i * step.scale;
    at.zero += i * step.zero;
#ifdef TDM_TWO_SIDES
    at.from_scale += i * step.from_scale;
    at.from_zero += i * step.from_zero;
#endif
    return at;
}

/* Loads the zero points of lanes 0 … left-1, and computes the bounds of quantized value - zero. */
TDM_INLINE void tdm_zeros_at(tdm_parameters *p, tdm_traversal w, tdm_entries at, tdm_entries step,
                             int left) {
    p->zero = tdm_zero_lanes(w.zero, at.zero, step.zero, left, SIDE(w));
    p->from_zero = p->zero;
#ifdef TDM_TWO_SIDES
    p->from_zero = tdm_zero_lanes(w.from_zero, at.from_zero, step.from_zero, left, w.arg.source);
#endif
    p->low = tdm_from_zero(SIDE(w).low, p->zero);
    p->high = tdm_from_zero(SIDE(w).high, p->zero);
#ifdef DEQUANTIZED_BY_PRODUCTS
    const F beyond = w.arg.masks ? K(1.0f) : K(0.0f);
    p->least = p->low - beyond;
    p->most = p->high + beyond;
#endif
}

/* Converts bounds of quantized values to bounds of real numbers, if those are bounded. */
TDM_INLINE void tdm_bound_dequantized(tdm_parameters *p) {
#ifdef TDM_BOUND_DEQUANTIZED
    p->low = p->scale * p->low;
    p->high = p->scale * p->high;
#endif
#if defined(DEQUANTIZED_BY_PRODUCTS) && !defined(SEPARATE_CORRECTION)
    p->least = p->scale * p->least;
    p->most = p->scale * p->most;
#endif
    (void)p;
}

/* Loads the parameters of lanes 0 … left-1. */
TDM_INLINE void tdm_parameters_at(tdm_parameters *to, tdm_traversal w, tdm_entries at,
                                  tdm_entries step, int left) {
    tdm_parameters p;
    p.scale = tdm_scale_lanes(w.scale, at.scale, step.scale, left, SIDE(w).scale_type);
    tdm_zeros_at(&p, w, at, step, left);
#if defined(DEQUANTIZED_LINES) && defined(TDM_SOURCE_CODES)
    if (w.arg.target_type == TDM_CODE_BF16)
        p.scale = f32x16_short_nans(p.scale);
#endif
#ifdef TDM_TWO_SIDES
    const F from = tdm_scale_lanes(w.from_scale, at.from_scale, step.from_scale, left,
                                   w.arg.source.scale_type);
    p.scale = tdm_divide(from, tdm_divisor(p.scale));
#endif
    tdm_bound_dequantized(&p);
    p.reciprocal = p.correction = p.scale;
    p.products = 0;
    *to = p;
}

TDM_INLINE tdm_entries tdm_no_steps(void) {
    tdm_entries none;
    none.scale = none.zero = 0;
#ifdef TDM_TWO_SIDES
    none.from_scale = none.from_zero = 0;
#endif
    return none;
}

/* Loads the parameters of a row whose elements share them. */
TDM_INLINE void tdm_parameters_of_row(tdm_parameters *to, tdm_traversal w, tdm_entries at) {
    tdm_parameters p;
    tdm_parameters_at(&p, w, at, tdm_no_steps(), N);
    p.products = PRODUCTS && tdm_scales_are_plain(p.scale);
#if PRODUCTS
    tdm_reciprocal_of(p.scale, &p.reciprocal, &p.correction);
#endif
    *to = p;
}

#endif
