/* y = scale · (code(x) - zero), and mask = 1 where the code did not have to be saturated, else 0.
 *
 * Defines: DT the source's type, N vector width, TDM_BUILT_IN_DIVIDE as divide.h says. Rows and parameters as
 * quant_rows.h says. masks is 0 where no mask is wanted: mask is then another operand's memory. */
#include "dialect.h"
#define TDM_MASK
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

/* By products, where no mask asks for the quotient: x itself is bounded. */
TDM_INLINE F tdm_made_real(V v, tdm_parameters p) {
    const F bounded = tdm_between(v, p.scale * p.low, p.scale * p.high);
    return p.scale * tdm_rounded(tdm_quotient_by_products(bounded, p.scale, p.reciprocal));
}

/* Bounded one code beyond the ends, so that the mask sees what was saturated; NaNs stay until the end. */
TDM_INLINE void tdm_put_by_products(F x, tdm_parameters p, tdm_walk w, long y, long mask, int left,
                                    int type) {
    const F least = p.scale * (p.low - K(1.0f)), most = p.scale * (p.high + K(1.0f));
    const F below = TDM_SELECT_LT(N, most, x, most, x);
    const F bounded = TDM_SELECT_LT(N, below, least, least, below);
    const F rounded = tdm_rounded(tdm_quotient_by_products(bounded, p.scale, p.reciprocal));
    tdm_store_reals(type, p.scale * tdm_between(rounded, p.low, p.high), w.y, y, left);
    tdm_put_mask(tdm_passes(rounded, p.low, p.high), w, mask, left);
}

TDM_INLINE void tdm_put(V v, tdm_parameters p, tdm_walk w, long y, long mask, int left, int type) {
    if (p.products && !w.arg.masks) {
        tdm_store_reals(type, tdm_made_real(v, p), w.y, y, left);
        return;
    }
    if (p.products) {
        tdm_put_by_products(v, p, w, y, mask, left, type);
        return;
    }
    const F quotient = tdm_divide(v, tdm_divisor(p.scale));
    const I code = tdm_rounded_code(tdm_between(quotient, p.low, p.high), p.zero);
    tdm_store_reals(type, tdm_real(code, p.scale, p.zero), w.y, y, left);
    if (!w.arg.masks)
        return;
    const F rounded = TDM_SELECT_LT(N, K(0.0f), tdm_abs(p.scale), tdm_rint(quotient), K(INFINITY));
    tdm_put_mask(tdm_passes(rounded, p.low, p.high), w, mask, left);
}
