/* Version of gemm_quantize_rows.cl for CPU cores, with wide vectors. The grid is (rows, 1, 1), one
 * work-item per work-group. */
#define TDM_EPILOGUE_VECTOR 8
#include "kernels/dialect/dialect.h"
#include "gemm_weights_rows.h"

TDM_KERNEL_GROUP(TDM_ENTRY, 1, 1, 1)
(TDM_GLOBAL const void *a, long a_offset, TDM_GLOBAL tdm_s8 *codes, long codes_offset,
 TDM_GLOBAL tdm_f32 *scales, long scales_offset, TDM_GLOBAL tdm_f32 *dequantized,
 long dequantized_offset, tdm_gemm_shape_arg s, int as_codes) {
    TDM_ITEM_BEGIN;
    const long i = tdm_group_x();
    const long at = a_offset + i * s.a_row, to = codes_offset + i * s.k;
    const long real_to = dequantized_offset + i * s.k;
    const float row_scale = scale_of_row(a, s.a_type, at, s.a_col, s.k);
    for (long p = 0; p < s.k; p += 16) {
        const int count = (int)(s.k - p < 16 ? s.k - p : 16);
        const s32x16 code = row_scale == 0.0f
                                ? s32x16_splat(0)
                                : codes_of(load_row(a, s.a_type, at, s.a_col, p, s.k), row_scale);
        const f32x16 x = f32x16_from_s32(code), real = f32x16_splat(row_scale) * x;
        float rest[16];
        if (as_codes && count == 16)
            s32x16_store_s8(code, codes, to + p);
        else if (count == 16)
            f32x16_store_f32(real, dequantized, real_to + p);
        if (count == 16)
            continue;
        if (as_codes)
            f32x16_store_f32(x, rest, 0);
        else
            f32x16_store_f32(real, rest, 0);
        for (int u = 0; u < count; u++) {
            if (as_codes)
                tdm_store_int_s8(tdm_int_rte(rest[u]), codes, to + p + u);
            else
                dequantized[real_to + p + u] = rest[u];
        }
    }
    if (as_codes)
        scales[scales_offset + i] = row_scale;
}
