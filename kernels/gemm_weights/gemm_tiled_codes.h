/* Quantized B (s8 or s4 with scales) of the tiled family: values are dequantized on their way to
 * the tile,
 *
 *     b_tile(p, j) = scale(g, j) · (code(p, j) − zero(g, j))          g = p / group
 *
 * Each dequantization rounds once. One load reads four values along K, or of four columns at one
 * step. Elements are read one by one at the end of the matrix, if a group ends within four steps,
 * or if rows of s4 split a byte. Steps outside are zeros, whatever their parameters are.
 *
 * gemm_tiled.cl includes this. The variant defines
 *   BT     storage type of B: s8 or s4
 *   BITS   bits of a quantized value: 8 or 4 */
#ifndef TDM_GEMM_TILED_CODES_H
#define TDM_GEMM_TILED_CODES_H

#include "gemm_weights_args.h"
#include "gemm_weights_steps.h"

/* Parameters (scales and zero points) of a tile's columns. */
typedef struct {
    TDM_GLOBAL const void *scale, *zero;
    long scale_at, zero_at; /* offsets for the first column, in the first group */
    int group;              /* steps of K that share parameters, at most K */
    tdm_gemm_weights_arg w;
} tile_parameters;

TDM_DEVICE float scale_of(const tile_parameters *q, int group, int column) {
    return tdm_load_any(q->scale, q->w.scale_type,
                        q->scale_at + group * q->w.scale_row + column * q->w.scale_col);
}

TDM_DEVICE int zero_of(const tile_parameters *q, int group, int column) {
    return tdm_int_any(q->zero, q->w.zero_type,
                       q->zero_at + group * q->w.zero_row + column * q->w.zero_col);
}

/* Returns how quantized values are loaded. `s` is the result of source_of. */
TDM_DEVICE int way_of_codes(tile_source s, int group, long k) {
    const long pitch = s.along_depth ? s.line : s.depth;
    const int splits_group = s.along_depth && group < k && group % 4 != 0;
    const long splits_byte = (s.at | pitch) & (BITS == 4);
    return s.way == BY_ELEMENT || splits_group || splits_byte != 0 ? BY_ELEMENT : BY_VECTOR;
}

TDM_DEVICE float one_real(TDM_GLOBAL const TDM_TYPE(BT) * from, tile_source s,
                          const tile_parameters *q, int line, long p, long k) {
    if (p >= k)
        return 0.0f;
    const int column = tdm_int_min(line, s.last), group = (int)p / q->group;
    const int code = TDM_CAT2(tdm_int_, BT)(from, s.at + column * s.line + p * s.depth);
    return scale_of(q, group, column) * tdm_float(tdm_sub_wrap(1, code, zero_of(q, group, column)));
}

#define SCALE_OF_LANE(l) scale_of(q, group, column + (l))
#define ZERO_OF_LANE(l) zero_of(q, group, column + (l))
#define REAL_OF_LANE(l)                                                                            \
    one_real(from, s, q, line + (s.along_depth ? 0 : (l)), p + (s.along_depth ? (l) : 0), k)

/* Returns load t of the tile whose first step is p0. */
TDM_DEVICE f32x4 fetch_codes(TDM_GLOBAL const TDM_TYPE(BT) * from, tile_source s,
                             const tile_parameters *q, long p0, long k, int t) {
    const int line = LOAD_LINE(TN, s, t);
    const long p = p0 + LOAD_STEP(TN, s, t);
    if (s.way == BY_ELEMENT || p0 + TK > k)
        return f32x4_of(REAL_OF_LANE(0), REAL_OF_LANE(1), REAL_OF_LANE(2), REAL_OF_LANE(3));
    const int column = tdm_int_min(line, s.last), group = (int)p / q->group;
    const s32x4 codes = TDM_INT_LOADV_GLOBAL(4, BT, from, s.at + column * s.line + p * s.depth);
    if (s.along_depth)
        return f32x4_splat(scale_of(q, group, column)) *
               f32x4_from_s32(tdm_sub_wrap(4, codes, s32x4_splat(zero_of(q, group, column))));
    const s32x4 zeros =
        s32x4_of(ZERO_OF_LANE(0), ZERO_OF_LANE(1), ZERO_OF_LANE(2), ZERO_OF_LANE(3));
    return f32x4_of(SCALE_OF_LANE(0), SCALE_OF_LANE(1), SCALE_OF_LANE(2), SCALE_OF_LANE(3)) *
           f32x4_from_s32(tdm_sub_wrap(4, codes, zeros));
}

#endif
