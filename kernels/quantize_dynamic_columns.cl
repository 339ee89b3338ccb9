/* As quantize_dynamic.cl with TDM_COLUMNS, for CPU cores: `inner` groups stand side by side, one per lane. Work-item (x, y) takes a share of
 * the columns of its share of the outer dimensions.
 *
 * Where columns are neighbours and quotients come from products, a strip of them is read twice, row by row: for the ranges, BLOCK
 * columns at a time, and from the second cache for the codes, whole lines of results. The parameters of a strip are made between
 * both and lie in the first cache. Both readings ask for half of the next strip each, so that memory is busy all the time.
 *
 * Defines: DT the source's type, N (16), TDM_BUILT_IN_DIVIDE as divide.h says. */
#include "dialect.h"
#define TDM_CODES_OF_HALVES
#include "quantize_halves.h"
#include "quantize_types.h"

/* Lanes 0 … left-1, `column` apart. */
TDM_DEVICE F tdm_columns(TDM_GLOBAL const TDM_TYPE(DT) * x, long i, long column, int left) {
    if (column == 1 && left == N)
        return TDM_LOADV_GLOBAL(N, DT, x, i);
    float part[N];
    for (int lane = 0; lane < N; lane++)
        part[lane] = lane < left ? TDM_LOAD(DT, x, i + lane * column) : 0.0f;
    return TDM_LOADV(N, f32, part, 0);
}

/* What a work-item walks: a group's elements are x_step and y_step apart, columns x_column and 1; the place is column 0's. */
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

/* Columns i … i + left - 1. */
TDM_DEVICE void tdm_quantize_columns(tdm_band b, long i, int left) {
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

#if TDM_BY_PRODUCTS
#define BLOCK CODES_LINE
#define VECTORS (BLOCK / N)
#define TOGETHER 4               /* rows whose codes are made for parameters once read */
#define STRIP 1024               /* columns at most */
#define STRIP_BYTES (256 * 1024) /* so that two strips stay in the second cache */

/* What makes the codes of a strip's columns, and which blocks of them it is not for. */
typedef struct {
    F mend[STRIP / N], reciprocal[STRIP / N], low[STRIP / N], high[STRIP / N];
    I zero[STRIP / N];
    F not_plain[STRIP / BLOCK];
} tdm_strip_steps;

/* Ask for the line of vector v of a block, if it is the first in it. */
TDM_INLINE void tdm_ask_for_vector(tdm_band b, long at, int v) {
    if (v * N * (int)sizeof *b.x % 64 == 0)
        tdm_prefetch_far(b.x + at + v * N);
}

/* The ranges of the BLOCK columns from i on. careful: as tdm_range_of_group of quantize_dynamic.cl. Asks for every other row `ahead`. */
TDM_INLINE void tdm_ranges_of_block(tdm_band b, long i, long ahead, int careful,
                                    tdm_range ranges[VECTORS]) {
    TDM_UNROLL for (int v = 0; v < VECTORS; v++) ranges[v] = tdm_range_start();
    for (long k = 0; k < b.count; k++) {
        const long at = b.from + k * b.x_step + i;
        TDM_UNROLL for (int v = 0; v < VECTORS; v++) {
            if (k % 2 == 0)
                tdm_ask_for_vector(b, at + ahead, v);
            ranges[v] =
                tdm_range_widen(ranges[v], TDM_LOADV_GLOBAL(N, DT, b.x, at + v * N), careful);
        }
    }
}

#if TDM_HALF_PRODUCTS
typedef short tdm_short16 __attribute__((ext_vector_type(16)));
typedef ushort tdm_ushort16 __attribute__((ext_vector_type(16)));

TDM_INLINE tdm_range tdm_range_of_halves(tdm_short16 high, tdm_ushort16 low, int symmetric) {
    const I most = TDM_INT_SPLAT(N, TDM_CAT2(INFINITY_, DT));
    const I least = most | TDM_INT_SPLAT(N, 0x8000);
    const I highs = __builtin_convertvector(high, I), lows = __builtin_convertvector(low, I);
    tdm_range r;
    r.high = TDM_CAT4(f32x, N, _of_bits_, DT)(tdm_int_min(highs, most));
    r.low =
        symmetric ? K(0.0f) - r.high : TDM_CAT4(f32x, N, _of_bits_, DT)(tdm_int_min(lows, least));
    return r;
}

/* The same by their bits; a NaN shows as an infinity, too. */
TDM_INLINE void tdm_ranges_of_bits(tdm_band b, long i, long ahead, int symmetric,
                                   tdm_range ranges[VECTORS]) {
    tdm_half_bits bits[BLOCK / HALVES];
    TDM_UNROLL for (int v = 0; v < BLOCK / HALVES; v++) bits[v] = tdm_half_bits_start();
    for (long k = 0; k < b.count; k++) {
        const long at = b.from + k * b.x_step + i;
        TDM_UNROLL for (int v = 0; v < BLOCK / HALVES; v++) {
            if (k % 2 == 0)
                tdm_prefetch_far(b.x + at + ahead + v * HALVES);
            bits[v] = tdm_half_bits_add(bits[v], b.x, at + v * HALVES, symmetric);
        }
    }
    TDM_UNROLL for (int v = 0; v < BLOCK / HALVES; v++) {
        ranges[2 * v] = tdm_range_of_halves(bits[v].high.lo, bits[v].low.lo, symmetric);
        ranges[2 * v + 1] = tdm_range_of_halves(bits[v].high.hi, bits[v].low.hi, symmetric);
    }
}
#endif

/* The ranges of `columns` columns from i on, whole blocks, to steps->low and steps->high; whether all are finite. */
TDM_INLINE int tdm_ranges_of_strip(tdm_band b, long i, long columns, long ahead, int symmetric,
                                   int careful, tdm_strip_steps *steps) {
    tdm_range all = tdm_range_start();
    for (long at = 0; at < columns; at += BLOCK) {
        tdm_range ranges[VECTORS];
#if TDM_HALF_PRODUCTS
        if (!careful)
            tdm_ranges_of_bits(b, i + at, ahead, symmetric, ranges);
        else
#endif
            tdm_ranges_of_block(b, i + at, ahead, careful, ranges);
        TDM_UNROLL for (int v = 0; v < VECTORS; v++) {
            all = tdm_range_widen(tdm_range_widen(all, ranges[v].low, 0), ranges[v].high, 0);
            steps->low[at / N + v] = ranges[v].low;
            steps->high[at / N + v] = ranges[v].high;
        }
    }
    return tdm_range_is_finite(all);
}

/* tdm_derive of N columns whose parameters lie one after the other and are kept as they are made, of which it would test each time. */
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

/* From the ranges to the parameters; whether all of them are plain. */
TDM_INLINE int tdm_derive_strip(tdm_band b, long i, long columns, int zeros,
                                tdm_strip_steps *steps) {
    const int whole = b.arg.target.scale_type == TDM_CODE_F32 && b.place.scale_step == 1 &&
                      (!zeros || b.place.zero_step == 1);
    F some = K(0.0f);
    for (long at = 0; at < columns; at += BLOCK) {
        F not_plain = K(0.0f);
        TDM_UNROLL for (int v = 0; v < VECTORS; v++) {
            const long vector = at / N + v;
            const tdm_parameter_place place = tdm_place_of_column(b, i + at + v * N);
            const tdm_range range = {steps->low[vector], steps->high[vector]};
            const tdm_quantizer q = whole ? tdm_derive_whole(range, place, zeros, b.arg.target)
                                          : tdm_derive(range, place, N, b.arg.target);
            const tdm_multiplier m = tdm_multiplier_of(q);
            steps->mend[vector] = m.mend;
            steps->reciprocal[vector] = m.reciprocal;
            steps->low[vector] = m.low;
            steps->high[vector] = m.high;
            steps->zero[vector] = m.zero;
            not_plain = not_plain + tdm_scales_not_plain(q.scale);
        }
        steps->not_plain[at / BLOCK] = not_plain;
        some = some + not_plain;
    }
    return TDM_CAT4(f32x, N, _, hmax)(some) == 0.0f;
}

TDM_INLINE int tdm_block_is_plain(const tdm_strip_steps *steps, long at) {
    return TDM_CAT4(f32x, N, _, hmax)(steps->not_plain[at / BLOCK]) == 0.0f;
}

/* The codes of the same columns. Asks for the same of the rows `ahead`, where that was not asked for. */
TDM_INLINE void tdm_codes_of_rows(tdm_band b, long i, long columns, int rows, long ahead,
                                  const tdm_strip_steps *steps, int plain, int zeros, int type) {
    for (long at = 0; at < columns; at += BLOCK) {
        if (!plain && !tdm_block_is_plain(steps, at))
            continue;
        tdm_multiplier m[VECTORS];
        TDM_UNROLL for (int v = 0; v < VECTORS; v++) {
            const long vector = at / N + v;
            m[v].mend = steps->mend[vector];
            m[v].reciprocal = steps->reciprocal[vector];
            m[v].low = steps->low[vector];
            m[v].high = steps->high[vector];
            m[v].zero = steps->zero[vector];
            if (!zeros) {
                m[v].zero = TDM_INT_SPLAT(N, 0);
                if (TDM_HALF_PRODUCTS) {
                    m[v].low = K(tdm_float(b.arg.target.low));
                    m[v].high = K(tdm_float(b.arg.target.high));
                }
            }
        }
        TDM_UNROLL for (int row = 0; row < rows; row++) {
            const long x = b.from + row * b.x_step + i + at;
            I codes[VECTORS];
            TDM_UNROLL for (int v = 0; v < VECTORS; v++) {
                if (row % 2 != 0)
                    tdm_ask_for_vector(b, x + ahead, v);
                codes[v] = tdm_code_by_products(TDM_LOADV_GLOBAL(N, DT, b.x, x + v * N), m[v]);
            }
            tdm_store_line(type, codes, b.y, b.to + row * b.y_step + i + at);
        }
    }
}

TDM_INLINE void tdm_codes_of_strip(tdm_band b, long i, long columns, long ahead,
                                   const tdm_strip_steps *steps, int plain, int zeros, int type) {
    long k = 0;
    for (; k + TOGETHER <= b.count; k += TOGETHER) {
        tdm_codes_of_rows(b, i, columns, TOGETHER, ahead, steps, plain, zeros, type);
        b.from += TOGETHER * b.x_step;
        b.to += TOGETHER * b.y_step;
    }
    for (; k < b.count; k++) {
        tdm_codes_of_rows(b, i, columns, 1, ahead, steps, plain, zeros, type);
        b.from += b.x_step;
        b.to += b.y_step;
    }
}

/* Columns start … stop-1, which are neighbours, the last of less than a block left out; the next ones are at `next`. Gives where it
 * ended. */
TDM_INLINE long tdm_quantize_strips(tdm_band b, long start, long stop, long next) {
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
#define RANGES(symmetric) tdm_ranges_of_strip(b, i, columns, ahead, symmetric, 0, &steps)
        if (!(zeros ? RANGES(0) : RANGES(1)))
            tdm_ranges_of_strip(b, i, columns, ahead, 0, 1, &steps);
        const int plain = zeros ? tdm_derive_strip(b, i, columns, 1, &steps)
                                : tdm_derive_strip(b, i, columns, 0, &steps);
#define CALL(T) tdm_codes_of_strip(b, i, columns, ahead, &steps, plain, 0, T)
#define CALL_ZEROS(T) tdm_codes_of_strip(b, i, columns, ahead, &steps, plain, 1, T)
        if (zeros) {
            BY_CODES(type, CALL_ZEROS)
        } else {
            BY_CODES(type, CALL)
        }
#undef RANGES
#undef CALL
#undef CALL_ZEROS
        for (long at = 0; !plain && at < columns; at += N)
            if (!tdm_block_is_plain(&steps, at))
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
#if TDM_BY_PRODUCTS
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
