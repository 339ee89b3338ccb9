/* The device as upstream of its pool: native memory and the progress of its streams. */
#include <string.h>

#include <time.h>

#include "api/device/core.h"
#include "api/device/device_internal.h"
#include "api/device/memory/memory_pool.h"
#include "api/pool/guard.h"

static tdm_status native_allocate(void *user, size_t bytes, tdm_bk_memory **memory) {
    tdm_device *const device = user;
    TDM_TRY(device->api->memory_alloc(device->native, TDM_MEMORY_DEVICE, bytes, memory));
    if (device->guard)
        tdm_guard_fill_native(device->guard, *memory, bytes);
    return TDM_OK;
}

static void native_release(void *user, tdm_bk_memory *memory) {
    tdm_device *const device = user;
    device->api->memory_free(device->native, memory);
}

/* Returns the live stream with that id, or NULL. The caller has locked the device's stream list. */
static tdm_stream *find_stream(const tdm_device *device, uint32_t id) {
    tdm_stream *stream = device->streams;
    while (stream && stream->id != id)
        stream = stream->next;
    return stream;
}

static bool use_passed(void *user, tdm_use use) {
    tdm_device *const device = user;
    pthread_mutex_lock(&device->streams_lock);
    const tdm_stream *const stream = find_stream(device, use.stream);
    const bool passed = !stream || atomic_load(&stream->completed) >= use.sequence;
    pthread_mutex_unlock(&device->streams_lock);
    return passed;
}

static bool stream_gone(void *user, uint32_t stream) {
    tdm_device *const device = user;
    pthread_mutex_lock(&device->streams_lock);
    const bool gone = !find_stream(device, stream);
    pthread_mutex_unlock(&device->streams_lock);
    return gone;
}

static void note_completed(tdm_stream *stream, uint64_t sequence) {
    uint64_t known = atomic_load(&stream->completed);
    while (known < sequence &&
           !atomic_compare_exchange_weak(&stream->completed, &known, sequence)) {
    }
}

static void note_stream_completed(tdm_device *device, uint32_t id, uint64_t sequence) {
    pthread_mutex_lock(&device->streams_lock);
    tdm_stream *const stream = find_stream(device, id);
    if (stream)
        note_completed(stream, sequence);
    pthread_mutex_unlock(&device->streams_lock);
}

tdm_status tdm_device_fence(tdm_device *device, tdm_use use, tdm_fence **fence) {
    *fence = NULL;
    pthread_mutex_lock(&device->streams_lock);
    tdm_stream *const stream = find_stream(device, use.stream);
    const bool passed = !stream || atomic_load(&stream->completed) >= use.sequence;
    if (!passed)
        tdm_stream_retain(stream);
    pthread_mutex_unlock(&device->streams_lock);
    if (passed)
        return TDM_OK;
    pthread_mutex_lock(&stream->lock);
    const tdm_status status = tdm_stream_fence_locked(stream, use.sequence, fence);
    pthread_mutex_unlock(&stream->lock);
    tdm_stream_release(stream);
    return status;
}

/* Waits for all work of the stream. It is used if the driver has no event or cannot wait for it. */
static void wait_for_stream(tdm_device *device, uint32_t id) {
    pthread_mutex_lock(&device->streams_lock);
    tdm_stream *const stream = find_stream(device, id);
    if (stream)
        tdm_stream_retain(stream);
    pthread_mutex_unlock(&device->streams_lock);
    if (!stream)
        return;
    // A stream that fails here too is broken, and its work will never touch the block again.
    tdm_stream_wait_always(stream);
    tdm_stream_release(stream);
}

void tdm_device_wait_use(tdm_device *device, tdm_use use) {
    tdm_fence *fence;
    if (tdm_device_fence(device, use, &fence) != TDM_OK) {
        wait_for_stream(device, use.stream);
        return;
    }
    if (!fence)
        return;
    if (device->api->event_wait(fence->native) != TDM_OK)
        wait_for_stream(device, use.stream);
    note_stream_completed(device, use.stream, fence->sequence);
    tdm_fence_release(fence);
}

void tdm_device_wait_former_uses(tdm_device *device, tdm_block *block) {
    tdm_use dependencies[16];
    const int room = (int)(sizeof dependencies / sizeof dependencies[0]);
    const int count = tdm_pool_prepare(&block, 1, 0, dependencies, room);
    if (count < 0 || count > room)
        tdm_device_synchronize(device);
    else
        for (int i = 0; i < count; i++)
            tdm_device_wait_use(device, dependencies[i]);
}

#define QUERY_PAUSE_NS 20000

static uint64_t clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* It polls, because drivers have no wait with a timeout. */
static bool use_wait_briefly(void *user, tdm_use use, uint64_t patience_ns) {
    tdm_device *const device = user;
    const uint64_t end = clock_ns() + patience_ns;
    tdm_fence *fence;
    if (tdm_device_fence(device, use, &fence) != TDM_OK)
        return false;
    bool done = !fence;
    while (!done && device->api->event_query(fence->native, &done) == TDM_OK && !done &&
           clock_ns() < end)
        nanosleep(&(struct timespec){.tv_nsec = QUERY_PAUSE_NS}, NULL);
    if (fence && done)
        note_stream_completed(device, use.stream, fence->sequence);
    tdm_fence_release(fence);
    return done;
}

static void use_wait(void *user, tdm_use use) {
    tdm_device_wait_use(user, use);
}

/* Queries the progress of a stream that is not locked. A locked one is queried next time. */
static void poll_stream(tdm_stream *stream) {
    if (pthread_mutex_trylock(&stream->lock) != 0)
        return;
    const uint64_t known = atomic_load(&stream->completed);
    tdm_fence *fence = NULL;
    bool done = false;
    if (known < stream->sequence && tdm_stream_fence_locked(stream, known + 1, &fence) == TDM_OK &&
        fence && stream->device->api->event_query(fence->native, &done) == TDM_OK && done)
        note_completed(stream, fence->sequence);
    tdm_fence_release(fence);
    pthread_mutex_unlock(&stream->lock);
}

static void poll_streams(void *user) {
    tdm_device *const device = user;
    pthread_mutex_lock(&device->streams_lock);
    for (tdm_stream *stream = device->streams; stream; stream = stream->next)
        poll_stream(stream);
    pthread_mutex_unlock(&device->streams_lock);
}

tdm_pool_upstream tdm_device_upstream(tdm_device *device) {
    const tdm_device_info *const info = &device->info;
    return (tdm_pool_upstream){
        .user = device,
        .allocate = native_allocate,
        .release = native_release,
        .passed = use_passed,
        .gone = stream_gone,
        .poll = poll_streams,
        .wait = use_wait,
        .wait_briefly = use_wait_briefly,
        .relieve = tdm_device_relieve,
        .account = &device->account,
        .max_allocation = info->max_alloc_bytes,
        .alignment = info->alignment_bytes,
        .budget = device->context->pool_budget ? device->context->pool_budget : info->global_bytes,
        .debug = tdm_guard_hooks(device->guard),
        .direct = device->context->direct_pool || !(info->capabilities & TDM_CAP_SLABS),
    };
}

tdm_status tdm_device_pool_create(tdm_device *device) {
    const tdm_pool_upstream upstream = tdm_device_upstream(device);
    atomic_store(&device->account.bound, upstream.budget);
    return tdm_pool_create(&upstream, &device->pool);
}

tdm_status tdm_pool_stats_copy(const char *operation, tdm_pool *pool, tdm_memory_stats *stats) {
    if (!stats)
        return tdm_fail(TDM_BAD_ARGUMENT, "%s: stats is NULL", operation);
    TDM_TRY(tdm_struct_check_output(operation, "stats", stats, sizeof *stats));
    tdm_memory_stats now;
    tdm_pool_stats(pool, &now);
    tdm_struct_write(&now, sizeof now, stats);
    return TDM_OK;
}
