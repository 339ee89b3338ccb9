/* What the kernels for quantized weights get besides shape and epilogue (gemm_args.h), one definition for the host and for
 * the kernel texts. A is a float, B s8 or s4:
 *
 *   acc(i, j) = Σ_g sb(g, j) · Σ_{p in group g} x(i, p)·(B(p, j) − zb(g, j))          g = p / group
 *
 * in f32, where x is A itself, or with quantize_a what its row is quantized to: x = q, acc is multiplied by sa in the end,
 * sa = max |A(i, ·)| / 127 over the finite values, q = rint(A / sa) within −127 … 127, 0 for a NaN and where sa is 0. The sum of a group of
 * codes is then exact. */
#ifndef TDM_GEMM_WEIGHTS_ARGS_H
#define TDM_GEMM_WEIGHTS_ARGS_H

#include "kernels/gemm/gemm_args.h"

/* Strides in elements, 0 where one value serves all; rows are groups. */
typedef struct {
    tdm_arg_i64 scale_row, scale_col, scale_batch;
    tdm_arg_i64 zero_row, zero_col, zero_batch;
    tdm_arg_i64 group;
    tdm_arg_i64
        depth; /* of rows for tensor cores: steps of K in a part, for as many groups along y */
    int scale_type, zero_type; /* f32, f16 or bf16; s32, s8, u8 or TDM_CODE_ABSENT */
    int quantize_a, reserved;
} tdm_gemm_weights_arg;

#endif
