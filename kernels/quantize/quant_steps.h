/* The steps of quantization, shared by its kernels: real = scale · (quantized value - zero).
 *
 * A kernel source first defines N (1, 4, 16), its vector width. Parameters are read by their
 * storage type at run time. With N > 1 their steps are 1 or 0 (one for all lanes). */
#ifndef TDM_QUANT_STEPS_H
#define TDM_QUANT_STEPS_H

#include "kernels/dialect/any_float.h"
#include "kernels/dialect/integers.h"
#include "kernels/dialect/long_functions.h"
#include "quant_args.h"
#include "kernels/elementwise/strided_rows.h"
#define TDM_DIVIDE_VECTOR N
#include "kernels/dialect/divide.h"

#define F TDM_F32(N)
#define I TDM_S32(N)
#define K(constant) TDM_SPLAT(N, constant)

/* TDM_BODY_OF_16 is TDM_BODY with 16 lanes, which CPU cores use. With fewer lanes a function is
 * short and is called more often. */
#if N == 16
#define TDM_BODY_OF_16 TDM_BODY
#else
#define TDM_BODY_OF_16 TDM_INLINE
#endif

TDM_PART_FUNCTIONS(f32)
TDM_PART_FUNCTIONS(f16)
TDM_PART_FUNCTIONS(bf16)
TDM_INT_PART_FUNCTIONS(s32)
TDM_INT_PART_FUNCTIONS(s8)
TDM_INT_PART_FUNCTIONS(u8)
TDM_INT_PART_FUNCTIONS(s4)

/* ---- reading parameters ---- */

/* Returns the scales of `left` < N lanes, and 1 for the other lanes. */
TDM_DEVICE F tdm_scale_part(TDM_GLOBAL const void *p, long i, int left, int type) {
    float part[N];
    TDM_FEW_PASSES for (int lane = 0; lane < N; lane++) part[lane] =
        lane < left ? tdm_load_any(p, type, i + lane) : 1.0f;
    return TDM_LOADV(N, f32, part, 0);
}

/* Returns the scales of lanes 0 … left-1, from entry i on. */
TDM_INLINE F tdm_scale_lanes(TDM_GLOBAL const void *p, long i, long step, int left, int type) {
    if (N == 1 || step == 0)
        return K(tdm_load_any(p, type, i));
    if (left < N)
        return tdm_scale_part(p, i, left, type);
    if (type == TDM_CODE_F16)
        return TDM_LOADV_GLOBAL(N, f16, (TDM_GLOBAL const tdm_f16 *)p, i);
    if (type == TDM_CODE_BF16)
        return TDM_LOADV_GLOBAL(N, bf16, (TDM_GLOBAL const tdm_bf16 *)p, i);
    return TDM_LOADV_GLOBAL(N, f32, (TDM_GLOBAL const tdm_f32 *)p, i);
}

#define TDM_QUANT_SOME_(LOADV, DT, p, i, left, filler)                                             \
    (left == N ? LOADV(N, DT, (TDM_GLOBAL const tdm_##DT *)p, i)                                   \
               : TDM_LOAD_PART(DT, (TDM_GLOBAL const tdm_##DT *)p, i, left, filler))

/* Returns the zero points of lanes 0 … left-1. A zero point outside of the quantized range counts
 * as the nearest value in it. */
TDM_INLINE I tdm_zero_lanes(TDM_GLOBAL const void *p, long i, long step, int left,
                            tdm_quant_side side) {
    I zero;
    if (N == 1 || step == 0 || side.zero_type == 0)
        zero = TDM_INT_SPLAT(N, tdm_int_any(p, side.zero_type, i));
    else if (side.zero_type == TDM_CODE_S32)
        zero = TDM_QUANT_SOME_(TDM_INT_LOADV_GLOBAL, s32, p, i, left, 0);
    else if (side.zero_type == TDM_CODE_S8)
        zero = TDM_QUANT_SOME_(TDM_INT_LOADV_GLOBAL, s8, p, i, left, 0);
    else
        zero = TDM_QUANT_SOME_(TDM_INT_LOADV_GLOBAL, u8, p, i, left, 0);
    return tdm_int_max(tdm_int_min(zero, TDM_INT_SPLAT(N, side.high)), TDM_INT_SPLAT(N, side.low));
}

/* ---- quantized values ---- */

/* The sum of this and a number below 2^22 has that number in its low bits, rounded to an integer
 * with ties to even. It takes one addition, where rounding and converting are two steps of several
 * instructions. */
#define TDM_ROUND_BY_ADDING 12582912.0f
#define TDM_ROUND_BY_ADDING_BITS 0x4b400000

/* Converts a real number to a quantized value. low and high bound quantized value - zero. If the
 * scale is 0 or a NaN, every quotient is 0 or a NaN, which becomes the zero point. */
typedef struct {
    F scale, low, high;
    I zero;
} tdm_quantizer;

/* Returns the divisor for a scale: infinity for a scale that is 0 or a NaN. */
TDM_INLINE F tdm_divisor(F scale) {
    return TDM_SELECT_LT(N, K(0.0f), tdm_abs(scale), scale, K(INFINITY));
}

/* bound - zero */
TDM_INLINE F tdm_from_zero(int bound, I zero) {
    return TDM_CAT4(f32x, N, _from_s32, )(TDM_INT_SPLAT(N, bound) - zero);
}

TDM_INLINE tdm_quantizer tdm_quantizer_make(F scale, I zero, int low, int high) {
    tdm_quantizer q;
    q.scale = tdm_divisor(scale);
    q.low = tdm_from_zero(low, zero);
    q.high = tdm_from_zero(high, zero);
    q.zero = zero;
    return q;
}

/* Clamps x to low … high, and returns 0 for a NaN. */
TDM_INLINE F tdm_between(F x, F low, F high) {
    const F number = TDM_NUMBER(N, x);
    const F below = TDM_SELECT_LT(N, number, high, number, high);
    return TDM_SELECT_LT(N, low, below, below, low);
}

/* Rounds x below 2^22 to an integer, ties to even. */
TDM_INLINE F tdm_rounded(F x) {
    return x + K(TDM_ROUND_BY_ADDING) - K(TDM_ROUND_BY_ADDING);
}

TDM_INLINE I tdm_rounded_code(F bounded, I zero) {
    const I bits = TDM_BITS(N, bounded + K(TDM_ROUND_BY_ADDING));
    return tdm_add_wrap(N, tdm_sub_wrap(N, bits, TDM_INT_SPLAT(N, TDM_ROUND_BY_ADDING_BITS)), zero);
}

TDM_INLINE I tdm_code(F x, tdm_quantizer q) {
    return tdm_rounded_code(tdm_between(tdm_divide(x, q.scale), q.low, q.high), q.zero);
}

TDM_INLINE F tdm_real(I code, F scale, I zero) {
    return scale * TDM_CAT4(f32x, N, _from_s32, )(tdm_sub_wrap(N, code, zero));
}

/* ---- quantized values by multiplication ---- */

/* This is 1 if a source of 16 lanes corrects its quotients although the division of the driver,
 * PoCL, is correctly rounded. The variant is then only a fallback for the variant with
 * TDM_BUILT_IN_DIVIDE, so it is kept short. It is also 1 in sources that do not divide. They have
 * no such variant and must not check this. */
#if N == 16 && defined(TDM_CAN_STREAM_NARROW) && !defined(TDM_BUILT_IN_DIVIDE)
#define TDM_STANDS_BY 1
#else
#define TDM_STANDS_BY 0
#endif

/* 1 if quotients may come from multiplications: on a CPU core a division takes longer than all the
 * rest. */
#if N == 16 && defined(TDM_FAST_FMA) && !TDM_STANDS_BY
#define TDM_BY_PRODUCTS 1
#else
#define TDM_BY_PRODUCTS 0
#endif

/* Returns 0 in lanes whose scale is plain, 1 in others. With a plain scale nothing in
 * tdm_code_by_products overflows or underflows. */
TDM_INLINE F tdm_scales_not_plain(F scale) {
    const F small = TDM_SELECT_LT(N, K(0x1p-60f), scale, K(0.0f), K(1.0f));
    return TDM_SELECT_LT(N, scale, K(0x1p60f), small, K(1.0f));
}

/* Returns 1 if the scales of all lanes are plain. */
TDM_INLINE int tdm_scales_are_plain(F scale) {
    return TDM_BY_PRODUCTS && TDM_CAT4(f32x, N, _, hmax)(tdm_scales_not_plain(scale)) == 0.0f;
}

/* 1 if f16 or bf16 is quantized and the kernel source defines TDM_CODES_OF_HALVES. These quotients
 * take one multiplication less. */
#define TDM_IS_HALF_f16 1
#define TDM_IS_HALF_bf16 1
#if TDM_BY_PRODUCTS && defined(TDM_CODES_OF_HALVES) && defined(TDM_CAN_STREAM_NARROW) &&           \
    TDM_CAT2(TDM_IS_HALF_, DT)
#define TDM_HALF_PRODUCTS 1
#else
#define TDM_HALF_PRODUCTS 0
#endif

/* Converts a real number to a quantized value by multiplications: the reciprocal of the scale, and
 * its correction term `correction`. For f32 the reciprocal is correctly rounded and the scale is
 * the correction term. x itself is bounded, at or beyond the values of the outermost quantized
 * values. For f16 and bf16 the reciprocal is not above the exact one, and its remainder is the
 * correction term. The quotient is bounded. */
typedef struct {
    F correction, reciprocal, low, high;
    I zero;
} tdm_multiplier;

/* Computes the reciprocal of a plain scale. Its remainder is left / scale, computed as left · below
 * · (1 + left) and slightly more. A tiny number replaces a remainder of zero: infinity times the
 * remainder must not be a NaN. */
TDM_INLINE void tdm_reciprocal_of(F scale, F *reciprocal, F *correction) {
    const F nearest = tdm_divide(K(1.0f), scale);
#if TDM_HALF_PRODUCTS
    const F over = tdm_fma(-scale, nearest, K(1.0f));
    const F below = TDM_SELECT_LT(N, over, K(0.0f), nearest * K(0x1.fffffep-1f), nearest);
    const F left = tdm_fma(-scale, below, K(1.0f)), first = left * below;
    const F rest = tdm_fma(first, left * K(0x1.00001p0f), first);
    const F little = below * K(0x1p-40f);
    *reciprocal = below;
    *correction = TDM_SELECT_LT(N, little, rest, rest, little);
#else
    *reciprocal = nearest;
    *correction = scale;
#endif
}

TDM_INLINE tdm_multiplier tdm_multiplier_of(tdm_quantizer q) {
    tdm_multiplier m;
    tdm_reciprocal_of(q.scale, &m.reciprocal, &m.correction);
    m.low = TDM_HALF_PRODUCTS ? q.low : q.scale * q.low;
    m.high = TDM_HALF_PRODUCTS ? q.high : q.scale * q.high;
    m.zero = q.zero;
    return m;
}

/* Returns the quotient of a bounded x and a plain scale. The reciprocal gives it with an error
 * below two units in the last place, and the exact remainder corrects it. Only quotients near k +
 * 1/2 affect quantized values. These equal the rounded division. That was tested for all
 * significands of the scale, all k below 256 and all x up to six steps from the tie. */
TDM_INLINE F tdm_quotient_by_products(F bounded, F scale, F reciprocal) {
    const F quotient = bounded * reciprocal;
    const F remainder = tdm_fma(-quotient, scale, bounded);
    return tdm_fma(remainder, reciprocal, quotient);
}

/* Returns the quantized value that tdm_code gives, for a plain scale. f16 and bf16 have 11
 * significant bits at most, so fewer of their quotients are near k + 1/2. The two multiplications
 * equal the rounded division. That was tested for all significands of the scale, all k below 256
 * and the numbers on both sides of the tie. */
TDM_INLINE I tdm_code_by_products(F x, tdm_multiplier m) {
#if TDM_HALF_PRODUCTS
    const F quotient = tdm_fma(x, m.reciprocal, x * m.correction);
    const F below = TDM_SELECT_LT(N, quotient, m.high, quotient, m.high);
    const F bounded = TDM_SELECT_LT(N, m.low, below, below, m.low);
    return tdm_rounded_code(TDM_CAT4(f32x, N, _if, _number)(x, bounded), m.zero);
#else
    const F bounded = tdm_between(x, m.low, m.high);
    return tdm_rounded_code(tdm_quotient_by_products(bounded, m.correction, m.reciprocal), m.zero);
#endif
}

/* ---- stores by a type that the launch gives ---- */

/* `past` selects `stream` for whole vectors. It is 0 where there are no non-temporal stores. */
#define TDM_QUANT_STORE_(code, to, store, past, stream, value)                                     \
    case code:                                                                                     \
        if (left < N)                                                                              \
            TDM_STORE_PART(to, value, (TDM_GLOBAL tdm_##to *)y, i, left);                          \
        else if (past)                                                                             \
            stream(N, to, value, (TDM_GLOBAL tdm_##to *)y, i);                                     \
        else                                                                                       \
            store(N, to, value, (TDM_GLOBAL tdm_##to *)y, i);                                      \
        break;

/* This is added to a type of op_codes.h if whole vectors use non-temporal stores. i is then a
 * multiple of a vector. */
#define TDM_STREAMED 100

/* TDM_STREAMED if the type includes it, else 0. */
#define TDM_PAST_OF(type) ((type) >= TDM_STREAMED ? TDM_STREAMED : 0)

/* Returns the type to store by. It includes TDM_STREAMED if `streams` is set, the device has
 * non-temporal stores of the type, and vectors from element y on are aligned. */
TDM_INLINE int tdm_store_type(TDM_GLOBAL const void *p, long y, int type, int streams) {
    const int halves = type == TDM_CODE_F16 || type == TDM_CODE_BF16;
    const int bits = type == TDM_CODE_F32 ? 32 : halves ? 16 : type == TDM_CODE_S4 ? 4 : 8;
    const long byte = (long)tdm_address((TDM_GLOBAL const tdm_u8 *)p) + y * bits / 8;
    const int least_width = halves ? 16 : 2;
    if (N < least_width || byte * 8 % (N * bits) != 0)
        return type;
#if defined(TDM_CAN_STREAM_NARROW)
    return streams ? type + TDM_STREAMED : type;
#elif defined(TDM_CAN_STREAM)
    return streams && type == TDM_CODE_F32 ? type + TDM_STREAMED : type;
#else
    return type;
#endif
}

/* Quantized values are not clamped to their type, because the range of their side is within it. */
#ifndef TDM_CODES_STOREV
#define TDM_CODES_STOREV(N, DT, v, p, i) TDM_INT_STOREV_GLOBAL(N, DT, v, p, i)
#endif
#ifndef TDM_CODES_STREAMV
#define TDM_CODES_STREAMV(N, DT, v, p, i) TDM_INT_STREAMV(N, DT, v, p, i)
#endif

#if N > 1 && defined(TDM_CAN_STREAM_NARROW)
#define TDM_QUANT_STREAM_CODES_(N, to, v, p, i) TDM_CODES_STREAMV(N, to, v, p, i)
#define TDM_QUANT_CODES_PAST_(past) past
#else
#define TDM_QUANT_STREAM_CODES_(N, to, v, p, i) (void)0
#define TDM_QUANT_CODES_PAST_(past) 0
#endif

TDM_INLINE void tdm_store_codes(int type, I v, TDM_GLOBAL void *y, long i, int left) {
    const int past = TDM_PAST_OF(type), streams = TDM_QUANT_CODES_PAST_(past);
    switch (type - past) {
        TDM_QUANT_STORE_(TDM_CODE_S8, s8, TDM_CODES_STOREV, streams, TDM_QUANT_STREAM_CODES_, v)
        TDM_QUANT_STORE_(TDM_CODE_U8, u8, TDM_CODES_STOREV, streams, TDM_QUANT_STREAM_CODES_, v)
        TDM_QUANT_STORE_(TDM_CODE_S4, s4, TDM_CODES_STOREV, streams, TDM_QUANT_STREAM_CODES_, v)
    }
}

/* Number of quantized values that are stored together if rows are contiguous. */
#define CODES_LINE 64

/* Returns 1 if tdm_store_line may store quantized values from element i of y on as a whole line. */
TDM_INLINE int tdm_begins_line(int type, TDM_GLOBAL const void *y, long i) {
    const int bits = type == TDM_CODE_S4 || type == TDM_STREAMED + TDM_CODE_S4 ? 4 : 8;
    const long byte = (long)tdm_address((TDM_GLOBAL const tdm_u8 *)y) + i * bits / 8;
    return type < TDM_STREAMED || byte % (CODES_LINE * bits / 8) == 0;
}

/* Stores CODES_LINE quantized values from element i of y on, where a whole vector may begin. */
TDM_INLINE void tdm_store_line(int type, const I codes[CODES_LINE / N], TDM_GLOBAL void *y,
                               long i) {
#if N == 16 && defined(TDM_CODES_STORE_LINE)
    if (tdm_begins_line(type, y, i)) {
        const int past = type >= TDM_STREAMED;
        switch (past ? type - TDM_STREAMED : type) {
        case TDM_CODE_S8:
            TDM_CODES_STORE_LINE(s8, codes, (TDM_GLOBAL tdm_s8 *)y + i, past);
            break;
        case TDM_CODE_U8:
            TDM_CODES_STORE_LINE(u8, codes, (TDM_GLOBAL tdm_u8 *)y + i, past);
            break;
        case TDM_CODE_S4:
            TDM_CODES_STORE_LINE(s4, codes, (TDM_GLOBAL tdm_s4 *)y + i / 2, past);
            break;
        }
        return;
    }
#endif
    TDM_UNROLL for (int v = 0; v < CODES_LINE / N; v++)
        tdm_store_codes(type, codes[v], y, i + v * N, N);
}

#if N > 1 && defined(TDM_CAN_STREAM)
#define TDM_QUANT_STREAM_(N, to, x, p, i) TDM_STREAMV(N, x, p, i)
#define TDM_QUANT_PAST_(past) past
#else
#define TDM_QUANT_STREAM_(N, to, x, p, i) (void)0
#define TDM_QUANT_PAST_(past) 0
#endif
#if N == 16 && defined(TDM_CAN_STREAM_NARROW)
#define TDM_QUANT_STREAM_HALVES_(N, to, x, p, i) TDM_CAT2(f32x16_stream_, to)(x, p, i)
#define TDM_QUANT_HALVES_PAST_(past) past
#else
#define TDM_QUANT_STREAM_HALVES_(N, to, x, p, i) (void)0
#define TDM_QUANT_HALVES_PAST_(past) 0
#endif

TDM_INLINE void tdm_store_dequantized(int type, F v, TDM_GLOBAL void *y, long i, int left) {
    const int past = TDM_PAST_OF(type);
    const int streams = TDM_QUANT_PAST_(past), halves = TDM_QUANT_HALVES_PAST_(past);
    switch (type - past) {
        TDM_QUANT_STORE_(TDM_CODE_F32, f32, TDM_STOREV_GLOBAL, streams, TDM_QUANT_STREAM_, v)
        TDM_QUANT_STORE_(TDM_CODE_F16, f16, TDM_STOREV_GLOBAL, halves, TDM_QUANT_STREAM_HALVES_, v)
        TDM_QUANT_STORE_(TDM_CODE_BF16, bf16, TDM_STOREV_GLOBAL, halves, TDM_QUANT_STREAM_HALVES_,
                         v)
    }
}

#endif
