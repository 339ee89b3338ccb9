/* y = exp(x - max) / Σ exp(x - max) along one dimension.
 *
 * Without TDM_COLUMNS, one work-item takes a row of `count` elements, x_step and y_step apart (1 if
 * N > 1), N lanes at a time. Rows are outer.v[0 … rank-1]. With TDM_COLUMNS the dimension is not
 * the contiguous one. A work-item owns N neighbouring columns, one per lane, and goes down them.
 * Work-items x stride over the `inner` columns, y over the outer ones.
 *
 * A NaN or +inf in a row, or a row of -inf alone, makes the whole row NaN without special code,
 * because x - max is NaN somewhere. The sum is compensated as in reduce_steps.h. Defines: DT
 * storage type, N vector width. */
#include "kernels/dialect/dialect.h"
#include "kernels/elementwise/strided_rows.h"
#include "reduce_steps.h"

TDM_PART_FUNCTIONS(f32)
TDM_PART_FUNCTIONS(f16)
TDM_PART_FUNCTIONS(bf16)

TDM_DEVICE V tdm_load_some(TDM_GLOBAL const TDM_TYPE(DT) *x, long i, int left, float filler) {
    if (left == N)
        return TDM_LOADV(N, DT, x, i);
    return TDM_LOAD_PART(DT, x, i, left, filler);
}

TDM_DEVICE void tdm_store_some(V v, TDM_GLOBAL TDM_TYPE(DT) *y, long i, int left) {
    if (left == N)
        TDM_STOREV(N, DT, v, y, i);
    else
        TDM_STORE_PART(DT, v, y, i, left);
}

#ifdef TDM_COLUMNS
/* Lanes are columns: element k of the dimension is one vector, and the next vector is `stride`
 * away. */
#define ADVANCE 1
#define LEFT(k, count, columns) (columns)
#define ACROSS_MAX(v) (v)
#define ACROSS_SUM(v) (v)
#else
/* Lanes are elements: N of the dimension's elements are one vector. */
#define ADVANCE N
#define LEFT(k, count, columns) (int)(count - k < N ? count - k : N)
#define ACROSS_MAX(v) TDM_SPLAT(N, tdm_across_max(v))
#define ACROSS_SUM(v) TDM_SPLAT(N, TDM_CAT4(f32x, N, _, sum)(v))

TDM_DEVICE float tdm_across_max(V v) {
    float lanes[N];
    TDM_STOREV(N, f32, v, lanes, 0);
    float result = lanes[0];
    for (int lane = 1; lane < N; lane++)
        result = tdm_max_nan(result, lanes[lane]);
    return result;
}
#endif

/* One iteration of each loop takes a block of TDM_BLOCK vectors. For N = 1 the block is unrolled,
 * which limits the iteration count (see the dialect). Unrolling wide vectors would only grow the
 * program. */
#if N == 1
#define BLOCK_UNROLL TDM_UNROLL
#else
#define BLOCK_UNROLL TDM_NO_UNROLL
#endif
#define STRIDE (TDM_BLOCK * ADVANCE)

TDM_DEVICE V tdm_softmax_max(TDM_GLOBAL const TDM_TYPE(DT) *x, long from, long count, long step,
                             int columns) {
    V best = TDM_SPLAT(N, -INFINITY);
    long k = 0;
    for (; k + STRIDE <= count; k += STRIDE)
        BLOCK_UNROLL for (int n = 0; n < TDM_BLOCK; n++) {
            const long at = from + (k + n * ADVANCE) * step;
            best = tdm_max_nan(best, tdm_load_some(x, at, columns, -INFINITY));
        }
    for (; k < count; k += ADVANCE)
        best = tdm_max_nan(best,
                           tdm_load_some(x, from + k * step, LEFT(k, count, columns), -INFINITY));
    return ACROSS_MAX(best);
}

/* Absent lanes hold -inf, whose exponential adds nothing. */
TDM_DEVICE V tdm_softmax_sum(TDM_GLOBAL const TDM_TYPE(DT) *x, long from, long count, long step,
                             int columns, V best) {
    tdm_running running = tdm_running_start(TDM_CODE_REDUCE_SUM);
    long k = 0;
    for (; k + STRIDE <= count; k += STRIDE) {
        V block = TDM_SPLAT(N, 0.0f);
        BLOCK_UNROLL for (int n = 0; n < TDM_BLOCK; n++) {
            const long at = from + (k + n * ADVANCE) * step;
            block = block + tdm_exp(tdm_load_some(x, at, columns, -INFINITY) - best);
        }
        running = tdm_running_add(running, block, TDM_CODE_REDUCE_SUM);
    }
    V block = TDM_SPLAT(N, 0.0f);
    for (; k < count; k += ADVANCE) {
        const V v = tdm_load_some(x, from + k * step, LEFT(k, count, columns), -INFINITY);
        block = block + tdm_exp(v - best);
    }
    running = tdm_running_add(running, block, TDM_CODE_REDUCE_SUM);
    return ACROSS_SUM(tdm_running_end(running));
}

TDM_DEVICE void tdm_softmax_run(TDM_GLOBAL const TDM_TYPE(DT) *x, long from,
                                TDM_GLOBAL TDM_TYPE(DT) *y, long to, long count, long x_step,
                                long y_step, int columns) {
    const V best = tdm_softmax_max(x, from, count, x_step, columns);
    const V sum = tdm_softmax_sum(x, from, count, x_step, columns, best);
    long k = 0;
    for (; k + STRIDE <= count; k += STRIDE)
        BLOCK_UNROLL for (int n = 0; n < TDM_BLOCK; n++) {
            const long j = k + n * ADVANCE;
            const V v = tdm_load_some(x, from + j * x_step, columns, -INFINITY);
            tdm_store_some(tdm_exp(v - best) / sum, y, to + j * y_step, columns);
        }
    for (; k < count; k += ADVANCE) {
        const int left = LEFT(k, count, columns);
        const V v = tdm_load_some(x, from + k * x_step, left, -INFINITY);
        tdm_store_some(tdm_exp(v - best) / sum, y, to + k * y_step, left);
    }
}

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const TDM_TYPE(DT) * x, long x_offset, TDM_GLOBAL TDM_TYPE(DT) * y, long y_offset,
 tdm_dims outer, tdm_dims x_strides, tdm_dims y_strides, int rank, long rows, long inner,
 long count, long x_step, long y_step) {
    TDM_ITEM_BEGIN;
#ifdef TDM_COLUMNS
    for (long row = tdm_global_y(); row < rows; row += tdm_global_size_y()) {
        tdm_dims along;
        tdm_row_along(&along, row, rank, &outer);
        const long from = x_offset + tdm_offset_along(&along, rank, &x_strides);
        const long to = y_offset + tdm_offset_along(&along, rank, &y_strides);
        for (long i = tdm_global_x() * N; i < inner; i += tdm_global_size_x() * N)
            tdm_softmax_run(x, from + i, y, to + i, count, x_step, y_step,
                            (int)(inner - i < N ? inner - i : N));
    }
#else
    for (long row = tdm_global_x(); row < rows; row += tdm_global_size_x()) {
        tdm_dims along;
        tdm_row_along(&along, row, rank, &outer);
        const long from = x_offset + tdm_offset_along(&along, rank, &x_strides);
        const long to = y_offset + tdm_offset_along(&along, rank, &y_strides);
        tdm_softmax_run(x, from, y, to, count, x_step, y_step, N);
    }
#endif
}
