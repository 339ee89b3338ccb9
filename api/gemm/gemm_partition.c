/* This file searches for the best work partition of a panel-family launch. Each family has its own
 * cost model. */
#include "api/gemm/gemm_internal.h"

/* Returns the next count to try. Counts rise by 1 up to 16, and then by about an eighth. */
static int64_t next_count(int64_t count) {
    return count < 16 ? count + 1 : count + count / 8;
}

static void consider(const tdm_gemm_partition_space *space, const tdm_gemm_partition *d,
                     double *least, tdm_gemm_partition *best) {
    if (space->local_bytes(space->context, d) > space->most_local_bytes)
        return;
    const double cycles = space->cost(space->context, d, space->packs);
    if (*least > 0.0 && cycles >= *least)
        return;
    *least = cycles;
    *best = *d;
}

/* This is an inclusive range of counts to try. */
typedef struct range {
    int64_t first, last;
} range;

/* Returns the counts to try. If a value is given, it is the only one, but at most the number of
 * tiles. */
static range counts(int32_t given, int64_t tiles) {
    if (given == 0)
        return (range){1, tiles};
    const int64_t count = given < tiles ? given : tiles;
    return (range){count, count};
}

/* Returns the values of packs_inside to try: 0, 1 or both. */
static range packing(const tdm_gemm_partition_space *space, int32_t given) {
    return (range){space->packs && (space->packs_inside || given == TDM_TUNE_PACK_INSIDE),
                   space->packs && (space->packs_inside || given != TDM_TUNE_PACK_FIRST)};
}

/* Finds the cheapest partition that fits, subject to the given values. Returns
 * false if none fits. */
static bool search(const tdm_gemm_partition_space *space, const int32_t given[TDM_TUNE_PARAMETERS],
                   tdm_gemm_partition *best) {
    const range rows = counts(given[TDM_TUNE_ROW_ITEMS], space->strips),
                columns = counts(given[TDM_TUNE_COL_ITEMS], space->panels);
    const range packs = packing(space, given[TDM_TUNE_PACK_B]);
    double least = 0.0;
    for (int64_t r = rows.first; r <= rows.last; r = next_count(r))
        for (int64_t c = columns.first; c <= columns.last; c = next_count(c))
            for (int64_t inside = packs.first; inside <= packs.last; inside++) {
                const tdm_gemm_partition d = {
                    .row_items = r, .column_items = c, .packs_inside = (int)inside};
                consider(space, &d, &least, best);
            }
    const tdm_gemm_partition finest = {
        .row_items = rows.last, .column_items = columns.last, .packs_inside = (int)packs.first};
    consider(space, &finest, &least, best);
    return least > 0.0;
}

tdm_status tdm_gemm_find_partition(const tdm_gemm_plan *plan, const tdm_gemm_partition_space *space,
                                   tdm_gemm_partition *partition) {
    *partition = (tdm_gemm_partition){.row_items = 1, .column_items = 1, .as_given = true};
    if (space->strips == 0 || space->panels == 0 || tdm_gemm_z_count(&plan->problem) == 0)
        return TDM_OK;
    static const int32_t nothing_given[TDM_TUNE_PARAMETERS];
    const bool as_given = search(space, plan->values, partition);
    bool fits = as_given;
    if (!fits && !plan->problem.forced)
        fits = search(space, nothing_given, partition);
    if (!fits)
        return tdm_fail(
            TDM_UNSUPPORTED, "gemm: %s needs more local memory than the %llu bytes of %s",
            plan->kernel->variant->name, (unsigned long long)plan->device->info.local_bytes,
            plan->device->info.selector);
    partition->as_given = as_given;
    partition->local_bytes = (uint32_t)space->local_bytes(space->context, partition);
    tdm_log(TDM_LOG_DEBUG, "dispatch",
            "gemm: work partition row_items=%lld,col_items=%lld,pack_b=%d",
            (long long)partition->row_items, (long long)partition->column_items,
            partition->packs_inside ? TDM_TUNE_PACK_INSIDE : TDM_TUNE_PACK_FIRST);
    return TDM_OK;
}
