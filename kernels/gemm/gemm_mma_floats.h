/* The kernel of gemm_mma.cu and gemm_3xtf32_mma.cu: computes a tile of D with sums in f32.
 *
 * The sums reach D through the local memory of the tiles (gemm_fragment_epilogue.h), which must
 * have room for TM·TN floats. The grid is (row tiles · column tiles, 1, batch).
 *
 * A source includes this after defining the parameters of gemm_mma_tile.h and
 *   GROUPS   work-groups that share the registers of a multiprocessor, e.g. 2
 * It then defines mma_sum_products. */
#ifndef TDM_GEMM_MMA_FLOATS_H
#define TDM_GEMM_MMA_FLOATS_H

#define TDM_EPILOGUE_VECTOR 4
#include "kernels/dialect/dialect.h"
#include "gemm_args.h"
#include "gemm_fragment_epilogue.h"
#include "gemm_mma_tile.h"

typedef float mma_sums[A_FRAGMENTS][2 * B_PAIRS][4];

TDM_DEVICE void mma_clear(mma_sums &acc) {
    TDM_UNROLL for (int i = 0; i < A_FRAGMENTS; i++)
        TDM_UNROLL for (int j = 0; j < 2 * B_PAIRS; j++) TDM_UNROLL for (int x = 0; x < 4; x++)
            acc[i][j][x] = 0.0f;
}

/* Computes the sums of the warp's tile over all `k` steps of K. On return no warp of the work-group
 * uses the tiles any more. */
TDM_DEVICE void mma_sum_products(mma_sums &acc, const mma_source &from_a, const mma_source &from_b,
                                 tdm_u8 *tiles, long k, const mma_position &at);

TDM_KERNEL_GROUPS(TDM_ENTRY, ITEMS, 1, 1, GROUPS)
(TDM_GLOBAL const void *TDM_RESTRICT a, long a_offset, TDM_GLOBAL const void *TDM_RESTRICT b,
 long b_offset, TDM_GLOBAL const void *c, long c_offset, TDM_GLOBAL const void *bias,
 long bias_offset, TDM_GLOBAL const void *residual, long r_offset, TDM_GLOBAL void *d,
 long d_offset, tdm_gemm_shape_arg s, tdm_gemm_epilogue_arg e, TDM_LOCAL_ARGUMENT(tdm_u8, local)) {
    tdm_u8 *const tiles = local;
    const mma_position at = mma_here(s);
    const int item = tdm_item_x();
    const mma_source from_a = mma_source_of<TM>(a, a_offset + at.z * s.a_batch + at.i0 * s.a_row,
                                                s.a_row, s.a_col, s.m - at.i0, item);
    const mma_source from_b = mma_source_of<TN>(b, b_offset + at.z * s.b_batch + at.j0 * s.b_col,
                                                s.b_col, s.b_row, s.n - at.j0, item);

    /* Load and multiply-accumulate. */
    mma_sums acc;
    mma_sum_products(acc, from_a, from_b, tiles, s.k, at);

    /* Store: through local memory and the epilogue to D. */
    uint *const scratch = mma_scratch(tiles, at.warp);
    mma_keep(acc, scratch, at.lane);
    const tdm_epilogue_io io = tdm_epilogue_begin(c, c_offset, bias, bias_offset, residual,
                                                  r_offset, d, d_offset, e, at.z);
    tdm_fragment_rows(scratch, WM, WN, at.lane, io, e, at.i0 + at.row, at.j0 + at.column, s.m, s.n);
}

#endif
