/* The order in which CPU-like devices multiply rows of Bᵀ. K is cut into blocks whose rows of A fit
 * a work-item's memory. Rows of Bᵀ are grouped into tiles. A block is cut into pieces for which the
 * rows of A stay in the L1 cache.
 *
 *   row 0 of a tile  [ 0 | 3 | 6 ]    Pieces are multiplied in this order. Meanwhile the next tile
 *   row 1            [ 1 | 4 | 7 ]    is prefetched in the order of its addresses, row after row.
 *   row 2            [ 2 | 5 | 8 ]
 *
 * Reading memory piece by piece is slower. A row of Bᵀ is often a page, where the hardware
 * prefetcher stops. A source includes this after gemm_weights_args.h, and defines
 *   NR             columns by which work is divided among work-items, e.g. 8
 *   PIECE          maximum number of elements of a piece in all rows of A; 8192 by default
 *   PIECE_OF_ONE   this maximum if there is one row of A; 4096 by default */
#ifndef TDM_GEMM_WEIGHTS_ORDER_H
#define TDM_GEMM_WEIGHTS_ORDER_H

#define TILE 16 /* largest number of rows of Bᵀ in a tile */
#ifndef PIECE
#define PIECE 8192
#define PIECE_OF_ONE 4096 /* one row is read faster in smaller pieces */
#endif
#define UNIT 128 /* pieces and blocks are multiples of this */

/* Returns the size of a part if `count` is split into as few equal parts as possible, each a
 * multiple of `unit`. `most` is the largest size, a multiple of `unit`. */
TDM_DEVICE int size_of_parts(long count, int most, int unit) {
    const long parts = count > most ? (count + most - 1) / most : 1;
    return (int)((count + parts * unit - 1) / (parts * unit)) * unit;
}

typedef struct {
    long begin, end;
} item_columns;

TDM_DEVICE item_columns columns_of_item(tdm_gemm_shape_arg s, long item) {
    const long pieces = (s.n + NR - 1) / NR;
    const long past = (item + 1) * pieces / s.column_tiles * NR;
    const item_columns columns = {item * pieces / s.column_tiles * NR, past < s.n ? past : s.n};
    return columns;
}

typedef struct {
    int lines, piece, pieces; /* rows of Bᵀ in a tile; steps of a piece; pieces of a block */
    long next;                /* where the block begins in the next tile, in elements of B */
} tile_order;

/* Returns the order for a block of `depth` steps of K. */
TDM_DEVICE tile_order order_of_tiles(int rows, int depth) {
    tile_order order;
    order.lines = rows == 1 ? TILE / 2 : TILE;
    order.piece =
        size_of_parts(depth, (rows == 1 ? PIECE_OF_ONE : PIECE / rows) / UNIT * UNIT, UNIT);
    order.pieces = (depth + order.piece - 1) / order.piece;
    order.next = 0;
    return order;
}

/* Returns what to prefetch while the `index`-th piece of a tile is multiplied. */
TDM_DEVICE long prefetch_offset(const tile_order *order, int index, long b_col) {
    return order->next + index / order->pieces * b_col +
           (long)(index % order->pieces) * order->piece;
}

#endif
