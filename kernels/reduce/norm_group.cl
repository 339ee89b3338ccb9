/* This kernel normalizes rows (RMS or layer), one work-group per row. Work-items stride through
 * the row by cells of N elements; trees in local memory join their sums. Rows and formulas are
 * those of norm.cl. With N > 1 all steps are 1, and the fewer than N elements after the last cell
 * go to as many work-items, one each.
 *
 * The group size is a launch-time power of two up to 256. Defines: DT storage type, N elements of a
 * cell. */
#include "kernels/dialect/dialect.h"
#include "kernels/elementwise/strided_rows.h"
#include "reduce_steps.h"
#include "join_items.h"
#include "norm_steps.h"

/* With one element per cell a block is unrolled, which limits the iteration count (see the
 * dialect). */
#if N == 1
#define BLOCK_UNROLL TDM_UNROLL_PASSES
#else
#define BLOCK_UNROLL TDM_NO_UNROLL
#endif

#define TERM(k) tdm_norm_term(tdm_norm_h(r, (k)*N, residual), means, squared)
TDM_INLINE float tdm_norm_item_sum(const tdm_norm_row *r, long cells, float mean, int squared,
                                   int residual) {
    const V means = TDM_SPLAT(N, mean);
    tdm_running running = tdm_running_start(TDM_CODE_REDUCE_SUM);
    const int items = tdm_group_size_x();
    long k = tdm_item_x();
    for (; k + (TDM_BLOCK - 1) * (long)items < cells; k += TDM_BLOCK * (long)items) {
        V block = TDM_SPLAT(N, 0.0f);
        BLOCK_UNROLL for (int n = 0; n < TDM_BLOCK; n++)
            block = block + TERM(k + (long)n * items);
        running = tdm_running_add(running, block, TDM_CODE_REDUCE_SUM);
    }
    V block = TDM_SPLAT(N, 0.0f);
    for (; k < cells; k += items)
        block = block + TERM(k);
    running = tdm_running_add(running, block, TDM_CODE_REDUCE_SUM);
    return TDM_CAT4(f32x, N, _, sum)(tdm_running_end(running));
}

TDM_INLINE void tdm_norm_item_write(const tdm_norm_row *r, long cells, float mean, float factor,
                                    int residual) {
    const V means = TDM_SPLAT(N, mean), factors = TDM_SPLAT(N, factor);
    for (long k = tdm_item_x(); k < cells; k += tdm_group_size_x()) {
        const V h = tdm_norm_h(r, k * N, residual);
        const V v = tdm_norm_y(r, k * N, h, means, factors, 0);
        if (r->flags & TDM_NORM_HAS_SUM)
            TDM_STOREV_GLOBAL(N, DT, h, r->sum, AT(k * N, r->sum_step));
        TDM_STOREV_GLOBAL(N, DT, v, r->y, AT(k * N, r->y_step));
    }
}

TDM_KERNEL(TDM_ENTRY)(TDM_NORM_ARGUMENTS) {
    TDM_LOCAL_ARRAY(float, joined, MAX_GROUP);
    const int item = tdm_item_x();
    const long cells = count / N;
    const int tail = (int)(count - cells * N);
    const int has_residual = flags & TDM_NORM_HAS_RESIDUAL;
    for (long row = tdm_group_x(); row < rows; row += tdm_groups_x()) {
        TDM_NORM_ROW(r, row);
        float mean = 0.0f, factor = 0.0f;
        /* The first pass finds the mean; RMS normalization begins with the second one. */
        TDM_NO_UNROLL for (int squared = flags & TDM_NORM_SUBTRACTS_MEAN ? 0 : 1; squared < 2;
                           squared++) {
            float mine = tdm_norm_item_sum(&r, cells, mean, squared, has_residual);
            if (item < tail)
                mine += tdm_norm_term_one(tdm_norm_one(&r, cells * N + item, has_residual), mean,
                                          squared);
            JOIN(joined, mine, TDM_CODE_REDUCE_SUM);
            if (squared)
                factor = tdm_norm_factor(joined[0], count, epsilon);
            else
                mean = joined[0] / (float)count;
            tdm_barrier();
        }
        tdm_norm_item_write(&r, cells, mean, factor, has_residual);
        if (item < tail)
            tdm_norm_store_one(&r, cells * N + item, mean, factor, has_residual);
    }
}
