/* What the kernels for quantized weights share: reading codes and parameters, quantizing a row of A. A text includes this after
 * dialect.h, gemm_weights_args.h, and gemm_epilogue.h with TDM_EPILOGUE_VECTOR; TDM_BUILT_IN_DIVIDE as divide.h says. */
#ifndef TDM_GEMM_WEIGHTS_STEPS_H
#define TDM_GEMM_WEIGHTS_STEPS_H

#ifndef TDM_DIVIDE_VECTOR
#define TDM_DIVIDE_VECTOR 1
#endif
#include "divide.h"
#include "integers.h"

#define TDM_WEIGHTS_HIGH 127.0f
/* Scales below are 0: some devices flush what is not normal. */
#define TDM_WEIGHTS_LEAST_SCALE 0x1p-126f

/* The arguments that all of these kernels begin with. */
#define TDM_WEIGHTS_ARGUMENTS                                                                      \
    TDM_GLOBAL const void *TDM_RESTRICT a, long a_offset, TDM_GLOBAL const void *TDM_RESTRICT b,   \
        long b_offset, TDM_GLOBAL const void *scale, long scale_offset,                            \
        TDM_GLOBAL const void *zero, long zero_offset, TDM_GLOBAL const void *c, long c_offset,    \
        TDM_GLOBAL const void *bias, long bias_offset, TDM_GLOBAL const void *residual,            \
        long r_offset, TDM_GLOBAL void *d, long d_offset, tdm_gemm_shape_arg s,                    \
        tdm_gemm_epilogue_arg e, tdm_gemm_weights_arg w

TDM_DEVICE int tdm_weights_code(TDM_GLOBAL const void *b, int type, long i) {
    return type == TDM_CODE_S4 ? tdm_int_s4((TDM_GLOBAL const tdm_s4 *)b, i)
                               : tdm_int_s8((TDM_GLOBAL const tdm_s8 *)b, i);
}

#if TDM_DIVIDE_VECTOR == 1
TDM_DEVICE float tdm_weights_finite(float x) {
    return tdm_abs(x) < INFINITY ? tdm_abs(x) : 0.0f;
}

/* The scale of a row of A of `count` elements. */
TDM_DEVICE float tdm_weights_row_scale(TDM_GLOBAL const void *a, int type, long at, long step,
                                       long count) {
    float most = 0.0f;
    long p = 0;
    for (; p + 8 <= count; p += 8) { /* loops may be short: several elements a pass */
        float part = 0.0f;
        TDM_UNROLL for (int u = 0; u < 8; u++) part =
            tdm_max(part, tdm_weights_finite(tdm_load_any(a, type, at + (p + u) * step)));
        most = tdm_max(most, part);
    }
    for (; p < count; p++)
        most = tdm_max(most, tdm_weights_finite(tdm_load_any(a, type, at + p * step)));
    const float scale = tdm_divide(most, TDM_WEIGHTS_HIGH);
    return scale < TDM_WEIGHTS_LEAST_SCALE ? 0.0f : scale;
}

/* The code of an element of a row, as a float. */
TDM_DEVICE float tdm_weights_quantize(float x, float row_scale) {
    if (row_scale == 0.0f || tdm_is_nan(x))
        return 0.0f;
    const float code = tdm_rint(tdm_divide(x, row_scale));
    return tdm_max(tdm_min(code, TDM_WEIGHTS_HIGH), -TDM_WEIGHTS_HIGH);
}
#endif

#endif
