/*
 * Pinned host memory: a separate pool over native pinned allocations. Each allocation stays mapped
 * from its creation to its release, so an address never changes.
 */
#include <string.h>
#include <unistd.h>

#include "api/device/device_internal.h"
#include "api/device/memory/staging.h"

struct tdm_host_buffer {
    tdm_device *device; /* holds a reference */
    tdm_block *block;
    unsigned char *address;
    size_t bytes;
};

/* A native allocation and its host address. */
typedef struct pinned_range {
    tdm_bk_memory *memory;
    unsigned char *start;
    size_t bytes;
} pinned_range;

struct tdm_staging_pool {
    tdm_pool *pool;
    pthread_mutex_t lock; /* leaf lock: the ranges */
    pinned_range *ranges;
    int count, capacity;
};

/* ---- native memory --------------------------------------------------------------------------- */

static bool note_range(tdm_staging_pool *staging, pinned_range range) {
    pthread_mutex_lock(&staging->lock);
    if (staging->count == staging->capacity) {
        const int capacity = staging->capacity ? 2 * staging->capacity : 8;
        pinned_range *const bigger =
            tdm_host_realloc(staging->ranges, (size_t)staging->count * sizeof *bigger,
                             (size_t)capacity * sizeof *bigger);
        if (bigger) {
            staging->ranges = bigger;
            staging->capacity = capacity;
        }
    }
    const bool room = staging->count < staging->capacity;
    if (room)
        staging->ranges[staging->count++] = range;
    pthread_mutex_unlock(&staging->lock);
    return room;
}

static void forget_range(tdm_staging_pool *staging, const tdm_bk_memory *memory) {
    pthread_mutex_lock(&staging->lock);
    for (int i = 0; i < staging->count; i++)
        if (staging->ranges[i].memory == memory) {
            staging->ranges[i] = staging->ranges[--staging->count];
            break;
        }
    pthread_mutex_unlock(&staging->lock);
}

static tdm_status pinned_allocate(void *user, size_t bytes, tdm_bk_memory **memory) {
    tdm_device *const device = user;
    tdm_bk_memory *pinned;
    void *address = NULL;
    TDM_TRY(device->api->memory_alloc(device->native, TDM_MEMORY_PINNED, bytes, &pinned));
    tdm_status status = device->api->memory_host_address(device->native, pinned, &address);
    if (status == TDM_OK && !note_range(device->staging, (pinned_range){pinned, address, bytes}))
        status = tdm_fail(TDM_OUT_OF_HOST_MEMORY, "pinned memory: no host memory to note %zu bytes",
                          bytes);
    if (status != TDM_OK) {
        device->api->memory_free(device->native, pinned);
        return status;
    }
    *memory = pinned;
    return TDM_OK;
}

static void pinned_release(void *user, tdm_bk_memory *memory) {
    tdm_device *const device = user;
    forget_range(device->staging, memory);
    device->api->memory_free(device->native, memory);
}

/* Half of the machine's memory, because more pinned memory would starve everything else. */
static uint64_t default_budget(void) {
    const long pages = sysconf(_SC_PHYS_PAGES);
    const long page_bytes = sysconf(_SC_PAGESIZE);
    return pages > 0 && page_bytes > 0 ? (uint64_t)pages * (uint64_t)page_bytes / 2 : UINT64_MAX;
}

tdm_status tdm_staging_open(tdm_device *device) {
    tdm_staging_pool *const staging = tdm_host_calloc(1, sizeof *staging);
    if (!staging)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "device_get: no host memory for the staging pool");
    pthread_mutex_init(&staging->lock, NULL);
    device->staging = staging;
    const uint64_t budget = device->context->staging_budget;
    tdm_pool_upstream upstream = tdm_device_upstream(device);
    upstream.allocate = pinned_allocate;
    upstream.release = pinned_release;
    upstream.relieve = NULL;
    upstream.account = NULL;
    upstream.debug = NULL; // the guard writes red zones through the device
    upstream.budget = budget ? budget : default_budget();
    return tdm_pool_create(&upstream, &staging->pool);
}

void tdm_staging_close(tdm_device *device) {
    tdm_staging_pool *const staging = device->staging;
    if (!staging)
        return;
    tdm_pool_destroy(staging->pool);
    tdm_host_free(staging->ranges);
    pthread_mutex_destroy(&staging->lock);
    tdm_host_free(staging);
    device->staging = NULL;
}

void tdm_staging_trim(tdm_device *device) {
    tdm_pool_trim(device->staging->pool);
}

bool tdm_staging_holds(const tdm_device *device, const void *host, size_t bytes) {
    tdm_staging_pool *const staging = device->staging;
    const uintptr_t place = (uintptr_t)host;
    bool found = false;
    pthread_mutex_lock(&staging->lock);
    for (int i = 0; i < staging->count && !found; i++) {
        const uintptr_t start = (uintptr_t)staging->ranges[i].start;
        found = place >= start && place - start <= staging->ranges[i].bytes &&
                bytes <= staging->ranges[i].bytes - (place - start);
    }
    pthread_mutex_unlock(&staging->lock);
    return found;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

static unsigned char *address_of(const tdm_device *device, const tdm_block *block) {
    tdm_staging_pool *const staging = device->staging;
    unsigned char *address = NULL;
    pthread_mutex_lock(&staging->lock);
    for (int i = 0; i < staging->count && !address; i++)
        if (staging->ranges[i].memory == block->memory)
            address = staging->ranges[i].start + block->offset;
    pthread_mutex_unlock(&staging->lock);
    return address;
}

tdm_status tdm_staging_alloc(tdm_device *device, size_t bytes, tdm_staging **staging) {
    *staging = NULL;
    tdm_host_buffer *const created = tdm_host_calloc(1, sizeof *created);
    if (!created)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "pinned memory: no host memory");
    const tdm_status status = tdm_pool_alloc(device->staging->pool, bytes, 0, &created->block);
    if (status != TDM_OK) {
        tdm_host_free(created);
        return tdm_fail_prefix(status, "pinned memory");
    }
    // The host has no stream that could wait.
    tdm_device_wait_former_uses(device, created->block);
    tdm_device_retain(device);
    created->device = device;
    created->address = address_of(device, created->block);
    created->bytes = bytes;
    *staging = created;
    return TDM_OK;
}

void *tdm_staging_address(const tdm_staging *staging) {
    return staging->address;
}

size_t tdm_staging_bytes(const tdm_staging *staging) {
    return staging->bytes;
}

void tdm_staging_release(tdm_staging *staging) {
    if (!staging)
        return;
    tdm_block_release(staging->block);
    tdm_device_release(staging->device);
    tdm_host_free(staging);
}

tdm_status tdm_enqueue_write_staged(tdm_stream *stream, const char *operation, tdm_block *target,
                                    uint64_t offset, const tdm_staging *staging,
                                    size_t staging_offset, size_t bytes) {
    return tdm_enqueue_write_from(stream, operation, target, offset,
                                  staging->address + staging_offset, bytes, staging->block);
}

tdm_status tdm_enqueue_read_staged(tdm_stream *stream, const char *operation, tdm_block *source,
                                   uint64_t offset, tdm_staging *staging, size_t staging_offset,
                                   size_t bytes) {
    return tdm_enqueue_read_into(stream, operation, source, offset,
                                 staging->address + staging_offset, bytes, staging->block);
}

/* ---- public functions ------------------------------------------------------------------------ */

tdm_status tdm_host_buffer_create(tdm_device *device, size_t bytes, tdm_host_buffer **buffer) {
    if (!buffer)
        return tdm_fail(TDM_BAD_ARGUMENT, "host_buffer_create: buffer is NULL");
    *buffer = NULL;
    if (!device)
        return tdm_fail(TDM_BAD_ARGUMENT, "host_buffer_create: device is NULL");
    return tdm_staging_alloc(device, bytes, buffer);
}

void tdm_host_buffer_destroy(tdm_host_buffer *buffer) {
    tdm_staging_release(buffer);
}

void *tdm_host_buffer_address(const tdm_host_buffer *buffer) {
    return buffer ? buffer->address : NULL;
}

size_t tdm_host_buffer_size(const tdm_host_buffer *buffer) {
    return buffer ? buffer->bytes : 0;
}

tdm_status tdm_device_host_memory_stats(const tdm_device *device, tdm_memory_stats *stats) {
    if (!device)
        return tdm_fail(TDM_BAD_ARGUMENT, "device_host_memory_stats: device is NULL");
    return tdm_pool_stats_copy("device_host_memory_stats", device->staging->pool, stats);
}
