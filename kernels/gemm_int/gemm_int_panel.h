/* The integer GEMM for CPU-like devices, shared text: one work-item computes a rectangle of D, MR×NR sums at a time, as
 * gemm_panel.cl does for floats.
 *
 * The item's rows are cut into strips of MR, its columns into panels of NR, K into blocks of KC steps:
 *
 *     for each block of K
 *       copy the block of every strip of A to local memory, rows STRIP_ROW bytes apart, steps past K as zeros; but
 *           with a_stays, only the strip whose tile has rows past A (or fewer than MR, if A is signed): the others are
 *           read where they stand
 *       for each panel of B: pack it to local memory, unless B comes in panels (b_packed); widen it there to the
 *                            type of the strips
 *         for each strip: tile += strip · panel, four steps of K (a quad, gemm_int_quads.h) at a time
 *                         after the last block: to D
 *
 * While it multiplies, an item asks for lines of what it will need next: the next block of A in the last tiles before it,
 * the next panel of B, the tile's own part of D.
 *
 * Local memory, in this order, in bytes, with so many strips and panels in an item:
 *     strips                     strips · MR · STRIP_ROW; one with a_stays
 *     a panel                    KC · NR · UNIT, unless b_packed and UNIT is 1: it is read in place
 *     tiles, if K > KC           strips · panels · MR · NR · 4
 *     sums of A's rows           strips · MR · 4; of one strip with a_stays
 *     sums of B's columns, unless b_packed   panels · NR · 4
 * STRIP_ROW is KC · UNIT + 64, so that rows never fall on the same lines of a cache.
 * Grid (row_tiles · column_tiles items, row tiles first; 1; batch). Item r of row_tiles gets the strips from
 * r·strips/row_tiles to the next one's, and columns likewise; row_tiles and column_tiles are at most the strips and panels. With
 * a_stays of 2 the first half of the items has some more (gemm_int_panel_kernel.h).
 *
 * A text includes this after defining MR, NR, KC, TDM_EPILOGUE_VECTOR, tdm_strip, the type of a strip's elements, and UNIT,
 * its bytes; then gives what depends on the instructions, and includes gemm_int_panel_kernel.h:
 *     TDM_A_SHIFT(type)                              what a strip's elements are more than those of A
 *     tdm_strip_element(a, type, at)                 a strip's element for A's
 *     TDM_STRIP_VALUE(x, type)                       the number that a strip's element is
 *     TDM_TILE_ROWS(rows)                            how many rows a tile has that are made for so many, up to MR
 *     tdm_strip_run(a, type, at, depth, to)          up to so many neighbours, as far as whole vectors go; returns how many
 *     tdm_strip_quads(quads, type, to)               eight quads of A's bytes to a strip's row
 *     tdm_panel_widen(job)                           with a UNIT beyond 1: what is in quads to the panel
 *     TDM_TILES_TOGETHER                             whether tdm_tile_multiply takes more than one tile
 *     tdm_tile_multiply(job, tile)                   the tiles that tdm_tile_job describes */
#ifndef TDM_GEMM_INT_PANEL_H
#define TDM_GEMM_INT_PANEL_H

#define TDM_INT_COLUMNS NR
#include "kernels/gemm/gemm_args.h"
#include "gemm_int_epilogue.h"

#define STRIP_ROW (KC * UNIT + 64)
#define STRIDE (STRIP_ROW / UNIT) /* elements */
/* Bytes of a panel before its quads, which are widened from the front on. */
#define QUADS_AT ((UNIT - 1) * KC * NR)
#define TILE (MR * NR)
/* Lines of a cache in a row of A's block; one is asked for every four quads, so many rows in the course of a tile. */
#define LINE 64
#define A_LINES (KC / LINE)
#define ROWS_AHEAD 4

#define TDM_QUADS_SPACE TDM_LOCAL
#include "gemm_int_quads.h"

/* What to ask for while multiplying, with distances in bytes; distances of zero ask for one line again and again. */
typedef struct {
    TDM_GLOBAL const char *a, *b, *d;
    long a_line, a_row; /* from one line, and from one row's first line to the next row's */
    /* Of `a`: which row the tile begins with, the next one ROWS_AHEAD before; it asks for none where that is not below a_rows. */
    long a_first, a_rows;
    long b_line, b_part; /* and from one tile's first line to the next tile's */
    long d_line, d_row;
} tdm_lines_ahead;

/* A tile of one block: Σ over `quads` of strip · panel, plus what was kept of the blocks before unless it is the first,
 * plus a row that may be NULL. It goes straight to D, rows d_row apart; or else to `kept`, of the last block to `tile`.
 * With `tiles` beyond 1 so many of them, of MR rows each, one below the other; none goes to `tile` then. */
typedef struct {
    TDM_LOCAL const tdm_strip *strip;
    /* The strip where it stands in A, rows a_row apart, its elements without the shift of a strip; or NULL. */
    TDM_GLOBAL const tdm_u8 *in_place;
    long a_row;
    int a_signed;
    TDM_GLOBAL const int *packed; /* quads where B comes in panels */
    TDM_LOCAL char *panel;        /* widened, or quads where B does not come in panels */
    TDM_LOCAL int *kept;
    const int *add;
    TDM_GLOBAL int *d;
    long d_row;
    int tiles;
    int rows; /* of the matrix: those of the tile past them may be anything */
    int quads, b_packed, first, last, straight, streams;
    tdm_lines_ahead ask;
} tdm_tile_job;

#endif
