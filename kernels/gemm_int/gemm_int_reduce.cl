/* Adds the parts of a split-K integer GEMM, modulo 2^32, and applies the epilogue of
 * gemm_int_args.h.
 *
 *   part 0  ┌ m×n, s32 ┐      Part p of batch entry z is at z·a_batch + p·a_col; its rows are a_row
 *   part 1  ├          ┤      apart. s.k is the number of parts. Each is the sum over its steps of
 *   …       └          ┘      K of (A − za)·(B − zb), so q has no zero points of A and B. Any order
 *                             of addition gives the same bits.
 *
 * One work-item finishes PIECE elements of a row. It loads each part's elements at once if all
 * addresses are multiples of 16 bytes. The grid is (rows · pieces of a row, 1, batch). */
#define TDM_EPILOGUE_VECTOR 4
#define TDM_INT_COLUMNS 4
#include "kernels/dialect/dialect.h"
#include "gemm_int_args.h"
#include "gemm_int_epilogue.h"

#define PIECE 4
#define LOAD_ALIGNED(p, i)                                                                         \
    TDM_BITS(4, TDM_LOADV_ALIGNED(4, f32, (TDM_GLOBAL const tdm_f32 *)(p), i))
#define LOAD(p, i) TDM_INT_LOADV(4, s32, p, i)
#define ADD_PARTS(LOADV)                                                                           \
    for (long p = 0; p < s.k; p++)                                                                 \
        total = tdm_add_wrap(4, total, LOADV(parts, at + p * s.a_col));

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const tdm_s32 *TDM_RESTRICT parts, long parts_offset, TDM_INT_OTHER_ARGUMENTS) {
    TDM_ITEM_BEGIN;
    const long pieces = (s.n + PIECE - 1) / PIECE, z = tdm_global_z();
    const long i = tdm_global_x() / pieces, j = tdm_global_x() % pieces * PIECE;
    if (i < s.m) {
        const int count = (int)(s.n - j < PIECE ? s.n - j : PIECE);
        const long at = parts_offset + z * s.a_batch + i * s.a_row + j;
        int sum[PIECE] = {0, 0, 0, 0};
        if (count == PIECE) {
            s32x4 total = s32x4_splat(0);
            if ((tdm_address(parts + at) | (ulong)s.a_col * sizeof(int)) % 16 == 0) {
                ADD_PARTS(LOAD_ALIGNED)
            } else {
                ADD_PARTS(LOAD)
            }
            s32x4_store_s32(total, sum, 0);
        } else {
            for (long p = 0; p < s.k; p++)
                for (int t = 0; t < count; t++)
                    sum[t] = tdm_add_wrap(1, sum[t], tdm_int_s32(parts, at + p * s.a_col + t));
        }
        TDM_INT_IO(io, z);
        tdm_int_columns columns;
        tdm_int_columns_begin(&columns, &io, s, e, q, sum, 0, j, count);
        tdm_int_row(sum, 0, &columns, &io, e, q, 0, i, j, count);
    }
}
