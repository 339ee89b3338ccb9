/* Inspection of a pool: slabs, ranges, largest holders, the text of a failure, statistics. */
#include <stdio.h>
#include <string.h>

#include "api/pool/pool_internal.h"

static tdm_range_view view_of(const tdm_pool *pool, const tdm_block *range) {
    tdm_range_view view = {
        .state = (tdm_range_state)range->state, .offset = range->offset, .bytes = range->size};
    if (range->state == TDM_RANGE_PENDING)
        view.stream = range->dependencies[0].stream;
    if (range->state != TDM_RANGE_LIVE)
        return view;
    if (!range->slab->adopted) {
        view.offset -= pool->zone_before;
        view.bytes += pool->zone_before + pool->zone_after;
    }
    view.requested = range->requested;
    view.generation = range->generation;
    view.tag = range->tag;
    view.stream = range->use_count ? range->uses[0].stream : 0;
    view.block = range;
    return view;
}

static void visit_slab(tdm_pool *pool, const tdm_slab *slab, const tdm_pool_visitor *visitor) {
    const tdm_slab_view view = {.number = slab->number,
                                .bytes = slab->bytes,
                                .live_blocks = slab->live_blocks,
                                .small = slab->size_class == TDM_SIZE_CLASS_SMALL && !slab->adopted,
                                .adopted = slab->adopted,
                                .single = slab->single};
    if (visitor->slab)
        visitor->slab(visitor->user, &view);
    for (const tdm_block *range = slab->first; range && visitor->range; range = range->after) {
        const tdm_range_view each = view_of(pool, range);
        visitor->range(visitor->user, &view, &each);
    }
}

void tdm_pool_visit(tdm_pool *pool, const tdm_pool_visitor *visitor) {
    tdm_pool_lock_all(pool);
    pthread_mutex_lock(&pool->shared->fences_lock);
    for (int i = 0; i < TDM_POOL_THREAD_CACHES; i++) {
        tdm_pool *const thread_cache = tdm_pool_thread_cache(pool, i);
        for (const tdm_slab *slab = thread_cache ? thread_cache->slabs : NULL; slab;
             slab = slab->next)
            visit_slab(thread_cache, slab, visitor);
    }
    pthread_mutex_unlock(&pool->shared->fences_lock);
    tdm_pool_unlock_all(pool);
}

/* ---- largest holders ------------------------------------------------------------------------- */

#define HOLDER_TAGS 64
#define HOLDERS_TOLD 3

typedef struct holder {
    const char *tag; /* NULL: untagged */
    uint64_t bytes, blocks;
} holder;

typedef struct holders {
    holder list[HOLDER_TAGS]; /* the last one sums all tags that did not fit */
    int count;
} holders;

static void add_block(holders *all, const tdm_block *block) {
    int i = 0;
    while (i < all->count && all->list[i].tag != block->tag)
        i++;
    if (i == all->count && i < HOLDER_TAGS - 1)
        all->count++;
    else if (i == all->count)
        all->list[i].tag = "others";
    if (i < HOLDER_TAGS - 1)
        all->list[i].tag = block->tag;
    all->list[i].bytes += block->requested;
    all->list[i].blocks++;
}

static void gather(const tdm_pool *pool, holders *all) {
    for (const tdm_slab *slab = pool->slabs; slab; slab = slab->next)
        for (const tdm_block *range = slab->first; range && !slab->adopted; range = range->after)
            if (range->state == TDM_RANGE_LIVE)
                add_block(all, range);
}

static holder *take_largest(holders *all) {
    holder *largest = &all->list[0];
    for (int i = 1; i < HOLDER_TAGS; i++)
        if (all->list[i].bytes > largest->bytes)
            largest = &all->list[i];
    return largest->blocks ? largest : NULL;
}

/* Writes the largest holders as text. All per-thread caches are locked. */
static void write_holders(const tdm_pool *root, char *text, size_t text_bytes) {
    holders all = {.count = 0};
    for (int i = 0; i < TDM_POOL_THREAD_CACHES; i++)
        if (tdm_pool_thread_cache(root, i))
            gather(tdm_pool_thread_cache(root, i), &all);
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < HOLDERS_TOLD && used < text_bytes; i++) {
        holder *const each = take_largest(&all);
        if (!each)
            break;
        used += (size_t)snprintf(text + used, text_bytes - used, "%s%s %llu in %llu block%s",
                                 i ? ", " : "", each->tag ? each->tag : "untagged",
                                 (unsigned long long)each->bytes, (unsigned long long)each->blocks,
                                 each->blocks == 1 ? "" : "s");
        *each = (holder){0};
    }
}

void tdm_pool_holders(tdm_pool *pool, char *text, size_t text_bytes) {
    tdm_pool_lock_all(pool);
    write_holders(pool, text, text_bytes);
    tdm_pool_unlock_all(pool);
}

/* ---- text of a refused allocation ------------------------------------------------------------ */

static uint64_t largest_free(const tdm_pool *root) {
    uint64_t largest = 0;
    for (int i = 0; i < TDM_POOL_THREAD_CACHES * TDM_SIZE_CLASSES * TDM_LANES; i++) {
        const tdm_pool *const thread_cache =
            tdm_pool_thread_cache(root, i / (TDM_SIZE_CLASSES * TDM_LANES));
        if (!thread_cache)
            continue;
        const uint64_t here =
            tdm_index_largest(&thread_cache->free[i / TDM_LANES % TDM_SIZE_CLASSES][i % TDM_LANES]);
        largest = here > largest ? here : largest;
    }
    return largest;
}

static uint64_t live_bytes(const tdm_pool *root) {
    uint64_t bytes = 0;
    for (int i = 0; i < TDM_POOL_THREAD_CACHES; i++)
        if (tdm_pool_thread_cache(root, i))
            bytes += tdm_pool_thread_cache(root, i)->stats.allocated;
    return bytes;
}

tdm_status tdm_pool_refuse(tdm_pool *root, tdm_status status, uint64_t bytes) {
    char reason[256], held[320];
    snprintf(reason, sizeof reason, "%s", tdm_last_detail());
    tdm_pool_lock_all(root);
    write_holders(root, held, sizeof held);
    const uint64_t reserved = tdm_pool_reserved(root), live = live_bytes(root);
    const uint64_t budget = tdm_pool_budget(root), largest = largest_free(root);
    tdm_pool_unlock_all(root);
    return tdm_fail(status,
                    "pool: %llu bytes requested: %s; reserved %llu of a budget of %llu, in live "
                    "blocks %llu, free %llu, largest free range %llu; held by: %s",
                    (unsigned long long)bytes, reason, (unsigned long long)reserved,
                    (unsigned long long)budget, (unsigned long long)live,
                    (unsigned long long)(reserved - live), (unsigned long long)largest,
                    *held ? held : "none");
}

/* ---- statistics ------------------------------------------------------------------------------ */

static uint64_t settle_all(tdm_pool *pool) {
    uint64_t ranges = 0;
    for (int i = 0; i < TDM_SIZE_CLASSES; i++)
        ranges += pool->counters[i].pending_ranges;
    tdm_pool_settle(pool, ranges);
    return tdm_pool_pending(pool);
}

static void add_stats(tdm_memory_stats *sum, const tdm_memory_stats *of) {
    sum->requested += of->requested;
    sum->allocated += of->allocated;
    sum->reserved += of->reserved;
    sum->live_blocks += of->live_blocks;
    sum->allocations += of->allocations;
    sum->frees += of->frees;
    sum->reuses += of->reuses;
    sum->native_allocations += of->native_allocations;
    sum->native_frees += of->native_frees;
    sum->retries += of->retries;
    sum->failures += of->failures;
}

void tdm_pool_stats(tdm_pool *pool, tdm_memory_stats *stats) {
    tdm_pool_shared *const shared = pool->shared;
    tdm_pool_lock_all(pool);
    pool->upstream.poll(pool->upstream.user);
    *stats = pool->stats;
    stats->pending = settle_all(pool);
    for (int i = 1; i < TDM_POOL_THREAD_CACHES; i++) {
        tdm_pool *const thread_cache = tdm_pool_thread_cache(pool, i);
        if (!thread_cache)
            continue;
        stats->pending += settle_all(thread_cache);
        add_stats(stats, &thread_cache->stats);
    }
    stats->requested_peak = shared->levels.requested_peak;
    stats->allocated_peak = shared->levels.allocated_peak;
    stats->reserved_peak = atomic_load(&shared->reserved_peak);
    stats->budget = tdm_pool_budget(pool);
    tdm_pool_unlock_all(pool);
}

void tdm_pool_reset_peaks(tdm_pool *pool) {
    tdm_pool_shared *const shared = pool->shared;
    tdm_pool_lock_all(pool);
    shared->levels.requested_peak = shared->levels.requested;
    shared->levels.allocated_peak = shared->levels.allocated;
    atomic_store(&shared->reserved_peak, tdm_pool_reserved(pool));
    tdm_pool_unlock_all(pool);
}

tdm_pool_totals tdm_pool_totals_now(tdm_pool *root) {
    tdm_pool_totals sum = {.operations = 0};
    tdm_pool_lock_all(root);
    for (int i = 0; i < TDM_POOL_THREAD_CACHES; i++) {
        const tdm_pool *const thread_cache = tdm_pool_thread_cache(root, i);
        const tdm_pool_totals of =
            thread_cache ? thread_cache->totals : (tdm_pool_totals){.operations = 0};
        sum.requested_bytes += of.requested_bytes;
        sum.allocated_bytes += of.allocated_bytes;
        sum.freed_bytes += of.freed_bytes;
        sum.splits += of.splits;
        sum.joins += of.joins;
        sum.operations += of.operations;
        sum.visited += of.visited;
        sum.visited_max = sum.visited_max > of.visited_max ? sum.visited_max : of.visited_max;
    }
    tdm_pool_unlock_all(root);
    return sum;
}
