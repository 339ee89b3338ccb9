/*
 * Private pools of a device. Each has its own budget, and the device's budget bounds the sum of all
 * its pools.
 *
 * The user's handle, each buffer and each thread that entered the pool hold a reference. Dropping
 * the last reference closes the pool. A graph may still hold blocks of it then, or work may be
 * unfinished. Therefore the pool stays in the device's list until its blocks are free.
 */
#include <stdio.h>
#include <string.h>

#include "api/device/device_internal.h"
#include "api/device/memory/memory_pool.h"
#include "api/device/memory/staging.h"
#include "api/pool/observation.h"

#define ENTERED_DEPTH 32

struct tdm_memory_pool {
    atomic_int references;
    tdm_device *device; /* the pool holds a reference until it is closed */
    tdm_pool *pool;
    tdm_observation *observation;
    bool closed;  /* protected by the device's pools_lock, like the list */
    int trimming; /* threads that trim it without that lock; it stays in the list meanwhile */
    tdm_memory_pool *next;
};

/* ---- pools of a device ----------------------------------------------------------------------- */

static void free_pool(tdm_memory_pool *pool) {
    tdm_observation_close(pool->observation);
    tdm_pool_destroy(pool->pool);
    tdm_host_free(pool);
}

void tdm_device_pools_close(tdm_device *device) {
    while (device->pools) {
        tdm_memory_pool *const pool = device->pools;
        device->pools = pool->next;
        free_pool(pool);
    }
    tdm_device_callbacks_close(device);
}

static bool is_empty(const tdm_memory_pool *pool) {
    tdm_memory_stats stats;
    tdm_pool_stats(pool->pool, &stats);
    return stats.live_blocks == 0 && stats.pending == 0;
}

void tdm_device_reap_pools(tdm_device *device) {
    if (atomic_load_explicit(&device->closed_pools, memory_order_relaxed) == 0)
        return;
    pthread_mutex_lock(&device->pools_lock);
    for (tdm_memory_pool **link = &device->pools; *link;) {
        tdm_memory_pool *const pool = *link;
        if (pool->closed && pool->trimming == 0 && is_empty(pool)) {
            *link = pool->next;
            atomic_fetch_sub(&device->closed_pools, 1);
            free_pool(pool);
        } else {
            link = &pool->next;
        }
    }
    pthread_mutex_unlock(&device->pools_lock);
}

uint64_t tdm_device_trim_pools(tdm_device *device) {
    uint64_t released = tdm_pool_trim(device->pool);
    pthread_mutex_lock(&device->pools_lock);
    for (tdm_memory_pool *pool = device->pools; pool; pool = pool->next) {
        pool->trimming++;
        pthread_mutex_unlock(&device->pools_lock);
        released += tdm_pool_trim(pool->pool);
        pthread_mutex_lock(&device->pools_lock);
        pool->trimming--;
    }
    pthread_mutex_unlock(&device->pools_lock);
    tdm_device_reap_pools(device);
    return released;
}

static uint64_t live_bytes(tdm_pool *pool) {
    tdm_memory_stats stats;
    tdm_pool_stats(pool, &stats);
    return stats.allocated;
}

uint64_t tdm_device_bytes_in_use(tdm_device *device) {
    uint64_t bytes = live_bytes(device->pool);
    pthread_mutex_lock(&device->pools_lock);
    for (tdm_memory_pool *pool = device->pools; pool; pool = pool->next)
        bytes += live_bytes(pool->pool);
    pthread_mutex_unlock(&device->pools_lock);
    return bytes;
}

static void add_idle_slab(void *user, const tdm_slab_view *slab) {
    if (slab->live_blocks == 0 && !slab->adopted)
        *(uint64_t *)user += slab->bytes;
}

uint64_t tdm_device_trimmable(tdm_device *device, const tdm_pool *except) {
    uint64_t bytes = 0;
    const tdm_pool_visitor visitor = {.slab = add_idle_slab, .user = &bytes};
    if (device->pool != except)
        tdm_pool_visit(device->pool, &visitor);
    pthread_mutex_lock(&device->pools_lock);
    for (tdm_memory_pool *pool = device->pools; pool; pool = pool->next)
        if (pool->pool != except)
            tdm_pool_visit(pool->pool, &visitor);
    pthread_mutex_unlock(&device->pools_lock);
    return bytes;
}

/* ---- lifetime -------------------------------------------------------------------------------- */

static tdm_status check_options(const tdm_memory_pool_options *options) {
    if (options && options->name && strlen(options->name) >= TDM_MEMORY_TAG_BYTES)
        return tdm_fail(TDM_BAD_ARGUMENT,
                        "memory_pool_create: the name has %zu bytes, at most %d are allowed",
                        strlen(options->name), TDM_MEMORY_TAG_BYTES - 1);
    return TDM_OK;
}

static tdm_status fill_pool(tdm_memory_pool *pool, tdm_device *device,
                            const tdm_memory_pool_options *options) {
    char name[sizeof device->info.selector + TDM_MEMORY_TAG_BYTES + 2];
    const bool named = options && options->name && *options->name;
    snprintf(name, sizeof name, "%s/%s", device->info.selector, named ? options->name : "private");
    tdm_pool_upstream upstream = tdm_device_upstream(device);
    if (options && options->budget_bytes)
        upstream.budget = options->budget_bytes;
    TDM_TRY(tdm_pool_create(&upstream, &pool->pool));
    return tdm_observation_open(pool->pool, name, &pool->observation);
}

tdm_status tdm_memory_pool_create(tdm_device *device, const tdm_memory_pool_options *options,
                                  tdm_memory_pool **pool) {
    if (!pool)
        return tdm_fail(TDM_BAD_ARGUMENT, "memory_pool_create: pool is NULL");
    *pool = NULL;
    if (!device)
        return tdm_fail(TDM_BAD_ARGUMENT, "memory_pool_create: device is NULL");
    tdm_memory_pool_options room;
    if (options) {
        options = tdm_struct_read("memory_pool_create", "options", options, sizeof room, &room);
        if (!options)
            return TDM_BAD_ARGUMENT;
    }
    TDM_TRY(check_options(options));
    tdm_device_reap_pools(device);
    tdm_memory_pool *const created = tdm_host_calloc(1, sizeof *created);
    if (!created)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "memory_pool_create: no host memory");
    const tdm_status status = fill_pool(created, device, options);
    if (status != TDM_OK) {
        free_pool(created);
        return tdm_fail_prefix(status, "memory_pool_create");
    }
    atomic_store(&created->references, 1);
    tdm_device_retain(device);
    created->device = device;
    pthread_mutex_lock(&device->pools_lock);
    created->next = device->pools;
    device->pools = created;
    pthread_mutex_unlock(&device->pools_lock);
    *pool = created;
    return TDM_OK;
}

void tdm_memory_pool_retain(tdm_memory_pool *pool) {
    if (pool)
        atomic_fetch_add(&pool->references, 1);
}

void tdm_memory_pool_release(tdm_memory_pool *pool) {
    if (!pool || atomic_fetch_sub(&pool->references, 1) != 1)
        return;
    tdm_device *const device = pool->device;
    pthread_mutex_lock(&device->pools_lock);
    pool->closed = true;
    atomic_fetch_add(&device->closed_pools, 1);
    pthread_mutex_unlock(&device->pools_lock);
    tdm_device_reap_pools(device);
    tdm_device_release(device);
}

void tdm_memory_pool_destroy(tdm_memory_pool *pool) {
    tdm_memory_pool_release(pool);
}

tdm_device *tdm_memory_pool_device(const tdm_memory_pool *pool) {
    return pool->device;
}

tdm_pool *tdm_memory_pool_of(const tdm_memory_pool *pool) {
    return pool->pool;
}

/* ---- current pool of a thread ---------------------------------------------------------------- */

static _Thread_local struct {
    tdm_memory_pool *pools[ENTERED_DEPTH]; /* each holds a reference */
    int depth;
} entered;

tdm_status tdm_memory_pool_enter(tdm_memory_pool *pool) {
    if (!pool)
        return tdm_fail(TDM_BAD_ARGUMENT, "memory_pool_enter: pool is NULL");
    if (entered.depth == ENTERED_DEPTH)
        return tdm_fail(TDM_BAD_STATE, "memory_pool_enter: %d pools are already entered",
                        ENTERED_DEPTH);
    tdm_memory_pool_retain(pool);
    entered.pools[entered.depth++] = pool;
    return TDM_OK;
}

tdm_status tdm_memory_pool_leave(void) {
    if (entered.depth == 0)
        return tdm_fail(TDM_BAD_STATE, "memory_pool_leave: no pool is entered");
    tdm_memory_pool_release(entered.pools[--entered.depth]);
    return TDM_OK;
}

tdm_memory_pool *tdm_memory_pool_current(const tdm_device *device) {
    for (int i = entered.depth; i > 0; i--)
        if (entered.pools[i - 1]->device == device)
            return entered.pools[i - 1];
    return NULL;
}

tdm_status tdm_device_alloc(tdm_device *device, tdm_memory_pool *pool, size_t bytes,
                            uint32_t stream, tdm_block **block) {
    tdm_device_reap_pools(device);
    return tdm_pool_alloc(pool ? pool->pool : device->pool, bytes, stream, block);
}

/* ---- statistics, trim ------------------------------------------------------------------------ */

tdm_status tdm_memory_pool_stats(const tdm_memory_pool *pool, tdm_memory_stats *stats) {
    if (!pool)
        return tdm_fail(TDM_BAD_ARGUMENT, "memory_pool_stats: pool is NULL");
    return tdm_pool_stats_copy("memory_pool_stats", pool->pool, stats);
}

tdm_status tdm_memory_pool_set_budget(tdm_memory_pool *pool, uint64_t bytes) {
    if (!pool)
        return tdm_fail(TDM_BAD_ARGUMENT, "memory_pool_set_budget: pool is NULL");
    tdm_pool_set_budget(pool->pool, bytes);
    tdm_observation_refresh(pool->observation);
    return TDM_OK;
}

tdm_status tdm_memory_pool_trim(tdm_memory_pool *pool) {
    if (!pool)
        return tdm_fail(TDM_BAD_ARGUMENT, "memory_pool_trim: pool is NULL");
    tdm_pool_trim(pool->pool);
    return TDM_OK;
}
