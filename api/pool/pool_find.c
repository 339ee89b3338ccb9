/* Where an allocation finds its memory: what is free, other branches, the ladder. */
#include <stdio.h>

#include "api/pool/pool_internal.h"

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
/* Rounds of relief for one allocation, whatever the upstream says. */
#define RELIEF_LIMIT 64

/* ---- finding memory ---------------------------------------------------------------------------- */

/* The tightest range that the stream can use at once; of equals the one it used last. */
static tdm_block *find_ready(const tdm_pool_request *r) {
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
static tdm_block *find_any_in(const tdm_pool_request *r, tdm_arena arena) {
    tdm_block *best = NULL;
    for (int i = 0; i < TDM_LANES && !(i > TDM_LANE_READY && best && best->edge_count == 0); i++) {
        tdm_block *const range =
            tdm_index_find(&r->pool->free[arena][i], r->bytes, r->units, 0, &r->pool->visited);
        if (range && (!best || range->size < best->size))
            best = range;
    }
    return best;
}

static tdm_block *find_any(const tdm_pool_request *r) {
    tdm_block *range = find_any_in(r, r->arena);
    for (int i = 0; !range && i < TDM_ARENAS; i++)
        range = find_any_in(r, (tdm_arena)i);
    return range;
}

/* ---- other branches ------------------------------------------------------------------------------ */

static void ask_next(tdm_pool_request *r, tdm_pool *branch) {
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
static tdm_slab *spare_slab(const tdm_pool_request *r, const tdm_pool *other) {
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
static tdm_block *find_nearby(const tdm_pool_request *r) {
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
static tdm_status scrape(tdm_pool_request *r, tdm_status status, tdm_block **range) {
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
static tdm_status scrape_all(tdm_pool_request *r, tdm_status status, tdm_block **range) {
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
static tdm_status beg(tdm_pool_request *r, tdm_status status, tdm_block **range) {
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
static tdm_block *find_crowded(tdm_pool_request *r) {
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

static bool worth_trying(const tdm_pool_request *r, tdm_status status) {
    return (status == TDM_OUT_OF_DEVICE_MEMORY || status == TDM_OVER_BUDGET) &&
           r->bytes <= r->pool->upstream.max_allocation;
}

/* What can be used without taking native memory, waiting or ordering streams behind each other's work. */
static tdm_block *find_cached(const tdm_pool_request *r) {
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

tdm_status tdm_pool_find_memory(tdm_pool_request *r, tdm_block **range) {
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
