/* GEMM for CPU-like devices: one work-item computes an MR×NR tile of D in explicit wide vectors.
 *
 *              NR = NV vectors of VW            B is packed into panels of NR columns (gemm_pack.cl),
 *            ┌────┬────┐                        zero-padded: it is read straight through.
 *     B row  │ b0 │ b1 │                        A is read in place (a_row, a_col any stride) or from
 *            └────┴────┘                        panels of MR rows (a_row = 1, a_col = MR).
 *   A  ┌─┐   ┌────┬────┐
 *   MR │a│ × │acc │acc │   acc[i][v] += splat(a(i, p)) · b(p, v), p over the whole K
 *      └─┘   └────┴────┘
 *
 * There is no local memory and no barrier: on these devices both are plain memory traffic. Rows past
 * the matrix repeat the last one and are not stored. Grid (row tiles · column tiles, 1, batch): items
 * next to each other share a B panel. */
#define TDM_EPILOGUE_VECTOR 8
#include "dialect.h"
#include "gemm_args.h"
#include "gemm_epilogue.h"

#define NV (NR / VW)
#define VECTOR TDM_F32(VW)

/* One step of K. a_step holds A's address of row 0; rows are row[i] elements further. */
#define PANEL_STEP(A_AT, B_AT)                                                                     \
    {                                                                                              \
        VECTOR b_vec[NV];                                                                          \
        TDM_UNROLL for (int v = 0; v < NV; v++) b_vec[v] = TDM_LOADV(VW, BT, b, (B_AT) + v * VW);  \
        TDM_UNROLL for (int i = 0; i < MR; i++) {                                                  \
            const VECTOR a_vec = TDM_SPLAT(VW, a[A_AT]);                                           \
            TDM_UNROLL for (int v = 0; v < NV; v++) acc[i][v] = tdm_fma(a_vec, b_vec[v], acc[i][v]); \
        }                                                                                          \
    }

TDM_KERNEL_GROUP(TDM_ENTRY, 1, 1, 1)
(TDM_GLOBAL const float *TDM_RESTRICT a, long a_offset,
 TDM_GLOBAL const TDM_TYPE(BT) *TDM_RESTRICT b, long b_offset, TDM_GLOBAL const void *c,
 long c_offset, TDM_GLOBAL const void *bias, long bias_offset, TDM_GLOBAL const void *residual,
 long r_offset, TDM_GLOBAL void *d, long d_offset, tdm_gemm_shape_arg s, tdm_gemm_epilogue_arg e) {
    const long z = tdm_group_z();
    const long row_tile = tdm_group_x() % s.row_tiles, column_tile = tdm_group_x() / s.row_tiles;
    const long i0 = row_tile * MR, j0 = column_tile * NR;
    const int rows = (int)(s.m - i0 < MR ? s.m - i0 : MR);
    const int columns = (int)(s.n - j0 < NR ? s.n - j0 : NR);
    const long a0 = a_offset + z * s.a_batch + row_tile * s.a_tile;
    const long b0 = b_offset + z * s.b_batch + j0 * s.k;

    VECTOR acc[MR][NV];
    TDM_UNROLL for (int i = 0; i < MR; i++)
        TDM_UNROLL for (int v = 0; v < NV; v++) acc[i][v] = TDM_SPLAT(VW, 0.0f);

    if (s.a_packed) {
        for (long p = 0; p < s.k; p++)
            PANEL_STEP(a0 + p * MR + i, b0 + p * NR)
    } else {
        long row[MR];
        TDM_UNROLL for (int i = 0; i < MR; i++) row[i] = a0 + (i < rows ? i : rows - 1) * s.a_row;
        for (long p = 0; p < s.k; p++)
            PANEL_STEP(row[i] + p * s.a_col, b0 + p * NR)
    }

    float tile[MR * NR];
    TDM_UNROLL for (int i = 0; i < MR; i++)
        TDM_UNROLL for (int v = 0; v < NV; v++)
            TDM_STOREV(VW, f32, acc[i][v], tile, i * NR + v * VW);
    const tdm_epilogue_io io = tdm_epilogue_begin(c, c_offset, bias, bias_offset, residual,
                                                  r_offset, d, d_offset, e, z);
    const int dense = tdm_epilogue_is_dense(e);
    for (int i = 0; i < rows; i++)
        tdm_epilogue_row(tile + i * NR, io, e, i0 + i, j0, columns, dense);
}
