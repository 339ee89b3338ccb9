/* Quantizes rows of A to s8, symmetrically, with one scale per row (gemm_weights_args.h). It stores
 * the quantized values and scales, or the dequantized values in f32 (as_codes = 0). The target is a
 * dense M×K matrix. The grid is (rows, 1, 1). */
#define TDM_EPILOGUE_VECTOR 4
#include "kernels/dialect/dialect.h"
#include "kernels/gemm/gemm_epilogue.h"
#include "gemm_weights_args.h"
#include "gemm_weights_steps.h"

#define UNROLL 8

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const void *a, long a_offset, TDM_GLOBAL tdm_s8 *codes, long codes_offset,
 TDM_GLOBAL tdm_f32 *scales, long scales_offset, TDM_GLOBAL tdm_f32 *dequantized,
 long dequantized_offset, tdm_gemm_shape_arg s, int as_codes) {
    TDM_ITEM_BEGIN;
    const long i = tdm_global_x();
    if (i < s.m) {
        const long at = a_offset + i * s.a_row;
        const float row_scale = tdm_weights_row_scale(a, s.a_type, at, s.a_col, s.k);
        for (long p0 = 0; p0 < s.k; p0 += UNROLL) {
            const int count = (int)(s.k - p0 < UNROLL ? s.k - p0 : UNROLL);
            for (int u = 0; u < count; u++) {
                const float code = tdm_weights_quantize(
                    tdm_load_any(a, s.a_type, at + (p0 + u) * s.a_col), row_scale);
                if (as_codes)
                    tdm_store_int_s8(tdm_int_rte(code), codes, codes_offset + i * s.k + p0 + u);
                else
                    dequantized[dequantized_offset + i * s.k + p0 + u] = row_scale * code;
            }
        }
        if (as_codes)
            scales[scales_offset + i] = row_scale;
    }
}
