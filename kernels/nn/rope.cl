/* This kernel turns each pair (a, b) of a row by the angle position · frequency (rotary embedding):
 *
 *     a' = (a · cos − b · sin) · magnitude     b' = (b · cos + a · sin) · magnitude
 *
 * The loop runs over pairs: strided_rows.h describes its rows, and `inner` is the number of pairs.
 * Elements after the last pair are copied. The angle is counted in turns, so that its whole part
 * can be dropped exactly. A frequency is the sum of two f32. frequencies holds three rows, one
 * number for each pair: the larger and the smaller part of the turns per position, and the
 * magnitude.
 *
 * Defines: DT storage type, N pairs of a vector. With N > 1, the steps of x and y are 1. */
#include "kernels/dialect/dialect.h"
#include "kernels/elementwise/strided_rows.h"
#include "rope_args.h"

#define V TDM_F32(N)
#define K(constant) TDM_SPLAT(N, constant)

/* Returns position · (large + small) without its nearest whole number, within ±1/2. The rounding
 * error of the product is found by fma. */
TDM_INLINE V tdm_rope_turns(V position, V large, V small) {
    const V product = position * large;
    const V lost = tdm_fma(position, large, -product);
    return (product - tdm_rint(product)) + (lost + position * small);
}

/* Computes sine and cosine of 2π · turns. The angle is reduced to an eighth of a turn on each side
 * of a multiple of a quarter. The polynomials are Taylor's, in powers of the reduced turns; the
 * first omitted terms are 2·10⁻⁹ and 3·10⁻⁸. */
TDM_INLINE void tdm_rope_sincos(V turns, V *sine, V *cosine) {
    const V quarter = tdm_rint(turns * K(4.0f)); /* -2 … 2 */
    const V t = turns - quarter * K(0.25f);
    const V square = t * t;
    V s = K(42.05869394489765f), c = K(60.24464137187664f);
    s = s * square + K(-76.70585975306136f);
    s = s * square + K(81.60524927607504f);
    s = s * square + K(-41.341702240399755f);
    s = (s * square + K(6.283185307179586f)) * t;
    c = c * square + K(-85.45681720669373f);
    c = c * square + K(64.93939402266829f);
    c = c * square + K(-19.739208802178716f);
    c = c * square + K(1.0f);
    /* An odd number of quarters exchanges the two. */
    const V odd = tdm_abs(tdm_abs(quarter) - K(1.0f)); /* 0 if it is odd, else 1 */
    const V middle = K(0.5f), limit = K(1.5f);
    const V a = TDM_SELECT_LT(N, odd, middle, c, s), b = TDM_SELECT_LT(N, odd, middle, s, c);
    const V a_below = TDM_SELECT_LT(N, quarter, -middle, -a, a);
    const V b_above = TDM_SELECT_LT(N, middle, quarter, -b, b);
    *sine = TDM_SELECT_LT(N, limit, quarter, -a, a_below);
    *cosine = TDM_SELECT_LT(N, quarter, -limit, -b, b_above);
}

/* Turns N pairs. frequencies is at the first of them, its rows are `pairs` apart. */
TDM_INLINE void tdm_rope_turn(V *a, V *b, V position, TDM_GLOBAL const tdm_f32 *frequencies,
                              long pairs) {
    const V large = TDM_LOADV_GLOBAL(N, f32, frequencies, 0);
    const V small = TDM_LOADV_GLOBAL(N, f32, frequencies, pairs);
    const V magnitude = TDM_LOADV_GLOBAL(N, f32, frequencies, 2 * pairs);
    V sine, cosine;
    tdm_rope_sincos(tdm_rope_turns(position, large, small), &sine, &cosine);
    sine = sine * magnitude;
    cosine = cosine * magnitude;
    const V turned = *a * cosine - *b * sine;
    *b = *b * cosine + *a * sine;
    *a = turned;
}

/* Load and store the first and second elements of N pairs. Those of interleaved pairs are at i and
 * i + 1, then i + 2 and i + 3, …; others begin at i and at i + apart. */
#if N > 1
TDM_INLINE void tdm_rope_load(V *a, V *b, TDM_GLOBAL const TDM_TYPE(DT) *x, long i, long apart,
                              int interleaved) {
    const V low = TDM_LOADV_GLOBAL(N, DT, x, i);
    const V high = TDM_LOADV_GLOBAL(N, DT, x, interleaved ? i + N : i + apart);
    *a = interleaved ? TDM_CAT4(f32x, N, _, evens)(low, high) : low;
    *b = interleaved ? TDM_CAT4(f32x, N, _, odds)(low, high) : high;
}
TDM_INLINE void tdm_rope_store(V a, V b, TDM_GLOBAL TDM_TYPE(DT) *y, long i, long apart,
                               int interleaved) {
    if (!interleaved) {
        TDM_STOREV_GLOBAL(N, DT, a, y, i);
        TDM_STOREV_GLOBAL(N, DT, b, y, i + apart);
        return;
    }
    float first[N], second[N];
    TDM_STOREV(N, f32, a, first, 0);
    TDM_STOREV(N, f32, b, second, 0);
    for (int lane = 0; lane < N; lane++) {
        TDM_STORE(DT, first[lane], y, i + 2 * lane);
        TDM_STORE(DT, second[lane], y, i + 2 * lane + 1);
    }
}
#else
TDM_INLINE void tdm_rope_load(V *a, V *b, TDM_GLOBAL const TDM_TYPE(DT) *x, long i, long apart,
                              int interleaved) {
    *a = TDM_LOAD(DT, x, i);
    *b = TDM_LOAD(DT, x, i + apart);
}
TDM_INLINE void tdm_rope_store(V a, V b, TDM_GLOBAL TDM_TYPE(DT) *y, long i, long apart,
                               int interleaved) {
    TDM_STORE(DT, a, y, i);
    TDM_STORE(DT, b, y, i + apart);
}
#endif

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const TDM_TYPE(DT) * x, long x_offset, TDM_GLOBAL const tdm_s32 *positions,
 long positions_offset, TDM_GLOBAL const tdm_f32 *frequencies, long frequencies_offset,
 TDM_GLOBAL TDM_TYPE(DT) * y, long y_offset, tdm_dims shape, tdm_dims x_strides,
 tdm_dims position_strides, tdm_dims y_strides, int rank, long rows, long inner, long x_step,
 long position_step, long y_step, long span, tdm_rope_arg arg) {
    TDM_ITEM_BEGIN;
    const long start = tdm_global_x() * span;
    const long stop = start + span < inner ? start + span : inner;
    const int pitch = arg.interleaved ? 2 : 1;        /* from one pair to the next */
    const long apart = arg.interleaved ? 1 : inner; /* from the first to the second of a pair */
    TDM_FEW_PASSES for (long row = tdm_global_y(); row < rows; row += tdm_global_size_y()) {
        tdm_dims along;
        tdm_row_along(&along, row, rank, &shape);
        const long from = x_offset + tdm_offset_along(&along, rank, &x_strides);
        const long to = y_offset + tdm_offset_along(&along, rank, &y_strides);
        const long at = positions_offset + tdm_offset_along(&along, rank, &position_strides);
        const V position = K(tdm_float(tdm_int_s32(positions, at)));
        TDM_FEW_PASSES for (long i = start; i < stop; i += N) {
            V a, b;
            tdm_rope_load(&a, &b, x, from + i * pitch * x_step, apart * x_step, arg.interleaved);
            tdm_rope_turn(&a, &b, position, frequencies + frequencies_offset + i, inner);
            tdm_rope_store(a, b, y, to + i * pitch * y_step, apart * y_step, arg.interleaved);
        }
        if (start == 0)
            for (long i = 2 * inner; i < arg.width; i++)
                TDM_STORE(DT, TDM_LOAD(DT, x, from + i * x_step), y, to + i * y_step);
    }
}
