/* Small-M GEMM (M of 16 and less) for CPU-like devices. B is read once, in place. The memory
 * bandwidth of these reads limits the speed.
 *
 *     work-item's columns of B    One work-item has all rows of A and a range of columns. K is cut
 *      ┌──────┬──────┬──────┐     into blocks that fit `strip`, which holds the rows of A in f32,
 *    K │      │ item │      │     `stride` apart. `stride` is never a power of two, which would map
 *      └──────┴──────┴──────┘     rows to the same cache sets. `kept` holds the sums of rows ×
 *   A ═══════ ┌──────┐            columns, `pitch` apart. Both are private: a work-group has one
 *             │ kept │            work-item and there is no barrier. At most TDM_SUM_BLOCK terms
 *             └──────┘            are summed before the sum is added to `kept`.
 *
 * How a block is added to `kept` depends on the layout of B:
 *   micro-panels (b_packed)      sequentially; accumulators are NR columns of up to 4 rows
 *   contiguous along K           dot products of several columns at once, in vectors along K
 *   contiguous along N           8 rows of B at a time, each over thousands of columns: short
 *                                pieces of distant rows are read at half the speed
 *   neither                      element by element
 *
 * More than ROWS rows are processed ROWS at a time, and wide column ranges in stripes. The grid is
 * (column_tiles work-items, 1, batch): work-item c gets the panels of NR columns from
 * c·panels/column_tiles on.
 *
 * Parameters:
 *   NR          columns of a micro-panel of B, a multiple of VW, e.g. 64
 *   VW          floats of a vector, e.g. 16
 *   REGISTERS   vector registers of the device, e.g. 32
 *   BT          storage type of B, e.g. f16 */
#define TDM_EPILOGUE_VECTOR 8
#include "kernels/dialect/dialect.h"
#include "gemm_args.h"
#include "gemm_epilogue.h"
#include "kernels/dialect/long_functions.h"

#define ROWS 16    /* largest number of rows of A at a time */
#define STRIP 8192 /* floats of `strip` */
#define KEPT 8192  /* floats of `kept` */
#define PAD 16     /* padding of a row in `strip`; the stride is a multiple of it */
#define NV (NR / VW)
#define VECTOR TDM_F32(VW)
#define B_POINTER TDM_GLOBAL const TDM_TYPE(BT) *

#define COPY_ROWS(AT)                                                                              \
    for (int i = 0; i < rows; i++) {                                                               \
        const long row = at + i * a_row;                                                           \
        int p = 0;                                                                                 \
        if (a_col == 1)                                                                            \
            for (; p + 16 <= depth; p += 16)                                                       \
                f32x16_store_f32(TDM_LOADV(16, AT, (TDM_GLOBAL const TDM_TYPE(AT) *)a, row + p),   \
                                 strip, i *stride + p);                                            \
        for (; p < depth; p++)                                                                     \
            strip[i * stride + p] =                                                                \
                TDM_LOAD(AT, (TDM_GLOBAL const TDM_TYPE(AT) *)a, row + p * a_col);                 \
    }

/* Copies `depth` columns of `rows` rows of A, from element `at` on. */
TDM_DEVICE void copy_rows(TDM_GLOBAL const void *a, int type, long at, long a_row, long a_col,
                          int rows, int depth, float *strip, int stride) {
    if (type == TDM_CODE_F16) {
        COPY_ROWS(f16)
    } else if (type == TDM_CODE_BF16) {
        COPY_ROWS(bf16)
    } else {
        COPY_ROWS(f32)
    }
}

/* kept(m, n) += A(m, ·) · B(·, n) for MT rows and NT columns that are contiguous along K. It
 * prefetches `ahead` elements ahead of those that it reads, because a column is too short for the
 * hardware prefetcher. A vector lane adds at most TDM_SUM_BLOCK terms. */
#define DOT(MT, NT)                                                                                \
    TDM_DEVICE void TDM_CAT4(dot_block_, MT, x, NT)(B_POINTER b, long at, long b_col, long ahead,  \
                                                    const float *strip, int stride, int depth,     \
                                                    float *kept, int pitch) {                      \
        VECTOR acc[MT][NT];                                                                        \
        TDM_UNROLL for (int m = 0; m < MT; m++) TDM_UNROLL for (int n = 0; n < NT; n++)            \
            acc[m][n] = TDM_SPLAT(VW, 0.0f);                                                       \
        int p = 0;                                                                                 \
        for (; p + VW <= depth; p += VW) {                                                         \
            /* Load A and B, and multiply-accumulate. */                                           \
            VECTOR a_vec[MT];                                                                      \
            TDM_UNROLL for (int m = 0; m < MT; m++) a_vec[m] =                                     \
                TDM_LOADV(VW, f32, strip, m * stride + p);                                         \
            TDM_UNROLL for (int n = 0; n < NT; n++) {                                              \
                tdm_prefetch_far(b + (at + n * b_col + p + ahead));                                \
                const VECTOR b_vec = TDM_LOADV(VW, BT, b, at + n * b_col + p);                     \
                TDM_UNROLL for (int m = 0; m < MT; m++) acc[m][n] =                                \
                    tdm_fma(a_vec[m], b_vec, acc[m][n]);                                           \
            }                                                                                      \
        }                                                                                          \
        /* Store. */                                                                               \
        TDM_UNROLL for (int n = 0; n < NT; n++) TDM_UNROLL for (int m = 0; m < MT; m++) {          \
            float sum = TDM_CAT4(f32x, VW, _, sum)(acc[m][n]);                                     \
            for (int q = p; q < depth; q++)                                                        \
                sum = tdm_fma(strip[m * stride + q], TDM_LOAD(BT, b, at + n * b_col + q), sum);    \
            kept[m * pitch + n] += sum;                                                            \
        }                                                                                          \
    }                                                                                              \
    TDM_DEVICE void TDM_CAT4(dot_, MT, x, NT)(B_POINTER b, long at, long b_col, long ahead,        \
                                              const float *strip, int stride, int depth,           \
                                              float *kept, int pitch) {                            \
        for (int p = 0; p < depth; p += TDM_SUM_BLOCK * VW)                                        \
            TDM_CAT4(dot_block_, MT, x, NT)                                                        \
        (b, at + p, b_col, ahead, strip + p, stride,                                               \
         tdm_int_min(depth - p, TDM_SUM_BLOCK * VW), kept, pitch);                                 \
    }
DOT(1, 1)
DOT(1, 8)
#if REGISTERS >= 32
DOT(2, 8)
DOT(4, 4)
#define DOT_2 dot_2x8
#define DOT_4 dot_4x4
#define DOT_2_COLUMNS 8
#define DOT_4_COLUMNS 4
#else
DOT(2, 4)
DOT(4, 2)
#define DOT_2 dot_2x4
#define DOT_4 dot_4x2
#define DOT_2_COLUMNS 4
#define DOT_4_COLUMNS 2
#endif

TDM_DEVICE void multiply_along_k(B_POINTER b, long at, long b_col, int columns, const float *strip,
                                 int stride, int rows, int depth, float *kept, int pitch) {
    const long ahead = 8 * b_col;
    int j = 0;
    for (; j + 8 <= columns; j += 8) {
        int i = 0;
        for (; i + 4 <= rows; i += 4)
            for (int n = j; n < j + 8; n += DOT_4_COLUMNS)
                DOT_4(b, at + n * b_col, b_col, ahead, strip + i * stride, stride, depth,
                      kept + i * pitch + n, pitch);
        if (i + 2 <= rows) {
            for (int n = j; n < j + 8; n += DOT_2_COLUMNS)
                DOT_2(b, at + n * b_col, b_col, ahead, strip + i * stride, stride, depth,
                      kept + i * pitch + n, pitch);
            i += 2;
        }
        if (i < rows)
            dot_1x8(b, at + j * b_col, b_col, ahead, strip + i * stride, stride, depth,
                    kept + i * pitch + j, pitch);
    }
    for (; j < columns; j++)
        for (int i = 0; i < rows; i++)
            dot_1x1(b, at + j * b_col, b_col, b_col, strip + i * stride, stride, depth,
                    kept + i * pitch + j, pitch);
}

/* kept(m, ·) += A(m, u) · B(u, ·) for MT rows of A and UK rows of B that are contiguous along N. It
 * prefetches `ahead` elements ahead of those that it reads. */
#define AXPY(MT, UK)                                                                               \
    TDM_DEVICE void TDM_CAT4(axpy_, MT, x, UK)(B_POINTER b, long at, long b_row, long ahead,       \
                                               int columns, const float *strip, int stride,        \
                                               float *kept, int pitch) {                           \
        VECTOR a_vec[MT][UK];                                                                      \
        TDM_UNROLL for (int m = 0; m < MT; m++) TDM_UNROLL for (int u = 0; u < UK; u++)            \
            a_vec[m][u] = TDM_SPLAT(VW, strip[m * stride + u]);                                    \
        int j = 0;                                                                                 \
        for (; j + VW <= columns; j += VW) {                                                       \
            VECTOR sum[MT];                                                                        \
            TDM_UNROLL for (int m = 0; m < MT; m++) sum[m] =                                       \
                TDM_LOADV(VW, f32, kept, m * pitch + j);                                           \
            /* Load B and multiply-accumulate. */                                                  \
            TDM_UNROLL for (int u = 0; u < UK; u++) {                                              \
                tdm_prefetch_far(b + (at + u * b_row + j + ahead));                                \
                const VECTOR b_vec = TDM_LOADV(VW, BT, b, at + u * b_row + j);                     \
                TDM_UNROLL for (int m = 0; m < MT; m++) sum[m] =                                   \
                    tdm_fma(a_vec[m][u], b_vec, sum[m]);                                           \
            }                                                                                      \
            /* Store. */                                                                           \
            TDM_UNROLL for (int m = 0; m < MT; m++)                                                \
                TDM_STOREV(VW, f32, sum[m], kept, m *pitch + j);                                   \
        }                                                                                          \
        for (; j < columns; j++)                                                                   \
            for (int m = 0; m < MT; m++)                                                           \
                for (int u = 0; u < UK; u++)                                                       \
                    kept[m * pitch + j] =                                                          \
                        tdm_fma(strip[m * stride + u], TDM_LOAD(BT, b, at + u * b_row + j),        \
                                kept[m * pitch + j]);                                              \
    }
AXPY(1, 1)
AXPY(1, 8)
AXPY(2, 8)
AXPY(4, 4)

/* kept += A · B over at most TDM_SUM_BLOCK rows of B. */
TDM_DEVICE void multiply_rows(B_POINTER b, long at, long b_row, int columns, const float *strip,
                              int stride, int rows, int depth, float *kept, int pitch) {
    int p = 0;
    for (; p + 8 <= depth; p += 8) {
        const long b_at = at + p * b_row;
        int i = 0;
        for (; i + 4 <= rows; i += 4)
            for (int u = 0; u < 8; u += 4)
                axpy_4x4(b, b_at + u * b_row, b_row, i ? 0 : 8 * b_row, columns,
                         strip + i * stride + p + u, stride, kept + i * pitch, pitch);
        if (i + 2 <= rows) {
            axpy_2x8(b, b_at, b_row, i ? 0 : 8 * b_row, columns, strip + i * stride + p, stride,
                     kept + i * pitch, pitch);
            i += 2;
        }
        if (i < rows)
            axpy_1x8(b, b_at, b_row, i ? 0 : 8 * b_row, columns, strip + i * stride + p, stride,
                     kept + i * pitch, pitch);
    }
    for (; p < depth; p++)
        for (int i = 0; i < rows; i++)
            axpy_1x1(b, at + p * b_row, b_row, 0, columns, strip + i * stride + p, stride,
                     kept + i * pitch, pitch);
}

/* kept += A · B for B that is contiguous along N. `sums` has room for as many sums as `kept`. */
TDM_DEVICE void multiply_along_n(B_POINTER b, long at, long b_row, int columns, const float *strip,
                                 int stride, int rows, int depth, float *sums, float *kept,
                                 int pitch) {
    for (int p = 0; p < depth; p += TDM_SUM_BLOCK) {
        const int some = depth - p < TDM_SUM_BLOCK ? depth - p : TDM_SUM_BLOCK;
        for (int t = 0; t < rows * pitch; t += VW)
            TDM_STOREV(VW, f32, TDM_SPLAT(VW, 0.0f), sums, t);
        multiply_rows(b, at + p * b_row, b_row, columns, strip + p, stride, rows, some, sums,
                      pitch);
        for (int t = 0; t < rows * pitch; t += VW)
            TDM_STOREV(VW, f32, TDM_LOADV(VW, f32, kept, t) + TDM_LOADV(VW, f32, sums, t), kept, t);
    }
}

/* kept(m, ·) += A(m, ·) · NP micro-panels for MT rows. Micro-panels are panel_size elements
 * apart. */
#define PANELS(MT, NP)                                                                             \
    TDM_DEVICE void TDM_CAT4(panels_block_, MT, x, NP)(B_POINTER b, long at, long panel_size,      \
                                                       const float *strip, int stride, int depth,  \
                                                       float *kept, int pitch) {                   \
        VECTOR acc[MT][NP * NV];                                                                   \
        TDM_UNROLL for (int m = 0; m < MT; m++) TDM_UNROLL for (int v = 0; v < NP * NV; v++)       \
            acc[m][v] = TDM_SPLAT(VW, 0.0f);                                                       \
        for (int p = 0; p < depth; p++)                                                            \
            TDM_UNROLL for (int v = 0; v < NP * NV; v++) {                                         \
                /* Load B and multiply-accumulate. */                                              \
                const VECTOR b_vec =                                                               \
                    TDM_LOADV(VW, BT, b, at + v / NV * panel_size + p * NR + v % NV * VW);         \
                TDM_UNROLL for (int m = 0; m < MT; m++) acc[m][v] =                                \
                    tdm_fma(TDM_SPLAT(VW, strip[m * stride + p]), b_vec, acc[m][v]);               \
            }                                                                                      \
        /* Store. */                                                                               \
        TDM_UNROLL for (int m = 0; m < MT; m++) TDM_UNROLL for (int v = 0; v < NP * NV; v++)       \
            TDM_STOREV(VW, f32, TDM_LOADV(VW, f32, kept, m * pitch + v * VW) + acc[m][v], kept,    \
                       m *pitch + v * VW);                                                         \
    }                                                                                              \
    TDM_DEVICE void TDM_CAT4(panels_, MT, x, NP)(B_POINTER b, long at, long panel_size,            \
                                                 const float *strip, int stride, int depth,        \
                                                 float *kept, int pitch) {                         \
        for (int p = 0; p < depth; p += TDM_SUM_BLOCK)                                             \
            TDM_CAT4(panels_block_, MT, x, NP)                                                     \
        (b, at + p * NR, panel_size, strip + p, stride, tdm_int_min(depth - p, TDM_SUM_BLOCK),     \
         kept, pitch);                                                                             \
    }
PANELS(1, 1)
PANELS(1, 4)
PANELS(2, 1)
PANELS(2, 2)
PANELS(4, 1)

/* Reads four micro-panels at a time: one alone is read at 0.8 of the speed. */
TDM_DEVICE void multiply_panels(B_POINTER b, long at, long panel_size, int columns,
                                const float *strip, int stride, int rows, int depth, float *kept,
                                int pitch) {
    int j = 0;
    for (; j + 4 * NR <= pitch; j += 4 * NR, at += 4 * panel_size) {
        int i = 0;
        for (; i + 4 <= rows; i += 4)
            for (int q = 0; q < 4; q++)
                panels_4x1(b, at + q * panel_size, panel_size, strip + i * stride, stride, depth,
                           kept + i * pitch + j + q * NR, pitch);
        if (i + 2 <= rows) {
            for (int q = 0; q < 4; q += 2)
                panels_2x2(b, at + q * panel_size, panel_size, strip + i * stride, stride, depth,
                           kept + i * pitch + j + q * NR, pitch);
            i += 2;
        }
        if (i < rows)
            panels_1x4(b, at, panel_size, strip + i * stride, stride, depth, kept + i * pitch + j,
                       pitch);
    }
    for (; j < columns; j += NR, at += panel_size) {
        int i = 0;
        for (; i + 2 <= rows; i += 2)
            panels_2x1(b, at, panel_size, strip + i * stride, stride, depth, kept + i * pitch + j,
                       pitch);
        if (i < rows)
            panels_1x1(b, at, panel_size, strip + i * stride, stride, depth, kept + i * pitch + j,
                       pitch);
    }
}

TDM_DEVICE void multiply_scattered(B_POINTER b, long at, long b_row, long b_col, int columns,
                                   const float *strip, int stride, int rows, int depth, float *kept,
                                   int pitch) {
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++)
            for (int p = 0, end; p < depth; p = end) {
                float sum = 0.0f;
                end = depth - p < TDM_SUM_BLOCK ? depth : p + TDM_SUM_BLOCK;
                for (; p < end; p++)
                    sum = tdm_fma(strip[i * stride + p],
                                  TDM_LOAD(BT, b, at + p * b_row + j * b_col), sum);
                kept[i * pitch + j] += sum;
            }
}

#define ARGUMENTS                                                                                  \
    TDM_GLOBAL const void *TDM_RESTRICT a, long a_offset, B_POINTER TDM_RESTRICT b, long b_offset, \
        TDM_GLOBAL const void *c, long c_offset, TDM_GLOBAL const void *bias, long bias_offset,    \
        TDM_GLOBAL const void *residual, long r_offset, TDM_GLOBAL void *d, long d_offset,         \
        tdm_gemm_shape_arg s, tdm_gemm_epilogue_arg e
#define NAMES                                                                                      \
    a, a_offset, b, b_offset, c, c_offset, bias, bias_offset, residual, r_offset, d, d_offset, s, e

TDM_BODY void do_item(ARGUMENTS, long item, long z) {
    float strip[STRIP];
    float kept[KEPT], sums[KEPT];
    const long panels = (s.n + NR - 1) / NR;
    const long first = item * panels / s.column_tiles * NR;
    const long past = (item + 1) * panels / s.column_tiles * NR;
    const long end = past < s.n ? past : s.n;
    const long b0 = b_offset + z * s.b_batch;
    const tdm_epilogue_io io =
        tdm_epilogue_begin(c, c_offset, bias, bias_offset, residual, r_offset, d, d_offset, e, z);
    const int dense = tdm_epilogue_is_dense(e);

    for (long i0 = 0; i0 < s.m; i0 += ROWS) {
        const int rows = (int)(s.m - i0 < ROWS ? s.m - i0 : ROWS);
        const int stride = STRIP / rows / PAD * PAD, step = stride - PAD;
        const int stripe = KEPT / rows / NR * NR;
        const long a0 = a_offset + z * s.a_batch + i0 * s.a_row;
        for (long j0 = first; j0 < end; j0 += stripe) {
            const int columns = (int)(end - j0 < stripe ? end - j0 : stripe);
            const int pitch = (columns + NR - 1) / NR * NR;
            for (int t = 0; t < rows * pitch; t += VW)
                TDM_STOREV(VW, f32, TDM_SPLAT(VW, 0.0f), kept, t);
            for (long p0 = 0; p0 < s.k; p0 += step) {
                const int depth = (int)(s.k - p0 < step ? s.k - p0 : step);
                const long b_at = b0 + p0 * s.b_row + j0 * s.b_col;
                copy_rows(a, s.a_type, a0 + p0 * s.a_col, s.a_row, s.a_col, rows, depth, strip,
                          stride);
                if (s.b_packed)
                    multiply_panels(b, b0 + j0 * s.k + p0 * NR, s.k * NR, columns, strip, stride,
                                    rows, depth, kept, pitch);
                else if (s.b_row == 1)
                    multiply_along_k(b, b_at, s.b_col, columns, strip, stride, rows, depth, kept,
                                     pitch);
                else if (s.b_col == 1)
                    multiply_along_n(b, b_at, s.b_row, columns, strip, stride, rows, depth, sums,
                                     kept, pitch);
                else
                    multiply_scattered(b, b_at, s.b_row, s.b_col, columns, strip, stride, rows,
                                       depth, kept, pitch);
            }
            for (int i = 0; i < rows; i++)
                tdm_epilogue_row(kept + i * pitch, io, e, i0 + i, j0, columns, dense);
        }
    }
}

TDM_KERNEL_GROUP(TDM_ENTRY, 1, 1, 1)(ARGUMENTS) {
    TDM_ITEM_BEGIN;
    do_item(NAMES, tdm_group_x(), tdm_group_z());
}
