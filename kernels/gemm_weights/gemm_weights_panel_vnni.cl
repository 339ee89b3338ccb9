/* Version of gemm_panel.cl for quantized rows of A and B of s4 or s8 with scales, on CPU cores with
 * VNNI. Products of quantized values are added in integers, group by group.
 *
 * The rows of a work-item are cut into micro-panels of A (strips) of MR. Its columns are cut into
 * micro-panels of B (panels) of NR, and K into blocks of KC steps:
 *
 *     compute the scale of every row
 *     for each block of K
 *       copy every strip's quantized values to local memory, rows STRIDE bytes apart, with the
 *           initial sums of each segment
 *       for each panel of B: unpack it to local memory
 *         for each strip, for each segment: sums += scale · (strip · panel)
 *         after the last block: store to D
 *
 * A segment is the part of a group that is in the block. OFFSET makes the weights unsigned. The
 * sums of a segment therefore begin at -OFFSET · Σ a, or at -(OFFSET + zero) · Σ a.
 *
 *     row of Bᵀ   32-bit words of WORD steps
 *     panel       rows of NR quads; a quad is 4 steps of a column. A word of s8 is a quad.
 *                 A word of s4 becomes two quads in two rows: of its even and of its odd steps
 *     strip       quantized values of A in the order of the quads; zeros past K, where the contents
 *                 of the panel do not matter
 *
 * B is stored as rows of Bᵀ that begin at a whole byte. Groups are multiples of LEAST_GROUP, or all
 * of K. Local memory, in this order, in bytes; strips and panels are the numbers in a work-item:
 *     strips                    strips · MR · STRIDE
 *     initial sums              strips · MR · SEGMENTS · 4
 *     a panel                   KC · NR
 *     its scales, its zeros     SEGMENTS · NR · 8
 *     sums, if K > KC           strips · panels · MR · NR · 4
 *     scales of rows            strips · MR · 4; last, so that all others begin at a cache line
 *
 * The grid is that of gemm_panel.cl.
 *
 * Parameters:
 *   MR, NR   rows and columns of a micro-tile, e.g. 6 and 32; sums of both kinds must fit registers
 *   KC       steps of K in a block, e.g. 1024
 *   IS_S4    1 if weights are s4, 0 if s8 */
#define TDM_EPILOGUE_VECTOR 16
#include "kernels/dialect/dialect.h"
#include "gemm_weights_rows.h"
#include "gemm_weights_vnni.h"

#define LANES 16
#define NV (NR / LANES)
#define STRIDE (KC + 64)
#define TILE (MR * NR)
#define LEAST_GROUP 32
#define SEGMENTS (KC / LEAST_GROUP)
#define PER_BYTE (IS_S4 ? 2 : 1)
#define WORD (4 * PER_BYTE)
#define SQUARE (8 * WORD) /* steps of eight words */
#define FLIP (IS_S4 ? (int)0x88888888 : (int)0x80808080)

typedef int16 ints;
typedef int16 ints_anywhere __attribute__((aligned(4)));
typedef float16 floats;
typedef float16 floats_anywhere __attribute__((aligned(4)));

/* ---- functions for a CPU with VNNI, with plain pointers ---- */

/* sums(i, j) = the sums of the segments, plus the previous contents unless `begins`. `zero` may be
 * NULL. */
typedef struct {
    const char *strip, *panel;
    const int *first; /* initial sums of row 0; rows are SEGMENTS apart */
    const float *scale;
    const int *zero;
    const int *quads; /* quads of each segment */
    float *sums;
    int segments, begins;
} tile_run;

#define SUMS_AT(sums, i, v) (*(floats_anywhere *)((sums) + (i)*NR + (v)*LANES))
#define EACH_SUM(ROWS)                                                                             \
    TDM_UNROLL for (int i = 0; i < ROWS; i++) TDM_UNROLL for (int v = 0; v < NV; v++)

#define DEFINE_MULTIPLY(NAME, ROWS)                                                                \
    TARGET void NAME(const tile_run *run) {                                                        \
        const char *strip = run->strip, *panel = run->panel;                                       \
        floats total[ROWS][NV];                                                                    \
        EACH_SUM(ROWS) total[i][v] = (floats)(0.0f);                                               \
        TDM_NO_UNROLL for (int x = 0; x < run->segments; x++) {                                    \
            const int *const first = run->first + x;                                               \
            ints sum[ROWS][NV];                                                                    \
            EACH_SUM(ROWS) sum[i][v] = (ints)(first[i * SEGMENTS]);                                \
            if (run->zero)                                                                         \
                EACH_SUM(ROWS)                                                                     \
            sum[i][v] += (sum[i][v] >> OFFSET_BITS) *                                              \
                         *(const ints_anywhere *)(run->zero + x * NR + v * LANES);                 \
            TDM_NO_UNROLL for (int quad = run->quads[x]; quad > 0; quad--) {                       \
                /* Load B. */                                                                      \
                ints b[NV];                                                                        \
                TDM_UNROLL for (int v = 0; v < NV; v++) b[v] =                                     \
                    *(const ints_anywhere *)(panel + v * 64);                                      \
                /* Load A and multiply-accumulate. */                                              \
                TDM_UNROLL for (int i = 0; i < ROWS; i++) {                                        \
                    const ints a = (ints)(*(const int *)(strip + i * STRIDE));                     \
                    TDM_UNROLL for (int v = 0; v < NV; v++) sum[i][v] =                            \
                        __builtin_ia32_vpdpbusd512(sum[i][v], b[v], a);                            \
                }                                                                                  \
                strip += 4;                                                                        \
                panel += 4 * NR;                                                                   \
            }                                                                                      \
            TDM_UNROLL for (int v = 0; v < NV; v++) {                                              \
                const floats scale = *(const floats_anywhere *)(run->scale + x * NR + v * LANES);  \
                TDM_UNROLL for (int i = 0; i < ROWS; i++) total[i][v] =                            \
                    tdm_fma(scale, __builtin_convertvector(sum[i][v], floats), total[i][v]);       \
            }                                                                                      \
        }                                                                                          \
        /* Store. */                                                                               \
        if (!run->begins)                                                                          \
            EACH_SUM(ROWS) total[i][v] += SUMS_AT(run->sums, i, v);                                \
        EACH_SUM(ROWS) SUMS_AT(run->sums, i, v) = total[i][v];                                     \
    }
DEFINE_MULTIPLY(multiply, MR)
DEFINE_MULTIPLY(multiply_4, 4)
DEFINE_MULTIPLY(multiply_2, 2)

/* ---- the work-item ---- */

#define PLAIN(type, p) ((type *)(size_t)(p))

/* The segments of a block of `depth` steps from p0 on. */
typedef struct {
    long first_group;
    int count;
    int steps[SEGMENTS + 1], quads[SEGMENTS + 1];
} block_segments;

TDM_DEVICE block_segments segments_of(long p0, int depth, long group) {
    block_segments b;
    b.first_group = p0 / group;
    b.count = 0;
    for (long p = p0; p < p0 + depth; b.count++) {
        const long end = (p / group + 1) * group;
        const int steps = (int)((end < p0 + depth ? end : p0 + depth) - p);
        b.steps[b.count] = steps;
        b.quads[b.count] = (steps + WORD - 1) / WORD * PER_BYTE;
        p += steps;
    }
    return b;
}

/* Stores 16 quantized values, the low bytes of v, in the order of the quads. */
TDM_DEVICE void store_codes(s32x16 v, TDM_LOCAL char *to) {
    typedef char16 bytes __attribute__((aligned(1)));
    const char16 codes = convert_char16(v);
#if IS_S4
    *(TDM_LOCAL bytes *)to = codes.s024613578ace9bdf;
#else
    *(TDM_LOCAL bytes *)to = codes;
#endif
}

/* Quantizes a row's part of a block, with zeros past K up to whole vectors, and computes its
 * initial sums. */
TDM_DEVICE void copy_row(TDM_GLOBAL const void *a, tdm_gemm_shape_arg s, long at, long p0,
                         const block_segments *b, float row_scale, TDM_LOCAL char *codes,
                         TDM_LOCAL int *first) {
    int p = 0;
    for (int x = 0; x < b->count; x++) {
        ints sum = (ints)(0);
        for (const int end = p + b->steps[x]; p < end; p += 16) {
            const s32x16 some =
                row_scale == 0.0f
                    ? s32x16_splat(0)
                    : codes_of(load_row(a, s.a_type, at, s.a_col, p0 + p, s.k), row_scale);
            store_codes(some, codes + p);
            sum += some;
        }
        first[x] = -OFFSET * sum_of_lanes(sum);
    }
}

/* Loads scales and zero points of a panel's columns in the block's segments. */
TDM_DEVICE void load_parameters(TDM_GLOBAL const void *scale, long scale_at,
                                TDM_GLOBAL const void *zero, long zero_at, tdm_gemm_weights_arg w,
                                const block_segments *b, int columns, TDM_LOCAL float *scales,
                                TDM_LOCAL int *zeros) {
    float own[SEGMENTS + 1];
    for (int j = 0; j < NR; j++) {
        if (j < columns)
            load_scales(scale, w.scale_type,
                        scale_at + j * w.scale_col + b->first_group * w.scale_row, w.scale_row,
                        b->count, own);
        for (int x = 0; x < b->count; x++)
            scales[x * NR + j] = j < columns ? own[x] : 0.0f;
        if (w.zero_type != TDM_CODE_ABSENT)
            for (int x = 0; x < b->count; x++)
                zeros[x * NR + j] =
                    j < columns
                        ? tdm_int_any(zero, w.zero_type,
                                      zero_at + j * w.zero_col + (b->first_group + x) * w.zero_row)
                        : 0;
    }
}

/* Stores the words of eight columns as quads of the panel. */
TDM_DEVICE void store_words(s32x8 words, TDM_LOCAL int *to) {
    const s32x8 codes = words ^ s32x8_splat(FLIP);
#if IS_S4
    s32x8_store_s32(codes & s32x8_splat(0x0f0f0f0f), to, 0);
    s32x8_store_s32((codes >> 4) & s32x8_splat(0x0f0f0f0f), to, NR);
#else
    s32x8_store_s32(codes, to, 0);
#endif
}

/* Returns the word at step p of a row of Bᵀ that has `steps` steps. */
TDM_DEVICE int word_of(TDM_GLOBAL const uchar *line, int p, int steps) {
    int word = 0;
    for (int x = 0; x < 4; x++)
        if (p + x * PER_BYTE < steps)
            word |= line[p / PER_BYTE + x] << (8 * x);
    return word;
}

/* Unpacks `columns` of a panel's columns, `depth` steps each. They begin at byte `at`, `pitch`
 * bytes apart. It prefetches the next panel's columns. */
TDM_DEVICE void unpack_panel(TDM_GLOBAL const uchar *b, long at, long pitch, int columns, int depth,
                             TDM_LOCAL int *panel) {
    for (int j = 0; j < NR; j += 8) {
        TDM_GLOBAL const uchar *const lines = b + at + j * pitch;
        int p = 0;
        for (; p + SQUARE <= depth; p += SQUARE) {
            s32x8 square[8];
            TDM_UNROLL for (int i = 0; i < 8; i++) {
                square[i] = j + i < columns ? s32x8_load_quads((TDM_GLOBAL const tdm_s8 *)lines,
                                                               i * pitch + p / PER_BYTE)
                                            : s32x8_splat(0);
                if (p / PER_BYTE % 64 == 0)
                    tdm_prefetch_far(lines + (NR + i) * pitch + p / PER_BYTE);
            }
            s32x8_transpose(square);
            TDM_UNROLL for (int x = 0; x < 8; x++)
                store_words(square[x], panel + (p / 4 + x * PER_BYTE) * NR + j);
        }
        for (; p < depth; p += WORD) {
            int words[8];
            for (int i = 0; i < 8; i++)
                words[i] = j + i < columns ? word_of(lines + i * pitch, p, depth) : 0;
            store_words(s32x8_load_s32(words, 0), panel + p / 4 * NR + j);
        }
    }
}

TDM_DEVICE void multiply_rows(const tile_run *run, int rows) {
    if (rows > 4)
        multiply(run);
    else if (rows > 2)
        multiply_4(run);
    else
        multiply_2(run);
}

TDM_BODY void do_item(TDM_WEIGHTS_ARGUMENTS, TDM_LOCAL char *scratch, long item, long z) {
    const long row_item = item % s.row_tiles, column_item = item / s.row_tiles;
    const long all_strips = (s.m + MR - 1) / MR, all_panels = (s.n + NR - 1) / NR;
    const long first_strip = row_item * all_strips / s.row_tiles;
    const long first_panel = column_item * all_panels / s.column_tiles;
    const int strips = (int)((row_item + 1) * all_strips / s.row_tiles - first_strip);
    const int panels = (int)((column_item + 1) * all_panels / s.column_tiles - first_panel);
    const long i0 = first_strip * MR;
    const int rows = (int)(s.m - i0 < strips * MR ? s.m - i0 : strips * MR);
    const long a0 = a_offset + z * s.a_batch + i0 * s.a_row;
    const long group = w.group < s.k ? w.group : s.k, pitch = s.b_col / PER_BYTE;
    const int has_zero = w.zero_type != TDM_CODE_ABSENT;

    TDM_LOCAL int *const first = (TDM_LOCAL int *)(scratch + strips * MR * STRIDE);
    TDM_LOCAL int *const panel = first + strips * MR * SEGMENTS;
    TDM_LOCAL float *const scales = (TDM_LOCAL float *)(panel + KC / 4 * NR);
    TDM_LOCAL int *const zeros = (TDM_LOCAL int *)(scales + SEGMENTS * NR);
    TDM_LOCAL float *const tiles = (TDM_LOCAL float *)(zeros + SEGMENTS * NR);
    TDM_LOCAL float *const row_scale = tiles + (s.k > KC ? strips * panels * TILE : 0);
    const tdm_epilogue_io io =
        tdm_epilogue_begin(c, c_offset, bias, bias_offset, residual, r_offset, d, d_offset, e, z);
    const int dense = tdm_epilogue_is_dense(e);
    for (int i = 0; i < rows; i++)
        row_scale[i] = scale_of_row(a, s.a_type, a0 + i * s.a_row, s.a_col, s.k);

    for (long p0 = 0; p0 < s.k; p0 += KC) {
        const int depth = (int)(s.k - p0 < KC ? s.k - p0 : KC), last = p0 + KC >= s.k;
        const block_segments b_segments = segments_of(p0, depth, group);
        /* Load a block of A. */
        for (int i = 0; i < rows; i++)
            copy_row(a, s, a0 + i * s.a_row, p0, &b_segments, row_scale[i], scratch + i * STRIDE,
                     first + i * SEGMENTS);
        for (int q = 0; q < panels; q++) {
            const long j0 = (first_panel + q) * NR;
            const int columns = (int)(s.n - j0 < NR ? s.n - j0 : NR);
            /* Load a panel of B. */
            unpack_panel((TDM_GLOBAL const uchar *)b,
                         (b_offset + z * s.b_batch + p0) / PER_BYTE + j0 * pitch, pitch, columns,
                         depth, panel);
            load_parameters(scale, scale_offset + z * w.scale_batch + j0 * w.scale_col, zero,
                            zero_offset + z * w.zero_batch + j0 * w.zero_col, w, &b_segments,
                            columns, scales, zeros);
            for (int t = 0; t < strips; t++) {
                const int tile_rows = rows - t * MR < MR ? rows - t * MR : MR;
                float tile[TILE];
                tile_run run;
                run.strip = PLAIN(const char, scratch + t * MR * STRIDE);
                run.panel = PLAIN(const char, panel);
                run.first = PLAIN(const int, first + t * MR * SEGMENTS);
                run.scale = PLAIN(const float, scales);
                run.zero = has_zero ? PLAIN(const int, zeros) : 0;
                run.quads = b_segments.quads;
                run.sums = s.k > KC ? PLAIN(float, tiles + (q * strips + t) * TILE) : tile;
                run.segments = b_segments.count;
                run.begins = p0 == 0;
                /* Multiply-accumulate. */
                multiply_rows(&run, tile_rows);
                /* Store. */
                for (int i = 0; last && i < tile_rows; i++) {
                    for (int j = 0; j < columns; j++)
                        tile[i * NR + j] = run.sums[i * NR + j];
                    end_row(tile + i * NR, j0, columns, row_scale[t * MR + i], a,
                            a0 + (t * MR + i) * s.a_row, b, b_offset + z * s.b_batch, scale,
                            scale_offset + z * w.scale_batch, zero,
                            zero_offset + z * w.zero_batch, s, w);
                    tdm_epilogue_row(tile + i * NR, io, e, i0 + t * MR + i, j0, columns, dense);
                }
            }
        }
    }
}

TDM_KERNEL_GROUP(TDM_ENTRY, 1, 1, 1)
(TDM_WEIGHTS_ARGUMENTS, TDM_LOCAL_ARGUMENT(char, scratch)) {
    TDM_ITEM_BEGIN;
    do_item(TDM_WEIGHTS_NAMES, scratch, tdm_group_x(), tdm_group_z());
}
