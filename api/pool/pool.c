/* The pool's operations: allocation and release, create and destroy. */
#include "api/pool/pool_internal.h"

/* ---- events ---------------------------------------------------------------------------------- */

/* Returns the bytes of a live block's range, with its red zones. */
static uint64_t range_bytes(const tdm_block *block) {
    return block->size + block->pool->zone_before + block->pool->zone_after;
}

static void fill_event(tdm_pool_event *event, const tdm_block *block, tdm_pool_event_kind kind,
                       uint32_t stream) {
    event->kind = kind;
    event->stream = stream;
    event->generation = block->generation;
    event->requested = block->requested;
    event->bytes = range_bytes(block);
    event->tag = block->tag;
}

tdm_pool_event tdm_block_event(const tdm_block *block, tdm_pool_event_kind kind, uint32_t stream) {
    tdm_pool_event event = {.slab_bytes = 0};
    fill_event(&event, block, kind, stream);
    return event;
}

/* Reports an event of a block in the slab, after it happened. */
static void notify_in_slab(tdm_pool *pool, tdm_pool_event *event, const tdm_slab *slab) {
    event->slab_bytes = slab->bytes;
    event->slab_live = slab->live_bytes;
    event->pending = tdm_pool_pending(pool);
    tdm_pool_notify_event(pool, event);
}

/* ---- allocation and release ------------------------------------------------------------------ */

/* A cache reserves this many generation numbers at once. */
#define GENERATIONS_AT_ONCE 64

static uint64_t next_generation(tdm_pool *pool) {
    if (pool->generation == pool->generations_end) {
        pool->generation = atomic_fetch_add(&pool->shared->generations, GENERATIONS_AT_ONCE);
        pool->generations_end = pool->generation + GENERATIONS_AT_ONCE;
    }
    return ++pool->generation;
}

static void begin_generation(tdm_pool *pool, tdm_block *block, uint64_t requested) {
    block->state = TDM_RANGE_LIVE;
    atomic_store_explicit(&block->references, 1, memory_order_relaxed);
    block->uses = block->as.inline_uses;
    block->use_count = 0;
    block->use_capacity = TDM_INLINE_USES;
    block->requested = requested;
    block->generation = next_generation(pool);
    block->tag = tdm_memory_tag();
    block->debug = NULL;
}

static void raise(int64_t *level, int64_t *peak, uint64_t bytes) {
    *level += (int64_t)bytes;
    if (*level > *peak)
        *peak = *level;
}

static void count_in(tdm_pool *pool, const tdm_block *block) {
    tdm_memory_stats *const stats = &pool->stats;
    tdm_size_class_counters *const size_class = &pool->counters[block->slab->size_class];
    const uint64_t bytes = block->size;
    block->slab->live_bytes += bytes;
    block->slab->live_requested += block->requested;
    size_class->requested += block->requested;
    size_class->allocated += bytes;
    size_class->live_blocks++;
    stats->allocations++;
    stats->live_blocks++;
    stats->requested += block->requested;
    stats->allocated += bytes;
    pool->totals.requested_bytes += block->requested;
    pool->totals.allocated_bytes += bytes;
    raise(&pool->rise.requested, &pool->rise.requested_peak, block->requested);
    raise(&pool->rise.allocated, &pool->rise.allocated_peak, bytes);
}

static void count_out(tdm_pool *pool, const tdm_block *block) {
    tdm_memory_stats *const stats = &pool->stats;
    tdm_size_class_counters *const size_class = &pool->counters[block->slab->size_class];
    const uint64_t bytes = block->size;
    block->slab->live_bytes -= bytes;
    block->slab->live_requested -= block->requested;
    size_class->requested -= block->requested;
    size_class->allocated -= bytes;
    size_class->live_blocks--;
    stats->frees++;
    stats->live_blocks--;
    stats->requested -= block->requested;
    stats->allocated -= bytes;
    pool->totals.freed_bytes += bytes;
    pool->rise.requested -= (int64_t)block->requested;
    pool->rise.allocated -= (int64_t)bytes;
}

static void count_operation(tdm_pool *pool) {
    tdm_pool_totals *const totals = &pool->totals;
    totals->operations++;
    totals->visited += pool->visited;
    if (pool->visited > totals->visited_max)
        totals->visited_max = pool->visited;
}

static tdm_status take(tdm_pool_request *r, size_t requested, tdm_block **block) {
    tdm_block *range;
    TDM_TRY(tdm_pool_find_memory(r, &range));
    tdm_pool *const pool = r->pool;
    if (!pool->upstream.direct && !tdm_range_take(pool, range, r->bytes))
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "no host memory for a block");
    begin_generation(pool, range, requested);
    count_in(pool, range);
    range->offset += pool->zone_before;
    range->size -= pool->zone_before + pool->zone_after;
    if (tdm_pool_has_listeners(pool)) {
        tdm_pool_event local, *const event = tdm_pool_event_place(pool, &local);
        fill_event(event, range, TDM_POOL_EVENT_ALLOC, r->stream);
        notify_in_slab(pool, event, range->slab);
    } else {
        tdm_pool_notify_nobody(pool);
    }
    *block = range;
    return TDM_OK;
}

static void count_failure(tdm_pool_request *r, size_t requested) {
    r->pool->stats.failures++;
    tdm_pool_notify(r->pool, (tdm_pool_event){.kind = TDM_POOL_EVENT_FAILURE,
                                              .stream = r->stream,
                                              .requested = requested});
}

tdm_status tdm_pool_alloc(tdm_pool *pool, size_t bytes, uint32_t stream, tdm_block **block) {
    *block = NULL;
    if (bytes > TDM_POOL_LARGEST)
        return tdm_fail(TDM_OUT_OF_DEVICE_MEMORY,
                        "pool: %zu bytes are more than any device can allocate", bytes);
    const uint64_t wanted = (bytes ? bytes : 1) + pool->zone_before + pool->zone_after;
    const uint64_t rounded = (wanted + pool->unit - 1) & ~(pool->unit - 1);
    tdm_pool_request r = {.bytes = rounded,
                          .units = rounded >> pool->unit_bits,
                          .stream = stream,
                          .size_class = tdm_size_class_of(rounded)};
    r.pool = tdm_pool_lock_home(pool, r.size_class);
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
        begin_generation(pool, *block, bytes);
    }
    tdm_pool_unlock(pool);
    return slab ? TDM_OK : tdm_fail(TDM_OUT_OF_HOST_MEMORY, "pool: no host memory for a block");
}

void tdm_block_retain(tdm_block *block) {
    atomic_fetch_add_explicit(&block->references, 1, memory_order_relaxed);
}

static void release_adopted(tdm_pool *pool, tdm_block *block) {
    tdm_dependencies_wait(block);
    tdm_pool_lock(pool);
    tdm_slab_release(pool, block->slab);
    tdm_pool_unlock(pool);
}

/* Makes the block's bytes free. Its dependencies are set. */
static void give_back(tdm_pool *pool, tdm_block *block) {
    tdm_slab *const slab = block->slab;
    const bool reported = tdm_pool_has_listeners(pool);
    tdm_pool_event local, *const event = tdm_pool_event_place(pool, &local);
    if (reported)
        fill_event(event, block, TDM_POOL_EVENT_FREE, 0);
    block->offset -= pool->zone_before;
    block->size += pool->zone_before + pool->zone_after;
    count_out(pool, block);
    if (!slab->single)
        tdm_range_free(pool, block);
    if (reported)
        notify_in_slab(pool, event, slab);
    else
        tdm_pool_notify_nobody(pool);
    if (slab->single)
        tdm_slab_release(pool, slab);
}

void tdm_pool_free(tdm_pool *pool, tdm_block *block) {
    pool->visited = 0;
    give_back(pool, block);
    count_operation(pool);
}

/* True if this was the last reference. If the count is 1, no other thread can change it. */
static bool is_last(tdm_block *block) {
    return atomic_load_explicit(&block->references, memory_order_acquire) == 1 ||
           atomic_fetch_sub(&block->references, 1) == 1;
}

void tdm_block_release(tdm_block *block) {
    if (!block || !is_last(block))
        return;
    tdm_pool *const pool = tdm_block_root(block);
    const tdm_pool_debug_hooks *const debug = pool->upstream.debug;
    tdm_uses_end(block);
    if (block->slab->adopted) {
        release_adopted(pool, block);
        return;
    }
    if (debug || pool->upstream.direct)
        tdm_dependencies_wait(block);
    if (debug)
        debug->end(debug->user, block);
    tdm_pool *const thread_cache = tdm_pool_lock_for(block);
    if (!thread_cache)
        return;
    tdm_pool_free(thread_cache, block);
    tdm_pool_unlock(thread_cache);
}

/* ---- create and destroy ---------------------------------------------------------------------- */

static bool always_passed(void *user, tdm_use use) {
    (void)user;
    (void)use;
    return true;
}

static void never_wait(void *user, tdm_use use) {
    (void)user;
    (void)use;
}

static bool never_gone(void *user, uint32_t stream) {
    (void)user;
    (void)stream;
    return false;
}

static void poll_nothing(void *user) {
    (void)user;
}

static tdm_pool_upstream with_defaults(tdm_pool_upstream upstream) {
    if (!upstream.passed) {
        upstream.passed = always_passed;
        upstream.wait = never_wait;
    }
    if (!upstream.gone)
        upstream.gone = never_gone;
    if (!upstream.poll)
        upstream.poll = poll_nothing;
    return upstream;
}

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
    created->remote_frees = shared->remote_frees;
    created->upstream = with_defaults(*upstream);
    created->unit_bits = 8;
    while (UINT64_C(1) << created->unit_bits < upstream->alignment)
        created->unit_bits++;
    created->unit = UINT64_C(1) << created->unit_bits;
    if (upstream->debug) {
        created->zone_before = upstream->debug->before;
        created->zone_after = upstream->debug->after;
    }
    atomic_store(&shared->thread_caches[0], created);
    atomic_store(&shared->group.bound, upstream->budget);
    pthread_mutex_init(&created->lock, NULL);
    pthread_mutex_init(&shared->fences_lock, NULL);
    pthread_mutex_init(&shared->notify_lock, NULL);
    pthread_mutex_init(&shared->release_lock, NULL);
    pthread_cond_init(&shared->released, NULL);
    *pool = created;
    return TDM_OK;
}

void tdm_pool_destroy(tdm_pool *pool) {
    if (!pool)
        return;
    tdm_pool_trim(pool);
    tdm_pool_thread_caches_free(pool);
    tdm_headers_free(pool);
    pthread_mutex_destroy(&pool->lock);
    pthread_mutex_destroy(&pool->shared->fences_lock);
    pthread_mutex_destroy(&pool->shared->notify_lock);
    pthread_mutex_destroy(&pool->shared->release_lock);
    pthread_cond_destroy(&pool->shared->released);
    tdm_host_free(pool->shared);
    tdm_host_free(pool);
}
