/* Dequantizes weights to f32, scale · (code − zero), for GEMM kernels without support for
 * quantization. The target is dense. Its lines run along the direction in which the quantized
 * values are contiguous.
 *
 * s describes B as n lines of k elements; element x of line l is at l·b_col + x·b_row. With
 * along_k, lines are columns and w.group elements of a line share parameters. Otherwise lines are
 * steps of K and their elements are columns.
 *
 * The grid is (chunks of CHUNK elements, line by line; 1; 1), one work-item per work-group. */
#define TDM_EPILOGUE_VECTOR 4
#include "kernels/dialect/dialect.h"
#include "kernels/gemm/gemm_epilogue.h"
#include "gemm_weights_args.h"
#include "gemm_weights_steps.h"

#define CHUNK 1024
#define PIECE 16

typedef struct {
    TDM_GLOBAL const void *b, *scale, *zero;
    long b_at, b_step; /* offset of the line; stride of its elements */
    int b_type;
    tdm_gemm_weights_arg w;
} line_of_b;

TDM_DEVICE float unpack_one(const line_of_b *l, long x, long scale_at, long zero_at) {
    const int code = tdm_weights_code(l->b, l->b_type, l->b_at + x * l->b_step);
    return tdm_load_any(l->scale, l->w.scale_type, scale_at) *
           tdm_float(tdm_sub_wrap(1, code, tdm_int_any(l->zero, l->w.zero_type, zero_at)));
}

TDM_DEVICE int has_vectors(const line_of_b *l) {
    return l->b_step == 1 && (l->b_type == TDM_CODE_S8 || l->b_at % 2 == 0);
}

TDM_DEVICE s32x16 load_codes(const line_of_b *l, long x) {
    return l->b_type == TDM_CODE_S4 ? s32x16_load_s4((TDM_GLOBAL const tdm_s4 *)l->b, l->b_at + x)
                                    : s32x16_load_s8((TDM_GLOBAL const tdm_s8 *)l->b, l->b_at + x);
}

/* Dequantizes elements x … past of a line along K, one group after the other. */
TDM_DEVICE void unpack_along_k(const line_of_b *l, long x, long past, long scale_at, long zero_at,
                               TDM_GLOBAL tdm_f32 *target, long to) {
    const int vectors = has_vectors(l);
    for (long g = x / l->w.group; x < past; g++) {
        const long end = past - g * l->w.group < l->w.group ? past : (g + 1) * l->w.group;
        const long own_scale = scale_at + g * l->w.scale_row,
                   own_zero = zero_at + g * l->w.zero_row;
        const f32x16 factor = f32x16_splat(tdm_load_any(l->scale, l->w.scale_type, own_scale));
        const s32x16 zero = s32x16_splat(tdm_int_any(l->zero, l->w.zero_type, own_zero));
        if (vectors && x % 2 == 0)
            for (; x + PIECE <= end; x += PIECE)
                f32x16_store_f32(factor * f32x16_from_s32(tdm_sub_wrap(16, load_codes(l, x), zero)),
                                 target, to + x);
        for (; x < end; x++)
            target[to + x] = unpack_one(l, x, own_scale, own_zero);
    }
}

/* Returns the parameters of 16 columns. */
TDM_DEVICE f32x16 load_factors(const line_of_b *l, long at) {
    float factor[PIECE];
    if (l->w.scale_col == 1)
        return TDM_LOADV_ANY(16, l->scale, l->w.scale_type, at);
    for (int u = 0; u < PIECE; u++)
        factor[u] = tdm_load_any(l->scale, l->w.scale_type, at + u * l->w.scale_col);
    return f32x16_load_f32(factor, 0);
}

TDM_DEVICE s32x16 load_zeros(const line_of_b *l, long at) {
    int zero[PIECE];
    if (l->w.zero_type == TDM_CODE_ABSENT)
        return s32x16_splat(0);
    for (int u = 0; u < PIECE; u++)
        zero[u] = tdm_int_any(l->zero, l->w.zero_type, at + u * l->w.zero_col);
    return s32x16_load_s32(zero, 0);
}

/* Dequantizes elements x … past of a line along N. Each column has its own parameters, or all
 * columns share them. */
TDM_DEVICE void unpack_along_n(const line_of_b *l, long x, long past, long scale_at, long zero_at,
                               TDM_GLOBAL tdm_f32 *target, long to) {
    const int vectors = has_vectors(l);
    for (; x + PIECE <= past && vectors; x += PIECE) {
        const s32x16 zero = load_zeros(l, zero_at + x * l->w.zero_col);
        f32x16_store_f32(load_factors(l, scale_at + x * l->w.scale_col) *
                             f32x16_from_s32(tdm_sub_wrap(16, load_codes(l, x), zero)),
                         target, to + x);
    }
    for (; x < past; x++)
        target[to + x] =
            unpack_one(l, x, scale_at + x * l->w.scale_col, zero_at + x * l->w.zero_col);
}

TDM_KERNEL_GROUP(TDM_ENTRY, 1, 1, 1)
(TDM_GLOBAL const void *b, long b_offset, TDM_GLOBAL const void *scale, long scale_offset,
 TDM_GLOBAL const void *zero, long zero_offset, TDM_GLOBAL tdm_f32 *target, long target_offset,
 tdm_gemm_shape_arg s, tdm_gemm_weights_arg w, int along_k) {
    TDM_ITEM_BEGIN;
    const long chunks = (s.k + CHUNK - 1) / CHUNK;
    const long line = tdm_group_x() / chunks, x = tdm_group_x() % chunks * CHUNK;
    const long past = s.k - x < CHUNK ? s.k : x + CHUNK;
    const line_of_b l = {b, scale, zero, b_offset + line * s.b_col, s.b_row, s.b_type, w};
    const long to = target_offset + line * s.k;
    if (along_k)
        unpack_along_k(&l, x, past, scale_offset + line * w.scale_col,
                       zero_offset + line * w.zero_col, target, to);
    else
        unpack_along_n(&l, x, past, scale_offset + line / w.group * w.scale_row,
                       zero_offset + line / w.group * w.zero_row, target, to);
}
