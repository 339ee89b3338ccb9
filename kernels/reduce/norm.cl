/* This kernel normalizes rows of `count` elements (RMS or layer), one work-item per row:
 *
 *     h = x + residual     y = (h - mean) / sqrt(mean of (h - mean)² + epsilon) · scale + bias
 *
 * The mean counts as 0 for RMS normalization. A row is read once for each sum and once more for the
 * results, from a cache after the first time. N lanes are N elements; with N > 1 all steps are 1.
 * The sums are compensated as in reduce_steps.h. Defines: DT storage type, N vector width. */
#include "kernels/dialect/dialect.h"
#include "kernels/dialect/long_functions.h"
#include "kernels/dialect/nontemporal.h"
#include "kernels/elementwise/strided_rows.h"
#include "reduce_steps.h"
#include "norm_steps.h"

/* With one element a block is unrolled, which limits the iteration count (see the dialect). */
#if N == 1
#define BLOCK_UNROLL TDM_UNROLL_PASSES
#else
#define BLOCK_UNROLL TDM_NO_UNROLL
#endif
#define STRIDE (TDM_BLOCK * N)

/* A block has four independent sums, so that few additions wait for the one before. */
#define TERM(n) tdm_norm_term(tdm_norm_h(r, k + (n)*N, residual), means, squared)
TDM_INLINE float tdm_norm_sum(const tdm_norm_row *r, long count, float mean, int squared,
                              int residual) {
    const V means = TDM_SPLAT(N, mean), zero = TDM_SPLAT(N, 0.0f);
    tdm_running running = tdm_running_start(TDM_CODE_REDUCE_SUM);
    long k = 0;
    for (; k + STRIDE <= count; k += STRIDE) {
        V a = zero, b = zero, c = zero, d = zero;
        BLOCK_UNROLL for (int n = 0; n < TDM_BLOCK; n += 4) {
            a = a + TERM(n);
            b = b + TERM(n + 1);
            c = c + TERM(n + 2);
            d = d + TERM(n + 3);
        }
        running = tdm_running_add(running, (a + b) + (c + d), TDM_CODE_REDUCE_SUM);
    }
    V block = zero;
    for (; k + N <= count; k += N)
        block = block + TERM(0);
    running = tdm_running_add(running, block, TDM_CODE_REDUCE_SUM);
    float sum = TDM_CAT4(f32x, N, _, sum)(tdm_running_end(running));
    for (; k < count; k++)
        sum += tdm_norm_term_one(tdm_norm_one(r, k, residual), mean, squared);
    return sum;
}

/* Vectors have a loop without branches for each case. */
TDM_BODY float tdm_norm_sum_of(const tdm_norm_row *r, long count, float mean, int squared) {
    const int residual = r->flags & TDM_NORM_HAS_RESIDUAL;
#if N > 1
    if (!squared)
        return residual ? tdm_norm_sum(r, count, mean, 0, 1) : tdm_norm_sum(r, count, mean, 0, 0);
    return residual ? tdm_norm_sum(r, count, mean, 1, 1) : tdm_norm_sum(r, count, mean, 1, 0);
#else
    return tdm_norm_sum(r, count, mean, squared, residual);
#endif
}

/* Stores N elements from k on, and prefetches those of the next row: the loads of its first sum
 * would otherwise wait for memory while no stores are under way. */
TDM_INLINE void tdm_norm_store(const tdm_norm_row *r, long k, V means, V factors, int sum_past,
                               int y_past, int residual, int usual) {
    const V h = tdm_norm_h(r, k, residual);
    const V v = tdm_norm_y(r, k, h, means, factors, usual);
#if N > 1
    tdm_prefetch_far((TDM_GLOBAL const char *)(r->x + r->next + k));
    if (residual)
        tdm_prefetch_far((TDM_GLOBAL const char *)(r->residual + r->residual_next + k));
#endif
    if (r->flags & TDM_NORM_HAS_SUM)
        TDM_STOREV_PAST(sum_past, DT, h, r->sum, AT(k, r->sum_step));
    TDM_STOREV_PAST(y_past, DT, v, r->y, AT(k, r->y_step));
}

TDM_INLINE void tdm_norm_results(const tdm_norm_row *r, long count, float mean, float factor,
                                 int residual, int usual) {
    const V means = TDM_SPLAT(N, mean), factors = TDM_SPLAT(N, factor);
    const int wanted = r->flags & TDM_NORM_NONTEMPORAL;
    const int sum_past = tdm_row_past(wanted, r->sum, 0, N * (int)sizeof *r->sum);
    const int y_past = tdm_row_past(wanted, r->y, 0, N * (int)sizeof *r->y);
    long k = 0;
#if N == 1
    for (; k + STRIDE <= count; k += STRIDE)
        BLOCK_UNROLL for (int n = 0; n < TDM_BLOCK; n++)
            tdm_norm_store(r, k + n, means, factors, sum_past, y_past, residual, usual);
#endif
    for (; k + N <= count; k += N)
        tdm_norm_store(r, k, means, factors, sum_past, y_past, residual, usual);
    for (; k < count; k++)
        tdm_norm_store_one(r, k, mean, factor, residual);
}

TDM_BODY void tdm_norm_write(const tdm_norm_row *r, long count, float mean, float factor) {
    const int residual = r->flags & TDM_NORM_HAS_RESIDUAL;
#if N > 1
    if (r->scale_type == TDM_CODE_F32 && r->bias_type == 0) {
        if (residual)
            tdm_norm_results(r, count, mean, factor, 1, 1);
        else
            tdm_norm_results(r, count, mean, factor, 0, 1);
        return;
    }
#endif
    tdm_norm_results(r, count, mean, factor, residual, 0);
}

TDM_KERNEL(TDM_ENTRY)(TDM_NORM_ARGUMENTS) {
    TDM_ITEM_BEGIN;
    const long share = tdm_quotient(rows + tdm_global_size_x() - 1, tdm_global_size_x());
    const long first = tdm_global_x() * share;
    const long last = first + share < rows ? first + share : rows;
    for (long row = first; row < last; row++) {
        TDM_NORM_ROW(r, row);
        r.next = r.residual_next = 0;
        if (rank == 1 && row + 1 < last)
            r.next = x_strides.v[0], r.residual_next = residual_strides.v[0];
        float mean = 0.0f, sum = 0.0f;
        /* The first pass finds the mean; RMS normalization begins with the second one. */
        TDM_NO_UNROLL for (int squared = flags & TDM_NORM_SUBTRACTS_MEAN ? 0 : 1; squared < 2;
                           squared++) {
            sum = tdm_norm_sum_of(&r, count, mean, squared);
            mean = squared ? mean : sum / (float)count;
        }
        tdm_norm_write(&r, count, mean, tdm_norm_factor(sum, count, epsilon));
    }
    if (flags & TDM_NORM_NONTEMPORAL)
        tdm_stream_end();
}
