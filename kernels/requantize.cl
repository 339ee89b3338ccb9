/* y = zero_y + rint(clamp((x - zero_x) · (scale_x / scale_y), low - zero_y, high - zero_y)).
 *
 * Defines: DT the source's type (s8, u8, s4, s32), N vector width, TDM_BUILT_IN_DIVIDE as divide.h says.
 * Rows as strided_rows.h says; the parameters are operands with strides of their own (0 along what
 * shares them). Both elements of a byte of s4 belong to one work-item: span is even then. */
#include "dialect.h"
#include "quant_steps.h"

TDM_DEVICE I tdm_source(TDM_GLOBAL const TDM_TYPE(DT) *x, long from, long i, long step, int left) {
    if (N > 1 && step == 0)
        return TDM_INT_SPLAT(N, TDM_CAT2(tdm_int_, DT)(x, from));
    if (left == N)
        return TDM_INT_LOADV(N, DT, x, from + i * step);
    return TDM_LOAD_PART(DT, x, from + i, left, 0);
}

typedef struct {
    tdm_quantizer to;
    F factor;
    I zero;
} tdm_requantizer;

TDM_DEVICE tdm_requantizer tdm_requantizer_make(F from, I zero, tdm_quantizer to) {
    tdm_requantizer r;
    r.to = to;
    r.factor = tdm_divide(from, to.scale);
    r.zero = zero;
    return r;
}

TDM_DEVICE I tdm_requantized(I code, tdm_requantizer r) {
    return tdm_rounded_code(tdm_between(tdm_real(code, r.factor, r.zero), r.to.low, r.to.high),
                            r.to.zero);
}

/* That of element i and the left-1 after it. own: 1 where lanes have parameters of their own, 0 where
 * they share those of element i. */
#define REQUANTIZER(i, left, own)                                                                  \
    tdm_requantizer_make(                                                                          \
        tdm_scale_lanes(from_scale, fs + (i)*from_scale_step, (own)*from_scale_step, left,         \
                        arg.source.scale_type),                                                    \
        tdm_zero_lanes(from_zero, fz + (i)*from_zero_step, (own)*from_zero_step, left,             \
                       arg.source),                                                                \
        tdm_quantizer_lanes(to_scale, ts + (i)*to_scale_step, (own)*to_scale_step, to_zero,        \
                            tz + (i)*to_zero_step, (own)*to_zero_step, left, arg.target))

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const TDM_TYPE(DT) *x, long x_offset, TDM_GLOBAL const void *from_scale,
 long from_scale_offset, TDM_GLOBAL const void *from_zero, long from_zero_offset,
 TDM_GLOBAL const void *to_scale, long to_scale_offset, TDM_GLOBAL const void *to_zero,
 long to_zero_offset, TDM_GLOBAL void *y, long y_offset, tdm_dims shape, tdm_dims x_strides,
 tdm_dims from_scale_strides, tdm_dims from_zero_strides, tdm_dims to_scale_strides,
 tdm_dims to_zero_strides, tdm_dims y_strides, int rank, long rows, long inner, long x_step,
 long from_scale_step, long from_zero_step, long to_scale_step, long to_zero_step, long y_step,
 long span, tdm_quant_arg arg) {
    const long start = tdm_global_x() * span;
    const long stop = start + span < inner ? start + span : inner;
    TDM_ROW_SHARE(rows, first, last);
    for (long row = first; row < last; row++) {
        const long from = x_offset + tdm_row_offset(row, rank, &shape, &x_strides);
        const long to = y_offset + tdm_row_offset(row, rank, &shape, &y_strides);
        const long fs = from_scale_offset + tdm_row_offset(row, rank, &shape, &from_scale_strides);
        const long fz = from_zero_offset + tdm_row_offset(row, rank, &shape, &from_zero_strides);
        const long ts = to_scale_offset + tdm_row_offset(row, rank, &shape, &to_scale_strides);
        const long tz = to_zero_offset + tdm_row_offset(row, rank, &shape, &to_zero_strides);
        const int varies = (from_scale_step | from_zero_step | to_scale_step | to_zero_step) != 0;
        tdm_requantizer r = REQUANTIZER(0, N, 0);
        long i = start;
#if N > 1
        if (x_step == 1 && !varies)
            TDM_WHOLE_CODES(arg.target_type,
                            tdm_requantized(TDM_INT_LOADV(N, DT, x, from + i), r), y, to, i, stop)
        else if (x_step == 1)
            TDM_WHOLE_CODES(arg.target_type,
                            tdm_requantized(TDM_INT_LOADV(N, DT, x, from + i), REQUANTIZER(i, N, 1)), y,
                            to, i, stop)
#endif
        for (; i < stop; i += N) {
            const int left = (int)(stop - i < N ? stop - i : N);
            if (varies)
                r = REQUANTIZER(i, left, 1);
            tdm_store_codes(arg.target_type,
                            tdm_requantized(tdm_source(x, from, i, x_step, left), r), y,
                            to + i * y_step, left);
        }
    }
}
