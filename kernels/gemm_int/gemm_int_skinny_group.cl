/* GEMM of s8 or u8 by s8 where M or N is small (TM at a time), for GPU-like devices: limited by how fast the large operand can be
 * read, once, in place. Its lines are columns of B where M is the small one, rows of A where N is (`swapped`).
 *
 *   lines along K                                lines across it: neighbours          A group of ITEMS has TM lines of the
 *   ┌ 16 steps                                   ┌ 4 lines                            small operand, an item four of the large
 *   │share 0│share 1│ … │share 7│share 0│ …      │items 0, 1 … 15 │ 4 steps: share 0  one and a share of K.
 *   │share 0│ …                  items 0 … 7     │items 16 … 31   │          share 1  Along K it loads 16 steps of a line at a
 *   │ …                                          │items 32 … 47   │          share 2  time, four of which are one dot product;
 *   │share 0│ …                  items 8 … 15    │items 48 … 63   │          share 3  across it one step of four lines, which
 *   └ 32 lines                                   │items 0 … 15    │          share 0  are four products.
 *
 * Dot products take bytes of A turned round where their type is not the one they know: A + a_shift, which the sums of B's columns undo
 * (gemm_int_epilogue.h). Shares are joined in
 *
 *   local memory, of each share:  TM·lines products, by line of the small operand │ sums of large lines │ sums of small lines
 *
 * and items finish four columns of a row each. What is not whole pieces at multiples of 16 bytes (across: words at multiples of 4) is
 * read byte by byte, a step at a time: right for any strides. Sums are modulo 2^32, whatever their order is. What is done for each line
 * of the small operand is written out: rusticl 22.3 keeps arrays that a loop indexes in memory, which takes up to ten times as long.
 * Grid (tiles of the small side · tiles of the large side, 1, batch). */
#define TDM_EPILOGUE_VECTOR 4
#define TDM_INT_COLUMNS 4
#include "kernels/dialect/dialect.h"
#include "gemm_int_args.h"
#include "gemm_int_epilogue.h"

#define ITEMS 64
/* Lines of an item, and of a group; items that share a group's K. */
#define OWN 4
#define LINES_ALONG 32
#define LINES_ACROSS 64
#define SHARES_ALONG (ITEMS * OWN / LINES_ALONG)
#define SHARES_ACROSS (ITEMS * OWN / LINES_ACROSS)
/* Steps that an item takes at a time. */
#define PIECE 16
#define STEPS 4
/* Pieces of rows of D that an item finishes, at most. */
#define TURNS ((TM + 3) / 4)
/* Sums of a share in local memory. */
#define SUMS(lines) ((TM * (lines) + (lines) + TM) | 1)
#define CELLS_ALONG (SHARES_ALONG * SUMS(LINES_ALONG))
#define CELLS_ACROSS (SHARES_ACROSS * SUMS(LINES_ACROSS))
#define CELLS (CELLS_ALONG > CELLS_ACROSS ? CELLS_ALONG : CELLS_ACROSS)

#define ONES 0x01010101
#define TURN ((int)0x80808080u)

/* An operand from the first of the group's lines on. */
typedef struct {
    TDM_GLOBAL const tdm_u8 *from;
    long line, depth; /* strides */
    int last;         /* the last line there is: others repeat it, and are not stored */
    int flip;         /* what bytes are combined with before dot products */
    int mask;         /* of a byte after that, sign-extended: the value that is multiplied */
} line_source;

TDM_DEVICE line_source source_of(TDM_GLOBAL const void *from, long at, long line, long depth,
                                 long lines, int flip, int mask) {
    line_source s;
    s.from = (TDM_GLOBAL const tdm_u8 *)from + at;
    s.line = line;
    s.depth = depth;
    s.last = lines < LINES_ACROSS ? (int)lines - 1 : LINES_ACROSS - 1;
    s.flip = flip;
    s.mask = mask;
    return s;
}

/* Whether pieces of so many bytes along K are aligned. */
TDM_DEVICE int is_aligned(line_source s, int bytes) {
    return s.depth == 1 && tdm_address(s.from) % (ulong)bytes == 0 &&
           (s.last == 0 || s.line % bytes == 0);
}

TDM_DEVICE TDM_GLOBAL const tdm_u8 *place_of(line_source s, int line, int p) {
    return s.from + (tdm_int_min(line, s.last) * s.line + p * s.depth);
}

/* Steps p … p + 15 of a line, for dot products. */
TDM_DEVICE s32x4 piece_of(line_source s, int line, int p) {
    return *(TDM_GLOBAL const s32x4 *)place_of(s, line, p) ^ s32x4_splat(s.flip);
}

/* Four steps of a line, or one step of four, as they are. */
TDM_DEVICE int word_of(line_source s, int line, int p) {
    return *(TDM_GLOBAL const tdm_s32 *)place_of(s, line, p);
}

/* A byte of a word as it is multiplied. */
#define VALUE(word, l, source) (tdm_quad_byte(1, word, l) & (source).mask)

TDM_DEVICE s32x4 step_of_four(line_source s, int line, int p) {
    const int word = word_of(s, line, p);
    return s32x4_of(VALUE(word, 0, s), VALUE(word, 1, s), VALUE(word, 2, s), VALUE(word, 3, s));
}

/* One step of a line, as it is multiplied. */
TDM_DEVICE int step_of(line_source s, int line, int p) {
    const int byte = (int)(tdm_s8)(*place_of(s, line, p) ^ (tdm_u8)s.flip);
    return byte & s.mask;
}

/* A word of a small line by one of each of four large ones. A's bytes go first, where they are not of the type of B's. */
#if TDM_DOT4_UNSIGNED
#define DOT_LANE(x, y, sum, l) tdm_dot4(1, TDM_LANE(4, y, l), x, TDM_LANE(4, sum, l))
#define DOTS(x, y, sum)                                                                            \
    (swapped ? s32x4_of(DOT_LANE(x, y, sum, 0), DOT_LANE(x, y, sum, 1), DOT_LANE(x, y, sum, 2),    \
                        DOT_LANE(x, y, sum, 3))                                                    \
             : tdm_dot4(4, x, y, sum))
#define DOT(x, y, sum) (swapped ? tdm_dot4(1, y, x, sum) : tdm_dot4(1, x, y, sum))
#else
#define DOTS(x, y, sum) tdm_dot4(4, x, y, sum)
#define DOT(x, y, sum) tdm_dot4(1, x, y, sum)
#endif

/* Word l of a piece, of each of the item's lines. */
#define WORDS(l)                                                                                   \
    s32x4_of(TDM_LANE(4, piece0, l), TDM_LANE(4, piece1, l), TDM_LANE(4, piece2, l),               \
             TDM_LANE(4, piece3, l))

#define ADD_PIECE_OF(m)                                                                            \
    {                                                                                              \
        const s32x4 x = piece_of(small, m, p);                                                     \
        const int x0 = TDM_LANE(4, x, 0), x1 = TDM_LANE(4, x, 1), x2 = TDM_LANE(4, x, 2),          \
                  x3 = TDM_LANE(4, x, 3);                                                          \
        if (wants_small)                                                                           \
            small_sums[m] =                                                                        \
                DOT(x3, ONES, DOT(x2, ONES, DOT(x1, ONES, DOT(x0, ONES, small_sums[m]))));         \
        sums[m] = DOTS(x0, y0, sums[m]);                                                           \
        sums[m] = DOTS(x1, y1, sums[m]);                                                           \
        sums[m] = DOTS(x2, y2, sums[m]);                                                           \
        sums[m] = DOTS(x3, y3, sums[m]);                                                           \
    }

/* Steps p … p + 15 of the item's lines. */
#define ADD_PIECE                                                                                  \
    {                                                                                              \
        const s32x4 piece0 = piece_of(large, line0, p), piece1 = piece_of(large, line0 + 1, p),    \
                    piece2 = piece_of(large, line0 + 2, p),                                        \
                    piece3 = piece_of(large, line0 + 3, p);                                        \
        const s32x4 y0 = WORDS(0), y1 = WORDS(1), y2 = WORDS(2), y3 = WORDS(3);                    \
        if (wants_large)                                                                           \
            large_sums =                                                                           \
                DOTS(ONES, y3, DOTS(ONES, y2, DOTS(ONES, y1, DOTS(ONES, y0, large_sums))));        \
        TDM_REPEAT(TM, ADD_PIECE_OF)                                                               \
    }

#define ADD_WORDS_OF(m)                                                                            \
    {                                                                                              \
        const int word = word_of(small, m, p);                                                     \
        const int x0 = VALUE(word, 0, small), x1 = VALUE(word, 1, small),                          \
                  x2 = VALUE(word, 2, small), x3 = VALUE(word, 3, small);                          \
        if (wants_small)                                                                           \
            small_sums[m] = tdm_add_wrap(1, small_sums[m], (x0 + x1) + (x2 + x3));                 \
        sums[m] = tdm_add_wrap(4, sums[m],                                                         \
                               (s32x4_splat(x0) * y0 + s32x4_splat(x1) * y1) +                     \
                                   (s32x4_splat(x2) * y2 + s32x4_splat(x3) * y3));                 \
    }

/* Steps p … p + 3 of four neighbouring lines. */
#define ADD_WORDS                                                                                  \
    {                                                                                              \
        const s32x4 y0 = step_of_four(large, line0, p), y1 = step_of_four(large, line0, p + 1),    \
                    y2 = step_of_four(large, line0, p + 2),                                        \
                    y3 = step_of_four(large, line0, p + 3);                                        \
        if (wants_large)                                                                           \
            large_sums = tdm_add_wrap(4, large_sums, (y0 + y1) + (y2 + y3));                       \
        TDM_REPEAT(TM, ADD_WORDS_OF)                                                               \
    }

#define ADD_STEP_OF(m)                                                                             \
    {                                                                                              \
        const int x = step_of(small, m, p);                                                        \
        small_sums[m] = tdm_add_wrap(1, small_sums[m], x);                                         \
        sums[m] = tdm_add_wrap(4, sums[m], s32x4_splat(x) * y);                                    \
    }

/* Step p of the item's lines alone. */
#define ADD_STEP                                                                                   \
    {                                                                                              \
        const s32x4 y = s32x4_of(step_of(large, line0, p), step_of(large, line0 + 1, p),           \
                                 step_of(large, line0 + 2, p), step_of(large, line0 + 3, p));      \
        large_sums = tdm_add_wrap(4, large_sums, y);                                               \
        TDM_REPEAT(TM, ADD_STEP_OF)                                                                \
    }

#define CLEAR(m)                                                                                   \
    sums[m] = s32x4_splat(0);                                                                      \
    small_sums[m] = 0;
#define KEEP(m) s32x4_store_s32(sums[m], cells, cell0 + (m)*lines + line0);
#define KEEP_SMALL(m) cells[cell0 + (TM + 1) * lines + (m)] = small_sums[m];

TDM_KERNEL_GROUP(TDM_ENTRY, ITEMS, 1, 1)(TDM_INT_ARGUMENTS) {
    TDM_LOCAL_ARRAY(int, cells, CELLS);
    const int item = tdm_item_x(), k = (int)s.k;
    const long z = tdm_group_z();
    const int swapped = s.n < s.m;
    const int along_k = swapped ? s.a_row != 1 || s.a_col == 1 : s.b_col != 1 || s.b_row == 1;
    const int lines = along_k ? LINES_ALONG : LINES_ACROSS;
    const int shares = along_k ? SHARES_ALONG : SHARES_ACROSS;
    /* The item's share of K, and its lines. */
    const int share = along_k ? item % SHARES_ALONG : item / (LINES_ACROSS / OWN);
    const int line0 = (along_k ? item / SHARES_ALONG : item % (LINES_ACROSS / OWN)) * OWN;
    const long small0 = tdm_group_x() % s.row_tiles * TM,
               large0 = tdm_group_x() / s.row_tiles * lines;
    const long i0 = swapped ? large0 : small0, j0 = swapped ? small0 : large0;
    const int is_u8 = s.a_type == TDM_CODE_U8, turned = along_k && is_u8 != TDM_DOT4_UNSIGNED;
    const int unsigned_a = is_u8 != turned;
    const int a_shift = !turned ? 0 : TDM_DOT4_UNSIGNED ? 128 : -128;
    const line_source from_a =
        source_of(a, a_offset + z * s.a_batch + i0 * s.a_row, s.a_row, s.a_col, s.m - i0,
                  turned ? TURN : 0, unsigned_a ? 0xff : -1);
    const line_source from_b =
        source_of(b, b_offset + z * s.b_batch + j0 * s.b_col, s.b_col, s.b_row, s.n - j0, 0, -1);
    const line_source small = swapped ? from_b : from_a, large = swapped ? from_a : from_b;
    const int wants_columns = tdm_int_needs_column_sums(q, a_shift),
              wants_rows = tdm_int_needs_row_sums(q);
    const int wants_small = swapped ? wants_columns : wants_rows,
              wants_large = swapped ? wants_rows : wants_columns;

    s32x4 sums[TM], large_sums = s32x4_splat(0);
    int small_sums[TM];
    TDM_REPEAT(TM, CLEAR)
    if (along_k) {
        const int end =
            is_aligned(large, PIECE) && is_aligned(small, PIECE) ? k / PIECE * PIECE : 0;
        TDM_NO_UNROLL for (int p = share * PIECE; p < end; p += SHARES_ALONG * PIECE)
            ADD_PIECE;
        TDM_NO_UNROLL for (int p = end + share; p < k; p += SHARES_ALONG)
            ADD_STEP;
    } else {
        const int by_words = tdm_address(large.from) % 4 == 0 && large.depth % 4 == 0 &&
                             line0 + OWN - 1 <= large.last && is_aligned(small, STEPS);
        const int end = by_words ? k / STEPS * STEPS : 0;
        TDM_NO_UNROLL for (int p = share * STEPS; p < end; p += SHARES_ACROSS * STEPS)
            ADD_WORDS;
        TDM_NO_UNROLL for (int p = end + share; p < k; p += SHARES_ACROSS)
            ADD_STEP;
    }
    const int cell0 = share * SUMS(lines);
    TDM_REPEAT(TM, KEEP)
    s32x4_store_s32(large_sums, cells, cell0 + TM * lines + line0);
    if (line0 == 0) {
        TDM_REPEAT(TM, KEEP_SMALL)
    }
    tdm_barrier();

    const int pieces = lines / TDM_INT_COLUMNS; /* of a row, where lines are columns */
    const int tasks =
        swapped ? lines * ((TM + TDM_INT_COLUMNS - 1) / TDM_INT_COLUMNS) : pieces * TM;
    TDM_INT_IO(io, z);
    TDM_UNROLL for (int turn = 0; turn < TURNS; turn++) {
        const int task = turn * ITEMS + item;
        const int m = swapped ? task / lines * TDM_INT_COLUMNS : task / pieces;
        const int n = swapped ? task % lines : task % pieces * TDM_INT_COLUMNS;
        const long i = i0 + (swapped ? n : m), j = j0 + (swapped ? m : n);
        const int own = tdm_int_min(TDM_INT_COLUMNS, swapped ? TM - m : lines - n);
        const int count = (int)(s.n - j < own ? s.n - j : own);
        int raw[TDM_INT_COLUMNS], column_sums[TDM_INT_COLUMNS], row_sum = 0;
        TDM_UNROLL for (int c = 0; c < TDM_INT_COLUMNS; c++) raw[c] = column_sums[c] = 0;
        if (task < tasks && i < s.m && count > 0) {
            for (int t = 0; t < shares; t++) {
                const int part = t * SUMS(lines);
                const int of_large = part + TM * lines, of_small = of_large + lines;
                row_sum = tdm_add_wrap(1, row_sum, cells[swapped ? of_large + n : of_small + m]);
                TDM_UNROLL for (int c = 0; c < TDM_INT_COLUMNS; c++) if (c < own) {
                    const int cell = swapped ? (m + c) * lines + n : m * lines + n + c;
                    raw[c] = tdm_add_wrap(1, raw[c], cells[part + cell]);
                    column_sums[c] = tdm_add_wrap(
                        1, column_sums[c], cells[swapped ? of_small + m + c : of_large + n + c]);
                }
            }
            tdm_int_columns columns;
            tdm_int_columns_begin(&columns, &io, s, e, q, column_sums, a_shift, j, count);
            tdm_int_row(raw, row_sum, &columns, &io, e, q, a_shift, i, j, count);
        }
    }
}
