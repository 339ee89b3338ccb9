/* y = scale · (code(x) - zero), and mask = 1 where the code did not have to be saturated, else 0.
 *
 * Defines: DT the source's type, N vector width, TDM_BUILT_IN_DIVIDE as divide.h says. Rows and parameters as
 * quant_rows.h says. masks is 0 where no mask is wanted: mask is then another operand's memory. */
#include "kernels/dialect/dialect.h"
#define TDM_MASK
#define TDM_CODES_OF_HALVES
#include "quant_rows.h"

/* 1 where the rounded quotient lies between the ends; a NaN and infinities do not. */
TDM_INLINE I tdm_passes(F rounded, F low, F high) {
    const F below = TDM_SELECT_LT(N, rounded, high + K(1.0f), K(1.0f), K(0.0f));
    return tdm_rounded_code(TDM_SELECT_LT(N, low - K(1.0f), rounded, below, K(0.0f)),
                            TDM_INT_SPLAT(N, 0));
}

TDM_INLINE void tdm_put_mask(I passes, tdm_walk w, long mask, int left) {
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

#ifdef REALS_BY_PRODUCTS
/* x between both; a NaN stays one. */
TDM_INLINE F tdm_bounded(F x, F low, F high) {
    const F below = TDM_SELECT_LT(N, high, x, high, x);
    return TDM_SELECT_LT(N, below, low, low, below);
}

/* By products: x, or of halves the quotient, is bounded, where a mask is wanted one code beyond the ends, so that what was saturated
 * shows. */
TDM_INLINE F tdm_bounded_quotient(F x, tdm_parameters p) {
#if TDM_HALF_PRODUCTS
    return tdm_bounded(tdm_fma(x, p.reciprocal, x * p.mend), p.least, p.most);
#else
    return tdm_quotient_by_products(tdm_bounded(x, p.least, p.most), p.scale, p.reciprocal);
#endif
}

/* A NaN becomes 0. */
TDM_INLINE F tdm_made_real(V v, tdm_parameters p) {
    const F real = p.scale * tdm_rounded(tdm_bounded_quotient(v, p));
    return TDM_CAT4(f32x, N, _if, _number)(v, real);
}

/* As integers what was saturated is found: where numbers multiply there is most to do. Of a NaN neither end is its nearest code. */
TDM_INLINE F tdm_made_masked(V v, tdm_parameters p, I *passes) {
    const I nearest = tdm_rounded_code(tdm_bounded_quotient(v, p), TDM_INT_SPLAT(N, 0));
    const I kept = tdm_int_max(tdm_int_min(nearest, convert_int16(p.high)),
                               convert_int16(p.low));
    *passes = (kept == nearest) & TDM_INT_SPLAT(N, 1);
    const F real = p.scale * TDM_CAT4(f32x, N, _from_s32, )(kept);
    return TDM_CAT4(f32x, N, _if, _number)(v, real);
}
#endif

TDM_INLINE void tdm_put(V v, tdm_parameters p, tdm_walk w, long y, long mask, int left, int type) {
#ifdef REALS_BY_PRODUCTS
    if (p.products && !w.arg.masks) {
        tdm_store_reals(type, tdm_made_real(v, p), w.y, y, left);
        return;
    }
    if (p.products) {
        I passes;
        tdm_store_reals(type, tdm_made_masked(v, p, &passes), w.y, y, left);
        tdm_put_mask(passes, w, mask, left);
        return;
    }
#endif
    const F quotient = tdm_divide(v, tdm_divisor(p.scale));
    const I code = tdm_rounded_code(tdm_between(quotient, p.low, p.high), p.zero);
    tdm_store_reals(type, tdm_real(code, p.scale, p.zero), w.y, y, left);
    if (!w.arg.masks)
        return;
    const F rounded = TDM_SELECT_LT(N, K(0.0f), tdm_abs(p.scale), tdm_rint(quotient), K(INFINITY));
    tdm_put_mask(tdm_passes(rounded, p.low, p.high), w, mask, left);
}
