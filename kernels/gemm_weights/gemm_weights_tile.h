/* Tiles of quantized weights, and of the floats that they are multiplied with, on tensor cores: shared text of
 * gemm_weights_mma.cu and gemm_weights_decode.cu.
 *
 * Both operands stand in lines along K, as checkpoints and packed weights have them. K goes in blocks of 32 steps, of which a line has
 * 64 bytes of floats, 32 of s8, 16 of s4; a tile has BLOCKS blocks of LINES lines:
 *
 *     block 0:  line 0 │ line 1 │ … │     block 1:  line 0 │ line 1 │ … │     …        no gaps
 *
 *     a line's block:   steps 0 … 7 │ 8 … 15 │ 16 … 23 │ 24 … 31               lane 4·g + t of a fragment has quarter t of line g
 *
 * An instruction adds 16 products in an order that nobody promises, so which steps are called its first is free as long as both
 * operands agree. The two instructions of a block therefore take what a lane reads by one load: 16 bytes of floats, 8 of
 * s8, 4 of s4. That is why weights need no order of their own in memory: as they lie, 16 bytes of a line are copied at a time, no
 * byte twice, and whole sectors of a line by the lanes of one copy.
 *
 * No bank conflicts: what a phase of a load asks for (two lines of floats, four of s8, eight of s4) is 128 bytes one after the
 * other; so are the 16-byte pieces that eight neighbouring items copy.
 *
 * Codes become f16 or bf16 without a conversion: as low bits of 1024 (f16), 128 (bf16) or 2^23 (f32), of which that
 * number and the zero point are taken again, exactly; s8 for bf16 goes by f32, whose upper half the difference fits. (The scheme
 * is that of fast integer conversion by exponent bits, as FasterTransformer and Marlin have it for weights; theirs puts codes into the order
 * of fragments beforehand.) Codes of s4 come out as 0 and 4, 1 and 5, 2 and 6, 3 and 7 of a lane's eight, two to a register: floats are paired like
 * that where they are read.
 *
 * Scales are never multiplied into codes, which would round them: they multiply the sums of a block, in f32.
 *
 * What cannot be copied 16 bytes at a time is read by elements: slow, and right. What lies outside is zeros.
 *
 * A text includes this after dialect.h, dialect_tensor.h and gemm_weights_steps.h, with MMA (f16 or bf16), IS_S4, TN,
 * ITEMS and BLOCKS. */
#ifndef TDM_GEMM_WEIGHTS_TILE_H
#define TDM_GEMM_WEIGHTS_TILE_H

#define BLOCK_STEPS 32
#define STEPS (BLOCK_STEPS * BLOCKS)
#define FLOAT_BYTES 64 /* of a line's block */
#define CODE_BYTES (IS_S4 ? 16 : 32)
#define MMA_IS_BF16_bf16 1
#define MMA_IS_BF16_f16 0
#define IS_BF16 TDM_CAT2(MMA_IS_BF16_, MMA)

/* ---- from global to local memory ---- */

/* What an item copies of an operand: in each tile the same pieces of 16 bytes, of lines `lines_apart` from each other. */
struct weights_source {
    const tdm_u8 *from; /* its first piece of the tile that comes next */
    long apart;         /* bytes from a piece to the next one */
    long element_bytes; /* from step to step, of floats */
    int step, to;
    int room;   /* lines of the matrix from the first piece's on */
    bool whole; /* pieces are copied as such */
};

/* LINES lines of BYTES bytes a block. */
template <int LINES, int BYTES> struct weights_pieces {
    static constexpr int PIECES = BYTES / 16;
    static constexpr int STRIDE = PIECES * 8 * BLOCKS; /* items that have eight lines */
    static constexpr int TOTAL = LINES * BLOCKS * PIECES;
    static constexpr int COUNT = (TOTAL + ITEMS - 1) / ITEMS;
    static constexpr int APART = ITEMS / STRIDE * 8; /* lines */
    static constexpr int PIECE_STEPS = BLOCK_STEPS / PIECES;
    static_assert(ITEMS % STRIDE == 0, "items do not divide into lines");
    static_assert(COUNT == 1 || TOTAL % ITEMS == 0, "the tile does not divide into pieces");
};

/* A tile whose first element, of the first line, is at `from`. */
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

/* Up to 16 bytes: of floats, elements; of codes, bytes. */
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

/* Asks for the next tile's first OF lines, of which `left` steps are there, none where it is negative. */
template <int LINES, int BYTES, bool WHOLE, int OF = LINES>
TDM_DEVICE void weights_ask(weights_source &s, tdm_u8 *to, int left) {
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

/* Of a column and a block. */
struct weights_pair {
    float scale;
    uint minus; /* what is added to a code's bits, as the codes' conversion wants it */
};

/* Where they are that an item reads: of one entry of the batch and one column. Items are in turn of TN columns. */
struct weights_parameters {
    const void *scale, *zero;
    long scale_at, zero_at;
    int per_group; /* blocks in a group; where these are 2^n, -n */
};

/* The sum of a part of K, recomputed where it is not finite. Products of bf16 with codes may
 * overflow, those of f16 do not. */
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

/* Of the tile that begins with column j0; past the matrix the last column's, which multiply zeros. */
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

TDM_DEVICE uint weights_minus(int zero) {
    if (IS_BF16 && !IS_S4)
        return tdm_float_bits(-8388736.0f - tdm_float(zero));
    const float minus = -(IS_BF16 ? 136.0f : IS_S4 ? 1032.0f : 1152.0f) - tdm_float(zero);
    const uint half = IS_BF16 ? tdm_cxx_bf16_narrow(minus) : tdm_cxx_f16_narrow(minus);
    return half | half << 16;
}

/* Of block `block` of K. */
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

/* A lane's eight codes of a line's block as floats less the zero point, two to a register. */
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

/* A lane's eight floats of a line's block, paired as the codes are. */
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

/* Where quarter t of line `line` is in block `block` of a tile of LINES lines. */
template <int LINES, int BYTES> TDM_DEVICE int weights_place(int block, int line, int t) {
    return (block * LINES + line) * BYTES + t * (BYTES / 4);
}

#endif
