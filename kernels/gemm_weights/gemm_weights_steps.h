/* Shared by the kernels for quantized weights: reads quantized values and parameters, and quantizes
 * a row of A. A source includes this after dialect.h, gemm_weights_args.h, and gemm_epilogue.h with
 * TDM_EPILOGUE_VECTOR. divide.h explains TDM_BUILT_IN_DIVIDE. */
#ifndef TDM_GEMM_WEIGHTS_STEPS_H
#define TDM_GEMM_WEIGHTS_STEPS_H

#ifndef TDM_DIVIDE_VECTOR
#define TDM_DIVIDE_VECTOR 1
#endif
#include "kernels/dialect/divide.h"
#include "kernels/dialect/integers.h"

#define TDM_WEIGHTS_HIGH 127.0f
/* The largest number whose product with 127 is finite. (FLT_MAX / 127 is rounded up.) */
#define TDM_WEIGHTS_LARGEST_SCALE 0x1.020406p121f
/* Smaller scales count as 0, because some devices flush denormal numbers. */
#define TDM_WEIGHTS_LEAST_SCALE 0x1p-126f

/* The first arguments of all these kernels. */
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

/* Quantizes an element of a row. Returns the quantized value as a float. */
TDM_DEVICE float tdm_weights_quantize(float x, float row_scale);

/* Steps of K per loop iteration. With one step each, K would be limited on devices whose loops have
 * at most 65535 iterations. */
#define TDM_WEIGHTS_PASS 8

#define TDM_WEIGHTS_STEP(P)                                                                        \
    {                                                                                              \
        const float x = tdm_load_any(a, s.a_type, a_at + (P)*s.a_col);                             \
        const int code = tdm_weights_code(b, s.b_type, b_at + (P)*s.b_row);                        \
        acc = tdm_mad(w.quantize_a ? row_scale * tdm_weights_quantize(x, row_scale) : x,           \
                      group_scale * tdm_float(tdm_sub_wrap(1, code, zero_point)), acc);            \
    }
#define TDM_WEIGHTS_STEP_OF_PASS(U) TDM_WEIGHTS_STEP(p + (U))

/* Returns the sum of an element over steps `first` to `past` as docs/numerics.md defines it, Σ
 * a·(scale·(code − zero)). a_at, b_at, scale_at and zero_at are those of its row and column.
 *
 * Kernels multiply sums of a·(code − zero) by scales, which saves a multiplication per step. Such a
 * sum may overflow although this one does not, so kernels recompute sums that are not finite. */
TDM_DEVICE float tdm_weights_sum(TDM_GLOBAL const void *a, long a_at, TDM_GLOBAL const void *b,
                                 long b_at, TDM_GLOBAL const void *scale, long scale_at,
                                 TDM_GLOBAL const void *zero, long zero_at, tdm_gemm_shape_arg s,
                                 tdm_gemm_weights_arg w, float row_scale, long first, long past) {
    float total = 0.0f, acc = 0.0f;
    long p = first, block_end = first + TDM_SUM_BLOCK;
    TDM_NO_UNROLL for (long g = first / w.group; p < past; g++) {
        const long end = past - p < (g + 1) * w.group - p ? past : (g + 1) * w.group;
        const float group_scale = tdm_load_any(scale, w.scale_type, scale_at + g * w.scale_row);
        const int zero_point = tdm_int_any(zero, w.zero_type, zero_at + g * w.zero_row);
        TDM_NO_UNROLL while (p < end) {
            const long stop = end < block_end ? end : block_end;
            TDM_NO_UNROLL for (; p + TDM_WEIGHTS_PASS <= stop; p += TDM_WEIGHTS_PASS){TDM_REPEAT(
                TDM_WEIGHTS_PASS, TDM_WEIGHTS_STEP_OF_PASS)} TDM_NO_UNROLL for (; p < stop; p++)
                TDM_WEIGHTS_STEP(p) if (p == block_end) {
                total += acc;
                acc = 0.0f;
                block_end += TDM_SUM_BLOCK;
            }
        }
    }
    return total + acc;
}

#if TDM_DIVIDE_VECTOR == 1
TDM_DEVICE float tdm_weights_finite(float x) {
    return tdm_abs(x) < INFINITY ? tdm_abs(x) : 0.0f;
}

/* Returns the scale of a row of A with `count` elements. */
TDM_DEVICE float tdm_weights_row_scale(TDM_GLOBAL const void *a, int type, long at, long step,
                                       long count) {
    float most = 0.0f;
    long p = 0;
    for (; p + 8 <= count; p += 8) { /* loop trip counts may be limited: several elements each */
        float part = 0.0f;
        TDM_UNROLL for (int u = 0; u < 8; u++) part =
            tdm_max(part, tdm_weights_finite(tdm_load_any(a, type, at + (p + u) * step)));
        most = tdm_max(most, part);
    }
    for (; p < count; p++)
        most = tdm_max(most, tdm_weights_finite(tdm_load_any(a, type, at + p * step)));
    const float scale = tdm_min(tdm_divide(most, TDM_WEIGHTS_HIGH), TDM_WEIGHTS_LARGEST_SCALE);
    return scale < TDM_WEIGHTS_LEAST_SCALE ? 0.0f : scale;
}

TDM_DEVICE float tdm_weights_quantize(float x, float row_scale) {
    if (row_scale == 0.0f || tdm_is_nan(x))
        return 0.0f;
    const float code = tdm_rint(tdm_divide(x, row_scale));
    return tdm_max(tdm_min(code, TDM_WEIGHTS_HIGH), -TDM_WEIGHTS_HIGH);
}
#endif

#endif
