/* Quantizes finite numbers on CPU cores. Their range is computed from their bits, and shows that
 * they are finite. Scales and zero points are derived from that range. Without zero points no
 * quotient is outside of the quantized range; with them quantized values are clamped as
 * integers. */
#ifndef TDM_QUANTIZE_FINITE_H
#define TDM_QUANTIZE_FINITE_H

#include "quantize_halves.h"

#if TDM_BY_PRODUCTS && defined(TDM_CAN_STREAM_NARROW)
#define TDM_FINITE_CODES 1

/* The largest bit patterns of floats, compared as signed and as unsigned integers. These belong to
 * the largest positive and to the smallest negative number; negative numbers start at -0. */
typedef struct {
    int16 high;
    uint16 low;
} tdm_word_bits;

TDM_INLINE tdm_word_bits tdm_word_bits_start(void) {
    tdm_word_bits b;
    b.high = (int16)(0);
    b.low = (uint16)(0x80000000u);
    return b;
}

/* For a symmetric range the low end is left unchanged. */
TDM_INLINE tdm_word_bits tdm_word_bits_add(tdm_word_bits b, F x, int symmetric) {
    const int16 v = TDM_BITS(N, x);
    if (symmetric) {
        b.high = max(b.high, v & (int16)(0x7fffffff));
    } else {
        b.high = max(b.high, v);
        b.low = max(b.low, as_uint16(v));
    }
    return b;
}

TDM_INLINE tdm_word_bits tdm_word_bits_join(tdm_word_bits a, tdm_word_bits b) {
    a.high = max(a.high, b.high);
    a.low = max(a.low, b.low);
    return a;
}

/* Returns the range; a NaN appears in it as an infinity. */
TDM_INLINE tdm_range tdm_range_of_words(tdm_word_bits b, int symmetric) {
    tdm_range r;
    r.high = as_float16(min(b.high, (int16)(0x7f800000)));
    r.low = symmetric ? K(0.0f) - r.high : as_float16(min(b.low, (uint16)(0xff800000u)));
    return r;
}

TDM_INLINE I tdm_nearest(F x) {
#if defined(__AVX512F__)
    return __builtin_ia32_cvtps2dq512_mask(x, TDM_INT_SPLAT(N, 0), (ushort)0xffff, 8);
#else
    return tdm_rounded_code(x, TDM_INT_SPLAT(N, 0));
#endif
}

/* Returns the quantized value that tdm_code gives. zeros: 1 if there are zero points. */
TDM_INLINE I tdm_code_of_finite(F x, tdm_multiplier m, int zeros, tdm_quant_side side) {
#if TDM_HALF_PRODUCTS
    const F quotient = tdm_fma(x, m.reciprocal, x * m.correction);
#else
    const F quotient = tdm_quotient_by_products(x, m.correction, m.reciprocal);
#endif
    const I code = tdm_nearest(quotient);
    if (!zeros)
        return code;
    return tdm_int_max(tdm_int_min(code + m.zero, TDM_INT_SPLAT(N, side.high)),
                       TDM_INT_SPLAT(N, side.low));
}

/* Returns 0 in lanes whose stored scale suits tdm_code_of_finite, 1 in others. The scale must suit
 * multiplications. It must also be so near the derived scale that the largest number stays within
 * half a step of the largest quantized value. The smallest and the largest scales in f16 may not be
 * that near. */
TDM_INLINE F tdm_scales_not_near(F scale, int type) {
    const float least = type == TDM_CODE_F16 ? 0x1p-17f : 0x1p-60f;
    const float most = type == TDM_CODE_F16 ? TDM_LARGEST_F16 : 0x1p60f;
    const F small = TDM_SELECT_LT(N, K(least), scale, K(0.0f), K(1.0f));
    return TDM_SELECT_LT(N, scale, K(most), small, K(1.0f));
}
#define tdm_products_unfit(scale, type) tdm_scales_not_near(scale, type)
#define BY_ZEROS(zeros, type, call, call_zeros)                                                    \
    if (zeros) {                                                                                   \
        BY_CODES(type, call_zeros)                                                                 \
    } else {                                                                                       \
        BY_CODES(type, call)                                                                       \
    }
#else
#define TDM_FINITE_CODES 0
#define tdm_products_unfit(scale, type) tdm_scales_not_plain(scale)
#define BY_ZEROS(zeros, type, call, call_zeros) BY_CODES(type, call)
#endif

/* 1 if quotients may come from multiplications. `unfit` is a sum of tdm_products_unfit; `finite` is
 * 1 if all numbers are finite. */
#define tdm_products_fit(unfit, finite)                                                            \
    (TDM_BY_PRODUCTS && (!TDM_FINITE_CODES || (finite)) &&                                         \
     TDM_CAT4(f32x, N, _, hmax)(unfit) == 0.0f)

#endif
