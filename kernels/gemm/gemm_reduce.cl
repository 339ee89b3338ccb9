/* Adds the parts of a split-K GEMM: D = act(alpha·(part 0 + part 1 + …) + beta·C + bias +
 * residual).
 *
 *   part 0  ┌ m×n, f32 ┐      Part p of batch entry z is at z·a_batch + p·a_col; its rows are a_row
 *   part 1  ├          ┤      apart. s.k is the number of parts. They are added in this order, in
 *   …       └          ┘      whatever order they were computed, so that the same plan gives the
 *                             same bits.
 *
 * If there are no parts (alpha is 0) the sum is 0 and `parts` is not read.
 *
 * One work-item finishes PIECE elements of a row. It loads each part's elements at once if all
 * addresses are multiples of 16 bytes, as they are if n is a multiple of four. The grid is (rows ·
 * pieces of a row, 1, batch). */
#define TDM_EPILOGUE_VECTOR 4
#include "kernels/dialect/dialect.h"

#include "kernels/dialect/any_float.h"
#include "gemm_args.h"

/* This epilogue is limited by memory alone, so it loads with TDM_LOADV_GLOBAL. */
#undef TDM_LOADV_ANY
#define TDM_LOADV_ANY(N, p, type, i)                                                               \
    ((type) == TDM_CODE_F16    ? TDM_LOADV_GLOBAL(N, f16, (TDM_GLOBAL const tdm_f16 *)(p), i)      \
     : (type) == TDM_CODE_BF16 ? TDM_LOADV_GLOBAL(N, bf16, (TDM_GLOBAL const tdm_bf16 *)(p), i)    \
                               : TDM_LOADV_GLOBAL(N, f32, (TDM_GLOBAL const tdm_f32 *)(p), i))
#include "gemm_epilogue.h"

#define PIECE 4

/* total = part 0 + part 1 + …, in this order. */
#define ADD_PARTS(total, LOADV)                                                                    \
    {                                                                                              \
        total = LOADV(PIECE, f32, parts, at);                                                      \
        for (long p = 1; p < s.k; p++)                                                             \
            total = total + LOADV(PIECE, f32, parts, at + p * s.a_col);                            \
    }

/* TAKES_PIECE is true if one store can write a piece at element i of D. PLACE_OF_PIECE is i,
 * written as a multiple of PIECE: nvcc then sees that the address is aligned to the piece's size.
 * Unaligned pieces are stored element by element. */
#ifdef TDM_DIALECT_CXX
#define TAKES_PIECE(DT, d, i) (tdm_address(d) % (PIECE * sizeof(tdm_##DT)) == 0 && (i) % PIECE == 0)
#define PLACE_OF_PIECE(i) ((i) / PIECE * PIECE)
#else
#define TAKES_PIECE(DT, d, i) 1
#define PLACE_OF_PIECE(i) (i)
#endif
#define STORE_PIECE(DT)                                                                            \
    do {                                                                                           \
        if (TAKES_PIECE(DT, io.d, place)) {                                                        \
            TDM_STOREV_GLOBAL(PIECE, DT, x, (TDM_GLOBAL tdm_##DT *)io.d, PLACE_OF_PIECE(place));   \
            return;                                                                                \
        }                                                                                          \
    } while (0)

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const float *TDM_RESTRICT parts, long parts_offset, TDM_GLOBAL const void *c,
 long c_offset, TDM_GLOBAL const void *bias, long bias_offset, TDM_GLOBAL const void *residual,
 long r_offset, TDM_GLOBAL void *d, long d_offset, tdm_gemm_shape_arg s, tdm_gemm_epilogue_arg e) {
    TDM_ITEM_BEGIN;
    const long pieces = (s.n + PIECE - 1) / PIECE, z = tdm_global_z();
    const long i = tdm_global_x() / pieces, j = tdm_global_x() % pieces * PIECE;
    if (i < s.m) {
        const int count = (int)(s.n - j < PIECE ? s.n - j : PIECE);
        const long at = parts_offset + z * s.a_batch + i * s.a_row + j;
        const tdm_epilogue_io io = tdm_epilogue_begin(c, c_offset, bias, bias_offset, residual,
                                                      r_offset, d, d_offset, e, z);
        float sum[PIECE];
        if (count == PIECE) {
            f32x4 total = TDM_EPILOGUE_SPLAT(0.0f);
            if (s.k > 0) {
                if ((tdm_address(parts + at) | (ulong)s.a_col * sizeof(float)) % 16 == 0)
                    ADD_PARTS(total, TDM_LOADV_ALIGNED)
                else
                    ADD_PARTS(total, TDM_LOADV)
            }
            if (tdm_epilogue_is_dense(e)) {
                const f32x4 x = tdm_epilogue_values(total, io, e, i, j);
                const long place = io.d_at + i * e.d_row + j;
                if (e.d_type == TDM_CODE_F16)
                    STORE_PIECE(f16);
                else if (e.d_type == TDM_CODE_BF16)
                    STORE_PIECE(bf16);
                else
                    STORE_PIECE(f32);
            }
            f32x4_store_f32(total, sum, 0);
        } else {
            for (int t = 0; t < count; t++) {
                sum[t] = s.k > 0 ? parts[at + t] : 0.0f;
                for (long p = 1; p < s.k; p++)
                    sum[t] += parts[at + p * s.a_col + t];
            }
        }
        tdm_epilogue_row(sum, io, e, i, j, count, 0);
    }
}
