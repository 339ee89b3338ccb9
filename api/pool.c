/* The pool's operations: allocation with its ladder, release, statistics, create and destroy. */
#include <stdio.h>

#include "api/pool_internal.h"

/* Pending ranges that an allocation looks at before it grows the pool. */
#define SETTLE_LIMIT 16
/* Less than this pending is never too much. */
#define CROWDED_BYTES (UINT64_C(64) << 20)
#define THROTTLED_BYTES (UINT64_C(8) << 20)
/* More than this free in a branch, beside that share of what lives in it, is for all. */
#define PLENTY_BYTES (UINT64_C(1) << 20)
#define PLENTY_SHARE 8
/* A slab moves with so many live blocks at most; and so many ranges are looked at for one. */
#define MOVED_BLOCKS 2048
#define MOVED_LOOKS 8
/* Numbers of lives that a branch takes at once. */
#define LIVES_AT_ONCE 64
/* Rounds of relief for one allocation, whatever the upstream says. */
#define RELIEF_LIMIT 64

/* ---- events ------------------------------------------------------------------------------------ */

/* Bytes of a live block's range, with its red zones. */
static uint64_t range_bytes(const tdm_block *block) {
    return block->size + block->pool->zone_before + block->pool->zone_after;
}

static void fill_event(tdm_pool_event *event, const tdm_block *block, tdm_pool_event_kind kind,
                       uint32_t stream) {
    event->kind = kind;
    event->stream = stream;
    event->life = block->life;
    event->requested = block->requested;
    event->bytes = range_bytes(block);
    event->tag = block->tag;
}

tdm_pool_event tdm_block_event(const tdm_block *block, tdm_pool_event_kind kind, uint32_t stream) {
    tdm_pool_event event = {.slab_bytes = 0};
    fill_event(&event, block, kind, stream);
    return event;
}

/* Tell an event of a block of the slab, after it happened. */
static void tell_in_slab(tdm_pool *pool, tdm_pool_event *event, const tdm_slab *slab) {
    event->slab_bytes = slab->bytes;
    event->slab_live = slab->live_bytes;
    event->pending = 0;
    for (int i = 0; i < TDM_ARENAS; i++)
        event->pending += pool->counters[i].pending;
    tdm_pool_tell_event(pool, event);
}

/* ---- finding memory ---------------------------------------------------------------------------- */

typedef struct request {
    tdm_pool *pool; /* the branch it asks, locked */
    uint64_t bytes, units;
    uint32_t stream;
    tdm_arena arena;
    bool slow; /* it waited, trimmed or asked for relief */
} request;

/* The tightest range that the stream can use at once; of equals the one it used last. */
static tdm_block *find_ready(const request *r) {
    tdm_pool *const pool = r->pool;
    const tdm_pool_index *const lanes = pool->free[r->arena];
    tdm_block *own = NULL;
    if (r->stream)
        own = tdm_index_find(&lanes[1 + r->stream % TDM_LANE_STREAMS], r->bytes, r->units,
                             r->stream, &pool->visited);
    if (own && own->size == r->bytes)
        return own;
    tdm_block *const ready =
        tdm_index_find(&lanes[TDM_LANE_READY], r->bytes, r->units, 0, &pool->visited);
    return !ready || (own && own->size <= ready->size) ? own : ready;
}

/* The tightest range of an arena, whoever it waits for; ready ones before others. */
static tdm_block *find_any_in(const request *r, tdm_arena arena) {
    tdm_block *best = NULL;
    for (int i = 0; i < TDM_LANES && !(i > TDM_LANE_READY && best && best->edge_count == 0); i++) {
        tdm_block *const range =
            tdm_index_find(&r->pool->free[arena][i], r->bytes, r->units, 0, &r->pool->visited);
        if (range && (!best || range->size < best->size))
            best = range;
    }
    return best;
}

static tdm_block *find_any(const request *r) {
    tdm_block *range = find_any_in(r, r->arena);
    for (int i = 0; !range && i < TDM_ARENAS; i++)
        range = find_any_in(r, (tdm_arena)i);
    return range;
}

/* ---- other branches ------------------------------------------------------------------------------ */

static void ask_next(request *r, tdm_pool *branch) {
    tdm_pool_unlock(r->pool);
    r->pool = branch;
    tdm_pool_lock(branch);
    tdm_pool_take_back(branch);
}

/* Does so much lie free in the branch that others had better use it before they grow? */
static bool has_plenty(const tdm_pool *pool) {
    const tdm_arena_counters *const small = &pool->counters[TDM_ARENA_SMALL];
    return small->ready > small->allocated / PLENTY_SHARE + PLENTY_BYTES;
}

/* A slab of another branch that had better be the own one's: one that nobody uses, or the one with the largest free range
 * where there is plenty. NULL where there is none. */
static tdm_slab *spare_slab(const request *r, const tdm_pool *other) {
    for (tdm_slab *slab = other->idle_oldest; slab; slab = slab->idle_next)
        if (slab->arena == TDM_ARENA_SMALL && slab->bytes >= r->bytes && !slab->pending_ranges)
            return slab;
    if (!has_plenty(other))
        return NULL;
    const tdm_block *const range =
        tdm_index_top(&other->free[TDM_ARENA_SMALL][TDM_LANE_READY], MOVED_LOOKS);
    return range && range->size >= r->bytes && range->slab->live_blocks <= MOVED_BLOCKS
               ? range->slab
               : NULL;
}

/* Before a branch grows it takes slabs over. */
static tdm_block *find_nearby(const request *r) {
    tdm_pool *const home = r->pool;
    tdm_block *range = NULL;
    for (int i = 0; i < TDM_POOL_BRANCHES && !range; i++) {
        tdm_pool *const other = tdm_pool_branch(home->root, i);
        if (!other || other == home || !tdm_pool_trylock(other))
            continue;
        tdm_pool_take_back(other);
        tdm_slab *const slab = spare_slab(r, other);
        if (slab)
            tdm_slab_move(slab, home);
        tdm_pool_unlock(other);
        if (slab)
            range = find_ready(r);
    }
    return range;
}

/* ---- the ladder ---------------------------------------------------------------------------------- */

/* Free memory of any kind, then that which is being freed, then what idle slabs make room for. */
static tdm_status scrape(request *r, tdm_status status, tdm_block **range) {
    tdm_pool *const pool = r->pool;
    *range = find_any(r);
    if (*range || r->bytes > tdm_pool_budget(pool))
        return *range ? TDM_OK : status;
    uint64_t rounds = tdm_pool_pending_edges(pool);
    while (!*range && rounds-- && tdm_pool_wait_once(pool))
        *range = find_any(r);
    if (*range)
        return TDM_OK;
    if (tdm_pool_release_idle(pool, tdm_pool_room_for(pool, r->bytes)) &&
        tdm_pool_grow(pool, r->bytes, range) == TDM_OK)
        return TDM_OK;
    tdm_pool_release_idle(pool, 0);
    return tdm_pool_grow(pool, r->bytes, range);
}

/* The same with every branch; the one that was asked first grows. */
static tdm_status scrape_all(request *r, tdm_status status, tdm_block **range) {
    tdm_pool *const home = r->pool;
    status = scrape(r, status, range);
    if (status == TDM_OK || !tdm_pool_branched(home) || r->bytes > tdm_pool_budget(home))
        return status;
    for (int i = 0; i < TDM_POOL_BRANCHES; i++) {
        tdm_pool *const other = tdm_pool_branch(home->root, i);
        if (!other || other == home)
            continue;
        ask_next(r, other);
        tdm_pool_wait_all(other);
        *range = find_any(r);
        if (*range)
            return TDM_OK;
        tdm_pool_release_idle(other, 0);
    }
    ask_next(r, home);
    *range = find_any(r);
    return *range ? TDM_OK : tdm_pool_grow(home, r->bytes, range);
}

/* The last rung: somebody else makes room, with the pool unlocked. */
static tdm_status beg(request *r, tdm_status status, tdm_block **range) {
    tdm_pool *const pool = r->pool;
    for (int attempt = 0; status != TDM_OK && attempt < RELIEF_LIMIT; attempt++) {
        if (!pool->upstream.relieve)
            break;
        // What others fail with while they make room is not why this failed.
        char reason[512];
        snprintf(reason, sizeof reason, "%s", tdm_last_detail());
        tdm_pool_unlock(pool);
        const bool again = pool->upstream.relieve(pool->upstream.user, r->bytes, attempt);
        tdm_pool_lock(pool);
        tdm_set_detail("%s", reason);
        if (!again)
            break;
        if (pool->upstream.direct) {
            status = tdm_pool_grow_single(pool, r->bytes, range);
            continue;
        }
        status = tdm_pool_grow(pool, r->bytes, range);
        if (status != TDM_OK)
            status = scrape_all(r, status, range);
    }
    return status;
}

/* Is more pending than live, or than the throttle allows? Then a stream is ordered behind another's work rather than that the pool
 * grows with the depth of their queues. */
static bool crowded(const tdm_pool *pool) {
    const uint32_t throttle = atomic_load_explicit(&pool->shared->throttle, memory_order_relaxed);
    uint64_t pending = 0, live = 0;
    for (int i = 0; i < TDM_ARENAS; i++) {
        pending += pool->counters[i].pending;
        live += pool->counters[i].allocated;
    }
    return throttle ? pending > THROTTLED_BYTES && pending > live / throttle
                    : pending > CROWDED_BYTES && pending > live;
}

/* A range that other streams' work still uses, where there is too much of that. */
static tdm_block *find_crowded(request *r) {
    tdm_pool *const pool = r->pool;
    if (!crowded(pool))
        return NULL;
    tdm_block *range = find_any_in(r, r->arena);
    if (range || atomic_load_explicit(&pool->shared->throttle, memory_order_relaxed) == 0)
        return range;
    r->slow = true;
    uint64_t rounds = tdm_pool_pending_edges(pool);
    while (!range && rounds-- && crowded(pool) && tdm_pool_wait_briefly(pool))
        range = find_any_in(r, r->arena);
    return range;
}

static bool worth_trying(const request *r, tdm_status status) {
    return (status == TDM_OUT_OF_DEVICE_MEMORY || status == TDM_OVER_BUDGET) &&
           r->bytes <= r->pool->upstream.max_allocation;
}

/* What can be used without taking native memory, waiting or ordering streams behind each other's work. */
static tdm_block *find_cached(const request *r) {
    tdm_pool *const pool = r->pool;
    tdm_block *range = find_ready(r);
    if (range)
        return range;
    tdm_pool_take_back(pool);
    pool->upstream.poll(pool->upstream.user);
    tdm_pool_settle(pool, SETTLE_LIMIT);
    range = find_ready(r);
    if (!range && tdm_pool_branched(pool) && r->arena == TDM_ARENA_SMALL)
        range = find_nearby(r);
    return range;
}

static tdm_status find_memory(request *r, tdm_block **range) {
    const bool direct = r->pool->upstream.direct;
    *range = direct ? NULL : find_cached(r);
    if (!*range && !direct)
        *range = find_crowded(r);
    if (*range) {
        r->pool->stats.reuses++;
        return TDM_OK;
    }
    tdm_status status = direct ? tdm_pool_grow_single(r->pool, r->bytes, range)
                               : tdm_pool_grow(r->pool, r->bytes, range);
    if (status == TDM_OK || !worth_trying(r, status))
        return status;
    r->slow = true;
    const uint64_t native = r->pool->stats.native_allocations;
    const tdm_pool *const home = r->pool;
    if (!direct)
        status = scrape_all(r, status, range);
    TDM_TRY(beg(r, status, range));
    r->pool->stats.retries++;
    if (r->pool != home || r->pool->stats.native_allocations == native)
        r->pool->stats.reuses++;
    tdm_pool_tell(
        r->pool,
        (tdm_pool_event){.kind = TDM_POOL_EVENT_RETRY, .stream = r->stream, .bytes = r->bytes});
    return TDM_OK;
}

/* ---- allocation and release -------------------------------------------------------------------- */

/* Branches take numbers by the dozen. */
static uint64_t next_life(tdm_pool *pool) {
    if (pool->life == pool->lives_end) {
        pool->life = atomic_fetch_add(&pool->shared->lives, LIVES_AT_ONCE);
        pool->lives_end = pool->life + LIVES_AT_ONCE;
    }
    return ++pool->life;
}

static void begin_life(tdm_pool *pool, tdm_block *block, uint64_t requested) {
    block->state = TDM_RANGE_LIVE;
    atomic_store_explicit(&block->references, 1, memory_order_relaxed);
    block->uses = block->as.inline_uses;
    block->use_count = 0;
    block->use_capacity = TDM_INLINE_USES;
    block->requested = requested;
    block->life = next_life(pool);
    block->tag = tdm_memory_tag();
    block->debug = NULL;
}

static void count_in(tdm_pool *pool, const tdm_block *block) {
    tdm_memory_stats *const stats = &pool->stats;
    tdm_arena_counters *const arena = &pool->counters[block->slab->arena];
    const uint64_t bytes = block->size;
    block->slab->live_bytes += bytes;
    block->slab->live_requested += block->requested;
    arena->requested += block->requested;
    arena->allocated += bytes;
    arena->live_blocks++;
    stats->allocations++;
    stats->live_blocks++;
    stats->requested += block->requested;
    stats->allocated += bytes;
    pool->totals.requested_bytes += block->requested;
    pool->totals.allocated_bytes += bytes;
    if (stats->requested > stats->requested_peak)
        stats->requested_peak = stats->requested;
    if (stats->allocated > stats->allocated_peak)
        stats->allocated_peak = stats->allocated;
}

static void count_out(tdm_pool *pool, const tdm_block *block) {
    tdm_memory_stats *const stats = &pool->stats;
    tdm_arena_counters *const arena = &pool->counters[block->slab->arena];
    const uint64_t bytes = block->size;
    block->slab->live_bytes -= bytes;
    block->slab->live_requested -= block->requested;
    arena->requested -= block->requested;
    arena->allocated -= bytes;
    arena->live_blocks--;
    stats->frees++;
    stats->live_blocks--;
    stats->requested -= block->requested;
    stats->allocated -= bytes;
    pool->totals.freed_bytes += bytes;
}

static void count_operation(tdm_pool *pool) {
    tdm_pool_totals *const totals = &pool->totals;
    totals->operations++;
    totals->visited += pool->visited;
    if (pool->visited > totals->visited_max)
        totals->visited_max = pool->visited;
}

static tdm_status take(request *r, size_t requested, tdm_block **block) {
    tdm_block *range;
    TDM_TRY(find_memory(r, &range));
    tdm_pool *const pool = r->pool;
    if (!pool->upstream.direct && !tdm_range_take(pool, range, r->bytes))
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "no host memory for a block");
    begin_life(pool, range, requested);
    count_in(pool, range);
    range->offset += pool->zone_before;
    range->size -= pool->zone_before + pool->zone_after;
    if (tdm_pool_told(pool)) {
        tdm_pool_event local, *const event = tdm_pool_event_place(pool, &local);
        fill_event(event, range, TDM_POOL_EVENT_ALLOC, r->stream);
        tell_in_slab(pool, event, range->slab);
    }
    *block = range;
    return TDM_OK;
}

static void count_failure(request *r, size_t requested) {
    r->pool->stats.failures++;
    tdm_pool_tell(r->pool, (tdm_pool_event){.kind = TDM_POOL_EVENT_FAILURE,
                                            .stream = r->stream,
                                            .requested = requested});
}

tdm_status tdm_pool_alloc(tdm_pool *pool, size_t bytes, uint32_t stream, tdm_block **block) {
    *block = NULL;
    if (bytes > TDM_POOL_LARGEST)
        return tdm_fail(TDM_OUT_OF_DEVICE_MEMORY, "pool: %zu bytes are more than any device has",
                        bytes);
    const uint64_t wanted = (bytes ? bytes : 1) + pool->zone_before + pool->zone_after;
    const uint64_t rounded = (wanted + pool->unit - 1) & ~(pool->unit - 1);
    request r = {.bytes = rounded,
                 .units = rounded >> pool->unit_bits,
                 .stream = stream,
                 .arena = tdm_arena_of(rounded)};
    r.pool = tdm_pool_lock_home(pool, r.arena);
    r.pool->visited = 0;
    const tdm_status status = take(&r, bytes, block);
    if (status != TDM_OK)
        count_failure(&r, bytes);
    else if (!r.slow)
        count_operation(r.pool);
    tdm_pool_unlock(r.pool);
    if (status != TDM_OK)
        return tdm_pool_refuse(pool, status, bytes);
    if (pool->upstream.debug)
        pool->upstream.debug->begin(pool->upstream.debug->user, *block);
    return TDM_OK;
}

tdm_status tdm_pool_adopt(tdm_pool *pool, tdm_bk_memory *memory, size_t bytes, tdm_block **block) {
    *block = NULL;
    const tdm_slab form = {
        .memory = memory, .bytes = bytes, .live_blocks = 1, .single = true, .adopted = true};
    tdm_pool_lock(pool);
    tdm_slab *const slab = tdm_slab_new(pool, &form);
    if (slab) {
        *block = slab->first;
        begin_life(pool, *block, bytes);
    }
    tdm_pool_unlock(pool);
    return slab ? TDM_OK : tdm_fail(TDM_OUT_OF_HOST_MEMORY, "pool: no host memory for a block");
}

void tdm_block_retain(tdm_block *block) {
    atomic_fetch_add_explicit(&block->references, 1, memory_order_relaxed);
}

static void release_adopted(tdm_pool *pool, tdm_block *block) {
    tdm_edges_wait(block);
    tdm_pool_lock(pool);
    tdm_slab_release(pool, block->slab);
    tdm_pool_unlock(pool);
}

/* The block's bytes become free; its edges are set. */
static void give_back(tdm_pool *pool, tdm_block *block) {
    tdm_slab *const slab = block->slab;
    const bool told = tdm_pool_told(pool);
    tdm_pool_event local, *const event = tdm_pool_event_place(pool, &local);
    if (told)
        fill_event(event, block, TDM_POOL_EVENT_FREE, 0);
    block->offset -= pool->zone_before;
    block->size += pool->zone_before + pool->zone_after;
    count_out(pool, block);
    if (!slab->single)
        tdm_range_free(pool, block);
    if (told)
        tell_in_slab(pool, event, slab);
    if (slab->single)
        tdm_slab_release(pool, slab);
}

static void free_counted(tdm_pool *pool, tdm_block *block) {
    pool->visited = 0;
    give_back(pool, block);
    count_operation(pool);
}

void tdm_pool_take_back(tdm_pool *pool) {
    tdm_pool_returns *const returns = pool->returns;
    if (!atomic_load_explicit(&returns->first, memory_order_relaxed))
        return;
    const uint64_t visited = pool->visited;
    atomic_store_explicit(&returns->count, 0, memory_order_relaxed);
    tdm_block *block = atomic_exchange_explicit(&returns->first, NULL, memory_order_acquire);
    for (tdm_block *next; block; block = next) {
        next = block->next;
        if (tdm_slab_branch(block->slab) == pool)
            free_counted(pool, block);
        else
            tdm_pool_put_back(block);
    }
    pool->visited = visited;
}

void tdm_block_release(tdm_block *block) {
    if (!block || atomic_fetch_sub(&block->references, 1) != 1)
        return;
    tdm_pool *const pool = block->pool;
    const tdm_pool_debug_hooks *const debug = pool->upstream.debug;
    tdm_uses_end(block);
    if (block->slab->adopted) {
        release_adopted(pool, block);
        return;
    }
    if (debug || pool->upstream.direct)
        tdm_edges_wait(block);
    if (debug)
        debug->end(debug->user, block);
    tdm_pool *const branch = tdm_pool_lock_for(block);
    if (!branch)
        return;
    free_counted(branch, block);
    tdm_pool_unlock(branch);
}

/* ---- the pool itself --------------------------------------------------------------------------- */

tdm_status tdm_pool_create(const tdm_pool_upstream *upstream, tdm_pool **pool) {
    *pool = NULL;
    tdm_pool *const created = tdm_host_calloc(1, sizeof *created);
    tdm_pool_shared *const shared = created ? tdm_host_calloc(1, sizeof *shared) : NULL;
    if (!shared) {
        tdm_host_free(created);
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "pool: no host memory for a pool");
    }
    created->root = created;
    created->shared = shared;
    created->returns = shared->returns;
    created->upstream = *upstream;
    created->unit_bits = 8;
    while (UINT64_C(1) << created->unit_bits < upstream->alignment)
        created->unit_bits++;
    created->unit = UINT64_C(1) << created->unit_bits;
    if (upstream->debug) {
        created->zone_before = upstream->debug->before;
        created->zone_after = upstream->debug->after;
    }
    atomic_store(&shared->branches[0], created);
    atomic_store(&shared->group.bound, upstream->budget);
    pthread_mutex_init(&created->lock, NULL);
    pthread_mutex_init(&shared->marks_lock, NULL);
    pthread_mutex_init(&shared->tell_lock, NULL);
    pthread_mutex_init(&shared->release_lock, NULL);
    pthread_cond_init(&shared->released, NULL);
    *pool = created;
    return TDM_OK;
}

void tdm_pool_destroy(tdm_pool *pool) {
    if (!pool)
        return;
    tdm_pool_trim(pool);
    tdm_pool_branches_free(pool);
    tdm_headers_free(pool);
    pthread_mutex_destroy(&pool->lock);
    pthread_mutex_destroy(&pool->shared->marks_lock);
    pthread_mutex_destroy(&pool->shared->tell_lock);
    pthread_mutex_destroy(&pool->shared->release_lock);
    pthread_cond_destroy(&pool->shared->released);
    tdm_host_free(pool->shared);
    tdm_host_free(pool);
}

/* ---- statistics ---------------------------------------------------------------------------------- */

static uint64_t settle_all(tdm_pool *pool) {
    uint64_t ranges = 0, bytes = 0;
    for (int i = 0; i < TDM_ARENAS; i++)
        ranges += pool->counters[i].pending_ranges;
    tdm_pool_settle(pool, ranges);
    for (int i = 0; i < TDM_ARENAS; i++)
        bytes += pool->counters[i].pending;
    return bytes;
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
    for (int i = 1; i < TDM_POOL_BRANCHES; i++) {
        tdm_pool *const branch = tdm_pool_branch(pool, i);
        if (!branch)
            continue;
        stats->pending += settle_all(branch);
        add_stats(stats, &branch->stats);
    }
    if (tdm_pool_branched(pool)) {
        stats->requested_peak = shared->levels.requested_peak;
        stats->allocated_peak = shared->levels.allocated_peak;
    }
    stats->reserved_peak = atomic_load(&shared->reserved_peak);
    stats->budget = tdm_pool_budget(pool);
    tdm_pool_unlock_all(pool);
}

void tdm_pool_reset_peaks(tdm_pool *pool) {
    tdm_pool_shared *const shared = pool->shared;
    tdm_pool_lock_all(pool);
    pool->stats.requested_peak = pool->stats.requested;
    pool->stats.allocated_peak = pool->stats.allocated;
    shared->levels.requested_peak = shared->levels.requested;
    shared->levels.allocated_peak = shared->levels.allocated;
    atomic_store(&shared->reserved_peak, tdm_pool_reserved(pool));
    tdm_pool_unlock_all(pool);
}

tdm_pool_totals tdm_pool_totals_now(tdm_pool *root) {
    tdm_pool_totals sum = {.operations = 0};
    tdm_pool_lock_all(root);
    for (int i = 0; i < TDM_POOL_BRANCHES; i++) {
        const tdm_pool *const branch = tdm_pool_branch(root, i);
        const tdm_pool_totals of = branch ? branch->totals : (tdm_pool_totals){.operations = 0};
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

/* ---- giving back --------------------------------------------------------------------------------- */

/* Give idle slabs of all branches back while more than `keep` bytes are reserved, the frees that are pending waited for. */
static uint64_t shrink(tdm_pool *root, uint64_t keep, bool waits) {
    uint64_t released = 0;
    tdm_pool_catch_up(root);
    for (int i = 0; i < TDM_POOL_BRANCHES && tdm_pool_reserved(root) > keep; i++) {
        tdm_pool *const branch = tdm_pool_branch(root, i);
        if (!branch)
            continue;
        tdm_pool_lock(branch);
        tdm_pool_take_back(branch);
        if (waits)
            tdm_pool_wait_all(branch);
        released += tdm_pool_release_idle(branch, keep);
        tdm_pool_unlock(branch);
    }
    return released;
}

void tdm_pool_set_budget(tdm_pool *pool, uint64_t bytes) {
    const uint64_t budget = bytes ? bytes : pool->upstream.budget;
    atomic_store(&pool->shared->group.bound, budget);
    shrink(pool, budget, false);
    shrink(pool, budget, true);
}

void tdm_pool_set_throttle(tdm_pool *pool, uint32_t share, uint64_t patience_ns) {
    atomic_store(&pool->shared->patience_ns, patience_ns);
    atomic_store(&pool->shared->throttle, share);
}

uint64_t tdm_pool_trim(tdm_pool *pool) {
    // Nothing is just being taken then, so that what counts as leaving leaves.
    tdm_pool_lock_all(pool);
    const uint64_t others = tdm_pool_leaving(pool);
    tdm_pool_unlock_all(pool);
    const uint64_t released = others + shrink(pool, 0, true);
    tdm_pool_await_releases(pool);
    return released;
}
