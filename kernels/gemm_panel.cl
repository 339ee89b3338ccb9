/* GEMM for CPU-like devices: one work-item computes a rectangle of D, MR×NR elements of it at a time in
 * explicit wide vectors.
 *
 *                NR = NV vectors of VW          The item's rows are cut into strips of MR, its columns into
 *              ┌────┬────┐                      panels of NR, K into blocks of KC:
 *     B row    │ b0 │ b1 │                        for each block of K
 *              └────┴────┘                          copy the block of every strip to local memory, as f32
 *   strip ┌─┐  ┌────┬────┐                          for each panel of B, for each strip
 *   of A  │a│× │acc │acc │                            acc[i][v] += splat(a(i, p)) · b(p, v)
 *   MR    └─┘  └────┴────┘
 *
 * A strip keeps its rows STRIDE = KC + 16 floats apart: they are then reached from one address by constant
 * displacements, and never fall on the same lines of a cache as rows of a power of two do. Between blocks of K
 * the accumulators stand in local memory. B comes in panels of NR columns (gemm_pack.cl), in its own type, or
 * in place (b_packed = 0): the item then packs each panel to local memory as f32 before it multiplies.
 * Local memory is ordinary cached memory on these devices, and groups have one item: there is no barrier.
 * While it multiplies, an item asks for the next block of A, a cache line every fourth step.
 *
 * Local memory, in this order: strips, one panel unless b_packed, accumulators if K > KC.
 * Grid (row_tiles · column_tiles items, row tiles first; 1; batch). Item r of row_tiles gets the strips from
 * r·strips/row_tiles to the next one's, and columns likewise. */
#define TDM_EPILOGUE_VECTOR 8
#include "dialect.h"
#include "gemm_args.h"
#include "gemm_epilogue.h"

#define NV (NR / VW)
#define VECTOR TDM_F32(VW)
#define STRIDE (KC + 16)
#define TILE (MR * NR)
/* A row's part of a block in pieces that are asked for at a time, four lines of f32 each. */
#define PIECES (KC / 64)

#define COPY_ROWS(AT)                                                                              \
    for (int i = 0; i < MR; i++) {                                                                 \
        const long row = at + (i < rows ? i : rows - 1) * a_row;                                   \
        TDM_LOCAL float *const to = strip + i * STRIDE;                                            \
        int p = 0;                                                                                 \
        for (; p + 16 <= depth; p += 16)                                                           \
            f32x16_store_f32(TDM_LOADV(16, AT, (TDM_GLOBAL const TDM_TYPE(AT) *)a, row + p), to,   \
                             p);                                                                   \
        for (; p < depth; p++)                                                                     \
            to[p] = TDM_LOAD(AT, (TDM_GLOBAL const TDM_TYPE(AT) *)a, row + p);                     \
    }

/* Along the rows of a strip, which is the contiguous direction of a transposed A. */
#define COPY_COLUMNS(AT)                                                                           \
    for (int p = 0; p < depth; p++) {                                                              \
        TDM_UNROLL for (int i = 0; i < MR; i++) strip[i * STRIDE + p] =                            \
            TDM_LOAD(AT, (TDM_GLOBAL const TDM_TYPE(AT) *)a,                                       \
                     at + (i < rows ? i : rows - 1) * a_row + p * a_col);                          \
    }

#define COPY_STRIP(AT)                                                                             \
    if (a_col == 1)                                                                                \
        COPY_ROWS(AT)                                                                              \
    else                                                                                           \
        COPY_COLUMNS(AT)

/* `rows` of MR rows of A from element `at` on, `depth` columns; rows past the matrix repeat the last one. */
TDM_DEVICE void copy_strip(TDM_GLOBAL const void *a, int type, long at, long a_row, long a_col,
                           int rows, int depth, TDM_LOCAL float *strip) {
    if (type == TDM_CODE_F16) {
        COPY_STRIP(f16)
    } else if (type == TDM_CODE_BF16) {
        COPY_STRIP(bf16)
    } else {
        COPY_STRIP(f32)
    }
}

/* `columns` of NR columns of B in place to a panel; zeros past the matrix. */
TDM_DEVICE void copy_panel(TDM_GLOBAL const TDM_TYPE(BT) * b, long at, long b_row, long b_col,
                           int columns, int depth, TDM_LOCAL float *panel) {
    if (b_col == 1 && columns == NR) {
        for (int p = 0; p < depth; p++)
            TDM_UNROLL for (int v = 0; v < NV; v++) TDM_STOREV(
                VW, f32, TDM_LOADV(VW, BT, b, at + p * b_row + v * VW), panel, p * NR + v * VW);
        return;
    }
    for (int p = 0; p < depth; p++)
        for (int j = 0; j < NR; j++)
            panel[p * NR + j] = j < columns ? TDM_LOAD(BT, b, at + p * b_row + j * b_col) : 0.0f;
}

/* One step of K at A_AT floats into the strip. */
#define PANEL_STEP(A_AT, LOAD_B)                                                                   \
    {                                                                                              \
        VECTOR b_vec[NV];                                                                          \
        TDM_UNROLL for (int v = 0; v < NV; v++) b_vec[v] = LOAD_B(A_AT, v);                        \
        TDM_UNROLL for (int i = 0; i < MR; i++) {                                                  \
            const VECTOR a_vec = TDM_SPLAT(VW, strip[i * STRIDE + (A_AT)]);                        \
            TDM_UNROLL for (int v = 0; v < NV; v++) acc[i][v] =                                    \
                tdm_fma(a_vec, b_vec[v], acc[i][v]);                                               \
        }                                                                                          \
    }

/* A block of K, four steps at a time, each time asking for one line of the next block. */
#define PANEL_BLOCK(LOAD_B)                                                                        \
    {                                                                                              \
        int p = 0;                                                                                 \
        for (int piece = 1; p + 16 <= depth; p += 16, piece++) {                                   \
            TDM_GLOBAL const char *line = ahead.at;                                                \
            ahead.at += piece % PIECES == 0 ? ahead.row : ahead.piece;                             \
            TDM_NO_UNROLL for (int q = p; q < p + 16; q += 4) {                                    \
                tdm_prefetch(line);                                                                \
                line += ahead.line;                                                                \
                PANEL_STEP(q, LOAD_B)                                                              \
                PANEL_STEP(q + 1, LOAD_B)                                                          \
                PANEL_STEP(q + 2, LOAD_B)                                                          \
                PANEL_STEP(q + 3, LOAD_B)                                                          \
            }                                                                                      \
        }                                                                                          \
        for (; p < depth; p++)                                                                     \
            PANEL_STEP(p, LOAD_B)                                                                  \
    }
#define LOAD_PACKED(P, v) TDM_LOADV(VW, BT, b, b_at + (P)*NR + (v)*VW)
#define LOAD_LOCAL(P, v) TDM_LOADV(VW, f32, panel, (P)*NR + (v)*VW)

/* What to ask for next: bytes from one line, piece and row to the next; all zero asks for one line again and again. */
typedef struct {
    TDM_GLOBAL const char *at;
    long line, piece, row;
} lines_ahead;

/* The part of A's next block, or of the next item's first one, that step number `step` of the item asks for. */
TDM_DEVICE lines_ahead look_ahead(TDM_GLOBAL const void *a, tdm_gemm_shape_arg s, long next,
                                  int step, int rows) {
    const int size = s.a_type == TDM_CODE_F32 ? 4 : 2;
    const int first = step * (KC / 16 / PIECES);
    lines_ahead ahead;
    ahead.at = (TDM_GLOBAL const char *)a;
    ahead.line = ahead.piece = ahead.row = 0;
    if (next < 0 || s.a_col != 1 || first >= rows)
        return ahead;
    ahead.at += (next + first * s.a_row) * size;
    ahead.line = 16 * size;
    ahead.piece = 64 * size;
    ahead.row = s.a_row * size - (PIECES - 1) * ahead.piece;
    return ahead;
}

TDM_KERNEL_GROUP(TDM_ENTRY, 1, 1, 1)
(TDM_GLOBAL const void *TDM_RESTRICT a, long a_offset,
 TDM_GLOBAL const TDM_TYPE(BT) * TDM_RESTRICT b, long b_offset, TDM_GLOBAL const void *c,
 long c_offset, TDM_GLOBAL const void *bias, long bias_offset, TDM_GLOBAL const void *residual,
 long r_offset, TDM_GLOBAL void *d, long d_offset, tdm_gemm_shape_arg s, tdm_gemm_epilogue_arg e,
 TDM_LOCAL_ARGUMENT(float, scratch)) {
    const long item = tdm_group_x(), z = tdm_group_z();
    const long row_item = item % s.row_tiles, column_item = item / s.row_tiles;
    const long all_strips = (s.m + MR - 1) / MR, all_panels = (s.n + NR - 1) / NR;
    const long first_strip = row_item * all_strips / s.row_tiles;
    const long first_panel = column_item * all_panels / s.column_tiles;
    const int strips = (int)((row_item + 1) * all_strips / s.row_tiles - first_strip);
    const int panels = (int)((column_item + 1) * all_panels / s.column_tiles - first_panel);
    const long i0 = first_strip * MR;
    const int rows = (int)(s.m - i0 < strips * MR ? s.m - i0 : strips * MR);
    const long a0 = a_offset + z * s.a_batch + i0 * s.a_row, b0 = b_offset + z * s.b_batch;

    TDM_LOCAL float *const panel = scratch + strips * (MR * STRIDE);
    TDM_LOCAL float *const tiles = panel + (s.b_packed ? 0 : KC * NR);
    const tdm_epilogue_io io =
        tdm_epilogue_begin(c, c_offset, bias, bias_offset, residual, r_offset, d, d_offset, e, z);
    const int dense = tdm_epilogue_is_dense(e), plain = tdm_epilogue_is_plain(e);
    const int streams = plain && e.streams_d && e.d_row % VW == 0 &&
                        tdm_address((TDM_GLOBAL float *)d + io.d_at) % (VW * 4) == 0;

    long p0 = 0;
    do { /* K may be 0 */
        const int depth = (int)(s.k - p0 < KC ? s.k - p0 : KC), last = p0 + KC >= s.k;
        const long next = !last                        ? a0 + (p0 + KC) * s.a_col
                          : row_item + 1 < s.row_tiles ? a0 + rows * s.a_row
                                                       : -1;
        for (int t = 0; t < strips; t++)
            copy_strip(a, s.a_type, a0 + t * MR * s.a_row + p0 * s.a_col, s.a_row, s.a_col,
                       rows - t * MR < MR ? rows - t * MR : MR, depth, scratch + t * (MR * STRIDE));
        for (int q = 0; q < panels; q++) {
            const long j0 = (first_panel + q) * NR;
            const int columns = (int)(s.n - j0 < NR ? s.n - j0 : NR);
            const long b_at = b0 + j0 * s.k + p0 * NR;
            if (!s.b_packed)
                copy_panel(b, b0 + p0 * s.b_row + j0 * s.b_col, s.b_row, s.b_col, columns, depth,
                           panel);
            for (int t = 0; t < strips; t++) {
                TDM_LOCAL const float *const strip = scratch + t * (MR * STRIDE);
                TDM_LOCAL float *const kept = tiles + (q * strips + t) * TILE;
                const long i = i0 + t * MR;
                const int tile_rows = rows - t * MR < MR ? rows - t * MR : MR;
                lines_ahead ahead = look_ahead(a, s, next, q * strips + t, rows);
                VECTOR acc[MR][NV];
                if (p0 == 0) {
                    TDM_UNROLL for (int r = 0; r < MR; r++) TDM_UNROLL for (int v = 0; v < NV; v++)
                        acc[r][v] = TDM_SPLAT(VW, 0.0f);
                } else {
                    TDM_UNROLL for (int r = 0; r < MR; r++) TDM_UNROLL for (int v = 0; v < NV; v++)
                        acc[r][v] = TDM_LOADV(VW, f32, kept, r * NR + v * VW);
                }
                if (s.b_packed)
                    PANEL_BLOCK(LOAD_PACKED)
                else
                    PANEL_BLOCK(LOAD_LOCAL)
                if (!last) {
                    TDM_UNROLL for (int r = 0; r < MR; r++) TDM_UNROLL for (int v = 0; v < NV; v++)
                        TDM_STOREV(VW, f32, acc[r][v], kept, r * NR + v * VW);
                } else if (streams && tile_rows == MR && columns == NR) {
                    TDM_UNROLL for (int r = 0; r < MR; r++) TDM_UNROLL for (int v = 0; v < NV; v++)
                        TDM_STREAMV(VW, acc[r][v], (TDM_GLOBAL float *)d,
                                    io.d_at + (i + r) * e.d_row + j0 + v * VW);
                } else if (plain && tile_rows == MR && columns == NR) {
                    TDM_UNROLL for (int r = 0; r < MR; r++) TDM_UNROLL for (int v = 0; v < NV; v++)
                        TDM_STOREV(VW, f32, acc[r][v], (TDM_GLOBAL float *)d,
                                   io.d_at + (i + r) * e.d_row + j0 + v * VW);
                } else {
                    float tile[TILE];
                    TDM_UNROLL for (int r = 0; r < MR; r++) TDM_UNROLL for (int v = 0; v < NV; v++)
                        TDM_STOREV(VW, f32, acc[r][v], tile, r * NR + v * VW);
                    for (int r = 0; r < tile_rows; r++)
                        tdm_epilogue_row(tile + r * NR, io, e, i + r, j0, columns, dense);
                }
            }
        }
        p0 += KC;
    } while (p0 < s.k);
    if (streams)
        tdm_stream_end();
}
