/* GEMM for CPU-like devices: one work-item computes a rectangle of D, MR×NR elements of it at a time in
 * explicit wide vectors.
 *
 *                NR = NV vectors of VW          The item's rows are cut into strips of MR, its columns into
 *              ┌────┬────┐                      panels of NR, K into equal blocks of at most KC:
 *     B row    │ b0 │ b1 │                        for each block of K
 *              └────┴────┘                          copy the block of every strip to local memory, as f32
 *   strip ┌─┐  ┌────┬────┐                          for each panel of B, for each strip
 *   of A  │a│× │acc │acc │                            acc[i][v] += splat(a(i, p)) · b(p, v)
 *   MR    └─┘  └────┴────┘
 *
 * So that the last strip is not nearly empty, the last ones have a row less than the others, as many as it takes.
 * A strip keeps its rows STRIDE = KC + 16 floats apart: they are then reached from one address by constant
 * displacements, and never fall on the same lines of a cache as rows of a power of two do. Between blocks of K
 * the accumulators stand in local memory. B comes in panels of NR columns (gemm_pack.cl), in its own type, or
 * in place (b_packed = 0): the item then packs each panel to local memory as f32. Whole rows of B go there while the
 * first strip is multiplied, from where they stand; anything else is copied before. Quantized B (BITS among the defines) is
 * always copied, gemm_panel_codes.h says how.
 * Local memory is ordinary cached memory on these devices, and groups have one item: there is no barrier.
 * While it multiplies, an item asks for lines of what it will need next: the next block of A (in the last tiles
 * before it), the next panel of B, the tile's own part of D.
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
/* Lines of a row of a tile in D. */
#define D_LINES (NR < 32 ? 1 : NR / 16)
/* How far ahead rows of B in place are asked for. */
#define ROWS_AHEAD 16
/* The same of columns, in steps of K. */
#define STEPS_AHEAD 64

#define A_POINTER(AT) (TDM_GLOBAL const TDM_TYPE(AT) *)a

/* Rows past the matrix repeat the last one. */
#define COPY_ROWS(AT)                                                                              \
    for (int i = 0; i < filled; i++) {                                                             \
        const long row = at + (i < rows ? i : rows - 1) * a_row;                                   \
        TDM_LOCAL float *const to = strips + i * STRIDE;                                           \
        int p = 0;                                                                                 \
        if (a_col == 1)                                                                            \
            for (; p + 16 <= depth; p += 16)                                                       \
                f32x16_store_f32(TDM_LOADV(16, AT, A_POINTER(AT), row + p), to, p);                \
        for (; p < depth; p++)                                                                     \
            to[p] = TDM_LOAD(AT, A_POINTER(AT), row + p * a_col);                                  \
    }

/* Along the rows, which is the contiguous direction of a transposed A, eight of them and of K at a time. */
#define COPY_COLUMNS(AT)                                                                           \
    for (int p = 0; p < depth; p += 8) {                                                           \
        int i = 0;                                                                                 \
        if (p + 8 <= depth)                                                                        \
            for (; i + 8 <= rows; i += 8) {                                                        \
                f32x8 square[8];                                                                   \
                TDM_UNROLL for (int q = 0; q < 8; q++) square[q] =                                 \
                    TDM_LOADV(8, AT, A_POINTER(AT), at + i + (p + q) * a_col);                     \
                f32x8_transpose(square);                                                           \
                TDM_UNROLL for (int q = 0; q < 8; q++)                                             \
                    f32x8_store_f32(square[q], strips, (i + q) * STRIDE + p);                      \
            }                                                                                      \
        for (; i < filled; i++)                                                                    \
            for (int q = p; q < p + 8 && q < depth; q++)                                           \
                strips[i * STRIDE + q] = TDM_LOAD(                                                 \
                    AT, A_POINTER(AT), at + (i < rows ? i : rows - 1) * a_row + q * a_col);        \
    }

#define COPY_A(AT)                                                                                 \
    if (a_row == 1 && a_col != 1)                                                                  \
        COPY_COLUMNS(AT)                                                                           \
    else                                                                                           \
        COPY_ROWS(AT)

/* `rows` rows of A from element `at` on, `depth` columns. */
TDM_DEVICE void copy_a(TDM_GLOBAL const void *a, int type, long at, long a_row, long a_col,
                       int rows, int filled, int depth, TDM_LOCAL float *strips) {
    if (type == TDM_CODE_F16) {
        COPY_A(f16)
    } else if (type == TDM_CODE_BF16) {
        COPY_A(bf16)
    } else {
        COPY_A(f32)
    }
}

#ifndef BITS
/* Columns of B that are contiguous along K, eight at a time; zeros past the matrix. Returns the first row not copied. */
TDM_DEVICE int copy_columns(TDM_GLOBAL const TDM_TYPE(BT) * b, long at, long b_col, int columns,
                            int depth, TDM_LOCAL float *panel) {
    int p = 0;
    for (; p + 16 <= depth; p += 16)
        for (int j = 0; j < NR; j += 8) {
            TDM_UNROLL for (int i = 0; i < 8; i++)
                tdm_prefetch_far(b + at + (j + i) * b_col + p + STEPS_AHEAD);
            for (int q = p; q < p + 16; q += 8) {
                f32x8 square[8];
                TDM_UNROLL for (int i = 0; i < 8; i++) square[i] =
                    j + i < columns ? TDM_LOADV(8, BT, b, at + (j + i) * b_col + q)
                                    : f32x8_splat(0.0f);
                f32x8_transpose(square);
                TDM_UNROLL for (int i = 0; i < 8; i++)
                    f32x8_store_f32(square[i], panel, (q + i) * NR + j);
            }
        }
    return p;
}

/* `columns` of NR columns of B in place to a panel; zeros past the matrix. */
TDM_DEVICE void copy_panel(TDM_GLOBAL const TDM_TYPE(BT) * b, long at, long b_row, long b_col,
                           int columns, int depth, TDM_LOCAL float *panel) {
    int p = b_row == 1 ? copy_columns(b, at, b_col, columns, depth, panel) : 0;
    for (; p < depth; p++) {
        int j = 0;
        if (b_col == 1)
            for (; j + 8 <= columns; j += 8)
                f32x8_store_f32(TDM_LOADV(8, BT, b, at + p * b_row + j), panel, p * NR + j);
        for (; j < NR; j++)
            panel[p * NR + j] = j < columns ? TDM_LOAD(BT, b, at + p * b_row + j * b_col) : 0.0f;
    }
}
#endif

/* Where a step finds B. */
#define IN_PANELS 0 /* packed */
#define COPIED 1    /* in the item's copy of the panel */
#define IN_PLACE 2  /* whole rows of the matrix, which go to the copy on the way */
#define TAKE_PACKED(P)                                                                             \
    TDM_UNROLL for (int v = 0; v < NV; v++) b_vec[v] = TDM_LOADV(VW, BT, b, (P)*NR + v * VW);
#define TAKE_COPIED(P)                                                                             \
    TDM_UNROLL for (int v = 0; v < NV; v++) b_vec[v] = TDM_LOADV(VW, f32, panel, (P)*NR + v * VW);
#define TAKE_IN_PLACE(P)                                                                           \
    TDM_UNROLL for (int v = 0; v < NV; v++) {                                                      \
        tdm_prefetch_far(b + ((P) + ROWS_AHEAD) * b_row + v * VW);                                 \
        b_vec[v] = TDM_LOADV(VW, BT, b, (P)*b_row + v * VW);                                       \
        TDM_STOREV(VW, f32, b_vec[v], panel, (P)*NR + v * VW);                                     \
    }

/* One step of K at A_AT floats into the strip. */
#define PANEL_STEP(ROWS, A_AT, TAKE_B)                                                             \
    {                                                                                              \
        VECTOR b_vec[NV];                                                                          \
        TAKE_B(A_AT)                                                                               \
        TDM_UNROLL for (int i = 0; i < ROWS; i++) {                                                \
            const VECTOR a_vec = TDM_SPLAT(VW, strip[i * STRIDE + (A_AT)]);                        \
            TDM_UNROLL for (int v = 0; v < NV; v++) acc[i][v] =                                    \
                tdm_fma(a_vec, b_vec[v], acc[i][v]);                                               \
        }                                                                                          \
    }

/* A block of K, four steps at a time, each time asking for lines of what comes next. */
#define PANEL_BLOCK(ROWS, TAKE_B)                                                                  \
    {                                                                                              \
        int p = 0;                                                                                 \
        for (int piece = 1; p + 16 <= depth; p += 16, piece++) {                                   \
            TDM_GLOBAL const char *a_line = ask.a, *b_line = ask.b;                                \
            ask.a += piece % PIECES == 0 ? ask.a_row : ask.a_piece;                                \
            ask.b += ask.b_piece;                                                                  \
            tdm_prefetch(ask.d);                                                                   \
            ask.d += piece % D_LINES == 0 ? ask.d_row : ask.d_line;                                \
            TDM_NO_UNROLL for (int q = p; q < p + 16; q += 4) {                                    \
                tdm_prefetch(a_line);                                                              \
                a_line += ask.a_line;                                                              \
                tdm_prefetch_far(b_line);                                                          \
                tdm_prefetch_far(b_line + ask.b_other);                                            \
                b_line += ask.b_line;                                                              \
                PANEL_STEP(ROWS, q, TAKE_B)                                                        \
                PANEL_STEP(ROWS, q + 1, TAKE_B)                                                    \
                PANEL_STEP(ROWS, q + 2, TAKE_B)                                                    \
                PANEL_STEP(ROWS, q + 3, TAKE_B)                                                    \
            }                                                                                      \
        }                                                                                          \
        for (; p < depth; p++)                                                                     \
            PANEL_STEP(ROWS, p, TAKE_B)                                                            \
    }

#ifdef BITS
#define MULTIPLY_BLOCK(ROWS) PANEL_BLOCK(ROWS, TAKE_COPIED)
#else
#define MULTIPLY_BLOCK(ROWS)                                                                       \
    if (b_from == IN_PANELS)                                                                       \
        PANEL_BLOCK(ROWS, TAKE_PACKED)                                                             \
    else if (b_from == COPIED)                                                                     \
        PANEL_BLOCK(ROWS, TAKE_COPIED)                                                             \
    else                                                                                           \
        PANEL_BLOCK(ROWS, TAKE_IN_PLACE)
#endif

/* What to ask for while multiplying, as addresses and distances in bytes; distances of zero ask for one line again and again. */
typedef struct {
    TDM_GLOBAL const char *a, *b, *d;
    long a_line, a_piece, a_row; /* from one line, piece and row to the next */
    long b_line, b_other, b_piece; /* two lines at a time, b_other from each other */
    long d_line, d_row;
} lines_ahead;

/* Where a tile's sums go. */
#define TO_KEPT 0
#define TO_D 1
#define PAST_CACHES 2
#define TO_TILE 3

#define EACH_SUM(ROWS)                                                                             \
    TDM_UNROLL for (int r = 0; r < ROWS; r++) TDM_UNROLL for (int v = 0; v < NV; v++)

/* A strip of ROWS rows times a panel: the sums of a block of K are added to `kept` unless it is the first. B is read in
 * place where it is packed, from the copy in `panel` otherwise. */
#define MULTIPLY(NAME, ROWS)                                                                       \
    TDM_DEVICE void NAME(TDM_LOCAL const float *strip, TDM_GLOBAL const TDM_TYPE(BT) * b,          \
                         int b_from, long b_row, TDM_LOCAL float *panel, int depth, int first,     \
                         lines_ahead ask, int where, TDM_LOCAL float *kept, TDM_GLOBAL float *d,   \
                         long d_row, float *tile) {                                                \
        VECTOR acc[ROWS][NV];                                                                      \
        if (first) {                                                                               \
            EACH_SUM(ROWS) acc[r][v] = TDM_SPLAT(VW, 0.0f);                                        \
        } else {                                                                                   \
            EACH_SUM(ROWS) acc[r][v] = TDM_LOADV(VW, f32, kept, r * NR + v * VW);                  \
        }                                                                                          \
        MULTIPLY_BLOCK(ROWS)                                                                       \
        if (where == TO_KEPT) {                                                                    \
            EACH_SUM(ROWS) TDM_STOREV(VW, f32, acc[r][v], kept, r *NR + v * VW);                   \
        } else if (where == PAST_CACHES) {                                                         \
            EACH_SUM(ROWS) TDM_STREAMV(VW, acc[r][v], d, r *d_row + v * VW);                       \
        } else if (where == TO_D) {                                                                \
            EACH_SUM(ROWS) TDM_STOREV(VW, f32, acc[r][v], d, r *d_row + v * VW);                   \
        } else {                                                                                   \
            EACH_SUM(ROWS) TDM_STOREV(VW, f32, acc[r][v], tile, r *NR + v * VW);                   \
        }                                                                                          \
    }
MULTIPLY(multiply_whole, MR)
MULTIPLY(multiply_thin, (MR - 1))

/* A's next block, or the next item's first one: the rows that a tile asks for which is followed by `to_come` others
 * before. Earlier, the lines would leave the cache again. */
TDM_DEVICE void ask_for_a(lines_ahead *ask, TDM_GLOBAL const void *a, tdm_gemm_shape_arg s,
                          long next, long to_come, int rows) {
    const int size = s.a_type == TDM_CODE_F32 ? 4 : 2;
    const long first = to_come * (KC / 16 / PIECES);
    ask->a = (TDM_GLOBAL const char *)a;
    ask->a_line = ask->a_piece = ask->a_row = 0;
    if (next < 0 || s.a_col != 1 || first >= rows)
        return;
    ask->a += (next + first * s.a_row) * size;
    ask->a_line = 16 * size;
    ask->a_piece = 64 * size;
    ask->a_row = s.a_row * size - (PIECES - 1) * ask->a_piece;
}

#ifdef BITS
#include "gemm_panel_codes.h"

#define PANEL_ARGUMENTS TDM_WEIGHTS_ARGUMENTS
#define TAKE_PANEL(B_FROM)                                                                         \
    const coded_panel coded = {                                                                    \
        (TDM_GLOBAL const TDM_TYPE(BT) *)b,                                                        \
        scale,                                                                                     \
        zero,                                                                                      \
        s.b_row,                                                                                   \
        s.b_col,                                                                                   \
        scale_offset + z * w.scale_batch + j0 * w.scale_col,                                       \
        zero_offset + z * w.zero_batch + j0 * w.zero_col,                                          \
        columns,                                                                                   \
        w};                                                                                        \
    copy_coded(&coded, b_at, p0, depth, panel);                                                    \
    int B_FROM = COPIED
#define ASK_FOR_B(ask, next) ask_for_codes(ask, &coded, next, depth, t, strips)
#define B_OF_TILE coded.b
#else
#define PANEL_ARGUMENTS                                                                            \
    TDM_GLOBAL const void *TDM_RESTRICT a, long a_offset,                                          \
        TDM_GLOBAL const TDM_TYPE(BT) * TDM_RESTRICT b, long b_offset, TDM_GLOBAL const void *c,   \
        long c_offset, TDM_GLOBAL const void *bias, long bias_offset,                              \
        TDM_GLOBAL const void *residual, long r_offset, TDM_GLOBAL void *d, long d_offset,         \
        tdm_gemm_shape_arg s, tdm_gemm_epilogue_arg e
#define TAKE_PANEL(B_FROM)                                                                         \
    int B_FROM = s.b_packed ? IN_PANELS : s.b_col == 1 && columns == NR ? IN_PLACE : COPIED;       \
    if (B_FROM == COPIED)                                                                          \
    copy_panel(b, b_at, s.b_row, s.b_col, columns, depth, panel)
#define ASK_FOR_B(ask, next) ask_for_b(ask, b + (next), s.b_row, s.b_packed, depth, t, strips)
#define B_OF_TILE (b + b_at)

/* Part t of `strips` of the panel that follows: it stands in one piece where it is packed, in `depth` rows elsewhere. */
TDM_DEVICE void ask_for_b(lines_ahead *ask, TDM_GLOBAL const TDM_TYPE(BT) * next, long b_row,
                          int packed, int depth, int t, int strips) {
    if (packed) {
        const long bytes = depth * NR * sizeof(*next);
        ask->b = (TDM_GLOBAL const char *)next + bytes * t / strips;
        ask->b_other = (bytes / strips + KC / 2 - 1) / (KC / 2);
        ask->b_line = 2 * ask->b_other;
        ask->b_piece = 8 * ask->b_other;
    } else {
        ask->b = (TDM_GLOBAL const char *)(next + depth * t / strips * b_row);
        ask->b_other = b_row * sizeof(*next);
        ask->b_line = 64;
        ask->b_piece = 2 * ask->b_other;
    }
}
#endif

TDM_DEVICE void ask_for_d(lines_ahead *ask, TDM_GLOBAL const float *d, long d_row, int wanted) {
    ask->d = (TDM_GLOBAL const char *)d;
    ask->d_line = wanted ? 64 : 0;
    ask->d_row = wanted ? d_row * 4 - (D_LINES - 1) * 64 : 0;
}

/* The strips from `whole` on have one row less than MR. */
TDM_DEVICE long row_of(long strip, long whole) {
    return strip * MR - (strip > whole ? strip - whole : 0);
}

TDM_KERNEL_GROUP(TDM_ENTRY, 1, 1, 1)
(PANEL_ARGUMENTS, TDM_LOCAL_ARGUMENT(float, scratch)) {
    const long item = tdm_group_x(), z = tdm_group_z();
    const long row_item = item % s.row_tiles, column_item = item / s.row_tiles;
    const long all_strips = (s.m + MR - 1) / MR, all_panels = (s.n + NR - 1) / NR;
    const long missing = all_strips * MR - s.m;
    const long whole = missing <= all_strips ? all_strips - missing : all_strips;
    const long first_strip = row_item * all_strips / s.row_tiles;
    const long first_panel = column_item * all_panels / s.column_tiles;
    const int strips = (int)((row_item + 1) * all_strips / s.row_tiles - first_strip);
    const int panels = (int)((column_item + 1) * all_panels / s.column_tiles - first_panel);
    const long i0 = row_of(first_strip, whole), i_end = row_of(first_strip + strips, whole);
    const int rows = (int)((s.m < i_end ? s.m : i_end) - i0);
    const long a0 = a_offset + z * s.a_batch + i0 * s.a_row, b0 = b_offset + z * s.b_batch;

    TDM_LOCAL float *const panel = scratch + strips * (MR * STRIDE);
    TDM_LOCAL float *const tiles = panel + (s.b_packed ? 0 : KC * NR);
    const tdm_epilogue_io io =
        tdm_epilogue_begin(c, c_offset, bias, bias_offset, residual, r_offset, d, d_offset, e, z);
    const int dense = tdm_epilogue_is_dense(e), plain = tdm_epilogue_is_plain(e);
    const int streams = plain && e.streams_d && e.d_row % VW == 0 &&
                        tdm_address((TDM_GLOBAL float *)d + io.d_at) % (VW * 4) == 0;
    /* From one column and row of B to the next. */
    const long b_line = s.b_packed ? s.k : s.b_col, b_step = s.b_packed ? NR : s.b_row;
    const long b_first = b0 + first_panel * NR * b_line;
    const long b_after = row_item + 1 < s.row_tiles ? b_first : b_first + panels * NR * b_line;
    /* Blocks of K are whole cache lines of A. */
    const long blocks = (s.k + KC - 1) / KC;
    const int block = blocks < 2 ? (int)s.k : (int)((s.k + blocks * 16 - 1) / (blocks * 16) * 16);

    long p0 = 0;
    do { /* K may be 0 */
        const int depth = (int)(s.k - p0 < block ? s.k - p0 : block), last = p0 + block >= s.k;
        const long next = !last                        ? a0 + (p0 + block) * s.a_col
                          : row_item + 1 < s.row_tiles ? a0 + rows * s.a_row
                                                       : -1;
        copy_a(a, s.a_type, a0 + p0 * s.a_col, s.a_row, s.a_col, rows, (int)(i_end - i0), depth,
               scratch);
        for (int q = 0; q < panels; q++) {
            const long j0 = (first_panel + q) * NR;
            const int columns = (int)(s.n - j0 < NR ? s.n - j0 : NR);
            const long b_at = b0 + j0 * b_line + p0 * b_step;
            const long b_next = q + 1 < panels ? b_at + NR * b_line
                                : !last        ? b_first + (p0 + block) * b_step
                                               : b_after;
            TAKE_PANEL(b_from);
            for (int t = 0; t < strips; t++) {
                TDM_LOCAL float *const kept = tiles + (q * strips + t) * TILE;
                const long i = row_of(first_strip + t, whole);
                TDM_LOCAL const float *const strip = scratch + (i - i0) * STRIDE;
                const int thin = first_strip + t >= whole, height = MR - thin;
                const int tile_rows = (int)(s.m - i < height ? s.m - i : height);
                const int where = !last                                               ? TO_KEPT
                                  : !plain || tile_rows != height || columns != NR ? TO_TILE
                                  : streams                                          ? PAST_CACHES
                                                                                     : TO_D;
                TDM_GLOBAL float *const d_tile =
                    (TDM_GLOBAL float *)d + (where == TO_TILE ? 0 : io.d_at + i * e.d_row + j0);
                float tile[TILE];
                lines_ahead ask;
                ask_for_a(&ask, a, s, next, (panels - q) * strips - 1 - t, rows);
                ASK_FOR_B(&ask, b_next);
                ask_for_d(&ask, d_tile, e.d_row, where == TO_D);
                if (thin)
                    multiply_thin(strip, B_OF_TILE, b_from, s.b_row, panel, depth, p0 == 0, ask, where,
                                  kept, d_tile, e.d_row, tile);
                else
                    multiply_whole(strip, B_OF_TILE, b_from, s.b_row, panel, depth, p0 == 0, ask, where,
                                   kept, d_tile, e.d_row, tile);
                b_from = s.b_packed ? IN_PANELS : COPIED;
                if (where == TO_TILE)
                    for (int r = 0; r < tile_rows; r++)
                        tdm_epilogue_row(tile + r * NR, io, e, i + r, j0, columns, dense);
            }
        }
        p0 += block;
    } while (p0 < s.k);
    if (streams)
        tdm_stream_end();
}
