/* y = scale · (quantized(x) - zero), and mask = 1 if the quantized value was not saturated, else 0.
 *
 * Defines: DT the source's type, N vector width, TDM_BUILT_IN_DIVIDE as in divide.h. quant_rows.h
 * describes rows and parameters. masks is 0 if no mask is wanted: `mask` is then another operand's
 * memory. */
#include "kernels/dialect/dialect.h"
#define TDM_MASK
#define TDM_CODES_OF_HALVES
#include "quant_rows.h"

/* Returns 1 if the rounded quotient is in range; a NaN and infinities are not. */
TDM_INLINE I tdm_passes(F rounded, F low, F high) {
    const F below = TDM_SELECT_LT(N, rounded, high + K(1.0f), K(1.0f), K(0.0f));
    return tdm_rounded_code(TDM_SELECT_LT(N, low - K(1.0f), rounded, below, K(0.0f)),
                            TDM_INT_SPLAT(N, 0));
}

TDM_INLINE void tdm_put_mask(I passes, tdm_traversal w, long mask, int left) {
#if N > 1 && defined(TDM_CAN_STREAM_NARROW)
    if (left == N && w.mask_streams) {
        TDM_INT_STREAMV(N, u8, passes, w.mask, mask);
        return;
    }
#endif
    if (left == N)
        TDM_INT_STOREV_GLOBAL(N, u8, passes, w.mask, mask);
    else
        TDM_STORE_PART(u8, passes, w.mask, mask, left);
}

#ifdef DEQUANTIZED_BY_PRODUCTS
/* Clamps x to low … high; a NaN stays a NaN. */
TDM_INLINE F tdm_bounded(F x, F low, F high) {
    const F below = TDM_SELECT_LT(N, high, x, high, x);
    return TDM_SELECT_LT(N, below, low, low, below);
}

/* Computes the quotient by multiplications. x is bounded, or for f16 and bf16 the quotient. With a
 * mask the bounds are one quantized value wider, so that saturation is detected. */
TDM_INLINE F tdm_bounded_quotient(F x, tdm_parameters p) {
#if TDM_HALF_PRODUCTS
    return tdm_bounded(tdm_fma(x, p.reciprocal, x * p.correction), p.least, p.most);
#else
    return tdm_quotient_by_products(tdm_bounded(x, p.least, p.most), p.scale, p.reciprocal);
#endif
}

/* Returns the dequantized value; a NaN becomes 0. */
TDM_INLINE F tdm_made_real(V v, tdm_parameters p) {
    const F real = p.scale * tdm_rounded(tdm_bounded_quotient(v, p));
    return TDM_CAT4(f32x, N, _if, _number)(v, real);
}

/* Returns the dequantized value and sets *passes. Saturation is detected on integers, because the
 * floating-point units have the most work. For a NaN the nearest value is at neither end. */
TDM_INLINE F tdm_made_masked(V v, tdm_parameters p, I *passes) {
    const I nearest = tdm_rounded_code(tdm_bounded_quotient(v, p), TDM_INT_SPLAT(N, 0));
    const I kept = tdm_int_max(tdm_int_min(nearest, convert_int16(p.high)),
                               convert_int16(p.low));
    *passes = (kept == nearest) & TDM_INT_SPLAT(N, 1);
    const F real = p.scale * TDM_CAT4(f32x, N, _from_s32, )(kept);
    return TDM_CAT4(f32x, N, _if, _number)(v, real);
}
#endif

TDM_INLINE void tdm_put(V v, tdm_parameters p, tdm_traversal w, long y, long mask, int left,
                        int type) {
#ifdef DEQUANTIZED_BY_PRODUCTS
    if (p.products && !w.arg.masks) {
        tdm_store_dequantized(type, tdm_made_real(v, p), w.y, y, left);
        return;
    }
    if (p.products) {
        I passes;
        tdm_store_dequantized(type, tdm_made_masked(v, p, &passes), w.y, y, left);
        tdm_put_mask(passes, w, mask, left);
        return;
    }
#endif
    const F quotient = tdm_divide(v, tdm_divisor(p.scale));
    const I code = tdm_rounded_code(tdm_between(quotient, p.low, p.high), p.zero);
    tdm_store_dequantized(type, tdm_real(code, p.scale, p.zero), w.y, y, left);
    if (!w.arg.masks)
        return;
    const F rounded = TDM_SELECT_LT(N, K(0.0f), tdm_abs(p.scale), tdm_rint(quotient), K(INFINITY));
    tdm_put_mask(tdm_passes(rounded, p.low, p.high), w, mask, left);
}
