/* Rows of A in vectors, for kernels of CPU-like devices: as floats, or quantized as
 * gemm_weights_args.h defines. A source includes this after dialect.h, with what
 * gemm_weights_steps.h needs. */
#ifndef TDM_GEMM_WEIGHTS_ROWS_H
#define TDM_GEMM_WEIGHTS_ROWS_H

#define TDM_DIVIDE_VECTOR 16
/* Prefetch distance for scales, in rows of Bᵀ. */
#define SCALES_AHEAD 8
#include "kernels/gemm/gemm_epilogue.h"
#include "gemm_weights_args.h"
#include "gemm_weights_names.h"
#include "gemm_weights_steps.h"
#include "kernels/dialect/long_functions.h"

/* Returns 16 elements of a row from p on, with zeros past its end. */
TDM_DEVICE f32x16 load_row(TDM_GLOBAL const void *a, int type, long at, long step, long p,
                           long count) {
    float part[16];
    if (step == 1 && p + 16 <= count)
        return TDM_LOADV_ANY(16, a, type, at + p);
    for (int u = 0; u < 16; u++)
        part[u] = p + u < count ? tdm_load_any(a, type, at + (p + u) * step) : 0.0f;
    return f32x16_load_f32(part, 0);
}

/* Returns the larger of `most` and |x| in each lane, ignoring infinities and NaNs. */
TDM_DEVICE f32x16 greater_size(f32x16 most, f32x16 x) {
    const f32x16 size = tdm_abs(x);
    const f32x16 least = f32x16_select_lt(size, f32x16_splat(INFINITY), size, most);
    return f32x16_select_lt(most, least, least, most);
}

/* Returns the scale of a row: max |x| / 127 over its finite elements. */
TDM_DEVICE float scale_of_row(TDM_GLOBAL const void *a, int type, long at, long step, long count) {
    f32x16 most[4];
    long p = 0;
    TDM_UNROLL for (int u = 0; u < 4; u++) most[u] = f32x16_splat(0.0f);
    for (; p + 64 <= count && step == 1; p += 64)
        TDM_UNROLL for (int u = 0; u < 4; u++) most[u] =
            greater_size(most[u], TDM_LOADV_ANY(16, a, type, at + p + u * 16));
    for (; p < count; p += 16)
        most[0] = greater_size(most[0], load_row(a, type, at, step, p, count));
    most[0] = greater_size(greater_size(most[0], most[1]), greater_size(most[2], most[3]));
    const f32x16 scale =
        tdm_min(tdm_divide(f32x16_splat(f32x16_hmax(most[0])), f32x16_splat(TDM_WEIGHTS_HIGH)),
                f32x16_splat(TDM_WEIGHTS_LARGEST_SCALE));
    return f32x16_hmax(
        f32x16_select_lt(scale, f32x16_splat(TDM_WEIGHTS_LEAST_SCALE), f32x16_splat(0.0f), scale));
}

/* If this is added to a number whose magnitude is at most 2^22, the low bits of the sum are that
 * number, rounded to nearest even. rint may be a long function. The bits are extracted as integers,
 * because a compiler may cancel the float operations. */
#define ROUNDING 0x1.8p23f
#define ROUNDING_BITS 0x4b400000

TDM_DEVICE s32x16 codes_of(f32x16 x, float row_scale) {
    const f32x16 code = f32x16_number(tdm_divide(x, f32x16_splat(row_scale)));
    const f32x16 high = f32x16_splat(TDM_WEIGHTS_HIGH), low = f32x16_splat(-TDM_WEIGHTS_HIGH);
    const f32x16 below = f32x16_select_lt(code, high, code, high);
    const f32x16 within = f32x16_select_lt(low, below, below, low);
    return f32x16_bits(within + f32x16_splat(ROUNDING)) - s32x16_splat(ROUNDING_BITS);
}

TDM_DEVICE float tdm_weights_quantize(float x, float row_scale) {
    if (row_scale == 0.0f)
        return 0.0f;
    return f32x16_hmax(f32x16_from_s32(codes_of(f32x16_splat(x), row_scale)));
}

/* Multiplies the sums of `columns` columns of a row, from j on, by the row's scale, and recomputes
 * those that are not finite. The row begins at a_at. B is contiguous along K. b_at, scale_at and
 * zero_at are those of column 0. */
TDM_DEVICE void end_row(float *sums, long j, int columns, float row_scale, TDM_GLOBAL const void *a,
                        long a_at, TDM_GLOBAL const void *b, long b_at,
                        TDM_GLOBAL const void *scale, long scale_at, TDM_GLOBAL const void *zero,
                        long zero_at, tdm_gemm_shape_arg s, tdm_gemm_weights_arg w) {
    s.b_row = 1;
    for (int n = 0; n < columns; n++) {
        sums[n] *= row_scale;
        if (!(tdm_abs(sums[n]) < INFINITY))
            sums[n] = tdm_weights_sum(a, a_at, b, b_at + (j + n) * s.b_col, scale,
                                      scale_at + (j + n) * w.scale_col, zero,
                                      zero_at + (j + n) * w.zero_col, s, w, row_scale, 0, s.k);
    }
}

/* Loads `count` scales of a row of Bᵀ, in vectors if they are contiguous. */
TDM_DEVICE void load_scales(TDM_GLOBAL const void *scale, int type, long at, long step, int count,
                            float *to) {
    int x = 0;
    if (step == 1)
        for (; x + 16 <= count; x += 16)
            f32x16_store_f32(TDM_LOADV_ANY(16, scale, type, at + x), to, x);
    for (; x < count; x++)
        to[x] = tdm_load_any(scale, type, at + x * step);
}

/* Prefetches what load_scales will read if that is contiguous, and only its beginning otherwise. */
TDM_DEVICE void prefetch_scales(TDM_GLOBAL const void *scale, int type, long at, long step,
                                long count) {
    const long size = type == TDM_CODE_F32 ? 4 : 2;
    const long bytes = step == 1 ? count * size : size;
    for (long x = 0; x < bytes; x += 64)
        tdm_prefetch_far((TDM_GLOBAL const char *)scale + at * size + x);
}

#endif
