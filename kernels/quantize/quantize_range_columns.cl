/* Derives the parameters of the columns of a matrix that is too large for a cache, in two launches.
 *
 * Without TDM_JOIN, work-item y reads its share of the rows. For each column it writes the smallest
 * and the largest element:
 *
 *      ranges[y][0][column] smallest      ranges[y][1][column] largest
 *
 * Memory is thus read row by row. With TDM_JOIN, the columns' scales and zero points are derived
 * from the ranges of `parts` such work-items.
 *
 * Columns are 1 apart in x, rows x_row. Defines: DT the source's type (TDM_JOIN: none), N vector
 * width. */
#include "kernels/dialect/dialect.h"
#include "quantize_derive.h"

#ifdef TDM_JOIN
TDM_INLINE F tdm_part(TDM_GLOBAL const float *p, long i, int left) {
    return left == N ? TDM_LOADV(N, f32, p, i) : TDM_LOAD_PART(f32, p, i, left, 0.0f);
}

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const float *ranges, long ranges_offset, TDM_GLOBAL void *scale, long scale_offset,
 TDM_GLOBAL void *zero, long zero_offset, long parts, long columns, long scale_column,
 long zero_column, tdm_quant_arg arg) {
    TDM_ITEM_BEGIN;
    tdm_parameter_place place;
    place.scale = scale;
    place.zero = zero;
    place.scale_step = scale_column;
    place.zero_step = zero_column;
    for (long i = tdm_global_x() * N; i < columns; i += tdm_global_size_x() * N) {
        const int left = (int)(columns - i < N ? columns - i : N);
        tdm_range range = tdm_range_start();
        for (long part = 0; part < parts; part++) {
            const long at = ranges_offset + 2 * part * columns + i;
            range = tdm_range_add(range, tdm_part(ranges, at, left));
            range = tdm_range_add(range, tdm_part(ranges, at + columns, left));
        }
        place.s = scale_offset + i * scale_column;
        place.z = zero_offset + i * zero_column;
        tdm_derive(range, place, left, arg.target);
    }
}
#else

#define STRIP 4096
#define TOGETHER 4 /* rows */
#define BESIDE 4   /* vectors */

/* Widens the ranges of columns 0 … count-1 by `rows` rows. Several rows at once have the effect of
 * unrolling. It reads 256 bytes of each row in turn. */
TDM_INLINE void tdm_add_rows(TDM_GLOBAL const TDM_TYPE(DT) * x, long from, long x_row, int rows,
                             long count, F *lows, F *highs) {
    long i = 0;
    for (; i + BESIDE * N <= count; i += BESIDE * N) {
        tdm_range ranges[BESIDE];
        TDM_UNROLL for (int v = 0; v < BESIDE; v++) {
            ranges[v].low = lows[i / N + v];
            ranges[v].high = highs[i / N + v];
        }
        TDM_UNROLL for (int row = 0; row < rows; row++)
            TDM_UNROLL for (int v = 0; v < BESIDE; v++) {
            const long at = from + row * x_row + i + v * N;
            tdm_prefetch_far(x + at + rows * x_row);
            ranges[v] = tdm_range_add(ranges[v], TDM_LOADV(N, DT, x, at));
        }
        TDM_UNROLL for (int v = 0; v < BESIDE; v++) {
            lows[i / N + v] = ranges[v].low;
            highs[i / N + v] = ranges[v].high;
        }
    }
    for (; i < count; i += N) {
        const int left = (int)(count - i < N ? count - i : N);
        tdm_range range;
        range.low = lows[i / N];
        range.high = highs[i / N];
        if (left == N)
            TDM_UNROLL for (int row = 0; row < rows; row++) {
                const long at = from + row * x_row + i;
                tdm_prefetch_far(x + at + rows * x_row);
                range = tdm_range_add(range, TDM_LOADV(N, DT, x, at));
            }
        else
            for (int row = 0; row < rows; row++)
                range =
                    tdm_range_add(range, TDM_LOAD_PART(DT, x, from + row * x_row + i, left, 0.0f));
        lows[i / N] = range.low;
        highs[i / N] = range.high;
    }
}

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const TDM_TYPE(DT) * x, long x_offset, TDM_GLOBAL float *ranges, long ranges_offset,
 long rows, long columns, long x_row) {
    TDM_ITEM_BEGIN;
    TDM_ROW_SHARE(rows, first, last);
    F lows[STRIP / N], highs[STRIP / N]; /* vectors are aligned to their size */
    for (long strip = 0; strip < columns; strip += STRIP) {
        const long count = strip + STRIP < columns ? STRIP : columns - strip;
        const long to = ranges_offset + 2 * tdm_global_y() * columns + strip;
        for (long i = 0; i < count; i += N)
            lows[i / N] = highs[i / N] = K(0.0f);
        long row = first;
        for (; row + TOGETHER <= last; row += TOGETHER)
            tdm_add_rows(x, x_offset + row * x_row + strip, x_row, TOGETHER, count, lows, highs);
        for (; row < last; row++)
            tdm_add_rows(x, x_offset + row * x_row + strip, x_row, 1, count, lows, highs);
        for (long i = 0; i < count; i++) {
            ranges[to + i] = ((const float *)lows)[i];
            ranges[to + columns + i] = ((const float *)highs)[i];
        }
    }
}
#endif
