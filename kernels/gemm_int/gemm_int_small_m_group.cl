/* GEMM of s8 or u8 by s8 with small M or N (TM at a time), for GPU-like devices. The large operand
 * is read once, in place. The memory bandwidth of these reads limits the speed. A line of the large
 * operand is a column of B if M is small, or a row of A if N is small (`swapped`).
 *
 *   contiguous along K                           contiguous across lines
 *   ┌ 16 steps                                   ┌ 4 lines
 *   │share 0│share 1│ … │share 7│share 0│ …      │items 0, 1 … 15 │ 4 steps: share 0
 *   │share 0│ …                  items 0 … 7     │items 16 … 31   │          share 1
 *   │ …                                          │items 32 … 47   │          share 2
 *   │share 0│ …                  items 8 … 15    │items 48 … 63   │          share 3
 *   └ 32 lines                                   │items 0 … 15    │          share 0
 *
 * A work-group of ITEMS has TM lines of the small operand. A work-item has four lines of the large
 * operand and a share of K. If lines are contiguous along K, it loads 16 steps of a line at a time;
 * four of them are one dot product. Otherwise it loads one step of four lines, which are four
 * products.
 *
 * If A does not have the signedness that dot products expect, the sign bits of its bytes are
 * flipped. This gives A + a_shift, which the sums of B's columns correct (gemm_int_epilogue.h).
 *
 * Shares are joined in local memory, which holds for each share: TM·lines sums of products, by line
 * of the small operand │ sums of large lines │ sums of small lines. Work-items then finish four
 * columns of a row each. Operands that cannot be read in aligned pieces of 16 bytes (across lines:
 * aligned words) are read byte by byte, one step at a time. This is correct for any strides. Sums
 * are modulo 2^32, so their order does not matter.
 *
 * The code for each line of the small operand is unrolled by macros: rusticl 22.3 keeps arrays that
 * a loop indexes in memory, which takes up to ten times as long. The grid is (tiles of the small
 * side · tiles of the large side, 1, batch).
 *
 * Parameters:
 *   TM                          lines of the small operand at a time, e.g. 4
 *   TDM_DOT4_KHR, _ARM, _QCOM   extension with a dot product of four; without one it is emulated */
#define TDM_EPILOGUE_VECTOR 4
#define TDM_INT_COLUMNS 4
#include "kernels/dialect/dialect.h"
#include "gemm_int_args.h"
#include "gemm_int_epilogue.h"

#define ITEMS 64
/* Lines of a work-item (OWN) and of a work-group, and work-items that share a work-group's K. */
#define OWN 4
#define LINES_ALONG 32
#define LINES_ACROSS 64
#define SHARES_ALONG (ITEMS * OWN / LINES_ALONG)
#define SHARES_ACROSS (ITEMS * OWN / LINES_ACROSS)
/* Steps that a work-item takes at a time: along K, and across lines. */
#define PIECE 16
#define STEPS 4
/* Largest number of pieces of rows of D that a work-item finishes. */
#define TURNS ((TM + 3) / 4)
/* Sums of a share in local memory. The number is odd. */
#define SUMS(lines) ((TM * (lines) + (lines) + TM) | 1)
#define CELLS_ALONG (SHARES_ALONG * SUMS(LINES_ALONG))
#define CELLS_ACROSS (SHARES_ACROSS * SUMS(LINES_ACROSS))
#define CELLS (CELLS_ALONG > CELLS_ACROSS ? CELLS_ALONG : CELLS_ACROSS)

#define ONES 0x01010101
#define TURN ((int)0x80808080u)

/* An operand, from the first of the work-group's lines on. */
typedef struct {
    TDM_GLOBAL const tdm_u8 *from;
    long line, depth; /* strides */
    int last;         /* the last line of the matrix; lines past it repeat it and are not stored */
    int flip;         /* XOR mask of bytes before dot products */
    int mask;         /* AND mask after that: the byte is multiplied signed or unsigned */
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

/* True if pieces of `bytes` bytes along K are aligned. */
TDM_DEVICE int is_aligned(line_source s, int bytes) {
    return s.depth == 1 && tdm_address(s.from) % (ulong)bytes == 0 &&
           (s.last == 0 || s.line % bytes == 0);
}

TDM_DEVICE TDM_GLOBAL const tdm_u8 *place_of(line_source s, int line, int p) {
    return s.from + (tdm_int_min(line, s.last) * s.line + p * s.depth);
}

/* Returns steps p … p + 15 of a line, for dot products. */
TDM_DEVICE s32x4 piece_of(line_source s, int line, int p) {
    return *(TDM_GLOBAL const s32x4 *)place_of(s, line, p) ^ s32x4_splat(s.flip);
}

/* Returns four steps of a line, or one step of four lines, unconverted. */
TDM_DEVICE int word_of(line_source s, int line, int p) {
    return *(TDM_GLOBAL const tdm_s32 *)place_of(s, line, p);
}

/* Byte l of a word as the value that is multiplied. */
#define VALUE(word, l, source) (tdm_quad_byte(1, word, l) & (source).mask)

TDM_DEVICE s32x4 step_of_four(line_source s, int line, int p) {
    const int word = word_of(s, line, p);
    return s32x4_of(VALUE(word, 0, s), VALUE(word, 1, s), VALUE(word, 2, s), VALUE(word, 3, s));
}

/* Returns one step of a line as the value that is multiplied. */
TDM_DEVICE int step_of(line_source s, int line, int p) {
    const int byte = (int)(tdm_s8)(*place_of(s, line, p) ^ (tdm_u8)s.flip);
    return byte & s.mask;
}

/* Multiplies a word of a small line by a word of each of four large ones. If the dot product is
 * unsigned by signed, A's bytes are the first operand. */
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

/* Word l of a piece, of each of the work-item's lines. */
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

/* Load steps p … p + 15 of the work-item's lines, and multiply-accumulate. */
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

/* Load steps p … p + 3 of four neighbouring lines, and multiply-accumulate. */
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

/* Load step p of the work-item's lines, and multiply-accumulate. */
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
    /* The work-item's share of K, and its lines. */
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
    /* Join the shares. */
    const int cell0 = share * SUMS(lines);
    TDM_REPEAT(TM, KEEP)
    s32x4_store_s32(large_sums, cells, cell0 + TM * lines + line0);
    if (line0 == 0) {
        TDM_REPEAT(TM, KEEP_SMALL)
    }
    tdm_barrier();

    const int pieces = lines / TDM_INT_COLUMNS; /* pieces of a row, if lines are columns */
    const int tasks =
        swapped ? lines * ((TM + TDM_INT_COLUMNS - 1) / TDM_INT_COLUMNS) : pieces * TM;
    /* Store. */
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
