/* As gemm_weights_lines.cl for s4 in groups that are whole chunks of a line or parts of one, for CPU cores with AVX-512: a chunk of 64
 * bytes, 128 steps of K, is read at once.
 *
 *   lane     0          1           …  15
 *   steps    0 … 7      8 … 15         120 … 127     of a chunk. The bits from 4·u on of a lane are its code of step u, and
 *                                                    a permutation that looks at four bits of a lane alone makes it a value.
 *   strip    [ 0 8 … 120 | 1 9 … 121 | … | 7 15 … 127 ] of each chunk: the steps u of all lanes for u from 0 to 7
 *
 * acc = Σ a·(code − zero) of a lane's eight steps, total += scale·acc with the scale of each lane's group; lanes are added up at
 * the end of a block. Lanes past K have the scale 0, since 0 times an infinite scale would be NaN. */
#define TDM_EPILOGUE_VECTOR 8
#include "dialect.h"
#include "gemm_weights_rows.h"

#define ROWS 16
#define STRIP 8192 /* steps of K of all rows */
#define NT 4       /* lines at a time where there are several rows */
#define IS_S4 1
#include "gemm_weights_chunks.h"

#define KEPT 4096
#define PAD 16
#define STEPS 8 /* of a lane */

/* ---- chunks: plain pointers ---- */

#define PLAIN(n) __builtin_ia32_permvarsf512(values, w[n])
#define LESS_ZERO(n) (PLAIN(n) - zero[n])

#define TAKE_ZERO(NT)                                                                              \
    floats zero[NT];                                                                               \
    TDM_UNROLL for (int n = 0; n < NT; n++) zero[n] = __builtin_convertvector(                     \
        __builtin_ia32_permvarsi512(                                                               \
            *(const ints_anywhere *)(g->zero + n * g->pitch + c * g->groups), g->lane_group),      \
        floats);
#define NO_ZERO(NT)

/* total(m, n) += … over `chunks` chunks. */
#define CHUNKS(MT, NT, ZERO, VALUE)                                                                \
    for (int c = 0; c < chunks; c++) {                                                             \
        const int place = c * g->groups % LANES;                                                   \
        if (place == 0)                                                                            \
            TDM_UNROLL for (int n = 0; n < NT; n++) scales[n] =                                    \
                *(const floats_anywhere *)(g->scale + n * g->pitch + c * g->groups);               \
        const ints lanes = g->lane_group + (ints)(place);                                          \
        ints w[NT];                                                                                \
        floats acc[MT][NT];                                                                        \
        ZERO(NT)                                                                                   \
        TDM_UNROLL for (int n = 0; n < NT; n++) {                                                  \
            __builtin_prefetch(line + n * line_stride + c * LINE_BYTES + AHEAD, 0, 2);             \
            w[n] = *(const ints_anywhere *)(line + n * line_stride + c * LINE_BYTES);              \
            TDM_UNROLL for (int m = 0; m < MT; m++) acc[m][n] = (floats)(0.0f);                    \
        }                                                                                          \
        TDM_UNROLL for (int u = 0; u < STEPS; u++) {                                               \
            TDM_UNROLL for (int n = 0; n < NT; n++) {                                              \
                const floats value = VALUE(n);                                                     \
                TDM_UNROLL for (int m = 0; m < MT; m++) acc[m][n] = tdm_fma(                       \
                    *(const floats_anywhere *)(strip + m * stride + c * CHUNK + u * LANES), value, \
                    acc[m][n]);                                                                    \
                w[n] = w[n] >> 4;                                                                  \
            }                                                                                      \
        }                                                                                          \
        TDM_UNROLL for (int n = 0; n < NT; n++) {                                                  \
            const floats scale = __builtin_ia32_permvarsf512(scales[n], lanes);                    \
            TDM_UNROLL for (int m = 0; m < MT; m++) total[m][n] =                                  \
                tdm_fma(scale, acc[m][n], total[m][n]);                                            \
        }                                                                                          \
    }

/* kept(m, n) += A(m, ·)·B(·, n) over `chunks` chunks for MT rows and NT lines; g is of those lines. */
#define LINES(MT, NT)                                                                              \
    TDM_DEVICE void TDM_CAT4(lines_, MT, x, NT)(const char *line, long line_stride, int chunks,    \
                                                const float *strip, int stride,                    \
                                                const line_groups *g, float *kept, int pitch) {    \
        const floats values = (floats)(0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1);    \
        floats total[MT][NT], scales[NT];                                                          \
        TDM_UNROLL for (int m = 0; m < MT; m++) TDM_UNROLL for (int n = 0; n < NT; n++)            \
            total[m][n] = (floats)(0.0f);                                                          \
        if (g->zero)                                                                               \
            CHUNKS(MT, NT, TAKE_ZERO, LESS_ZERO)                                                   \
        else                                                                                       \
            CHUNKS(MT, NT, NO_ZERO, PLAIN)                                                         \
        TDM_UNROLL for (int m = 0; m < MT; m++) TDM_UNROLL for (int n = 0; n < NT; n++)            \
            kept[m * pitch + n] += f32x16_sum(total[m][n]);                                        \
    }
LINES(1, 1)
LINES(1, NT)
LINES(2, 2)
LINES(4, 1)
LINES(4, 2)

/* ---- the item ---- */

/* Private memory of an item. */
typedef struct {
    float strip[STRIP] __attribute__((aligned(64)));
    float scale[NT * PITCH];
    int zero[NT * PITCH];
    float kept[KEPT], row_scale[ROWS];
} item_memory;

/* `chunks` chunks of a row from step p0 on, zeros past its end. */
TDM_DEVICE void copy_row(TDM_GLOBAL const void *a, tdm_gemm_shape_arg s, long at, long p0,
                         int chunks, int quantize, float row_scale, float *strip) {
    for (int p = 0; p < chunks * CHUNK; p += 2 * STEPS) {
        f32x16 x = load_row(a, s.a_type, at, s.a_col, p0 + p, s.k);
        if (quantize)
            x = row_scale == 0.0f ? f32x16_splat(0.0f) : f32x16_from_s32(codes_of(x, row_scale));
        float *const to = strip + p / CHUNK * CHUNK + p % CHUNK / STEPS;
        vstore2(x.s08, 0, to);
        vstore2(x.s19, 0, to + LANES);
        vstore2(x.s2a, 0, to + 2 * LANES);
        vstore2(x.s3b, 0, to + 3 * LANES);
        vstore2(x.s4c, 0, to + 4 * LANES);
        vstore2(x.s5d, 0, to + 5 * LANES);
        vstore2(x.s6e, 0, to + 6 * LANES);
        vstore2(x.s7f, 0, to + 7 * LANES);
    }
}

/* The groups of the n-th line and those behind it. */
TDM_DEVICE line_groups groups_of_line(const line_groups *g, int n) {
    line_groups own = *g;
    own.scale += n * g->pitch;
    own.zero = g->zero ? g->zero + n * g->pitch : NULL;
    return own;
}

/* kept(·, n) += … of all rows and `lines` lines, 1 or NT. */
TDM_DEVICE void add_lines(const char *line, long line_stride, int lines, int chunks,
                          const float *strip, int stride, int rows, const line_groups *g,
                          float *kept, int pitch) {
    int i = 0;
    if (lines == 1) {
        for (; i + 4 <= rows; i += 4)
            lines_4x1(line, line_stride, chunks, strip + i * stride, stride, g, kept + i * pitch,
                      pitch);
        for (; i < rows; i++)
            lines_1x1(line, line_stride, chunks, strip + i * stride, stride, g, kept + i * pitch,
                      pitch);
        return;
    }
    for (; i + 2 <= rows; i += i + 4 <= rows ? 4 : 2)
        for (int n = 0; n < lines; n += 2) {
            const line_groups own = groups_of_line(g, n);
            const char *const first = line + n * line_stride;
            float *const to = kept + i * pitch + n;
            if (i + 4 <= rows)
                lines_4x2(first, line_stride, chunks, strip + i * stride, stride, &own, to, pitch);
            else
                lines_2x2(first, line_stride, chunks, strip + i * stride, stride, &own, to, pitch);
        }
    if (i < rows)
        TDM_CAT2(lines_1x, NT)
    (line, line_stride, chunks, strip + i * stride, stride, g, kept + i * pitch, pitch);
}

/* kept(·, j …) of `lines` lines and a block of K from step p0 on: whole chunks in place, the rest of the lines from a
 * copy, so that nothing behind B is read. */
TDM_DEVICE void multiply_lines(const lines_of_b *l, const block_groups *of_k, item_memory *my,
                               long j, int lines, long p0, int depth, int stride, int rows,
                               float *kept, int pitch) {
    TDM_GLOBAL const char *const line = l->b + (l->b_at + j * l->b_col + p0) / PARTS;
    const long line_stride = l->b_col / PARTS;
    const int whole = depth / CHUNK, left = (depth % CHUNK + PARTS - 1) / PARTS;
    line_groups groups = {my->scale, l->w.zero_type == TDM_CODE_ABSENT ? NULL : my->zero, l->groups,
                          PITCH, l->lane_group};
    char rest[NT * LINE_BYTES];
    ask_for_lines(l, of_k, j, lines);
    for (int n = 0; n < lines; n++)
        gather_parameters(l, of_k, j + n, my->scale + n * PITCH, my->zero + n * PITCH);
    add_lines((const char *)(size_t)line, line_stride, lines, whole, my->strip, stride, rows,
              &groups, kept, pitch);
    if (left == 0)
        return;
    for (int n = 0; n < lines; n++) {
        for (int x = 0; x < LINE_BYTES; x++)
            rest[n * LINE_BYTES + x] =
                x < left ? line[n * line_stride + whole * LINE_BYTES + x] : 0;
        my->scale[n * PITCH + (whole + 1) * l->groups] = 0.0f;
    }
    groups.scale += whole * l->groups;
    if (groups.zero)
        groups.zero += whole * l->groups;
    groups.lane_group = l->rest_group;
    add_lines(rest, LINE_BYTES, lines, 1, my->strip + whole * CHUNK, stride, rows, &groups, kept,
              pitch);
}

TDM_KERNEL_GROUP(TDM_ENTRY, 1, 1, 1)(TDM_WEIGHTS_ARGUMENTS) {
    const long item = tdm_group_x(), z = tdm_group_z();
    item_memory my;
    const long pieces = (s.n + NR - 1) / NR;
    const long begin = item * pieces / s.column_tiles * NR;
    const long past = (item + 1) * pieces / s.column_tiles * NR;
    const long end = past < s.n ? past : s.n;
    const int chunks = (int)((s.k + CHUNK - 1) / CHUNK);
    /* One group for all of K is one of whole chunks. */
    if (w.group >= s.k)
        w.group = (long)chunks * CHUNK;
    const int groups = w.group >= CHUNK ? 1 : CHUNK / (int)w.group;
    const lines_of_b l = {(TDM_GLOBAL const char *)b,
                          scale,
                          zero,
                          b_offset + z * s.b_batch,
                          s.b_col,
                          scale_offset + z * w.scale_batch,
                          zero_offset + z * w.zero_batch,
                          s.k,
                          w,
                          groups,
                          lane_groups(w.group, groups, CHUNK),
                          lane_groups(w.group, groups, (int)(s.k % CHUNK))};
    const tdm_epilogue_io io =
        tdm_epilogue_begin(c, c_offset, bias, bias_offset, residual, r_offset, d, d_offset, e, z);
    const int dense = tdm_epilogue_is_dense(e);

    for (long i0 = 0; i0 < s.m; i0 += ROWS) {
        const int rows = (int)(s.m - i0 < ROWS ? s.m - i0 : ROWS);
        const int most = STRIP / rows / CHUNK - 1; /* chunks of a block */
        const int blocks = (chunks + most - 1) / most;
        /* Rows of a power of two would fall on the same lines of a cache. */
        const int step = (chunks + blocks - 1) / blocks * CHUNK, stride = step + PAD;
        const int stripe = KEPT / rows;
        const long a0 = a_offset + z * s.a_batch + i0 * s.a_row;
        for (int i = 0; i < rows; i++)
            my.row_scale[i] =
                w.quantize_a ? scale_of_row(a, s.a_type, a0 + i * s.a_row, s.a_col, s.k) : 1.0f;
        for (long j0 = begin; j0 < end; j0 += stripe) {
            const int columns = (int)(end - j0 < stripe ? end - j0 : stripe);
            for (int t = 0; t < rows * columns; t++)
                my.kept[t] = 0.0f;
            for (long p0 = 0; p0 < s.k; p0 += step) {
                const int depth = (int)(s.k - p0 < step ? s.k - p0 : step);
                const block_groups of_k = groups_of_block(&l, p0, (depth + CHUNK - 1) / CHUNK);
                for (int i = 0; i < rows; i++)
                    copy_row(a, s, a0 + i * s.a_row, p0, (depth + CHUNK - 1) / CHUNK, w.quantize_a,
                             my.row_scale[i], my.strip + i * stride);
                for (int j = 0, lines; j < columns; j += lines) {
                    lines = rows > 1 && columns - j >= NT ? NT : 1;
                    multiply_lines(&l, &of_k, &my, j0 + j, lines, p0, depth, stride, rows,
                                   my.kept + j, columns);
                }
            }
            for (int i = 0; i < rows; i++) {
                for (int j = 0; w.quantize_a && j < columns; j++)
                    my.kept[i * columns + j] *= my.row_scale[i];
                tdm_epilogue_row(my.kept + i * columns, io, e, i0 + i, j0, columns, dense);
            }
        }
    }
}
