/* Blocks that one thread gives back and that lie in a slab of another one's branch. */
#include "api/pool/pool_internal.h"

/* Slots that are tried for a block. */
#define TRIES 4

static bool fill_slot(tdm_pool_returns *returns, unsigned place, tdm_block *block) {
    for (unsigned i = 0; i < TRIES; i++) {
        tdm_block *none = NULL;
        if (atomic_compare_exchange_strong_explicit(&returns->slots[(place + i) % TDM_POOL_RETURNS],
                                                    &none, block, memory_order_release,
                                                    memory_order_relaxed))
            return true;
    }
    return false;
}

void tdm_pool_put_back(tdm_block *block) {
    tdm_pool_returns *const returns = tdm_slab_branch(block->slab)->returns;
    const unsigned place = atomic_fetch_add_explicit(&returns->brought, 1, memory_order_relaxed);
    if (fill_slot(returns, place, block))
        return;
    tdm_block *first = atomic_load_explicit(&returns->first, memory_order_relaxed);
    do {
        block->next = first;
    } while (!atomic_compare_exchange_weak_explicit(&returns->first, &first, block,
                                                    memory_order_release, memory_order_relaxed));
}

static void fetch(const tdm_block *block) {
    __builtin_prefetch(block, 1);
    __builtin_prefetch(&block->pool, 1);
}

/* Empty the slots, `count` of them or all, in the order in which they were filled. Returns how many blocks there were. */
static unsigned empty_slots(tdm_pool_returns *returns, unsigned count, tdm_block **blocks) {
    const unsigned place = atomic_load_explicit(&returns->taken, memory_order_relaxed);
    unsigned found = 0;
    for (unsigned i = 0; i < TDM_POOL_RETURNS && found < count; i++) {
        _Atomic(tdm_block *) *const slot = &returns->slots[(place + i) % TDM_POOL_RETURNS];
        blocks[found] = atomic_load_explicit(slot, memory_order_acquire);
        if (!blocks[found])
            continue;
        atomic_store_explicit(slot, NULL, memory_order_relaxed);
        fetch(blocks[found++]);
    }
    return found;
}

/* The slab may have moved meanwhile. */
static void free_or_pass_on(tdm_pool *pool, tdm_block *block) {
    if (tdm_slab_branch(block->slab) == pool)
        tdm_pool_free(pool, block);
    else
        tdm_pool_put_back(block);
}

void tdm_pool_take_back(tdm_pool *pool) {
    tdm_pool_returns *const returns = pool->returns;
    const unsigned count = tdm_pool_returned(returns);
    if (count == 0)
        return;
    const uint64_t visited = pool->visited;
    tdm_block *blocks[TDM_POOL_RETURNS], *listed = NULL;
    unsigned taken = empty_slots(returns, count, blocks);
    for (unsigned i = 0; i < taken; i++)
        free_or_pass_on(pool, blocks[i]);
    if (taken < count)
        listed = atomic_exchange_explicit(&returns->first, NULL, memory_order_acquire);
    for (tdm_block *next; listed; listed = next, taken++) {
        next = listed->next;
        free_or_pass_on(pool, listed);
    }
    atomic_fetch_add_explicit(&returns->taken, taken, memory_order_relaxed);
    pool->visited = visited;
}
