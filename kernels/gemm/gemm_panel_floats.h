/* The panel family in f32; gemm_panel.cl includes this. Strips and copied panels hold f32, whatever
 * A and B are. A step of K is one fma for each sum of a tile. */
#ifndef TDM_GEMM_PANEL_FLOATS_H
#define TDM_GEMM_PANEL_FLOATS_H

#define A_POINTER(AT) (TDM_GLOBAL const TDM_TYPE(AT) *)a

/* Copies rows of A. Rows past the matrix repeat the last one. */
#define COPY_ROWS(AT)                                                                              \
    for (int i = 0; i < filled; i++) {                                                             \
        const long row = at + (i < rows ? i : rows - 1) * a_row;                                   \
        TDM_LOCAL float *const to = strips + i * STRIDE;                                           \
        int p = 0;                                                                                 \
        if (a_col == 1)                                                                            \
            for (; p + 16 <= depth; p += 16)                                                       \
                f32x16_store_f32(TDM_LOADV(16, AT, A_POINTER(AT), row + p), to, p);                \
        for (; p < depth; p++)                                                                     \
            to[p] = TDM_LOAD(AT, A_POINTER(AT), row + p * a_col);                                  \
    }

/* Copies a transposed A, which is contiguous along M: squares of eight rows by eight steps of K. */
#define COPY_COLUMNS(AT)                                                                           \
    for (int p = 0; p < depth; p += 8) {                                                           \
        int i = 0;                                                                                 \
        if (p + 8 <= depth)                                                                        \
            for (; i + 8 <= rows; i += 8) {                                                        \
                f32x8 square[8];                                                                   \
                TDM_UNROLL for (int q = 0; q < 8; q++) square[q] =                                 \
                    TDM_LOADV(8, AT, A_POINTER(AT), at + i + (p + q) * a_col);                     \
                f32x8_transpose(square);                                                           \
                TDM_UNROLL for (int q = 0; q < 8; q++)                                             \
                    f32x8_store_f32(square[q], strips, (i + q) * STRIDE + p);                      \
            }                                                                                      \
        for (; i < filled; i++)                                                                    \
            for (int q = p; q < p + 8 && q < depth; q++)                                           \
                strips[i * STRIDE + q] = TDM_LOAD(                                                 \
                    AT, A_POINTER(AT), at + (i < rows ? i : rows - 1) * a_row + q * a_col);        \
    }

#define COPY_A(AT)                                                                                 \
    if (a_row == 1 && a_col != 1)                                                                  \
        COPY_COLUMNS(AT)                                                                           \
    else                                                                                           \
        COPY_ROWS(AT)

/* Copies `rows` rows of A from element `at` on, `depth` columns, to `filled` rows of the strips. */
TDM_DEVICE void copy_a(TDM_GLOBAL const void *a, int type, long at, long a_row, long a_col,
                       int rows, int filled, int depth, TDM_LOCAL float *strips) {
    if (type == TDM_CODE_F16) {
        COPY_A(f16)
    } else if (type == TDM_CODE_BF16) {
        COPY_A(bf16)
    } else {
        COPY_A(f32)
    }
}

#ifndef BITS
/* Copies columns of B that are contiguous along K, eight at a time, with zeros past the matrix.
 * Returns the first row that is not copied. */
TDM_DEVICE int copy_columns(TDM_GLOBAL const TDM_TYPE(BT) * b, long at, long b_col, int columns,
                            int depth, TDM_LOCAL float *panel) {
    int p = 0;
    for (; p + 16 <= depth; p += 16)
        for (int j = 0; j < NR; j += 8) {
            TDM_UNROLL for (int i = 0; i < 8; i++)
                tdm_prefetch_far(b + at + (j + i) * b_col + p + STEPS_AHEAD);
            for (int q = p; q < p + 16; q += 8) {
                f32x8 square[8];
                TDM_UNROLL for (int i = 0; i < 8; i++) square[i] =
                    j + i < columns ? TDM_LOADV(8, BT, b, at + (j + i) * b_col + q)
                                    : f32x8_splat(0.0f);
                f32x8_transpose(square);
                TDM_UNROLL for (int i = 0; i < 8; i++)
                    f32x8_store_f32(square[i], panel, (q + i) * NR + j);
            }
        }
    return p;
}

/* Copies `columns` of a panel's NR columns of unpacked B, with zeros past the matrix. */
TDM_DEVICE void copy_panel(TDM_GLOBAL const TDM_TYPE(BT) * b, long at, long b_row, long b_col,
                           int columns, int depth, TDM_LOCAL float *panel) {
    int p = b_row == 1 ? copy_columns(b, at, b_col, columns, depth, panel) : 0;
    for (; p < depth; p++) {
        int j = 0;
        if (b_col == 1)
            for (; j + 8 <= columns; j += 8)
                f32x8_store_f32(TDM_LOADV(8, BT, b, at + p * b_row + j), panel, p * NR + j);
        for (; j < NR; j++)
            panel[p * NR + j] = j < columns ? TDM_LOAD(BT, b, at + p * b_row + j * b_col) : 0.0f;
    }
}
#endif

#define TAKE_PACKED(P)                                                                             \
    TDM_UNROLL for (int v = 0; v < NV; v++) b_vec[v] = TDM_LOADV(VW, BT, b, (P)*NR + v * VW);
#define TAKE_IN_PLACE(P)                                                                           \
    TDM_UNROLL for (int v = 0; v < NV; v++) {                                                      \
        tdm_prefetch_far(b + ((P) + PREFETCH_ROWS) * b_row + v * VW);                              \
        b_vec[v] = TDM_LOADV(VW, BT, b, (P)*b_row + v * VW);                                       \
        TDM_STOREV(VW, f32, b_vec[v], panel, (P)*NR + v * VW);                                     \
    }

#define ADD_PRODUCTS(acc, a, b) (acc) = tdm_fma(a, b, acc)

#ifdef BITS
#define MULTIPLY_BLOCK(ROWS) PANEL_BLOCK(ROWS, TAKE_COPIED)
#else
#define MULTIPLY_BLOCK(ROWS)                                                                       \
    if (b_from == IN_PANELS)                                                                       \
        PANEL_BLOCK(ROWS, TAKE_PACKED)                                                             \
    else if (b_from == COPIED)                                                                     \
        PANEL_BLOCK(ROWS, TAKE_COPIED)                                                             \
    else                                                                                           \
        PANEL_BLOCK(ROWS, TAKE_IN_PLACE)
#endif

/* Multiplies a strip of ROWS rows by a panel. Unless this is the first block of K, the sums of the
 * blocks before (`kept`) are added. b_from selects the source of B: packed panels, the copy in
 * `panel`, or whole rows of the matrix. These rows are also stored to the copy. */
#define MULTIPLY(NAME, ROWS)                                                                       \
    TDM_DEVICE void NAME(TDM_LOCAL const float *strip, TDM_GLOBAL const TDM_TYPE(BT) * b,          \
                         int b_from, long b_row, TDM_LOCAL float *panel, int depth, int first,     \
                         prefetch_lines prefetch, int where, TDM_LOCAL float *kept,                \
                         TDM_GLOBAL float *d, long d_row, float *tile) {                           \
        /* Load B and A, and multiply-accumulate. */                                               \
        SUM_BLOCKS(ROWS, MULTIPLY_BLOCK, first, kept)                                              \
        /* Store the sums. */                                                                      \
        if (where == TO_KEPT) {                                                                    \
            EACH_SUM(ROWS) TDM_STOREV(VW, f32, acc[r][v], kept, r *NR + v * VW);                   \
        } else if (where == NONTEMPORAL) {                                                         \
            EACH_SUM(ROWS) TDM_STREAMV(VW, acc[r][v], d, r *d_row + v * VW);                       \
        } else if (where == TO_D) {                                                                \
            EACH_SUM(ROWS) TDM_STOREV(VW, f32, acc[r][v], d, r *d_row + v * VW);                   \
        } else {                                                                                   \
            EACH_SUM(ROWS) TDM_STOREV(VW, f32, acc[r][v], tile, r *NR + v * VW);                   \
        }                                                                                          \
    }

#endif
