/* Arguments of the integer GEMM kernels besides shape and epilogue (gemm_args.h): one definition
 * for the host and for the kernel sources.
 *
 *   acc(i, j) = Σ_p (A(i, p) − za(i))·(B(p, j) − zb(j)) + bias(j) + C(i, j)     modulo 2^32
 *             = Σ A·B − za·Σ_p B(p, j) − zb·Σ_p A(i, p) + K·za·zb + bias + C    bias and C are s32
 *
 *   D s32:      acc
 *   D s8, u8:   m = (sa(i)·sb(j)) / sd(j), two roundings; x = float(acc)·m
 *               D = zd + rint(clamp(x, low − zd, high − zd))
 *               For relu the lower limit is 0 if low < zd.
 *   D float:    x = alpha·(float(acc)·(sa(i)·sb(j))) goes through the epilogue of the float
 *               kernels: C, float bias, residual, activation
 *
 * float(acc) is rounded to nearest even. An 8-bit D is zd if x is NaN, and if sd is 0 or NaN. An
 * absent scale is 1 and an absent zero point is 0; its buffer is never accessed. */
#ifndef TDM_GEMM_INT_ARGS_H
#define TDM_GEMM_INT_ARGS_H

#include "kernels/gemm/gemm_args.h"

/* Scales are f32, f16 or bf16 by their type code, zero points s32, s8 or u8. Strides are in
 * elements; a stride is 0 if one value serves all. */
typedef struct {
    tdm_arg_i64 a_scale_row, a_scale_batch, a_zero_row, a_zero_batch;
    tdm_arg_i64 b_scale_col, b_scale_batch, b_zero_col, b_zero_batch;
    tdm_arg_i64 d_scale_col, d_zero_col;
    tdm_arg_i64 sums_at; /* packed B: bytes from a batch entry's panels to its s32 column sums */
    int a_scale_type, b_scale_type, d_scale_type; /* TDM_CODE_F32, _F16, _BF16 or _ABSENT */
    int a_zero_type, b_zero_type, d_zero_type;    /* TDM_CODE_S32, _S8, _U8 or TDM_CODE_ABSENT */
    int low, high;                                /* range of an 8-bit D */
    /* Panel family only. 0: work-items copy A. 1 or 2: they read A in place, and have room for one
     * strip of it. 2 also means that there are two threads. */
    int a_stays;
    int unused; /* prevents padding at the end: Mesa's rusticl omits it from an argument's size */
} tdm_gemm_quant_arg;

#endif
