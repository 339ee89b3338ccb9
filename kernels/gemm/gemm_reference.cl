/* GEMM, reference kernel: one work-item per element of D, any strides, any storage types. It is
 * slow, short and correct. It is the last variant of the list, used if no other can run. The grid
 * is (elements of D, 1, batch). */
#define TDM_EPILOGUE_VECTOR 4
#include "kernels/dialect/dialect.h"
#include "gemm_args.h"
#include "gemm_epilogue.h"

/* Steps of K per loop iteration. With one step each, K would be limited on devices whose loops have
 * at most 65535 iterations. */
#define UNROLL 16

#define STEP(P)                                                                                    \
    tdm_mad(tdm_load_any(a, s.a_type, a0 + (P)*s.a_col),                                           \
            tdm_load_any(b, s.b_type, b0 + (P)*s.b_row), acc)

#define STEP_OF_PASS(U) acc = STEP(p + (U));

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const void *a, long a_offset, TDM_GLOBAL const void *b, long b_offset,
 TDM_GLOBAL const void *c, long c_offset, TDM_GLOBAL const void *bias, long bias_offset,
 TDM_GLOBAL const void *residual, long r_offset, TDM_GLOBAL void *d, long d_offset,
 tdm_gemm_shape_arg s, tdm_gemm_epilogue_arg e) {
    TDM_ITEM_BEGIN;
    const long i = tdm_global_x() / s.n, j = tdm_global_x() % s.n, z = tdm_global_z();
    if (i < s.m) {
        const long a0 = a_offset + z * s.a_batch + i * s.a_row;
        const long b0 = b_offset + z * s.b_batch + j * s.b_col;
        float total = 0.0f;
        for (long p = 0; p < s.k;) {
            const long end = s.k - p < TDM_SUM_BLOCK ? s.k : p + TDM_SUM_BLOCK;
            float acc = 0.0f;
            for (; p + UNROLL <= end; p += UNROLL) {
                TDM_REPEAT(UNROLL, STEP_OF_PASS)
            }
            for (; p < end; p++)
                acc = STEP(p);
            total += acc;
        }
        const tdm_epilogue_io io = tdm_epilogue_begin(c, c_offset, bias, bias_offset, residual,
                                                      r_offset, d, d_offset, e, z);
        tdm_epilogue_element(total, io, e, i, j);
    }
}
