/* Multiplication of two tiles on tensor cores; shared by gemm_mma.cu, gemm_3xtf32_mma.cu and
 * gemm_int_mma.cu.
 *
 * A line is a row of A or a column of B. A work-group multiplies TM rows of A by TN columns of B,
 * TK steps of K at a time. TK steps of a line have 64 bytes. STAGES tiles of each operand are in
 * local memory, or on the way there by asynchronous copies, which need no registers:
 *
 *     stage:  A, TM lines · 64 bytes │ B, TN lines · 64 bytes           a chunk is 16 bytes
 *
 *   along K    line l, chunk c of its four:   chunk 4·l + (c ^ key(l))
 *                                             key(l) = (l / 2 % 4) ^ (l / 8 % 2)
 *   turned     step p, chunk c of its lines:  chunk (LINES / 8)·p + (c ^ p % 8)       16 bits
 *                                             chunk (LINES / 4)·p + (c ^ p % 4 · 2)   32 bits
 *
 * An operand is turned if it is contiguous across lines, not along K. It is copied as it is, and
 * transposed on the way to registers. Elements of 32 bits are then read one by one. 8-bit operands
 * are never stored turned.
 *
 * There are no bank conflicts, with one exception below. Eight lanes access eight chunks at a time:
 * 128 bytes, which is one word of each bank.
 *   along K: a fragment reads lines 8·n … 8·n + 7 at one c. Two neighbouring lines are the halves
 *     of 128 bytes. l / 2 % 4 takes four values and l / 8 % 2 is constant, so c ^ key takes all
 *     four values. A copy writes two lines with four c each: 128 bytes.
 *   turned: a fragment reads steps 8·n … 8·n + 7 at one c; p % 8 takes all eight values.
 *     A copy writes eight neighbouring c of one p.
 *   turned, 32 bits: lanes read lines 8·n … 8·n + 7 (two c) at four steps; p % 4 · 2 makes them
 *     eight different c.
 *   8-bit lines transposed on the way in: eight lanes store lines 4·u + i, with eight u and one i.
 *     l / 2 % 4 takes two values and l / 8 % 2 makes them four. Two lanes share a bank here, and
 *     nowhere else.
 *
 * A warp multiplies WM×WN of the tile in the fragments of dialect_tensor.h: 16 × 32 bytes of A, 32
 * bytes × 8 of B. It reads the fragments of one half of the tile's K while it multiplies the other
 * half, across the end of a tile as well. The barrier is between the reads of the two halves: every
 * warp has then read all it needs from the slot that is overwritten next. The loop is instantiated
 * once for each combination of operand orders, and once for operands that are not copied by chunks.
 *
 * The addresses or strides of some operands prevent copies of 16 bytes. The work-items then read
 * elements one by one and store them, one tile at a time. This is slow but correct. 8-bit operands
 * that are contiguous across lines are copied this way too, by words where possible. Elements
 * outside the matrices are zeros.
 *
 * A source includes this after defining
 *   TM, TN          rows and columns of a work-group's tile, e.g. 128 and 256
 *   WM, WN          rows and columns of a warp's tile, multiples of 16, e.g. 64 and 64
 *   STAGES          tiles of each operand in local memory, at least 2, e.g. 4
 *   ELEMENT_BYTES   bytes of an element of A and B: 4, 2 or 1 */
#ifndef TDM_GEMM_MMA_TILE_H
#define TDM_GEMM_MMA_TILE_H

#include "kernels/dialect/dialect_tensor.h"
#include "gemm_args.h"

#define ITEMS (TM / WM * (TN / WN) * 32)
#define LINE_BYTES 64
#define CHUNKS 4
#define TK (LINE_BYTES / ELEMENT_BYTES)
#define CHUNK_ELEMENTS (16 / ELEMENT_BYTES)
#define A_BYTES (TM * LINE_BYTES)
#define STAGE_BYTES ((TM + TN) * LINE_BYTES)
#define A_FRAGMENTS (WM / 16)
#define B_PAIRS (WN / 16) /* one load reads two fragments */
/* Number of consecutive row tiles before the next column of tiles starts. */
#define SQUARE 16

TDM_DEVICE int mma_place(int line, int chunk) {
    return line * LINE_BYTES + (chunk ^ (line / 2 % 4) ^ (line / 8 % 2)) * 16;
}
TDM_DEVICE int mma_place_turned(int lines, int step, int chunk) {
    const int key = ELEMENT_BYTES == 4 ? step % 4 * 2 : step % 8;
    return step * lines * ELEMENT_BYTES + (chunk ^ key) * 16;
}

/* ---- from global to local memory ---- */

#define BY_CHUNKS 0   /* asynchronous copies of 16 bytes */
#define BY_ELEMENTS 1 /* any strides */
#define BY_WORDS 2    /* four lines of 8-bit elements at one step of K */

/* The part of an operand that a work-item copies. Its first chunk begins at step `step` of the
 * tile. The matrix has `room` lines from the chunk's line on. */
struct mma_source {
    const tdm_u8 *from;                            /* its first chunk; BY_WORDS: the tile */
    long element_stride, copy_stride, tile_stride; /* bytes */
    int step, room, to, form;
    bool turned;
};

/* Returns the part of an operand that `item` copies. A line has 64 bytes; a step of a turned
 * operand has LINES elements. */
template <int LINES>
TDM_DEVICE mma_source mma_source_of(const void *from, long at, long line, long depth, long lines,
                                    int item) {
    mma_source s;
    const bool along = depth == 1;
    const long other = along ? line : depth;
    s.from = (const tdm_u8 *)from + at * ELEMENT_BYTES;
    s.turned = ELEMENT_BYTES != 1 && !along && line == 1;
    const bool whole = tdm_address(s.from) % 16 == 0 && other * ELEMENT_BYTES % 16 == 0;
    s.form = (along || s.turned) && whole ? BY_CHUNKS : BY_ELEMENTS;
    if (ELEMENT_BYTES == 1 && !along && line == 1 && tdm_address(s.from) % 4 == 0 && depth % 4 == 0)
        s.form = BY_WORDS;
    const int chunks = s.turned ? LINES * ELEMENT_BYTES / 16 : CHUNKS;
    const int inner = item % chunks * CHUNK_ELEMENTS, outer = item / chunks;
    const int first = s.form == BY_WORDS ? 0 : s.turned ? inner : outer;
    s.room = (int)(lines < LINES ? lines : LINES) - first;
    s.step = s.form == BY_WORDS ? 0 : s.turned ? outer : inner;
    s.from += (first * line + s.step * depth) * ELEMENT_BYTES;
    s.element_stride = (s.turned ? line : depth) * ELEMENT_BYTES;
    s.copy_stride = ITEMS / chunks * (s.turned ? depth : line) * ELEMENT_BYTES;
    s.tile_stride = TK * depth * ELEMENT_BYTES;
    s.to =
        s.turned ? mma_place_turned(LINES, outer, item % chunks) : mma_place(outer, item % chunks);
    return s;
}

/* Reads up to 16 bytes: `elements` elements that are `stride` bytes apart. */
TDM_DEVICE s32x4 mma_gather(const tdm_u8 *from, long stride, int elements) {
    uint word[4] = {0, 0, 0, 0};
    TDM_UNROLL for (int x = 0; x < CHUNK_ELEMENTS; x++) if (x < elements) {
        const tdm_u8 *const p = from + x * stride;
        const uint bits = ELEMENT_BYTES == 4   ? *(const uint *)p
                          : ELEMENT_BYTES == 2 ? *(const ushort *)p
                                               : *p;
        word[x * ELEMENT_BYTES / 4] |= bits << (x * ELEMENT_BYTES % 4 * 8);
    }
    return s32x4_of((int)word[0], (int)word[1], (int)word[2], (int)word[3]);
}

/* Returns byte `which` of each of four words as a word. */
TDM_DEVICE int mma_quad(const uint *step, int which) {
    return tdm_cxx_quad((int)(step[0] >> 8 * which), (int)(step[1] >> 8 * which),
                        (int)(step[2] >> 8 * which), (int)(step[3] >> 8 * which));
}

/* Transposes 16 steps of four neighbouring lines (part `unit` of the tile) into four chunks. */
template <int LINES>
TDM_DEVICE void mma_turn_words(const mma_source &s, tdm_u8 *to, int left, int unit) {
    const int line = unit % (LINES / 4) * 4, chunk = unit / (LINES / 4);
    const int there = s.room - line;
    uint step[16];
    TDM_UNROLL for (int p = 0; p < 16; p++) {
        const tdm_u8 *const from = s.from + (chunk * 16 + p) * s.element_stride + line;
        const int lines = chunk * 16 + p < left ? there : 0;
        step[p] = lines >= 4 ? *(const uint *)from : 0u;
        if (lines < 4 && lines > 0)
            step[p] = from[0] | (lines > 1 ? (uint)from[1] << 8 : 0u) |
                      (lines > 2 ? (uint)from[2] << 16 : 0u);
    }
    TDM_UNROLL for (int l = 0; l < 4; l++) * (s32x4 *)(to + mma_place(line + l, chunk)) = s32x4_of(
        mma_quad(step, l), mma_quad(step + 4, l), mma_quad(step + 8, l), mma_quad(step + 12, l));
}

/* The order of an operand, as far as it is known at compile time. */
#define ALONG 0
#define TURNED 1
#define ANY 2 /* known at run time only: see mma_source */

template <int STANDS> TDM_DEVICE bool mma_is_turned(const mma_source &s) {
    return ELEMENT_BYTES != 1 && (STANDS == TURNED || (STANDS == ANY && s.turned));
}

/* Starts to copy the next tile of LINES lines. `left` steps of it are within K; a negative number
 * counts as none. */
template <int LINES, int STANDS> TDM_DEVICE void mma_prefetch(mma_source &s, tdm_u8 *to, int left) {
    constexpr int COPIES = LINES * CHUNKS / ITEMS;
    static_assert(COPIES * ITEMS == LINES * CHUNKS, "the tile does not divide into chunks");
    const bool turned = mma_is_turned<STANDS>(s);
    const int apart = turned ? ITEMS / (LINES * ELEMENT_BYTES / 16) : ITEMS / CHUNKS;
    const int steps = left - s.step, copies = turned ? steps : s.room;
    const int elements = tdm_int_min(tdm_int_max(turned ? s.room : steps, 0), CHUNK_ELEMENTS);
    const tdm_u8 *from = s.from;
    if (STANDS != ANY || s.form == BY_CHUNKS) {
        TDM_UNROLL for (int n = 0; n < COPIES; n++, from += s.copy_stride) tdm_async_copy_16(
            to + s.to + n * ITEMS * 16, from, n * apart < copies ? elements * ELEMENT_BYTES : 0);
    } else if (ELEMENT_BYTES == 1 && s.form == BY_WORDS) {
        TDM_NO_UNROLL for (int unit = tdm_item_x(); unit < LINES; unit += ITEMS)
            mma_turn_words<LINES>(s, to, left, unit);
    } else {
        TDM_NO_UNROLL for (int n = 0; n < COPIES; n++, from += s.copy_stride) *
            (s32x4 *)(to + s.to + n * ITEMS * 16) =
            mma_gather(from, s.element_stride, n * apart < copies ? elements : 0);
    }
    s.from += s.tile_stride;
}

/* ---- from local memory to registers, and multiplied ---- */

/* Returns the offset that a lane reads from, for matrices that begin at line `first` of the tile.
 * For turned 32-bit elements it is the offset of the lane's first element. */
TDM_DEVICE int mma_reads_words(int lines, int lane, int first) {
    return mma_place_turned(lines, lane % 4, first / 4 + lane / 16) + lane / 4 % 4 * 4;
}
TDM_DEVICE int mma_reads_a(int lane, bool turned, int first) {
    if (turned && ELEMENT_BYTES == 4)
        return mma_reads_words(TM, lane, first);
    return turned ? mma_place_turned(TM, lane / 16 * 8 + lane % 8, first / 8 + lane / 8 % 2)
                  : mma_place(first + lane % 16, lane / 16);
}
TDM_DEVICE int mma_reads_b(int lane, bool turned, int first) {
    if (turned && ELEMENT_BYTES == 4)
        return mma_reads_words(TN, lane, first);
    return turned ? mma_place_turned(TN, lane % 16, first / 8 + lane / 16)
                  : mma_place(first + lane / 16 * 8 + lane % 8, lane / 8 % 2);
}

/* Reads register q of turned 32-bit elements. In A, bit 0 of q means eight lines further and bit 1
 * four steps further; in B it is the reverse. */
template <int LINES, bool OF_A>
TDM_DEVICE uint mma_read_word(const tdm_u8 *tile, int at, int n, int q, int half) {
    const int upper = OF_A ? q % 2 : q / 2, later = OF_A ? q / 2 : q % 2;
    return *(const uint *)(tile + (at ^ (n * 64 + upper * 32)) +
                           (half * 8 + later * 4) * LINES * ELEMENT_BYTES);
}

/* Reads the fragments of COUNT times 16 lines, from half `half` of the tile's K. */
template <int LINES, bool OF_A, int COUNT>
TDM_DEVICE void mma_read(uint (&to)[COUNT][4], const tdm_u8 *tile, int at, bool turned, int half) {
    if (turned && ELEMENT_BYTES == 4) {
        TDM_UNROLL for (int n = 0; n < COUNT; n++) TDM_UNROLL for (int q = 0; q < 4; q++) to[n][q] =
            mma_read_word<LINES, OF_A>(tile, at, n, q, half);
    } else if (turned) {
        TDM_UNROLL for (int n = 0; n < COUNT; n++)
            tdm_matrices_load_turned(to[n], tile + (at ^ (n * 32)) + half * 16 * LINES * 2);
    } else {
        TDM_UNROLL for (int n = 0; n < COUNT; n++)
            tdm_matrices_load(to[n], tile + (at ^ (half * 32)) + n * 16 * LINE_BYTES);
    }
}

/* Traverses all of K. multiply(a, b) is called with the fragments of each half of each tile: a is
 * [A_FRAGMENTS][4], b is [B_PAIRS][4]. Operands that are not copied by chunks are not read ahead,
 * because their elements need the registers. */
template <int A, int B, class Multiply>
TDM_DEVICE void mma_main_loop_as(mma_source from_a, mma_source from_b, tdm_u8 *tiles, long k,
                                 int warp, int lane, Multiply multiply) {
    constexpr bool AHEAD = A != ANY && B != ANY;
    const bool a_turned = mma_is_turned<A>(from_a), b_turned = mma_is_turned<B>(from_b);
    const int a_at = mma_reads_a(lane, a_turned, warp % (TM / WM) * WM);
    const int b_at = A_BYTES + mma_reads_b(lane, b_turned, warp / (TM / WM) * WN);
    uint a[2][A_FRAGMENTS][4], b[2][B_PAIRS][4];
#define PREFETCH(slot, first)                                                                      \
    {                                                                                              \
        const long steps = k - (first);                                                            \
        const int left = (int)(steps < TK ? steps : TK);                                           \
        mma_prefetch<TM, A>(from_a, tiles + (slot)*STAGE_BYTES, left);                             \
        mma_prefetch<TN, B>(from_b, tiles + (slot)*STAGE_BYTES + A_BYTES, left);                   \
        tdm_async_commit();                                                                        \
    }
#define READ(half, set)                                                                            \
    {                                                                                              \
        mma_read<TM, true>(a[set], tiles + slot * STAGE_BYTES, a_at, a_turned, half);              \
        mma_read<TN, false>(b[set], tiles + slot * STAGE_BYTES, b_at, b_turned, half);             \
    }
    /* Load: start the copies of the first STAGES - 1 tiles. */
    TDM_NO_UNROLL for (int t = 0; t < STAGES - 1; t++) PREFETCH(t, t * TK)
        tdm_async_wait(STAGES - 2);
    tdm_barrier();
    int slot = 0, next_slot = STAGES - 1;
    if (AHEAD)
        READ(0, 0)
    TDM_NO_UNROLL for (long p = 0; p < k; p += TK) {
        /* Load: start the copies of a later tile. */
        PREFETCH(next_slot, p + (STAGES - 1) * TK)
        next_slot = slot;
        /* Read fragments and multiply-accumulate. */
        if (AHEAD) {
            READ(1, 1)
            multiply(a[0], b[0]);
        } else {
            READ(0, 0)
            multiply(a[0], b[0]);
            READ(1, 0)
            multiply(a[0], b[0]);
        }
        slot = slot + 1 < STAGES ? slot + 1 : 0;
        tdm_async_wait(STAGES - 2);
        tdm_barrier();
        if (AHEAD) {
            READ(0, 0)
            multiply(a[1], b[1]);
        }
    }
    /* The caller may overwrite the tiles after this. */
    tdm_async_wait(0);
    tdm_barrier();
#undef PREFETCH
#undef READ
}

/* Calls the instance of the loop for the orders of these operands. */
template <class Multiply>
TDM_DEVICE void mma_main_loop(const mma_source &from_a, const mma_source &from_b, tdm_u8 *tiles,
                              long k, int warp, int lane, Multiply multiply) {
    if (from_a.form != BY_CHUNKS || from_b.form != BY_CHUNKS)
        mma_main_loop_as<ANY, ANY>(from_a, from_b, tiles, k, warp, lane, multiply);
    else if (ELEMENT_BYTES != 1 && from_a.turned && from_b.turned)
        mma_main_loop_as<TURNED, TURNED>(from_a, from_b, tiles, k, warp, lane, multiply);
    else if (ELEMENT_BYTES != 1 && from_a.turned)
        mma_main_loop_as<TURNED, ALONG>(from_a, from_b, tiles, k, warp, lane, multiply);
    else if (ELEMENT_BYTES != 1 && from_b.turned)
        mma_main_loop_as<ALONG, TURNED>(from_a, from_b, tiles, k, warp, lane, multiply);
    else
        mma_main_loop_as<ALONG, ALONG>(from_a, from_b, tiles, k, warp, lane, multiply);
}

/* ---- positions of a work-group and a warp ---- */

struct mma_position {
    long i0, j0, z; /* first element of the work-group's tile, batch entry */
    int warp, lane;
    int row, column; /* offset of the warp's tile within it */
};

/* Consecutive work-groups cover squares of D, so that they share operands in the last-level
 * cache. */
TDM_DEVICE mma_position mma_here(tdm_gemm_shape_arg s) {
    mma_position at;
    const int group = (int)tdm_group_x(), row_tiles = (int)s.row_tiles;
    const int square = tdm_int_min(row_tiles, SQUARE) * (int)s.column_tiles;
    const int first_row = group / square * SQUARE;
    const int high = tdm_int_min(row_tiles - first_row, SQUARE);
    at.i0 = (long)(first_row + group % square % high) * TM;
    at.j0 = (long)(group % square / high) * TN;
    at.z = tdm_group_z();
    at.warp = tdm_item_x() / 32;
    at.lane = tdm_item_x() % 32;
    at.row = at.warp % (TM / WM) * WM;
    at.column = at.warp / (TM / WM) * WN;
    return at;
}

/* Returns the warp's scratch, which overlays the tiles and has room for the warp's sums. */
TDM_DEVICE uint *mma_scratch(tdm_u8 *tiles, int warp) {
    return (uint *)tiles + warp * (WM * WN);
}
/* Writes the warp's fragments (16 rows, 8 columns each) to the scratch. */
template <class T>
TDM_DEVICE void mma_keep(const T (&acc)[A_FRAGMENTS][2 * B_PAIRS][4], uint *scratch, int lane) {
    TDM_UNROLL for (int i = 0; i < A_FRAGMENTS; i++)
        TDM_UNROLL for (int j = 0; j < 2 * B_PAIRS; j++) TDM_UNROLL for (int h = 0; h < 2; h++)
            tdm_fragment_keep(scratch, WN, 16 * i + 8 * h + lane / 4, 8 * j + lane % 4 * 2,
                              acc[i][j][2 * h], acc[i][j][2 * h + 1]);
    tdm_warp_barrier();
}

#endif
