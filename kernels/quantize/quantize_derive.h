/* Derives scale and zero point from a range of real numbers, as quant/quant_parameters.h does on
 * the host: with equal steps in f32, each rounded separately. */
#ifndef TDM_QUANTIZE_DERIVE_H
#define TDM_QUANTIZE_DERIVE_H

#include "quant_steps.h"

#define TDM_SMALLEST_NORMAL 0x1p-126f
#define TDM_LARGEST_F32 0x1.fffffep127f
#define TDM_LARGEST_F16 65504.0f
#define TDM_JUST_BELOW_1 0x1.fffffep-1f

/* A range that contains 0. */
typedef struct {
    F low, high;
} tdm_range;

TDM_DEVICE tdm_range tdm_range_start(void) {
    tdm_range r;
    r.low = K(0.0f);
    r.high = K(0.0f);
    return r;
}

/* Returns r widened to contain x; a value that is not finite counts as 0. */
TDM_DEVICE tdm_range tdm_range_add(tdm_range r, F x) {
    const F v = TDM_SELECT_LT(N, tdm_abs(x), K(INFINITY), x, K(0.0f));
    r.low = TDM_SELECT_LT(N, v, r.low, v, r.low);
    r.high = TDM_SELECT_LT(N, r.high, v, v, r.high);
    return r;
}

/* Returns r widened to contain x. If `careful`, values that are not finite count as 0. Otherwise an
 * infinity appears in the range, and only a NaN counts as 0. */
TDM_INLINE tdm_range tdm_range_widen(tdm_range r, F x, int careful) {
    if (careful)
        return tdm_range_add(r, x);
    r.low = TDM_SELECT_LT(N, x, r.low, x, r.low);
    r.high = TDM_SELECT_LT(N, r.high, x, x, r.high);
    return r;
}

/* Returns 1 if the ranges of all lanes are finite. */
TDM_INLINE int tdm_range_is_finite(tdm_range r) {
    const F below = K(0.0f) - r.low;
    return TDM_CAT4(f32x, N, _, hmax)(TDM_SELECT_LT(N, r.high, below, below, r.high)) < INFINITY;
}

/* Returns the largest scale that a type can hold. For bf16 its product with `steps`, at most 255,
 * is finite too: it is 2^128 / steps, truncated. */
TDM_INLINE float tdm_largest_scale(int type, int steps) {
    const float quotient = tdm_float(((1 << 23) - 1) / steps);
    return type == TDM_CODE_F16 ? TDM_LARGEST_F16
           : type == TDM_CODE_BF16
               ? tdm_bits_float(tdm_float_bits(quotient) & 0xffff0000u) * 0x1p105f
               : TDM_LARGEST_F32;
}

/* Returns the scale of a range, asymmetric if there are zero points. A scale so small that a device
 * may flush it becomes 0. The scale that is stored is finite, and so is its product with every
 * quantized value. */
TDM_DEVICE F tdm_derived_scale(tdm_range r, tdm_quant_side side) {
    const F below = K(0.0f) - r.low;
    const F larger = TDM_SELECT_LT(N, r.high, below, below, r.high);
    const F width = tdm_min(r.high - r.low, K(TDM_LARGEST_F32));
    const int steps = side.zero_type == 0 ? side.high : side.high - side.low;
    const F scale = tdm_divide(side.zero_type == 0 ? larger : width, K(tdm_float(steps)));
    const F finite = TDM_SELECT_LT(N, scale * K(tdm_float(steps)), K(INFINITY), scale,
                                   scale * K(TDM_JUST_BELOW_1));
    return TDM_SELECT_LT(N, scale, K(TDM_SMALLEST_NORMAL), K(0.0f),
                         tdm_min(finite, K(tdm_largest_scale(side.scale_type, steps))));
}

/* Returns the zero point of a range that has this scale, or 0 if the scale is 0. */
TDM_DEVICE I tdm_derived_zero(tdm_range r, F scale, tdm_quant_side side) {
    const F low = K(tdm_float(side.low)), high = K(tdm_float(side.high));
    const F shifted = low - tdm_divide(r.low, scale);
    const F wanted = TDM_SELECT_LT(N, K(0.0f), scale, tdm_between(shifted, low, high), K(0.0f));
    return side.zero_type == 0 ? TDM_INT_SPLAT(N, 0)
                               : tdm_rounded_code(wanted, TDM_INT_SPLAT(N, 0));
}

/* Rounds a normal x ≥ 0 to nearest even, without the last `dropped` bits of its significand. */
TDM_DEVICE float tdm_shortened(float x, int dropped) {
    const uint bits = tdm_float_bits(x);
    const uint up = (1u << (dropped - 1)) - 1u + ((bits >> dropped) & 1u);
    return tdm_bits_float((bits + up) >> dropped << dropped);
}

/* Returns a derived scale rounded to a storage type. It uses arithmetic, because a compiler may
 * assume that a value is unchanged if it is stored and read back. */
TDM_DEVICE float tdm_kept_scale(float scale, int type) {
    if (type == TDM_CODE_F16)
        return scale < 0x1p-14f ? tdm_rint(scale * 0x1p24f) * 0x1p-24f : tdm_shortened(scale, 13);
    return type == TDM_CODE_BF16 ? tdm_shortened(scale, 16) : scale;
}

/* Stores a scale and returns the stored value. */
TDM_DEVICE float tdm_keep_scale(float scale, TDM_GLOBAL void *p, long i, int type) {
    const float kept = tdm_kept_scale(scale, type);
    tdm_store_any(kept, p, type, i);
    return kept;
}

TDM_DEVICE void tdm_keep_zero(int zero, TDM_GLOBAL void *p, long i, int type) {
    switch (type) {
    case TDM_CODE_S32:
        tdm_store_int_s32(zero, (TDM_GLOBAL tdm_s32 *)p, i);
        break;
    case TDM_CODE_S8:
        tdm_store_int_s8(zero, (TDM_GLOBAL tdm_s8 *)p, i);
        break;
    case TDM_CODE_U8:
        tdm_store_int_u8(zero, (TDM_GLOBAL tdm_u8 *)p, i);
        break;
    }
}

/* The destination of parameters: buffers, the offsets of lane 0, and the steps to the other
 * lanes. */
typedef struct {
    TDM_GLOBAL void *scale, *zero;
    long s, z, scale_step, zero_step;
} tdm_parameter_place;

/* Stores the zero points of lanes 0 … left-1, `step` apart. */
TDM_DEVICE void tdm_keep_zeros(I zero, TDM_GLOBAL void *p, long i, long step, int left, int type) {
    int zeros[N];
    if (N > 1 && left == N && step == 1 && type == TDM_CODE_U8) {
        TDM_INT_STOREV_GLOBAL(N, u8, zero, (TDM_GLOBAL tdm_u8 *)p, i);
        return;
    }
    if (N > 1 && left == N && step == 1 && type == TDM_CODE_S8) {
        TDM_INT_STOREV_GLOBAL(N, s8, zero, (TDM_GLOBAL tdm_s8 *)p, i);
        return;
    }
    TDM_INT_STOREV(N, s32, zero, zeros, 0);
    for (int lane = 0; lane < left; lane++)
        tdm_keep_zero(zeros[lane], p, i + lane * step, type);
}

/* Derives and stores the parameters of lanes 0 … left-1, and returns their quantizer. */
TDM_DEVICE tdm_quantizer tdm_derive(tdm_range r, tdm_parameter_place place, int left,
                                    tdm_quant_side side) {
    float scales[N];
    const F derived = tdm_derived_scale(r, side);
    TDM_STOREV(N, f32, derived, scales, 0);
    if (left == N && place.scale_step == 1 && side.scale_type == TDM_CODE_F32)
        TDM_STOREV_GLOBAL(N, f32, derived, (TDM_GLOBAL tdm_f32 *)place.scale, place.s);
    else
        for (int lane = 0; lane < left; lane++)
            scales[lane] = tdm_keep_scale(scales[lane], place.scale,
                                          place.s + lane * place.scale_step, side.scale_type);
    const F scale = TDM_LOADV(N, f32, scales, 0);
    const I zero = tdm_derived_zero(r, scale, side);
    if (side.zero_type != 0)
        tdm_keep_zeros(zero, place.zero, place.z, place.zero_step, left, side.zero_type);
    return tdm_quantizer_make(scale, zero, side.low, side.high);
}

/* Derives and stores the parameters of one range that all lanes share: one entry, and a quantizer
 * of equal lanes. */
TDM_DEVICE tdm_quantizer tdm_derive_one(tdm_range r, tdm_parameter_place place,
                                        tdm_quant_side side) {
    float scales[N];
    int zeros[N];
    TDM_STOREV(N, f32, tdm_derived_scale(r, side), scales, 0);
    const F scale = K(tdm_keep_scale(scales[0], place.scale, place.s, side.scale_type));
    I zero = TDM_INT_SPLAT(N, 0);
    if (side.zero_type != 0) {
        zero = tdm_derived_zero(r, scale, side);
        TDM_INT_STOREV(N, s32, zero, zeros, 0);
        tdm_keep_zero(zeros[0], place.zero, place.z, side.zero_type);
    }
    return tdm_quantizer_make(scale, zero, side.low, side.high);
}

#endif
