/* How much native memory to take at once, and when to give it back: idle slabs, budgets, trims. */
#include "api/pool/pool_internal.h"

/* Slabs for small requests are multiples of it. */
#define SMALL_STEP (UINT64_C(128) << 10)
/* And not larger: slabs of many blocks cannot move between branches. */
#define LARGEST_SMALL_SLAB (UINT64_C(8) << 20)
/* A slab that is shared is this share of what its arena has, so that what is left of it stays in proportion. */
#define SMALL_SHARE 16
#define LARGE_SHARE 24
#define LARGEST_SHARED_SLAB (UINT64_C(256) << 20)
/* Sizes of slabs are rounded up by less than this share of them, so that nearly equal requests serve each other. */
#define ROUNDING_SHARE 64
#define LARGEST_ROUNDING (UINT64_C(2) << 20)

static uint64_t share_of(const tdm_pool *pool, tdm_arena arena, uint64_t share) {
    const uint64_t bytes = pool->counters[arena].reserved / share;
    return bytes < LARGEST_SHARED_SLAB ? bytes : LARGEST_SHARED_SLAB;
}

static uint64_t round_up(const tdm_pool *pool, uint64_t bytes) {
    uint64_t step = LARGEST_ROUNDING;
    while (step > bytes / ROUNDING_SHARE && step > pool->unit)
        step /= 2;
    return (bytes + step - 1) / step * step;
}

/* The slab to take for a request: as many pieces of its size as the arena's share has room for, at least one. */
static uint64_t planned_slab(const tdm_pool *pool, tdm_arena arena, uint64_t bytes) {
    uint64_t slab;
    if (arena == TDM_ARENA_SMALL) {
        slab = share_of(pool, arena, SMALL_SHARE) / SMALL_STEP * SMALL_STEP;
        slab = slab < SMALL_STEP ? SMALL_STEP : slab;
        slab = slab < LARGEST_SMALL_SLAB ? slab : LARGEST_SMALL_SLAB;
        slab = slab < bytes ? bytes : slab;
    } else {
        const uint64_t piece = round_up(pool, bytes);
        const uint64_t pieces = share_of(pool, arena, LARGE_SHARE) / piece;
        slab = pieces > 1 ? pieces * piece : piece;
    }
    return slab <= pool->upstream.max_allocation ? slab : bytes;
}

uint64_t tdm_pool_room_for(const tdm_pool *pool, uint64_t bytes) {
    const uint64_t budget = tdm_pool_budget(pool);
    uint64_t room = budget > bytes ? budget - bytes : 0;
    tdm_memory_account *const account = pool->upstream.account;
    if (account) {
        // Branches that take memory just now count in the pool first.
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
    return tdm_fail(TDM_OVER_BUDGET, "over the bound of the device, %llu",
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
    // What is on its way back makes room.
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
    const tdm_arena arena = tdm_arena_of(bytes);
    const uint64_t planned = planned_slab(pool, arena, bytes);
    // Before more is reserved than ever: what lies idle gives way.
    const uint64_t high = atomic_load(&pool->shared->reserved_high);
    if (tdm_pool_reserved(pool) + planned > high)
        tdm_pool_release_idle_nearby(pool, high > planned ? high - planned : 0);
    const tdm_status status = new_slab(pool, (tdm_slab){.bytes = planned, .arena = arena}, range);
    if (planned == bytes || (status != TDM_OUT_OF_DEVICE_MEMORY && status != TDM_OVER_BUDGET))
        return status;
    return new_slab(pool, (tdm_slab){.bytes = bytes, .arena = arena}, range);
}

tdm_status tdm_pool_grow_single(tdm_pool *pool, uint64_t bytes, tdm_block **range) {
    return new_slab(pool, (tdm_slab){.bytes = bytes, .arena = tdm_arena_of(bytes), .single = true},
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
    for (int i = 0; tdm_pool_branched(pool) && i < TDM_POOL_BRANCHES; i++) {
        tdm_pool *const other = tdm_pool_branch(pool->root, i);
        if (!other || other == pool || !tdm_pool_trylock(other))
            continue;
        tdm_pool_release_idle(other, keep);
        tdm_pool_retire_with(pool, other);
        tdm_pool_unlock(other);
    }
}

/* ---- giving back --------------------------------------------------------------------------------- */

/* Give idle slabs of all branches back while more than `keep` bytes are reserved, the frees that are pending waited for. */
static uint64_t shrink(tdm_pool *root, uint64_t keep, bool waits) {
    uint64_t released = 0;
    tdm_pool_catch_up(root);
    for (int i = 0; i < TDM_POOL_BRANCHES && tdm_pool_reserved(root) > keep; i++) {
        tdm_pool *const branch = tdm_pool_branch(root, i);
        if (!branch)
            continue;
        tdm_pool_lock(branch);
        tdm_pool_take_back(branch);
        if (waits)
            tdm_pool_wait_all(branch);
        released += tdm_pool_release_idle(branch, keep);
        tdm_pool_unlock(branch);
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
    // Nothing is just being taken then, so that what counts as leaving leaves.
    tdm_pool_lock_all(pool);
    const uint64_t others = tdm_pool_leaving(pool);
    tdm_pool_unlock_all(pool);
    const uint64_t released = others + shrink(pool, 0, true);
    tdm_pool_await_releases(pool);
    return released;
}

/* ---- accounts ------------------------------------------------------------------------------------ */

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

/* ---- native memory that goes back to the driver -------------------------------------------------- */

/*
 * Native memory goes back to the driver with the pool unlocked: that may wait for all work of the device (CUDA), and others are
 * served meanwhile. Until it is back it counts for the budget, so whoever needs its room waits for it.
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
