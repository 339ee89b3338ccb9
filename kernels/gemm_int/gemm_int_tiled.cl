/* Integer GEMM for GPU-like devices: a group computes a TM×TN tile of D, an item RM×RN of it in registers.
 *
 *                 TN                  The group copies TQ quads of K of TM rows of A and of TN columns of B to
 *             ┌────────┐ TQ           local memory, a quad being four steps of a line in one word, the first in
 *             │ b_tile │              its low byte; then each item multiplies its rows and columns:
 *        TQ   └────────┘                rows     y·RM + i                  i < RM
 *      ┌────┐ ┌────────┐                columns  v·4·GX + x·4 + 0…3        v < RN / 4
 *   TM │ a  │ │   D    │              Both tiles are stored by quads: (q, line), a line being a row of A or a
 *      └────┘ └────────┘              column of B. PAD words more a quad keep what neighbours store out of one bank.
 *
 * As in gemm_tiled.cl, items hold their part of the next tiles in registers while the group multiplies, and a
 * second pair of tiles makes one barrier a tile enough. Where K is contiguous an item reads words of one line; elsewhere four
 * words of four lines each, a step a word, whose bytes it transposes.
 *
 * The dot product of four takes A signed, or unsigned, as the device has it: where A is the other one, its bytes
 * are read with their top bit turned round, A + a_shift, which the sums of B's columns undo (gemm_int_epilogue.h).
 * Sums of lines are added up from the words on their way to local memory, and joined there at the end.
 *
 * Lines outside the matrices repeat the last one: what comes of them is not stored. Steps outside are zeros. The quads
 * of a tile are written out: K may be long where all loops of an item have 65535 passes.
 * Grid (row tiles · column tiles, 1, batch). */
#define TDM_EPILOGUE_VECTOR 4
#define TDM_INT_COLUMNS 4
#include "kernels/dialect/dialect.h"
#include "gemm_int_args.h"
#include "gemm_int_epilogue.h"

#define GX (TN / RN)
#define GY (TM / RM)
#define ITEMS (GX * GY)
/* Vectors of four lines in a quad. */
#define A_QUAD ((TM + PAD) / 4)
#define B_QUAD ((TN + PAD) / 4)
/* Vectors of four words that an item loads for a tile. */
#define A_LOADS (TM * TQ / 4 / ITEMS)
#define B_LOADS (TN * TQ / 4 / ITEMS)
#if A_LOADS * 4 * ITEMS != TM * TQ || B_LOADS * 4 * ITEMS != TN * TQ || PAD % 4 != 0
#error "the tiles do not divide into vectors"
#endif

/* Turns round the top bits of four bytes. */
#define TURN (-0x7f7f7f80)

/* Sums of the bytes of four words. */
TDM_DEVICE s32x4 sum_of(s32x4 x) {
    return (tdm_quad_byte(4, x, 0) + tdm_quad_byte(4, x, 1)) +
           (tdm_quad_byte(4, x, 2) + tdm_quad_byte(4, x, 3));
}
/* Unsigned bytes are signed ones with the top bit turned round, less 128. */
#define SUM_OF_A(x)                                                                                \
    (TDM_DOT4_UNSIGNED ? sum_of((x) ^ s32x4_splat(TURN)) + s32x4_splat(512) : sum_of(x))

/* An operand from the first line of the group's tile on. */
typedef struct {
    TDM_GLOBAL const tdm_u8 *from;
    long at;          /* element of that line at step 0 */
    long line, depth; /* strides */
    int last;         /* the last line there is */
    int along_depth;  /* words run along K */
    int words;        /* a tile with all its steps is read by words */
    int flip;         /* what bytes are combined with */
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

/* Four neighbours: lines from `line` on at step p, or steps from p on of that line. */
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

/* Line and quad of word t of a tile where words run along K, and of vector t of four lines elsewhere. */
#define WORD_LINE(t) ((t) / TQ)
#define WORD_QUAD(t) ((t) % TQ)
#define VECTOR_LINE(LINES, t) ((t) % ((LINES) / 4) * 4)
#define VECTOR_QUAD(LINES, t) ((t) / ((LINES) / 4))

/* Byte l of four steps of four lines: a quad of line l. */
TDM_DEVICE int quad_of(int k0, int k1, int k2, int k3, int l) {
    return tdm_quad(1, k0 >> 8 * l, k1 >> 8 * l, k2 >> 8 * l, k3 >> 8 * l);
}

/* Load n of an item: words 4·n … 4·n + 3 of its own, or a quad of each of four lines. */
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

/* Puts what load n brought, or what was made of it, to its place in a tile. */
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

/* Row l of the four in a_vec times the item's columns. */
#define ROW(l)                                                                                     \
    TDM_UNROLL for (int v = 0; v < RN / 4; v++)                                                    \
        acc[i + l][v] = tdm_dot4(4, TDM_LANE(4, a_vec, l), b_vec[v], acc[i + l][v]);
/* Quad Q of both tiles. */
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

    /* The first pass only fetches, the last one only multiplies. */
    int a_first = 0, b_first = 0;
    for (long p0 = -4 * TQ; p0 < k; p0 += 4 * TQ) {
        const int more = p0 + 4 * TQ < k;
        s32x4 a_next[A_LOADS], b_next[B_LOADS];
        if (more) {
            TDM_UNROLL for (int n = 0; n < A_LOADS; n++)
                a_next[n] = fetch(from_a, TM, p0 + 4 * TQ, k, n, item);
            TDM_UNROLL for (int n = 0; n < B_LOADS; n++)
                b_next[n] = fetch(from_b, TN, p0 + 4 * TQ, k, n, item);
        }
        if (p0 >= 0) {
            TDM_REPEAT(TQ, MULTIPLY)
        }
        a_first = TQ * A_QUAD - a_first;
        b_first = TQ * B_QUAD - b_first;
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

    /* The sums of lines, in the places of the words that they are of. */
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
