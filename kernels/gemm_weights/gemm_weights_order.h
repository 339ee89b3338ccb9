/* The order in which lines of weights are multiplied by CPU-like devices: blocks of K whose rows of A fit an item's memory, tiles of
 * lines, and pieces of a block for which the rows stay in the innermost cache. A text defines NR and includes this after
 * gemm_weights_args.h.
 *
 *   line 0 of a tile  [ 0 | 3 | 6 ]    Pieces are multiplied in this order. Meanwhile the next tile is asked for in the order of
 *   line 1            [ 1 | 4 | 7 ]    its addresses, 0 to 8 line after line: reading memory in pieces of lines is slower, and
 *   line 2            [ 2 | 5 | 8 ]    a line is often a page, where the hardware stops asking for more. */
#ifndef TDM_GEMM_WEIGHTS_ORDER_H
#define TDM_GEMM_WEIGHTS_ORDER_H

#define TILE 16 /* lines at most */
#ifndef PIECE
#define PIECE 8192        /* elements of all rows at most */
#define PIECE_OF_ONE 4096 /* of one row, which is read faster in smaller pieces */
#endif
#define UNIT 128 /* pieces and blocks are multiples of this */

/* The size of as few equal parts of `count` as there can be, `unit`s each; `most`, the greatest, is a multiple of those. */
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
    int lines, piece, pieces; /* of a tile */
    long next;                /* where the block begins in the next tile, in elements of B */
} tile_order;

/* Of a block of `depth` steps of K. */
TDM_DEVICE tile_order order_of_tiles(int rows, int depth) {
    tile_order order;
    order.lines = rows == 1 ? TILE / 2 : TILE;
    order.piece =
        size_of_parts(depth, (rows == 1 ? PIECE_OF_ONE : PIECE / rows) / UNIT * UNIT, UNIT);
    order.pieces = (depth + order.piece - 1) / order.piece;
    order.next = 0;
    return order;
}

/* What is asked for while the `index`-th piece of a tile is multiplied. */
TDM_DEVICE long asked_for(const tile_order *order, int index, long b_col) {
    return order->next + index / order->pieces * b_col +
           (long)(index % order->pieces) * order->piece;
}

#endif
