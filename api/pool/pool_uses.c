/* Enqueued work on a block: uses while it is live, dependencies once it is free, waiting. */
#include <string.h>

#include "api/pool/pool_internal.h"

/* ---- uses of live blocks --------------------------------------------------------------------- */

static tdm_use *find_use(const tdm_block *block, uint32_t stream) {
    for (int i = 0; i < block->use_count; i++)
        if (block->uses[i].stream == stream)
            return &block->uses[i];
    return NULL;
}

/* Drops uses of streams that no longer exist. Otherwise short-lived streams would make the list of
 * a long-lived block grow. A stream that merely completed its work keeps its entry, because another
 * thread may be about to record a use. */
static void forget_gone_streams(tdm_block *block) {
    const tdm_pool_upstream *const upstream = &block->pool->upstream;
    uint16_t kept = 0;
    for (int i = 0; i < block->use_count; i++)
        if (!upstream->gone(upstream->user, block->uses[i].stream))
            block->uses[kept++] = block->uses[i];
    block->use_count = kept;
}

/* Moves a list, which starts in the header, to `capacity` entries. NULL if host memory is short. */
static tdm_use *larger_list(tdm_use *list, const tdm_use *in_header, int count, int capacity) {
    if (capacity > UINT16_MAX)
        return NULL;
    tdm_use *const larger = tdm_host_alloc((size_t)capacity * sizeof *larger);
    if (!larger)
        return NULL;
    memcpy(larger, list, (size_t)count * sizeof *larger);
    if (list != in_header)
        tdm_host_free(list);
    return larger;
}

static bool grow_uses(tdm_block *block) {
    if (block->use_count == block->use_capacity)
        forget_gone_streams(block);
    if (block->use_count < block->use_capacity)
        return true;
    const int capacity = 2 * block->use_capacity;
    tdm_use *const larger =
        larger_list(block->uses, block->as.inline_uses, block->use_count, capacity);
    if (!larger)
        return false;
    block->uses = larger;
    block->use_capacity = (uint16_t)capacity;
    return true;
}

/* No other thread holds the block, but a visitor may read it. A list that grew is never empty. */
static void drop_uses(tdm_block *block) {
    if (block->use_count == 0)
        return;
    pthread_mutex_lock(&block->pool->shared->marks_lock);
    if (block->uses != block->as.inline_uses)
        tdm_host_free(block->uses);
    block->uses = block->as.inline_uses;
    block->use_capacity = TDM_INLINE_USES;
    block->use_count = 0;
    pthread_mutex_unlock(&block->pool->shared->marks_lock);
}

int tdm_pool_prepare(tdm_block *const *blocks, int count, uint32_t stream, tdm_use *edges,
                     int capacity) {
    int found = 0;
    for (int i = 0; i < count; i++) {
        tdm_block *const block = blocks[i];
        tdm_pool *const pool = block->pool;
        pthread_mutex_lock(&pool->shared->marks_lock);
        tdm_use *use = find_use(block, stream);
        if (!use && grow_uses(block)) {
            use = &block->uses[block->use_count++];
            *use = (tdm_use){.stream = stream};
            tdm_pool_tell_use(pool, tdm_block_event(block, TDM_POOL_EVENT_USE, stream));
        }
        const bool first = use && use->sequence == 0;
        pthread_mutex_unlock(&pool->shared->marks_lock);
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
    pthread_mutex_lock(&pool->shared->marks_lock);
    for (int i = 0; i < count; i++) {
        tdm_use *const entry = find_use(blocks[i], use.stream);
        if (entry && entry->sequence < use.sequence)
            entry->sequence = use.sequence;
    }
    pthread_mutex_unlock(&pool->shared->marks_lock);
}

/* ---- dependencies of free ranges ------------------------------------------------------------- */

bool tdm_edges_reserve(tdm_block *range, int capacity) {
    if (capacity <= range->edge_capacity)
        return true;
    tdm_use *const larger =
        larger_list(range->edges, range->inline_edges, range->edge_count, capacity);
    if (!larger)
        return false;
    range->edges = larger;
    range->edge_capacity = (uint16_t)capacity;
    return true;
}

void tdm_edges_drop(tdm_block *range) {
    range->edge_count = 0;
    if (range->edge_capacity == TDM_INLINE_USES)
        return;
    tdm_host_free(range->edges);
    range->edges = range->inline_edges;
    range->edge_capacity = TDM_INLINE_USES;
}

static tdm_use *find_edge(const tdm_block *range, uint32_t stream) {
    for (int i = 0; i < range->edge_count; i++)
        if (range->edges[i].stream == stream)
            return &range->edges[i];
    return NULL;
}

bool tdm_edges_agree(const tdm_block *a, const tdm_block *b) {
    if (a->edge_count != b->edge_count)
        return false;
    for (int i = 0; i < a->edge_count; i++)
        if (!find_edge(b, a->edges[i].stream))
            return false;
    return true;
}

void tdm_edges_merge(tdm_block *range, tdm_block *other) {
    if (range->edge_count == 0 && other->edge_count) {
        // This list is empty, so the other one fits the header or can be handed over.
        if (other->edges == other->inline_edges) {
            memcpy(range->edges, other->edges, other->edge_count * sizeof *range->edges);
        } else {
            tdm_edges_drop(range);
            range->edges = other->edges;
            range->edge_capacity = other->edge_capacity;
            other->edges = other->inline_edges;
            other->edge_capacity = TDM_INLINE_USES;
        }
        range->edge_count = other->edge_count;
        return;
    }
    for (int i = 0; i < other->edge_count; i++) {
        tdm_use *const mine = find_edge(range, other->edges[i].stream);
        if (mine->sequence < other->edges[i].sequence)
            mine->sequence = other->edges[i].sequence;
    }
}

static bool has_passed(const tdm_pool *pool, tdm_use use, const tdm_use *waited) {
    return (waited && waited->stream == use.stream && waited->sequence >= use.sequence) ||
           pool->upstream.passed(pool->upstream.user, use);
}

bool tdm_edges_passed(const tdm_pool *pool, const tdm_block *range) {
    for (int i = 0; i < range->edge_count; i++)
        if (!has_passed(pool, range->edges[i], NULL))
            return false;
    return true;
}

void tdm_edges_prune(tdm_pool *pool, tdm_block *range, const tdm_use *waited) {
    uint16_t kept = 0;
    for (int i = 0; i < range->edge_count; i++)
        if (!has_passed(pool, range->edges[i], waited))
            range->edges[kept++] = range->edges[i];
    if (kept == 0)
        tdm_edges_drop(range);
    range->edge_count = kept;
}

void tdm_edges_wait(tdm_block *block) {
    const tdm_pool_upstream *const upstream = &block->pool->upstream;
    for (int i = 0; i < block->edge_count; i++)
        upstream->wait(upstream->user, block->edges[i]);
    tdm_edges_drop(block);
}

/*
 * Adds the unfinished uses of the ending generation to the unfinished dependencies that it never
 * waited for. If host memory for the list is short, it waits instead.
 */
static void join_edges(tdm_block *block) {
    const tdm_pool_upstream *const upstream = &block->pool->upstream;
    uint16_t kept = 0;
    for (int i = 0; i < block->edge_count; i++) {
        const tdm_use *const later = find_use(block, block->edges[i].stream);
        if (!(later && later->sequence) && !upstream->passed(upstream->user, block->edges[i]))
            block->edges[kept++] = block->edges[i];
    }
    block->edge_count = kept;
    for (int i = 0; i < block->use_count; i++) {
        const tdm_use use = block->uses[i];
        if (use.sequence == 0 || upstream->passed(upstream->user, use))
            continue;
        if (block->edge_count < block->edge_capacity ||
            tdm_edges_reserve(block, 2 * block->edge_capacity))
            block->edges[block->edge_count++] = use;
        else
            upstream->wait(upstream->user, use);
    }
    if (block->edge_count == 0)
        tdm_edges_drop(block);
}

void tdm_uses_end(tdm_block *block) {
    if (block->edge_count + block->use_count > 0)
        join_edges(block);
    drop_uses(block);
}

/* ---- pending ranges -------------------------------------------------------------------------- */

void tdm_pool_settle(tdm_pool *pool, uint64_t count) {
    for (; count && pool->pending_oldest; count--) {
        tdm_block *const oldest = pool->pending_oldest;
        if (!tdm_range_settle(pool, oldest, NULL) && pool->pending_oldest == oldest)
            tdm_pool_postpone_oldest(pool);
    }
}

/* Makes the ranges ready that waited only for this command. */
static void settle_after(tdm_pool *pool, tdm_use use) {
    while (pool->pending_oldest && tdm_range_settle(pool, pool->pending_oldest, &use)) {
    }
}

bool tdm_pool_wait_once(tdm_pool *pool) {
    if (!pool->pending_oldest)
        return false;
    const tdm_use use = pool->pending_oldest->edges[0];
    tdm_pool_unlock(pool);
    pool->upstream.wait(pool->upstream.user, use);
    tdm_pool_lock(pool);
    settle_after(pool, use);
    return true;
}

bool tdm_pool_wait_briefly(tdm_pool *pool) {
    const tdm_pool_upstream *const upstream = &pool->upstream;
    if (!pool->pending_oldest || !upstream->wait_briefly)
        return false;
    if (pool->stuck.sequence && !upstream->passed(upstream->user, pool->stuck))
        return false;
    const tdm_use use = pool->pending_oldest->edges[0];
    tdm_pool_unlock(pool);
    const bool passed =
        upstream->wait_briefly(upstream->user, use, atomic_load(&pool->shared->patience_ns));
    tdm_pool_lock(pool);
    // An unsuccessful wait of another thread in the meantime stays recorded.
    if (passed)
        settle_after(pool, use);
    else
        pool->stuck = use;
    return passed;
}

uint64_t tdm_pool_pending_edges(const tdm_pool *pool) {
    uint64_t edges = 0;
    for (const tdm_block *range = pool->pending_oldest; range; range = range->as.queue.newer)
        edges += range->edge_count;
    return edges;
}

void tdm_pool_wait_all(tdm_pool *pool) {
    uint64_t rounds = tdm_pool_pending_edges(pool);
    while (rounds-- && tdm_pool_wait_once(pool)) {
    }
}
