/* Small-M GEMM (M of 16 and less) for GPU-like devices. B is read in place, once for every RM rows
 * of D. The memory bandwidth of these reads limits the speed.
 *
 *   B contiguous along N             otherwise             A work-group of ITEMS work-items has
 *   ┌ 64 columns ┐                   ┌ 4 columns           all rows, RM at a time.
 *   │0 1 2 … 15  │ phase 0           │0 0 0 0
 *   │0 1 2 … 15  │ phase 1           │1 1 1 1
 *   │0 1 2 … 15  │ phase 2           │…
 *   │0 1 2 … 15  │ phase 3           │63 63 63 63
 *
 * B contiguous along N: work-item x reads the vector of four columns with number x % 16. It belongs
 * to phase x / 16. B is cut along K into pieces of four rows, and each of the four phases takes
 * every fourth piece. Otherwise: work-item x takes every ITEMS-th vector of four elements along K,
 * in each of four columns.
 *
 * Each work-item adds blocks of its terms to its own sums in local memory. At the end the sums of
 * all work-items are joined there, in a fixed order. A is read with any strides and in any type: it
 * is small and stays in the caches. The grid is (column_tiles work-groups, 1, batch).
 *
 * The only parameter of the variant is BT, the storage type of B, e.g. f16. */
#define TDM_EPILOGUE_VECTOR 4
#include "kernels/dialect/dialect.h"
#include "gemm_args.h"
#include "gemm_epilogue.h"

#define ITEMS 64     /* work-items of a work-group */
#define RM 4         /* rows at a time */
#define K_COLUMNS 4  /* columns of a work-group, unless B is contiguous along N */
#define N_COLUMNS 64 /* columns of a work-group, if B is contiguous along N */
#define LANES (N_COLUMNS / 4)
#define PHASES (ITEMS / LANES)
/* Rows of B that a phase takes at a time. */
#define UNROLL 4

#define LOAD_A(I, P) tdm_load_any(a, s.a_type, a0 + (I)*s.a_row + (P)*s.a_col)
/* Rows past the matrix repeat the last one and are not stored. */
#define ROW(M) (i0 + (M) < s.m ? (M) : s.m - 1 - i0)

/* Loads up to four elements of a row of B. */
#define LOAD_B_ROW(P, V)                                                                           \
    if (whole) {                                                                                   \
        V = TDM_LOADV(4, BT, b, b0 + (P)*s.b_row + j);                                             \
    } else {                                                                                       \
        TDM_UNROLL for (int n = 0; n < 4; n++) lane[n] =                                           \
            j + n < s.n ? TDM_LOAD(BT, b, b0 + (P)*s.b_row + (j + n) * s.b_col) : 0.0f;            \
        V = f32x4_load_f32(lane, 0);                                                               \
    }

TDM_KERNEL_GROUP(TDM_ENTRY, ITEMS, 1, 1)
(TDM_GLOBAL const void *TDM_RESTRICT a, long a_offset,
 TDM_GLOBAL const TDM_TYPE(BT) * TDM_RESTRICT b, long b_offset, TDM_GLOBAL const void *c,
 long c_offset, TDM_GLOBAL const void *bias, long bias_offset, TDM_GLOBAL const void *residual,
 long r_offset, TDM_GLOBAL void *d, long d_offset, tdm_gemm_shape_arg s, tdm_gemm_epilogue_arg e) {
    TDM_LOCAL_ARRAY(float, partial, RM *K_COLUMNS *ITEMS);
    const int x = tdm_item_x();
    const long z = tdm_group_z();
    const long b0 = b_offset + z * s.b_batch;
    const int along_n = s.b_col == 1 && s.b_row != 1;
    const long j0 = tdm_group_x() * (along_n ? N_COLUMNS : K_COLUMNS);
    const tdm_epilogue_io io =
        tdm_epilogue_begin(c, c_offset, bias, bias_offset, residual, r_offset, d, d_offset, e, z);

    for (long i0 = 0; i0 < s.m; i0 += RM) {
        const long a0 = a_offset + z * s.a_batch + i0 * s.a_row;
        if (along_n) {
            const int lane_x = x % LANES, phase = x / LANES;
            const long j = j0 + lane_x * 4;
            const int whole = j + 4 <= s.n;
            float lane[4];
            const int own = phase * RM * N_COLUMNS + lane_x * 4;
            TDM_UNROLL for (int m = 0; m < RM; m++)
                f32x4_store_f32(f32x4_splat(0.0f), partial, own + m * N_COLUMNS);
            for (long block = phase * UNROLL; block < s.k; block += PHASES * TDM_SUM_BLOCK) {
                const long past = block + PHASES * TDM_SUM_BLOCK, end = past < s.k ? past : s.k;
                f32x4 acc[RM];
                TDM_UNROLL for (int m = 0; m < RM; m++) acc[m] = f32x4_splat(0.0f);
                for (long p0 = block; p0 < end; p0 += PHASES * UNROLL) {
                    TDM_UNROLL for (int u = 0; u < UNROLL; u++) {
                        const long p = p0 + u;
                        if (p < s.k) {
                            /* Load and multiply-accumulate. */
                            f32x4 b_vec;
                            LOAD_B_ROW(p, b_vec)
                            TDM_UNROLL for (int m = 0; m < RM; m++) acc[m] =
                                tdm_mad(f32x4_splat(LOAD_A(ROW(m), p)), b_vec, acc[m]);
                        }
                    }
                }
                TDM_UNROLL for (int m = 0; m < RM; m++)
                    f32x4_store_f32(f32x4_load_f32(partial, own + m * N_COLUMNS) + acc[m], partial,
                                    own + m * N_COLUMNS);
            }
            tdm_barrier();
            /* Store. */
            if (j0 + x < s.n)
                for (int m = 0; m < RM && i0 + m < s.m; m++) {
                    float sum = 0.0f;
                    TDM_UNROLL for (int q = 0; q < PHASES; q++) sum +=
                        partial[(q * RM + m) * N_COLUMNS + x];
                    tdm_epilogue_element(sum, io, e, i0 + m, j0 + x);
                }
        } else {
            const int vectors = s.b_row == 1 && s.a_col == 1;
            long column[K_COLUMNS];
            TDM_UNROLL for (int n = 0; n < K_COLUMNS; n++) column[n] =
                b0 + (j0 + n < s.n ? j0 + n : s.n - 1) * s.b_col;
            TDM_UNROLL for (int t = 0; t < RM * K_COLUMNS; t++) partial[t * ITEMS + x] = 0.0f;
            long p0 = x * 4;
            while (vectors && p0 + 4 <= s.k) {
                const long past = p0 + ITEMS * 4 * TDM_SUM_BLOCK;
                f32x4 acc[RM][K_COLUMNS];
                TDM_UNROLL for (int m = 0; m < RM; m++)
                    TDM_UNROLL for (int n = 0; n < K_COLUMNS; n++) acc[m][n] = f32x4_splat(0.0f);
                for (; p0 + 4 <= s.k && p0 < past; p0 += ITEMS * 4) {
                    /* Load and multiply-accumulate, in vectors. */
                    f32x4 a_vec[RM];
                    TDM_UNROLL for (int m = 0; m < RM; m++) a_vec[m] =
                        tdm_loadv_any(a, s.a_type, a0 + ROW(m) * s.a_row + p0);
                    TDM_UNROLL for (int n = 0; n < K_COLUMNS; n++) {
                        const f32x4 b_vec = TDM_LOADV(4, BT, b, column[n] + p0);
                        TDM_UNROLL for (int m = 0; m < RM; m++) acc[m][n] =
                            tdm_mad(a_vec[m], b_vec, acc[m][n]);
                    }
                }
                TDM_UNROLL for (int m = 0; m < RM; m++)
                    TDM_UNROLL for (int n = 0; n < K_COLUMNS; n++)
                        partial[(m * K_COLUMNS + n) * ITEMS + x] += f32x4_sum(acc[m][n]);
            }
            while (p0 < s.k) {
                const long past = p0 + ITEMS * TDM_SUM_BLOCK;
                float sum[RM][K_COLUMNS];
                TDM_UNROLL for (int m = 0; m < RM; m++)
                    TDM_UNROLL for (int n = 0; n < K_COLUMNS; n++) sum[m][n] = 0.0f;
                for (; p0 < s.k && p0 < past; p0 += ITEMS * 4)
                    for (int u = 0; u < 4 && p0 + u < s.k; u++)
                        /* Load and multiply-accumulate, element by element. */
                        TDM_UNROLL for (int m = 0; m < RM; m++) {
                            const float a_value = LOAD_A(ROW(m), p0 + u);
                            TDM_UNROLL for (int n = 0; n < K_COLUMNS; n++) sum[m][n] =
                                tdm_mad(a_value,
                                        TDM_LOAD(BT, b, column[n] + (p0 + u) * s.b_row),
                                        sum[m][n]);
                        }
                TDM_UNROLL for (int m = 0; m < RM; m++)
                    TDM_UNROLL for (int n = 0; n < K_COLUMNS; n++)
                        partial[(m * K_COLUMNS + n) * ITEMS + x] += sum[m][n];
            }
            /* Join the sums of all work-items. */
            for (int half_items = ITEMS / 2; half_items > 0; half_items /= 2) {
                tdm_barrier();
                if (x < half_items)
                    TDM_UNROLL for (int t = 0; t < RM * K_COLUMNS; t++) partial[t * ITEMS + x] +=
                        partial[t * ITEMS + x + half_items];
            }
            tdm_barrier();
            /* Store. */
            if (x < RM * K_COLUMNS && i0 + x / K_COLUMNS < s.m && j0 + x % K_COLUMNS < s.n)
                tdm_epilogue_element(partial[x * ITEMS], io, e, i0 + x / K_COLUMNS,
                                     j0 + x % K_COLUMNS);
        }
        tdm_barrier();
    }
}
