/* Streams: lifetime, waiting, sticky failures, fences. */
#include <stdio.h>
#include <string.h>

#include "api/device/core.h"
#include "api/device/device_internal.h"

void tdm_stream_retain(tdm_stream *stream) {
    atomic_fetch_add(&stream->references, 1);
}

static void stream_free(tdm_stream *stream) {
    tdm_device *const device = stream->device;
    tdm_fence_release(stream->fence);
    if (stream->native)
        device->api->stream_destroy(stream->native);
    pthread_mutex_destroy(&stream->lock);
    tdm_host_free(stream);
    tdm_device_release(device);
}

void tdm_stream_release(tdm_stream *stream) {
    if (atomic_fetch_sub(&stream->references, 1) == 1)
        stream_free(stream);
}

void tdm_fence_release(tdm_fence *fence) {
    if (!fence || atomic_fetch_sub(&fence->references, 1) != 1)
        return;
    fence->device->api->event_destroy(fence->native);
    tdm_host_free(fence);
}

/* Creates a fence behind everything enqueued so far. */
static tdm_status renew_fence(tdm_stream *stream, bool timed) {
    tdm_fence *const created = tdm_host_calloc(1, sizeof *created);
    if (!created)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "stream: no host memory for an event");
    const tdm_status status =
        stream->device->api->event_record(stream->native, timed, &created->native);
    if (status != TDM_OK) {
        tdm_host_free(created);
        return status;
    }
    atomic_store(&created->references, 1);
    created->device = stream->device;
    created->sequence = stream->sequence;
    tdm_fence_release(stream->fence);
    stream->fence = created;
    return TDM_OK;
}

tdm_status tdm_stream_fence_locked(tdm_stream *stream, uint64_t sequence, tdm_fence **fence) {
    *fence = NULL;
    if (!stream->fence || stream->fence->sequence < sequence)
        TDM_TRY(renew_fence(stream, false));
    atomic_fetch_add(&stream->fence->references, 1);
    *fence = stream->fence;
    return TDM_OK;
}

tdm_status tdm_stream_fence_time_locked(tdm_stream *stream, tdm_fence **fence) {
    *fence = NULL;
    stream->sequence++;
    TDM_TRY(renew_fence(stream, true));
    atomic_fetch_add(&stream->fence->references, 1);
    *fence = stream->fence;
    return TDM_OK;
}

tdm_status tdm_stream_failure_locked(tdm_stream *stream) {
    return stream->failure == TDM_OK ? TDM_OK
                                     : tdm_fail(stream->failure, "%s", stream->failure_detail);
}

tdm_status tdm_stream_fail_locked(tdm_stream *stream, tdm_status status) {
    if (stream->failure == TDM_OK) {
        stream->failure = status;
        snprintf(stream->failure_detail, sizeof stream->failure_detail, "%s", tdm_last_detail());
        tdm_log(TDM_LOG_ERROR, "driver", "%s", stream->failure_detail);
    }
    return status;
}

tdm_status tdm_stream_create(tdm_device *device, tdm_stream **stream) {
    if (!stream)
        return tdm_fail(TDM_BAD_ARGUMENT, "stream_create: stream is NULL");
    *stream = NULL;
    if (!device)
        return tdm_fail(TDM_BAD_ARGUMENT, "stream_create: device is NULL");
    tdm_stream *const created = tdm_host_calloc(1, sizeof *created);
    if (!created)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "stream_create: no host memory");
    const tdm_status status = device->api->stream_create(device->native, &created->native);
    if (status != TDM_OK) {
        tdm_host_free(created);
        return status;
    }
    tdm_device_retain(device);
    created->device = device;
    atomic_store(&created->references, 1);
    pthread_mutex_init(&created->lock, NULL);
    pthread_mutex_lock(&device->streams_lock);
    created->id = device->next_stream_id++;
    created->next = device->streams;
    device->streams = created;
    pthread_mutex_unlock(&device->streams_lock);
    *stream = created;
    return TDM_OK;
}

static void unlist(tdm_stream *stream) {
    tdm_device *const device = stream->device;
    pthread_mutex_lock(&device->streams_lock);
    tdm_stream **link = &device->streams;
    while (*link != stream)
        link = &(*link)->next;
    *link = stream->next;
    pthread_mutex_unlock(&device->streams_lock);
}

/* Waits for everything enqueued. The stream is locked. It may be recording, because recorded
 * commands are not enqueued. */
static tdm_status wait_locked(tdm_stream *stream) {
    const char *operation = NULL;
    const tdm_status status = stream->device->api->stream_wait(stream->native, &operation);
    atomic_store(&stream->completed, stream->sequence);
    if (status == TDM_OK)
        return TDM_OK;
    tdm_fail_prefix(status, "%s: failed after it was enqueued", operation ? operation : "stream");
    return tdm_stream_fail_locked(stream, status);
}

void tdm_stream_destroy(tdm_stream *stream) {
    if (!stream)
        return;
    pthread_mutex_lock(&stream->lock);
    wait_locked(stream);
    tdm_graph *const abandoned = stream->recording;
    stream->recording = NULL;
    pthread_mutex_unlock(&stream->lock);
    // The recording is destroyed here and not with the last reference, because the pool may hold
    // that reference under its own lock.
    tdm_graph_destroy(abandoned);
    // The stream is unlisted only now, because the pool treats an unlisted stream as complete.
    unlist(stream);
    tdm_stream_release(stream);
}

bool tdm_stream_is_recording(tdm_stream *stream) {
    pthread_mutex_lock(&stream->lock);
    const bool recording = stream->recording != NULL;
    pthread_mutex_unlock(&stream->lock);
    return recording;
}

tdm_status tdm_refuse_recording(tdm_stream *stream, const char *operation) {
    return tdm_stream_is_recording(stream)
               ? tdm_fail(TDM_BAD_STATE, "%s: the stream is recording", operation)
               : TDM_OK;
}

tdm_status tdm_stream_synchronize(tdm_stream *stream) {
    if (!stream)
        return tdm_fail(TDM_BAD_ARGUMENT, "stream_synchronize: stream is NULL");
    TDM_TRY(tdm_refuse_recording(stream, "stream_synchronize"));
    return tdm_stream_wait_always(stream);
}

tdm_status tdm_stream_wait_always(tdm_stream *stream) {
    pthread_mutex_lock(&stream->lock);
    tdm_status status = wait_locked(stream);
    if (status == TDM_OK)
        status = tdm_stream_failure_locked(stream);
    pthread_mutex_unlock(&stream->lock);
    return status;
}

tdm_status tdm_stream_flush(tdm_stream *stream) {
    if (!stream)
        return tdm_fail(TDM_BAD_ARGUMENT, "stream_flush: stream is NULL");
    TDM_TRY(tdm_refuse_recording(stream, "stream_flush"));
    pthread_mutex_lock(&stream->lock);
    tdm_status status = tdm_stream_failure_locked(stream);
    if (status == TDM_OK)
        status = stream->device->api->stream_flush(stream->native);
    pthread_mutex_unlock(&stream->lock);
    return status;
}

tdm_status tdm_stream_clear_failure(tdm_stream *stream) {
    if (!stream)
        return tdm_fail(TDM_BAD_ARGUMENT, "stream_clear_failure: stream is NULL");
    pthread_mutex_lock(&stream->lock);
    if (stream->failure != TDM_DEVICE_LOST)
        stream->failure = TDM_OK;
    const tdm_status status = tdm_stream_failure_locked(stream);
    pthread_mutex_unlock(&stream->lock);
    return status;
}

/* Returns the next listed stream after `after` (NULL: the first) with a new reference. */
static tdm_stream *next_stream(tdm_device *device, const tdm_stream *after) {
    pthread_mutex_lock(&device->streams_lock);
    tdm_stream *stream = device->streams;
    while (after && stream && stream->id >= after->id)
        stream = stream->next;
    if (stream)
        tdm_stream_retain(stream);
    pthread_mutex_unlock(&device->streams_lock);
    return stream;
}

tdm_status tdm_device_synchronize(tdm_device *device) {
    if (!device)
        return tdm_fail(TDM_BAD_ARGUMENT, "device_synchronize: device is NULL");
    tdm_status result = TDM_OK;
    // The list is ordered by falling id, newest first, so a stream created meanwhile is skipped.
    for (tdm_stream *stream = next_stream(device, NULL), *next; stream; stream = next) {
        pthread_mutex_lock(&stream->lock);
        tdm_status status = wait_locked(stream);
        if (status == TDM_OK)
            status = tdm_stream_failure_locked(stream);
        pthread_mutex_unlock(&stream->lock);
        if (result == TDM_OK)
            result = status;
        next = next_stream(device, stream);
        tdm_stream_release(stream);
    }
    return result;
}
