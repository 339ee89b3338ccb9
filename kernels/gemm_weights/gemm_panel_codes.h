/* Quantized B (s8 or s4 with scales) of the panel family: a work-item copies each panel to local
 * memory as f32,
 *
 *     panel(p, j) = scale(g, j) · (code(p, j) − zero(g, j))          g = p / group
 *
 * A dequantization rounds once, so the results have the same bits as with B dequantized beforehand.
 *
 * Quantized values that are contiguous along K are read as 32-bit words of WORD steps, eight words
 * of eight columns at a time. After a transposition a vector has a word of each column, and shifts
 * extract the values. The parameters (scales and zero points) of a block are first spread to rows
 * of NR.
 *
 * gemm_panel.cl includes this. The variant defines
 *   BT     storage type of B: s8 or s4
 *   BITS   bits of a quantized value: 8 or 4 */
#ifndef TDM_GEMM_PANEL_CODES_H
#define TDM_GEMM_PANEL_CODES_H

#include "gemm_weights_args.h"
#include "gemm_weights_steps.h"

#define PER_BYTE (8 / BITS)
#define WORD (32 / BITS)
#define SQUARE (8 * WORD)
/* Shorter groups are dequantized element by element, as are groups that split a word. */
#define LEAST_GROUP 16
#define MOST_GROUPS (KC / LEAST_GROUP + 1)

typedef struct {
    TDM_GLOBAL const TDM_TYPE(BT) * b;
    TDM_GLOBAL const void *scale, *zero;
    long row, col;          /* strides of b */
    long scale_at, zero_at; /* offsets for the panel's first column, in the first group */
    int columns;
    tdm_gemm_weights_arg w;
} coded_panel;

/* Parameters of the groups that a block overlaps: for each group a row of NR columns. `first` is
 * the step at which the first group ends. */
typedef struct {
    float scale[MOST_GROUPS * NR];
    int zero[MOST_GROUPS * NR];
    int has_zero, group, first;
} block_parameters;

/* Stores the scales of eight groups of a column. */
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

/* Returns the index, among a block's groups, of the group of step p. */
TDM_DEVICE int group_of(const block_parameters *q, int p) {
    return p < q->first ? 0 : (p - q->first) / q->group + 1;
}

/* Dequantizes N values of one step and stores them to a row of the panel. */
#define STORE_CODES(N, codes, q, at, panel, to)                                                    \
    TDM_STOREV(N, f32,                                                                             \
               TDM_LOADV(N, f32, (q)->scale, at) *                                                 \
                   TDM_CAT4(f32x, N, _from, _s32)(                                                 \
                       (q)->has_zero                                                               \
                           ? tdm_sub_wrap(N, codes, TDM_INT_LOADV(N, s32, (q)->zero, at))          \
                           : (codes)),                                                             \
               panel, to)

/* Copies columns that are contiguous along K, with zeros past the matrix. Returns the first row
 * that is not copied. */
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

/* Copies whole rows of a panel that are contiguous along N. */
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

/* Copies rows `from` … depth-1 of a block, whose row 0 is row p0 of B, with zeros past the
 * matrix. */
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

/* True if no group ends within a word or is shorter than LEAST_GROUP, and columns (or rows) begin
 * at a whole byte. */
TDM_DEVICE int has_whole_words(const coded_panel *c, long at, long step, int one_group) {
    return (one_group || (c->w.group >= LEAST_GROUP && c->w.group % WORD == 0)) &&
           (at | step) % PER_BYTE == 0;
}

/* Copies rows p0 … p0 + depth-1 of the panel, whose first quantized value is element `at`. */
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

/* Sets the prefetch of the next panel, whose first quantized value is element `next`. It prefetches
 * along columns or rows, whichever is contiguous. */
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
