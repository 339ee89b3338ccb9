/* Streams: create, wait, destroy. */
#include <string.h>

#include "backend_cuda/cuda_internal.h"

tdm_status tdm_cuda_stream_create(tdm_bk_device *device, tdm_bk_stream **stream) {
    tdm_bk_stream *const created = tdm_host_calloc(1, sizeof *created);
    if (!created)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "stream: no host memory");
    created->device = device;
    tdm_status status = tdm_cuda_enter(device, "stream");
    if (status == TDM_OK) {
        // Non-blocking: the stream must not wait for the legacy default stream, which others may
        // use.
        const CUresult code =
            CUDA_CALL(device->api, cuStreamCreate, &created->stream, CU_STREAM_NON_BLOCKING);
        tdm_cuda_leave(device);
        if (code != CUDA_SUCCESS)
            status = tdm_cuda_fail(code, "stream", "cuStreamCreate");
    }
    if (status != TDM_OK) {
        tdm_host_free(created);
        return status;
    }
    *stream = created;
    return TDM_OK;
}

/*
 * Waits for the stream's work. Afterwards the work accesses no memory, even if the device is lost.
 */
static CUresult wait_for_all(tdm_bk_stream *stream) {
    CUresult first = CUDA_SUCCESS;
    for (int i = 0; i < CUDA_WAIT_TRIES; i++) {
        const CUresult code = CUDA_WAIT(stream->device->api, cuStreamSynchronize, stream->stream);
        if (first == CUDA_SUCCESS)
            first = code;
        if (code == CUDA_SUCCESS || tdm_cuda_status(code) == TDM_DEVICE_LOST)
            break;
    }
    return first;
}

/*
 * Clears the notes after a wait. If the device is lost, streams_with_work still counts the stream,
 * because every other stream reports that failure too.
 */
void tdm_cuda_stream_forget(tdm_bk_stream *stream, CUresult code) {
    stream->names.count = 0;
    stream->names.more = false;
    if (!stream->has_work || tdm_cuda_status(code) == TDM_DEVICE_LOST)
        return;
    stream->has_work = false;
    atomic_fetch_sub(&stream->device->streams_with_work, 1);
}

void tdm_cuda_stream_destroy(tdm_bk_stream *stream) {
    CUresult code = tdm_cuda_enter_always(stream->device);
    const bool entered = code == CUDA_SUCCESS;
    if (entered)
        code = wait_for_all(stream);
    if (tdm_cuda_status(code) == TDM_DEVICE_LOST)
        tdm_cuda_tasks_abandon(stream->tasks);
    if (entered) {
        tdm_cuda_stream_forget(stream, code);
        CUDA_RELEASE(stream->device->api, cuStreamDestroy, stream->stream);
        tdm_cuda_leave(stream->device);
    }
    tdm_cuda_tasks_close(stream->tasks);
    tdm_host_free(stream);
}

/* Does nothing, because the driver submits work at once. */
tdm_status tdm_cuda_stream_flush(tdm_bk_stream *stream) {
    (void)stream;
    return TDM_OK;
}

tdm_status tdm_cuda_stream_wait(tdm_bk_stream *stream, const char **failed_operation) {
    *failed_operation = NULL;
    CUresult code = tdm_cuda_enter_always(stream->device);
    const bool entered = code == CUDA_SUCCESS;
    if (entered) {
        code = wait_for_all(stream);
        tdm_cuda_leave(stream->device);
    }
    if (tdm_cuda_status(code) == TDM_DEVICE_LOST)
        tdm_cuda_tasks_abandon(stream->tasks);
    if (!entered)
        return tdm_cuda_fail(code, "stream", "cuCtxPushCurrent");
    const tdm_status status =
        code == CUDA_SUCCESS ? TDM_OK : tdm_cuda_work_failure(stream, code, failed_operation);
    tdm_cuda_stream_forget(stream, code);
    return status;
}
