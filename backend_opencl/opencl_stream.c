/*
 * Streams: in-order queues, and the ring of commands in flight.
 *
 * OpenCL reports a failure of an enqueued command only through that command's event, and clFinish
 * may still return success. So the ring keeps each command's event, with the name of its operation,
 * until the command is known to be complete.
 */
#include "backend_opencl/opencl_internal.h"

#define FIRST_CAPACITY 256u
/*
 * Some drivers (rusticl) start nothing before a flush. A long series of launches must not wait for
 * its end.
 */
#define FLUSH_EVERY 32u

tdm_status tdm_opencl_stream_create(tdm_bk_device *device, tdm_bk_stream **stream) {
    tdm_bk_stream *const created = tdm_host_calloc(1, sizeof *created);
    if (!created)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "stream: no host memory");
    created->device = device;
    pthread_mutex_init(&created->task_lock, NULL);
    pthread_cond_init(&created->task_change, NULL);
    created->capacity = FIRST_CAPACITY;
    created->entries = tdm_host_calloc(created->capacity, sizeof *created->entries);
    tdm_status status =
        created->entries ? TDM_OK : tdm_fail(TDM_OUT_OF_HOST_MEMORY, "stream: no host memory");
    if (status == TDM_OK)
        status = tdm_opencl_queue_create(device->api, device->record, device->context, "stream",
                                         &created->queue);
    if (status != TDM_OK) {
        tdm_opencl_stream_destroy(created);
        return status;
    }
    *stream = created;
    return TDM_OK;
}

/* ---- the ring -------------------------------------------------------------------------------- */

static tdm_opencl_entry *entry_at(tdm_bk_stream *stream, uint32_t position) {
    return &stream->entries[(stream->first + position) & (stream->capacity - 1)];
}

/* Releases the oldest entry if its command is complete, or in any case with `anyhow`. */
static bool reap_one(tdm_bk_stream *stream, bool anyhow) {
    const tdm_opencl_api *const api = stream->device->api;
    const tdm_opencl_entry *const entry = entry_at(stream, 0);
    cl_int state = CL_QUEUED;
    const cl_int code = OPENCL_CALL(api, clGetEventInfo, entry->event,
                                    CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
    // If the driver cannot report the outcome of a command, the command counts as failed.
    if (code != CL_SUCCESS)
        state = code;
    if (state < CL_COMPLETE)
        tdm_opencl_stream_note(stream, state, entry->operation);
    if (state > CL_COMPLETE && !anyhow)
        return false;
    OPENCL_RELEASE(api, clReleaseEvent, entry->event);
    stream->first = (stream->first + 1) & (stream->capacity - 1);
    stream->count--;
    return true;
}

static void reap_done(tdm_bk_stream *stream) {
    while (stream->count > 0 && reap_one(stream, false)) {
    }
}

static bool grow(tdm_bk_stream *stream) {
    const uint32_t capacity = 2 * stream->capacity;
    tdm_opencl_entry *const entries = capacity ? tdm_host_calloc(capacity, sizeof *entries) : NULL;
    if (!entries)
        return false;
    for (uint32_t i = 0; i < stream->count; i++)
        entries[i] = *entry_at(stream, i);
    tdm_host_free(stream->entries);
    stream->entries = entries;
    stream->first = 0;
    stream->capacity = capacity;
    return true;
}

tdm_status tdm_opencl_stream_reserve(tdm_bk_stream *stream, const char *operation) {
    if (stream->count < stream->capacity)
        return TDM_OK;
    reap_done(stream);
    // The ring grows while it is mostly full, so that each event is queried a bounded number of
    // times.
    if (stream->count <= stream->capacity / 2 || grow(stream) || stream->count < stream->capacity)
        return TDM_OK;
    return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "%s: no host memory for %u commands in flight",
                    operation, stream->count);
}

void tdm_opencl_stream_push(tdm_bk_stream *stream, const char *operation, cl_event event) {
    *entry_at(stream, stream->count) = (tdm_opencl_entry){.event = event, .operation = operation};
    stream->count++;
    stream->quiet = false;
    if (++stream->unflushed >= FLUSH_EVERY)
        tdm_opencl_stream_kick(stream, operation);
}

/* ---- waiting --------------------------------------------------------------------------------- */

tdm_status tdm_opencl_stream_flush(tdm_bk_stream *stream) {
    stream->unflushed = 0;
    const cl_int code = OPENCL_CALL(stream->device->api, clFlush, stream->queue);
    return code == CL_SUCCESS ? TDM_OK : tdm_opencl_fail(code, "flush", "clFlush");
}

/*
 * Waits until the stream's work no longer touches memory. If clFinish fails, it waits for each
 * command by itself, because the caller will free what they use.
 */
static cl_int wait_for_all(tdm_bk_stream *stream) {
    const tdm_opencl_api *const api = stream->device->api;
    // Nobody knows what was enqueued, or flushed, on a queue that was handed out.
    const bool handed_out = atomic_load(&stream->handed_out);
    // rusticl's clFinish waits for the last unflushed command, and for nothing if there is none.
    cl_int code = CL_SUCCESS;
    if (handed_out || (stream->unflushed == 0 && !stream->quiet))
        code = OPENCL_CALL(api, clEnqueueMarkerWithWaitList, stream->queue, 0, NULL, NULL);
    stream->unflushed = 0;
    if (code == CL_SUCCESS)
        code = OPENCL_WAIT(stream->device->api, clFinish, stream->queue);
    stream->quiet = code == CL_SUCCESS;
    for (uint32_t i = 0; code != CL_SUCCESS && i < stream->count; i++)
        (void)OPENCL_WAIT(stream->device->api, clWaitForEvents, 1, &entry_at(stream, i)->event);
    return code;
}

tdm_status tdm_opencl_stream_wait(tdm_bk_stream *stream, const char **failed_operation) {
    *failed_operation = NULL;
    const cl_int finish_code = wait_for_all(stream);
    // Also after a failed wait: a host task must not write into memory that the caller then frees.
    tdm_opencl_tasks_wait(stream);
    while (stream->count > 0)
        reap_one(stream, true);
    const cl_int code = stream->failure;
    *failed_operation = stream->failed_operation;
    stream->failure = CL_SUCCESS;
    stream->failed_operation = NULL;
    if (code != CL_SUCCESS)
        return tdm_fail(tdm_opencl_status(code), "%s (%d)", tdm_opencl_error_name(code), code);
    if (finish_code != CL_SUCCESS)
        return tdm_fail(tdm_opencl_status(finish_code), "clFinish: %s (%d)",
                        tdm_opencl_error_name(finish_code), finish_code);
    return TDM_OK;
}

void tdm_opencl_stream_destroy(tdm_bk_stream *stream) {
    if (stream->queue) {
        (void)wait_for_all(stream);
        while (stream->count > 0)
            reap_one(stream, true);
        tdm_opencl_tasks_end(stream);
        OPENCL_RELEASE(stream->device->api, clReleaseCommandQueue, stream->queue);
    }
    pthread_cond_destroy(&stream->task_change);
    pthread_mutex_destroy(&stream->task_lock);
    tdm_host_free(stream->entries);
    tdm_host_free(stream);
}
