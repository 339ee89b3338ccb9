/* How much native memory to take at once, and when to give it back. */
#include "api/pool_internal.h"

#define MIB (UINT64_C(1) << 20)
/* The first slab for small requests; slabs are multiples of it. */
#define SLAB_STEP (2 * MIB)
#define LARGEST_SHARED_SLAB (32 * MIB)
/* Requests from here on get a slab of their own size. */
#define DEDICATED_LIMIT (10 * MIB)

/* A slab for many: a share of what the arena has, so that slabs grow with the pool and waste stays in proportion. */
static uint64_t shared_slab(const tdm_pool *pool, tdm_arena arena, uint64_t share) {
    const uint64_t bytes = pool->counters[arena].reserved / share / SLAB_STEP * SLAB_STEP;
    if (bytes > LARGEST_SHARED_SLAB)
        return LARGEST_SHARED_SLAB;
    return bytes;
}

/* Rounded up by a sixteenth at most, so that requests of nearly the same size can serve each other. */
static uint64_t dedicated_slab(const tdm_pool *pool, uint64_t bytes) {
    uint64_t step = SLAB_STEP;
    while (step > bytes / 16)
        step /= 2;
    if (step < pool->unit)
        step = pool->unit;
    return (bytes + step - 1) / step * step;
}

static uint64_t planned_slab(const tdm_pool *pool, tdm_arena arena, uint64_t bytes) {
    uint64_t slab;
    if (arena == TDM_ARENA_SMALL) {
        slab = shared_slab(pool, arena, 8);
        slab = slab < SLAB_STEP ? SLAB_STEP : slab;
    } else {
        slab = dedicated_slab(pool, bytes);
        const uint64_t shared = bytes < DEDICATED_LIMIT ? shared_slab(pool, arena, 16) : 0;
        slab = slab < shared ? shared : slab;
    }
    return slab <= pool->upstream.max_allocation ? slab : bytes;
}

uint64_t tdm_pool_room_for(const tdm_pool *pool, uint64_t bytes) {
    uint64_t room = pool->budget > bytes ? pool->budget - bytes : 0;
    tdm_memory_account *const account = pool->upstream.account;
    if (account) {
        const uint64_t others = atomic_load(&account->reserved) - pool->stats.reserved;
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
    if (bytes > pool->budget || pool->stats.reserved > pool->budget - bytes)
        return tdm_fail(TDM_OVER_BUDGET, "over the budget");
    if (pool->upstream.account && !tdm_memory_account_take(pool->upstream.account, bytes))
        return tdm_fail(TDM_OVER_BUDGET, "over the bound of the device, %llu",
                        (unsigned long long)atomic_load(&pool->upstream.account->bound));
    return TDM_OK;
}

static tdm_status new_slab(tdm_pool *pool, tdm_slab form, tdm_block **range) {
    TDM_TRY(reserve(pool, form.bytes));
    tdm_memory_account *const account = pool->upstream.account;
    const tdm_status status =
        pool->upstream.allocate(pool->upstream.user, form.bytes, &form.memory);
    tdm_slab *const slab = status == TDM_OK ? tdm_slab_new(pool, &form) : NULL;
    if (slab) {
        *range = slab->first;
        return TDM_OK;
    }
    if (account)
        tdm_memory_account_give(account, form.bytes);
    if (status != TDM_OK)
        return status;
    pool->upstream.release(pool->upstream.user, form.memory);
    return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "no host memory for a slab");
}

tdm_status tdm_pool_grow(tdm_pool *pool, uint64_t bytes, tdm_block **range) {
    const tdm_arena arena = bytes <= TDM_POOL_SMALL_LIMIT ? TDM_ARENA_SMALL : TDM_ARENA_LARGE;
    const uint64_t planned = planned_slab(pool, arena, bytes);
    // Before more is reserved than ever: what lies idle gives way.
    if (pool->stats.reserved + planned > pool->reserved_high)
        tdm_pool_release_idle(pool,
                              pool->reserved_high > planned ? pool->reserved_high - planned : 0);
    const uint64_t sizes[] = {planned, arena == TDM_ARENA_SMALL ? SLAB_STEP : bytes, bytes};
    tdm_status status = TDM_OK;
    for (int i = 0; i < 3; i++) {
        if (i > 0 && sizes[i] >= sizes[i - 1])
            continue;
        status = new_slab(pool, (tdm_slab){.bytes = sizes[i], .arena = arena}, range);
        if (status != TDM_OUT_OF_DEVICE_MEMORY && status != TDM_OVER_BUDGET)
            return status;
    }
    return status;
}

tdm_status tdm_pool_grow_single(tdm_pool *pool, uint64_t bytes, tdm_block **range) {
    const tdm_arena arena = bytes <= TDM_POOL_SMALL_LIMIT ? TDM_ARENA_SMALL : TDM_ARENA_LARGE;
    return new_slab(pool, (tdm_slab){.bytes = bytes, .arena = arena, .single = true}, range);
}

uint64_t tdm_pool_release_idle(tdm_pool *pool, uint64_t keep) {
    uint64_t released = 0;
    for (tdm_slab *slab = pool->idle_oldest, *next; slab && pool->stats.reserved > keep;
         slab = next) {
        next = slab->idle_next;
        if (slab->pending_ranges)
            continue;
        released += slab->bytes;
        tdm_slab_release(pool, slab);
    }
    return released;
}

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
