/* The names of TDM_WEIGHTS_ARGUMENTS (gemm_weights_steps.h) in the same order, for a call. They are
 * in a separate file because the CUDA sources have no such call. */
#ifndef TDM_GEMM_WEIGHTS_NAMES_H
#define TDM_GEMM_WEIGHTS_NAMES_H

#define TDM_WEIGHTS_NAMES                                                                          \
    a, a_offset, b, b_offset, scale, scale_offset, zero, zero_offset, c, c_offset, bias,           \
        bias_offset, residual, r_offset, d, d_offset, s, e, w

#endif
