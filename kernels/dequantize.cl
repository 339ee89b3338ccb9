/* y = scale · (x - zero), in f32, f16 or bf16.
 *
 * Defines: DT the source's type (s8, u8, s4, s32), N vector width. Rows as strided_rows.h says; the
 * parameters are operands with strides of their own (0 along what shares them). */
#include "dialect.h"
#include "quant_steps.h"

TDM_DEVICE I tdm_source(TDM_GLOBAL const TDM_TYPE(DT) *x, long from, long i, long step, int left) {
    if (N > 1 && step == 0)
        return TDM_INT_SPLAT(N, TDM_CAT2(tdm_int_, DT)(x, from));
    if (left == N)
        return TDM_INT_LOADV(N, DT, x, from + i * step);
    return TDM_LOAD_PART(DT, x, from + i, left, 0);
}

/* Whether whole vectors of the row at element `to` go past the caches: it must begin at a whole one. */
TDM_DEVICE int tdm_streams(tdm_quant_arg arg, TDM_GLOBAL const void *y, long to) {
    return arg.streams && tdm_address((TDM_GLOBAL const tdm_f32 *)y + to) % (N * 4) == 0;
}

/* The vector at i where every lane has parameters of its own. */
#define REAL_WITH_OWN(i)                                                                           \
    tdm_real(TDM_INT_LOADV(N, DT, x, from + i),                                                    \
             tdm_scale_lanes(scale, s + i * scale_step, scale_step, N, arg.source.scale_type),     \
             tdm_zero_lanes(zero, z + i * zero_step, zero_step, N, arg.source))

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
        F scales = K(tdm_scale_one(scale, s, arg.source.scale_type));
        I zeros = tdm_zero_lanes(zero, z, 0, N, arg.source);
        long i = start;
#if N > 1
        if (x_step == 1 && !varies && tdm_streams(arg, y, to))
            for (; i + N <= stop; i += N)
                TDM_STREAMV(N, tdm_real(TDM_INT_LOADV(N, DT, x, from + i), scales, zeros),
                            (TDM_GLOBAL tdm_f32 *)y, to + i);
        else if (x_step == 1 && !varies)
            TDM_WHOLE_REALS(arg.target_type,
                            tdm_real(TDM_INT_LOADV(N, DT, x, from + i), scales, zeros), y, to, i,
                            stop)
        else if (x_step == 1)
            TDM_WHOLE_REALS(arg.target_type, REAL_WITH_OWN(i), y, to, i, stop)
#endif
        for (; i < stop; i += N) {
            const int left = (int)(stop - i < N ? stop - i : N);
            if (varies) {
                scales = tdm_scale_lanes(scale, s + i * scale_step, scale_step, left,
                                         arg.source.scale_type);
                zeros = tdm_zero_lanes(zero, z + i * zero_step, zero_step, left, arg.source);
            }
            const F v = tdm_real(tdm_source(x, from, i, x_step, left), scales, zeros);
            tdm_store_reals(arg.target_type, v, y, to + i * y_step, left);
        }
    }
    if (arg.streams)
        tdm_stream_end();
}
