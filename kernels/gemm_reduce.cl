/* Joins the parts of a GEMM whose K was split: D = act(alpha·(part 0 + part 1 + …) + beta·C + bias + residual).
 *
 *   part 0  ┌ m×n, f32 ┐      part p of batch entry z stands at z·a_batch + p·a_col, its rows a_row apart; s.k is
 *   part 1  ├          ┤      the number of parts. They are added in this order, whatever order they were made
 *   …       └          ┘      in, so that the same plan gives the same bits.
 *
 * One item joins PIECE elements of a row. Items (rows · pieces of a row, 1, batch). */
#define TDM_EPILOGUE_VECTOR 4
#include "dialect.h"
#include "gemm_args.h"
#include "gemm_epilogue.h"

#define PIECE 4

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const float *TDM_RESTRICT parts, long parts_offset, TDM_GLOBAL const void *c,
 long c_offset, TDM_GLOBAL const void *bias, long bias_offset, TDM_GLOBAL const void *residual,
 long r_offset, TDM_GLOBAL void *d, long d_offset, tdm_gemm_shape_arg s, tdm_gemm_epilogue_arg e) {
    const long pieces = (s.n + PIECE - 1) / PIECE, z = tdm_global_z();
    const long i = tdm_global_x() / pieces, j = tdm_global_x() % pieces * PIECE;
    if (i < s.m) {
        const int count = (int)(s.n - j < PIECE ? s.n - j : PIECE);
        const long at = parts_offset + z * s.a_batch + i * s.a_row + j;
        float sum[PIECE];
        if (count == PIECE) {
            f32x4 total = f32x4_load_f32(parts, at);
            for (long p = 1; p < s.k; p++)
                total = total + f32x4_load_f32(parts, at + p * s.a_col);
            f32x4_store_f32(total, sum, 0);
        } else {
            for (int t = 0; t < count; t++) {
                sum[t] = parts[at + t];
                for (long p = 1; p < s.k; p++)
                    sum[t] += parts[at + p * s.a_col + t];
            }
        }
        const tdm_epilogue_io io = tdm_epilogue_begin(c, c_offset, bias, bias_offset, residual,
                                                      r_offset, d, d_offset, e, z);
        tdm_epilogue_row(sum, io, e, i, j, count, tdm_epilogue_is_dense(e));
    }
}
