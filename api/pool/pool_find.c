/* Finds memory for an allocation: free ranges, other caches, fallback steps. */
#include <stdio.h>

#include "api/pool/pool_internal.h"

/* Maximum number of pending ranges that an allocation checks before the pool grows. */
#define SETTLE_LIMIT 16
/* Pending bytes from which has_many_pending may be true: without a throttle, and with one. */
#define UNTHROTTLED_BYTES (UINT64_C(64) << 20)
#define THROTTLED_BYTES (UINT64_C(8) << 20)
/* A cache has plenty if its ready bytes exceed PLENTY_BYTES + live bytes / PLENTY_SHARE. */
#define PLENTY_BYTES (UINT64_C(1) << 20)
#define PLENTY_SHARE 8
/* Largest number of live blocks in a slab that moves to another cache, and of ranges that are
 * compared to choose such a slab. */
#define MOVED_BLOCKS 2048
#define MOVED_LOOKS 8
/* Maximum number of calls of relieve for one allocation, whatever the upstream returns. */
#define RELIEF_LIMIT 64

/* ---- finding memory -------------------------------------------------------------------------- */

/* Finds the smallest sufficient range that the stream can use at once. On a tie it prefers the
 * range that the stream used last. */
static tdm_block *find_ready(const tdm_pool_request *r) {
    tdm_pool *const pool = r->pool;
    const tdm_pool_index *const lanes = pool->free[r->size_class];
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

/* Finds the smallest sufficient range of a size class, ready ones first, then any others. */
static tdm_block *find_any_in(const tdm_pool_request *r, tdm_size_class size_class) {
    tdm_block *best = NULL;
    for (int i = 0; i < TDM_LANES && !(i > TDM_LANE_READY && best && best->dependency_count == 0);
         i++) {
        tdm_block *const range =
            tdm_index_find(&r->pool->free[size_class][i], r->bytes, r->units, 0, &r->pool->visited);
        if (range && (!best || range->size < best->size))
            best = range;
    }
    return best;
}

static tdm_block *find_any(const tdm_pool_request *r) {
    tdm_block *range = find_any_in(r, r->size_class);
    for (int i = 0; !range && i < TDM_SIZE_CLASSES; i++)
        range = find_any_in(r, (tdm_size_class)i);
    return range;
}

/* ---- other caches ---------------------------------------------------------------------------- */

static void ask_next(tdm_pool_request *r, tdm_pool *thread_cache) {
    tdm_pool_unlock(r->pool);
    r->pool = thread_cache;
    tdm_pool_lock(thread_cache);
    tdm_pool_take_back(thread_cache);
}

/* True if the cache has so much free memory that other caches should use it before they grow. */
static bool has_plenty(const tdm_pool *pool) {
    const tdm_size_class_counters *const small = &pool->counters[TDM_SIZE_CLASS_SMALL];
    return small->ready > small->allocated / PLENTY_SHARE + PLENTY_BYTES;
}

/* Chooses a slab of another cache that should move to this one. It is idle, or the other cache has
 * plenty and the slab holds one of its largest ready ranges. Returns NULL if there is none. */
static tdm_slab *spare_slab(const tdm_pool_request *r, const tdm_pool *other) {
    for (tdm_slab *slab = other->idle_oldest; slab; slab = slab->idle_next)
        if (slab->size_class == TDM_SIZE_CLASS_SMALL && slab->bytes >= r->bytes &&
            !slab->pending_ranges)
            return slab;
    if (!has_plenty(other))
        return NULL;
    const tdm_block *const range =
        tdm_index_top(&other->free[TDM_SIZE_CLASS_SMALL][TDM_LANE_READY], MOVED_LOOKS);
    return range && range->size >= r->bytes && range->slab->live_blocks <= MOVED_BLOCKS
               ? range->slab
               : NULL;
}

/* Takes over slabs of other caches before the cache grows. */
static tdm_block *find_nearby(const tdm_pool_request *r) {
    tdm_pool *const home = r->pool;
    tdm_block *range = NULL;
    for (int i = 0; i < TDM_POOL_THREAD_CACHES && !range; i++) {
        tdm_pool *const other = tdm_pool_thread_cache(home->root, i);
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

/* ---- fallback steps -------------------------------------------------------------------------- */

/* Uses any free memory, then memory of pending frees, then the room of released idle slabs. */
static tdm_status find_or_release(tdm_pool_request *r, tdm_status status, tdm_block **range) {
    tdm_pool *const pool = r->pool;
    *range = find_any(r);
    if (*range || r->bytes > tdm_pool_budget(pool))
        return *range ? TDM_OK : status;
    uint64_t rounds = tdm_pool_pending_dependencies(pool);
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

/* Repeats the search in every cache. If nothing is found, the first cache grows. */
static tdm_status find_or_release_in_all(tdm_pool_request *r, tdm_status status,
                                         tdm_block **range) {
    tdm_pool *const home = r->pool;
    status = find_or_release(r, status, range);
    if (status == TDM_OK || !tdm_pool_has_thread_caches(home) || r->bytes > tdm_pool_budget(home))
        return status;
    for (int i = 0; i < TDM_POOL_THREAD_CACHES; i++) {
        tdm_pool *const other = tdm_pool_thread_cache(home->root, i);
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

/* Last step: the upstream frees memory elsewhere, with the pool unlocked. */
static tdm_status relieve_upstream(tdm_pool_request *r, tdm_status status, tdm_block **range) {
    tdm_pool *const pool = r->pool;
    for (int attempt = 0; status != TDM_OK && attempt < RELIEF_LIMIT; attempt++) {
        if (!pool->upstream.relieve)
            break;
        // relieve may set another error detail; this allocation's own reason is restored.
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
            status = find_or_release_in_all(r, status, range);
    }
    return status;
}

/* True if more bytes are pending than live, or than the throttle allows. The pool then reuses
 * memory behind another stream's work instead of growing with the depth of the queues. */
static bool has_many_pending(const tdm_pool *pool) {
    const uint32_t throttle = atomic_load_explicit(&pool->shared->throttle, memory_order_relaxed);
    uint64_t pending = 0, live = 0;
    for (int i = 0; i < TDM_SIZE_CLASSES; i++) {
        pending += pool->counters[i].pending;
        live += pool->counters[i].allocated;
    }
    return throttle ? pending > THROTTLED_BYTES && pending > live / throttle
                    : pending > UNTHROTTLED_BYTES && pending > live;
}

/* Finds a range that other streams' work still uses, if too much is pending. */
static tdm_block *find_after_short_wait(tdm_pool_request *r) {
    tdm_pool *const pool = r->pool;
    if (!has_many_pending(pool))
        return NULL;
    tdm_block *range = find_any_in(r, r->size_class);
    if (range || atomic_load_explicit(&pool->shared->throttle, memory_order_relaxed) == 0)
        return range;
    r->slow = true;
    uint64_t rounds = tdm_pool_pending_dependencies(pool);
    while (!range && rounds-- && has_many_pending(pool) && tdm_pool_wait_briefly(pool))
        range = find_any_in(r, r->size_class);
    return range;
}

static bool worth_trying(const tdm_pool_request *r, tdm_status status) {
    return (status == TDM_OUT_OF_DEVICE_MEMORY || status == TDM_OVER_BUDGET) &&
           r->bytes <= r->pool->upstream.max_allocation;
}

/* Finds a range that needs no native memory, no wait and no dependency on another stream's work. */
static tdm_block *find_cached(const tdm_pool_request *r) {
    tdm_pool *const pool = r->pool;
    tdm_block *range = find_ready(r);
    if (range)
        return range;
    tdm_pool_take_back(pool);
    pool->upstream.poll(pool->upstream.user);
    tdm_pool_settle(pool, SETTLE_LIMIT);
    range = find_ready(r);
    if (!range && tdm_pool_has_thread_caches(pool) && r->size_class == TDM_SIZE_CLASS_SMALL)
        range = find_nearby(r);
    return range;
}

tdm_status tdm_pool_find_memory(tdm_pool_request *r, tdm_block **range) {
    const bool direct = r->pool->upstream.direct;
    *range = direct ? NULL : find_cached(r);
    if (!*range && !direct)
        *range = find_after_short_wait(r);
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
        status = find_or_release_in_all(r, status, range);
    TDM_TRY(relieve_upstream(r, status, range));
    r->pool->stats.retries++;
    if (r->pool != home || r->pool->stats.native_allocations == native)
        r->pool->stats.reuses++;
    tdm_pool_notify(
        r->pool,
        (tdm_pool_event){.kind = TDM_POOL_EVENT_RETRY, .stream = r->stream, .bytes = r->bytes});
    return TDM_OK;
}
