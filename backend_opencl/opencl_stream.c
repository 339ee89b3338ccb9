/*
 * A stream is an in-order queue and a ring of the commands in flight.
 *
 * OpenCL reports the failure of an enqueued command only through that command's event, and clFinish
 * may still return success. The ring therefore keeps the event of each command, and the name of its
 * operation, until the command is known to be complete.
 */
#include "backend_opencl/opencl_internal.h"

#define FIRST_CAPACITY 256u
/*
 * Some drivers (rusticl) start no command before a flush. Without regular flushes, the first of
 * many launches would start only after the last was enqueued.
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

/* Releases the oldest entry if its command is complete. With `anyhow` it releases the entry in any
 * case. */
static bool reap_one(tdm_bk_stream *stream, bool anyhow) {
    const tdm_opencl_api *const api = stream->device->api;
    const tdm_opencl_entry *const entry = entry_at(stream, 0);
    cl_int state = CL_QUEUED;
    const cl_int code = OPENCL_CALL(api, clGetEventInfo, entry->event,
                                    CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
    // A command whose outcome the driver cannot report counts as failed.
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
    // The ring grows if it is still more than half full. The number of queries per event is thus
    // bounded.
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
 * Waits until the stream's commands no longer access memory. If clFinish fails, this waits for each
 * command separately, because the caller will free the memory that they use.
 */
static cl_int wait_for_all(tdm_bk_stream *stream) {
    const tdm_opencl_api *const api = stream->device->api;
    // If the native queue was handed out, the user may have enqueued or flushed anything on it.
    const bool handed_out = atomic_load(&stream->handed_out);
    // rusticl's clFinish waits only if there is an unflushed command. A marker serves as one.
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
    // This follows a failed wait too: the caller will free memory that a host task may write.
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
