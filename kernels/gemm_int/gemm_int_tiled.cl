/* Integer GEMM for GPU-like devices: a work-group computes a TM×TN tile of D, and a work-item RM×RN
 * elements of it in registers.
 *
 *                  TN                 The work-group copies TQ quads of K of TM rows of A and of TN
 *              ┌────────┐ TQ          columns of B to local memory. A quad is four steps of a line
 *              │ b_tile │             in one word, the first in its low byte. Each work-item then
 *         TQ   └────────┘             multiplies its rows and columns:
 *       ┌────┐ ┌────────┐               rows     y·RM + i                  i < RM
 *    TM │ a  │ │   D    │               columns  v·4·GX + x·4 + 0…3        v < RN / 4
 *       └────┘ └────────┘
 *
 * Both tiles are stored by quads: (q, line). A line is a row of A or a column of B.
 *
 * Parameters:
 *   TM, TN   rows and columns of a work-group's tile, e.g. 64 and 64
 *   TQ       quads of K in a tile, e.g. 16
 *   RM, RN   rows and columns of a work-item's register tile (MR×NR in BLIS), e.g. 4 and 4
 *   PAD      words added to each quad of a tile, a multiple of 4, e.g. 4; this puts words that
 *            neighbours store into different banks
 *   TDM_DOT4_KHR, _ARM, _QCOM   extension with a dot product of four; without one it is emulated
 *
 * As in gemm_tiled.cl, work-items prefetch their part of the next tiles to registers while the
 * work-group multiplies. With a second pair of tiles, one barrier per tile is enough. If K is
 * contiguous, a work-item reads words of one line. Otherwise it reads four words of four lines
 * each, one word per step, and transposes their bytes.
 *
 * The dot product of four expects A signed or unsigned, depending on the device. If A is the other
 * one, the sign bits of its bytes are flipped. This gives A + a_shift, which the sums of B's
 * columns correct (gemm_int_epilogue.h). The sums of lines are accumulated from the words on their
 * way to local memory, and joined there at the end.
 *
 * Lines outside the matrices repeat the last one, and their results are not stored. Steps outside
 * are zeros. The quads of a tile are unrolled by macros, so that K may be large on devices whose
 * loops have at most 65535 iterations. The grid is (row tiles · column tiles, 1, batch). */
#define TDM_EPILOGUE_VECTOR 4
#define TDM_INT_COLUMNS 4
#include "kernels/dialect/dialect.h"
#include "gemm_int_args.h"
#include "gemm_int_epilogue.h"

#define GX (TN / RN)
#define GY (TM / RM)
#define ITEMS (GX * GY)
/* Vectors of four lines in a quad of a tile. */
#define A_QUAD ((TM + PAD) / 4)
#define B_QUAD ((TN + PAD) / 4)
/* Vectors of four words that a work-item loads for a tile. */
#define A_LOADS (TM * TQ / 4 / ITEMS)
#define B_LOADS (TN * TQ / 4 / ITEMS)
#if A_LOADS * 4 * ITEMS != TM * TQ || B_LOADS * 4 * ITEMS != TN * TQ || PAD % 4 != 0
#error "the tiles do not divide into vectors"
#endif

/* XOR mask that flips the sign bits of four bytes. */
#define TURN (-0x7f7f7f80)

/* Returns the sums of the bytes of four words. */
TDM_DEVICE s32x4 sum_of(s32x4 x) {
    return (tdm_quad_byte(4, x, 0) + tdm_quad_byte(4, x, 1)) +
           (tdm_quad_byte(4, x, 2) + tdm_quad_byte(4, x, 3));
}
/* An unsigned byte equals 128 plus the signed byte whose bits are the same except for the top
 * one. */
#define SUM_OF_A(x)                                                                                \
    (TDM_DOT4_UNSIGNED ? sum_of((x) ^ s32x4_splat(TURN)) + s32x4_splat(512) : sum_of(x))

/* An operand, from the first line of the work-group's tile on. */
typedef struct {
    TDM_GLOBAL const tdm_u8 *from;
    long at;          /* index of that line's element at step 0 */
    long line, depth; /* strides */
    int last;         /* index of the last line inside the matrix */
    int along_depth;  /* words are contiguous along K */
    int words;        /* a tile that has all its steps is read by words */
    int flip;         /* XOR mask of bytes */
} tile_source;

TDM_DEVICE tile_source source_of(TDM_GLOBAL const void *from, long at, long line, long depth,
                                 long lines, int tile_lines, int flip) {
    tile_source s;
    s.from = (TDM_GLOBAL const tdm_u8 *)from;
    s.at = at;
    s.line = line;
    s.depth = depth;
    s.last = (int)(lines < tile_lines ? lines : tile_lines) - 1;
    s.along_depth = depth == 1;
    const long pitch = s.along_depth ? line : depth;
    s.words = (tdm_address(s.from) + (ulong)at) % 4 == 0 && pitch % 4 == 0 &&
              (s.along_depth || (line == 1 && lines >= tile_lines));
    s.flip = flip;
    return s;
}

TDM_DEVICE int byte_of(tile_source s, int line, long p, long k) {
    return p < k ? (int)(s.from[s.at + tdm_int_min(line, s.last) * s.line + p * s.depth]) ^
                       (s.flip & 0xff)
                 : 0;
}

/* Returns four neighbours: four lines from `line` on at step p, or four steps of that line from p
 * on. */
TDM_DEVICE int word_of(tile_source s, int by_words, int line, long p, long k) {
    if (by_words) {
        const long at = s.at + tdm_int_min(line, s.last) * s.line + p * s.depth;
        return *(TDM_GLOBAL const tdm_s32 *)(s.from + at) ^ s.flip;
    }
    const int next = s.along_depth ? 0 : 1, step = s.along_depth ? 1 : 0;
    return byte_of(s, line, p, k) | byte_of(s, line + next, p + step, k) << 8 |
           byte_of(s, line + 2 * next, p + 2 * step, k) << 16 |
           byte_of(s, line + 3 * next, p + 3 * step, k) << 24;
}

/* Line and quad of word t of a tile if words are contiguous along K, and of vector t of four lines
 * otherwise. */
#define WORD_LINE(t) ((t) / TQ)
#define WORD_QUAD(t) ((t) % TQ)
#define VECTOR_LINE(LINES, t) ((t) % ((LINES) / 4) * 4)
#define VECTOR_QUAD(LINES, t) ((t) / ((LINES) / 4))

/* Returns byte l of four steps of four lines: a quad of line l. */
TDM_DEVICE int quad_of(int k0, int k1, int k2, int k3, int l) {
    return tdm_quad(1, k0 >> 8 * l, k1 >> 8 * l, k2 >> 8 * l, k3 >> 8 * l);
}

/* Returns load n of a work-item: words 4·n … 4·n + 3 of its own, or a quad of each of four
 * lines. */
TDM_DEVICE s32x4 fetch(tile_source s, int tile_lines, long p0, long k, int n, int item) {
    const int by_words = s.words && p0 + 4 * TQ <= k;
    int w[4];
    if (s.along_depth) {
        TDM_UNROLL for (int i = 0; i < 4; i++) {
            const int t = (n * 4 + i) * ITEMS + item;
            w[i] = word_of(s, by_words, WORD_LINE(t), p0 + 4 * WORD_QUAD(t), k);
        }
    } else {
        const int t = n * ITEMS + item;
        const int line = VECTOR_LINE(tile_lines, t);
        const long p = p0 + 4 * VECTOR_QUAD(tile_lines, t);
        const int k0 = word_of(s, by_words, line, p, k), k1 = word_of(s, by_words, line, p + 1, k),
                  k2 = word_of(s, by_words, line, p + 2, k),
                  k3 = word_of(s, by_words, line, p + 3, k);
        TDM_UNROLL for (int l = 0; l < 4; l++) w[l] = quad_of(k0, k1, k2, k3, l);
    }
    return s32x4_of(w[0], w[1], w[2], w[3]);
}

/* Stores load n, or sums made from it, at its offset in a tile. */
#define KEEP_WORD(i)                                                                               \
    {                                                                                              \
        const int t = (n * 4 + i) * ITEMS + item;                                                  \
        words[WORD_QUAD(t) * STRIDE + WORD_LINE(t)] = TDM_LANE(4, x, i);                           \
    }
#define KEEP(LINES, s, value, tile, first)                                                         \
    {                                                                                              \
        const s32x4 x = (value);                                                                   \
        const int STRIDE = (LINES) + PAD, t_ = n * ITEMS + item;                                   \
        TDM_LOCAL int *const words = (TDM_LOCAL int *)((tile) + (first));                          \
        if ((s).along_depth) {                                                                     \
            KEEP_WORD(0) KEEP_WORD(1) KEEP_WORD(2) KEEP_WORD(3)                                    \
        } else {                                                                                   \
            (tile)[(first) + VECTOR_QUAD(LINES, t_) * (STRIDE / 4) +                               \
                   VECTOR_LINE(LINES, t_) / 4] = x;                                                \
        }                                                                                          \
    }

/* Multiply-accumulate: row l of the four in a_vec times the work-item's columns. */
#define ROW(l)                                                                                     \
    TDM_UNROLL for (int v = 0; v < RN / 4; v++)                                                    \
        acc[i + l][v] = tdm_dot4(4, TDM_LANE(4, a_vec, l), b_vec[v], acc[i + l][v]);
/* Quad Q of both tiles: reads it from local memory and multiplies. */
#define MULTIPLY(Q)                                                                                \
    {                                                                                              \
        s32x4 b_vec[RN / 4];                                                                       \
        TDM_UNROLL for (int v = 0; v < RN / 4; v++)                                                \
            b_vec[v] = b_tile[b_first + (Q)*B_QUAD + v * GX + x];                                  \
        TDM_UNROLL for (int i = 0; i < RM; i += 4) {                                               \
            const s32x4 a_vec = a_tile[a_first + (Q)*A_QUAD + (y * RM + i) / 4];                   \
            ROW(0) ROW(1) ROW(2) ROW(3)                                                            \
        }                                                                                          \
    }

TDM_KERNEL_GROUP(TDM_ENTRY, GX, GY, 1)(TDM_INT_ARGUMENTS) {
    TDM_LOCAL_ARRAY(s32x4, a_tile, 2 * TQ * A_QUAD);
    TDM_LOCAL_ARRAY(s32x4, b_tile, 2 * TQ * B_QUAD);
    const int x = tdm_item_x(), y = tdm_item_y(), item = y * GX + x;
    const long z = tdm_group_z(), k = s.k;
    const long i0 = tdm_group_x() % s.row_tiles * TM, j0 = tdm_group_x() / s.row_tiles * TN;
    const int turned = (s.a_type == TDM_CODE_U8) != TDM_DOT4_UNSIGNED;
    const int a_shift = !turned ? 0 : TDM_DOT4_UNSIGNED ? 128 : -128;
    const tile_source from_a = source_of(a, a_offset + z * s.a_batch + i0 * s.a_row, s.a_row,
                                         s.a_col, s.m - i0, TM, turned ? TURN : 0);
    const tile_source from_b = source_of(b, b_offset + z * s.b_batch + j0 * s.b_col, s.b_col,
                                         s.b_row, s.n - j0, TN, 0);

    s32x4 acc[RM][RN / 4], a_sums[A_LOADS], b_sums[B_LOADS];
    TDM_UNROLL for (int i = 0; i < RM; i++)
        TDM_UNROLL for (int v = 0; v < RN / 4; v++) acc[i][v] = s32x4_splat(0);
    TDM_UNROLL for (int n = 0; n < A_LOADS; n++) a_sums[n] = s32x4_splat(0);
    TDM_UNROLL for (int n = 0; n < B_LOADS; n++) b_sums[n] = s32x4_splat(0);

    /* The first iteration only loads, the last one only multiplies. */
    int a_first = 0, b_first = 0;
    for (long p0 = -4 * TQ; p0 < k; p0 += 4 * TQ) {
        const int more = p0 + 4 * TQ < k;
        s32x4 a_next[A_LOADS], b_next[B_LOADS];
        /* Load the next tiles to registers. */
        if (more) {
            TDM_UNROLL for (int n = 0; n < A_LOADS; n++)
                a_next[n] = fetch(from_a, TM, p0 + 4 * TQ, k, n, item);
            TDM_UNROLL for (int n = 0; n < B_LOADS; n++)
                b_next[n] = fetch(from_b, TN, p0 + 4 * TQ, k, n, item);
        }
        /* Multiply-accumulate the current tiles. */
        if (p0 >= 0) {
            TDM_REPEAT(TQ, MULTIPLY)
        }
        a_first = TQ * A_QUAD - a_first;
        b_first = TQ * B_QUAD - b_first;
        /* Store the next tiles to local memory. */
        if (more) {
            TDM_UNROLL for (int n = 0; n < A_LOADS; n++) {
                a_sums[n] = tdm_add_wrap(4, a_sums[n], SUM_OF_A(a_next[n]));
                KEEP(TM, from_a, a_next[n], a_tile, a_first)
            }
            TDM_UNROLL for (int n = 0; n < B_LOADS; n++) {
                b_sums[n] = tdm_add_wrap(4, b_sums[n], sum_of(b_next[n]));
                KEEP(TN, from_b, b_next[n], b_tile, b_first)
            }
        }
        tdm_barrier();
    }

    /* Join the sums of lines, which are stored at the offsets of the words that they come from. */
    TDM_UNROLL for (int n = 0; n < A_LOADS; n++) KEEP(TM, from_a, a_sums[n], a_tile, 0)
    TDM_UNROLL for (int n = 0; n < B_LOADS; n++) KEEP(TN, from_b, b_sums[n], b_tile, 0)
    tdm_barrier();
    int row_sums[RM], column_sums[RN], raw[RM * RN];
    TDM_UNROLL for (int i = 0; i < RM; i += 4) {
        s32x4 sum = s32x4_splat(0);
        TDM_UNROLL for (int u = 0; u < TQ; u++)
            sum = tdm_add_wrap(4, sum, a_tile[u * A_QUAD + (y * RM + i) / 4]);
        s32x4_store_s32(sum, row_sums, i);
    }
    TDM_UNROLL for (int v = 0; v < RN / 4; v++) {
        s32x4 sum = s32x4_splat(0);
        TDM_UNROLL for (int u = 0; u < TQ; u++)
            sum = tdm_add_wrap(4, sum, b_tile[u * B_QUAD + v * GX + x]);
        s32x4_store_s32(sum, column_sums, v * 4);
    }
    TDM_UNROLL for (int i = 0; i < RM; i++)
        TDM_UNROLL for (int v = 0; v < RN / 4; v++)
            s32x4_store_s32(acc[i][v], raw, i * RN + v * 4);

    /* Store. */
    TDM_INT_IO(io, z);
    for (int v = 0; v < RN / 4; v++) {
        const long j = j0 + v * 4 * GX + x * 4;
        const int count = (int)(s.n - j < 4 ? s.n - j : 4);
        if (count > 0) {
            tdm_int_columns columns;
            tdm_int_columns_begin(&columns, &io, s, e, q, column_sums + v * 4, a_shift, j, count);
            for (int i = 0; i < RM; i++) {
                const long row = i0 + y * RM + i;
                if (row < s.m)
                    tdm_int_row(raw + i * RN + v * 4, row_sums[i], &columns, &io, e, q, a_shift,
                                row, j, count);
            }
        }
    }
}
