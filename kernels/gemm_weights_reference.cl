/* GEMM with quantized weights, the plain form: one work-item per element of D, any strides. Slow, short and right: the last
 * row of the table. Items (element of D, 1, batch). */
#define TDM_EPILOGUE_VECTOR 4
#include "dialect.h"
#include "gemm_epilogue.h"
#include "gemm_weights_args.h"
#include "gemm_weights_steps.h"

/* Steps of one pass: K may be long where all loops of an item have 65535 passes. */
#define UNROLL 8

#define STEP(P)                                                                                    \
    {                                                                                              \
        const float x = tdm_load_any(a, s.a_type, a0 + (P)*s.a_col);                               \
        const int code = tdm_weights_code(b, s.b_type, b0 + (P)*s.b_row);                          \
        sum = tdm_mad(w.quantize_a ? tdm_weights_quantize(x, row_scale) : x,                       \
                      tdm_float(tdm_sub_wrap(1, code, zero_point)), sum);                          \
    }

#define STEP_OF_PASS(U) STEP(p + (U))

TDM_KERNEL(TDM_ENTRY)(TDM_WEIGHTS_ARGUMENTS) {
    TDM_ITEM_BEGIN;
    const long i = tdm_global_x() / s.n, j = tdm_global_x() % s.n, z = tdm_global_z();
    if (i < s.m) {
        const long a0 = a_offset + z * s.a_batch + i * s.a_row;
        const long b0 = b_offset + z * s.b_batch + j * s.b_col;
        const float row_scale =
            w.quantize_a ? tdm_weights_row_scale(a, s.a_type, a0, s.a_col, s.k) : 1.0f;
        float acc = 0.0f;
        long p = 0;
        for (long g = 0; p < s.k; g++) {
            const long end = s.k - p < w.group ? s.k : p + w.group;
            const float group_scale =
                tdm_load_any(scale, w.scale_type,
                             scale_offset + z * w.scale_batch + g * w.scale_row + j * w.scale_col);
            const int zero_point =
                tdm_int_any(zero, w.zero_type,
                            zero_offset + z * w.zero_batch + g * w.zero_row + j * w.zero_col);
            float sum = 0.0f;
            for (; p + UNROLL <= end; p += UNROLL) {
                TDM_REPEAT(UNROLL, STEP_OF_PASS)
            }
            for (; p < end; p++)
                STEP(p)
            acc = tdm_mad(group_scale, sum, acc);
        }
        const tdm_epilogue_io io = tdm_epilogue_begin(c, c_offset, bias, bias_offset, residual,
                                                      r_offset, d, d_offset, e, z);
        tdm_epilogue_element(row_scale * acc, io, e, i, j);
    }
}
