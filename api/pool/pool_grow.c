/* Sizes of native allocations and their release: idle slabs, budgets, trims. */
#include "api/pool/pool_internal.h"

/* Slabs for small requests are multiples of this size. */
#define SMALL_STEP (UINT64_C(128) << 10)
/* Limit on the size of slabs for small requests, because slabs of many blocks cannot move between
 * caches. */
#define LARGEST_SMALL_SLAB (UINT64_C(8) << 20)
/* A slab for several blocks has about 1/SHARE of the bytes reserved in its size class, so that its
 * unused rest stays in proportion. */
#define SMALL_SHARE 16
#define LARGE_SHARE 24
#define LARGEST_SHARED_SLAB (UINT64_C(256) << 20)
/* Slab sizes are rounded up by less than 1/ROUNDING_SHARE, so that nearly equal requests can reuse
 * each other's slabs. */
#define ROUNDING_SHARE 64
#define LARGEST_ROUNDING (UINT64_C(2) << 20)

static uint64_t share_of(const tdm_pool *pool, tdm_size_class size_class, uint64_t share) {
    const uint64_t bytes = pool->counters[size_class].reserved / share;
    return bytes < LARGEST_SHARED_SLAB ? bytes : LARGEST_SHARED_SLAB;
}

static uint64_t round_up(const tdm_pool *pool, uint64_t bytes) {
    uint64_t step = LARGEST_ROUNDING;
    while (step > bytes / ROUNDING_SHARE && step > pool->unit)
        step /= 2;
    return (bytes + step - 1) / step * step;
}

/* Size of a new slab: as many pieces of the request's size as fit the share of the size class, at
 * least one. */
static uint64_t planned_slab(const tdm_pool *pool, tdm_size_class size_class, uint64_t bytes) {
    uint64_t slab;
    if (size_class == TDM_SIZE_CLASS_SMALL) {
        slab = share_of(pool, size_class, SMALL_SHARE) / SMALL_STEP * SMALL_STEP;
        slab = slab < SMALL_STEP ? SMALL_STEP : slab;
        slab = slab < LARGEST_SMALL_SLAB ? slab : LARGEST_SMALL_SLAB;
        slab = slab < bytes ? bytes : slab;
    } else {
        const uint64_t piece = round_up(pool, bytes);
        const uint64_t pieces = share_of(pool, size_class, LARGE_SHARE) / piece;
        slab = pieces > 1 ? pieces * piece : piece;
    }
    return slab <= pool->upstream.max_allocation ? slab : bytes;
}

uint64_t tdm_pool_room_for(const tdm_pool *pool, uint64_t bytes) {
    const uint64_t budget = tdm_pool_budget(pool);
    uint64_t room = budget > bytes ? budget - bytes : 0;
    tdm_memory_account *const account = pool->upstream.account;
    if (account) {
        // A cache that is taking memory counts in the group before it counts in the account.
        const uint64_t held = tdm_pool_held(pool), all = atomic_load(&account->reserved);
        const uint64_t others = all > held ? all - held : 0;
        const uint64_t bound = atomic_load(&account->bound);
        const uint64_t rest = bound > others ? bound - others : 0;
        const uint64_t shared = rest > bytes ? rest - bytes : 0;
        room = room < shared ? room : shared;
    }
    return room;
}

static tdm_status reserve(tdm_pool *pool, uint64_t bytes) {
    if (bytes > pool->upstream.max_allocation)
        return tdm_fail(TDM_OUT_OF_DEVICE_MEMORY, "more than the largest native allocation, %llu",
                        (unsigned long long)pool->upstream.max_allocation);
    tdm_memory_account *const account = pool->upstream.account;
    if (!tdm_memory_account_take(&pool->shared->group, bytes))
        return tdm_fail(TDM_OVER_BUDGET, "over the budget");
    if (!account || tdm_memory_account_take(account, bytes))
        return TDM_OK;
    tdm_memory_account_give(&pool->shared->group, bytes);
    return tdm_fail(TDM_OVER_BUDGET, "over the device's memory budget of %llu",
                    (unsigned long long)atomic_load(&account->bound));
}

static void give_reserve(const tdm_pool *pool, uint64_t bytes) {
    tdm_memory_account_give(&pool->shared->group, bytes);
    if (pool->upstream.account)
        tdm_memory_account_give(pool->upstream.account, bytes);
}

static tdm_status take_native(tdm_pool *pool, uint64_t bytes, tdm_bk_memory **memory) {
    TDM_TRY(reserve(pool, bytes));
    const tdm_status status = pool->upstream.allocate(pool->upstream.user, bytes, memory);
    if (status != TDM_OK)
        give_reserve(pool, bytes);
    return status;
}

static tdm_status new_slab(tdm_pool *pool, tdm_slab form, tdm_block **range) {
    tdm_pool_let_go(pool);
    uint64_t seen = tdm_pool_releases(pool);
    tdm_status status = take_native(pool, form.bytes, &form.memory);
    // Memory that is being released makes room.
    while ((status == TDM_OUT_OF_DEVICE_MEMORY || status == TDM_OVER_BUDGET) &&
           tdm_pool_await_release(pool, &seen))
        status = take_native(pool, form.bytes, &form.memory);
    TDM_TRY(status);
    tdm_slab *const slab = tdm_slab_new(pool, &form);
    if (slab) {
        *range = slab->first;
        return TDM_OK;
    }
    pool->upstream.release(pool->upstream.user, form.memory);
    give_reserve(pool, form.bytes);
    return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "no host memory for a slab");
}

tdm_status tdm_pool_grow(tdm_pool *pool, uint64_t bytes, tdm_block **range) {
    const tdm_size_class size_class = tdm_size_class_of(bytes);
    const uint64_t planned = planned_slab(pool, size_class, bytes);
    // Idle slabs are released before the reserved bytes reach a new maximum.
    const uint64_t high = atomic_load(&pool->shared->reserved_high);
    if (tdm_pool_reserved(pool) + planned > high)
        tdm_pool_release_idle_nearby(pool, high > planned ? high - planned : 0);
    const tdm_status status =
        new_slab(pool, (tdm_slab){.bytes = planned, .size_class = size_class}, range);
    if (planned == bytes || (status != TDM_OUT_OF_DEVICE_MEMORY && status != TDM_OVER_BUDGET))
        return status;
    return new_slab(pool, (tdm_slab){.bytes = bytes, .size_class = size_class}, range);
}

tdm_status tdm_pool_grow_single(tdm_pool *pool, uint64_t bytes, tdm_block **range) {
    return new_slab(
        pool, (tdm_slab){.bytes = bytes, .size_class = tdm_size_class_of(bytes), .single = true},
        range);
}

uint64_t tdm_pool_release_idle(tdm_pool *pool, uint64_t keep) {
    uint64_t released = 0;
    for (tdm_slab *slab = pool->idle_oldest, *next; slab && tdm_pool_reserved(pool) > keep;
         slab = next) {
        next = slab->idle_next;
        if (slab->pending_ranges)
            continue;
        released += slab->bytes;
        tdm_slab_release(pool, slab);
    }
    return released;
}

void tdm_pool_release_idle_nearby(tdm_pool *pool, uint64_t keep) {
    tdm_pool_release_idle(pool, keep);
    for (int i = 0; tdm_pool_has_thread_caches(pool) && i < TDM_POOL_THREAD_CACHES; i++) {
        tdm_pool *const other = tdm_pool_thread_cache(pool->root, i);
        if (!other || other == pool || !tdm_pool_trylock(other))
            continue;
        tdm_pool_release_idle(other, keep);
        tdm_pool_retire_with(pool, other);
        tdm_pool_unlock(other);
    }
}

/* ---- release of idle slabs ------------------------------------------------------------------- */

/* Releases idle slabs of all caches while more than `keep` bytes are reserved. With `waits` it
 * first waits for pending frees. */
static uint64_t shrink(tdm_pool *root, uint64_t keep, bool waits) {
    uint64_t released = 0;
    tdm_pool_catch_up(root);
    for (int i = 0; i < TDM_POOL_THREAD_CACHES && tdm_pool_reserved(root) > keep; i++) {
        tdm_pool *const thread_cache = tdm_pool_thread_cache(root, i);
        if (!thread_cache)
            continue;
        tdm_pool_lock(thread_cache);
        tdm_pool_take_back(thread_cache);
        if (waits)
            tdm_pool_wait_all(thread_cache);
        released += tdm_pool_release_idle(thread_cache, keep);
        tdm_pool_unlock(thread_cache);
    }
    return released;
}

void tdm_pool_set_budget(tdm_pool *pool, uint64_t bytes) {
    const uint64_t budget = bytes ? bytes : pool->upstream.budget;
    atomic_store(&pool->shared->group.bound, budget);
    shrink(pool, budget, false);
    shrink(pool, budget, true);
}

void tdm_pool_set_throttle(tdm_pool *pool, uint32_t share, uint64_t patience_ns) {
    atomic_store(&pool->shared->patience_ns, patience_ns);
    atomic_store(&pool->shared->throttle, share);
}

uint64_t tdm_pool_trim(tdm_pool *pool) {
    // With all caches locked, no memory is being taken. Everything that counts as leaving is then
    // really being released.
    tdm_pool_lock_all(pool);
    const uint64_t others = tdm_pool_leaving(pool);
    tdm_pool_unlock_all(pool);
    const uint64_t released = others + shrink(pool, 0, true);
    tdm_pool_await_releases(pool);
    return released;
}

/* ---- accounts -------------------------------------------------------------------------------- */

bool tdm_memory_account_take(tdm_memory_account *account, uint64_t bytes) {
    uint64_t reserved = atomic_load(&account->reserved);
    do {
        const uint64_t bound = atomic_load(&account->bound);
        if (bytes > bound || reserved > bound - bytes)
            return false;
    } while (!atomic_compare_exchange_weak(&account->reserved, &reserved, reserved + bytes));
    return true;
}

void tdm_memory_account_give(tdm_memory_account *account, uint64_t bytes) {
    atomic_fetch_sub(&account->reserved, bytes);
}

/* ---- release of native memory ---------------------------------------------------------------- */

/*
 * Native memory is released with the pool unlocked, because the release may wait for all work of
 * the device (CUDA). Other threads are served meanwhile. The memory counts in the budget until the
 * release ends, so a thread that needs its room waits for that.
 */

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
        // No slabs are left to release, so a plain unlock is enough.
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
