/* GEMM of f16 or bf16 on tensor cores, sums in f32: a group computes a TM×TN tile of D, a warp WM×WN of it.
 *
 *              TN                STAGES tiles of A (TM×TK) and B (TK×TN), TK = 32, are on the way to local memory;
 *          ┌────────┐ TK         gemm_mma_tile.h draws them, and says why no bank is asked for twice.
 *     TK   └────────┘
 *   ┌────┐ ┌───┬────┐            A warp's tile is WM / 16 by WN / 8 fragments: of each, lane 4·g + t has
 * TM│ A  │ ├───┼────┤              row g, columns 2·t and 2·t + 1:      sums 0 and 1
 *   └────┘ └───┴────┘              row g + 8, the same columns:        sums 2 and 3
 *
 * MMA is the type, f16 or bf16. GROUPS groups at a time share the registers of a multiprocessor. On devices before 8.0 copies are
 * plain ones, and an instruction takes half of K.
 *
 * The sums go to D by way of the local memory of the tiles (gemm_fragment_epilogue.h), which must have TM·TN floats.
 * Grid (row tiles · column tiles, 1, batch). */
#define TDM_EPILOGUE_VECTOR 4
#define ELEMENT_BYTES 2
#include "dialect.h"
#include "gemm_args.h"
#include "gemm_fragment_epilogue.h"
#include "gemm_mma_tile.h"

TDM_KERNEL_GROUPS(TDM_ENTRY, ITEMS, 1, 1, GROUPS)
(TDM_GLOBAL const void *TDM_RESTRICT a, long a_offset, TDM_GLOBAL const void *TDM_RESTRICT b,
 long b_offset, TDM_GLOBAL const void *c, long c_offset, TDM_GLOBAL const void *bias,
 long bias_offset, TDM_GLOBAL const void *residual, long r_offset, TDM_GLOBAL void *d,
 long d_offset, tdm_gemm_shape_arg s, tdm_gemm_epilogue_arg e, TDM_LOCAL_ARGUMENT(tdm_u8, local)) {
    tdm_u8 *const tiles = local;
    const mma_position at = mma_here(s);
    const int item = tdm_item_x();
    const mma_source from_a =
        mma_source_of<TM>(a, a_offset + at.z * s.a_batch + at.i0 * s.a_row, s.a_row, s.a_col,
                          s.m - at.i0, item);
    const mma_source from_b =
        mma_source_of<TN>(b, b_offset + at.z * s.b_batch + at.j0 * s.b_col, s.b_col, s.b_row,
                          s.n - at.j0, item);

    float acc[A_FRAGMENTS][2 * B_PAIRS][4];
    TDM_UNROLL for (int i = 0; i < A_FRAGMENTS; i++)
        TDM_UNROLL for (int j = 0; j < 2 * B_PAIRS; j++)
            TDM_UNROLL for (int x = 0; x < 4; x++) acc[i][j][x] = 0.0f;
    mma_walk(from_a, from_b, tiles, s.k, at.warp, at.lane,
             [&](const uint(&x)[A_FRAGMENTS][4], const uint(&y)[B_PAIRS][4]) {
                 TDM_UNROLL for (int i = 0; i < A_FRAGMENTS; i++)
                     TDM_UNROLL for (int j = 0; j < B_PAIRS; j++) {
                         TDM_CAT2(tdm_matrices_, MMA)(acc[i][2 * j], x[i], y[j][0], y[j][1]);
                         TDM_CAT2(tdm_matrices_, MMA)(acc[i][2 * j + 1], x[i], y[j][2], y[j][3]);
                     }
             });

    uint *const scratch = mma_scratch(tiles, at.warp);
    mma_keep(acc, scratch, at.lane);
    const tdm_epilogue_io io = tdm_epilogue_begin(c, c_offset, bias, bias_offset, residual,
                                                  r_offset, d, d_offset, e, at.z);
    tdm_fragment_rows(scratch, WM, WN, at.lane, io, e, at.i0 + at.row, at.j0 + at.column, s.m, s.n);
}
