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

/*
 * Drops uses of streams that no longer exist, because many short-lived streams would make the list
 * of a long-lived block grow. A stream that merely completed its work keeps its entry, because
 * another thread may be about to record a use.
 */
static void forget_gone_streams(tdm_block *block) {
    const tdm_pool_upstream *const upstream = &block->pool->upstream;
    uint16_t kept = 0;
    for (int i = 0; i < block->use_count; i++)
        if (!upstream->gone(upstream->user, block->uses[i].stream))
            block->uses[kept++] = block->uses[i];
    block->use_count = kept;
}

/* Moves a list to host memory with room for `capacity` entries. A list starts in the header
 * (`in_header`). Returns NULL if host memory is short. */
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

/* Drops all uses. No other thread holds the block, but a visitor may read it. A list that grew is
 * never empty. */
static void drop_uses(tdm_block *block) {
    if (block->use_count == 0)
        return;
    pthread_mutex_lock(&block->pool->shared->fences_lock);
    if (block->uses != block->as.inline_uses)
        tdm_host_free(block->uses);
    block->uses = block->as.inline_uses;
    block->use_capacity = TDM_INLINE_USES;
    block->use_count = 0;
    pthread_mutex_unlock(&block->pool->shared->fences_lock);
}

int tdm_pool_prepare(tdm_block *const *blocks, int count, uint32_t stream, tdm_use *dependencies,
                     int capacity) {
    int found = 0;
    for (int i = 0; i < count; i++) {
        tdm_block *const block = blocks[i];
        tdm_pool *const pool = block->pool;
        pthread_mutex_lock(&pool->shared->fences_lock);
        tdm_use *use = find_use(block, stream);
        if (!use && grow_uses(block)) {
            use = &block->uses[block->use_count++];
            *use = (tdm_use){.stream = stream};
            tdm_pool_notify_use(pool, tdm_block_event(block, TDM_POOL_EVENT_USE, stream));
        }
        const bool first = use && use->sequence == 0;
        pthread_mutex_unlock(&pool->shared->fences_lock);
        if (!use)
            return -1;
        for (int j = 0; first && j < block->dependency_count; j++) {
            if (block->dependencies[j].stream == stream ||
                pool->upstream.passed(pool->upstream.user, block->dependencies[j]))
                continue;
            if (found < capacity)
                dependencies[found] = block->dependencies[j];
            found++;
        }
    }
    return found;
}

void tdm_pool_record_use(tdm_block *const *blocks, int count, tdm_use use) {
    if (count == 0)
        return;
    tdm_pool *const pool = blocks[0]->pool;
    pthread_mutex_lock(&pool->shared->fences_lock);
    for (int i = 0; i < count; i++) {
        tdm_use *const entry = find_use(blocks[i], use.stream);
        if (entry && entry->sequence < use.sequence)
            entry->sequence = use.sequence;
    }
    pthread_mutex_unlock(&pool->shared->fences_lock);
}

/* ---- dependencies of free ranges ------------------------------------------------------------- */

bool tdm_dependencies_reserve(tdm_block *range, int capacity) {
    if (capacity <= range->dependency_capacity)
        return true;
    tdm_use *const larger = larger_list(range->dependencies, range->inline_dependencies,
                                        range->dependency_count, capacity);
    if (!larger)
        return false;
    range->dependencies = larger;
    range->dependency_capacity = (uint16_t)capacity;
    return true;
}

void tdm_dependencies_drop(tdm_block *range) {
    range->dependency_count = 0;
    if (range->dependency_capacity == TDM_INLINE_USES)
        return;
    tdm_host_free(range->dependencies);
    range->dependencies = range->inline_dependencies;
    range->dependency_capacity = TDM_INLINE_USES;
}

static tdm_use *find_dependency(const tdm_block *range, uint32_t stream) {
    for (int i = 0; i < range->dependency_count; i++)
        if (range->dependencies[i].stream == stream)
            return &range->dependencies[i];
    return NULL;
}

bool tdm_dependencies_agree(const tdm_block *a, const tdm_block *b) {
    if (a->dependency_count != b->dependency_count)
        return false;
    for (int i = 0; i < a->dependency_count; i++)
        if (!find_dependency(b, a->dependencies[i].stream))
            return false;
    return true;
}

void tdm_dependencies_merge(tdm_block *range, tdm_block *other) {
    if (range->dependency_count == 0 && other->dependency_count) {
        // This list is empty, so the other one fits the header or can be handed over.
        if (other->dependencies == other->inline_dependencies) {
            memcpy(range->dependencies, other->dependencies,
                   other->dependency_count * sizeof *range->dependencies);
        } else {
            tdm_dependencies_drop(range);
            range->dependencies = other->dependencies;
            range->dependency_capacity = other->dependency_capacity;
            other->dependencies = other->inline_dependencies;
            other->dependency_capacity = TDM_INLINE_USES;
        }
        range->dependency_count = other->dependency_count;
        return;
    }
    for (int i = 0; i < other->dependency_count; i++) {
        tdm_use *const mine = find_dependency(range, other->dependencies[i].stream);
        if (mine->sequence < other->dependencies[i].sequence)
            mine->sequence = other->dependencies[i].sequence;
    }
}

static bool has_passed(const tdm_pool *pool, tdm_use use, const tdm_use *waited) {
    return (waited && waited->stream == use.stream && waited->sequence >= use.sequence) ||
           pool->upstream.passed(pool->upstream.user, use);
}

bool tdm_dependencies_passed(const tdm_pool *pool, const tdm_block *range) {
    for (int i = 0; i < range->dependency_count; i++)
        if (!has_passed(pool, range->dependencies[i], NULL))
            return false;
    return true;
}

void tdm_dependencies_prune(tdm_pool *pool, tdm_block *range, const tdm_use *waited) {
    uint16_t kept = 0;
    for (int i = 0; i < range->dependency_count; i++)
        if (!has_passed(pool, range->dependencies[i], waited))
            range->dependencies[kept++] = range->dependencies[i];
    if (kept == 0)
        tdm_dependencies_drop(range);
    range->dependency_count = kept;
}

void tdm_dependencies_wait(tdm_block *block) {
    const tdm_pool_upstream *const upstream = &block->pool->upstream;
    for (int i = 0; i < block->dependency_count; i++)
        upstream->wait(upstream->user, block->dependencies[i]);
    tdm_dependencies_drop(block);
}

/*
 * Adds the unfinished uses of the ending generation to the unfinished dependencies that it never
 * waited for. If host memory for the list is short, it waits instead.
 */
static void join_dependencies(tdm_block *block) {
    const tdm_pool_upstream *const upstream = &block->pool->upstream;
    uint16_t kept = 0;
    for (int i = 0; i < block->dependency_count; i++) {
        const tdm_use *const later = find_use(block, block->dependencies[i].stream);
        if (!(later && later->sequence) &&
            !upstream->passed(upstream->user, block->dependencies[i]))
            block->dependencies[kept++] = block->dependencies[i];
    }
    block->dependency_count = kept;
    for (int i = 0; i < block->use_count; i++) {
        const tdm_use use = block->uses[i];
        if (use.sequence == 0 || upstream->passed(upstream->user, use))
            continue;
        if (block->dependency_count < block->dependency_capacity ||
            tdm_dependencies_reserve(block, 2 * block->dependency_capacity))
            block->dependencies[block->dependency_count++] = use;
        else
            upstream->wait(upstream->user, use);
    }
    if (block->dependency_count == 0)
        tdm_dependencies_drop(block);
}

void tdm_uses_end(tdm_block *block) {
    if (block->dependency_count + block->use_count > 0)
        join_dependencies(block);
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
    const tdm_use use = pool->pending_oldest->dependencies[0];
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
    const tdm_use use = pool->pending_oldest->dependencies[0];
    tdm_pool_unlock(pool);
    const bool passed =
        upstream->wait_briefly(upstream->user, use, atomic_load(&pool->shared->patience_ns));
    tdm_pool_lock(pool);
    // After a success, a timeout that another thread recorded meanwhile is kept.
    if (passed)
        settle_after(pool, use);
    else
        pool->stuck = use;
    return passed;
}

uint64_t tdm_pool_pending_dependencies(const tdm_pool *pool) {
    uint64_t dependencies = 0;
    for (const tdm_block *range = pool->pending_oldest; range; range = range->as.queue.newer)
        dependencies += range->dependency_count;
    return dependencies;
}

void tdm_pool_wait_all(tdm_pool *pool) {
    uint64_t rounds = tdm_pool_pending_dependencies(pool);
    while (rounds-- && tdm_pool_wait_once(pool)) {
    }
}
