/* GEMM with quantized weights, reference kernel: one work-item per element of D, any strides. It is
 * slow, short and correct, and the last variant of the list. The grid is (elements of D, 1,
 * batch). */
#define TDM_EPILOGUE_VECTOR 4
#include "kernels/dialect/dialect.h"
#include "kernels/gemm/gemm_epilogue.h"
#include "gemm_weights_args.h"
#include "gemm_weights_steps.h"

TDM_KERNEL(TDM_ENTRY)(TDM_WEIGHTS_ARGUMENTS) {
    TDM_ITEM_BEGIN;
    const long i = tdm_global_x() / s.n, j = tdm_global_x() % s.n, z = tdm_global_z();
    if (i < s.m) {
        const long a_at = a_offset + z * s.a_batch + i * s.a_row;
        const float row_scale =
            w.quantize_a ? tdm_weights_row_scale(a, s.a_type, a_at, s.a_col, s.k) : 1.0f;
        const float sum = tdm_weights_sum(
            a, a_at, b, b_offset + z * s.b_batch + j * s.b_col, scale,
            scale_offset + z * w.scale_batch + j * w.scale_col, zero,
            zero_offset + z * w.zero_batch + j * w.zero_col, s, w, row_scale, 0, s.k);
        const tdm_epilogue_io io = tdm_epilogue_begin(c, c_offset, bias, bias_offset, residual,
                                                      r_offset, d, d_offset, e, z);
        tdm_epilogue_element(sum, io, e, i, j);
    }
}
