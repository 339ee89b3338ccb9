/* Small-M GEMM (M up to 16) with quantized weights, for CPU-like devices. It reads B once, in the
 * form in which B is stored. The memory bandwidth of these reads limits its speed. B is stored as
 * rows of Bᵀ, also called lines. Each holds one column of B, contiguous along K.
 *
 *   row of column j     [ group 0 | group 1 | … ]   A work-item multiplies all rows of A by a range
 *   row of column j+1   [ group 0 | group 1 | … ]   of columns. The rows of Bᵀ of this range are
 *                                                   consecutive in memory.
 *
 * K is divided into blocks. `strip` holds the rows of A for one block: in f32, or as quantized
 * values if A is quantized. `kept` holds the sums, rows × columns. Blocks are divided into pieces
 * (gemm_weights_order.h). For each group within a piece, each vector lane computes acc =
 * Σ a·(code − zero), and adds scale·acc to its total. The lanes are added up at the end of a piece.
 *
 * The grid is (column_tiles work-items, 1, batch). The columns are divided into chunks of NR, and
 * chunks = ceil(N / NR). The range of work-item c begins with chunk c·chunks / column_tiles.
 *
 * Parameters:
 *   NR       columns of a chunk, e.g. 8
 *   VW       floats in a vector, e.g. 16
 *   IS_S4    1 if weights are s4, 0 if they are s8
 *   LOOKUP   1 if a vector register with a table of sixteen floats converts s4 values (AVX-512), 0
 *            otherwise */
#define TDM_EPILOGUE_VECTOR 8
#include "kernels/dialect/dialect.h"
#include "kernels/gemm/gemm_epilogue.h"
#include "gemm_weights_args.h"
#include "gemm_weights_order.h"
#include "gemm_weights_rows.h"

#define ROWS 16     /* most rows of A that are multiplied at a time */
#define STRIP 65536 /* elements of `strip`, for all rows together */
#define KEPT 4096   /* elements of `kept`, for all rows together */
#define PAD 16      /* elements of padding after each row in `strip` */
#define VECTOR TDM_F32(VW)
#if IS_S4
#define BT s4
/* STEPS is the number of steps of K in a vector of a row of Bᵀ. For s4, the even steps are in the
 * low halves of the bytes. */
#define STEPS (2 * VW)
#else
#define BT s8
#define STEPS VW
#endif
#define B_POINTER TDM_GLOBAL const TDM_TYPE(BT) *

/* B and its parameters for one batch entry. Offsets and strides are in elements. */
typedef struct {
    B_POINTER b;
    TDM_GLOBAL const void *scale, *zero;
    long b_at, b_col;
    long scale_at, zero_at;
    tdm_gemm_weights_arg w;
    float *scales; /* scales of the current piece's groups, for up to four rows of Bᵀ */
} lines_of_b;

#define MOST_GROUPS (PIECE / 16 + 2)

/* Returns the index of step p within a row of `strip`. The even steps of a vector of s4 come before
 * the odd ones. */
TDM_DEVICE int place_of(int p) {
#if IS_S4
    return p / STEPS * STEPS + p % 2 * VW + p % STEPS / 2;
#else
    return p;
#endif
}

/* Copies `depth` elements of a row of A, from p0 on, to a row of `strip`. The number of elements is
 * rounded up to a multiple of 16. If `quantize` is set, the elements are quantized. */
TDM_DEVICE void copy_row(TDM_GLOBAL const void *a, tdm_gemm_shape_arg s, long at, long p0,
                         int depth, int quantize, float row_scale, float *strip) {
    for (int p = 0; p < depth; p += 16) {
        f32x16 x = load_row(a, s.a_type, at, s.a_col, p0 + p, s.k);
        if (quantize)
            x = row_scale == 0.0f ? f32x16_splat(0.0f) : f32x16_from_s32(codes_of(x, row_scale));
#if IS_S4
        vstore8(x.even, 0, strip + place_of(p));
        vstore8(x.odd, 0, strip + place_of(p) + VW);
#else
        f32x16_store_f32(x, strip, p);
#endif
    }
}

/* ---- rows of Bᵀ ---- */

/* Loads the scales of `lines` rows of Bᵀ, from row j on, for the piece that begins at step `first`.
 * Prefetches the scales of later rows. */
TDM_DEVICE void take_scales(const lines_of_b *l, long j, int lines, long first, int depth) {
    const long g = first / l->w.group;
    const int count = depth > 0 ? (int)((first + depth - 1) / l->w.group - g) + 1 : 0;
    for (int n = 0; n < lines; n++)
        prefetch_scales(l->scale, l->w.scale_type,
                       l->scale_at + g * l->w.scale_row + (j + SCALES_AHEAD + n) * l->w.scale_col,
                       l->w.scale_row, count);
    for (int n = 0; n < lines; n++)
        load_scales(l->scale, l->w.scale_type,
                    l->scale_at + g * l->w.scale_row + (j + n) * l->w.scale_col, l->w.scale_row,
                    count, l->scales + n * MOST_GROUPS);
}

TDM_DEVICE int line_zero(const lines_of_b *l, long j, long g) {
    return tdm_int_any(l->zero, l->w.zero_type, l->zero_at + g * l->w.zero_row + j * l->w.zero_col);
}

/* VALUE_OF converts quantized values to floats and subtracts the zero point. VALUES_OF computes its
 * second operand from the zero point: a table of all results, or the number to subtract. */
#if LOOKUP
#define VALUES VECTOR
#define VALUES_OF(zero)                                                                            \
    ((VECTOR)(0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1) -                            \
     TDM_SPLAT(VW, tdm_float(zero)))
#define VALUE_OF(nibble, values) __builtin_ia32_permvarsf512(values, nibble)
#else
#define VALUES TDM_S32(VW)
#define VALUES_OF(zero) TDM_INT_SPLAT(VW, (zero) + 8 * IS_S4)
#define VALUE_OF(nibble, values)                                                                   \
    TDM_CAT4(f32x, VW, _from_s32, )                                                                \
    ((((nibble)&TDM_INT_SPLAT(VW, 15)) ^ TDM_INT_SPLAT(VW, 8)) - (values))
#endif

/* TURNS is the number of accumulators that consecutive vectors use in turn. This hides the latency
 * of an addition. */
#define TURNS(MT, NT) ((MT) * (NT) == 1 && !IS_S4 ? 4 : 2)

#define ADD(MT, n, U, place, value)                                                                \
    TDM_UNROLL for (int m = 0; m < MT; m++) acc[m][n][U] =                                         \
        tdm_fma(TDM_LOADV(VW, f32, strip, m * stride + (place)), value, acc[m][n][U]);

/* STEP loads the U-th vector of each row of Bᵀ from step p on, and multiply-accumulates it. */
#if IS_S4
#define STEP(MT, NT, U)                                                                            \
    TDM_UNROLL for (int n = 0; n < NT; n++) {                                                      \
        TDM_GLOBAL const tdm_u8 *const bytes =                                                     \
            (TDM_GLOBAL const tdm_u8 *)l->b + (at + n * l->b_col + p) / 2 + (U)*VW;                \
        tdm_prefetch_far((TDM_GLOBAL const tdm_u8 *)l->b + (prefetch[n] + p) / 2 + (U)*VW);        \
        const TDM_S32(VW) pairs = TDM_INT_LOADV(VW, u8, bytes, 0);                                 \
        ADD(MT, n, U, p + (U)*STEPS, VALUE_OF(pairs, values[n]))                                   \
        ADD(MT, n, U, p + (U)*STEPS + VW, VALUE_OF(pairs >> 4, values[n]))                         \
    }
#else
#define PLAIN(n, codes) (codes)
#define LESS_ZERO(n, codes) ((codes)-values[n])
#define STEP_OF(MT, NT, U, CODES)                                                                  \
    TDM_UNROLL for (int n = 0; n < NT; n++) {                                                      \
        const TDM_S32(VW) codes = TDM_INT_LOADV(VW, s8, l->b + at + n * l->b_col, p + (U)*VW);     \
        ADD(MT, n, (U) % TURNS(MT, NT), p + (U)*VW,                                                \
            TDM_CAT4(f32x, VW, _from_s32, )(CODES(n, codes)))                                      \
    }
#define STEP(MT, NT, U) STEP_OF(MT, NT, U, LESS_ZERO)
#define FOUR_STEPS(MT, NT, CODES)                                                                  \
    for (; p + 4 * STEPS <= end; p += 4 * STEPS) {                                                 \
        TDM_UNROLL for (int n = 0; n < NT; n++) tdm_prefetch_far(l->b + prefetch[n] + p);          \
        STEP_OF(MT, NT, 0, CODES)                                                                  \
        STEP_OF(MT, NT, 1, CODES)                                                                  \
        STEP_OF(MT, NT, 2, CODES)                                                                  \
        STEP_OF(MT, NT, 3, CODES)                                                                  \
    }
#endif

#if IS_S4
#define MOST_STEPS(MT, NT)                                                                         \
    for (; p + 2 * STEPS <= end; p += 2 * STEPS) {                                                 \
        STEP(MT, NT, 0)                                                                            \
        STEP(MT, NT, 1)                                                                            \
    }
#else
#define MOST_STEPS(MT, NT)                                                                         \
    if (has_zero)                                                                                  \
        FOUR_STEPS(MT, NT, LESS_ZERO)                                                              \
    else                                                                                           \
        FOUR_STEPS(MT, NT, PLAIN)
#endif

/* LINES defines lines_MTxNT, which adds to `kept` the dot products of MT rows of A and NT columns
 * of B from j on. It covers the piece of K that begins at step `first`. For each column, `prefetch`
 * is the index of the element of B at which prefetching begins. */
#define LINES(MT, NT)                                                                              \
    TDM_DEVICE void TDM_CAT4(lines_, MT, x, NT)(const lines_of_b *l, long j, long first,           \
                                                const float *strip, int stride, int depth,         \
                                                const long *prefetch, float *kept, int pitch) {    \
        const long at = l->b_at + j * l->b_col + first;                                            \
        VECTOR total[MT][NT];                                                                      \
        float rest[MT][NT];                                                                        \
        TDM_UNROLL for (int m = 0; m < MT; m++) TDM_UNROLL for (int n = 0; n < NT; n++) {          \
            total[m][n] = TDM_SPLAT(VW, 0.0f);                                                     \
            rest[m][n] = 0.0f;                                                                     \
        }                                                                                          \
        const int has_zero = l->w.zero_type != TDM_CODE_ABSENT;                                    \
        const long first_group = first / l->w.group;                                               \
        VALUES values[NT];                                                                         \
        TDM_UNROLL for (int n = 0; n < NT; n++) values[n] = VALUES_OF(0);                          \
        int p = 0;                                                                                 \
        for (long g = first_group; p < depth; g++) {                                               \
            const long past = (g + 1) * l->w.group - first;                                        \
            const int end = past < depth ? (int)past : depth;                                      \
            VECTOR acc[MT][NT][TURNS(MT, NT)];                                                     \
            float scale[NT];                                                                       \
            TDM_UNROLL for (int n = 0; n < NT; n++) {                                              \
                scale[n] = l->scales[n * MOST_GROUPS + (int)(g - first_group)];                    \
                if (has_zero)                                                                      \
                    values[n] = VALUES_OF(line_zero(l, j + n, g));                                 \
                TDM_UNROLL for (int m = 0; m < MT; m++)                                            \
                    TDM_UNROLL for (int u = 0; u < TURNS(MT, NT); u++) acc[m][n][u] =              \
                        TDM_SPLAT(VW, 0.0f);                                                       \
            }                                                                                      \
            const int begin = p;                                                                   \
            /* Load and multiply-accumulate the steps of a group. */                               \
            MOST_STEPS(MT, NT)                                                                     \
            for (; p + STEPS <= end; p += STEPS)                                                   \
                STEP(MT, NT, 0)                                                                    \
            /* The scale counts as 0 if no step was added: 0 times an infinite scale is NaN. */    \
            TDM_UNROLL for (int m = 0; m < MT; m++) TDM_UNROLL for (int n = 0; n < NT; n++) {      \
                TDM_UNROLL for (int u = 2; u < TURNS(MT, NT); u++) acc[m][n][u - 2] +=             \
                    acc[m][n][u];                                                                  \
                total[m][n] = tdm_fma(TDM_SPLAT(VW, p > begin ? scale[n] : 0.0f),                  \
                                      acc[m][n][0] + acc[m][n][1], total[m][n]);                   \
            }                                                                                      \
            for (; p < end; p++)                                                                   \
                for (int n = 0; n < NT; n++) {                                                     \
                    const float weight =                                                           \
                        tdm_float(TDM_CAT2(tdm_int_, BT)(l->b, at + n * l->b_col + p) -            \
                                  line_zero(l, j + n, g));                                         \
                    for (int m = 0; m < MT; m++)                                                   \
                        rest[m][n] += scale[n] * (strip[m * stride + place_of(p)] * weight);       \
                }                                                                                  \
        }                                                                                          \
        /* Add up the lanes, and add the sums to `kept`. */                                        \
        TDM_UNROLL for (int m = 0; m < MT; m++) TDM_UNROLL for (int n = 0; n < NT; n++)            \
            kept[m * pitch + n] += TDM_CAT4(f32x, VW, _, sum)(total[m][n]) + rest[m][n];           \
    }
LINES(1, 1)
LINES(1, 2)
LINES(1, 4)
LINES(2, 2)
LINES(4, 1)
LINES(4, 2)

/* Multiplies one piece of each of the `lines` rows of Bᵀ of a tile. `index` is the number of the
 * first of these pieces within the tile, as in gemm_weights_order.h. */
TDM_DEVICE void multiply(const lines_of_b *l, const tile_order *order, int index, long j0,
                         int lines, long first, const float *strip, int stride, int rows, int depth,
                         float *kept, int pitch) {
    long prefetch[TILE];
    int j = 0;
    for (int n = 0; n < lines; n++)
        prefetch[n] = prefetch_offset(order, index + n, l->b_col);
    /* If A has one row, rows of Bᵀ of s8 are read one at a time. Two at a time are slower, and four
     * are slower still. */
    for (; j + 4 <= lines && rows == 1 && IS_S4; j += 4) {
        take_scales(l, j0 + j, 4, first, depth);
        lines_1x4(l, j0 + j, first, strip, stride, depth, prefetch + j, kept + j, pitch);
    }
    for (; j + 2 <= lines && (rows > 1 || IS_S4); j += 2) {
        int i = 0;
        take_scales(l, j0 + j, 2, first, depth);
        for (; i + 4 <= rows; i += 4)
            lines_4x2(l, j0 + j, first, strip + i * stride, stride, depth, prefetch + j,
                      kept + i * pitch + j, pitch);
        if (i + 2 <= rows) {
            lines_2x2(l, j0 + j, first, strip + i * stride, stride, depth, prefetch + j,
                      kept + i * pitch + j, pitch);
            i += 2;
        }
        if (i < rows)
            lines_1x2(l, j0 + j, first, strip + i * stride, stride, depth, prefetch + j,
                      kept + i * pitch + j, pitch);
    }
    for (; j < lines; j++) {
        int i = 0;
        take_scales(l, j0 + j, 1, first, depth);
        for (; i + 4 <= rows; i += 4)
            lines_4x1(l, j0 + j, first, strip + i * stride, stride, depth, prefetch + j,
                      kept + i * pitch + j, pitch);
        for (; i < rows; i++)
            lines_1x1(l, j0 + j, first, strip + i * stride, stride, depth, prefetch + j,
                      kept + i * pitch + j, pitch);
    }
}

TDM_DEVICE void multiply_tiles(const lines_of_b *l, long j0, int columns, long first,
                               const float *strip, int stride, int rows, int depth, float *kept) {
    tile_order order = order_of_tiles(rows, depth);
    for (int j = 0; j < columns; j += order.lines) {
        const int lines = columns - j < order.lines ? columns - j : order.lines;
        order.next = l->b_at + (j0 + j + order.lines) * l->b_col + first;
        for (int p = 0, index = 0; p < depth; p += order.piece, index += lines)
            multiply(l, &order, index, j0 + j, lines, first + p, strip + p, stride, rows,
                     depth - p < order.piece ? depth - p : order.piece, kept + j, columns);
    }
}

TDM_BODY void do_item(TDM_WEIGHTS_ARGUMENTS, long item, long z) {
    float strip[STRIP] __attribute__((aligned(64)));
    float kept[KEPT], row_scale[ROWS], scales[4 * MOST_GROUPS];
    const item_columns own = columns_of_item(s, item);
    const lines_of_b l = {(B_POINTER)b,
                          scale,
                          zero,
                          b_offset + z * s.b_batch,
                          s.b_col,
                          scale_offset + z * w.scale_batch,
                          zero_offset + z * w.zero_batch,
                          w,
                          scales};
    const tdm_epilogue_io io =
        tdm_epilogue_begin(c, c_offset, bias, bias_offset, residual, r_offset, d, d_offset, e, z);
    const int dense = tdm_epilogue_is_dense(e);

    for (long i0 = 0; i0 < s.m; i0 += ROWS) {
        const int rows = (int)(s.m - i0 < ROWS ? s.m - i0 : ROWS);
        /* PAD keeps the stride of the rows from being a power of two, which would map them to the
         * same cache sets. */
        const int step = size_of_parts(s.k, (STRIP / rows - PAD) / UNIT * UNIT, UNIT);
        const int stride = step + PAD;
        const int stripe = KEPT / rows;
        const long a0 = a_offset + z * s.a_batch + i0 * s.a_row;
        for (int i = 0; i < rows; i++)
            row_scale[i] =
                w.quantize_a ? scale_of_row(a, s.a_type, a0 + i * s.a_row, s.a_col, s.k) : 1.0f;
        for (long j0 = own.begin; j0 < own.end; j0 += stripe) {
            const int columns = (int)(own.end - j0 < stripe ? own.end - j0 : stripe);
            for (int t = 0; t < rows * columns; t++)
                kept[t] = 0.0f;
            for (long p0 = 0; p0 < s.k; p0 += step) {
                const int depth = (int)(s.k - p0 < step ? s.k - p0 : step);
                for (int i = 0; i < rows; i++)
                    copy_row(a, s, a0 + i * s.a_row, p0, depth, w.quantize_a, row_scale[i],
                             strip + i * stride);
                multiply_tiles(&l, j0, columns, p0, strip, stride, rows, depth, kept);
            }
            for (int i = 0; i < rows; i++) {
                end_row(kept + i * columns, j0, columns, row_scale[i], a, a0 + i * s.a_row, b,
                        b_offset + z * s.b_batch, scale, scale_offset + z * w.scale_batch, zero,
                        zero_offset + z * w.zero_batch, s, w);
                tdm_epilogue_row(kept + i * columns, io, e, i0 + i, j0, columns, dense);
            }
        }
    }
}

TDM_KERNEL_GROUP(TDM_ENTRY, 1, 1, 1)(TDM_WEIGHTS_ARGUMENTS) {
    TDM_ITEM_BEGIN;
    do_item(TDM_WEIGHTS_NAMES, tdm_group_x(), tdm_group_z());
}
