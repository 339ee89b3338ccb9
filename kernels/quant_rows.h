/* The kernel that quantize, dequantize, requantize and fake_quantize are: elements in rows as strided_rows.h says, the
 * parameters operands with strides of their own (0 along what shares them). Both elements of a byte of s4
 * belong to one work-item: span is even then.
 *
 * Before a text includes this it defines DT the source's type, N vector width, TDM_SOURCE_CODES where that is
 * of codes, TDM_TARGET_CODES where codes are written, TDM_BOUND_REALS where bounds are to be of what scale · (code -
 * zero) may be instead of code - zero, TDM_MASK where there is a mask; and after it tdm_made_code where codes are written,
 * else tdm_put.
 *
 * With 16 lanes on CPU cores what is slow for each vector is done once for many:
 *
 *   parameters along the row    widened to arrays for STRIP columns, then used for ROWS_BLOCK rows. Those of BESIDE vectors
 *                               are read once for TOGETHER rows, whose results are whole lines then. Strips are long,
 *                               because each row of one is a new page, and half as long where zero points differ, too:
 *                               the arrays are more. Codes of a matrix beyond the caches of which only scales differ are made
 *                               one row after the other: memory is read in its order
 *   short rows: groups          parameters of N rows at a time
 *   s4 past the caches          a line of codes is put together before it is stored
 *   quotients                   by the reciprocal of the scale, where quant_steps.h has that */
#ifndef TDM_QUANT_ROWS_H
#define TDM_QUANT_ROWS_H

#include "quant_steps.h"

#ifdef TDM_CAN_STREAM
#define STRIP 4096
#define TOGETHER 4
#define BESIDE 4
#else
#define STRIP 2048
#define TOGETHER 1
#define BESIDE 1
#endif
#define SHORT_ROW 256
#define BYTES_AHEAD 8192
#define BYTES_NEAR 4096 /* as far ahead where parameters are to stay in the first cache */
#define ROWS_AHEAD 2
#define ROWS_BLOCK 64

#if defined(TDM_SOURCE_CODES) && defined(TDM_TARGET_CODES)
#define TDM_TWO_SIDES
#endif
/* llvmpipe takes seconds to compile all forms of requantize. */
#if N == 16 && !defined(TDM_DIALECT_CXX) && (defined(TDM_CAN_STREAM) || !defined(TDM_TWO_SIDES))
#define MANY_AT_ONCE
#endif
#if defined(TDM_SOURCE_CODES)
#define PRODUCTS 0
#else
#define PRODUCTS TDM_BY_PRODUCTS
#endif

#if defined(TDM_TARGET_CODES) || !defined(TDM_SOURCE_CODES)
#define BOUNDS
#endif

/* Of a matrix beyond the caches by column one row after the other, where most of what passes is read. */
#ifdef TDM_TARGET_CODES
#define IN_ORDER 1
#else
#define IN_ORDER 0
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

/* One call for each type that the launch may give, so that its loops have no choice inside. Compiled for CUDA an item has one vector of a row, and
 * chooses once anyway: nvcc takes a third of the time for one form. */
#ifdef TDM_DIALECT_CXX
#define BY_TYPE(type, call) call(type);
#else
#define EACH_TYPE(type, call)                                                                      \
    case type:                                                                                     \
        call(type);                                                                                \
        break;
#if N > 1 && defined(TDM_CAN_STREAM)
#define EACH_STREAMED(type, call) EACH_TYPE(TDM_STREAMED + type, call)
#else
#define EACH_STREAMED(type, call)
#endif
#if N == 16
#define EACH_STREAMED_HALVES(call)                                                                 \
    EACH_STREAMED(TDM_CODE_F16, call) EACH_STREAMED(TDM_CODE_BF16, call)
#else
#define EACH_STREAMED_HALVES(call)
#endif
#ifdef TDM_TARGET_CODES
#define BY_TYPE(type, call)                                                                        \
    switch (type) {                                                                                \
        EACH_TYPE(TDM_CODE_S8, call)                                                               \
        EACH_TYPE(TDM_CODE_U8, call)                                                               \
        EACH_TYPE(TDM_CODE_S4, call)                                                               \
        EACH_STREAMED(TDM_CODE_S8, call)                                                           \
        EACH_STREAMED(TDM_CODE_U8, call)                                                           \
        EACH_STREAMED(TDM_CODE_S4, call)                                                           \
    }
#else
#define BY_TYPE(type, call)                                                                        \
    switch (type) {                                                                                \
        EACH_TYPE(TDM_CODE_F32, call)                                                              \
        EACH_TYPE(TDM_CODE_F16, call)                                                              \
        EACH_TYPE(TDM_CODE_BF16, call)                                                             \
        EACH_STREAMED(TDM_CODE_F32, call)                                                          \
        EACH_STREAMED_HALVES(call)                                                                 \
    }
#endif
#endif
#if defined(TDM_SOURCE_CODES) && !defined(TDM_TARGET_CODES)
#define SIDE(w) (w).arg.source
#else
#define SIDE(w) (w).arg.target
#endif

/* Where the parameters are: places of an element's entries, or how far those of neighbours are apart. */
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
    int mask_streams; /* whether whole vectors of the mask go past the caches */
    tdm_entries step;
    tdm_quant_arg arg;
} tdm_walk;

/* Where a row begins, or how far rows are apart. */
typedef struct {
    long x, y, mask;
    tdm_entries entry;
} tdm_place;

/* Of N lanes: the scale, for two sides that of the source by that of the target, zero points, and where codes are made
 * bounds of code - zero; products: whether quotients may come from the reciprocal, which is not set else. */
typedef struct {
    F scale, reciprocal, low, high;
    I zero, from_zero;
    int products;
} tdm_parameters;

/* Store what becomes of elements v of a row, the first `left` of them, at y and mask. */
TDM_INLINE void tdm_put(V v, tdm_parameters p, tdm_walk w, long y, long mask, int left, int type);

#ifdef TDM_TARGET_CODES
TDM_INLINE I tdm_made_code(V v, tdm_parameters p, tdm_walk w);

TDM_INLINE void tdm_put(V v, tdm_parameters p, tdm_walk w, long y, long mask, int left, int type) {
    tdm_store_codes(type, tdm_made_code(v, p, w), w.y, y, left);
}
#endif

TDM_INLINE int tdm_row_type(tdm_walk w, long y) {
    return tdm_store_type(w.y, y, w.arg.target_type, w.arg.streams);
}

TDM_INLINE void tdm_ask_ahead(tdm_walk w, long x) {
    tdm_prefetch_far(w.x + x + BYTES_AHEAD / (int)sizeof *w.x);
}

/* For element x of a strip. Two arrays of parameters leave the first cache no room for what is asked of farther caches only. */
TDM_INLINE void tdm_ask_in_strip(tdm_walk w, long x, int in_order) {
    if (PRODUCTS && in_order)
        tdm_prefetch(w.x + x);
    else
        tdm_prefetch_far(w.x + x);
}

/* ---- parameters ---- */

TDM_INLINE int tdm_entries_differ(tdm_entries a, tdm_entries b) {
#ifdef TDM_TWO_SIDES
    if (a.from_scale != b.from_scale || a.from_zero != b.from_zero)
        return 1;
#endif
    return a.scale != b.scale || a.zero != b.zero;
}

TDM_INLINE int tdm_zeros_differ(tdm_walk w) {
#ifdef TDM_TWO_SIDES
    if (w.arg.source.zero_type != 0 && w.step.from_zero != 0)
        return 1;
#endif
    return SIDE(w).zero_type != 0 && w.step.zero != 0;
}

/* The most that neighbours are apart. */
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

/* Zero points of lanes 0 … left-1, and bounds of code - zero. */
TDM_INLINE void tdm_zeros_at(tdm_parameters *p, tdm_walk w, tdm_entries at, tdm_entries step,
                             int left) {
    p->zero = tdm_zero_lanes(w.zero, at.zero, step.zero, left, SIDE(w));
    p->from_zero = p->zero;
#ifdef TDM_TWO_SIDES
    p->from_zero = tdm_zero_lanes(w.from_zero, at.from_zero, step.from_zero, left, w.arg.source);
#endif
    p->low = tdm_from_zero(SIDE(w).low, p->zero);
    p->high = tdm_from_zero(SIDE(w).high, p->zero);
}

/* Of lanes 0 … left-1. */
TDM_INLINE void tdm_parameters_at(tdm_parameters *to, tdm_walk w, tdm_entries at, tdm_entries step,
                                  int left) {
    tdm_parameters p;
    p.scale = tdm_scale_lanes(w.scale, at.scale, step.scale, left, SIDE(w).scale_type);
    tdm_zeros_at(&p, w, at, step, left);
#ifdef TDM_TWO_SIDES
    const F from = tdm_scale_lanes(w.from_scale, at.from_scale, step.from_scale, left,
                                   w.arg.source.scale_type);
    p.scale = tdm_divide(from, tdm_divisor(p.scale));
#endif
#ifdef TDM_BOUND_REALS
    p.low = p.scale * p.low;
    p.high = p.scale * p.high;
#endif
    p.reciprocal = p.scale;
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

/* Of a row that shares them. */
TDM_INLINE void tdm_parameters_of_row(tdm_parameters *to, tdm_walk w, tdm_entries at) {
    tdm_parameters p;
    tdm_parameters_at(&p, w, at, tdm_no_steps(), N);
    p.products = PRODUCTS && tdm_scales_are_plain(p.scale);
#if PRODUCTS
    p.reciprocal = tdm_divide(K(1.0f), p.scale);
#endif
    *to = p;
}

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
    int plain = 1;
    for (long i = 0; i < count; i += N) {
        const int left = (int)(count - i < N ? count - i : N);
        tdm_parameters p;
        tdm_parameters_at(&p, w, tdm_entries_on(at, step, i), step, left);
        to->scale[i / N] = p.scale;
#if PRODUCTS
        plain = plain && tdm_scales_are_plain(p.scale);
        to->reciprocal[i / N] = tdm_divide(K(1.0f), p.scale);
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
    return plain;
}

/* Of lanes i … i + N - 1; zero points and bounds from `shared` where not `zeros`, which was given to tdm_widen. */
TDM_INLINE void tdm_parameters_widened(tdm_parameters *to, const tdm_widened *from, long i,
                                       int zeros, tdm_parameters shared) {
    tdm_parameters p = shared;
    p.scale = from->scale[i / N];
    p.reciprocal = p.scale;
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
    p.reciprocal = p.scale;
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
        TDM_UNROLL for (int row = 0; row < rows; row++)
            TDM_UNROLL for (int v = 0; v < BESIDE; v++) {
            const long x = at.x + row * strides.x + i + v * N;
            tdm_ask_in_strip(w, x + ahead, rows == 1);
            tdm_put(WHOLE(w.x, x), of[v], w, at.y + row * strides.y + i + v * N,
                    at.mask + row * strides.mask + i + v * N, N, type);
        }
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

#ifdef S4_LINES
/* `rows` rows from `row` on, as tdm_short_rows has them, that make a line: `inner` elements each, one after the other in y. */
TDM_INLINE void tdm_rows_of_line(tdm_walk w, tdm_place at, tdm_place strides, int row, int rows,
                                 const tdm_widened *widened) {
    I codes[S4_LINE / N];
    const int vectors = S4_LINE / N / rows;
    TDM_UNROLL for (int r = 0; r < rows; r++) {
        tdm_parameters p;
        tdm_parameters_one(&p, widened, row + r);
        TDM_UNROLL for (int v = 0; v < vectors; v++) {
            const long x = at.x + (row + r) * strides.x + v * N;
            tdm_ask_ahead(w, x);
            codes[r * vectors + v] = tdm_made_code(WHOLE(w.x, x), p, w);
        }
    }
    tdm_stream_s4_line(codes, w.y, at.y + row * strides.y);
}
#endif

/* `rows` ≤ N rows of `inner` elements, whole vectors, each with parameters of its own. */
TDM_INLINE void tdm_short_rows(tdm_walk w, tdm_place at, tdm_place strides, int rows, int inner,
                               const tdm_widened *widened, int type) {
    int first = 0;
#ifdef S4_LINES
    if (type == TDM_STREAMED + TDM_CODE_S4 && strides.y == inner && tdm_begins_line(w.y, at.y)) {
        for (; inner == S4_LINE / 4 && first + 4 <= rows; first += 4)
            tdm_rows_of_line(w, at, strides, first, 4, widened);
        for (; inner == S4_LINE / 2 && first + 2 <= rows; first += 2)
            tdm_rows_of_line(w, at, strides, first, 2, widened);
        for (; inner == S4_LINE && first < rows; first++)
            tdm_rows_of_line(w, at, strides, first, 1, widened);
    }
    at.x += first * strides.x;
    at.y += first * strides.y;
#endif
    for (int row = first; row < rows; row++) {
        tdm_parameters p;
        tdm_parameters_one(&p, widened, row);
        for (int i = 0; i < inner; i += N) {
            tdm_ask_ahead(w, at.x + i);
            tdm_put(WHOLE(w.x, at.x + i), p, w, at.y + i, at.mask + i, N, type);
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
#define MASK_OF_WALK                                                                               \
    w.mask = mask, w.mask_step = mask_step,                                                        \
    w.mask_streams = MASK_STRIDES_WHOLE &&                                                         \
                     tdm_store_type(mask, mask_offset, TDM_CODE_U8, arg.streams) != TDM_CODE_U8
#define MASK_STRIDES_WHOLE (rank == 0 || (rank == 1 && mask_strides.v[0] % N == 0))
#define MASK_PLACE(along) mask_offset + tdm_offset_along(along, rank, &mask_strides)
#define MASK_STRIDE mask_strides.v[0]
#else
#define MASK_BUFFER
#define MASK_STRIDES
#define MASK_STEP
#define MASK_OF_WALK w.mask = 0, w.mask_step = 0, w.mask_streams = 0
#define MASK_PLACE(along) 0
#define MASK_STRIDE 0
#endif

/* Of two sides the source's parameters come first. */
#ifdef TDM_TWO_SIDES
#define FROM_BUFFERS                                                                               \
    TDM_GLOBAL const void *from_scale, long from_scale_offset, TDM_GLOBAL const void *from_zero,   \
        long from_zero_offset,
#define FROM_STRIDES tdm_dims from_scale_strides, tdm_dims from_zero_strides,
#define FROM_STEPS long from_scale_step, long from_zero_step,
#define FROM_OF_WALK                                                                               \
    w.from_scale = from_scale, w.from_zero = from_zero, w.step.from_scale = from_scale_step,       \
    w.step.from_zero = from_zero_step
#define FROM_PLACE(at, along)                                                                      \
    (at).entry.from_scale =                                                                        \
        from_scale_offset + tdm_offset_along(along, rank, &from_scale_strides),                    \
    (at).entry.from_zero = from_zero_offset + tdm_offset_along(along, rank, &from_zero_strides)
#define FROM_STRIDE(at)                                                                            \
    (at).entry.from_scale = from_scale_strides.v[0], (at).entry.from_zero = from_zero_strides.v[0]
#else
#define FROM_BUFFERS
#define FROM_STRIDES
#define FROM_STEPS
#define FROM_OF_WALK (void)0
#define FROM_PLACE(at, along) (void)0
#define FROM_STRIDE(at) (void)0
#endif

#define PLACE(at, row)                                                                             \
    tdm_place at;                                                                                  \
    tdm_dims at##_along;                                                                           \
    tdm_row_along(&at##_along, row, rank, &shape);                                                 \
    at.x = x_offset + tdm_offset_along(&at##_along, rank, &x_strides);                             \
    at.entry.scale = scale_offset + tdm_offset_along(&at##_along, rank, &scale_strides);           \
    at.entry.zero = zero_offset + tdm_offset_along(&at##_along, rank, &zero_strides);              \
    at.y = y_offset + tdm_offset_along(&at##_along, rank, &y_strides);                             \
    at.mask = MASK_PLACE(&at##_along);                                                             \
    FROM_PLACE(at, &at##_along)

/* Elements from … to-1 of rows one … end-1 through tdm_own: of 16 lanes a rare case, which takes no code for each type. */
#if N == 16
#define OWN_TYPES(call) call(arg.target_type);
#else
#define OWN_TYPES(call) BY_TYPE(arg.target_type, call)
#endif
#define OWN_CALL(T) tdm_own(w, own, own_from, own_to, T)
#define OWN_ROW(at, from, to)                                                                      \
    {                                                                                              \
        const tdm_place own = at;                                                                  \
        const long own_from = from, own_to = to;                                                   \
        OWN_TYPES(OWN_CALL)                                                                        \
    }
#define OWN(row, end, from, to)                                                                    \
    for (long one = row; one < (end); one++) {                                                     \
        PLACE(one_at, one);                                                                        \
        OWN_ROW(one_at, from, to)                                                                  \
    }

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const TDM_TYPE(DT) * x, long x_offset, FROM_BUFFERS TDM_GLOBAL const void *scale,
 long scale_offset, TDM_GLOBAL const void *zero, long zero_offset, MASK_BUFFER TDM_GLOBAL void *y,
 long y_offset, tdm_dims shape, tdm_dims x_strides, FROM_STRIDES tdm_dims scale_strides,
 tdm_dims zero_strides, MASK_STRIDES tdm_dims y_strides, int rank, long rows, long inner,
 long x_step, FROM_STEPS long scale_step, long zero_step, MASK_STEP long y_step, long span,
 tdm_quant_arg arg) {
    const long start = tdm_global_x() * span;
    const long stop = start + span < inner ? start + span : inner;
    TDM_ROW_SHARE(rows, first, last);
    tdm_walk w;
    w.x = x, w.scale = scale, w.zero = zero, w.y = y;
    w.x_step = x_step, w.step.scale = scale_step, w.step.zero = zero_step, w.y_step = y_step;
    FROM_OF_WALK;
    MASK_OF_WALK;
    w.arg = arg;
    const int varies = tdm_entries_apart(w.step) != 0;
#ifdef MANY_AT_ONCE
    tdm_widened widened;
    tdm_place strides;
    strides.x = x_strides.v[0], strides.y = y_strides.v[0], strides.mask = MASK_STRIDE;
    strides.entry.scale = scale_strides.v[0], strides.entry.zero = zero_strides.v[0];
    FROM_STRIDE(strides);
    const long apart = tdm_entries_apart(strides.entry);
    if (varies && x_step == 1) {
        const int alike = rank <= 1 && apart == 0;
        const int zeros = tdm_zeros_differ(w);
        const long strip = zeros ? STRIP / 2 : STRIP;
        tdm_parameters shared;
        const long rows_block = stop - start <= strip ? last - first : ROWS_BLOCK;
        for (long block = first; block < last; block += rows_block) {
            const long block_end = block + rows_block < last ? block + rows_block : last;
            for (long from = start; from < stop; from += strip) {
                const long count = from + strip < stop ? strip : stop - from;
                const int in_order =
                    IN_ORDER && arg.streams && !zeros && count >= BYTES_NEAR / (int)sizeof *x;
                tdm_entries held;
                int is_held = 0, plain = 0;
                for (long row = block; row < block_end;) {
                    PLACE(at, row);
                    if (!is_held || tdm_entries_differ(at.entry, held)) {
                        plain = tdm_widen(w, tdm_entries_on(at.entry, w.step, from), w.step, count,
                                          zeros, &widened);
                        if (!zeros)
                            tdm_zeros_at(&shared, w, at.entry, tdm_no_steps(), N);
                    }
                    held = at.entry;
                    is_held = 1;
                    tdm_place on = at;
                    on.x += from;
                    on.y += from;
                    on.mask += from;
                    const int tile = in_order ? 0 : alike && row + TOGETHER <= block_end;
                    const int together = tile ? TOGETHER : 1;
                    row += together;
#define CALL(T) tdm_strip(w, on, strides, 1, count, &widened, 0, shared, T)
#define CALL_ZEROS(T) tdm_strip(w, on, strides, 1, count, &widened, 1, shared, T)
#define CALL_SOME(T) tdm_strip(w, on, strides, TOGETHER, count, &widened, 0, shared, T)
#define CALL_SOME_ZEROS(T) tdm_strip(w, on, strides, TOGETHER, count, &widened, 1, shared, T)
                    if (plain && together > 1) {
                        const int type =
                            strides.y % N == 0 ? tdm_row_type(w, on.y) : arg.target_type;
                        if (zeros) {
                            BY_TYPE(type, CALL_SOME_ZEROS)
                        } else {
                            BY_TYPE(type, CALL_SOME)
                        }
                    } else if (plain && zeros) {
                        BY_TYPE(tdm_row_type(w, on.y), CALL_ZEROS)
                    } else if (plain) {
                        BY_TYPE(tdm_row_type(w, on.y), CALL)
                    } else {
                        OWN(row - together, row, from, from + count)
                    }
#undef CALL
#undef CALL_ZEROS
#undef CALL_SOME
#undef CALL_SOME_ZEROS
                }
            }
        }
    } else if (!varies && x_step == 1 && rank <= 1 && inner % N == 0 && inner <= SHORT_ROW &&
               span >= inner && apart <= 1) {
        for (long row = first; row < last; row += N) {
            const int left = (int)(last - row < N ? last - row : N);
            PLACE(at, row);
            if (!tdm_widen(w, at.entry, strides.entry, left, 1, &widened)) {
                OWN(row, row + left, start, stop)
                continue;
            }
#define CALL(T) tdm_short_rows(w, at, strides, left, (int)inner, &widened, T)
            BY_TYPE(strides.y % N == 0 ? tdm_row_type(w, at.y) : arg.target_type, CALL)
#undef CALL
        }
    } else
#endif
        TDM_FEW_PASSES for (long row = first; row < last; row++) {
            PLACE(at, row);
            tdm_parameters p;
            if (!varies)
                tdm_parameters_of_row(&p, w, at.entry);
#define CALL(T) tdm_alike(w, at, p, start, stop, T)
            if (varies || p.products != PRODUCTS) {
                OWN_ROW(at, start, stop)
            } else {
                BY_TYPE(tdm_row_type(w, at.y), CALL)
            }
#undef CALL
        }
    if (arg.streams)
        tdm_stream_end();
}

#endif
