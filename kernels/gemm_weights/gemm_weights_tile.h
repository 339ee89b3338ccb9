/* Tiles of quantized weights, and of the floats that are multiplied by them on tensor cores.
 * gemm_weights_mma.cu and gemm_weights_decode.cu share this file.
 *
 * A line is a row of A (floats) or a column of B (weights). Both operands are contiguous along K,
 * as checkpoints and packed weights store them. K is processed in blocks of 32 steps. A block of a
 * line has 64 bytes of floats, 32 bytes of s8 or 16 bytes of s4. A tile has BLOCKS blocks of each
 * of LINES lines, without gaps:
 *
 *     block 0:  line 0 │ line 1 │ … │     block 1:  line 0 │ line 1 │ … │     …
 *
 *     block of a line:  quarter 0: steps 0 … 7 │ 1: 8 … 15 │ 2: 16 … 23 │ 3: 24 … 31
 *     lane 4·g + t of a fragment holds quarter t of line g
 *
 * A tensor-core instruction adds 16 products in an unspecified order. Any steps may therefore take
 * its 16 positions, if A and B agree. A block takes two instructions. Their operands are the
 * quarter that each lane reads by one load: 16 bytes of floats, 8 of s8 or 4 of s4. Weights hence
 * need no special order in memory. They are copied unchanged, in pieces of 16 bytes, and each byte
 * is copied once. The lanes of one copy cover whole memory sectors of a line.
 *
 * There are no bank conflicts. One phase of a load (two lines of floats, four of s8, eight of s4)
 * reads 128 contiguous bytes. The 16-byte pieces that eight neighbouring work-items copy are also
 * contiguous.
 *
 * Quantized values become f16 or bf16 without a conversion instruction. The sign bit of a value is
 * flipped, which adds 8 (s4) or 128 (s8) and makes it unsigned. The result replaces the low bits of
 * the float 1024 (f16), 128 (bf16) or 2^23 (f32). One exact addition then subtracts both numbers
 * and the zero point. s8 values for bf16 go through f32, and the upper half of the f32 holds the
 * difference exactly.
 *
 * This is the known scheme of fast integer conversion by exponent bits, as in FasterTransformer and
 * Marlin; they reorder the weights into fragment order beforehand. Here a lane's eight s4 values
 * come out in pairs, two to a register: 0 and 4, 1 and 5, 2 and 6, 3 and 7. Floats are paired in
 * the same way when they are read.
 *
 * Scales are never multiplied into quantized values, because that would round. They multiply the
 * f32 sums of a block.
 *
 * Operands that cannot be copied 16 bytes at a time are read element by element. That is slow but
 * correct. Elements outside the matrices are zeros.
 *
 * A kernel source includes this after dialect.h, dialect_tensor.h and gemm_weights_steps.h, and
 * defines
 *   MMA      type of the floats: f16 or bf16
 *   IS_S4    1 if weights are s4, 0 if s8
 *   TN       columns of a tile, e.g. 64
 *   ITEMS    work-items of a work-group
 *   BLOCKS   blocks of 32 steps of K in a tile */
#ifndef TDM_GEMM_WEIGHTS_TILE_H
#define TDM_GEMM_WEIGHTS_TILE_H

#define BLOCK_STEPS 32
#define STEPS (BLOCK_STEPS * BLOCKS)
#define FLOAT_BYTES 64 /* bytes of a block of a line */
#define CODE_BYTES (IS_S4 ? 16 : 32)
#define MMA_IS_BF16_bf16 1
#define MMA_IS_BF16_f16 0
#define IS_BF16 TDM_CAT2(MMA_IS_BF16_, MMA)

/* ---- from global to local memory ---- */

/* This describes the pieces of 16 bytes of an operand that one work-item copies. The pieces have
 * the same offsets in each tile, and their lines are a fixed distance apart. */
struct weights_source {
    const tdm_u8 *from; /* the first piece in the next tile */
    long apart;         /* bytes from one piece to the next */
    long element_bytes; /* stride of steps in bytes, for floats only */
    int step, to;       /* first step in the tile; byte offset of the first piece in local memory */
    int room;           /* lines of the tile within the matrix, from the first piece's line on */
    bool whole;         /* true if asynchronous copies of 16 bytes are possible */
};

/* These constants describe the pieces of a tile of LINES lines with BYTES bytes per block. */
template <int LINES, int BYTES> struct weights_pieces {
    static constexpr int PIECES = BYTES / 16;
    static constexpr int STRIDE = PIECES * 8 * BLOCKS; /* work-items for eight lines */
    static constexpr int TOTAL = LINES * BLOCKS * PIECES;
    static constexpr int COUNT = (TOTAL + ITEMS - 1) / ITEMS;
    static constexpr int APART = ITEMS / STRIDE * 8; /* lines from one piece to the next */
    static constexpr int PIECE_STEPS = BLOCK_STEPS / PIECES;
    static_assert(ITEMS % STRIDE == 0, "items do not divide into lines");
    static_assert(COUNT == 1 || TOTAL % ITEMS == 0, "the tile does not divide into pieces");
};

/* Returns the pieces of work-item `item`. `from` is the address of the first element of the tile's
 * first line. */
template <int LINES, int BYTES>
TDM_DEVICE weights_source weights_source_of(const void *from, long line_bytes, long element_bytes,
                                            long lines, int item) {
    typedef weights_pieces<LINES, BYTES> pieces;
    weights_source s;
    const int part = item % pieces::PIECES, block = item / (pieces::PIECES * 8) % BLOCKS;
    const int line = item / pieces::PIECES % 8 + item / pieces::STRIDE * 8;
    const long pitch = lines > 1 ? line_bytes : 0;
    s.step = block * BLOCK_STEPS + part * pieces::PIECE_STEPS;
    s.to = (block * LINES + line) * BYTES + part * 16;
    s.room = (int)(lines < LINES ? lines : LINES) - line;
    s.apart = pieces::APART * pitch;
    s.element_bytes = element_bytes;
    s.whole = (BYTES != FLOAT_BYTES || element_bytes == 2) && tdm_address(from) % 16 == 0 &&
              pitch % 16 == 0;
    s.from = (const tdm_u8 *)from + line * pitch +
             (BYTES == FLOAT_BYTES ? s.step * element_bytes : s.step * BYTES / BLOCK_STEPS);
    return s;
}

/* Reads up to 16 bytes, and fills the rest with zeros. Floats are read element by element,
 * quantized values byte by byte. */
template <int BYTES>
TDM_DEVICE s32x4 weights_gather(const tdm_u8 *from, long element_bytes, int bytes) {
    constexpr int SIZE = BYTES == FLOAT_BYTES ? 2 : 1;
    uint word[4] = {0, 0, 0, 0};
    TDM_UNROLL for (int x = 0; x < 16; x += SIZE) if (x < bytes) {
        const tdm_u8 *const p = from + (SIZE == 2 ? x / 2 * element_bytes : x);
        const uint bits = SIZE == 2 ? *(const ushort *)p : *p;
        word[x / 4] |= bits << (x % 4 * 8);
    }
    return s32x4_of((int)word[0], (int)word[1], (int)word[2], (int)word[3]);
}

/* Starts the copies of the first OF lines of the next tile. Only its first `left` steps are within
 * K; there are none if `left` is negative. */
template <int LINES, int BYTES, bool WHOLE, int OF = LINES>
TDM_DEVICE void weights_prefetch(weights_source &s, tdm_u8 *to, int left) {
    typedef weights_pieces<OF, BYTES> pieces;
    const int steps = tdm_int_min(tdm_int_max(left - s.step, 0), pieces::PIECE_STEPS);
    const int bytes = (steps * BYTES + BLOCK_STEPS - 1) / BLOCK_STEPS;
    const tdm_u8 *from = s.from;
#define PIECE_BYTES (n * pieces::APART < s.room ? bytes : 0)
    if (pieces::TOTAL >= ITEMS || tdm_item_x() < pieces::TOTAL) {
        if (WHOLE) {
            TDM_UNROLL for (int n = 0; n < pieces::COUNT; n++, from += s.apart)
                tdm_async_copy_16(to + s.to + n * pieces::APART * BYTES, from, PIECE_BYTES);
        } else {
            TDM_NO_UNROLL for (int n = 0; n < pieces::COUNT; n++, from += s.apart) *
                (s32x4 *)(to + s.to + n * pieces::APART * BYTES) =
                weights_gather<BYTES>(from, s.element_bytes, PIECE_BYTES);
        }
    }
#undef PIECE_BYTES
    s.from += BYTES == FLOAT_BYTES ? STEPS * s.element_bytes : (long)BLOCKS * BYTES;
}

/* ---- scales and zero points ---- */

/* This holds the scale and the zero point of one column and block. */
struct weights_pair {
    float scale;
    uint minus; /* weights_minus of the zero point */
};

/* This locates the scales and zero points that a work-item reads, for one batch entry and one
 * column. Work-item x reads those of column x % TN of the tile. */
struct weights_parameters {
    const void *scale, *zero;
    long scale_at, zero_at;
    int per_group; /* blocks in a group; -n if the number is 2^n */
};

/* Returns the sum over a part of K, recomputed if it is not finite. Products of bf16 and quantized
 * values may overflow. Those of f16 do not. */
TDM_DEVICE float weights_finite(float sum, const void *a, long a_offset, const void *b,
                                long b_offset, const void *scale, long scale_offset,
                                const void *zero, long zero_offset, tdm_gemm_shape_arg s,
                                tdm_gemm_weights_arg w, long z, long i, long j, long first) {
    if (tdm_abs(sum) < INFINITY)
        return sum;
    s.b_row = 1;
    return tdm_weights_sum(a, a_offset + z * s.a_batch + i * s.a_row, b,
                           b_offset + z * s.b_batch + j * s.b_col, scale,
                           scale_offset + z * w.scale_batch + j * w.scale_col, zero,
                           zero_offset + z * w.zero_batch + j * w.zero_col, s, w, 1.0f, first,
                           first + w.depth < s.k ? first + w.depth : s.k);
}

/* Returns the location of the parameters for the tile that begins at column j0. Columns past the
 * matrix use the parameters of the last column. They multiply zeros. */
TDM_DEVICE weights_parameters weights_parameters_of(const void *scale, long scale_offset,
                                                    const void *zero, long zero_offset,
                                                    tdm_gemm_shape_arg s, tdm_gemm_weights_arg w,
                                                    long z, long j0) {
    static_assert(ITEMS % TN == 0, "an item has several columns");
    weights_parameters p;
    const long own = j0 + tdm_item_x() % TN, j = own < s.n ? own : s.n - 1;
    p.scale = scale;
    p.zero = zero;
    p.scale_at = scale_offset + z * w.scale_batch + j * w.scale_col;
    p.zero_at = zero_offset + z * w.zero_batch + j * w.zero_col;
    p.per_group = w.group < s.k ? (int)(w.group / BLOCK_STEPS) : 1 << 30;
    const int shift = (int)(tdm_float_bits(tdm_float(p.per_group)) >> 23) - 127;
    if (p.per_group == 1 << shift)
        p.per_group = -shift;
    return p;
}

/* Returns the number that is added to convert a quantized value. It is one f32 for s8 to bf16, and
 * two equal f16 or bf16 otherwise. */
TDM_DEVICE uint weights_minus(int zero) {
    if (IS_BF16 && !IS_S4)
        return tdm_float_bits(-8388736.0f - tdm_float(zero));
    const float minus = -(IS_BF16 ? 136.0f : IS_S4 ? 1032.0f : 1152.0f) - tdm_float(zero);
    const uint half = IS_BF16 ? tdm_cxx_bf16_narrow(minus) : tdm_cxx_f16_narrow(minus);
    return half | half << 16;
}

/* Returns the scale and the zero point of block `block` of K. */
TDM_DEVICE weights_pair weights_pair_of(const weights_parameters &p, const tdm_gemm_weights_arg &w,
                                        int block) {
    weights_pair pair;
    const int g = p.per_group > 0 ? block / p.per_group : block >> -p.per_group;
    pair.scale = tdm_load_any(p.scale, w.scale_type, p.scale_at + g * w.scale_row);
    pair.minus = weights_minus(tdm_int_any(p.zero, w.zero_type, p.zero_at + g * w.zero_row));
    return pair;
}

TDM_DEVICE void weights_keep(weights_pair *to, weights_pair pair) {
    tdm_cxx_store_word(to, (ulong)tdm_float_bits(pair.scale) | (ulong)pair.minus << 32);
}
TDM_DEVICE weights_pair weights_kept(const weights_pair *from) {
    const ulong both = tdm_cxx_load_word<ulong>(from);
    return {tdm_bits_float((uint)both), (uint)(both >> 32)};
}

/* ---- from local memory to registers ---- */

/* Converts eight quantized values of a lane, and subtracts the zero point. Each register gets two
 * values. */
TDM_DEVICE void weights_values(uint (&value)[4], const tdm_u8 *codes, uint minus) {
#if IS_S4
    const uint magic = IS_BF16 ? 0x43084308u : 0x64086408u;
    const uint word = tdm_cxx_load_word<uint>(codes);
    TDM_UNROLL for (int x = 0; x < 4; x++) value[x] =
        TDM_CAT2(tdm_pair_add_, MMA)((word >> 4 * x & 0x000f000fu) ^ magic, minus);
#else
    const tdm_cxx_words_2 both = tdm_cxx_load_word<tdm_cxx_words_2>(codes);
    TDM_UNROLL for (int x = 0; x < 4; x++) {
        const uint word = (x < 2 ? both.w0 : both.w1) ^ 0x80808080u, first = x % 2 * 2;
        if (IS_BF16) {
            const uint low = tdm_bytes_of(word, 0x4b000000u, 0x7440u + first),
                       high = tdm_bytes_of(word, 0x4b000000u, 0x7441u + first);
            const float taken = tdm_bits_float(minus);
            value[x] = tdm_bytes_of(tdm_float_bits(tdm_bits_float(low) + taken),
                                    tdm_float_bits(tdm_bits_float(high) + taken), 0x7632u);
        } else {
            value[x] = TDM_CAT2(tdm_pair_add_, MMA)(
                tdm_bytes_of(word, 0x64646464u, 0x4140u + first * 0x101u), minus);
        }
    }
#endif
}

/* Reads eight floats of a lane, in the same pairs as the quantized values. */
TDM_DEVICE void weights_floats(uint (&value)[4], const tdm_u8 *floats) {
    const tdm_cxx_words_4 read = tdm_cxx_load_word<tdm_cxx_words_4>(floats);
#if IS_S4
    value[0] = tdm_bytes_of(read.w0, read.w2, 0x5410u);
    value[1] = tdm_bytes_of(read.w0, read.w2, 0x7632u);
    value[2] = tdm_bytes_of(read.w1, read.w3, 0x5410u);
    value[3] = tdm_bytes_of(read.w1, read.w3, 0x7632u);
#else
    value[0] = read.w0, value[1] = read.w1, value[2] = read.w2, value[3] = read.w3;
#endif
}

/* Returns the offset in bytes of quarter t of line `line`, in block `block` of a tile of LINES
 * lines. */
template <int LINES, int BYTES> TDM_DEVICE int weights_place(int block, int line, int t) {
    return (block * LINES + line) * BYTES + t * (BYTES / 4);
}

#endif
