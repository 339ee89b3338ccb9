/* Headers, slabs, and the ranges that slabs are cut into. */
#include <string.h>

#include "api/pool/pool_internal.h"

/* ---- headers --------------------------------------------------------------------------------- */

#define CACHE_LINE 64
#define FIRST_CHUNK 32
#define LARGEST_CHUNK 1024

typedef struct tdm_header_chunk {
    struct tdm_header_chunk *next;
    uint64_t count, taken;
    tdm_block *headers; /* within the chunk, aligned to cache lines */
} tdm_header_chunk;

_Static_assert(sizeof(tdm_block) % CACHE_LINE == 0, "each header begins with a cache line");

static bool add_chunk(tdm_pool *pool) {
    uint64_t count = pool->chunks ? 2 * pool->chunks->count : FIRST_CHUNK;
    if (count > LARGEST_CHUNK)
        count = LARGEST_CHUNK;
    tdm_header_chunk *const chunk =
        tdm_host_calloc(1, sizeof *chunk + CACHE_LINE + count * sizeof(tdm_block));
    if (!chunk)
        return false;
    const uintptr_t first = (uintptr_t)(chunk + 1);
    char *const aligned = (char *)(chunk + 1) + (CACHE_LINE - first % CACHE_LINE) % CACHE_LINE;
    chunk->headers = (tdm_block *)(void *)aligned;
    chunk->count = count;
    chunk->next = pool->chunks;
    pool->chunks = chunk;
    return true;
}

/* Returns a header in which only the constant members are set. NULL if host memory is short. */
static tdm_block *header_new(tdm_pool *pool) {
    tdm_block *header = pool->spare_headers;
    if (header) {
        pool->spare_headers = header->next;
    } else {
        if ((!pool->chunks || pool->chunks->taken == pool->chunks->count) && !add_chunk(pool))
            return NULL;
        header = &pool->chunks->headers[pool->chunks->taken++];
        header->pool = pool->root;
        header->dependencies = header->inline_dependencies;
        header->dependency_capacity = TDM_INLINE_USES;
    }
    pool->headers_used++;
    return header;
}

static void header_free(tdm_pool *pool, tdm_block *header) {
    tdm_dependencies_drop(header);
    header->state = TDM_RANGE_SPARE;
    header->next = pool->spare_headers;
    pool->spare_headers = header;
    pool->headers_used--;
}

void tdm_headers_free(tdm_pool *pool) {
    while (pool->chunks) {
        tdm_header_chunk *const chunk = pool->chunks;
        pool->chunks = chunk->next;
        tdm_host_free(chunk);
    }
    pool->spare_headers = NULL;
}

/* ---- lists of free ranges -------------------------------------------------------------------- */

static uint8_t lane_of(const tdm_block *range) {
    if (range->dependency_count == 0)
        return TDM_LANE_READY;
    if (range->dependency_count > 1)
        return TDM_LANE_SEVERAL;
    return (uint8_t)(1 + range->dependencies[0].stream % TDM_LANE_STREAMS);
}

static void queue_append(tdm_pool *pool, tdm_block *range) {
    range->as.queue.newer = NULL;
    range->as.queue.older = pool->pending_newest;
    if (pool->pending_newest)
        pool->pending_newest->as.queue.newer = range;
    else
        pool->pending_oldest = range;
    pool->pending_newest = range;
}

static void queue_remove(tdm_pool *pool, tdm_block *range) {
    tdm_block *const older = range->as.queue.older, *const newer = range->as.queue.newer;
    if (older)
        older->as.queue.newer = newer;
    else
        pool->pending_oldest = newer;
    if (newer)
        newer->as.queue.older = older;
    else
        pool->pending_newest = older;
}

void tdm_pool_postpone_oldest(tdm_pool *pool) {
    tdm_block *const oldest = pool->pending_oldest;
    queue_remove(pool, oldest);
    queue_append(pool, oldest);
}

static void link_pending(tdm_pool *pool, tdm_block *range) {
    tdm_slab *const slab = range->slab;
    tdm_size_class_counters *const counters = &pool->counters[slab->size_class];
    range->state = TDM_RANGE_PENDING;
    counters->pending += range->size;
    counters->pending_ranges++;
    slab->pending_ranges++;
    for (int i = 0; i < range->dependency_count; i++)
        if (slab->stream != range->dependencies[i].stream)
            slab->stream = slab->stream == 0 ? range->dependencies[i].stream : TDM_STREAM_SEVERAL;
    queue_append(pool, range);
}

/* Puts a free range into the index and, if it is pending, into the queue. */
static void range_link(tdm_pool *pool, tdm_block *range) {
    tdm_size_class_counters *const counters = &pool->counters[range->slab->size_class];
    if (range->dependency_count) {
        link_pending(pool, range);
    } else {
        range->state = TDM_RANGE_READY;
        counters->ready += range->size;
        counters->ready_ranges++;
    }
    range->lane = lane_of(range);
    tdm_index_insert(&pool->free[range->slab->size_class][range->lane], range,
                     range->size >> pool->unit_bits);
}

static void range_unlink(tdm_pool *pool, tdm_block *range) {
    tdm_slab *const slab = range->slab;
    tdm_size_class_counters *const counters = &pool->counters[slab->size_class];
    tdm_index_remove(&pool->free[slab->size_class][range->lane], range,
                     range->size >> pool->unit_bits);
    if (range->state == TDM_RANGE_READY) {
        counters->ready -= range->size;
        counters->ready_ranges--;
        return;
    }
    queue_remove(pool, range);
    counters->pending -= range->size;
    counters->pending_ranges--;
    if (--slab->pending_ranges == 0)
        slab->stream = 0;
}

/* ---- slabs ----------------------------------------------------------------------------------- */

static void idle_append(tdm_pool *pool, tdm_slab *slab) {
    pool->counters[slab->size_class].idle += slab->bytes;
    slab->idle_next = NULL;
    slab->idle_previous = pool->idle_newest;
    if (pool->idle_newest)
        pool->idle_newest->idle_next = slab;
    else
        pool->idle_oldest = slab;
    pool->idle_newest = slab;
}

static void idle_remove(tdm_pool *pool, tdm_slab *slab) {
    pool->counters[slab->size_class].idle -= slab->bytes;
    if (slab->idle_previous)
        slab->idle_previous->idle_next = slab->idle_next;
    else
        pool->idle_oldest = slab->idle_next;
    if (slab->idle_next)
        slab->idle_next->idle_previous = slab->idle_previous;
    else
        pool->idle_newest = slab->idle_previous;
}

static void raise_to(_Atomic uint64_t *peak, uint64_t value) {
    uint64_t known = atomic_load(peak);
    while (known < value && !atomic_compare_exchange_weak(peak, &known, value)) {
    }
}

static void count_slab(tdm_pool *pool, const tdm_slab *slab) {
    tdm_memory_stats *const stats = &pool->stats;
    pool->counters[slab->size_class].reserved += slab->bytes;
    pool->counters[slab->size_class].slabs++;
    stats->native_allocations++;
    stats->reserved += slab->bytes;
    const uint64_t reserved = atomic_fetch_add(&pool->shared->reserved, slab->bytes) + slab->bytes;
    raise_to(&pool->shared->reserved_peak, reserved);
    raise_to(&pool->shared->reserved_high, reserved);
    tdm_pool_notify(pool,
                    (tdm_pool_event){.kind = TDM_POOL_EVENT_SLAB_ALLOC, .bytes = slab->bytes});
}

static void list_slab(tdm_pool *pool, tdm_slab *slab) {
    atomic_store_explicit(&slab->thread_cache, pool, memory_order_release);
    slab->previous = NULL;
    slab->next = pool->slabs;
    if (slab->next)
        slab->next->previous = slab;
    pool->slabs = slab;
}

static void unlist_slab(tdm_pool *pool, tdm_slab *slab) {
    if (slab->previous)
        slab->previous->next = slab->next;
    else
        pool->slabs = slab->next;
    if (slab->next)
        slab->next->previous = slab->previous;
}

tdm_slab *tdm_slab_new(tdm_pool *pool, const tdm_slab *form) {
    tdm_slab *const slab = tdm_host_alloc(sizeof *slab);
    tdm_block *const range = slab ? header_new(pool) : NULL;
    if (!range) {
        tdm_host_free(slab);
        return NULL;
    }
    *slab = *form;
    slab->number = atomic_fetch_add(&pool->shared->slab_numbers, 1) + 1;
    slab->first = range;
    list_slab(pool, slab);
    range->memory = slab->memory;
    range->offset = 0;
    range->size = slab->bytes;
    range->before = range->after = NULL;
    range->slab = slab;
    if (!slab->adopted)
        count_slab(pool, slab);
    if (slab->single) {
        slab->live_blocks = 1;
    } else {
        idle_append(pool, slab);
        range_link(pool, range);
    }
    return slab;
}

void tdm_slab_release(tdm_pool *pool, tdm_slab *slab) {
    if (!slab->single) {
        range_unlink(pool, slab->first);
        idle_remove(pool, slab);
    }
    header_free(pool, slab->first);
    unlist_slab(pool, slab);
    if (!slab->adopted) {
        pool->counters[slab->size_class].reserved -= slab->bytes;
        pool->counters[slab->size_class].slabs--;
        pool->stats.reserved -= slab->bytes;
        pool->stats.native_frees++;
        atomic_fetch_sub(&pool->shared->reserved, slab->bytes);
        tdm_pool_notify(pool,
                        (tdm_pool_event){.kind = TDM_POOL_EVENT_SLAB_FREE, .bytes = slab->bytes});
    }
    tdm_pool_retire(pool, slab);
    // With per-thread caches, slabs of other caches may use headers of this one.
    if (pool->headers_used == 0 && !tdm_pool_has_thread_caches(pool))
        tdm_headers_free(pool);
}

/* Adds a slab's totals to the counters of a cache, or subtracts them if `sign` is -1. The counters
 * of free ranges are updated range by range. */
static void count_moved(tdm_pool *pool, const tdm_slab *slab, uint64_t sign) {
    tdm_size_class_counters *const size_class = &pool->counters[slab->size_class];
    size_class->reserved += sign * slab->bytes;
    size_class->slabs += sign;
    size_class->requested += sign * slab->live_requested;
    size_class->allocated += sign * slab->live_bytes;
    size_class->live_blocks += sign * slab->live_blocks;
}

/* Gives `from` a spare header for one that moved to `to` with its range. Otherwise caches that
 * receive slabs would collect headers without limit. */
static void exchange_header(tdm_pool *from, tdm_pool *to) {
    tdm_block *const spare = to->spare_headers;
    from->headers_used--;
    to->headers_used++;
    if (!spare)
        return;
    to->spare_headers = spare->next;
    spare->next = from->spare_headers;
    from->spare_headers = spare;
}

void tdm_slab_move(tdm_slab *slab, tdm_pool *to) {
    tdm_pool *const from = tdm_slab_thread_cache(slab);
    // Later events of its blocks go to the other cache's buffer and must not be reported first.
    tdm_pool_notify_notes(from);
    const uint64_t pending = tdm_pool_pending(from);
    if (slab->live_blocks == 0)
        idle_remove(from, slab);
    unlist_slab(from, slab);
    count_moved(from, slab, UINT64_MAX);
    list_slab(to, slab);
    count_moved(to, slab, 1);
    if (slab->live_blocks == 0)
        idle_append(to, slab);
    for (tdm_block *range = slab->first; range; range = range->after) {
        exchange_header(from, to);
        if (range->state == TDM_RANGE_LIVE)
            continue;
        range_unlink(from, range);
        range_link(to, range);
    }
    // The pending bytes that moved have already been reported.
    const uint64_t moved = pending - tdm_pool_pending(from);
    from->pending_is_known -= moved;
    to->pending_is_known += moved;
}

/* ---- split and join -------------------------------------------------------------------------- */

/* Creates a header for the rest of the range behind its first `bytes`. Returns NULL if host memory
 * is short. */
static tdm_block *rest_of(tdm_pool *pool, const tdm_block *range, uint64_t bytes) {
    tdm_block *const rest = header_new(pool);
    if (!rest)
        return NULL;
    if (range->dependency_count > rest->dependency_capacity &&
        !tdm_dependencies_reserve(rest, range->dependency_count)) {
        header_free(pool, rest);
        return NULL;
    }
    memcpy(rest->dependencies, range->dependencies,
           range->dependency_count * sizeof *rest->dependencies);
    rest->dependency_count = range->dependency_count;
    rest->memory = range->memory;
    rest->slab = range->slab;
    rest->offset = range->offset + bytes;
    rest->size = range->size - bytes;
    return rest;
}

static void place_after(tdm_block *range, tdm_block *rest) {
    rest->before = range;
    rest->after = range->after;
    if (rest->after)
        rest->after->before = rest;
    range->after = rest;
}

bool tdm_range_take(tdm_pool *pool, tdm_block *range, uint64_t bytes) {
    tdm_slab *const slab = range->slab;
    tdm_block *rest = NULL;
    if (range->size > bytes && !(rest = rest_of(pool, range, bytes)))
        return false;
    range_unlink(pool, range);
    if (slab->live_blocks++ == 0)
        idle_remove(pool, slab);
    if (rest) {
        range->size = bytes;
        place_after(range, rest);
        range_link(pool, rest);
        pool->totals.splits++;
    }
    return true;
}

/*
 * True if two free neighbours may become one range: both wait for the same streams, or for none.
 *
 * A ready range may also join a range that waits for one stream, if no range of the slab waits for
 * another stream. The joined range is then as good as ready for that stream.
 */
static bool may_join(const tdm_block *a, const tdm_block *b) {
    if (a->dependency_count && b->dependency_count)
        return tdm_dependencies_agree(a, b);
    const tdm_block *const pending = a->dependency_count ? a : b;
    if (pending->dependency_count == 0)
        return true;
    return pending->dependency_count == 1 &&
           (a->slab->stream == 0 || a->slab->stream == pending->dependencies[0].stream);
}

/* Takes the neighbour out of the lists if it is free and may join the range. A ready range may also
 * join a pending neighbour whose dependencies have completed. Returns false if they cannot join. */
static bool detach(tdm_pool *pool, const tdm_block *range, tdm_block *neighbour) {
    pool->visited++;
    if (neighbour->state != TDM_RANGE_READY && neighbour->state != TDM_RANGE_PENDING)
        return false;
    if (!may_join(range, neighbour)) {
        if (range->dependency_count || !tdm_dependencies_passed(pool, neighbour))
            return false;
        range_unlink(pool, neighbour);
        tdm_dependencies_drop(neighbour);
        return true;
    }
    range_unlink(pool, neighbour);
    return true;
}

/* Adds the bytes of the following neighbour to the range. */
static void absorb(tdm_pool *pool, tdm_block *range, tdm_block *later) {
    range->size += later->size;
    range->after = later->after;
    if (range->after)
        range->after->before = range;
    tdm_dependencies_merge(range, later);
    header_free(pool, later);
    pool->totals.joins++;
}

/*
 * Limit on the pending neighbours that one operation joins on each side; the others are joined
 * later. Ready neighbours are always joined. An idle slab without pending ranges is therefore one
 * range.
 */
#define JOIN_LIMIT 2

static bool joins_next(tdm_pool *pool, const tdm_block *range, tdm_block *neighbour, int joins) {
    if (!neighbour || (joins >= JOIN_LIMIT && neighbour->state != TDM_RANGE_READY))
        return false;
    return detach(pool, range, neighbour);
}

static void offer(tdm_pool *pool, tdm_block *range) {
    for (int joins = 0; joins_next(pool, range, range->after, joins); joins++)
        absorb(pool, range, range->after);
    for (int joins = 0; joins_next(pool, range, range->before, joins); joins++) {
        range = range->before;
        absorb(pool, range, range->after);
    }
    range_link(pool, range);
}

void tdm_range_free(tdm_pool *pool, tdm_block *range) {
    tdm_slab *const slab = range->slab;
    offer(pool, range);
    if (--slab->live_blocks == 0)
        idle_append(pool, slab);
}

bool tdm_range_settle(tdm_pool *pool, tdm_block *range, const tdm_use *waited) {
    const int before = range->dependency_count;
    pool->visited++;
    tdm_dependencies_prune(pool, range, waited);
    if (range->dependency_count == before)
        return false;
    const bool ready = range->dependency_count == 0;
    range_unlink(pool, range);
    offer(pool, range);
    return ready;
}
