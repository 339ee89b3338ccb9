/* Version of gemm_weights_lines.cl for s4 on CPU cores with AVX-512. A row of Bᵀ is cut into chunks
 * of 64 bytes, which are 128 steps of K and are read at once. A group is a whole number of chunks,
 * or a part of one.
 *
 *   lane     0          1           …  15
 *   steps    0 … 7      8 … 15         120 … 127         of a chunk
 *   strip    [ 0 8 … 120 | 1 9 … 121 | … | 7 15 … 127 ]  of a chunk: step u of all lanes, u = 0 … 7
 *
 * The bits from 4·u on of a lane are its quantized value of step u. A permutation that uses only
 * four bits of a lane converts it.
 *
 * acc = Σ a·(code − zero) over a lane's eight steps, then total += scale·acc with the scale of each
 * lane's group. Lanes are added up at the end of a piece. Lanes past K have the scale 0, because 0
 * times an infinite scale would be NaN.
 *
 * The only parameter is NR: the columns by which work is divided, e.g. 8. */
#define TDM_EPILOGUE_VECTOR 8
#include "kernels/dialect/dialect.h"
#include "gemm_weights_rows.h"

#define ROWS 16
#define STRIP 65536 /* elements of all rows */
#define MOST_STEPS PIECE
#define NT 4 /* rows of Bᵀ at a time */
#define IS_S4 1
#include "gemm_weights_chunks.h"

#define KEPT 4096
#define PAD 16
#define STEPS 8 /* steps of K in a lane */

/* ---- chunks, through plain pointers ---- */

#define PLAIN(n) __builtin_ia32_permvarsf512(values, w[n])
#define LESS_ZERO(n) (PLAIN(n) - zero[n])

#define TAKE_ZERO(NT)                                                                              \
    floats zero[NT];                                                                               \
    TDM_UNROLL for (int n = 0; n < NT; n++) zero[n] = __builtin_convertvector(                     \
        __builtin_ia32_permvarsi512(                                                               \
            *(const ints_anywhere *)(g->zero + n * g->pitch + c * g->groups), g->lane_group),      \
        floats);
#define NO_ZERO(NT)

/* total(m, n) += the sums over `chunks` chunks. */
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
        /* Load weights. */                                                                        \
        TDM_UNROLL for (int n = 0; n < NT; n++) {                                                  \
            __builtin_prefetch(lines->prefetch[n] + c * LINE_BYTES, 0, 2);                         \
            w[n] = *(const ints_anywhere *)(lines->first + n * lines->stride + c * LINE_BYTES);    \
            TDM_UNROLL for (int m = 0; m < MT; m++) acc[m][n] = (floats)(0.0f);                    \
        }                                                                                          \
        /* Load A and multiply-accumulate. */                                                      \
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

/* kept(m, n) += A(m, ·)·B(·, n) over `chunks` chunks for MT rows and NT columns. `g` has their
 * parameters. */
#define LINES(MT, NT)                                                                              \
    TDM_DEVICE void TDM_CAT4(lines_, MT, x, NT)(const some_lines *lines, int chunks,               \
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
        /* Store. */                                                                               \
        TDM_UNROLL for (int m = 0; m < MT; m++) TDM_UNROLL for (int n = 0; n < NT; n++)            \
            kept[m * pitch + n] += f32x16_sum(total[m][n]);                                        \
    }
LINES(1, 1)
LINES(1, NT)
LINES(2, 2)
LINES(4, 1)
LINES(4, 2)

/* ---- the work-item ---- */

/* Private memory of a work-item. */
typedef struct {
    float strip[STRIP] __attribute__((aligned(64)));
    float scale[NT * PITCH];
    int zero[NT * PITCH];
    float kept[KEPT], row_scale[ROWS];
} item_memory;

/* Copies `chunks` chunks of a row from step p0 on, with zeros past its end. */
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

/* Returns the n-th row of Bᵀ and the next one. */
TDM_DEVICE some_lines two_lines(const some_lines *lines, int n) {
    const some_lines two = {lines->first + n * lines->stride,
                            lines->stride,
                            {lines->prefetch[n], lines->prefetch[n + 1]}};
    return two;
}

/* Returns the groups of the n-th row of Bᵀ and those after it. */
TDM_DEVICE line_groups groups_of_line(const line_groups *g, int n) {
    line_groups own = *g;
    own.scale += n * g->pitch;
    own.zero = g->zero ? g->zero + n * g->pitch : NULL;
    return own;
}

/* kept(·, n) += the products of all rows of A and `count` rows of Bᵀ, 1 or NT. */
TDM_DEVICE void add_lines(const some_lines *lines, int count, int chunks, const float *strip,
                          int stride, int rows, const line_groups *g, float *kept, int pitch) {
    int i = 0;
    if (count == 1) {
        for (; i + 4 <= rows; i += 4)
            lines_4x1(lines, chunks, strip + i * stride, stride, g, kept + i * pitch, pitch);
        for (; i < rows; i++)
            lines_1x1(lines, chunks, strip + i * stride, stride, g, kept + i * pitch, pitch);
        return;
    }
    for (; i + 2 <= rows; i += i + 4 <= rows ? 4 : 2)
        for (int n = 0; n < count; n += 2) {
            const line_groups own = groups_of_line(g, n);
            const some_lines two = two_lines(lines, n);
            float *const to = kept + i * pitch + n;
            if (i + 4 <= rows)
                lines_4x2(&two, chunks, strip + i * stride, stride, &own, to, pitch);
            else
                lines_2x2(&two, chunks, strip + i * stride, stride, &own, to, pitch);
        }
    if (i < rows)
        TDM_CAT2(lines_1x, NT)
    (lines, chunks, strip + i * stride, stride, g, kept + i * pitch, pitch);
}

/* A piece of K that is multiplied: `depth` steps from p0 on. Its rows of A are at `strip`, `stride`
 * elements apart. */
typedef struct {
    const float *strip;
    long p0;
    int depth, stride, rows;
    block_groups groups;
} piece_of_k;

/* Adds the products of `count` rows of Bᵀ to kept(·, j …). Whole chunks are read in place. The rest
 * of a row is read from a copy, so that nothing past the end of B is read. `index` is the number of
 * the first piece within the tile. */
TDM_DEVICE void multiply_lines(const lines_of_b *l, const piece_of_k *k, const tile_order *order,
                               int index, item_memory *my, long j, int count, float *kept,
                               int pitch) {
    TDM_GLOBAL const char *const line = l->b + (l->b_at + j * l->b_col + k->p0) / PARTS;
    const int whole = k->depth / CHUNK, left = (k->depth % CHUNK + PARTS - 1) / PARTS;
    line_groups groups = {my->scale, l->w.zero_type == TDM_CODE_ABSENT ? NULL : my->zero, l->groups,
                          PITCH, l->lane_group};
    some_lines lines = {(const char *)(size_t)line, l->b_col / PARTS, {NULL}};
    char rest[NT * LINE_BYTES];
    prefetch_lines(l, &k->groups, j, count);
    for (int n = 0; n < count; n++) {
        lines.prefetch[n] =
            (const char *)(size_t)(l->b + prefetch_offset(order, index + n, l->b_col) / PARTS);
        gather_parameters(l, &k->groups, j + n, my->scale + n * PITCH, my->zero + n * PITCH);
    }
    add_lines(&lines, count, whole, k->strip, k->stride, k->rows, &groups, kept, pitch);
    if (left == 0)
        return;
    for (int n = 0; n < count; n++) {
        for (int x = 0; x < LINE_BYTES; x++)
            rest[n * LINE_BYTES + x] =
                x < left ? line[n * lines.stride + whole * LINE_BYTES + x] : 0;
        my->scale[n * PITCH + (whole + 1) * l->groups] = 0.0f;
        lines.prefetch[n] += whole * LINE_BYTES;
    }
    lines.first = rest;
    lines.stride = LINE_BYTES;
    groups.scale += whole * l->groups;
    if (groups.zero)
        groups.zero += whole * l->groups;
    groups.lane_group = l->rest_group;
    add_lines(&lines, count, 1, k->strip + whole * CHUNK, k->stride, k->rows, &groups, kept, pitch);
}

/* kept += the products of a block of K from step `first` on. */
TDM_DEVICE void multiply_tiles(const lines_of_b *l, item_memory *my, long j0, int columns,
                               long first, int depth, int stride, int rows) {
    tile_order order = order_of_tiles(rows, depth);
    for (int tile = 0; tile < columns; tile += order.lines) {
        const int past = columns - tile < order.lines ? columns : tile + order.lines;
        int index = 0;
        order.next = l->b_at + (j0 + tile + order.lines) * l->b_col + first;
        for (int p = 0; p < depth; p += order.piece) {
            piece_of_k k = {my->strip + p, first + p, 0, stride, rows};
            k.depth = depth - p < order.piece ? depth - p : order.piece;
            k.groups = groups_of_block(l, k.p0, (k.depth + CHUNK - 1) / CHUNK);
            for (int j = tile, count; j < past; j += count, index += count) {
                count = past - j >= NT ? NT : 1;
                multiply_lines(l, &k, &order, index, my, j0 + j, count, my->kept + j, columns);
            }
        }
    }
}

TDM_BODY void do_item(TDM_WEIGHTS_ARGUMENTS, long item, long z) {
    item_memory my;
    const item_columns own = columns_of_item(s, item);
    const int chunks = (int)((s.k + CHUNK - 1) / CHUNK);
    /* A single group for all of K is treated as a group of whole chunks. */
    if (w.group >= s.k)
        w.group = (long)chunks * CHUNK;
    const int groups = w.group >= CHUNK ? 1 : CHUNK / (int)w.group;
    const lines_of_b l =
        lines_of_launch(b, b_offset + z * s.b_batch, scale, scale_offset + z * w.scale_batch, zero,
                        zero_offset + z * w.zero_batch, s, w, groups);
    const tdm_epilogue_io io =
        tdm_epilogue_begin(c, c_offset, bias, bias_offset, residual, r_offset, d, d_offset, e, z);
    const int dense = tdm_epilogue_is_dense(e);

    for (long i0 = 0; i0 < s.m; i0 += ROWS) {
        const int rows = (int)(s.m - i0 < ROWS ? s.m - i0 : ROWS);
        /* PAD keeps rows from having a power of two as stride, which would map them to the same
         * cache sets. */
        const int step = size_of_parts(s.k, (STRIP / rows - PAD) / CHUNK * CHUNK, CHUNK);
        const int stride = step + PAD;
        const int stripe = KEPT / rows;
        const long a0 = a_offset + z * s.a_batch + i0 * s.a_row;
        for (int i = 0; i < rows; i++)
            my.row_scale[i] =
                w.quantize_a ? scale_of_row(a, s.a_type, a0 + i * s.a_row, s.a_col, s.k) : 1.0f;
        for (long j0 = own.begin; j0 < own.end; j0 += stripe) {
            const int columns = (int)(own.end - j0 < stripe ? own.end - j0 : stripe);
            for (int t = 0; t < rows * columns; t++)
                my.kept[t] = 0.0f;
            for (long p0 = 0; p0 < s.k; p0 += step) {
                const int depth = (int)(s.k - p0 < step ? s.k - p0 : step);
                for (int i = 0; i < rows; i++)
                    copy_row(a, s, a0 + i * s.a_row, p0, (depth + CHUNK - 1) / CHUNK, w.quantize_a,
                             my.row_scale[i], my.strip + i * stride);
                multiply_tiles(&l, &my, j0, columns, p0, depth, stride, rows);
            }
            for (int i = 0; i < rows; i++) {
                end_row(my.kept + i * columns, j0, columns, my.row_scale[i], a, a0 + i * s.a_row, b,
                        b_offset + z * s.b_batch, scale, scale_offset + z * w.scale_batch, zero,
                        zero_offset + z * w.zero_batch, s, w);
                tdm_epilogue_row(my.kept + i * columns, io, e, i0 + i, j0, columns, dense);
            }
        }
    }
}

TDM_KERNEL_GROUP(TDM_ENTRY, 1, 1, 1)(TDM_WEIGHTS_ARGUMENTS) {
    TDM_ITEM_BEGIN;
    do_item(TDM_WEIGHTS_NAMES, tdm_group_x(), tdm_group_z());
}
