/* The panel family on x86 cores that multiply pairs of bf16 (AVX-512 BF16). One instruction adds
 * the two products of two steps of K to each of 16 sums of f32, in the time of one fma.
 *
 *   strips   words of two bf16, two neighbouring steps of K: rows of A as they are in memory
 *   panel    words of rows 2q and 2q + 1 of one column of B. B is packed or in place; a work-item
 *            always copies it, once for all of its strips
 *
 * An odd K is padded with a zero. The instruction flushes denormal numbers, so numbers below 2^-126
 * in A, in B and among the sums count as 0.
 *
 * PoCL compiles for a CPU without this instruction. The loop over a tile is therefore a function
 * with its own target and plain pointers, as in gemm_int_panel_x86.cl. It uses inline assembly
 * because clang changed the types of the built-in.
 *
 * gemm_panel.cl includes this if PAIRS is among the defines of the variant. */
#ifndef TDM_GEMM_PANEL_PAIRS_H
#define TDM_GEMM_PANEL_PAIRS_H

#define PLAIN(type, p) ((type *)(size_t)(p))
#define OWN_TARGET                                                                                 \
    __attribute__((noinline, target("avx512bf16,avx512f,avx512bw,avx512dq,avx512vl")))

typedef ushort halves __attribute__((ext_vector_type(32)));
typedef halves halves_anywhere __attribute__((aligned(2)));
typedef halves halves_of_panel __attribute__((aligned(4)));
typedef VECTOR sums_anywhere __attribute__((aligned(4)));
typedef int8 words_anywhere __attribute__((aligned(2)));

TDM_DEVICE uint word_of(uint low, uint high) {
    return low | high << 16;
}

/* Copies rows of A. Rows past the matrix repeat the last one. */
TDM_DEVICE void copy_rows(TDM_GLOBAL const tdm_bf16 *a, long at, long a_row, long a_col, int rows,
                          int from, int filled, int depth, TDM_LOCAL uint *strips) {
    for (int i = from; i < filled; i++) {
        TDM_GLOBAL const tdm_bf16 *const row = a + at + (i < rows ? i : rows - 1) * a_row;
        TDM_LOCAL uint *const to = strips + i * STRIDE;
        int p = 0;
        if (a_col == 1)
            for (; p + 32 <= depth; p += 32)
                *(TDM_LOCAL halves_of_panel *)(to + p / 2) =
                    *(TDM_GLOBAL const halves_anywhere *)(row + p);
        for (; p < depth; p += 2)
            to[p / 2] = word_of(row[p * a_col], p + 1 < depth ? row[(p + 1) * a_col] : 0);
    }
}

/* Returns a word for each of eight neighbours along M: two steps of K. */
TDM_DEVICE s32x8 words_across(TDM_GLOBAL const tdm_bf16 *p, long step) {
    return convert_int8(tdm_opencl_load_8(p)) | convert_int8(tdm_opencl_load_8(p + step)) << 16;
}

/* Copies A that is contiguous along M: eight rows by eight words at a time. Returns the number of
 * rows that are done. */
TDM_DEVICE int copy_squares(TDM_GLOBAL const tdm_bf16 *a, long at, long a_col, int rows, int depth,
                            TDM_LOCAL uint *strips) {
    int i = 0;
    for (; i + 8 <= rows; i += 8) {
        int p = 0;
        for (; p + 16 <= depth; p += 16) {
            s32x8 square[8];
            TDM_UNROLL for (int q = 0; q < 8; q++) square[q] =
                words_across(a + at + i + (p + 2 * q) * a_col, a_col);
            s32x8_transpose(square);
            TDM_UNROLL for (int r = 0; r < 8; r++) *
                (TDM_LOCAL words_anywhere *)(strips + (i + r) * STRIDE + p / 2) = square[r];
        }
        for (int r = i; r < i + 8; r++)
            for (int q = p; q < depth; q += 2) {
                TDM_GLOBAL const tdm_bf16 *const from = a + at + r + q * a_col;
                strips[r * STRIDE + q / 2] = word_of(from[0], q + 1 < depth ? from[a_col] : 0);
            }
    }
    return i;
}

TDM_DEVICE void copy_a(TDM_GLOBAL const void *a, int type, long at, long a_row, long a_col,
                       int rows, int filled, int depth, TDM_LOCAL float *strips) {
    TDM_GLOBAL const tdm_bf16 *const from = (TDM_GLOBAL const tdm_bf16 *)a;
    TDM_LOCAL uint *const to = (TDM_LOCAL uint *)strips;
    const int done = a_row == 1 && a_col != 1 ? copy_squares(from, at, a_col, rows, depth, to) : 0;
    copy_rows(from, at, a_row, a_col, rows, done, filled, depth, to);
}

/* Copies columns of B that are contiguous along K, eight columns by eight words at a time, with
 * zeros past the matrix. Returns the first row that is not copied. */
TDM_DEVICE int copy_columns(TDM_GLOBAL const tdm_bf16 *b, long b_col, int columns, int depth,
                            TDM_LOCAL uint *panel) {
    int p = 0;
    for (; p + 32 <= depth; p += 32)
        for (int j = 0; j < NR; j += 8) {
            TDM_UNROLL for (int i = 0; i < 8; i++)
                tdm_prefetch_far(b + (j + i) * b_col + p + 2 * STEPS_AHEAD);
            TDM_UNROLL for (int q = p; q < p + 32; q += 16) {
                s32x8 square[8];
                TDM_UNROLL for (int i = 0; i < 8; i++) square[i] =
                    j + i < columns ? *(TDM_GLOBAL const words_anywhere *)(b + (j + i) * b_col + q)
                                    : s32x8_splat(0);
                s32x8_transpose(square);
                TDM_UNROLL for (int i = 0; i < 8; i++) *
                    (TDM_LOCAL words_anywhere *)(panel + (q / 2 + i) * NR + j) = square[i];
            }
        }
    return p;
}

/* Copies whole rows of a panel that are contiguous along N. Returns the first row that is not
 * copied. */
TDM_DEVICE int copy_whole_rows(TDM_GLOBAL const tdm_bf16 *b, long b_row, int depth,
                               TDM_LOCAL uint *panel) {
    int p = 0;
    for (; p + 2 <= depth; p += 2)
        TDM_UNROLL for (int j = 0; j < NR; j += 32) {
            TDM_GLOBAL const tdm_bf16 *const from = b + p * b_row + j;
            tdm_prefetch_far(from + PREFETCH_ROWS * b_row);
            tdm_prefetch_far(from + (PREFETCH_ROWS + 1) * b_row);
            const halves x = *(TDM_GLOBAL const halves_anywhere *)from,
                         y = *(TDM_GLOBAL const halves_anywhere *)(from + b_row);
            TDM_LOCAL halves_of_panel *const to =
                (TDM_LOCAL halves_of_panel *)(panel + p / 2 * NR + j);
            to[0] = __builtin_shufflevector(x, y, 0, 32, 1, 33, 2, 34, 3, 35, 4, 36, 5, 37, 6, 38,
                                            7, 39, 8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14,
                                            46, 15, 47);
            to[1] = __builtin_shufflevector(x, y, 16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53,
                                            22, 54, 23, 55, 24, 56, 25, 57, 26, 58, 27, 59, 28, 60,
                                            29, 61, 30, 62, 31, 63);
        }
    return p;
}

/* Copies `columns` of NR columns of B to the panel, with zeros past the matrix. */
TDM_DEVICE void copy_pairs(TDM_GLOBAL const tdm_bf16 *b, long b_row, long b_col, int columns,
                           int depth, TDM_LOCAL uint *panel) {
    int p = b_row == 1                    ? copy_columns(b, b_col, columns, depth, panel)
            : b_col == 1 && columns == NR ? copy_whole_rows(b, b_row, depth, panel)
                                          : 0;
    for (; p < depth; p += 2)
        for (int j = 0; j < NR; j++) {
            TDM_GLOBAL const tdm_bf16 *const from = b + p * b_row + j * b_col;
            panel[p / 2 * NR + j] =
                j >= columns ? 0 : word_of(from[0], p + 1 < depth ? from[b_row] : 0);
        }
}

/* acc += the products of the pairs in the words of a and b. */
#define ADD_PRODUCTS(acc, a, b) __asm__("vdpbf16ps %2, %1, %0" : "+v"(acc) : "v"(a), "v"(b))

/* Rounds two vectors of 16 sums to the nearest bf16. */
#define NARROW(halves, low, high)                                                                  \
    __asm__("vcvtne2ps2bf16 %1, %2, %0" : "=v"(halves) : "v"(low), "v"(high))

/* True if D is the plain result A·B, in bf16 and contiguous along its rows. The rounding
 * instruction flushes denormal numbers to 0, but sums are never denormal. */
TDM_DEVICE int is_narrowed_product(tdm_gemm_epilogue_arg e) {
    if (e.d_type != TDM_CODE_BF16)
        return 0;
    e.d_type = TDM_CODE_F32;
    return tdm_epilogue_is_plain(e);
}

/* Arguments of a tile: `to` = strip · panel, plus `from` unless it is NULL. D is f32, or bf16 if
 * `narrows`; `streams` selects non-temporal stores. */
typedef struct {
    const float *strip, *panel, *from;
    void *to;
    long to_row;
    prefetch_lines prefetch;
    int depth, narrows, streams;
} pairs_tile;

#define STORE_SUMS(ROWS, STORE, VECTORS)                                                           \
    EACH_SUM(ROWS) STORE(acc[r][v], (VECTORS *)((float *)t->to + r * to_row + v * VW));
#define STORE_NARROWED(ROWS, STORE, VECTORS)                                                       \
    TDM_UNROLL for (int r = 0; r < ROWS; r++) TDM_UNROLL for (int v = 0; v < NV; v += 2) {         \
        halves both;                                                                               \
        NARROW(both, acc[r][v], acc[r][v + 1]);                                                    \
        STORE(both, (VECTORS *)((tdm_bf16 *)t->to + r * to_row + v * VW));                         \
    }
#define STORE_ANYWHERE(x, p) (*(p) = (x))

#define MULTIPLY_PAIRS_BLOCK(ROWS) PANEL_BLOCK(ROWS, TAKE_COPIED)
#define MULTIPLY_PAIRS(NAME, ROWS)                                                                 \
    OWN_TARGET void NAME(const pairs_tile *t) {                                                    \
        const float *const strip = t->strip, *const panel = t->panel, *const from = t->from;       \
        const long to_row = t->to_row;                                                             \
        const int depth = t->depth;                                                                \
        prefetch_lines prefetch = t->prefetch;                                                     \
        /* Load B and A, and multiply-accumulate. */                                               \
        SUM_BLOCKS(ROWS, MULTIPLY_PAIRS_BLOCK, !from, from)                                        \
        /* Store the sums. */                                                                      \
        if (t->narrows && t->streams) {                                                            \
            STORE_NARROWED(ROWS, __builtin_nontemporal_store, halves)                              \
        } else if (t->narrows) {                                                                   \
            STORE_NARROWED(ROWS, STORE_ANYWHERE, halves_anywhere)                                  \
        } else if (t->streams) {                                                                   \
            STORE_SUMS(ROWS, __builtin_nontemporal_store, VECTOR)                                  \
        } else {                                                                                   \
            STORE_SUMS(ROWS, STORE_ANYWHERE, sums_anywhere)                                        \
        }                                                                                          \
    }

#define MULTIPLY(NAME, ROWS)                                                                       \
    MULTIPLY_PAIRS(NAME##_pairs, ROWS)                                                             \
    TDM_DEVICE void NAME(TDM_LOCAL const float *strip, TDM_GLOBAL const tdm_bf16 *b, int b_from,   \
                         long b_row, TDM_LOCAL float *panel, int depth, int first,                 \
                         prefetch_lines prefetch, int where, TDM_LOCAL float *kept,                \
                         TDM_GLOBAL float *d, long d_row, float *tile) {                           \
        const int to_d = where != TO_KEPT && where != TO_TILE;                                     \
        pairs_tile t;                                                                              \
        t.strip = PLAIN(const float, strip);                                                       \
        t.panel = PLAIN(const float, panel);                                                       \
        t.from = first ? 0 : PLAIN(const float, kept);                                             \
        t.to = to_d ? PLAIN(void, d) : where == TO_KEPT ? PLAIN(void, kept) : tile;                \
        t.to_row = to_d ? d_row : NR;                                                              \
        t.prefetch = prefetch;                                                                     \
        t.depth = (depth + 1) / 2;                                                                 \
        t.narrows = where == NARROWED || where == NARROWED_NONTEMPORAL;                            \
        t.streams = where == NONTEMPORAL || where == NARROWED_NONTEMPORAL;                         \
        NAME##_pairs(&t);                                                                          \
    }

#endif
