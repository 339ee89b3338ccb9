/* Reads a quantized B (s8 or s4 with scales) in the panel family. A work-item dequantizes each
 * panel and stores it in local memory as f32:
 *
 *     panel(p, j) = scale(g, j) · (code(p, j) − zero(g, j))          g = p / group
 *
 * Each dequantized value is rounded once. The results therefore have the same bits as with a B that
 * was dequantized beforehand.
 *
 * If quantized values are contiguous along K, a 32-bit word holds WORD steps of a column. The
 * work-item reads eight words of each of eight columns and transposes them. Each vector then holds
 * one word of each column, and shifts extract the values. Before that, the scales and zero points
 * of a block are copied to rows of NR columns.
 *
 * gemm_panel.cl includes this file. The variant defines
 *   BT     storage type of B: s8 or s4
 *   BITS   bits of a quantized value: 8 or 4 */
#ifndef TDM_GEMM_PANEL_CODES_H
#define TDM_GEMM_PANEL_CODES_H

#include "gemm_weights_args.h"
#include "gemm_weights_steps.h"

#define PER_BYTE (8 / BITS)
#define WORD (32 / BITS)
#define SQUARE (8 * WORD)
/* Shorter groups are dequantized element by element, and so are groups that end within a word. */
#define LEAST_GROUP 16
#define MOST_GROUPS (KC / LEAST_GROUP + 1)

typedef struct {
    TDM_GLOBAL const TDM_TYPE(BT) * b;
    TDM_GLOBAL const void *scale, *zero;
    long row, col;          /* strides of b */
    long scale_at, zero_at; /* offsets for the panel's first column, in group 0 of B */
    int columns;
    tdm_gemm_weights_arg w;
} coded_panel;

/* These are the parameters of the groups that a block overlaps. Each group has a row of NR columns.
 * The first group ends before step `first` of the block. */
typedef struct {
    float scale[MOST_GROUPS * NR];
    int zero[MOST_GROUPS * NR];
    int has_zero, group, first;
} block_parameters;

/* Loads the scales of eight consecutive groups of a column, and stores them NR elements apart. */
TDM_DEVICE void spread_scales(const coded_panel *c, long at, float *to) {
    float line[8];
    f32x8_store_f32(TDM_LOADV_ANY(8, c->scale, c->w.scale_type, at), line, 0);
    TDM_UNROLL for (int g = 0; g < 8; g++) to[g * NR] = line[g];
}

TDM_DEVICE void load_scales(const coded_panel *c, long first, int groups, float *to) {
    for (int j = 0; j < NR; j++) {
        const long at = c->scale_at + first * c->w.scale_row + j * c->w.scale_col;
        int g = 0;
        if (j >= c->columns) {
            for (; g < groups; g++)
                to[g * NR + j] = 0.0f;
            continue;
        }
        if (c->w.scale_row == 1)
            for (; g + 8 <= groups; g += 8)
                spread_scales(c, at + g, to + g * NR + j);
        for (; g < groups; g++)
            to[g * NR + j] = tdm_load_any(c->scale, c->w.scale_type, at + g * c->w.scale_row);
    }
}

TDM_DEVICE void load_zeros(const coded_panel *c, long first, int groups, int *to) {
    for (int g = 0; g < groups; g++)
        for (int j = 0; j < NR; j++)
            to[g * NR + j] =
                j >= c->columns
                    ? 0
                    : tdm_int_any(c->zero, c->w.zero_type,
                                  c->zero_at + (first + g) * c->w.zero_row + j * c->w.zero_col);
}

/* Returns which group of the block contains step p; the first one is 0. */
TDM_DEVICE int group_of(const block_parameters *q, int p) {
    return p < q->first ? 0 : (p - q->first) / q->group + 1;
}

/* Dequantizes N values of one step of K and stores them in a row of the panel. */
#define STORE_CODES(N, codes, q, at, panel, to)                                                    \
    TDM_STOREV(N, f32,                                                                             \
               TDM_LOADV(N, f32, (q)->scale, at) *                                                 \
                   TDM_CAT4(f32x, N, _from, _s32)(                                                 \
                       (q)->has_zero                                                               \
                           ? tdm_sub_wrap(N, codes, TDM_INT_LOADV(N, s32, (q)->zero, at))          \
                           : (codes)),                                                             \
               panel, to)

/* Dequantizes columns that are contiguous along K, SQUARE steps at a time. Columns past the matrix
 * become zeros. Returns the first row that remains to be done. */
TDM_DEVICE int copy_lines(const coded_panel *c, long at, int depth, const block_parameters *q,
                          TDM_LOCAL float *panel) {
    int p = 0;
    for (; p + SQUARE <= depth; p += SQUARE) {
        int own[8];
        TDM_UNROLL for (int x = 0; x < 8; x++) own[x] = group_of(q, p + x * WORD) * NR;
        for (int j = 0; j < NR; j += 8) {
            s32x8 square[8];
            TDM_UNROLL for (int i = 0; i < 8; i++) square[i] =
                j + i < c->columns ? s32x8_load_quads(c->b, (at + (j + i) * c->col + p) / PER_BYTE)
                                   : s32x8_splat(0);
            s32x8_transpose(square);
            TDM_UNROLL for (int x = 0; x < 8; x++) {
                const s32x8 words = square[x];
                TDM_UNROLL for (int u = 0; u < WORD; u++)
                    STORE_CODES(8, (words << (32 - BITS - BITS * u)) >> (32 - BITS), q, own[x] + j,
                                panel, (p + x * WORD + u) * NR + j);
            }
        }
    }
    return p;
}

/* Dequantizes the rows of a full-width panel, which are contiguous along N. Returns `depth`: no row
 * remains. */
TDM_DEVICE int copy_rows_of_codes(const coded_panel *c, long at, int depth,
                                  const block_parameters *q, TDM_LOCAL float *panel) {
    int own = 0, left = q->first;
    for (int p = 0; p < depth; p++, left--) {
        if (left == 0) {
            own += NR;
            left = q->group;
        }
        TDM_UNROLL for (int v = 0; v < NR; v += VW) STORE_CODES(
            VW, TDM_INT_LOADV(VW, BT, c->b, at + p * c->row + v), q, own + v, panel, p * NR + v);
    }
    return depth;
}

/* Dequantizes rows `from` to depth − 1 of a block, element by element. Row 0 of the block is row p0
 * of B. Columns past the matrix become zeros. */
TDM_DEVICE void copy_codes(const coded_panel *c, long at, long p0, int from, int depth,
                           TDM_LOCAL float *panel) {
    for (int p = from; p < depth; p++) {
        const long g = (p0 + p) / c->w.group;
        for (int j = 0; j < NR; j++) {
            float x = 0.0f;
            if (j < c->columns) {
                const int zero = tdm_int_any(c->zero, c->w.zero_type,
                                             c->zero_at + g * c->w.zero_row + j * c->w.zero_col);
                const int code = TDM_CAT2(tdm_int_, BT)(c->b, at + p * c->row + j * c->col);
                x = tdm_load_any(c->scale, c->w.scale_type,
                                 c->scale_at + g * c->w.scale_row + j * c->w.scale_col) *
                    tdm_float(tdm_sub_wrap(1, code, zero));
            }
            panel[p * NR + j] = x;
        }
    }
}

/* True if the copies above can be used. No group may end within a word or be shorter than
 * LEAST_GROUP, unless one group covers the block. Columns (or rows) must begin at a whole byte. */
TDM_DEVICE int has_whole_words(const coded_panel *c, long at, long step, int one_group) {
    return (one_group || (c->w.group >= LEAST_GROUP && c->w.group % WORD == 0)) &&
           (at | step) % PER_BYTE == 0;
}

/* Dequantizes rows p0 to p0 + depth − 1 of B into the panel. Element `at` of B is the first of
 * them. */
TDM_DEVICE void copy_coded(const coded_panel *c, long at, long p0, int depth,
                           TDM_LOCAL float *panel) {
    const int along_k = c->row == 1, along_n = c->col == 1 && c->columns == NR && !along_k;
    const long first = p0 / c->w.group, end = (first + 1) * c->w.group - p0;
    int done = 0;
    if (depth > 0 && (along_k || along_n) &&
        has_whole_words(c, at, along_k ? c->col : c->row, end >= depth)) {
        const int groups = (int)((p0 + depth - 1) / c->w.group - first) + 1;
        block_parameters q;
        q.group = (int)(c->w.group < KC ? c->w.group : KC);
        q.first = (int)(end < depth ? end : depth);
        q.has_zero = c->w.zero_type != TDM_CODE_ABSENT;
        load_scales(c, first, groups, q.scale);
        if (q.has_zero)
            load_zeros(c, first, groups, q.zero);
        done = along_k ? copy_lines(c, at, depth, &q, panel)
                       : copy_rows_of_codes(c, at, depth, &q, panel);
    }
    copy_codes(c, at, p0, done, depth, panel);
}

/* Sets the prefetch of part t of `strips` of the next panel, which begins at element `next`. The
 * prefetch follows columns or rows, whichever are contiguous. */
TDM_DEVICE void prefetch_codes(prefetch_lines *prefetch, const coded_panel *c, long next, int depth,
                               int t, int strips) {
    TDM_GLOBAL const char *const b = (TDM_GLOBAL const char *)c->b;
    const long step = (c->row == 1 ? c->col : c->row) / PER_BYTE;
    if (c->row == 1) {
        prefetch->b = b + next / PER_BYTE + NR * t / strips * step;
        prefetch->b_line = 64;
        prefetch->b_other = PER_BYTE == 1 ? 256 : step;
        prefetch->b_piece = PER_BYTE * step;
    } else {
        prefetch->b = b + next / PER_BYTE + depth * t / strips * step;
        prefetch->b_line = 2 * step;
        prefetch->b_other = step;
        prefetch->b_piece = 8 * step;
    }
}

#endif
