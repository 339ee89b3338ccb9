/*
 * Native memory goes back to the driver with the pool unlocked: that may wait for all work of the device (CUDA), and others are
 * served meanwhile. Until it is back it counts for the budget, so whoever needs its room waits for it.
 */
#include "api/pool_internal.h"

void tdm_pool_retire(tdm_pool *pool, tdm_slab *slab) {
    slab->next = pool->leaving;
    pool->leaving = slab;
    if (!slab->adopted)
        pool->leaving_bytes += slab->bytes;
}

void tdm_pool_let_go(tdm_pool *pool) {
    tdm_slab *slab = pool->leaving;
    uint64_t bytes = 0;
    if (!slab)
        return;
    pool->leaving = NULL;
    pool->releasing++;
    pthread_mutex_unlock(&pool->lock);
    while (slab) {
        tdm_slab *const next = slab->next;
        pool->upstream.release(pool->upstream.user, slab->memory);
        bytes += slab->adopted ? 0 : slab->bytes;
        tdm_host_free(slab);
        slab = next;
    }
    tdm_pool_lock(pool);
    if (pool->upstream.account)
        tdm_memory_account_give(pool->upstream.account, bytes);
    pool->leaving_bytes -= bytes;
    pool->releasing--;
    pthread_cond_broadcast(&pool->released);
}

bool tdm_pool_await_release(tdm_pool *pool) {
    if (pool->leaving) {
        tdm_pool_let_go(pool);
        return true;
    }
    if (pool->releasing == 0)
        return false;
    pthread_cond_wait(&pool->released, &pool->lock);
    return true;
}
