/* quantize_dynamic.cl with TDM_COLUMNS, for CPU cores: `inner` groups are side by side, one per
 * lane. Work-item (x, y) takes a share of the columns of its share of the outer dimensions.
 *
 * If columns are neighbours and quantize_finite.h applies, a strip of them is read twice. The first
 * pass finds the ranges, a few rows together. The second pass quantizes from the second-level
 * cache, row by row and with whole lines of results. Ranges and parameters of a strip stay in the
 * first-level cache. The next strip is prefetched row by row too, so that memory is read in order.
 * Tiles of rows would read as many separate parts of memory at a time. Prefetches during the first
 * pass would evict the strip from the second-level cache. Blocks of columns that are not all
 * finite, or whose scales are not suitable, are quantized vector by vector.
 *
 * Defines: DT the source's type, N (16), TDM_BUILT_IN_DIVIDE as in divide.h. */
#include "kernels/dialect/dialect.h"
#define TDM_CODES_OF_HALVES
#include "quantize_bits.h"
#include "quantize_types.h"

/* Loads lanes 0 … left-1, `column` apart. */
TDM_DEVICE F tdm_columns(TDM_GLOBAL const TDM_TYPE(DT) * x, long i, long column, int left) {
    if (column == 1 && left == N)
        return TDM_LOADV_GLOBAL(N, DT, x, i);
    float part[N];
    for (int lane = 0; lane < N; lane++)
        part[lane] = lane < left ? TDM_LOAD(DT, x, i + lane * column) : 0.0f;
    return TDM_LOADV(N, f32, part, 0);
}

/* The share of a work-item. A group's elements are x_step and y_step apart, columns x_column and 1.
 * `place` is that of column 0. */
typedef struct {
    TDM_GLOBAL const TDM_TYPE(DT) * x;
    TDM_GLOBAL void *y;
    long from, to, x_step, y_step, x_column, count;
    tdm_parameter_place place;
    tdm_quant_arg arg;
} tdm_band;

TDM_INLINE tdm_parameter_place tdm_place_of_column(tdm_band b, long column) {
    b.place.s += column * b.place.scale_step;
    b.place.z += column * b.place.zero_step;
    return b.place;
}

/* Quantizes columns i … i + left - 1. */
TDM_BODY_OF_16 void tdm_quantize_columns(tdm_band b, long i, int left) {
    const long from = b.from + i * b.x_column;
    tdm_range range = tdm_range_start();
    for (long k = 0; k < b.count; k++)
        range = tdm_range_add(range, tdm_columns(b.x, from + k * b.x_step, b.x_column, left));
    const tdm_quantizer q = tdm_derive(range, tdm_place_of_column(b, i), left, b.arg.target);
    for (long k = 0; k < b.count; k++)
        tdm_store_codes(b.arg.target_type,
                        tdm_code(tdm_columns(b.x, from + k * b.x_step, b.x_column, left), q), b.y,
                        b.to + k * b.y_step + i, left);
}

#if TDM_FINITE_CODES
#define BLOCK CODES_LINE
#define VECTORS (BLOCK / N)
#define TOGETHER 4 /* rows that widen a loaded range together */
#define STRIP                                                                                      \
    /* Most columns: more would fill the first-level cache. */
    (TDM_HALF_PRODUCTS ? 2048 : 1024)
/* Two strips of this size stay in the second-level cache. */
#define STRIP_BYTES (256 * 1024)

/* The ranges of a strip's columns, their parameters, and the blocks for which these cannot be
 * used. */
typedef struct {
    tdm_bits bits[STRIP / BITS_VECTOR];
    F correction[STRIP / N], reciprocal[STRIP / N];
    I zero[STRIP / N];
    F unfit[STRIP / BLOCK];
} tdm_strip_steps;

/* Number of rows of the next strip that are prefetched while parameters are derived. The other rows
 * are prefetched while a row is quantized. For f16 and bf16 quantizing takes long enough to
 * prefetch all of them. */
#define PREFETCHED_EARLY(count) (TDM_HALF_PRODUCTS ? 0 : (count) / 8)

/* Prefetches the cache lines of a block. */
TDM_INLINE void tdm_prefetch_block(tdm_band b, long at) {
    TDM_UNROLL for (int line = 0; line < BLOCK * (int)sizeof *b.x / 64; line++)
        tdm_prefetch_far(b.x + at + line * (64 / (int)sizeof *b.x));
}

/* Widens the ranges of columns i … i + columns - 1 by `rows` rows. Several rows at once have the
 * effect of unrolling. */
TDM_INLINE void tdm_widen_by_rows(tdm_band b, long i, long columns, int rows, int symmetric,
                                  tdm_strip_steps *steps) {
    for (long at = 0; at < columns; at += BLOCK) {
        tdm_bits bits[BLOCK / BITS_VECTOR];
        TDM_UNROLL for (int v = 0; v < BLOCK / BITS_VECTOR; v++) bits[v] =
            steps->bits[at / BITS_VECTOR + v];
        TDM_UNROLL for (int row = 0; row < rows; row++) {
            const long x = b.from + row * b.x_step + i + at;
            TDM_UNROLL for (int v = 0; v < BLOCK / BITS_VECTOR; v++) bits[v] =
                tdm_bits_add(bits[v], b.x, x + v * BITS_VECTOR, symmetric);
        }
        TDM_UNROLL for (int v = 0; v < BLOCK / BITS_VECTOR; v++) steps->bits[at / BITS_VECTOR + v] =
            bits[v];
    }
}

TDM_INLINE void tdm_ranges_of_strip(tdm_band b, long i, long columns, int symmetric,
                                    tdm_strip_steps *steps) {
    long k = 0;
    for (long v = 0; v < columns / BITS_VECTOR; v++)
        steps->bits[v] = tdm_bits_start();
    for (; k + TOGETHER <= b.count; k += TOGETHER) {
        tdm_widen_by_rows(b, i, columns, TOGETHER, symmetric, steps);
        b.from += TOGETHER * b.x_step;
    }
    for (; k < b.count; k++) {
        tdm_widen_by_rows(b, i, columns, 1, symmetric, steps);
        b.from += b.x_step;
    }
}

/* Returns the range of vector v of a strip. A NaN appears in it as an infinity. */
TDM_INLINE tdm_range tdm_range_in_strip(const tdm_strip_steps *steps, long v, int symmetric) {
#if TDM_HALF_PRODUCTS
    const int16 most = (int16)(TDM_CAT2(INFINITY_, DT)), least = most | (int16)(0x8000);
    const tdm_bits bits = steps->bits[v / 2];
    const int16 highs = v % 2 == 0 ? __builtin_convertvector(bits.high.lo, int16)
                                   : __builtin_convertvector(bits.high.hi, int16);
    const int16 lows = v % 2 == 0 ? __builtin_convertvector(bits.low.lo, int16)
                                  : __builtin_convertvector(bits.low.hi, int16);
    tdm_range r;
    r.high = TDM_CAT4(f32x, N, _of_bits_, DT)(min(highs, most));
    r.low = symmetric ? K(0.0f) - r.high : TDM_CAT4(f32x, N, _of_bits_, DT)(min(lows, least));
    return r;
#else
    return tdm_range_of_words(steps->bits[v], symmetric);
#endif
}

/* Does the work of tdm_derive for N columns whose parameters are contiguous and stored in f32.
 * tdm_derive would check that each time. */
TDM_INLINE tdm_quantizer tdm_derive_whole(tdm_range range, tdm_parameter_place place, int zeros,
                                          tdm_quant_side side) {
    side.zero_type = zeros ? side.zero_type : 0;
    side.scale_type = TDM_CODE_F32;
    const F scale = tdm_derived_scale(range, side);
    I zero = TDM_INT_SPLAT(N, 0);
    TDM_STOREV_GLOBAL(N, f32, scale, (TDM_GLOBAL tdm_f32 *)place.scale, place.s);
    if (zeros) {
        zero = tdm_derived_zero(range, scale, side);
        tdm_keep_zeros(zero, place.zero, place.z, 1, N, side.zero_type);
    }
    return tdm_quantizer_make(scale, zero, side.low, side.high);
}

/* Derives the parameters from the ranges. Returns 1 if they can be used for all blocks. A range
 * that is not finite gives the largest possible scale, which cannot be used. The next strip is
 * `ahead` elements ahead. */
TDM_INLINE int tdm_derive_strip(tdm_band b, long i, long columns, long ahead, int zeros,
                                tdm_strip_steps *steps) {
    const int whole = b.arg.target.scale_type == TDM_CODE_F32 && b.place.scale_step == 1 &&
                      (!zeros || b.place.zero_step == 1);
    F some = K(0.0f);
    for (long at = 0; at < columns; at += BLOCK) {
        F unfit = K(0.0f);
        for (long row = 0; row < PREFETCHED_EARLY(b.count); row++)
            tdm_prefetch_block(b, b.from + row * b.x_step + i + at + ahead);
        TDM_UNROLL for (int v = 0; v < VECTORS; v++) {
            const long vector = at / N + v;
            const tdm_parameter_place place = tdm_place_of_column(b, i + at + v * N);
            const tdm_range range = tdm_range_in_strip(steps, vector, !zeros);
            const tdm_quantizer q = whole ? tdm_derive_whole(range, place, zeros, b.arg.target)
                                          : tdm_derive(range, place, N, b.arg.target);
            const tdm_multiplier m = tdm_multiplier_of(q);
            steps->correction[vector] = m.correction;
            steps->reciprocal[vector] = m.reciprocal;
            steps->zero[vector] = m.zero;
            unfit = unfit + tdm_scales_not_near(q.scale, b.arg.target.scale_type);
        }
        steps->unfit[at / BLOCK] = unfit;
        some = some + unfit;
    }
    return TDM_CAT4(f32x, N, _, hmax)(some) == 0.0f;
}

TDM_INLINE int tdm_block_is_fit(const tdm_strip_steps *steps, long at) {
    return TDM_CAT4(f32x, N, _, hmax)(steps->unfit[at / BLOCK]) == 0.0f;
}

/* Quantizes `blocks` blocks of columns of a row, from column `at` of the strip on. Several blocks
 * at once have the effect of unrolling. If `prefetch` is set, the elements `ahead` of them are
 * prefetched. */
TDM_INLINE void tdm_codes_of_blocks(tdm_band b, long i, long at, int blocks, long ahead,
                                    int prefetch, const tdm_strip_steps *steps, int zeros,
                                    int type) {
    TDM_UNROLL for (int block = 0; block < blocks; block++) {
        const long column = at + block * BLOCK, x = b.from + i + column;
        I codes[VECTORS];
        if (prefetch)
            tdm_prefetch_block(b, x + ahead);
        TDM_UNROLL for (int v = 0; v < VECTORS; v++) {
            const long vector = column / N + v;
            tdm_multiplier m;
            m.correction = steps->correction[vector];
            m.reciprocal = steps->reciprocal[vector];
            m.zero = zeros ? steps->zero[vector] : TDM_INT_SPLAT(N, 0);
            codes[v] =
                tdm_code_of_finite(TDM_LOADV_GLOBAL(N, DT, b.x, x + v * N), m, zeros, b.arg.target);
        }
        tdm_store_line(type, codes, b.y, b.to + i + column);
    }
}

/* Quantizes a row, two blocks at a time if those make a whole cache line of s4. */
TDM_INLINE void tdm_codes_of_row(tdm_band b, long i, long columns, long ahead, int prefetch,
                                 const tdm_strip_steps *steps, int fit, int zeros, int type) {
    const int pairs = type == TDM_CODE_S4 || type == TDM_STREAMED + TDM_CODE_S4;
    long at = 0;
    for (; pairs && fit && at + 2 * BLOCK <= columns; at += 2 * BLOCK)
        tdm_codes_of_blocks(b, i, at, 2, ahead, prefetch, steps, zeros, type);
    for (; at < columns; at += BLOCK)
        if (fit || tdm_block_is_fit(steps, at))
            tdm_codes_of_blocks(b, i, at, 1, ahead, prefetch, steps, zeros, type);
}

TDM_INLINE void tdm_codes_of_strip(tdm_band b, long i, long columns, long ahead,
                                   const tdm_strip_steps *steps, int fit, int zeros, int type) {
    for (long k = 0; k < b.count; k++) {
        tdm_codes_of_row(b, i, columns, ahead, k >= PREFETCHED_EARLY(b.count), steps, fit, zeros,
                         type);
        b.from += b.x_step;
        b.to += b.y_step;
    }
}

/* Quantizes columns start … stop-1, which are neighbours, except a last part of less than a block.
 * The columns after them are at `next`. Returns the column where it ended. */
TDM_BODY_OF_16 long tdm_quantize_strips(tdm_band b, long start, long stop, long next) {
    tdm_strip_steps steps;
    const long fitting = STRIP_BYTES / (int)sizeof *b.x / b.count / BLOCK * BLOCK;
    const long strip = fitting > STRIP ? STRIP : fitting < BLOCK ? BLOCK : fitting;
    const int type = b.y_step % N == 0
                         ? tdm_store_type(b.y, b.to + start, b.arg.target_type, b.arg.streams)
                         : b.arg.target_type;
    const int zeros = b.arg.target.zero_type != 0;
    long i = start;
    while (i + BLOCK <= stop) {
        const long whole = (stop - i) / BLOCK * BLOCK, columns = whole < strip ? whole : strip;
        const long ahead = columns < whole ? columns : next - b.from - i + start;
        if (zeros)
            tdm_ranges_of_strip(b, i, columns, 0, &steps);
        else
            tdm_ranges_of_strip(b, i, columns, 1, &steps);
        const int fit = zeros ? tdm_derive_strip(b, i, columns, ahead, 1, &steps)
                              : tdm_derive_strip(b, i, columns, ahead, 0, &steps);
#define CALL(T) tdm_codes_of_strip(b, i, columns, ahead, &steps, fit, 0, T)
#define CALL_ZEROS(T) tdm_codes_of_strip(b, i, columns, ahead, &steps, fit, 1, T)
        if (zeros) {
            BY_CODES(type, CALL_ZEROS)
        } else {
            BY_CODES(type, CALL)
        }
#undef CALL
#undef CALL_ZEROS
        for (long at = 0; !fit && at < columns; at += N)
            if (!tdm_block_is_fit(&steps, at))
                tdm_quantize_columns(b, i + at, N);
        i += columns;
    }
    return i;
}
#endif

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const TDM_TYPE(DT) * x, long x_offset, TDM_GLOBAL void *scale, long scale_offset,
 TDM_GLOBAL void *zero, long zero_offset, TDM_GLOBAL void *y, long y_offset, tdm_dims outer,
 tdm_dims x_strides, tdm_dims scale_strides, tdm_dims zero_strides, tdm_dims y_strides, int rank,
 long rows, long inner, long count, long x_step, long y_step, long x_column, long scale_column,
 long zero_column, tdm_quant_arg arg) {
    TDM_ITEM_BEGIN;
    TDM_ROW_SHARE(rows, first, last);
    const long cells = (inner + CODES_LINE - 1) / CODES_LINE;
    const long span =
        tdm_quotient(cells + tdm_global_size_x() - 1, tdm_global_size_x()) * CODES_LINE;
    const long start = tdm_global_x() * span;
    const long stop = start + span < inner ? start + span : inner;
    tdm_band b;
    b.x = x, b.y = y, b.x_step = x_step, b.y_step = y_step, b.x_column = x_column;
    b.count = count, b.arg = arg;
    b.place.scale = scale, b.place.zero = zero;
    b.place.scale_step = scale_column, b.place.zero_step = zero_column;
    for (long row = first; row < last; row++) {
        b.from = x_offset + tdm_row_offset(row, rank, &outer, &x_strides);
        b.to = y_offset + tdm_row_offset(row, rank, &outer, &y_strides);
        b.place.s = scale_offset + tdm_row_offset(row, rank, &outer, &scale_strides);
        b.place.z = zero_offset + tdm_row_offset(row, rank, &outer, &zero_strides);
        long i = start;
#if TDM_FINITE_CODES
        const long next_row = row + 1 < last ? row + 1 : row;
        const long next = x_offset + tdm_row_offset(next_row, rank, &outer, &x_strides);
        if (x_column == 1)
            i = tdm_quantize_strips(b, start, stop, next);
#endif
        for (; i < stop; i += N)
            tdm_quantize_columns(b, i, (int)(stop - i < N ? stop - i : N));
    }
    if (arg.streams)
        tdm_stream_end();
}
