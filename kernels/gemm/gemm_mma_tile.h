/* The product of two tiles on tensor cores, shared text of gemm_mma.cu, gemm_3xtf32_mma.cu and gemm_int_mma.cu.
 *
 * A group multiplies TM lines of A (rows) by TN lines of B (columns), TK steps of K at a time: 64 bytes of a line. STAGES tiles of
 * each operand are in local memory, or on the way there by copies that no register holds:
 *
 *     stage:  A, TM lines · 64 bytes │ B, TN lines · 64 bytes           a chunk is 16 bytes
 *
 *   along K    line l, chunk c of its four:   chunk 4·l + (c ^ key(l)),      key(l) = (l / 2 % 4) ^ (l / 8 % 2)
 *   turned     step p, chunk c of its lines:  chunk (LINES / 8)·p + (c ^ p % 8)           16-bit elements
 *                                             chunk (LINES / 4)·p + (c ^ p % 4 · 2)       of 32 bits; of 8 none stand turned
 *
 * An operand stands turned where its lines are neighbours in memory: it is copied as it lies and turned on the way to registers, of
 * 32 bits by reading elements one by one.
 *
 * No bank conflicts: eight chunks of 128 bytes, the banks, are what eight lanes read or write at a time.
 *   along K, a fragment's lines 8·n … 8·n + 7 at one c: two neighbours are the halves of 128 bytes, and l / 2 % 4 takes four values,
 *     the other bit of the key one: c ^ key takes all four. Copies: two lines with four c each fill 128 bytes.
 *   turned, steps 8·n … 8·n + 7 at one c: p % 8 takes all eight values. Copies: eight neighbouring c of one p.
 *   turned, of 32 bits, elements of lines 8·n … 8·n + 7, two c, at four steps: p % 4 · 2 makes them eight different c.
 *   8-bit lines that are turned on the way in: lanes store lines 4·u + i, u of eight: l / 2 % 4 takes two values and l / 8 % 2 joins
 *     them to four; two lanes share a bank there, and nowhere else.
 *
 * A warp multiplies WM by WN of the tile in fragments of dialect_tensor.h: 16×32 bytes of A, 32 bytes×8 of B. The fragments of a
 * half of the tile's K are read while the other half is multiplied, over the end of a tile too: the barrier stands between
 * the two halves' reads, of which all warps then have what they need of the slot that is copied to next. The loop is there
 * once for each way in which the two operands may stand, and once for what is not copied by chunks.
 *
 * What cannot be copied 16 bytes at a time (addresses, strides) is read by elements and stored by the items, tile for tile: slow,
 * and right. So are 8-bit operands whose lines are neighbours, by words where that goes. What lies outside is zeros.
 *
 * A text includes this after defining TM, TN, WM, WN, STAGES, and ELEMENT_BYTES (4, 2 or 1). */
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
#define B_PAIRS (WN / 16) /* one load brings two fragments */
/* Row tiles whose groups follow each other before the next column of tiles. */
#define SQUARE 16

TDM_DEVICE int mma_place(int line, int chunk) {
    return line * LINE_BYTES + (chunk ^ (line / 2 % 4) ^ (line / 8 % 2)) * 16;
}
TDM_DEVICE int mma_place_turned(int lines, int step, int chunk) {
    const int key = ELEMENT_BYTES == 4 ? step % 4 * 2 : step % 8;
    return step * lines * ELEMENT_BYTES + (chunk ^ key) * 16;
}

/* ---- from global to local memory ---- */

#define BY_CHUNKS 0   /* copies of 16 bytes that run on */
#define BY_ELEMENTS 1 /* whatever the strides are */
#define BY_WORDS 2    /* of four lines of 8-bit elements, a step each */

/* What an item copies of an operand. The first element of its first chunk is of step `step` of the tile, and of the first of the
 * `room` lines that the matrix has from there on. */
struct mma_source {
    const tdm_u8 *from;                            /* its first chunk; by words, the tile */
    long element_stride, copy_stride, tile_stride; /* bytes */
    int step, room, to, form;
    bool turned;
};

/* Lines of 64 bytes, or of LINES elements where they stand turned. */
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

/* Up to 16 bytes of elements that lie `stride` bytes apart. */
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

/* Byte `which` of four words. */
TDM_DEVICE int mma_quad(const uint *step, int which) {
    return tdm_cxx_quad((int)(step[0] >> 8 * which), (int)(step[1] >> 8 * which),
                        (int)(step[2] >> 8 * which), (int)(step[3] >> 8 * which));
}

/* 16 steps of four lines that are neighbours, `unit` of the tile, as four chunks. */
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

/* How an operand stands, as far as the loop's text knows. */
#define ALONG 0
#define TURNED 1
#define ANY 2 /* its mma_source says it */

template <int STANDS> TDM_DEVICE bool mma_is_turned(const mma_source &s) {
    return ELEMENT_BYTES != 1 && (STANDS == TURNED || (STANDS == ANY && s.turned));
}

/* Asks for the next tile of LINES lines, of which `left` steps are in K, none where it is negative. */
template <int LINES, int STANDS> TDM_DEVICE void mma_ask(mma_source &s, tdm_u8 *to, int left) {
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

/* Where a lane reads: rows of matrices that begin at line `first` of the tile; of 32 bits that stand turned its first element. */
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

/* Of 32 bits that stand turned, register q: of A eight lines on by bit 0 and four steps on by bit 1, of B the other way round. */
template <int LINES, bool OF_A>
TDM_DEVICE uint mma_read_word(const tdm_u8 *tile, int at, int n, int q, int half) {
    const int upper = OF_A ? q % 2 : q / 2, later = OF_A ? q / 2 : q % 2;
    return *(const uint *)(tile + (at ^ (n * 64 + upper * 32)) +
                           (half * 8 + later * 4) * LINES * ELEMENT_BYTES);
}

/* Fragments of COUNT times 16 lines, of half `half` of the tile's K. */
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

/* All of K: multiply(a, b) is called with the fragments of each half of each tile, a's [A_FRAGMENTS][4] and b's [B_PAIRS][4]. What
 * is not copied by chunks is not read ahead either: registers go to its elements. */
template <int A, int B, class Multiply>
TDM_DEVICE void mma_walk_as(mma_source from_a, mma_source from_b, tdm_u8 *tiles, long k, int warp,
                            int lane, Multiply multiply) {
    constexpr bool AHEAD = A != ANY && B != ANY;
    const bool a_turned = mma_is_turned<A>(from_a), b_turned = mma_is_turned<B>(from_b);
    const int a_at = mma_reads_a(lane, a_turned, warp % (TM / WM) * WM);
    const int b_at = A_BYTES + mma_reads_b(lane, b_turned, warp / (TM / WM) * WN);
    uint a[2][A_FRAGMENTS][4], b[2][B_PAIRS][4];
#define ASK(slot, first)                                                                           \
    {                                                                                              \
        const long steps = k - (first);                                                            \
        const int left = (int)(steps < TK ? steps : TK);                                           \
        mma_ask<TM, A>(from_a, tiles + (slot)*STAGE_BYTES, left);                                  \
        mma_ask<TN, B>(from_b, tiles + (slot)*STAGE_BYTES + A_BYTES, left);                        \
        tdm_async_commit();                                                                        \
    }
#define READ(half, set)                                                                            \
    {                                                                                              \
        mma_read<TM, true>(a[set], tiles + slot * STAGE_BYTES, a_at, a_turned, half);              \
        mma_read<TN, false>(b[set], tiles + slot * STAGE_BYTES, b_at, b_turned, half);             \
    }
    TDM_NO_UNROLL for (int t = 0; t < STAGES - 1; t++) ASK(t, t * TK) tdm_async_wait(STAGES - 2);
    tdm_barrier();
    int slot = 0, next_slot = STAGES - 1;
    if (AHEAD)
        READ(0, 0)
    TDM_NO_UNROLL for (long p = 0; p < k; p += TK) {
        ASK(next_slot, p + (STAGES - 1) * TK)
        next_slot = slot;
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
    /* What follows may write to the tiles. */
    tdm_async_wait(0);
    tdm_barrier();
#undef ASK
#undef READ
}

/* The loop for operands that stand as these do. */
template <class Multiply>
TDM_DEVICE void mma_walk(const mma_source &from_a, const mma_source &from_b, tdm_u8 *tiles, long k,
                         int warp, int lane, Multiply multiply) {
    if (from_a.form != BY_CHUNKS || from_b.form != BY_CHUNKS)
        mma_walk_as<ANY, ANY>(from_a, from_b, tiles, k, warp, lane, multiply);
    else if (ELEMENT_BYTES != 1 && from_a.turned && from_b.turned)
        mma_walk_as<TURNED, TURNED>(from_a, from_b, tiles, k, warp, lane, multiply);
    else if (ELEMENT_BYTES != 1 && from_a.turned)
        mma_walk_as<TURNED, ALONG>(from_a, from_b, tiles, k, warp, lane, multiply);
    else if (ELEMENT_BYTES != 1 && from_b.turned)
        mma_walk_as<ALONG, TURNED>(from_a, from_b, tiles, k, warp, lane, multiply);
    else
        mma_walk_as<ALONG, ALONG>(from_a, from_b, tiles, k, warp, lane, multiply);
}

/* ---- where a group and a warp are ---- */

struct mma_position {
    long i0, j0, z; /* of the group's tile */
    int warp, lane;
    int row, column; /* of the warp in it */
};

/* Groups that follow each other cover squares of D, so that they share what they read in the last cache. */
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

/* The warp's scratch: what its tile of sums takes, in the place of the tiles. */
TDM_DEVICE uint *mma_scratch(tdm_u8 *tiles, int warp) {
    return (uint *)tiles + warp * (WM * WN);
}
/* Fragments (i, j) of 16 rows and 8 columns, to the scratch. */
template <class T>
TDM_DEVICE void mma_keep(const T (&acc)[A_FRAGMENTS][2 * B_PAIRS][4], uint *scratch, int lane) {
    TDM_UNROLL for (int i = 0; i < A_FRAGMENTS; i++)
        TDM_UNROLL for (int j = 0; j < 2 * B_PAIRS; j++) TDM_UNROLL for (int h = 0; h < 2; h++)
            tdm_fragment_keep(scratch, WN, 16 * i + 8 * h + lane / 4, 8 * j + lane % 4 * 2,
                              acc[i][j][2 * h], acc[i][j][2 * h + 1]);
    tdm_warp_barrier();
}

#endif
