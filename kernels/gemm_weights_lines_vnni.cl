/* As gemm_weights_lines.cl where rows of A are quantized, for CPU cores with VNNI: products of codes are added up in integers.
 *
 * K is cut into chunks of 64 bytes of a line, 64 steps of s8 or 128 of s4. The instruction multiplies unsigned by signed bytes: the
 * weights take an offset (128, or 8) to be unsigned, and a chunk's sums begin at -offset · Σ a, which is the same for all columns.
 *
 *   strip  codes of A, for each chunk 64 of s8, or 64 of the even steps and then 64 of the odd ones
 *   first  for each chunk the 16 sums to begin with
 *
 * A lane adds up 4 steps of s8 or 8 of s4. Groups are whole chunks, or chunks whole groups: a chunk's sums are multiplied by the scale of
 * each lane's group, those of lanes past K by 0, since 0 times an infinite scale would be NaN. With one scale for all of K the sums
 * stay integers to the end.
 *
 * PoCL 3.1 compiles for a CPU without VNNI: see gemm_int_panel_x86.cl for the functions with a target of their own. */
#define TDM_EPILOGUE_VECTOR 8
#include "dialect.h"
#include "gemm_weights_rows.h"

#define ROWS 16
#define STRIP 32768 /* steps of K of all rows */
#define MOST_STEPS STRIP
#define NT 4 /* lines at a time where there are several rows */
#include "gemm_weights_chunks.h"

#define KEPT 4096
/* Bytes ahead of those that are read: a line is often a page, where the hardware stops asking for more. */
#define AHEAD 8192
#define OFFSET (IS_S4 ? 8 : 128)
#define OFFSET_BITS (IS_S4 ? 3 : 7)
#define TARGET __attribute__((noinline, target("avx512vnni,avx512f,avx512bw,avx512dq,avx512vl")))

/* ---- functions for a CPU with VNNI: plain pointers ---- */

/* Weights of NT lines as unsigned bytes: s8, or the low nibbles (the even steps) and the high ones. */
#if IS_S4
#define UNSIGNED_WEIGHTS(n)                                                                        \
    {                                                                                              \
        const ints bytes = *(const ints_anywhere *)(line + (n)*line_stride + c * LINE_BYTES) ^     \
                           (ints)(int)0x88888888;                                                  \
        w[n][0] = bytes & (ints)0x0f0f0f0f;                                                        \
        w[n][1] = (bytes >> 4) & (ints)0x0f0f0f0f;                                                 \
    }
#else
#define UNSIGNED_WEIGHTS(n)                                                                        \
    w[n][0] =                                                                                      \
        *(const ints_anywhere *)(line + (n)*line_stride + c * LINE_BYTES) ^ (ints)(int)0x80808080;
#endif

#define TAKE_WEIGHTS(NT)                                                                           \
    ints w[NT][2];                                                                                 \
    TDM_UNROLL for (int n = 0; n < NT; n++) {                                                      \
        __builtin_prefetch(line + n * line_stride + c * LINE_BYTES + AHEAD, 0, 2);                 \
        UNSIGNED_WEIGHTS(n)                                                                        \
    }

#define CODES_OF(m, c, part)                                                                       \
    (*(const ints_anywhere *)(codes + (m)*stride + ((c)*PARTS + (part)) * LINE_BYTES))

/* sums(m, n) = Σ a·(b + OFFSET) over `chunks` chunks for MT rows and NT lines. */
#define WHOLE(MT, NT)                                                                              \
    TARGET void TDM_CAT4(whole_, MT, x, NT)(const char *line, long line_stride, int chunks,        \
                                            const char *codes, int stride, int *sums) {            \
        ints sum[MT][NT];                                                                          \
        TDM_UNROLL for (int m = 0; m < MT; m++) TDM_UNROLL for (int n = 0; n < NT; n++)            \
            sum[m][n] = (ints)(0);                                                                 \
        for (int c = 0; c < chunks; c++) {                                                         \
            TAKE_WEIGHTS(NT)                                                                       \
            TDM_UNROLL for (int m = 0; m < MT; m++)                                                \
                TDM_UNROLL for (int part = 0; part < PARTS; part++) {                              \
                const ints a = CODES_OF(m, c, part);                                               \
                TDM_UNROLL for (int n = 0; n < NT; n++) sum[m][n] =                                \
                    __builtin_ia32_vpdpbusd512(sum[m][n], w[n][part], a);                          \
            }                                                                                      \
        }                                                                                          \
        TDM_UNROLL for (int m = 0; m < MT; m++) TDM_UNROLL for (int n = 0; n < NT; n++) {          \
            const int8 eight = sum[m][n].lo + sum[m][n].hi;                                        \
            const int4 four = eight.lo + eight.hi;                                                 \
            sums[m * NT + n] = four.x + four.y + four.z + four.w;                                  \
        }                                                                                          \
    }

/* The same with scales, and zero points, of each chunk, and without the offset. */
#define GROUPED(MT, NT)                                                                            \
    TARGET void TDM_CAT4(grouped_, MT, x, NT)(                                                     \
        const char *line, long line_stride, int chunks, const char *codes, int stride,             \
        const int *first, int first_stride, const line_groups *g, float *sums) {                   \
        floats total[MT][NT], scales[NT];                                                          \
        const ints lane_group = g->lane_group;                                                     \
        TDM_UNROLL for (int m = 0; m < MT; m++) TDM_UNROLL for (int n = 0; n < NT; n++)            \
            total[m][n] = (floats)(0.0f);                                                          \
        for (int c = 0; c < chunks; c++) {                                                         \
            TAKE_WEIGHTS(NT)                                                                       \
            const int place = c * g->groups % LANES;                                               \
            if (place == 0)                                                                        \
                TDM_UNROLL for (int n = 0; n < NT; n++) scales[n] =                                \
                    *(const floats_anywhere *)(g->scale + n * g->pitch + c * g->groups);           \
            const ints lanes = lane_group + (ints)(place);                                         \
            floats scale[NT];                                                                      \
            TDM_UNROLL for (int n = 0; n < NT; n++) scale[n] =                                     \
                __builtin_ia32_permvarsf512(scales[n], lanes);                                     \
            TDM_UNROLL for (int m = 0; m < MT; m++) {                                              \
                const ints begin = *(const ints_anywhere *)(first + m * first_stride + c * LANES); \
                TDM_UNROLL for (int n = 0; n < NT; n++) {                                          \
                    ints sum = begin;                                                              \
                    if (g->zero)                                                                   \
                        sum +=                                                                     \
                            (begin >> OFFSET_BITS) *                                               \
                            __builtin_ia32_permvarsi512(                                           \
                                *(const ints_anywhere *)(g->zero + n * g->pitch + c * g->groups),  \
                                lane_group);                                                       \
                    TDM_UNROLL for (int part = 0; part < PARTS; part++) sum =                      \
                        __builtin_ia32_vpdpbusd512(sum, w[n][part], CODES_OF(m, c, part));         \
                    total[m][n] =                                                                  \
                        tdm_fma(scale[n], __builtin_convertvector(sum, floats), total[m][n]);      \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
        TDM_UNROLL for (int m = 0; m < MT; m++) TDM_UNROLL for (int n = 0; n < NT; n++)            \
            sums[m * NT + n] = f32x16_sum(total[m][n]);                                            \
    }
WHOLE(1, 1)
WHOLE(1, NT)
WHOLE(2, NT)
WHOLE(4, 1)
WHOLE(4, NT)
GROUPED(1, 1)
GROUPED(1, NT)
GROUPED(2, NT)
GROUPED(4, 1)
GROUPED(4, NT)

/* ---- the item ---- */

/* Private memory of an item. */
typedef struct {
    char codes[STRIP] __attribute__((aligned(64)));
    int first[STRIP / CHUNK * LANES + ROWS * LANES], base[ROWS]; /* base: all of a row's */
    float scale[NT * PITCH];
    int zero[NT * PITCH];
    float kept[KEPT], row_scale[ROWS];
} item_memory;

/* 16 codes, the low bytes of v. */
TDM_DEVICE void store_codes(s32x16 v, char *codes, int p) {
    const char16 bytes = convert_char16(v);
#if IS_S4
    char *const to = codes + p / CHUNK * CHUNK + p % CHUNK / 2;
    *(bytes8_anywhere *)to = bytes.even;
    *(bytes8_anywhere *)(to + LINE_BYTES) = bytes.odd;
#else
    *(bytes16_anywhere *)(codes + p) = bytes;
#endif
}

/* Codes of `chunks` chunks of a row from step p0 on, zeros past its end, and what their sums begin with; returns the sum of that. */
TDM_DEVICE int copy_codes(TDM_GLOBAL const void *a, tdm_gemm_shape_arg s, long at, long p0,
                          int chunks, float row_scale, char *codes, int *first) {
    for (int p = 0; p < chunks * CHUNK; p += 16)
        store_codes(row_scale == 0.0f
                        ? s32x16_splat(0)
                        : codes_of(load_row(a, s.a_type, at, s.a_col, p0 + p, s.k), row_scale),
                    codes, p);
    ints all = (ints)(0);
    for (int c = 0; c < chunks; c++) {
        ints sum = (ints)(0);
        for (int part = 0; part < PARTS; part++) {
            const ints quads = *(const ints_anywhere *)(codes + (c * PARTS + part) * LINE_BYTES);
            sum += tdm_quad_byte(16, quads, 0) + tdm_quad_byte(16, quads, 1) +
                   tdm_quad_byte(16, quads, 2) + tdm_quad_byte(16, quads, 3);
        }
        *(ints_anywhere *)(first + c * LANES) = sum * (ints)(-OFFSET);
        all += sum * (ints)(-OFFSET);
    }
    int lanes[LANES], base = 0;
    *(ints_anywhere *)lanes = all;
    for (int x = 0; x < LANES; x++)
        base += lanes[x];
    return base;
}

/* Rows of A at a time: 4, 2 or 1. */
TDM_DEVICE int some_rows(int left, int lines) {
    return left >= 4 ? 4 : left >= 2 && lines == NT ? 2 : 1;
}

/* sums(i, n) += … of all rows and `lines` lines, 1 or NT; a row's sums are NT apart. */
TDM_DEVICE void add_whole(const item_memory *my, const char *line, long line_stride, int lines,
                          int chunks, int from, int stride, int rows, int *sums) {
    int part[4 * NT];
    for (int i = 0, some; i < rows; i += some) {
        const char *const codes = my->codes + from * CHUNK + i * stride;
        some = some_rows(rows - i, lines);
        if (lines == 1 && some == 1)
            whole_1x1(line, line_stride, chunks, codes, stride, part);
        else if (lines == 1)
            whole_4x1(line, line_stride, chunks, codes, stride, part);
        else if (some == 1)
            TDM_CAT2(whole_1x, NT)(line, line_stride, chunks, codes, stride, part);
        else if (some == 2)
            TDM_CAT2(whole_2x, NT)(line, line_stride, chunks, codes, stride, part);
        else
            TDM_CAT2(whole_4x, NT)(line, line_stride, chunks, codes, stride, part);
        for (int m = 0; m < some; m++)
            for (int n = 0; n < lines; n++)
                sums[(i + m) * NT + n] += part[m * lines + n];
    }
}

/* kept(i, n) += … likewise, scaled by groups. */
TDM_DEVICE void add_grouped(const item_memory *my, const char *line, long line_stride, int lines,
                            int chunks, int from, int stride, int first_stride, int rows,
                            const line_groups *groups, float *kept, int pitch) {
    const line_groups g = {groups->scale + from * groups->groups,
                           groups->zero ? groups->zero + from * groups->groups : NULL,
                           groups->groups, groups->pitch, groups->lane_group};
    float part[4 * NT];
    for (int i = 0, some; i < rows; i += some) {
        const char *const codes = my->codes + from * CHUNK + i * stride;
        const int *const first = my->first + from * LANES + i * first_stride;
        some = some_rows(rows - i, lines);
        if (lines == 1 && some == 1)
            grouped_1x1(line, line_stride, chunks, codes, stride, first, first_stride, &g, part);
        else if (lines == 1)
            grouped_4x1(line, line_stride, chunks, codes, stride, first, first_stride, &g, part);
        else if (some == 1)
            TDM_CAT2(grouped_1x, NT)
        (line, line_stride, chunks, codes, stride, first, first_stride, &g, part);
        else if (some == 2) TDM_CAT2(grouped_2x, NT)(line, line_stride, chunks, codes, stride,
                                                     first, first_stride, &g, part);
        else TDM_CAT2(grouped_4x, NT)(line, line_stride, chunks, codes, stride, first, first_stride,
                                      &g, part);
        for (int m = 0; m < some; m++)
            for (int n = 0; n < lines; n++)
                kept[(i + m) * pitch + n] += part[m * lines + n];
    }
}

/* Sums of integers to reals: kept(i, n) += scale · (sum − OFFSET·Σ a − zero·Σ a). */
TDM_DEVICE void scale_whole(const lines_of_b *l, const item_memory *my, long j, int lines, int rows,
                            const int *sums, float *kept, int pitch) {
    for (int n = 0; n < lines; n++) {
        const float scale =
            tdm_load_any(l->scale, l->w.scale_type, l->scale_at + (j + n) * l->w.scale_col);
        const int zero = tdm_int_any(l->zero, l->w.zero_type, l->zero_at + (j + n) * l->w.zero_col);
        for (int i = 0; i < rows; i++)
            kept[i * pitch + n] += scale * tdm_float(sums[i * NT + n] + my->base[i] +
                                                     zero * (my->base[i] >> OFFSET_BITS));
    }
}

/* kept(·, j …) of `lines` lines and a block of K from step p0 on: whole chunks in place, the rest of the lines from a
 * copy, so that nothing behind B is read. */
TDM_DEVICE void multiply_lines(const lines_of_b *l, const block_groups *of_k, item_memory *my,
                               long j, int lines, long p0, int depth, int stride, int first_stride,
                               int rows, float *kept, int pitch) {
    TDM_GLOBAL const char *const line = l->b + (l->b_at + j * l->b_col + p0) / PARTS;
    const char *const plain = (const char *)(size_t)line;
    const long line_stride = l->b_col / PARTS;
    const int whole = depth / CHUNK, left = (depth % CHUNK + PARTS - 1) / PARTS;
    line_groups groups = {my->scale, l->w.zero_type == TDM_CODE_ABSENT ? NULL : my->zero, l->groups,
                          PITCH, l->lane_group};
    char rest[NT * LINE_BYTES];
    int sums[ROWS * NT];
    ask_for_lines(l, of_k, j, lines);
    for (int x = 0; x < LINE_BYTES && left > 0; x++)
        for (int n = 0; n < lines; n++)
            rest[n * LINE_BYTES + x] =
                x < left ? line[n * line_stride + whole * LINE_BYTES + x] : 0;
    if (l->groups) {
        for (int n = 0; n < lines; n++)
            gather_parameters(l, of_k, j + n, my->scale + n * PITCH, my->zero + n * PITCH);
        add_grouped(my, plain, line_stride, lines, whole, 0, stride, first_stride, rows, &groups,
                    kept, pitch);
        if (left == 0)
            return;
        for (int n = 0; n < lines; n++)
            my->scale[n * PITCH + (whole + 1) * l->groups] = 0.0f;
        groups.lane_group = l->rest_group;
        add_grouped(my, rest, LINE_BYTES, lines, 1, whole, stride, first_stride, rows, &groups,
                    kept, pitch);
        return;
    }
    for (int x = 0; x < rows * NT; x++)
        sums[x] = 0;
    add_whole(my, plain, line_stride, lines, whole, 0, stride, rows, sums);
    if (left > 0)
        add_whole(my, rest, LINE_BYTES, lines, 1, whole, stride, rows, sums);
    scale_whole(l, my, j, lines, rows, sums, kept, pitch);
}

TDM_KERNEL_GROUP(TDM_ENTRY, 1, 1, 1)(TDM_WEIGHTS_ARGUMENTS) {
    const long item = tdm_group_x(), z = tdm_group_z();
    item_memory my;
    const item_columns own = columns_of_item(s, item);
    const int groups = w.group >= s.k ? 0 : w.group >= CHUNK ? 1 : CHUNK / (int)w.group;
    const lines_of_b l =
        lines_of_launch(b, b_offset + z * s.b_batch, scale, scale_offset + z * w.scale_batch, zero,
                        zero_offset + z * w.zero_batch, s, w, groups);
    const tdm_epilogue_io io =
        tdm_epilogue_begin(c, c_offset, bias, bias_offset, residual, r_offset, d, d_offset, e, z);
    const int dense = tdm_epilogue_is_dense(e);

    for (long i0 = 0; i0 < s.m; i0 += ROWS) {
        const int rows = (int)(s.m - i0 < ROWS ? s.m - i0 : ROWS);
        /* Rows of a power of two would fall on the same lines of a cache. */
        const int most = (STRIP / rows / CHUNK - PARTS) * CHUNK;
        const int step = size_of_parts(s.k, most, CHUNK), stride = step + LINE_BYTES;
        const int first_stride = step / CHUNK * LANES + LANES, stripe = KEPT / rows;
        const long a0 = a_offset + z * s.a_batch + i0 * s.a_row;
        for (int i = 0; i < rows; i++)
            my.row_scale[i] = scale_of_row(a, s.a_type, a0 + i * s.a_row, s.a_col, s.k);
        for (long j0 = own.begin; j0 < own.end; j0 += stripe) {
            const int columns = (int)(own.end - j0 < stripe ? own.end - j0 : stripe);
            for (int t = 0; t < rows * columns; t++)
                my.kept[t] = 0.0f;
            for (long p0 = 0; p0 < s.k; p0 += step) {
                const int depth = (int)(s.k - p0 < step ? s.k - p0 : step);
                const block_groups of_k = groups_of_block(&l, p0, (depth + CHUNK - 1) / CHUNK);
                for (int i = 0; i < rows; i++)
                    my.base[i] = copy_codes(a, s, a0 + i * s.a_row, p0, (depth + CHUNK - 1) / CHUNK,
                                            my.row_scale[i], my.codes + i * stride,
                                            my.first + i * first_stride);
                for (int j = 0, lines; j < columns; j += lines) {
                    lines = rows > 1 && columns - j >= NT ? NT : 1;
                    multiply_lines(&l, &of_k, &my, j0 + j, lines, p0, depth, stride, first_stride,
                                   rows, my.kept + j, columns);
                }
            }
            for (int i = 0; i < rows; i++) {
                for (int j = 0; j < columns; j++)
                    my.kept[i * columns + j] *= my.row_scale[i];
                tdm_epilogue_row(my.kept + i * columns, io, e, i0 + i, j0, columns, dense);
            }
        }
    }
}
