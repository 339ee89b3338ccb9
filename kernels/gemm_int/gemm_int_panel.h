/* Integer GEMM for CPU-like devices, shared by the kernel sources: one work-item computes a
 * rectangle of D, MR×NR sums (a micro-tile) at a time, as gemm_panel.cl does for floats.
 *
 * The rows of a work-item are cut into micro-panels of A (strips) of MR. Its columns are cut into
 * micro-panels of B (panels) of NR, and K into blocks of at most KC steps:
 *
 *     for each block of K
 *       copy the block of every strip of A to local memory, rows STRIP_ROW bytes apart, with zeros
 *           for steps past K. With a_stays (gemm_int_args.h), strips are read in place instead. The
 *           last strip is copied if TDM_TILE_ROWS exceeds its rows. It is also copied if it has
 *           fewer than MR rows and TDM_A_SHIFT is not 0
 *       for each panel of B: pack it to local memory unless B is packed (b_packed), and widen it
 *           there to the type of the strips
 *         for each strip: tile += strip · panel, four steps of K (a quad, gemm_int_quads.h) at a
 *             time; after the last block: store to D
 *
 * While it multiplies, a work-item prefetches the next panel of B and the tile's part of D. The
 * last tiles before the next block of A prefetch that block.
 *
 * Local memory contains the following, in this order. Sizes are in bytes; `strips` and `panels` are
 * the numbers of strips and panels of a work-item:
 *     strips                      strips · MR · STRIP_ROW; one strip with a_stays
 *     a panel                     KC · NR · UNIT; none if b_packed and UNIT is 1 (read in place)
 *     tiles, if K > KC            strips · panels · MR · NR · 4
 *     sums of A's rows            strips · MR · 4; of one strip with a_stays
 *     sums of B's columns         panels · NR · 4; none if b_packed
 *
 * STRIP_ROW is KC · UNIT + 64, so that rows never map to the same cache sets. The grid is
 * (row_tiles · column_tiles work-items; 1; batch). Work-item x computes row tile x % row_tiles and
 * column tile x / row_tiles. If A has S strips, row tile r has those from r·S/row_tiles up to, but
 * not including, (r+1)·S/row_tiles. Panels of B are divided among column tiles likewise. row_tiles
 * and column_tiles are at most the numbers of strips of A and of panels of B. With a_stays of 2,
 * the first half of the row tiles gets more strips (gemm_int_panel_kernel.h).
 *
 * A source includes this after defining these parameters:
 *     MR                    rows of a micro-tile, e.g. 6
 *     NR                    columns of a micro-tile, e.g. 64
 *     KC                    largest number of steps of K in a block, e.g. 2048
 *     tdm_strip             type of a strip's elements, e.g. tdm_u8
 *     UNIT                  bytes of a strip's element: 1, 2 or 4
 *     TDM_EPILOGUE_VECTOR   elements of a row that the epilogue finishes at once, e.g. 16
 * It then defines what depends on the instructions, and includes gemm_int_panel_kernel.h:
 *     TDM_A_SHIFT(type)                       a strip's element minus that of A
 *     tdm_strip_element(a, type, at)          a strip's element from A's
 *     TDM_STRIP_VALUE(x, type)                the number that a strip's element represents
 *     TDM_TILE_ROWS(rows)                     rows that are computed for a tile of `rows`, up to MR
 *     tdm_strip_run(a, type, at, depth, to)   copies up to `depth` neighbours, whole vectors only,
 *                                             and returns how many it copied
 *     tdm_strip_quads(quads, type, to)        copies eight quads of A's bytes to a strip's row
 *     tdm_panel_widen(job)                    for UNIT > 1: widens a panel of quads
 *     TDM_TILES_TOGETHER                      true if tdm_tile_multiply takes more than one tile
 *     tdm_tile_multiply(job, tile)            multiplies the tiles that tdm_tile_job describes */
#ifndef TDM_GEMM_INT_PANEL_H
#define TDM_GEMM_INT_PANEL_H

#define TDM_INT_COLUMNS NR
#include "kernels/gemm/gemm_args.h"
#include "gemm_int_epilogue.h"

#define STRIP_ROW (KC * UNIT + 64)
#define STRIDE (STRIP_ROW / UNIT) /* elements */
/* Bytes of a panel before its quads. The quads are at the end, because widening starts at the
 * front. */
#define QUADS_AT ((UNIT - 1) * KC * NR)
#define TILE (MR * NR)
/* LINE is the size of a cache line in bytes. A_LINES is the number of lines in a row of A's block.
 * A tile prefetches one line every four quads, and PREFETCH_ROWS rows in total. */
#define LINE 64
#define A_LINES (KC / LINE)
#define PREFETCH_ROWS 4

#define TDM_QUADS_SPACE TDM_LOCAL
#include "gemm_int_quads.h"

/* Prefetch state while multiplying, with distances in bytes. A distance of zero prefetches the same
 * line again. */
typedef struct {
    TDM_GLOBAL const char *a, *b, *d;
    long a_line, a_row; /* from a line to the next one; from a row's first line to the next row's */
    /* The row of `a` at which the tile's prefetch begins; the next tile's begins PREFETCH_ROWS rows
     * before it. A tile whose row is not below a_rows prefetches nothing of A. */
    long a_first, a_rows;
    long b_line, b_part; /* b_part: from a tile's first line to the next tile's */
    long d_line, d_row;
} tdm_prefetch_lines;

/* This describes a tile of one block: Σ over `quads` of strip · panel. The sums of the blocks
 * before (`kept`) are added unless it is the first block. The row `add` is added unless it is NULL.
 * If `straight`, the result is stored to D, whose rows are d_row apart. Otherwise it is stored to
 * `kept`, or for the last block to the argument `tile` of tdm_tile_multiply. If `tiles` is above 1,
 * the job has that many tiles of MR rows each, one below the other, and does not use `tile`. */
typedef struct {
    TDM_LOCAL const tdm_strip *strip;
    /* The strip in A, if it is read in place: rows are a_row apart and elements are not shifted.
     * NULL otherwise. */
    TDM_GLOBAL const tdm_u8 *in_place;
    long a_row;
    int a_signed;
    TDM_GLOBAL const int *packed; /* quads, if B is packed */
    TDM_LOCAL char *panel;        /* widened, or quads if B is not packed */
    TDM_LOCAL int *kept;
    const int *add;
    TDM_GLOBAL int *d;
    long d_row;
    int tiles;
    int rows; /* rows of the matrix; the tile's rows past them may hold anything */
    int quads, b_packed, first, last, straight, streams;
    tdm_prefetch_lines prefetch;
} tdm_tile_job;

#endif
