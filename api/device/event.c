/* Events: a reference-counted fence of a stream. The host clock is used if the device has no
 * reliable time stamps. */
#include <time.h>

#include "api/device/core.h"
#include "api/device/device_internal.h"

static long long host_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void event_release(tdm_event *event) {
    if (atomic_fetch_sub(&event->references, 1) != 1)
        return;
    tdm_fence_release(event->fence);
    tdm_stream_release(event->stream);
    tdm_host_free(event);
}

/* Records the time at which the event was first seen complete. */
static void note_done(tdm_event *event) {
    long long never = 0;
    atomic_compare_exchange_strong(&event->host_ns, &never, host_clock());
}

static void task_note_done(void *user) {
    note_done(user);
    event_release(user);
}

/* Without device time stamps, a host task in stream order records the time. */
static tdm_status record_host_time(tdm_stream *stream, tdm_event *event) {
    if (stream->device->info.capabilities & TDM_CAP_PROFILING)
        return TDM_OK;
    atomic_fetch_add(&event->references, 1);
    const tdm_status status = tdm_host_task_locked(stream, "event", task_note_done, event);
    if (status != TDM_OK)
        event_release(event);
    return status;
}

tdm_status tdm_event_record(tdm_stream *stream, tdm_event **event) {
    if (!event)
        return tdm_fail(TDM_BAD_ARGUMENT, "event_record: event is NULL");
    *event = NULL;
    if (!stream)
        return tdm_fail(TDM_BAD_ARGUMENT, "event_record: stream is NULL");
    TDM_TRY(tdm_refuse_recording(stream, "event_record"));
    tdm_event *const created = tdm_host_calloc(1, sizeof *created);
    if (!created)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "event_record: no host memory");
    atomic_store(&created->references, 1);
    created->stream = stream;
    tdm_stream_retain(stream);
    pthread_mutex_lock(&stream->lock);
    tdm_status status = tdm_stream_failure_locked(stream);
    if (status == TDM_OK)
        status = record_host_time(stream, created);
    if (status == TDM_OK)
        status = tdm_stream_fence_time_locked(stream, &created->fence);
    pthread_mutex_unlock(&stream->lock);
    if (status == TDM_OK)
        *event = created;
    else
        event_release(created);
    return status;
}

void tdm_event_destroy(tdm_event *event) {
    if (event)
        event_release(event);
}

tdm_status tdm_event_wait(tdm_event *event) {
    if (!event)
        return tdm_fail(TDM_BAD_ARGUMENT, "event_wait: event is NULL");
    const tdm_status status = event->stream->device->api->event_wait(event->fence->native);
    note_done(event);
    if (status != TDM_OK)
        return tdm_fail_prefix(status, "event_wait: the work before the event failed");
    return TDM_OK;
}

tdm_status tdm_event_query(tdm_event *event, int *done) {
    if (!done)
        return tdm_fail(TDM_BAD_ARGUMENT, "event_query: done is NULL");
    *done = 0;
    if (!event)
        return tdm_fail(TDM_BAD_ARGUMENT, "event_query: event is NULL");
    bool is_done = false;
    const tdm_status status =
        event->stream->device->api->event_query(event->fence->native, &is_done);
    if (status != TDM_OK)
        return tdm_fail_prefix(status, "event_query: the work before the event failed");
    if (is_done)
        note_done(event);
    *done = is_done;
    return TDM_OK;
}

tdm_status tdm_stream_wait_event(tdm_stream *stream, tdm_event *event) {
    if (!stream || !event)
        return tdm_fail(TDM_BAD_ARGUMENT, "stream_wait_event: %s is NULL",
                        stream ? "event" : "stream");
    TDM_TRY(tdm_check_device("stream_wait_event", "the event", event->stream->device, "the stream",
                             stream->device));
    TDM_TRY(tdm_refuse_recording(stream, "stream_wait_event"));
    pthread_mutex_lock(&stream->lock);
    tdm_status status = tdm_stream_failure_locked(stream);
    if (status == TDM_OK)
        status = stream->device->api->stream_wait_event(stream->native, event->fence->native);
    pthread_mutex_unlock(&stream->lock);
    return status;
}

tdm_status tdm_event_elapsed(tdm_event *start, tdm_event *end, double *nanoseconds,
                             int *from_device) {
    if (!nanoseconds)
        return tdm_fail(TDM_BAD_ARGUMENT, "event_elapsed: nanoseconds is NULL");
    *nanoseconds = 0;
    if (!start || !end)
        return tdm_fail(TDM_BAD_ARGUMENT, "event_elapsed: %s is NULL", start ? "end" : "start");
    if (start->stream->device != end->stream->device)
        return tdm_fail(TDM_BAD_ARGUMENT, "event_elapsed: the events are of different devices");
    int done[2];
    TDM_TRY(tdm_event_query(start, &done[0]));
    TDM_TRY(tdm_event_query(end, &done[1]));
    if (!done[0] || !done[1])
        return tdm_fail(TDM_BAD_STATE, "event_elapsed: the %s event is not complete",
                        done[0] ? "end" : "start");
    const bool device = (start->stream->device->info.capabilities & TDM_CAP_PROFILING) != 0;
    if (from_device)
        *from_device = device;
    if (device)
        return start->stream->device->api->event_elapsed(start->fence->native, end->fence->native,
                                                         nanoseconds);
    *nanoseconds = (double)(atomic_load(&end->host_ns) - atomic_load(&start->host_ns));
    return TDM_OK;
}
