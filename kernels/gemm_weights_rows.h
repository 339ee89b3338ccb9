/* Rows of A in vectors, for kernels of CPU-like devices: as floats, and quantized as gemm_weights_args.h says. A text includes
 * this after dialect.h, with what gemm_weights_steps.h needs. */
#ifndef TDM_GEMM_WEIGHTS_ROWS_H
#define TDM_GEMM_WEIGHTS_ROWS_H

#define TDM_DIVIDE_VECTOR 16
#include "gemm_epilogue.h"
#include "gemm_weights_args.h"
#include "gemm_weights_steps.h"

/* 16 elements of a row from p on, zeros past its end. */
TDM_DEVICE f32x16 load_row(TDM_GLOBAL const void *a, int type, long at, long step, long p,
                           long count) {
    float part[16];
    if (step == 1 && p + 16 <= count)
        return TDM_LOADV_ANY(16, a, type, at + p);
    for (int u = 0; u < 16; u++)
        part[u] = p + u < count ? tdm_load_any(a, type, at + (p + u) * step) : 0.0f;
    return f32x16_load_f32(part, 0);
}

/* max |x| / 127 over the finite elements of a row. */
TDM_DEVICE float scale_of_row(TDM_GLOBAL const void *a, int type, long at, long step, long count) {
    f32x16 most = f32x16_splat(0.0f);
    for (long p = 0; p < count; p += 16) {
        const f32x16 size = tdm_abs(load_row(a, type, at, step, p, count));
        const f32x16 finite =
            f32x16_select_lt(size, f32x16_splat(INFINITY), size, f32x16_splat(0.0f));
        most = f32x16_select_lt(most, finite, finite, most);
    }
    const f32x16 scale =
        tdm_divide(f32x16_splat(f32x16_hmax(most)), f32x16_splat(TDM_WEIGHTS_HIGH));
    return f32x16_hmax(
        f32x16_select_lt(scale, f32x16_splat(TDM_WEIGHTS_LEAST_SCALE), f32x16_splat(0.0f), scale));
}

TDM_DEVICE f32x16 codes_of(f32x16 x, float row_scale) {
    const f32x16 code = tdm_rint(f32x16_number(tdm_divide(x, f32x16_splat(row_scale))));
    const f32x16 high = f32x16_splat(TDM_WEIGHTS_HIGH), low = f32x16_splat(-TDM_WEIGHTS_HIGH);
    const f32x16 below = f32x16_select_lt(code, high, code, high);
    return f32x16_select_lt(low, below, below, low);
}

/* `count` scales of a line, contiguous where they are so in memory. */
TDM_DEVICE void load_scales(TDM_GLOBAL const void *scale, int type, long at, long step, int count,
                            float *to) {
    int x = 0;
    if (step == 1)
        for (; x + 16 <= count; x += 16)
            f32x16_store_f32(TDM_LOADV_ANY(16, scale, type, at + x), to, x);
    for (; x < count; x++)
        to[x] = tdm_load_any(scale, type, at + x * step);
}

#endif
