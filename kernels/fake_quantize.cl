/* y = scale · (code(x) - zero), and mask = 1 where the code did not have to be saturated, else 0.
 *
 * Defines: DT the source's type, N vector width, TDM_BUILT_IN_DIVIDE as divide.h says. Rows as
 * strided_rows.h says; the parameters are operands with strides of their own (0 along what shares
 * them). masks is 0 where no mask is wanted: mask is then another operand's memory. */
#include "dialect.h"
#include "quant_steps.h"

TDM_DEVICE F tdm_source(TDM_GLOBAL const TDM_TYPE(DT) *x, long from, long i, long step, int left) {
    if (N > 1 && step == 0)
        return K(TDM_LOAD(DT, x, from));
    if (left == N)
        return TDM_LOADV(N, DT, x, from + i * step);
    return TDM_LOAD_PART(DT, x, from + i, left, 0.0f);
}

/* 1 where the rounded quotient lies between the ends; a NaN and infinities do not. */
TDM_DEVICE I tdm_passes(F quotient, tdm_quantizer q) {
    const F rounded = tdm_rint(quotient);
    const F below = TDM_SELECT_LT(N, rounded, q.high + K(1.0f), K(1.0f), K(0.0f));
    const F inside = TDM_SELECT_LT(N, q.low - K(1.0f), rounded, below, K(0.0f));
    return tdm_rounded_code(TDM_SELECT_LT(N, K(0.0f), tdm_abs(q.scale), inside, K(0.0f)),
                            TDM_INT_SPLAT(N, 0));
}

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const TDM_TYPE(DT) *x, long x_offset, TDM_GLOBAL const void *scale, long scale_offset,
 TDM_GLOBAL const void *zero, long zero_offset, TDM_GLOBAL tdm_u8 *mask, long mask_offset,
 TDM_GLOBAL void *y, long y_offset, tdm_dims shape, tdm_dims x_strides, tdm_dims scale_strides,
 tdm_dims zero_strides, tdm_dims mask_strides, tdm_dims y_strides, int rank, long rows, long inner,
 long x_step, long scale_step, long zero_step, long mask_step, long y_step, long span,
 tdm_quant_arg arg) {
    const long start = tdm_global_x() * span;
    const long stop = start + span < inner ? start + span : inner;
    TDM_ROW_SHARE(rows, first, last);
    const int varies = scale_step != 0 || zero_step != 0;
    for (long row = first; row < last; row++) {
        const long from = x_offset + tdm_row_offset(row, rank, &shape, &x_strides);
        const long to = y_offset + tdm_row_offset(row, rank, &shape, &y_strides);
        const long m = mask_offset + tdm_row_offset(row, rank, &shape, &mask_strides);
        const long s = scale_offset + tdm_row_offset(row, rank, &shape, &scale_strides);
        const long z = zero_offset + tdm_row_offset(row, rank, &shape, &zero_strides);
        tdm_quantizer q =
            tdm_quantizer_lanes(scale, s, 0, zero, z, 0, N, arg.target);
        for (long i = start; i < stop; i += N) {
            const int left = (int)(stop - i < N ? stop - i : N);
            if (varies)
                q = tdm_quantizer_lanes(scale, s + i * scale_step, scale_step, zero,
                                        z + i * zero_step, zero_step, left, arg.target);
            const F quotient = tdm_divide(tdm_source(x, from, i, x_step, left), q.scale);
            const I code = tdm_rounded_code(tdm_between(quotient, q.low, q.high), q.zero);
            tdm_store_reals(arg.target_type, tdm_real(code, q.scale, q.zero), y, to + i * y_step,
                            left);
            if (arg.masks && left == N)
                TDM_INT_STOREV(N, u8, tdm_passes(quotient, q), mask, m + i * mask_step);
            else if (arg.masks)
                TDM_STORE_PART(u8, tdm_passes(quotient, q), mask, m + i, left);
        }
    }
}
