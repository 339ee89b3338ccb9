/* y = saturate(rint(x / scale) + zero): codes of s8, u8 or s4.
 *
 * Defines: DT the source's type, N vector width, TDM_BUILT_IN_DIVIDE as divide.h says. Rows as
 * strided_rows.h says; the parameters are operands with strides of their own (0 along what shares
 * them). Both elements of a byte of s4 belong to one work-item: span is even then. */
#include "dialect.h"
#include "quant_steps.h"

TDM_DEVICE F tdm_source(TDM_GLOBAL const TDM_TYPE(DT) *x, long from, long i, long step, int left) {
    if (N > 1 && step == 0)
        return K(TDM_LOAD(DT, x, from));
    if (left == N)
        return TDM_LOADV(N, DT, x, from + i * step);
    return TDM_LOAD_PART(DT, x, from + i, left, 0.0f);
}

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const TDM_TYPE(DT) *x, long x_offset, TDM_GLOBAL const void *scale, long scale_offset,
 TDM_GLOBAL const void *zero, long zero_offset, TDM_GLOBAL void *y, long y_offset, tdm_dims shape,
 tdm_dims x_strides, tdm_dims scale_strides, tdm_dims zero_strides, tdm_dims y_strides, int rank,
 long rows, long inner, long x_step, long scale_step, long zero_step, long y_step, long span,
 tdm_quant_arg arg) {
    const long start = tdm_global_x() * span;
    const long stop = start + span < inner ? start + span : inner;
    TDM_ROW_SHARE(rows, first, last);
    const int varies = scale_step != 0 || zero_step != 0;
    for (long row = first; row < last; row++) {
        const long from = x_offset + tdm_row_offset(row, rank, &shape, &x_strides);
        const long to = y_offset + tdm_row_offset(row, rank, &shape, &y_strides);
        const long s = scale_offset + tdm_row_offset(row, rank, &shape, &scale_strides);
        const long z = zero_offset + tdm_row_offset(row, rank, &shape, &zero_strides);
        tdm_quantizer q =
            tdm_quantizer_lanes(scale, s, 0, zero, z, 0, N, arg.target);
        long i = start;
        if (N > 1 && x_step == 1 && !varies)
            TDM_WHOLE_CODES(arg.target_type, tdm_code(TDM_LOADV(N, DT, x, from + i), q), y, to, i,
                            stop)
        if (N > 1 && x_step == 1 && varies)
            TDM_WHOLE_CODES(arg.target_type,
                            tdm_code(TDM_LOADV(N, DT, x, from + i),
                                     tdm_quantizer_lanes(scale, s + i * scale_step, scale_step, zero,
                                                         z + i * zero_step, zero_step, N,
                                                         arg.target)),
                            y, to, i, stop)
        for (; i < stop; i += N) {
            const int left = (int)(stop - i < N ? stop - i : N);
            if (varies)
                q = tdm_quantizer_lanes(scale, s + i * scale_step, scale_step, zero,
                                        z + i * zero_step, zero_step, left, arg.target);
            tdm_store_codes(arg.target_type, tdm_code(tdm_source(x, from, i, x_step, left), q), y,
                            to + i * y_step, left);
        }
    }
}
