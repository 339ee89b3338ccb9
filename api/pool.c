/* The pool's operations: allocation with its ladder, release, statistics, create and destroy. */
#include <stdio.h>

#include "api/pool_internal.h"

/* Pending ranges that an allocation looks at before it grows the pool. */
#define SETTLE_LIMIT 16
/* Less than this pending is never too much. */
#define CROWDED_BYTES (UINT64_C(64) << 20)
/* Rounds of relief for one allocation, whatever the upstream says. */
#define RELIEF_LIMIT 64

/* ---- lock and listeners ------------------------------------------------------------------------ */

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Pauses before a waiter tries again: at first, where threads have met lately, and at most before it sleeps. */
#define SHORT_WAIT 16
#define LONG_WAIT 512
#define LONGEST_WAIT 16384
/* Operations without meeting another thread after which waits are short again. */
#define CROWD_MEMORY 1000

/*
 * Handing the lock over costs as much as tens of operations, for the lines of the pool move to the other core. Where two threads
 * work the pool at the same time, each had better do many operations in a row: waits are long then, and the lock is not asked
 * for meanwhile.
 */
void tdm_pool_lock(tdm_pool *pool) {
    if (pthread_mutex_trylock(&pool->lock) == 0) {
        const int crowd = atomic_load_explicit(&pool->crowd, memory_order_relaxed);
        if (crowd)
            atomic_store_explicit(&pool->crowd, crowd - 1, memory_order_relaxed);
        return;
    }
    const bool crowded = atomic_load_explicit(&pool->crowd, memory_order_relaxed) != 0;
    for (int wait = crowded ? LONG_WAIT : SHORT_WAIT; wait <= LONGEST_WAIT; wait *= 4) {
        for (int i = 0; i < wait; i++)
            relax();
        if (pthread_mutex_trylock(&pool->lock) == 0) {
            atomic_store_explicit(&pool->crowd, CROWD_MEMORY, memory_order_relaxed);
            return;
        }
    }
    pthread_mutex_lock(&pool->lock);
    atomic_store_explicit(&pool->crowd, CROWD_MEMORY, memory_order_relaxed);
}

void tdm_pool_unlock(tdm_pool *pool) {
    if (pool->leaving)
        tdm_pool_let_go(pool);
    pthread_mutex_unlock(&pool->lock);
}

void tdm_pool_listen(tdm_pool *pool, tdm_pool_listener *listener) {
    tdm_pool_lock(pool);
    pthread_mutex_lock(&pool->marks_lock);
    listener->next = pool->listeners;
    pool->listeners = listener;
    pthread_mutex_unlock(&pool->marks_lock);
    tdm_pool_unlock(pool);
}

void tdm_pool_unlisten(tdm_pool *pool, tdm_pool_listener *listener) {
    tdm_pool_lock(pool);
    pthread_mutex_lock(&pool->marks_lock);
    tdm_pool_listener **link = &pool->listeners;
    while (*link && *link != listener)
        link = &(*link)->next;
    if (*link)
        *link = listener->next;
    pthread_mutex_unlock(&pool->marks_lock);
    tdm_pool_unlock(pool);
}

void tdm_pool_tell(const tdm_pool *pool, tdm_pool_event event) {
    for (const tdm_pool_listener *each = pool->listeners; each; each = each->next)
        each->event(each->user, &event);
}

/* Bytes of a live block's range, with its red zones. */
static uint64_t range_bytes(const tdm_block *block) {
    return block->size + block->pool->zone_before + block->pool->zone_after;
}

tdm_pool_event tdm_block_event(const tdm_block *block, tdm_pool_event_kind kind, uint32_t stream) {
    return (tdm_pool_event){.kind = kind,
                            .stream = stream,
                            .life = block->life,
                            .requested = block->requested,
                            .bytes = range_bytes(block),
                            .tag = block->tag};
}

/* Tell an event of a block of the slab, after it happened. */
static void tell_in_slab(const tdm_pool *pool, tdm_pool_event event, const tdm_slab *slab) {
    event.slab_bytes = slab->bytes;
    event.slab_live = slab->live_bytes;
    for (int i = 0; i < TDM_ARENAS; i++)
        event.pending += pool->counters[i].pending;
    tdm_pool_tell(pool, event);
}

/* ---- finding memory ---------------------------------------------------------------------------- */

typedef struct request {
    tdm_pool *pool;
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

/* Free memory of any kind, then that which is being freed, then what idle slabs make room for. */
static tdm_status scrape(request *r, tdm_status status, tdm_block **range) {
    tdm_pool *const pool = r->pool;
    *range = find_any(r);
    if (*range || r->bytes > pool->budget)
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
            status = scrape(r, status, range);
    }
    return status;
}

/* Is more pending than live? Then a stream is ordered behind another's work rather than that the pool grows with the depth of
 * their queues. */
static bool crowded(const tdm_pool *pool) {
    uint64_t pending = 0;
    for (int i = 0; i < TDM_ARENAS; i++)
        pending += pool->counters[i].pending;
    return pending > CROWDED_BYTES && pending > pool->stats.allocated;
}

static bool worth_trying(const request *r, tdm_status status) {
    return (status == TDM_OUT_OF_DEVICE_MEMORY || status == TDM_OVER_BUDGET) &&
           r->bytes <= r->pool->upstream.max_allocation;
}

static tdm_status find_memory(request *r, tdm_block **range) {
    tdm_pool *const pool = r->pool;
    *range = NULL;
    if (!pool->upstream.direct) {
        *range = find_ready(r);
        if (!*range) {
            pool->upstream.poll(pool->upstream.user);
            tdm_pool_settle(pool, SETTLE_LIMIT);
            *range = find_ready(r);
        }
        if (!*range && crowded(pool))
            *range = find_any_in(r, r->arena);
        if (*range) {
            pool->stats.reuses++;
            return TDM_OK;
        }
    }
    tdm_status status = pool->upstream.direct ? tdm_pool_grow_single(pool, r->bytes, range)
                                              : tdm_pool_grow(pool, r->bytes, range);
    if (status == TDM_OK || !worth_trying(r, status))
        return status;
    r->slow = true;
    const uint64_t native = pool->stats.native_allocations;
    if (!pool->upstream.direct)
        status = scrape(r, status, range);
    TDM_TRY(beg(r, status, range));
    pool->stats.retries++;
    if (pool->stats.native_allocations == native)
        pool->stats.reuses++;
    tdm_pool_tell(pool, (tdm_pool_event){
                            .kind = TDM_POOL_EVENT_RETRY, .stream = r->stream, .bytes = r->bytes});
    return TDM_OK;
}

/* ---- allocation and release -------------------------------------------------------------------- */

static void begin_life(tdm_block *block, uint64_t requested) {
    block->state = TDM_RANGE_LIVE;
    atomic_store_explicit(&block->references, 1, memory_order_relaxed);
    block->uses = block->as.inline_uses;
    block->use_count = 0;
    block->use_capacity = TDM_INLINE_USES;
    block->requested = requested;
    block->life = ++block->pool->lives;
    block->tag = tdm_memory_tag();
    block->debug = NULL;
}

static void count_in(tdm_pool *pool, const tdm_block *block) {
    tdm_memory_stats *const stats = &pool->stats;
    tdm_arena_counters *const arena = &pool->counters[block->slab->arena];
    const uint64_t bytes = block->size;
    block->slab->live_bytes += bytes;
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
    tdm_pool *const pool = r->pool;
    tdm_block *range;
    TDM_TRY(find_memory(r, &range));
    if (!pool->upstream.direct && !tdm_range_take(pool, range, r->bytes))
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "no host memory for a block");
    begin_life(range, requested);
    count_in(pool, range);
    range->offset += pool->zone_before;
    range->size -= pool->zone_before + pool->zone_after;
    if (pool->listeners)
        tell_in_slab(pool, tdm_block_event(range, TDM_POOL_EVENT_ALLOC, r->stream), range->slab);
    *block = range;
    return TDM_OK;
}

tdm_status tdm_pool_alloc(tdm_pool *pool, size_t bytes, uint32_t stream, tdm_block **block) {
    *block = NULL;
    if (bytes > TDM_POOL_LARGEST)
        return tdm_fail(TDM_OUT_OF_DEVICE_MEMORY, "pool: %zu bytes are more than any device has",
                        bytes);
    const uint64_t wanted = (bytes ? bytes : 1) + pool->zone_before + pool->zone_after;
    const uint64_t rounded = (wanted + pool->unit - 1) & ~(pool->unit - 1);
    request r = {.pool = pool,
                 .bytes = rounded,
                 .units = rounded >> pool->unit_bits,
                 .stream = stream,
                 .arena = tdm_arena_of(rounded)};
    tdm_pool_lock(pool);
    pool->visited = 0;
    tdm_status status = take(&r, bytes, block);
    if (status != TDM_OK) {
        status = tdm_pool_refuse(pool, status, bytes);
        pool->stats.failures++;
        tdm_pool_tell(
            pool,
            (tdm_pool_event){.kind = TDM_POOL_EVENT_FAILURE, .stream = stream, .requested = bytes});
    } else if (!r.slow) {
        count_operation(pool);
    }
    tdm_pool_unlock(pool);
    if (status == TDM_OK && pool->upstream.debug)
        pool->upstream.debug->begin(pool->upstream.debug->user, *block);
    return status;
}

tdm_status tdm_pool_adopt(tdm_pool *pool, tdm_bk_memory *memory, size_t bytes, tdm_block **block) {
    *block = NULL;
    const tdm_slab form = {
        .memory = memory, .bytes = bytes, .live_blocks = 1, .single = true, .adopted = true};
    tdm_pool_lock(pool);
    tdm_slab *const slab = tdm_slab_new(pool, &form);
    if (slab) {
        *block = slab->first;
        begin_life(*block, bytes);
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
    tdm_pool_event event = {0};
    if (pool->listeners)
        event = tdm_block_event(block, TDM_POOL_EVENT_FREE, 0);
    block->offset -= pool->zone_before;
    block->size += pool->zone_before + pool->zone_after;
    count_out(pool, block);
    if (!slab->single)
        tdm_range_free(pool, block);
    if (pool->listeners)
        tell_in_slab(pool, event, slab);
    if (slab->single)
        tdm_slab_release(pool, slab);
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
    tdm_pool_lock(pool);
    pool->visited = 0;
    give_back(pool, block);
    count_operation(pool);
    tdm_pool_unlock(pool);
}

/* ---- the pool itself --------------------------------------------------------------------------- */

tdm_status tdm_pool_create(const tdm_pool_upstream *upstream, tdm_pool **pool) {
    *pool = NULL;
    tdm_pool *const created = tdm_host_calloc(1, sizeof *created);
    if (!created)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "pool: no host memory for a pool");
    created->upstream = *upstream;
    created->budget = upstream->budget;
    created->unit_bits = 8;
    while (UINT64_C(1) << created->unit_bits < upstream->alignment)
        created->unit_bits++;
    created->unit = UINT64_C(1) << created->unit_bits;
    if (upstream->debug) {
        created->zone_before = upstream->debug->before;
        created->zone_after = upstream->debug->after;
    }
    pthread_mutex_init(&created->lock, NULL);
    pthread_mutex_init(&created->marks_lock, NULL);
    pthread_cond_init(&created->released, NULL);
    *pool = created;
    return TDM_OK;
}

void tdm_pool_destroy(tdm_pool *pool) {
    if (!pool)
        return;
    tdm_pool_trim(pool);
    tdm_headers_free(pool);
    pthread_mutex_destroy(&pool->lock);
    pthread_mutex_destroy(&pool->marks_lock);
    pthread_cond_destroy(&pool->released);
    tdm_host_free(pool);
}

void tdm_pool_stats(tdm_pool *pool, tdm_memory_stats *stats) {
    tdm_pool_lock(pool);
    pool->upstream.poll(pool->upstream.user);
    uint64_t pending = 0;
    for (int i = 0; i < TDM_ARENAS; i++)
        pending += pool->counters[i].pending_ranges;
    tdm_pool_settle(pool, pending);
    *stats = pool->stats;
    stats->budget = pool->budget;
    for (int i = 0; i < TDM_ARENAS; i++)
        stats->pending += pool->counters[i].pending;
    tdm_pool_unlock(pool);
}

void tdm_pool_reset_peaks(tdm_pool *pool) {
    tdm_pool_lock(pool);
    pool->stats.requested_peak = pool->stats.requested;
    pool->stats.allocated_peak = pool->stats.allocated;
    pool->stats.reserved_peak = pool->stats.reserved;
    tdm_pool_unlock(pool);
}

void tdm_pool_set_budget(tdm_pool *pool, uint64_t bytes) {
    tdm_pool_lock(pool);
    pool->budget = bytes ? bytes : pool->upstream.budget;
    if (pool->stats.reserved > pool->budget) {
        tdm_pool_release_idle(pool, pool->budget);
        if (pool->stats.reserved > pool->budget)
            tdm_pool_wait_all(pool);
        tdm_pool_release_idle(pool, pool->budget);
    }
    tdm_pool_unlock(pool);
}

uint64_t tdm_pool_trim(tdm_pool *pool) {
    tdm_pool_lock(pool);
    tdm_pool_wait_all(pool);
    const uint64_t leaving = pool->leaving_bytes; // of other threads
    const uint64_t released = leaving + tdm_pool_release_idle(pool, 0);
    while (tdm_pool_await_release(pool)) {
    }
    tdm_pool_unlock(pool);
    return released;
}
