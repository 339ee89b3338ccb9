/* GEMM of f16 or bf16 on tensor cores with sums in f32: a work-group computes a TM×TN tile of D,
 * and a warp WM×WN of it.
 *
 *              TN                STAGES tiles of A (TM×TK) and B (TK×TN), TK = 32, are on the way
 *          ┌────────┐ TK         to local memory. gemm_mma_tile.h draws them and explains why
 *     TK   └────────┘            there are no bank conflicts.
 *   ┌────┐ ┌───┬────┐
 * TM│ A  │ ├───┼────┤            A warp's tile is WM / 16 by WN / 8 fragments. Lane 4·g + t has:
 *   └────┘ └───┴────┘              row g, columns 2·t and 2·t + 1:      sums 0 and 1
 *                                  row g + 8, the same columns:         sums 2 and 3
 *
 * MMA is the type, f16 or bf16. GROUPS work-groups share the registers of a multiprocessor. Devices
 * before 8.0 use synchronous copies, and their instructions multiply half as many steps of K.
 * gemm_mma_floats.h has the kernel. */
#define ELEMENT_BYTES 2
#include "gemm_mma_floats.h"

TDM_DEVICE void mma_sum_products(mma_sums &acc, const mma_source &from_a, const mma_source &from_b,
                                 tdm_u8 *tiles, long k, const mma_position &at) {
    mma_clear(acc);
    /* mma_main_loop loads; the function multiply-accumulates the fragments of half a tile. */
    mma_main_loop(from_a, from_b, tiles, k, at.warp, at.lane,
             [&](const uint(&x)[A_FRAGMENTS][4], const uint(&y)[B_PAIRS][4]) {
                 TDM_UNROLL for (int i = 0; i < A_FRAGMENTS; i++)
                     TDM_UNROLL for (int j = 0; j < B_PAIRS; j++) {
                         TDM_CAT2(tdm_matrices_, MMA)(acc[i][2 * j], x[i], y[j][0], y[j][1]);
                         TDM_CAT2(tdm_matrices_, MMA)(acc[i][2 * j + 1], x[i], y[j][2], y[j][3]);
                     }
             });
}
