/*
 * The caching pool: size classes, slabs, stream-ordered reuse. pool.h says what it promises.
 *
 * A class's free list is last-in first-out: the block freed last is the warmest, and on one stream always fit for reuse at
 * once. Blocks whose former work is unfinished on another stream are reused only where growing is not possible.
 */
#include <string.h>

#include "api/core.h"
#include "api/pool_classes.h"

/* How many free blocks of a class are looked at for one that need not wait. */
#define SCAN_LIMIT 8
/* A large request may take a cached block of up to this many classes above its own: 25 % more at most. */
#define LARGE_CLASS_SLACK 2

typedef struct tdm_slab {
    tdm_bk_memory *memory;
    uint64_t bytes;
    int block_count, live_count;
    int size_class; /* of all its blocks; -1: never cached */
    bool adopted;   /* the memory is the user's: it does not count as the pool's */
    struct tdm_slab *next, *previous;
    tdm_block blocks[];
} tdm_slab;

struct tdm_pool {
    pthread_mutex_t lock;
    pthread_mutex_t marks_lock; /* leaf: uses of live blocks */
    tdm_pool_upstream upstream;
    uint64_t unit; /* sizes are multiples of it */
    tdm_slab *slabs;
    tdm_block *free_blocks[TDM_POOL_CLASSES];
    tdm_memory_stats stats;
    uint64_t lives;
    tdm_pool_listener *listeners; /* changed under both locks, so that either guards reading */
};

/* ---- listeners ----------------------------------------------------------------------------------- */

void tdm_pool_listen(tdm_pool *pool, tdm_pool_listener *listener) {
    pthread_mutex_lock(&pool->lock);
    pthread_mutex_lock(&pool->marks_lock);
    listener->next = pool->listeners;
    pool->listeners = listener;
    pthread_mutex_unlock(&pool->marks_lock);
    pthread_mutex_unlock(&pool->lock);
}

void tdm_pool_unlisten(tdm_pool *pool, tdm_pool_listener *listener) {
    pthread_mutex_lock(&pool->lock);
    pthread_mutex_lock(&pool->marks_lock);
    tdm_pool_listener **link = &pool->listeners;
    while (*link && *link != listener)
        link = &(*link)->next;
    if (*link)
        *link = listener->next;
    pthread_mutex_unlock(&pool->marks_lock);
    pthread_mutex_unlock(&pool->lock);
}

static void tell(const tdm_pool *pool, const tdm_pool_event event) {
    for (const tdm_pool_listener *each = pool->listeners; each; each = each->next)
        each->event(each->user, &event);
}

static void tell_of_block(const tdm_block *block, tdm_pool_event_kind kind, uint32_t stream) {
    tell(block->pool, (tdm_pool_event){.kind = kind,
                                       .stream = stream,
                                       .life = block->life,
                                       .requested = block->requested,
                                       .bytes = block->size,
                                       .tag = block->tag});
}

/* ---- uses and edges ---------------------------------------------------------------------------- */

static tdm_use *find_use(const tdm_block *block, uint32_t stream) {
    for (int i = 0; i < block->use_count; i++)
        if (block->uses[i].stream == stream)
            return &block->uses[i];
    return NULL;
}

/* Short-lived streams must not make the list of a long-lived block grow. A stream that merely passed keeps its entry:
 * another thread may be about to mark it. */
static void forget_gone_streams(tdm_block *block) {
    const tdm_pool_upstream *const upstream = &block->pool->upstream;
    int kept = 0;
    for (int i = 0; i < block->use_count; i++)
        if (!upstream->gone(upstream->user, block->uses[i].stream))
            block->uses[kept++] = block->uses[i];
    block->use_count = kept;
}

/* Room for one more use; the inline ones come first. */
static bool grow_uses(tdm_block *block) {
    if (block->use_count == block->use_capacity)
        forget_gone_streams(block);
    if (block->use_count < block->use_capacity)
        return true;
    const size_t old_bytes = sizeof(tdm_use) * (size_t)block->use_capacity;
    tdm_use *const bigger = tdm_host_alloc(2 * old_bytes);
    if (!bigger)
        return false;
    memcpy(bigger, block->uses, old_bytes);
    if (block->uses != block->inline_uses)
        tdm_host_free(block->uses);
    block->uses = bigger;
    block->use_capacity *= 2;
    return true;
}

static void reset_uses(tdm_block *block) {
    if (block->uses != block->inline_uses)
        tdm_host_free(block->uses);
    block->uses = block->inline_uses;
    block->use_capacity = (int)(sizeof block->inline_uses / sizeof block->inline_uses[0]);
    block->use_count = 0;
}

static void drop_edges(tdm_block *block) {
    tdm_host_free(block->edges);
    block->edges = NULL;
    block->edge_count = 0;
}

/* Forget the edges that were passed. */
static void prune_edges(tdm_pool *pool, tdm_block *block) {
    int kept = 0;
    for (int i = 0; i < block->edge_count; i++)
        if (!pool->upstream.passed(pool->upstream.user, block->edges[i]))
            block->edges[kept++] = block->edges[i];
    block->edge_count = kept;
    if (kept == 0)
        drop_edges(block);
}

static void wait_edges(tdm_pool *pool, tdm_block *block) {
    for (int i = 0; i < block->edge_count; i++)
        pool->upstream.wait(pool->upstream.user, block->edges[i]);
    drop_edges(block);
}

/*
 * The life of a block ends: its unfinished uses become the edges of the next life, with those of the life before that
 * it never waited for. Without host memory for the list it waits instead.
 */
static void uses_become_edges(tdm_pool *pool, tdm_block *block) {
    tdm_use *const edges =
        tdm_host_calloc((size_t)block->use_count + (size_t)block->edge_count, sizeof *edges);
    int count = 0;
    for (int i = 0; i < block->use_count; i++) {
        const tdm_use use = block->uses[i];
        if (use.sequence == 0 || pool->upstream.passed(pool->upstream.user, use))
            continue;
        if (edges)
            edges[count++] = use;
        else
            pool->upstream.wait(pool->upstream.user, use);
    }
    for (int i = 0; i < block->edge_count; i++) {
        const tdm_use *const later = find_use(block, block->edges[i].stream);
        if ((later && later->sequence) ||
            pool->upstream.passed(pool->upstream.user, block->edges[i]))
            continue;
        if (edges)
            edges[count++] = block->edges[i];
        else
            pool->upstream.wait(pool->upstream.user, block->edges[i]);
    }
    drop_edges(block);
    reset_uses(block);
    if (count == 0)
        tdm_host_free(edges);
    else
        block->edges = edges;
    block->edge_count = count;
}

int tdm_pool_prepare(tdm_block *const *blocks, int count, uint32_t stream, tdm_use *edges,
                     int capacity) {
    int found = 0;
    for (int i = 0; i < count; i++) {
        tdm_block *const block = blocks[i];
        tdm_pool *const pool = block->pool;
        pthread_mutex_lock(&pool->marks_lock);
        tdm_use *use = find_use(block, stream);
        if (!use && grow_uses(block)) {
            use = &block->uses[block->use_count++];
            *use = (tdm_use){.stream = stream};
            tell_of_block(block, TDM_POOL_EVENT_USE, stream);
        }
        const bool first = use && use->sequence == 0;
        pthread_mutex_unlock(&pool->marks_lock);
        if (!use)
            return -1;
        for (int j = 0; first && j < block->edge_count; j++) {
            if (block->edges[j].stream == stream ||
                pool->upstream.passed(pool->upstream.user, block->edges[j]))
                continue;
            if (found < capacity)
                edges[found] = block->edges[j];
            found++;
        }
    }
    return found;
}

void tdm_pool_mark(tdm_block *const *blocks, int count, tdm_use use) {
    if (count == 0)
        return;
    tdm_pool *const pool = blocks[0]->pool;
    pthread_mutex_lock(&pool->marks_lock);
    for (int i = 0; i < count; i++) {
        tdm_use *const entry = find_use(blocks[i], use.stream);
        if (entry && entry->sequence < use.sequence)
            entry->sequence = use.sequence;
    }
    pthread_mutex_unlock(&pool->marks_lock);
}

/* ---- free lists --------------------------------------------------------------------------------- */

static void list_push(tdm_pool *pool, int size_class, tdm_block *block) {
    block->previous = NULL;
    block->next = pool->free_blocks[size_class];
    if (block->next)
        block->next->previous = block;
    pool->free_blocks[size_class] = block;
}

static void list_remove(tdm_pool *pool, int size_class, tdm_block *block) {
    if (block->previous)
        block->previous->next = block->next;
    else
        pool->free_blocks[size_class] = block->next;
    if (block->next)
        block->next->previous = block->previous;
    block->next = block->previous = NULL;
}

/* Is nothing unfinished on the block but, perhaps, work of `stream`? */
static bool is_ready(tdm_pool *pool, tdm_block *block, uint32_t stream) {
    prune_edges(pool, block);
    return block->edge_count == 0 ||
           (stream != 0 && block->edge_count == 1 && block->edges[0].stream == stream);
}

/* A free block of the class that is ready; with `any`, the last freed one where none is. */
static tdm_block *list_take(tdm_pool *pool, int size_class, uint32_t stream, bool any) {
    tdm_block *block = pool->free_blocks[size_class];
    for (int i = 0; block && i < SCAN_LIMIT && !is_ready(pool, block, stream); i++)
        block = block->next;
    if (!block && any)
        block = pool->free_blocks[size_class];
    if (block && (any || is_ready(pool, block, stream))) {
        list_remove(pool, size_class, block);
        return block;
    }
    return NULL;
}

/* ---- slabs ---------------------------------------------------------------------------------------- */

static void slab_link(tdm_pool *pool, tdm_slab *slab) {
    slab->previous = NULL;
    slab->next = pool->slabs;
    if (slab->next)
        slab->next->previous = slab;
    pool->slabs = slab;
    if (slab->adopted)
        return;
    pool->stats.reserved += slab->bytes;
    if (pool->stats.reserved > pool->stats.reserved_peak)
        pool->stats.reserved_peak = pool->stats.reserved;
}

static void slab_release(tdm_pool *pool, tdm_slab *slab) {
    for (int i = 0; i < slab->block_count; i++) {
        wait_edges(pool, &slab->blocks[i]);
        reset_uses(&slab->blocks[i]);
    }
    if (slab->previous)
        slab->previous->next = slab->next;
    else
        pool->slabs = slab->next;
    if (slab->next)
        slab->next->previous = slab->previous;
    pool->upstream.release(pool->upstream.user, slab->memory);
    if (!slab->adopted) {
        tell(pool, (tdm_pool_event){.kind = TDM_POOL_EVENT_SLAB_FREE, .bytes = slab->bytes});
        pool->stats.reserved -= slab->bytes;
        pool->stats.native_frees++;
    }
    tdm_host_free(slab);
}

static tdm_slab *slab_new(tdm_pool *pool, tdm_bk_memory *memory, uint64_t block_bytes, int count,
                          int size_class, bool adopted) {
    tdm_slab *const slab = tdm_host_calloc(1, sizeof *slab + (size_t)count * sizeof(tdm_block));
    if (!slab)
        return NULL;
    slab->memory = memory;
    slab->bytes = block_bytes * (uint64_t)count;
    slab->block_count = count;
    slab->size_class = size_class;
    slab->adopted = adopted;
    for (int i = 0; i < count; i++) {
        tdm_block *const block = &slab->blocks[i];
        block->memory = memory;
        block->offset = block_bytes * (uint64_t)i;
        block->size = block_bytes;
        block->pool = pool;
        block->slab = slab;
        block->uses = block->inline_uses;
        reset_uses(block);
    }
    slab_link(pool, slab);
    return slab;
}

/* Take `count` blocks' worth from the upstream; *block is the first, the others go to the free list. */
static tdm_status slab_grow(tdm_pool *pool, uint64_t block_bytes, int count, int size_class,
                            tdm_block **block) {
    const uint64_t bytes = block_bytes * (uint64_t)count;
    if (bytes > pool->upstream.max_allocation)
        return tdm_fail(TDM_OUT_OF_DEVICE_MEMORY,
                        "pool: %llu bytes are more than the largest native allocation, %llu",
                        (unsigned long long)bytes,
                        (unsigned long long)pool->upstream.max_allocation);
    if (bytes > pool->stats.budget || pool->stats.reserved > pool->stats.budget - bytes)
        return tdm_fail(TDM_OVER_BUDGET,
                        "pool: %llu bytes do not fit the budget of %llu: %llu are reserved, %llu "
                        "of them in live blocks",
                        (unsigned long long)bytes, (unsigned long long)pool->stats.budget,
                        (unsigned long long)pool->stats.reserved,
                        (unsigned long long)pool->stats.allocated);
    tdm_bk_memory *memory;
    TDM_TRY(pool->upstream.allocate(pool->upstream.user, bytes, &memory));
    tdm_slab *const slab = slab_new(pool, memory, block_bytes, count, size_class, false);
    if (!slab) {
        pool->upstream.release(pool->upstream.user, memory);
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "pool: no host memory for %d blocks", count);
    }
    pool->stats.native_allocations++;
    tell(pool, (tdm_pool_event){.kind = TDM_POOL_EVENT_SLAB_ALLOC, .bytes = bytes});
    for (int i = count - 1; i >= 1; i--)
        list_push(pool, size_class, &slab->blocks[i]);
    *block = &slab->blocks[0];
    return TDM_OK;
}

/* Give every slab without live blocks back; true when there was one. */
static bool trim_slabs(tdm_pool *pool) {
    bool any = false;
    for (tdm_slab *slab = pool->slabs, *next; slab; slab = next) {
        next = slab->next;
        if (slab->live_count != 0)
            continue;
        for (int i = 0; i < slab->block_count; i++)
            list_remove(pool, slab->size_class, &slab->blocks[i]);
        slab_release(pool, slab);
        any = true;
    }
    return any;
}

/* ---- allocation ------------------------------------------------------------------------------------ */

static tdm_block *take_cached(tdm_pool *pool, int size_class, uint32_t stream, bool any) {
    const bool large = tdm_class_bytes(size_class, pool->unit) > TDM_POOL_SLAB_CLASS_LIMIT;
    const int last = large ? size_class + LARGE_CLASS_SLACK : size_class;
    for (int i = size_class; i <= last && i < TDM_POOL_CLASSES; i++) {
        tdm_block *const block = list_take(pool, i, stream, any);
        if (block)
            return block;
    }
    return NULL;
}

/* New native memory for the class, or for just `bytes` where a whole class is too much. */
static tdm_status take_new(tdm_pool *pool, uint64_t bytes, int size_class, tdm_block **block) {
    const uint64_t class_bytes = tdm_class_bytes(size_class, pool->unit);
    if (class_bytes <= TDM_POOL_SLAB_CLASS_LIMIT &&
        slab_grow(pool, class_bytes, tdm_class_slab_blocks(class_bytes), size_class, block) ==
            TDM_OK)
        return TDM_OK;
    if (class_bytes <= pool->upstream.max_allocation &&
        slab_grow(pool, class_bytes, 1, size_class, block) == TDM_OK)
        return TDM_OK;
    // The smaller class's list is where a block of exactly `bytes` can serve again without lying.
    return slab_grow(pool, bytes, 1, tdm_class_below(bytes, pool->unit), block);
}

static tdm_status take_direct(tdm_pool *pool, uint64_t bytes, tdm_block **block) {
    return slab_grow(pool, bytes, 1, -1, block);
}

static tdm_status take(tdm_pool *pool, uint64_t bytes, uint32_t stream, tdm_block **block) {
    if (pool->upstream.direct)
        return take_direct(pool, bytes, block);
    const int size_class = tdm_class_of(bytes, pool->unit);
    *block = take_cached(pool, size_class, stream, false);
    if (!*block) {
        pool->upstream.poll(pool->upstream.user);
        *block = take_cached(pool, size_class, stream, false);
    }
    if (*block) {
        pool->stats.reuses++;
        return TDM_OK;
    }
    const tdm_status status = take_new(pool, bytes, size_class, block);
    if (status == TDM_OK)
        return TDM_OK;
    *block = take_cached(pool, size_class, stream, true);
    if (*block)
        pool->stats.reuses++;
    else if (trim_slabs(pool))
        TDM_TRY(take_new(pool, bytes, size_class, block));
    else
        return status;
    pool->stats.retries++;
    tell(pool, (tdm_pool_event){.kind = TDM_POOL_EVENT_RETRY, .stream = stream, .bytes = bytes});
    return TDM_OK;
}

static void begin_life(tdm_block *block, uint64_t requested) {
    block->live = true;
    atomic_store(&block->references, 1);
    block->requested = requested;
    block->life = ++block->pool->lives;
    block->tag = tdm_memory_tag();
    block->slab->live_count++;
}

static void count_in(tdm_pool *pool, tdm_block *block, uint64_t requested) {
    tdm_memory_stats *const stats = &pool->stats;
    begin_life(block, requested);
    stats->allocations++;
    stats->live_blocks++;
    stats->requested += requested;
    stats->allocated += block->size;
    if (stats->requested > stats->requested_peak)
        stats->requested_peak = stats->requested;
    if (stats->allocated > stats->allocated_peak)
        stats->allocated_peak = stats->allocated;
}

static void count_out(tdm_pool *pool, const tdm_block *block) {
    tdm_memory_stats *const stats = &pool->stats;
    stats->frees++;
    stats->live_blocks--;
    stats->requested -= block->requested;
    stats->allocated -= block->size;
}

tdm_status tdm_pool_alloc(tdm_pool *pool, size_t bytes, uint32_t stream, tdm_block **block) {
    *block = NULL;
    const uint64_t wanted = bytes ? bytes : 1;
    if (wanted > TDM_POOL_LARGEST)
        return tdm_fail(TDM_OUT_OF_DEVICE_MEMORY, "pool: %llu bytes are more than any device has",
                        (unsigned long long)wanted);
    const uint64_t rounded = (wanted + pool->unit - 1) / pool->unit * pool->unit;
    pthread_mutex_lock(&pool->lock);
    const tdm_status status = take(pool, rounded, stream, block);
    if (status == TDM_OK) {
        count_in(pool, *block, bytes);
        tell_of_block(*block, TDM_POOL_EVENT_ALLOC, stream);
    } else {
        pool->stats.failures++;
        tell(pool, (tdm_pool_event){
                       .kind = TDM_POOL_EVENT_FAILURE, .stream = stream, .requested = bytes});
    }
    pthread_mutex_unlock(&pool->lock);
    return status;
}

tdm_status tdm_pool_adopt(tdm_pool *pool, tdm_bk_memory *memory, size_t bytes, tdm_block **block) {
    *block = NULL;
    pthread_mutex_lock(&pool->lock);
    tdm_slab *const slab = slab_new(pool, memory, bytes, 1, -1, true);
    if (slab) {
        *block = &slab->blocks[0];
        begin_life(*block, bytes);
    }
    pthread_mutex_unlock(&pool->lock);
    return slab ? TDM_OK : tdm_fail(TDM_OUT_OF_HOST_MEMORY, "pool: no host memory for a block");
}

void tdm_block_retain(tdm_block *block) {
    atomic_fetch_add(&block->references, 1);
}

void tdm_block_release(tdm_block *block) {
    if (!block || atomic_fetch_sub(&block->references, 1) != 1)
        return;
    tdm_pool *const pool = block->pool;
    pthread_mutex_lock(&pool->lock);
    if (!block->slab->adopted) {
        count_out(pool, block);
        tell_of_block(block, TDM_POOL_EVENT_FREE, 0);
    }
    block->live = false;
    block->slab->live_count--;
    uses_become_edges(pool, block);
    if (block->slab->size_class < 0)
        slab_release(pool, block->slab);
    else
        list_push(pool, block->slab->size_class, block);
    pthread_mutex_unlock(&pool->lock);
}

/* ---- the pool itself -------------------------------------------------------------------------------- */

tdm_status tdm_pool_create(const tdm_pool_upstream *upstream, tdm_pool **pool) {
    *pool = NULL;
    tdm_pool *const created = tdm_host_calloc(1, sizeof *created);
    if (!created)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "pool: no host memory for a pool");
    created->upstream = *upstream;
    created->unit = TDM_POOL_UNIT > upstream->alignment ? TDM_POOL_UNIT : upstream->alignment;
    created->stats.budget = upstream->budget;
    pthread_mutex_init(&created->lock, NULL);
    pthread_mutex_init(&created->marks_lock, NULL);
    *pool = created;
    return TDM_OK;
}

void tdm_pool_destroy(tdm_pool *pool) {
    if (!pool)
        return;
    while (pool->slabs)
        slab_release(pool, pool->slabs);
    pthread_mutex_destroy(&pool->lock);
    pthread_mutex_destroy(&pool->marks_lock);
    tdm_host_free(pool);
}

void tdm_pool_stats(tdm_pool *pool, tdm_memory_stats *stats) {
    pthread_mutex_lock(&pool->lock);
    pool->upstream.poll(pool->upstream.user);
    *stats = pool->stats;
    for (int i = 0; i < TDM_POOL_CLASSES; i++)
        for (tdm_block *block = pool->free_blocks[i]; block; block = block->next) {
            prune_edges(pool, block);
            stats->pending += block->edge_count ? block->size : 0;
        }
    pthread_mutex_unlock(&pool->lock);
}

void tdm_pool_reset_peaks(tdm_pool *pool) {
    pthread_mutex_lock(&pool->lock);
    pool->stats.requested_peak = pool->stats.requested;
    pool->stats.allocated_peak = pool->stats.allocated;
    pool->stats.reserved_peak = pool->stats.reserved;
    pthread_mutex_unlock(&pool->lock);
}

void tdm_pool_set_budget(tdm_pool *pool, uint64_t bytes) {
    pthread_mutex_lock(&pool->lock);
    pool->stats.budget = bytes ? bytes : pool->upstream.budget;
    if (pool->stats.reserved > pool->stats.budget)
        trim_slabs(pool);
    pthread_mutex_unlock(&pool->lock);
}

void tdm_pool_trim(tdm_pool *pool) {
    pthread_mutex_lock(&pool->lock);
    trim_slabs(pool);
    pthread_mutex_unlock(&pool->lock);
}
