/* Quantized weights as f32, for GEMM kernels that know nothing of them: target(p, j) = scale · (B(p, j) − zero), K×N without gaps.
 * Grid (columns / 16, K / CHUNK, 1), one item to a group: an item has CHUNK steps of K of 16 columns. */
#define TDM_EPILOGUE_VECTOR 4
#include "dialect.h"
#include "gemm_epilogue.h"
#include "gemm_weights_args.h"
#include "gemm_weights_steps.h"

#define COLUMNS 16
#define CHUNK 64
#define PIECE 16

/* Codes of one column along K, as floats. */
TDM_DEVICE void load_column(TDM_GLOBAL const void *b, int type, long at, long b_row, int count,
                            float *codes) {
    if (b_row == 1 && count == PIECE && (type == TDM_CODE_S8 || at % 2 == 0)) {
        f32x16_store_f32(f32x16_from_s32(type == TDM_CODE_S4
                                             ? s32x16_load_s4((TDM_GLOBAL const tdm_s4 *)b, at)
                                             : s32x16_load_s8((TDM_GLOBAL const tdm_s8 *)b, at)),
                         codes, 0);
        return;
    }
    for (int p = 0; p < count; p++)
        codes[p] = tdm_float(tdm_weights_code(b, type, at + p * b_row));
}

TDM_KERNEL_GROUP(TDM_ENTRY, 1, 1, 1)
(TDM_GLOBAL const void *b, long b_offset, TDM_GLOBAL const void *scale, long scale_offset,
 TDM_GLOBAL const void *zero, long zero_offset, TDM_GLOBAL tdm_f32 *target, long target_offset,
 tdm_gemm_shape_arg s, tdm_gemm_weights_arg w) {
    const long j0 = tdm_group_x() * COLUMNS, first = tdm_group_y() * CHUNK;
    const int columns = (int)(s.n - j0 < COLUMNS ? s.n - j0 : COLUMNS);
    const long past = s.k - first < CHUNK ? s.k : first + CHUNK;
    float tile[PIECE * COLUMNS], codes[PIECE];
    for (int t = 0; t < PIECE * COLUMNS; t++)
        tile[t] = 0.0f;
    for (long p0 = first; p0 < past; p0 += PIECE) {
        const int count = (int)(past - p0 < PIECE ? past - p0 : PIECE);
        for (int j = 0; j < columns; j++) {
            load_column(b, s.b_type, b_offset + p0 * s.b_row + (j0 + j) * s.b_col, s.b_row, count,
                        codes);
            for (int p = 0; p < count; p++) {
                const long g = (p0 + p) / w.group;
                const float factor = tdm_load_any(
                    scale, w.scale_type, scale_offset + g * w.scale_row + (j0 + j) * w.scale_col);
                const int zero_point = tdm_weights_zero(
                    zero, w.zero_type, zero_offset + g * w.zero_row + (j0 + j) * w.zero_col);
                tile[p * COLUMNS + j] = factor * (codes[p] - tdm_float(zero_point));
            }
        }
        for (int p = 0; p < count; p++) {
            const long to = target_offset + (p0 + p) * s.n + j0;
            if (columns == COLUMNS)
                f32x16_store_f32(f32x16_load_f32(tile, p * COLUMNS), target, to);
            else
                for (int j = 0; j < columns; j++)
                    target[to + j] = tile[p * COLUMNS + j];
        }
    }
}
