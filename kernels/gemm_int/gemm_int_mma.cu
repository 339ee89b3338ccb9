/* Integer GEMM on tensor cores: a work-group computes a TM×TN tile of D, and a warp WM×WN of it,
 * with sums in s32 modulo 2^32.
 *
 * gemm_mma_tile.h describes the tiles, which have TK = 64 steps of K. gemm_mma.cu shows which sums
 * of a fragment a lane holds. The type of A, u8 or s8, is known at run time only, so the source has
 * the instructions for both. Corrections for zero points may need the sums of the WN columns of B
 * and of the WM rows of A. Each lane adds the bytes of its registers of A and B. At the end, the
 * four lanes of a row or column add their partial sums. Each warp stores these sums in local
 * memory, after the tiles.
 *
 *     local memory:  STAGES tiles, later replaced by TM·TN sums │ warp 0: WN + WM ints │ warp 1 …
 *
 * Register use is limited so that GROUPS work-groups fit on a multiprocessor.
 * The grid is (row tiles · column tiles, 1, batch). */
#define TDM_EPILOGUE_VECTOR 4
#define TDM_INT_COLUMNS 4
#define TDM_BUILT_IN_DIVIDE
#define ELEMENT_BYTES 1
#include "kernels/dialect/dialect.h"
#include "gemm_int_args.h"
#include "kernels/gemm/gemm_fragment_epilogue.h"
#include "kernels/gemm/gemm_mma_tile.h"

#define TILES_BYTES (STAGES * STAGE_BYTES > TM * TN * 4 ? STAGES * STAGE_BYTES : TM * TN * 4)
#define ONES 0x01010101
#define TURN 0x80808080u /* flips the top bits of four u8: as s8 they are 128 less */

/* Partial sums of lane 4·g + t, over its steps of K: column g of each fragment of B, and rows g and
 * g + 8 of each fragment of A. */
struct line_sums {
    int b[2 * B_PAIRS], a[A_FRAGMENTS][2];
};

TDM_DEVICE int bytes_sum(uint word, int sum) {
    return tdm_dot4(1, (int)word, ONES, sum);
}
template <bool UNSIGNED> TDM_DEVICE int a_bytes_sum(uint word, int sum) {
    return UNSIGNED ? bytes_sum(word ^ TURN, sum + 512) : bytes_sum(word, sum);
}

TDM_DEVICE void add_columns(line_sums &sums, const uint (&b)[B_PAIRS][4]) {
    TDM_UNROLL for (int j = 0; j < B_PAIRS; j++) TDM_UNROLL for (int x = 0; x < 4; x++)
        sums.b[2 * j + x / 2] = bytes_sum(b[j][x], sums.b[2 * j + x / 2]);
}
template <bool UNSIGNED>
TDM_DEVICE void add_rows(line_sums &sums, const uint (&a)[A_FRAGMENTS][4]) {
    TDM_UNROLL for (int i = 0; i < A_FRAGMENTS; i++) TDM_UNROLL for (int x = 0; x < 4; x++)
        sums.a[i][x % 2] = a_bytes_sum<UNSIGNED>(a[i][x], sums.a[i][x % 2]);
}

/* Adds the partial sums of four lanes and writes the total to `to`. */
TDM_DEVICE void keep_sum(int sum, int *to, int lane) {
    sum = tdm_cxx_add(sum, tdm_warp_shuffle_xor(sum, 1));
    sum = tdm_cxx_add(sum, tdm_warp_shuffle_xor(sum, 2));
    if (lane % 4 == 0)
        *to = sum;
}
TDM_DEVICE void keep_sums(const line_sums &sums, int *columns, int lane) {
    int *const rows = columns + WN;
    TDM_UNROLL for (int j = 0; j < 2 * B_PAIRS; j++)
        keep_sum(sums.b[j], columns + 8 * j + lane / 4, lane);
    TDM_UNROLL for (int i = 0; i < A_FRAGMENTS; i++) TDM_UNROLL for (int h = 0; h < 2; h++)
        keep_sum(sums.a[i][h], rows + 16 * i + 8 * h + lane / 4, lane);
}

/* Traverses all of K. UNSIGNED: A is u8, otherwise s8. */
template <bool UNSIGNED>
TDM_DEVICE void int_traversal(const mma_source &from_a, const mma_source &from_b, tdm_u8 *tiles,
                              long k, const mma_position &at, bool wants_columns, bool wants_rows,
                              int (&acc)[A_FRAGMENTS][2 * B_PAIRS][4], line_sums &sums) {
    mma_main_loop(from_a, from_b, tiles, k, at.warp, at.lane,
             [&](const uint(&x)[A_FRAGMENTS][4], const uint(&y)[B_PAIRS][4]) {
                 TDM_UNROLL for (int i = 0; i < A_FRAGMENTS; i++)
                     TDM_UNROLL for (int j = 0; j < 2 * B_PAIRS; j++) {
                         if (UNSIGNED)
                             tdm_matrices_u8(acc[i][j], x[i], y[j / 2][j % 2 * 2],
                                             y[j / 2][j % 2 * 2 + 1]);
                         else
                             tdm_matrices_s8(acc[i][j], x[i], y[j / 2][j % 2 * 2],
                                             y[j / 2][j % 2 * 2 + 1]);
                     }
                 if (wants_columns)
                     add_columns(sums, y);
                 if (wants_rows)
                     add_rows<UNSIGNED>(sums, x);
             });
}

TDM_KERNEL_GROUPS(TDM_ENTRY, ITEMS, 1, 1, GROUPS)
(TDM_INT_ARGUMENTS, TDM_LOCAL_ARGUMENT(tdm_u8, local)) {
    tdm_u8 *const tiles = local;
    const mma_position at = mma_here(s);
    const int item = tdm_item_x();
    const mma_source from_a =
        mma_source_of<TM>(a, a_offset + at.z * s.a_batch + at.i0 * s.a_row, s.a_row, s.a_col,
                          s.m - at.i0, item);
    const mma_source from_b =
        mma_source_of<TN>(b, b_offset + at.z * s.b_batch + at.j0 * s.b_col, s.b_col, s.b_row,
                          s.n - at.j0, item);
    const bool wants_columns = tdm_int_needs_column_sums(q, 0),
               wants_rows = tdm_int_needs_row_sums(q);

    int acc[A_FRAGMENTS][2 * B_PAIRS][4];
    line_sums sums;
    TDM_UNROLL for (int i = 0; i < A_FRAGMENTS; i++) {
        TDM_UNROLL for (int j = 0; j < 2 * B_PAIRS; j++)
            TDM_UNROLL for (int x = 0; x < 4; x++) acc[i][j][x] = 0;
        sums.a[i][0] = sums.a[i][1] = 0;
    }
    TDM_UNROLL for (int j = 0; j < 2 * B_PAIRS; j++) sums.b[j] = 0;
    /* Load and multiply-accumulate. */
    if (s.a_type == TDM_CODE_U8)
        int_traversal<true>(from_a, from_b, tiles, s.k, at, wants_columns, wants_rows, acc, sums);
    else
        int_traversal<false>(from_a, from_b, tiles, s.k, at, wants_columns, wants_rows, acc, sums);

    /* Store: through local memory and the epilogue to D. */
    int *const columns = (int *)(tiles + TILES_BYTES) + at.warp * (WN + WM);
    keep_sums(sums, columns, at.lane);
    uint *const scratch = mma_scratch(tiles, at.warp);
    mma_keep(acc, scratch, at.lane);
    TDM_INT_IO(io, at.z);
    tdm_fragment_int_rows(scratch, columns, columns + WN, WM, WN, at.lane, &io, s, e, q,
                          at.i0 + at.row, at.j0 + at.column);
}
