/* Version of gemm_weights_lines.cl for quantized rows of A, on CPU cores with VNNI. Products of
 * quantized values are added in integers.
 *
 * K is cut into chunks of 64 bytes of a row of Bᵀ: 64 steps of s8 or 128 of s4. The instruction
 * multiplies unsigned by signed bytes. An offset (128, or 8) makes the weights unsigned. The sums
 * of a chunk therefore begin at -offset · Σ a, which is the same for all columns.
 *
 *   strip  quantized values of A. A chunk has 64 of them if weights are s8; if they are s4, it has
 *          64 of the even steps, then 64 of the odd ones
 *
 * A lane adds 4 steps of s8 or 8 of s4. A group is a whole number of chunks, or a chunk is a whole
 * number of groups. The sums of a chunk are multiplied by the scale of each lane's group. Lanes
 * past K use the scale 0, because 0 times an infinite scale would be NaN. The initial value of such
 * sums is recomputed for each row of Bᵀ. Storing it would take half as much of the L1 cache as the
 * quantized values of an s4 strip. With one scale for all of K the sums stay integers to the end.
 *
 * Parameters:
 *   NR      columns by which work is divided among work-items, e.g. 8
 *   IS_S4   1 if weights are s4, 0 if s8 */
#define TDM_EPILOGUE_VECTOR 8
#include "kernels/dialect/dialect.h"
#include "gemm_weights_rows.h"
#include "gemm_weights_vnni.h"

#define ROWS 16
#define STRIP 262144     /* elements of all rows */
#define MOST_DEPTH 65536 /* steps of a block, so that the sums of a row fit integers */
#define PIECE 32768
#define PIECE_OF_ONE 16384
#define MOST_STEPS 16384
#define NT 4 /* rows of Bᵀ at a time */
#include "gemm_weights_chunks.h"

#define KEPT 4096
/* Prefetch distance in bytes. A row of Bᵀ is often a page, where the hardware prefetcher stops. */
#define AHEAD 8192

/* ---- functions for a CPU with VNNI, with plain pointers ---- */

/* Weights of NT rows of Bᵀ as unsigned bytes: s8; or the low nibbles (the even steps), then the
 * high ones. */
#define BYTES_OF(n) (*(const ints_anywhere *)(lines->first + (n)*lines->stride + c * LINE_BYTES))
#if IS_S4
#define UNSIGNED_WEIGHTS(n)                                                                        \
    {                                                                                              \
        const ints bytes = BYTES_OF(n) ^ (ints)(int)0x88888888;                                    \
        w[n][0] = bytes & (ints)0x0f0f0f0f;                                                        \
        w[n][1] = (bytes >> 4) & (ints)0x0f0f0f0f;                                                 \
    }
#else
#define UNSIGNED_WEIGHTS(n) w[n][0] = BYTES_OF(n) ^ (ints)(int)0x80808080;
#endif

#define TAKE_WEIGHTS(NT)                                                                           \
    ints w[NT][2];                                                                                 \
    TDM_UNROLL for (int n = 0; n < NT; n++) {                                                      \
        __builtin_prefetch(lines->prefetch[n] + c * LINE_BYTES, 0, 2);                             \
        UNSIGNED_WEIGHTS(n)                                                                        \
    }

/* Quantized rows of A, `stride` chunks apart. */
typedef struct {
    const char *codes;
    int stride;
} some_rows;

#define CODES_OF(m, c, part)                                                                       \
    (*(const ints_anywhere *)(rows->codes + ((m)*rows->stride + (c)) * CHUNK + (part)*LINE_BYTES))

/* first = -OFFSET · Σ a, for each lane of a chunk. */
#define FIRST_OF(m, c, first)                                                                      \
    ints first = (ints)(0);                                                                        \
    TDM_UNROLL for (int part = 0; part < PARTS; part++) first = __builtin_ia32_vpdpbusd512(        \
        first, (ints)(int)(OFFSET * 0x01010101u), CODES_OF(m, c, part));                           \
    first = -first;

/* sums(m, n) += Σ a·(b + OFFSET), for each lane, over `chunks` chunks for MT rows and NT
 * columns. */
#define WHOLE(MT, NT)                                                                              \
    TARGET void TDM_CAT4(whole_, MT, x, NT)(const some_lines *lines, int chunks,                   \
                                            const some_rows *rows, ints *sums) {                   \
        ints sum[MT][NT];                                                                          \
        TDM_UNROLL for (int m = 0; m < MT; m++) TDM_UNROLL for (int n = 0; n < NT; n++)            \
            sum[m][n] = sums[m * TILE + n];                                                        \
        for (int c = 0; c < chunks; c++) {                                                         \
            /* Load weights. */                                                                    \
            TAKE_WEIGHTS(NT)                                                                       \
            /* Load A and multiply-accumulate. */                                                  \
            TDM_UNROLL for (int m = 0; m < MT; m++)                                                \
                TDM_UNROLL for (int part = 0; part < PARTS; part++) {                              \
                const ints a = CODES_OF(m, c, part);                                               \
                TDM_UNROLL for (int n = 0; n < NT; n++) sum[m][n] =                                \
                    __builtin_ia32_vpdpbusd512(sum[m][n], w[n][part], a);                          \
            }                                                                                      \
        }                                                                                          \
        /* Store. */                                                                               \
        TDM_UNROLL for (int m = 0; m < MT; m++) TDM_UNROLL for (int n = 0; n < NT; n++)            \
            sums[m * TILE + n] = sum[m][n];                                                        \
    }

/* sums(m, n) += Σ scale·a·(b − zero), for each lane, with the parameters of each chunk. The sums
 * hold the bits of floats. */
#define GROUPED(MT, NT)                                                                            \
    TARGET void TDM_CAT4(grouped_, MT, x, NT)(const some_lines *lines, int chunks,                 \
                                              const some_rows *rows, const line_groups *g,         \
                                              ints *sums) {                                        \
        floats total[MT][NT], scales[NT];                                                          \
        const ints lane_group = g->lane_group;                                                     \
        TDM_UNROLL for (int m = 0; m < MT; m++) TDM_UNROLL for (int n = 0; n < NT; n++)            \
            total[m][n] = as_float16(sums[m * TILE + n]);                                          \
        for (int c = 0; c < chunks; c++) {                                                         \
            /* Load weights and scales. */                                                         \
            TAKE_WEIGHTS(NT)                                                                       \
            const int place = c * g->groups % LANES;                                               \
            if (place == 0)                                                                        \
                TDM_UNROLL for (int n = 0; n < NT; n++) scales[n] =                                \
                    *(const floats_anywhere *)(g->scale + n * g->pitch + c * g->groups);           \
            const ints lanes = lane_group + (ints)(place);                                         \
            floats scale[NT];                                                                      \
            TDM_UNROLL for (int n = 0; n < NT; n++) scale[n] =                                     \
                __builtin_ia32_permvarsf512(scales[n], lanes);                                     \
            /* Load A and multiply-accumulate. */                                                  \
            TDM_UNROLL for (int m = 0; m < MT; m++) {                                              \
                FIRST_OF(m, c, first)                                                              \
                TDM_UNROLL for (int n = 0; n < NT; n++) {                                          \
                    ints sum = first;                                                              \
                    if (g->zero)                                                                   \
                        sum +=                                                                     \
                            (first >> OFFSET_BITS) *                                               \
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
        /* Store. */                                                                               \
        TDM_UNROLL for (int m = 0; m < MT; m++) TDM_UNROLL for (int n = 0; n < NT; n++)            \
            sums[m * TILE + n] = as_int16(total[m][n]);                                            \
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

/* ---- the work-item ---- */

/* Private memory of a work-item. In `codes`, a piece of all rows precedes the next piece. */
typedef struct {
    char codes[STRIP] __attribute__((aligned(64)));
    int base[ROWS]; /* -OFFSET · Σ a of a block */
    ints sums[ROWS * TILE];
    float scale[NT * PITCH];
    int zero[NT * PITCH];
    float kept[KEPT], row_scale[ROWS];
} item_memory;

/* Stores 16 quantized values, the low bytes of v. */
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

/* Quantizes `chunks` chunks of a row from step p0 on, with zeros past its end. */
TDM_DEVICE void copy_codes(TDM_GLOBAL const void *a, tdm_gemm_shape_arg s, long at, long p0,
                           int chunks, float row_scale, char *codes) {
    for (int p = 0; p < chunks * CHUNK; p += 16)
        store_codes(row_scale == 0.0f
                        ? s32x16_splat(0)
                        : codes_of(load_row(a, s.a_type, at, s.a_col, p0 + p, s.k), row_scale),
                    codes, p);
}

TDM_DEVICE int sum_of_codes(const char *codes, int chunks) {
    ints sum = (ints)(0);
    for (int x = 0; x < chunks * PARTS; x++) {
        const ints quads = *(const ints_anywhere *)(codes + x * LINE_BYTES);
        sum += tdm_quad_byte(16, quads, 0) + tdm_quad_byte(16, quads, 1) +
               tdm_quad_byte(16, quads, 2) + tdm_quad_byte(16, quads, 3);
    }
    return sum_of_lanes(sum);
}

/* Quantizes a block of `depth` steps of `rows` rows, piece by piece. */
TDM_DEVICE void copy_block(TDM_GLOBAL const void *a, tdm_gemm_shape_arg s, long at, long p0,
                           int depth, int piece, int rows, item_memory *my) {
    for (int i = 0; i < rows; i++)
        my->base[i] = 0;
    for (int p = 0; p < depth; p += piece) {
        const int steps = depth - p < piece ? depth - p : piece;
        const int chunks = (steps + CHUNK - 1) / CHUNK;
        for (int i = 0; i < rows; i++) {
            char *const codes = my->codes + p * rows + i * chunks * CHUNK;
            copy_codes(a, s, at + i * s.a_row, p0 + p, chunks, my->row_scale[i], codes);
            my->base[i] -= OFFSET * sum_of_codes(codes, chunks);
        }
    }
}

/* Returns how many rows of A are multiplied at a time: 4, 2 or 1. */
TDM_DEVICE int rows_at_once(int left, int lines) {
    return left >= 4 ? 4 : left >= 2 && lines == NT ? 2 : 1;
}

TDM_DEVICE some_rows rows_from(const some_rows *all, int i, int chunk) {
    const some_rows rows = {all->codes + (i * all->stride + chunk) * CHUNK, all->stride};
    return rows;
}

/* sums(i, n) += the products of all rows of A and `count` rows of Bᵀ, 1 or NT. */
TDM_DEVICE void add_whole(const some_lines *lines, int count, int chunks, const some_rows *all,
                          int from, int rows, ints *sums) {
    for (int i = 0, some; i < rows; i += some) {
        const some_rows own = rows_from(all, i, from);
        some = rows_at_once(rows - i, count);
        if (count == 1 && some == 1)
            whole_1x1(lines, chunks, &own, sums + i * TILE);
        else if (count == 1)
            whole_4x1(lines, chunks, &own, sums + i * TILE);
        else if (some == 1)
            TDM_CAT2(whole_1x, NT)(lines, chunks, &own, sums + i * TILE);
        else if (some == 2)
            TDM_CAT2(whole_2x, NT)(lines, chunks, &own, sums + i * TILE);
        else
            TDM_CAT2(whole_4x, NT)(lines, chunks, &own, sums + i * TILE);
    }
}

/* Scaled by groups: sums(i, n) += the products of all rows of A and `count` rows of Bᵀ, 1 or NT. */
TDM_DEVICE void add_grouped(const some_lines *lines, int count, int chunks, const some_rows *all,
                            int from, int rows, const line_groups *g, ints *sums) {
    for (int i = 0, some; i < rows; i += some) {
        const some_rows own = rows_from(all, i, from);
        some = rows_at_once(rows - i, count);
        if (count == 1 && some == 1)
            grouped_1x1(lines, chunks, &own, g, sums + i * TILE);
        else if (count == 1)
            grouped_4x1(lines, chunks, &own, g, sums + i * TILE);
        else if (some == 1)
            TDM_CAT2(grouped_1x, NT)(lines, chunks, &own, g, sums + i * TILE);
        else if (some == 2)
            TDM_CAT2(grouped_2x, NT)(lines, chunks, &own, g, sums + i * TILE);
        else
            TDM_CAT2(grouped_4x, NT)(lines, chunks, &own, g, sums + i * TILE);
    }
}

/* kept(·, j …) += the sums of a tile of `lines` rows of Bᵀ. Integer sums are dequantized: scale ·
 * (sum − OFFSET·Σ a − zero·Σ a). */
TDM_DEVICE void end_tile(const lines_of_b *l, const item_memory *my, long j, int lines, int rows,
                         float *kept, int pitch) {
    for (int n = 0; n < lines; n++) {
        if (l->groups) {
            for (int i = 0; i < rows; i++)
                kept[i * pitch + n] += f32x16_sum(as_float16(my->sums[i * TILE + n]));
            continue;
        }
        const float scale =
            tdm_load_any(l->scale, l->w.scale_type, l->scale_at + (j + n) * l->w.scale_col);
        const int zero = tdm_int_any(l->zero, l->w.zero_type, l->zero_at + (j + n) * l->w.zero_col);
        for (int i = 0; i < rows; i++)
            kept[i * pitch + n] +=
                scale * tdm_float(sum_of_lanes(my->sums[i * TILE + n]) + my->base[i] +
                                  zero * (my->base[i] >> OFFSET_BITS));
    }
}

/* A piece of K that is multiplied: `depth` steps from p0 on. */
typedef struct {
    some_rows of_a;
    long p0;
    int depth, rows;
    block_groups groups;
} piece_of_k;

/* Adds the products of `count` rows of Bᵀ from j on to sums(·, n). Whole chunks are read in place.
 * The rest of a row is read from a copy, so that nothing past the end of B is read. `index` is the
 * number of the first piece within the tile. */
TDM_DEVICE void multiply_lines(const lines_of_b *l, const piece_of_k *k, const tile_order *order,
                               int index, item_memory *my, long j, int count, ints *sums) {
    TDM_GLOBAL const char *const line = l->b + (l->b_at + j * l->b_col + k->p0) / PARTS;
    const int whole = k->depth / CHUNK, left = (k->depth % CHUNK + PARTS - 1) / PARTS;
    line_groups groups = {my->scale, l->w.zero_type == TDM_CODE_ABSENT ? NULL : my->zero, l->groups,
                          PITCH, l->lane_group};
    some_lines lines = {(const char *)(size_t)line, l->b_col / PARTS, {NULL}};
    char rest[NT * LINE_BYTES];
    prefetch_lines(l, &k->groups, j, count);
    for (int n = 0; n < count; n++) {
        lines.prefetch[n] =
            k->rows == 1 && order->pieces == 1
                ? lines.first + n * lines.stride + AHEAD
                : (const char *)(size_t)(l->b +
                                         prefetch_offset(order, index + n, l->b_col) / PARTS);
        if (l->groups)
            gather_parameters(l, &k->groups, j + n, my->scale + n * PITCH, my->zero + n * PITCH);
    }
    if (l->groups)
        add_grouped(&lines, count, whole, &k->of_a, 0, k->rows, &groups, sums);
    else
        add_whole(&lines, count, whole, &k->of_a, 0, k->rows, sums);
    if (left == 0)
        return;
    for (int n = 0; n < count; n++) {
        for (int x = 0; x < LINE_BYTES; x++)
            rest[n * LINE_BYTES + x] =
                x < left ? line[n * lines.stride + whole * LINE_BYTES + x] : 0;
        if (l->groups)
            my->scale[n * PITCH + (whole + 1) * l->groups] = 0.0f;
        lines.prefetch[n] += whole * LINE_BYTES;
    }
    lines.first = rest;
    lines.stride = LINE_BYTES;
    groups.scale += whole * l->groups;
    if (groups.zero)
        groups.zero += whole * l->groups;
    groups.lane_group = l->rest_group;
    if (l->groups)
        add_grouped(&lines, count, 1, &k->of_a, whole, k->rows, &groups, sums);
    else
        add_whole(&lines, count, 1, &k->of_a, whole, k->rows, sums);
}

/* kept += the products of a block of K from step `first` on. */
TDM_DEVICE void multiply_tiles(const lines_of_b *l, item_memory *my, tile_order order, long j0,
                               int columns, long first, int depth, int rows) {
    const int at_once = rows > 1 ? NT : 1;
    for (int tile = 0; tile < columns; tile += order.lines) {
        const int lines = columns - tile < order.lines ? columns - tile : order.lines;
        int index = 0;
        order.next = l->b_at + (j0 + tile + order.lines) * l->b_col + first;
        for (int i = 0; i < rows; i++)
            for (int n = 0; n < lines; n++)
                my->sums[i * TILE + n] = (ints)(0);
        for (int p = 0; p < depth; p += order.piece) {
            const int steps = depth - p < order.piece ? depth - p : order.piece;
            const int chunks = (steps + CHUNK - 1) / CHUNK;
            const piece_of_k k = {{my->codes + p * rows, chunks},
                                  first + p,
                                  steps,
                                  rows,
                                  groups_of_block(l, first + p, chunks)};
            for (int n = 0, count; n < lines; n += count, index += count) {
                count = lines - n >= at_once ? at_once : 1;
                multiply_lines(l, &k, &order, index, my, j0 + tile + n, count, my->sums + n);
            }
        }
        end_tile(l, my, j0 + tile, lines, rows, my->kept + tile, columns);
    }
}

TDM_BODY void do_item(TDM_WEIGHTS_ARGUMENTS, long item, long z) {
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
        const int most = STRIP / rows < MOST_DEPTH ? STRIP / rows / UNIT * UNIT : MOST_DEPTH;
        const int step = size_of_parts(s.k, most, CHUNK), stripe = KEPT / rows;
        const long a0 = a_offset + z * s.a_batch + i0 * s.a_row;
        for (int i = 0; i < rows; i++)
            my.row_scale[i] = scale_of_row(a, s.a_type, a0 + i * s.a_row, s.a_col, s.k);
        for (long j0 = own.begin; j0 < own.end; j0 += stripe) {
            const int columns = (int)(own.end - j0 < stripe ? own.end - j0 : stripe);
            for (int t = 0; t < rows * columns; t++)
                my.kept[t] = 0.0f;
            for (long p0 = 0; p0 < s.k; p0 += step) {
                const int depth = (int)(s.k - p0 < step ? s.k - p0 : step);
                const tile_order order = order_of_tiles(rows, depth);
                copy_block(a, s, a0, p0, depth, order.piece, rows, &my);
                multiply_tiles(&l, &my, order, j0, columns, p0, depth, rows);
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
