/* Arguments of the kernels for quantized weights besides shape and epilogue (gemm_args.h): one
 * definition for the host and for the kernel sources. A is a float matrix, B is s8 or s4:
 *
 *   acc(i, j) = Σ_g sb(g, j) · Σ_{p in group g} x(i, p)·(B(p, j) − zb(g, j))          g = p / group
 *
 * acc is f32. x is A itself or, with quantize_a, the quantized row: x = q, and acc is multiplied by
 * sa at the end.
 *
 *   sa = max |A(i, ·)| / 127 over the finite values
 *   q  = rint(A / sa) within −127 … 127; 0 for a NaN and if sa is 0
 *
 * The sum over a group of quantized values is then exact. */
#ifndef TDM_GEMM_WEIGHTS_ARGS_H
#define TDM_GEMM_WEIGHTS_ARGS_H

#include "kernels/gemm/gemm_args.h"

/* Strides are in elements; a stride is 0 if one value serves all. Rows of scales and zero points
 * are groups. */
typedef struct {
    tdm_arg_i64 scale_row, scale_col, scale_batch;
    tdm_arg_i64 zero_row, zero_col, zero_batch;
    tdm_arg_i64 group;
    /* Variants for tensor cores only: steps of K in a part. There is one work-group along y for
     * each part. */
    tdm_arg_i64 depth;
    int scale_type, zero_type; /* f32, f16 or bf16; s32, s8, u8 or TDM_CODE_ABSENT */
    int quantize_a, reserved;
} tdm_gemm_weights_arg;

#endif
