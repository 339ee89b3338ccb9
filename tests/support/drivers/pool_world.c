#include <stdlib.h>
#include <string.h>

#include "tests/support/drivers/pool_world.h"

#include "tests/support/unit.h"

/* ---- the upstream allocator ---- */

static tdm_status native_allocate(void *user, size_t bytes, tdm_bk_memory **memory) {
    pool_world *const world = user;
    pthread_mutex_lock(&world->lock);
    const bool fails = world->fail_from && ++world->asked >= world->fail_from;
    if (!fails) {
        world_native *const native = calloc(1, sizeof *native);
        native->bytes = bytes;
        if (world->modelled)
            native->units = calloc(bytes / WORLD_UNIT + 1, sizeof *native->units);
        native->next = world->natives;
        world->natives = native;
        world->live_native++;
        world->native_bytes += bytes;
        *memory = (tdm_bk_memory *)native;
    }
    pthread_mutex_unlock(&world->lock);
    return fails ? tdm_fail(TDM_OUT_OF_DEVICE_MEMORY, "simulated: %zu bytes refused", bytes)
                 : TDM_OK;
}

static void native_release(void *user, tdm_bk_memory *memory) {
    pool_world *const world = user;
    world_native *const native = (world_native *)memory;
    pthread_mutex_lock(&world->lock);
    world_native **link = &world->natives;
    while (*link != native)
        link = &(*link)->next;
    *link = native->next;
    world->live_native--;
    world->native_bytes -= native->bytes;
    pthread_mutex_unlock(&world->lock);
    free(native->units);
    free(native);
}

static bool has_passed(void *user, tdm_use use) {
    pool_world *const world = user;
    pthread_mutex_lock(&world->lock);
    const bool passed = world->passed[use.stream] >= use.sequence;
    pthread_mutex_unlock(&world->lock);
    return passed;
}

static bool is_gone(void *user, uint32_t stream) {
    return stream < ((pool_world *)user)->oldest;
}

static void poll_streams(void *user) {
    pool_world *const world = user;
    pthread_mutex_lock(&world->lock);
    for (int i = 0; i <= WORLD_STREAMS; i++)
        if (world->passed[i] < world->polled[i])
            world->passed[i] = world->polled[i];
    pthread_mutex_unlock(&world->lock);
}

static void wait_for(void *user, tdm_use use) {
    pool_world *const world = user;
    pthread_mutex_lock(&world->lock);
    if (world->passed[use.stream] < use.sequence) {
        world->waits++;
        world->passed[use.stream] = use.sequence;
    }
    pthread_mutex_unlock(&world->lock);
}

static bool wait_briefly(void *user, tdm_use use, uint64_t patience_ns) {
    pool_world *const world = user;
    (void)patience_ns;
    if (world->stuck) {
        world->vain_waits++;
        return false;
    }
    wait_for(user, use);
    return true;
}

static bool relieve(void *user, uint64_t bytes, int attempt) {
    pool_world *const world = user;
    atomic_fetch_add(&world->reliefs, 1);
    return world->relieve && world->relieve(world, bytes, attempt);
}

/* ---- opening and closing ---- */

tdm_pool_upstream world_upstream(pool_world *world) {
    return (tdm_pool_upstream){.user = world,
                               .allocate = native_allocate,
                               .release = native_release,
                               .passed = has_passed,
                               .gone = is_gone,
                               .poll = poll_streams,
                               .wait = wait_for,
                               .wait_briefly = wait_briefly,
                               .relieve = relieve,
                               .max_allocation = 256 * MIB,
                               .alignment = 128,
                               .budget = 1024 * MIB};
}

void world_open_on(pool_world *world, const tdm_pool_upstream *upstream) {
    pthread_mutex_init(&world->lock, NULL);
    assert_int_equal(tdm_pool_create(upstream, &world->pool), TDM_OK);
}

void world_open_with(pool_world *world, uint64_t budget, uint64_t max_allocation, bool direct) {
    *world = (pool_world){.pool = NULL};
    tdm_pool_upstream upstream = world_upstream(world);
    upstream.budget = budget;
    upstream.max_allocation = max_allocation;
    upstream.direct = direct;
    world_open_on(world, &upstream);
}

void world_open(pool_world *world) {
    world_open_with(world, 1024 * MIB, 256 * MIB, false);
}

void world_close(pool_world *world) {
    const tdm_memory_stats stats = world_stats(world);
    assert_int_equal(stats.live_blocks, 0);
    assert_int_equal(stats.requested, 0);
    assert_int_equal(stats.allocated, 0);
    assert_int_equal(stats.reserved, world->native_bytes);
    tdm_pool_destroy(world->pool);
    assert_int_equal(world->live_native, 0);
    pthread_mutex_destroy(&world->lock);
}

tdm_block *world_alloc(pool_world *world, size_t bytes, uint32_t stream) {
    tdm_block *block;
    assert_int_equal(tdm_pool_alloc(world->pool, bytes, stream, &block), TDM_OK);
    assert_true(block->size >= bytes);
    return block;
}

int world_use(tdm_block *block, uint32_t stream, uint64_t sequence, tdm_use *dependencies) {
    tdm_use found[8];
    const int count = tdm_pool_prepare(&block, 1, stream, dependencies ? dependencies : found, 8);
    assert_true(count >= 0);
    tdm_pool_record_use(&block, 1, (tdm_use){stream, sequence});
    return count;
}

tdm_memory_stats world_stats(pool_world *world) {
    tdm_memory_stats stats;
    tdm_pool_stats(world->pool, &stats);
    return stats;
}

/* ---- the consistency check ---- */

static const char *check_range(const tdm_pool *pool, const tdm_block *range,
                               tdm_size_class_counters *sum) {
    const bool live = range->state == TDM_RANGE_LIVE;
    const uint64_t zones = live ? pool->zone_before + pool->zone_after : 0;
    if (range->size == 0 || (range->size + zones) % pool->unit)
        return "a range is no multiple of the unit";
    if (range->offset % pool->upstream.alignment)
        return "a range is not aligned";
    if (live) {
        sum->requested += range->requested;
        sum->allocated += range->size + zones;
        sum->live_blocks++;
    } else if (range->state == TDM_RANGE_PENDING) {
        sum->pending += range->size;
        sum->pending_ranges++;
    } else {
        sum->ready += range->size;
        sum->ready_ranges++;
    }
    if (!live && (range->state == TDM_RANGE_PENDING) != (range->dependency_count != 0))
        return "the state of a free range does not tell of its edges";
    const tdm_block *const after = range->after;
    if (!live && after && after->state != TDM_RANGE_LIVE && after->dependency_count == 0 &&
        range->dependency_count == 0)
        return "two ready neighbours have not joined";
    return NULL;
}

static const char *check_slab(const tdm_pool *pool, const tdm_slab *slab,
                              tdm_size_class_counters *sum) {
    uint64_t end = 0, live = 0, live_bytes = 0, pending = 0;
    const tdm_block *before = NULL;
    for (const tdm_block *range = slab->first; range; before = range, range = range->after) {
        const bool generations = range->state == TDM_RANGE_LIVE;
        if (range->offset - (generations ? pool->zone_before : 0) != end ||
            range->before != before || range->slab != slab || range->memory != slab->memory)
            return "the ranges of a slab do not follow each other";
        const char *const wrong = check_range(pool, range, sum);
        if (wrong)
            return wrong;
        const uint64_t bytes =
            range->size + (generations ? pool->zone_before + pool->zone_after : 0);
        end += bytes;
        live += generations;
        live_bytes += generations ? bytes : 0;
        pending += range->state == TDM_RANGE_PENDING;
    }
    if (end != slab->bytes || end != ((const world_native *)slab->memory)->bytes)
        return "the ranges do not cover their slab";
    if (live != slab->live_blocks || live_bytes != slab->live_bytes ||
        pending != slab->pending_ranges)
        return "the counts of a slab are wrong";
    sum->reserved += slab->bytes;
    sum->slabs++;
    sum->idle += slab->live_blocks ? 0 : slab->bytes;
    return NULL;
}

/* Each free range must be in the list of its size class and lane, and in no other list. */
static const char *check_index(const tdm_pool *pool, tdm_size_class size_class,
                               const tdm_size_class_counters *sum) {
    uint64_t ready = 0, pending = 0;
    for (int lane = 0; lane < TDM_LANES; lane++) {
        const tdm_pool_index *const index = &pool->free[size_class][lane];
        for (unsigned class = 0; class < TDM_INDEX_OCTAVES * TDM_INDEX_STEPS; class ++) {
            const tdm_block *range = index->heads[class / TDM_INDEX_STEPS][class % TDM_INDEX_STEPS];
            const bool bit = index->steps[class / TDM_INDEX_STEPS] >> class % TDM_INDEX_STEPS & 1;
            if (bit != (range != NULL))
                return "a bit of the index is wrong";
            for (; range; range = range->next) {
                if (tdm_index_class(range->size >> pool->unit_bits) != class ||
                    range->lane != lane || range->slab->size_class != size_class)
                    return "a range is in the wrong list";
                ready += range->state == TDM_RANGE_READY;
                pending += range->state == TDM_RANGE_PENDING;
            }
        }
    }
    return ready != sum->ready_ranges || pending != sum->pending_ranges
               ? "the index does not hold what is free"
               : NULL;
}

/* Checks one per-thread cache and adds its totals to `stats`. */
static const char *check_thread_cache(const tdm_pool *pool, tdm_memory_stats *stats) {
    tdm_size_class_counters sums[TDM_SIZE_CLASSES] = {{0}};
    uint64_t queued = 0, pending = 0;
    for (const tdm_slab *slab = pool->slabs; slab; slab = slab->next) {
        const char *const wrong = check_slab(pool, slab, &sums[slab->size_class]);
        if (wrong)
            return wrong;
    }
    for (int i = 0; i < TDM_SIZE_CLASSES; i++) {
        const char *const wrong = check_index(pool, (tdm_size_class)i, &sums[i]);
        if (wrong)
            return wrong;
        if (memcmp(&sums[i], &pool->counters[i], sizeof sums[i]) != 0)
            return "the counters of an arena are wrong";
        stats->reserved += sums[i].reserved;
        stats->allocated += sums[i].allocated;
        stats->requested += sums[i].requested;
        stats->live_blocks += sums[i].live_blocks;
        pending += sums[i].pending_ranges;
    }
    for (const tdm_block *range = pool->pending_oldest; range; range = range->as.queue.newer)
        queued++;
    return queued != pending ? "the queue does not hold what is pending" : NULL;
}

static bool agree(const tdm_memory_stats *a, const tdm_memory_stats *b) {
    return a->reserved == b->reserved && a->allocated == b->allocated &&
           a->requested == b->requested && a->live_blocks == b->live_blocks;
}

const char *world_check(pool_world *world) {
    tdm_memory_stats there = {.reserved = 0}, counted = {.reserved = 0};
    tdm_pool_catch_up(world->pool);
    for (int i = 0; i < TDM_POOL_THREAD_CACHES; i++) {
        const tdm_pool *const thread_cache = tdm_pool_thread_cache(world->pool, i);
        const char *const wrong = thread_cache ? check_thread_cache(thread_cache, &there) : NULL;
        if (wrong)
            return wrong;
        counted.reserved += thread_cache ? thread_cache->stats.reserved : 0;
        counted.allocated += thread_cache ? thread_cache->stats.allocated : 0;
        counted.requested += thread_cache ? thread_cache->stats.requested : 0;
        counted.live_blocks += thread_cache ? thread_cache->stats.live_blocks : 0;
    }
    return !agree(&there, &counted) || there.reserved != world->native_bytes ||
                   there.reserved != tdm_pool_reserved(world->pool)
               ? "the statistics are wrong"
               : NULL;
}
