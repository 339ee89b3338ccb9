/* GEMM for CPU-like devices: one work-item computes a rectangle of D, MR×NR elements (a micro-tile)
 * at a time in explicit wide vectors.
 *
 *                NR = NV vectors of VW     Rows are cut into micro-panels of A (strips) of MR,
 *              ┌────┬────┐                 columns into micro-panels of B (panels) of NR,
 *     B row    │ b0 │ b1 │                 K into equal blocks of at most KC:
 *              └────┴────┘                   for each block of K
 *   strip ┌─┐  ┌────┬────┐                     load: copy the block of every strip to local memory
 *   of A  │a│× │acc │acc │                     for each panel of B, for each strip
 *   MR    └─┘  └────┴────┘                       acc[i][v] += splat(a(i, p)) · b(p, v)
 *                                                store acc: to local memory, or to D
 *
 * Parameters:
 *   MR      rows of a micro-tile, e.g. 6
 *   NR      columns of a micro-tile, a multiple of VW, e.g. 64
 *   VW      floats of a vector, e.g. 16
 *   KC      largest number of steps of K in a block, e.g. 512
 *   BT      storage type of B, e.g. f32
 *   BITS    bits of a quantized value, if B is quantized: 8 or 4; see gemm_panel_codes.h
 *   PAIRS   A and B are bf16, multiplied in pairs along K; see gemm_panel_pairs.h
 *
 * Some strips at the end have one row less than MR, as many as needed. The last strip is then not
 * nearly empty. The rows of a strip are STRIDE = WORDS + 16 floats apart. They are then reached
 * from one address by constant displacements. Unlike rows with a power of two as stride, they do
 * not map to the same cache sets. Between blocks of K the sums are kept in local memory. At most
 * TDM_SUM_BLOCK terms are added in registers; the parts of a longer block are joined in private
 * memory.
 *
 * B is packed in panels of NR columns (gemm_pack.cl) in its own type, or is read in place (b_packed
 * = 0). In place, the work-item packs each panel to local memory as f32. Contiguous full-width rows
 * are packed while the first strip is multiplied; everything else is copied before. Quantized B and
 * pairs of bf16 are always copied. With PAIRS, strips and panels hold 32-bit words of two steps of
 * K; statements about floats then hold for words.
 *
 * Local memory is ordinary cached memory on these devices, and a work-group has one work-item, so
 * there is no barrier. While it multiplies, a work-item prefetches what it needs next: the next
 * block of A (in the last tiles before it), the next panel of B, and the tile's part of D.
 *
 * Local memory, in this order: strips, one panel unless packed B is read, accumulators if K > KC.
 * The grid is (row_tiles · column_tiles, row tiles first; 1; batch). Work-item r of row_tiles takes
 * the strips from r·strips/row_tiles to the next one's, and columns likewise. */
#define TDM_EPILOGUE_VECTOR 8
#include "kernels/dialect/dialect.h"
#include "gemm_args.h"
#include "gemm_epilogue.h"
#include "kernels/dialect/long_functions.h"

#ifdef PAIRS
#define WORD_STEPS 2 /* steps of K in a word of 32 bits */
#define READS_PANELS(s) 0
#define IS_NARROWED(e) is_narrowed_product(e)
#else
#define WORD_STEPS 1
#define READS_PANELS(s) (s).b_packed
#define IS_NARROWED(e) 0
#endif
#define WORDS (KC / WORD_STEPS) /* words of a row in one block of K */

#define NV (NR / VW)
#define VECTOR TDM_F32(VW)
#define STRIDE (WORDS + 16)
#define TILE (MR * NR)
/* A row's part of a block is prefetched in pieces of four cache lines (64 words). */
#define PIECES (WORDS / 64)
/* Cache lines of a row of a tile in D. */
#define D_LINES (NR < 32 ? 1 : NR / 16)
/* Prefetch distance for unpacked B, in rows. */
#define PREFETCH_ROWS 16
/* Prefetch distance for unpacked B that is contiguous along K, in words of K. */
#define STEPS_AHEAD 64

/* The sources from which a step reads B. */
#define IN_PANELS 0 /* packed B */
#define COPIED 1    /* the work-item's copy of the panel */
#define IN_PLACE 2  /* whole rows of the matrix, which are also stored to the copy */
#define TAKE_COPIED(P)                                                                             \
    TDM_UNROLL for (int v = 0; v < NV; v++) b_vec[v] = TDM_LOADV(VW, f32, panel, (P)*NR + v * VW);
/* One step of K, A_AT floats into the strip: load NV vectors of B, then multiply-accumulate. */
#define PANEL_STEP(ROWS, A_AT, TAKE_B)                                                             \
    {                                                                                              \
        VECTOR b_vec[NV];                                                                          \
        TAKE_B(A_AT)                                                                               \
        TDM_UNROLL for (int i = 0; i < ROWS; i++) {                                                \
            const VECTOR a_vec = TDM_SPLAT(VW, strip[i * STRIDE + (A_AT)]);                        \
            TDM_UNROLL for (int v = 0; v < NV; v++)                                                \
                ADD_PRODUCTS(acc[i][v], a_vec, b_vec[v]);                                          \
        }                                                                                          \
    }

/* Words of K whose products are added in registers. */
#define SUM_WORDS (TDM_SUM_BLOCK / WORD_STEPS)

/* Multiplies a block of K, four words at a time, and prefetches what comes next. Sums of SUM_WORDS
 * words are moved to `sums` unless they are the last ones. */
#define PANEL_BLOCK(ROWS, TAKE_B)                                                                  \
    {                                                                                              \
        int p = 0;                                                                                 \
        for (int piece = 1; p + 16 <= depth; p += 16, piece++) {                                   \
            TDM_GLOBAL const char *a_line = prefetch.a, *b_line = prefetch.b;                      \
            prefetch.a += piece % PIECES == 0 ? prefetch.a_row : prefetch.a_piece;                 \
            prefetch.b += prefetch.b_piece;                                                        \
            tdm_prefetch(prefetch.d);                                                              \
            prefetch.d += piece % D_LINES == 0 ? prefetch.d_row : prefetch.d_line;                 \
            TDM_NO_UNROLL for (int q = p; q < p + 16; q += 4) {                                    \
                /* Load: prefetch the next block of A and the next panel of B. */                  \
                tdm_prefetch(a_line);                                                              \
                a_line += prefetch.a_line;                                                         \
                tdm_prefetch_far(b_line);                                                          \
                tdm_prefetch_far(b_line + prefetch.b_other);                                       \
                b_line += prefetch.b_line;                                                         \
                /* Multiply-accumulate four words of K. */                                         \
                PANEL_STEP(ROWS, q, TAKE_B)                                                        \
                PANEL_STEP(ROWS, q + 1, TAKE_B)                                                    \
                PANEL_STEP(ROWS, q + 2, TAKE_B)                                                    \
                PANEL_STEP(ROWS, q + 3, TAKE_B)                                                    \
            }                                                                                      \
            if (piece % (SUM_WORDS / 16) == 0 && p + 16 < depth) {                                 \
                if (moved)                                                                         \
                    ADD_SUMS(ROWS, sums);                                                          \
                EACH_SUM(ROWS) TDM_STOREV(VW, f32, acc[r][v], sums, r *NR + v * VW);               \
                EACH_SUM(ROWS) acc[r][v] = TDM_SPLAT(VW, 0.0f);                                    \
                moved = 1;                                                                         \
            }                                                                                      \
        }                                                                                          \
        for (; p < depth; p++)                                                                     \
            PANEL_STEP(ROWS, p, TAKE_B)                                                            \
    }

/* Prefetch state while multiplying: addresses and distances in bytes. A distance of zero prefetches
 * the same line again. */
typedef struct {
    TDM_GLOBAL const char *a, *b, *d;
    long a_line, a_piece, a_row;   /* from one line, piece and row to the next */
    long b_line, b_other, b_piece; /* two lines at a time, b_other apart */
    long d_line, d_row;
} prefetch_lines;

/* Destinations of a tile's sums. */
#define TO_KEPT 0
#define TO_D 1
#define NONTEMPORAL 2
#define TO_TILE 3
#define NARROWED 4 /* to D in bf16 */
#define NARROWED_NONTEMPORAL 5

#define EACH_SUM(ROWS)                                                                             \
    TDM_UNROLL for (int r = 0; r < ROWS; r++) TDM_UNROLL for (int v = 0; v < NV; v++)

/* acc += the sums at FROM. */
#define ADD_SUMS(ROWS, FROM)                                                                       \
    EACH_SUM(ROWS) acc[r][v] += TDM_LOADV(VW, f32, FROM, r * NR + v * VW)

/* acc = the sums over `depth` words, plus the sums at KEPT unless this is the FIRST block. */
#define SUM_BLOCKS(ROWS, MULTIPLY_BLOCK, FIRST, KEPT)                                              \
    float sums[TILE];                                                                              \
    int moved = 0;                                                                                 \
    VECTOR acc[ROWS][NV];                                                                          \
    EACH_SUM(ROWS) acc[r][v] = TDM_SPLAT(VW, 0.0f);                                                \
    MULTIPLY_BLOCK(ROWS)                                                                           \
    if (moved)                                                                                     \
        ADD_SUMS(ROWS, sums);                                                                      \
    if (!(FIRST))                                                                                  \
        ADD_SUMS(ROWS, KEPT);

#ifdef PAIRS
#include "gemm_panel_pairs.h"
#else
#include "gemm_panel_floats.h"
#endif
MULTIPLY(multiply_whole, MR)
MULTIPLY(multiply_thin, (MR - 1))

/* Sets the prefetch of A's next block, or of the first block of the next work-item. Only the last
 * tiles before that block prefetch it; earlier, the lines would be evicted again. `to_come` is the
 * number of tiles between this one and the block. */
TDM_DEVICE void prefetch_a(prefetch_lines *prefetch, TDM_GLOBAL const void *a, tdm_gemm_shape_arg s,
                          long next, long to_come, int rows) {
    const int size = s.a_type == TDM_CODE_F32 ? 4 : 2;
    const long first = to_come * (WORDS / 16 / PIECES);
    prefetch->a = (TDM_GLOBAL const char *)a;
    prefetch->a_line = prefetch->a_piece = prefetch->a_row = 0;
    if (next < 0 || s.a_col != 1 || first >= rows)
        return;
    prefetch->a += (next + first * s.a_row) * size;
    prefetch->a_line = 16 * WORD_STEPS * size;
    prefetch->a_piece = 4 * prefetch->a_line;
    prefetch->a_row = s.a_row * size - (PIECES - 1) * prefetch->a_piece;
}

#ifdef BITS
#include "kernels/gemm_weights/gemm_panel_codes.h"
#include "kernels/gemm_weights/gemm_weights_names.h"

#define PANEL_ARGUMENTS TDM_WEIGHTS_ARGUMENTS
#define PANEL_NAMES TDM_WEIGHTS_NAMES
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
#define PREFETCH_B(prefetch, next) prefetch_codes(prefetch, &coded, next, depth, t, strips)
#define B_OF_TILE coded.b
#else
#define PANEL_ARGUMENTS                                                                            \
    TDM_GLOBAL const void *TDM_RESTRICT a, long a_offset,                                          \
        TDM_GLOBAL const TDM_TYPE(BT) * TDM_RESTRICT b, long b_offset, TDM_GLOBAL const void *c,   \
        long c_offset, TDM_GLOBAL const void *bias, long bias_offset,                              \
        TDM_GLOBAL const void *residual, long r_offset, TDM_GLOBAL void *d, long d_offset,         \
        tdm_gemm_shape_arg s, tdm_gemm_epilogue_arg e
#define PANEL_NAMES                                                                                \
    a, a_offset, b, b_offset, c, c_offset, bias, bias_offset, residual, r_offset, d, d_offset, s, e
#ifdef PAIRS
#define TAKE_PANEL(B_FROM)                                                                         \
    copy_pairs(b + b_at, b_step, s.b_packed ? 1 : s.b_col, s.b_packed ? NR : columns, depth,       \
               (TDM_LOCAL uint *)panel);                                                           \
    int B_FROM = COPIED
#else
#define TAKE_PANEL(B_FROM)                                                                         \
    int B_FROM = s.b_packed ? IN_PANELS : s.b_col == 1 && columns == NR ? IN_PLACE : COPIED;       \
    if (B_FROM == COPIED)                                                                          \
    copy_panel(b, b_at, s.b_row, s.b_col, columns, depth, panel)
#endif
#define PREFETCH_B(prefetch, next)                                                                 \
    prefetch_b(prefetch, b + (next), s.b_row, s.b_packed, depth, t, strips)
#define B_OF_TILE (b + b_at)

/* Sets the prefetch of part t of `strips` of the next panel. A packed panel is contiguous;
 * otherwise it has `depth` rows. */
TDM_DEVICE void prefetch_b(prefetch_lines *prefetch, TDM_GLOBAL const TDM_TYPE(BT) * next,
                           long b_row, int packed, int depth, int t, int strips) {
    if (packed) {
        const long bytes = depth * NR * sizeof(*next);
        prefetch->b = (TDM_GLOBAL const char *)next + bytes * t / strips;
        prefetch->b_other = (bytes / strips + WORDS / 2 - 1) / (WORDS / 2);
        prefetch->b_line = 2 * prefetch->b_other;
        prefetch->b_piece = 8 * prefetch->b_other;
    } else {
        prefetch->b = (TDM_GLOBAL const char *)(next + depth * t / strips * b_row);
        prefetch->b_other = b_row * sizeof(*next);
        prefetch->b_line = 64;
        prefetch->b_piece = 2 * prefetch->b_other;
    }
}
#endif

/* Sets the prefetch of a tile of D, whose rows are `bytes` apart. */
TDM_DEVICE void prefetch_d(prefetch_lines *prefetch, TDM_GLOBAL const float *d, long bytes,
                           int wanted) {
    prefetch->d = (TDM_GLOBAL const char *)d;
    prefetch->d_line = wanted ? 64 : 0;
    prefetch->d_row = wanted ? bytes - (D_LINES - 1) * 64 : 0;
}

/* Returns the first row of a strip. Strips from `whole` on have one row less than MR. */
TDM_DEVICE long row_of(long strip, long whole) {
    return strip * MR - (strip > whole ? strip - whole : 0);
}

TDM_BODY void do_item(PANEL_ARGUMENTS, TDM_LOCAL float *scratch, long item, long z) {
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
    TDM_LOCAL float *const tiles = panel + (READS_PANELS(s) ? 0 : WORDS * NR);
    const tdm_epilogue_io io =
        tdm_epilogue_begin(c, c_offset, bias, bias_offset, residual, r_offset, d, d_offset, e, z);
    const int dense = tdm_epilogue_is_dense(e), narrows = IS_NARROWED(e),
              plain = narrows || tdm_epilogue_is_plain(e);
    const int d_bytes = narrows ? 2 : 4; /* bytes of an element of D, if `plain` */
    const int streams =
        plain && e.streams_d && e.d_row * d_bytes % (VW * 4) == 0 &&
        tdm_address((TDM_GLOBAL char *)d + io.d_at * d_bytes) % (VW * 4) == 0;
    const int to_d = narrows ? streams ? NARROWED_NONTEMPORAL : NARROWED
                     : streams ? NONTEMPORAL
                               : TO_D;
    /* Distances from one column and one row of B to the next. */
    const long b_line = s.b_packed ? s.k : s.b_col, b_step = s.b_packed ? NR : s.b_row;
    const long b_first = b0 + first_panel * NR * b_line;
    const long b_after = row_item + 1 < s.row_tiles ? b_first : b_first + panels * NR * b_line;
    /* Blocks of K are whole cache lines of A. */
    const long blocks = (s.k + KC - 1) / KC;
    const int line = 16 * WORD_STEPS;
    const int block =
        blocks < 2 ? (int)s.k : (int)((s.k + blocks * line - 1) / (blocks * line) * line);

    long p0 = 0;
    do { /* K may be 0 */
        const int depth = (int)(s.k - p0 < block ? s.k - p0 : block), last = p0 + block >= s.k;
        const long next = !last                        ? a0 + (p0 + block) * s.a_col
                          : row_item + 1 < s.row_tiles ? a0 + rows * s.a_row
                                                       : -1;
        /* Load a block of A. */
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
                const int where = !last                                            ? TO_KEPT
                                  : !plain || tile_rows != height || columns != NR ? TO_TILE
                                                                                   : to_d;
                TDM_GLOBAL float *const d_tile =
                    (TDM_GLOBAL float *)((TDM_GLOBAL char *)d +
                                         (where == TO_TILE ? 0 : io.d_at + i * e.d_row + j0) *
                                             d_bytes);
                float tile[TILE];
                prefetch_lines prefetch;
                prefetch_a(&prefetch, a, s, next, (panels - q) * strips - 1 - t, rows);
                PREFETCH_B(&prefetch, b_next);
                prefetch_d(&prefetch, d_tile, e.d_row * d_bytes,
                           where == TO_D || where == NARROWED);
                /* Multiply-accumulate, and store unless the epilogue follows. */
                if (thin)
                    multiply_thin(strip, B_OF_TILE, b_from, s.b_row, panel, depth, p0 == 0,
                                  prefetch, where, kept, d_tile, e.d_row, tile);
                else
                    multiply_whole(strip, B_OF_TILE, b_from, s.b_row, panel, depth, p0 == 0,
                                   prefetch, where, kept, d_tile, e.d_row, tile);
                b_from = READS_PANELS(s) ? IN_PANELS : COPIED;
                /* Store through the epilogue. */
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

TDM_KERNEL_GROUP(TDM_ENTRY, 1, 1, 1)
(PANEL_ARGUMENTS, TDM_LOCAL_ARGUMENT(float, scratch)) {
    TDM_ITEM_BEGIN;
    do_item(PANEL_NAMES, scratch, tdm_group_x(), tdm_group_z());
}
