/*
 * Native memory goes back to the driver with the pool unlocked: that may wait for all work of the device (CUDA), and others are
 * served meanwhile. Until it is back it counts for the budget, so whoever needs its room waits for it.
 */
#include "api/pool/pool_internal.h"

void tdm_pool_retire(tdm_pool *pool, tdm_slab *slab) {
    slab->next = pool->leaving;
    pool->leaving = slab;
}

void tdm_pool_retire_with(tdm_pool *pool, tdm_pool *other) {
    while (other->leaving) {
        tdm_slab *const slab = other->leaving;
        other->leaving = slab->next;
        tdm_pool_retire(pool, slab);
    }
}

static void count_releasing(tdm_pool_shared *shared, int change) {
    pthread_mutex_lock(&shared->release_lock);
    shared->releasing += change;
    if (change < 0) {
        shared->releases++;
        pthread_cond_broadcast(&shared->released);
    }
    pthread_mutex_unlock(&shared->release_lock);
}

void tdm_pool_let_go(tdm_pool *pool) {
    tdm_slab *slab = pool->leaving;
    uint64_t bytes = 0;
    if (!slab)
        return;
    tdm_pool_shared *const shared = pool->shared;
    pool->leaving = NULL;
    count_releasing(shared, 1);
    pthread_mutex_unlock(&pool->lock);
    while (slab) {
        tdm_slab *const next = slab->next;
        pool->upstream.release(pool->upstream.user, slab->memory);
        bytes += slab->adopted ? 0 : slab->bytes;
        tdm_host_free(slab);
        slab = next;
    }
    tdm_pool_lock(pool);
    tdm_memory_account_give(&shared->group, bytes);
    if (pool->upstream.account)
        tdm_memory_account_give(pool->upstream.account, bytes);
    count_releasing(shared, -1);
}

uint64_t tdm_pool_releases(const tdm_pool *pool) {
    tdm_pool_shared *const shared = pool->shared;
    pthread_mutex_lock(&shared->release_lock);
    const uint64_t releases = shared->releases;
    pthread_mutex_unlock(&shared->release_lock);
    return releases;
}

bool tdm_pool_await_release(tdm_pool *pool, uint64_t *seen) {
    tdm_pool_let_go(pool);
    tdm_pool_shared *const shared = pool->shared;
    pthread_mutex_lock(&shared->release_lock);
    const bool more = shared->releases != *seen || shared->releasing > 0;
    if (more && shared->releases == *seen) {
        // Nothing is left to let go.
        pthread_mutex_unlock(&pool->lock);
        while (shared->releases == *seen && shared->releasing > 0)
            pthread_cond_wait(&shared->released, &shared->release_lock);
        pthread_mutex_unlock(&shared->release_lock);
        tdm_pool_lock(pool);
        pthread_mutex_lock(&shared->release_lock);
    }
    *seen = shared->releases;
    pthread_mutex_unlock(&shared->release_lock);
    return more;
}

void tdm_pool_await_releases(tdm_pool *pool) {
    tdm_pool_shared *const shared = pool->shared;
    pthread_mutex_lock(&shared->release_lock);
    const uint64_t last = shared->releases + (uint64_t)shared->releasing;
    uint64_t seen = shared->releases;
    pthread_mutex_unlock(&shared->release_lock);
    tdm_pool_lock(pool);
    while (seen < last && tdm_pool_await_release(pool, &seen)) {
    }
    tdm_pool_unlock(pool);
}
