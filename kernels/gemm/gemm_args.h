/* Argument structs of the GEMM kernels: one definition for the host and for the kernel sources.
 * Strides are in elements. A by-value argument has at most 128 bytes. */
#ifndef TDM_GEMM_ARGS_H
#define TDM_GEMM_ARGS_H

#ifdef TDM_DIALECT_H
typedef long tdm_arg_i64;
#else
#include <stdint.h>
typedef int64_t tdm_arg_i64;
#endif

#include "kernels/dialect/op_codes.h"

/* The storage types of operands are run-time values: TDM_CODE_F32, _F16 or _BF16. An absent operand
 * has this code and is never accessed. */
#define TDM_CODE_ABSENT 0

/* These are the values of tdm_activation, as the host asserts. */
#define TDM_CODE_ACT_NONE 0
#define TDM_CODE_ACT_RELU 1
#define TDM_CODE_ACT_GELU 2
#define TDM_CODE_ACT_GELU_TANH 3
#define TDM_CODE_ACT_SILU 4

/* Sums in f32 are computed in blocks: at most this many terms are added one after the other. The
 * sum of a block is then added to the sum of the blocks before it. The rounding errors of equal
 * terms have one sign. In longer blocks they would exceed the bound of docs/numerics.md. */
#define TDM_SUM_BLOCK 256

/* A(i, p) is at i·a_row + p·a_col and B(p, j) at p·b_row + j·b_col, each plus batch·*_batch. Packed
 * B (b_packed) is addressed by b_batch alone. Tiles are numbered along x, row tiles first, because
 * only x can be large on every device. Each kernel defines its own tile. */
typedef struct {
    tdm_arg_i64 m, n, k;
    tdm_arg_i64 a_row, a_col, a_batch;
    tdm_arg_i64 b_row, b_col, b_batch;
    tdm_arg_i64 row_tiles, column_tiles;
    int a_type, b_type;
    int b_packed;
    /* For kernels with tensor maps. Bit 0: A is contiguous along M; bit 1: B is contiguous along N;
     * bit 2: D has a tensor map too. */
    int turned;
} tdm_gemm_shape_arg;

/* D = act(alpha·acc + beta·C + bias + residual), or with `gated`, which needs a residual,
 * D = act(alpha·acc + beta·C + bias) · residual. The bias runs along the columns of D, or along its
 * rows if the kernel computes a transposed D; its other stride is 0. streams_d: D is too large to
 * stay in a cache. rusticl 22.3 refuses a struct with padding at its end, so `unused` is there. */
typedef struct {
    tdm_arg_i64 c_row, c_col, c_batch;
    tdm_arg_i64 d_row, d_col, d_batch;
    tdm_arg_i64 r_row, r_col, r_batch;
    tdm_arg_i64 bias_row, bias_col;
    float alpha, beta;
    int activation, gated;
    int c_type, bias_type, r_type, d_type, streams_d, unused;
} tdm_gemm_epilogue_arg;

/* Arguments of packing (gemm_pack.cl). sums_at is for gemm_int_pack.cl, as in gemm_int_args.h. */
typedef struct {
    tdm_arg_i64 depth, lines;
    tdm_arg_i64 row, col, batch;
    tdm_arg_i64 packed_batch;
    tdm_arg_i64 depth_per_item;
    tdm_arg_i64 sums_at;
} tdm_pack_arg;

#endif
