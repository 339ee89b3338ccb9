/* y = scale · (code(x) - zero), and mask = 1 where the code did not have to be saturated, else 0.
 *
 * Defines: DT the source's type, N vector width, TDM_BUILT_IN_DIVIDE as divide.h says. Rows and parameters as
 * quant_rows.h says. masks is 0 where no mask is wanted: mask is then another operand's memory. */
#include "dialect.h"
#define TDM_MASK
#include "quant_rows.h"

/* 1 where the rounded quotient lies between the ends; a NaN and infinities do not. */
TDM_INLINE I tdm_passes(F quotient, F scale, tdm_quantizer q) {
    const F rounded = tdm_rint(quotient);
    const F below = TDM_SELECT_LT(N, rounded, q.high + K(1.0f), K(1.0f), K(0.0f));
    const F inside = TDM_SELECT_LT(N, q.low - K(1.0f), rounded, below, K(0.0f));
    return tdm_rounded_code(TDM_SELECT_LT(N, K(0.0f), tdm_abs(scale), inside, K(0.0f)),
                            TDM_INT_SPLAT(N, 0));
}

TDM_INLINE void tdm_put(V v, tdm_parameters p, tdm_walk w, long y, long mask, int left, int type) {
    const tdm_quant_side side = w.arg.target;
    if (p.products && !w.arg.masks) {
        const I code = tdm_code_by_products(
            v, tdm_multiplier_make(p.scale, p.reciprocal, p.zero, side.low, side.high));
        tdm_store_reals(type, tdm_real(code, p.scale, p.zero), w.y, y, left);
        return;
    }
    const tdm_quantizer q = tdm_quantizer_make(p.scale, p.zero, side.low, side.high);
    const F quotient = tdm_divide(v, q.scale);
    const I code = tdm_rounded_code(tdm_between(quotient, q.low, q.high), p.zero);
    tdm_store_reals(type, tdm_real(code, p.scale, p.zero), w.y, y, left);
    if (w.arg.masks && left == N)
        TDM_INT_STOREV(N, u8, tdm_passes(quotient, p.scale, q), w.mask, mask);
    else if (w.arg.masks)
        TDM_STORE_PART(u8, tdm_passes(quotient, p.scale, q), w.mask, mask, left);
}
