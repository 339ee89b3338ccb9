/* Epilogue of GEMM kernels whose sums are fragments of matrix instructions; shared by *.cu.
 *
 * A warp has a tile of `rows` by `columns` sums, made of 16×8 fragments. In each fragment, the lane
 * with number 4·g + t holds columns 2·t and 2·t + 1 of rows g and g + 8. The warp writes them pair
 * by pair to its own scratch in local memory (tdm_fragment_keep). Each lane then stores four
 * neighbouring elements of a row of D at a time (tdm_fragment_rows, or tdm_fragment_int_rows).
 * Global memory is therefore accessed by whole cache lines, and the epilogue code exists once
 * instead of once per register.
 *
 *   scratch: row r is at r · columns, its column j at j ^ 8·(r % 4); columns is 32, 64 or 128
 *
 * There are no bank conflicts. Half a warp stores pairs of four rows of a fragment: the XOR puts
 * their eight columns into four different groups of eight banks. A quarter of a warp reads 32 words
 * of one row, which the XOR only permutes.
 *
 * A tdm_warp_barrier() must separate the last tdm_fragment_keep from the first read. A source
 * includes this after defining TDM_EPILOGUE_VECTOR 4. For integers it also defines TDM_INT_COLUMNS
 * 4 and, where it applies, TDM_BUILT_IN_DIVIDE. */
#ifndef TDM_GEMM_FRAGMENT_EPILOGUE_H
#define TDM_GEMM_FRAGMENT_EPILOGUE_H

#include "gemm_epilogue.h"

TDM_DEVICE int tdm_fragment_place(int columns, int row, int column) {
    return row * columns + (column ^ (row % 4 * 8));
}

/* Stores columns `column` (even) and `column` + 1 of `row`, floats or integers. */
template <class T>
TDM_DEVICE void tdm_fragment_keep(uint *scratch, int columns, int row, int column, T x0, T x1) {
    tdm_cxx_store_pair(scratch + tdm_fragment_place(columns, row, column), x0, x1);
}

/* Finishes a warp's tile, whose first element is (i0, j0) of D (m×n). */
TDM_DEVICE void tdm_fragment_rows(const uint *scratch, int rows, int columns, int lane,
                                  tdm_epilogue_io io, tdm_gemm_epilogue_arg e, long i0, long j0,
                                  long m, long n) {
    const int across = columns / 4, column = lane % across * 4;
    const long j = j0 + column;
    const int count = (int)(n - j < 4 ? n - j : 4);
    const int whole = count == 4 && tdm_epilogue_is_dense(e);
    const int there = count > 0 ? (int)(m - i0 < rows ? m - i0 : rows) : 0;
    TDM_NO_UNROLL for (int r = lane / across; r < there; r += 32 / across) {
        const float *const x = (const float *)scratch + tdm_fragment_place(columns, r, column);
        if (whole)
            tdm_epilogue_piece(*(const f32x4 *)x, io, e, i0 + r, j);
        else
            TDM_NO_UNROLL for (int l = 0; l < count; l++)
                tdm_epilogue_element(x[l], io, e, i0 + r, j + l);
    }
}

#ifdef TDM_INT_COLUMNS
#include "kernels/gemm_int/gemm_int_epilogue.h"

/* Finishes a warp's tile of integer sums. column_sums and row_sums are in local memory: the sums of
 * the warp's columns of B and rows of A. */
TDM_DEVICE void tdm_fragment_int_rows(const uint *scratch, const int *column_sums,
                                      const int *row_sums, int rows, int columns, int lane,
                                      const tdm_int_io *io, tdm_gemm_shape_arg s,
                                      tdm_gemm_epilogue_arg e, tdm_gemm_quant_arg q, long i0,
                                      long j0) {
    const int across = columns / 4, column = lane % across * 4;
    const long j = j0 + column;
    const int count = (int)(s.n - j < 4 ? s.n - j : 4);
    const int there = count > 0 ? (int)(s.m - i0 < rows ? s.m - i0 : rows) : 0;
    tdm_int_columns begun;
    if (count > 0)
        tdm_int_columns_begin(&begun, io, s, e, q, column_sums + column, 0, j, count);
    TDM_NO_UNROLL for (int r = lane / across; r < there; r += 32 / across)
        tdm_int_row((const int *)scratch + tdm_fragment_place(columns, r, column), row_sums[r],
                    &begun, io, e, q, 0, i0 + r, j, count);
}
#endif

#endif
