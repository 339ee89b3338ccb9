/* The kernel that quantize, dequantize and fake_quantize are: elements in rows as strided_rows.h says, the
 * parameters operands with strides of their own (0 along what shares them). Both elements of a byte of s4
 * belong to one work-item: span is even then.
 *
 * Before a text includes this it defines DT the source's type, N vector width, TDM_SOURCE_CODES where that is
 * of codes, TDM_TARGET_CODES where codes are written, TDM_MASK where there is a mask; and tdm_put after it.
 *
 * With 16 lanes, on CPU cores, what is slow for each vector is done once for many:
 *
 *   parameters along the row    widened to arrays for STRIP columns, then used for all rows
 *   short rows: groups          parameters of N rows at a time */
#ifndef TDM_QUANT_ROWS_H
#define TDM_QUANT_ROWS_H

#include "quant_steps.h"

#define STRIP 4096
#define TOGETHER 4
#define SHORT_ROW 256
#define BYTES_AHEAD 8192

#ifdef TDM_SOURCE_CODES
#define V I
#define WHOLE(x, i) TDM_INT_LOADV(N, DT, x, i)
#define REPEATED(x, i) TDM_INT_SPLAT(N, TDM_CAT2(tdm_int_, DT)(x, i))
#define NOTHING 0
#else
#define V F
#define WHOLE(x, i) TDM_LOADV(N, DT, x, i)
#define REPEATED(x, i) K(TDM_LOAD(DT, x, i))
#define NOTHING 0.0f
#endif

/* One call for each type that the launch may give, so that its loops have no choice inside. */
#ifdef TDM_TARGET_CODES
#define SIDE(w) (w).arg.target
#define BY_TYPE(type, call)                                                                        \
    switch (type) {                                                                                \
    case TDM_CODE_S8:                                                                              \
        call(TDM_CODE_S8);                                                                         \
        break;                                                                                     \
    case TDM_CODE_U8:                                                                              \
        call(TDM_CODE_U8);                                                                         \
        break;                                                                                     \
    case TDM_CODE_S4:                                                                              \
        call(TDM_CODE_S4);                                                                         \
        break;                                                                                     \
    }
#else
#define BY_TYPE(type, call)                                                                        \
    switch (type) {                                                                                \
    case TDM_CODE_F32:                                                                             \
        call(TDM_CODE_F32);                                                                        \
        break;                                                                                     \
    case TDM_CODE_F16:                                                                             \
        call(TDM_CODE_F16);                                                                        \
        break;                                                                                     \
    case TDM_CODE_BF16:                                                                            \
        call(TDM_CODE_BF16);                                                                       \
        break;                                                                                     \
    case TDM_STREAMED_F32:                                                                         \
        call(TDM_STREAMED_F32);                                                                    \
        break;                                                                                     \
    }
#ifdef TDM_SOURCE_CODES
#define SIDE(w) (w).arg.source
#else
#define SIDE(w) (w).arg.target
#endif
#endif

typedef struct {
    TDM_GLOBAL const TDM_TYPE(DT) * x;
    TDM_GLOBAL const void *scale, *zero;
    TDM_GLOBAL void *y;
    TDM_GLOBAL tdm_u8 *mask;
    long x_step, scale_step, zero_step, y_step, mask_step;
    tdm_quant_arg arg;
} tdm_walk;

/* Where a row begins. */
typedef struct {
    long x, scale, zero, y, mask;
} tdm_place;

/* Store what becomes of elements v of a row, the first `left` of them, at y and mask. */
TDM_INLINE void tdm_put(V v, F scale, I zero, tdm_walk w, long y, long mask, int left, int type);

/* The type to store by: whole vectors go past the caches where the output is too large for them and the row
 * begins at a whole one. */
TDM_INLINE int tdm_store_type(tdm_walk w, long y) {
    const int streams = N > 1 ? w.arg.streams : 0;
    const int whole = tdm_address((TDM_GLOBAL const tdm_f32 *)w.y + y) % (N * 4) == 0;
    return streams && whole && w.arg.target_type == TDM_CODE_F32 ? TDM_STREAMED_F32
                                                                 : w.arg.target_type;
}

TDM_INLINE void tdm_ask_ahead(tdm_walk w, long x) {
    tdm_prefetch_far(w.x + x + BYTES_AHEAD / (int)sizeof *w.x);
}

/* Elements start … stop-1 of a row whose parameters are one for all. */
TDM_INLINE void tdm_alike(tdm_walk w, tdm_place at, long start, long stop, int type) {
    const F scale = K(tdm_scale_one(w.scale, at.scale, SIDE(w).scale_type));
    const I zero = tdm_zero_lanes(w.zero, at.zero, 0, N, SIDE(w));
    long i = start;
#if N > 1
    if (w.x_step == 1)
        for (; i + N <= stop; i += N) {
            tdm_put(WHOLE(w.x, at.x + i), scale, zero, w, at.y + i, at.mask + i, N, type);
        }
#endif
    for (; i < stop; i += N) {
        const int left = (int)(stop - i < N ? stop - i : N);
        const V v = N > 1 && w.x_step == 0 ? REPEATED(w.x, at.x)
                    : left == N            ? WHOLE(w.x, at.x + i * w.x_step)
                                           : TDM_LOAD_PART(DT, w.x, at.x + i, left, NOTHING);
        tdm_put(v, scale, zero, w, at.y + i * w.y_step, at.mask + i * w.mask_step, left, type);
    }
}

/* The same where each element may have parameters of its own. */
TDM_INLINE void tdm_own(tdm_walk w, tdm_place at, long start, long stop, int type) {
    for (long i = start; i < stop; i += N) {
        const int left = (int)(stop - i < N ? stop - i : N);
        const F scale = tdm_scale_lanes(w.scale, at.scale + i * w.scale_step, w.scale_step, left,
                                        SIDE(w).scale_type);
        const I zero =
            tdm_zero_lanes(w.zero, at.zero + i * w.zero_step, w.zero_step, left, SIDE(w));
        const V v = N > 1 && w.x_step == 0 ? REPEATED(w.x, at.x)
                    : left == N            ? WHOLE(w.x, at.x + i * w.x_step)
                                           : TDM_LOAD_PART(DT, w.x, at.x + i, left, NOTHING);
        tdm_put(v, scale, zero, w, at.y + i * w.y_step, at.mask + i * w.mask_step, left, type);
    }
}

#if N == 16
/* `count` lanes of parameters from entries s and z on, as plain f32 and s32; whole vectors are written. */
TDM_INLINE void tdm_widen(tdm_walk w, long s, long s_step, long z, long z_step, long count,
                          float *scales, int *zeros) {
    for (long i = 0; i < count; i += N) {
        const int left = (int)(count - i < N ? count - i : N);
        TDM_STOREV(N, f32,
                   tdm_scale_lanes(w.scale, s + i * s_step, s_step, left, SIDE(w).scale_type),
                   scales, i);
        TDM_INT_STOREV(N, s32, tdm_zero_lanes(w.zero, z + i * z_step, z_step, left, SIDE(w)), zeros,
                       i);
    }
}

/* The first `count` elements of `rows` rows, one as good as unrolled; parameters differ along the row alone. */
TDM_INLINE void tdm_strip(tdm_walk w, tdm_place at, tdm_place strides, int rows, long count,
                          const float *scales, const int *zeros, int type) {
    long i = 0;
    for (; i + N <= count; i += N) {
        const F scale = TDM_LOADV(N, f32, scales, i);
        const I zero = TDM_INT_LOADV(N, s32, zeros, i);
        TDM_UNROLL for (int row = 0; row < rows; row++) {
            const long x = at.x + row * strides.x + i;
            tdm_prefetch_far(w.x + x + rows * strides.x);
            tdm_put(WHOLE(w.x, x), scale, zero, w, at.y + row * strides.y + i,
                    at.mask + row * strides.mask + i, N, type);
        }
    }
    for (int row = 0; row < rows && i < count; row++) {
        const int left = (int)(count - i);
        tdm_put(TDM_LOAD_PART(DT, w.x, at.x + row * strides.x + i, left, NOTHING),
                TDM_LOADV(N, f32, scales, i), TDM_INT_LOADV(N, s32, zeros, i), w,
                at.y + row * strides.y + i, at.mask + row * strides.mask + i, left, type);
    }
}

/* `rows` ≤ N rows of `inner` elements, whole vectors; strides.mask, x and y are how far rows are apart. */
TDM_INLINE void tdm_short_rows(tdm_walk w, tdm_place at, tdm_place strides, int rows, int inner,
                               const float *scales, const int *zeros, int type) {
    for (int row = 0; row < rows; row++) {
        const F scale = K(scales[row]);
        const I zero = TDM_INT_SPLAT(N, zeros[row]);
        for (int i = 0; i < inner; i += N) {
            tdm_ask_ahead(w, at.x + i);
            tdm_put(WHOLE(w.x, at.x + i), scale, zero, w, at.y + i, at.mask + i, N, type);
        }
        at.x += strides.x;
        at.y += strides.y;
        at.mask += strides.mask;
    }
}
#endif

/* ---- the kernel ---- */

#ifdef TDM_MASK
#define MASK_BUFFER TDM_GLOBAL tdm_u8 *mask, long mask_offset,
#define MASK_STRIDES tdm_dims mask_strides,
#define MASK_STEP long mask_step,
#define MASK_OF_WALK w.mask = mask, w.mask_step = mask_step
#define MASK_PLACE(row) mask_offset + tdm_row_offset(row, rank, &shape, &mask_strides)
#define MASK_STRIDE mask_strides.v[0]
#else
#define MASK_BUFFER
#define MASK_STRIDES
#define MASK_STEP
#define MASK_OF_WALK w.mask = 0, w.mask_step = 0
#define MASK_PLACE(row) 0
#define MASK_STRIDE 0
#endif

#define PLACE(at, row)                                                                             \
    tdm_place at;                                                                                  \
    at.x = x_offset + tdm_row_offset(row, rank, &shape, &x_strides);                               \
    at.scale = scale_offset + tdm_row_offset(row, rank, &shape, &scale_strides);                   \
    at.zero = zero_offset + tdm_row_offset(row, rank, &shape, &zero_strides);                      \
    at.y = y_offset + tdm_row_offset(row, rank, &shape, &y_strides);                               \
    at.mask = MASK_PLACE(row)

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const TDM_TYPE(DT) * x, long x_offset, TDM_GLOBAL const void *scale, long scale_offset,
 TDM_GLOBAL const void *zero, long zero_offset, MASK_BUFFER TDM_GLOBAL void *y, long y_offset,
 tdm_dims shape, tdm_dims x_strides, tdm_dims scale_strides, tdm_dims zero_strides,
 MASK_STRIDES tdm_dims y_strides, int rank, long rows, long inner, long x_step, long scale_step,
 long zero_step, MASK_STEP long y_step, long span, tdm_quant_arg arg) {
    const long start = tdm_global_x() * span;
    const long stop = start + span < inner ? start + span : inner;
    TDM_ROW_SHARE(rows, first, last);
    const int varies = scale_step != 0 || zero_step != 0;
    tdm_walk w;
    w.x = x, w.scale = scale, w.zero = zero, w.y = y;
    w.x_step = x_step, w.scale_step = scale_step, w.zero_step = zero_step, w.y_step = y_step;
    MASK_OF_WALK;
    w.arg = arg;
#if N == 16
    float scales[STRIP];
    int zeros[STRIP];
    tdm_place strides;
    strides.x = x_strides.v[0], strides.y = y_strides.v[0], strides.mask = MASK_STRIDE;
    strides.scale = scale_strides.v[0], strides.zero = zero_strides.v[0];
    if (varies && x_step == 1) {
        const int together = rank <= 1 && strides.scale == 0 && strides.zero == 0 ? TOGETHER : 1;
        for (long from = start; from < stop; from += STRIP) {
            const long count = from + STRIP < stop ? STRIP : stop - from;
            long held_scale = -1, held_zero = -1;
            for (long row = first; row < last;) {
                const int step = last - row < together ? 1 : together;
                PLACE(at, row);
                if (at.scale != held_scale || at.zero != held_zero)
                    tdm_widen(w, at.scale + from * scale_step, scale_step,
                              at.zero + from * zero_step, zero_step, count, scales, zeros);
                held_scale = at.scale;
                held_zero = at.zero;
                at.x += from;
                at.y += from;
                at.mask += from;
                const int type =
                    step == 1 || strides.y % N == 0 ? tdm_store_type(w, at.y) : arg.target_type;
#define CALL(T)                                                                                    \
    if (step == TOGETHER)                                                                          \
        tdm_strip(w, at, strides, TOGETHER, count, scales, zeros, T);                              \
    else                                                                                           \
        tdm_strip(w, at, strides, 1, count, scales, zeros, T)
                BY_TYPE(type, CALL)
#undef CALL
                row += step;
            }
        }
    } else if (!varies && x_step == 1 && rank <= 1 && inner % N == 0 && inner <= SHORT_ROW &&
               span >= inner && strides.scale <= 1 && strides.zero <= 1) {
        for (long row = first; row < last; row += N) {
            const int left = (int)(last - row < N ? last - row : N);
            PLACE(at, row);
            tdm_widen(w, at.scale, strides.scale, at.zero, strides.zero, left, scales, zeros);
#define CALL(T) tdm_short_rows(w, at, strides, left, (int)inner, scales, zeros, T)
            BY_TYPE(strides.y % N == 0 ? tdm_store_type(w, at.y) : arg.target_type, CALL)
#undef CALL
        }
    } else
#endif
        for (long row = first; row < last; row++) {
            PLACE(at, row);
#define CALL(T)                                                                                    \
    if (varies)                                                                                    \
        tdm_own(w, at, start, stop, T);                                                            \
    else                                                                                           \
        tdm_alike(w, at, start, stop, T)
            BY_TYPE(tdm_store_type(w, at.y), CALL)
#undef CALL
        }
    if (arg.streams)
        tdm_stream_end();
}

#endif
