/* Events mark points in the order of a stream's work. */
#include "backend_cuda/cuda_internal.h"

static tdm_status record(tdm_bk_stream *stream, bool timed, CUevent *event) {
    const tdm_cuda_api *const api = stream->device->api;
    // A thread that waits for the event sleeps, because the wait may last as long as a model runs.
    const unsigned int flags = CU_EVENT_BLOCKING_SYNC | (timed ? 0 : CU_EVENT_DISABLE_TIMING);
    CUDA_TRY("event", api, cuEventCreate, event, flags);
    const CUresult code = CUDA_CALL(api, cuEventRecord, *event, stream->stream);
    if (code == CUDA_SUCCESS)
        return TDM_OK;
    CUDA_RELEASE(api, cuEventDestroy, *event);
    return tdm_cuda_enqueue_fail(stream, code, "event", "cuEventRecord");
}

tdm_status tdm_cuda_event_record(tdm_bk_stream *stream, bool timed, tdm_bk_event **event) {
    tdm_bk_event *const created = tdm_host_calloc(1, sizeof *created);
    if (!created)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "event: no host memory");
    created->device = stream->device;
    tdm_status status = tdm_cuda_enter(stream->device, "event");
    if (status == TDM_OK) {
        status = record(stream, timed, &created->event);
        tdm_cuda_leave(stream->device);
    }
    if (status != TDM_OK) {
        tdm_host_free(created);
        return status;
    }
    *event = created;
    return TDM_OK;
}

void tdm_cuda_event_destroy(tdm_bk_event *event) {
    if (tdm_cuda_enter_always(event->device) == CUDA_SUCCESS) {
        CUDA_RELEASE(event->device->api, cuEventDestroy, event->event);
        tdm_cuda_leave(event->device);
    }
    tdm_host_free(event);
}

tdm_status tdm_cuda_event_query(tdm_bk_event *event, bool *done) {
    const tdm_status status = tdm_cuda_enter(event->device, "event");
    if (status != TDM_OK)
        return status;
    const CUresult code = CUDA_CALL(event->device->api, cuEventQuery, event->event);
    tdm_cuda_leave(event->device);
    if (code != CUDA_SUCCESS && code != CUDA_ERROR_NOT_READY)
        return tdm_cuda_fail(code, "event", "cuEventQuery");
    *done = code == CUDA_SUCCESS;
    return TDM_OK;
}

/*
 * Waits for the event. If a call fails, it is repeated unless the device is lost, because the work
 * before the event must be done afterwards. Returns the first failure.
 */
static CUresult wait_for(const tdm_bk_event *event) {
    CUresult first = CUDA_SUCCESS;
    for (int i = 0; i < CUDA_WAIT_TRIES; i++) {
        const CUresult code = CUDA_WAIT(event->device->api, cuEventSynchronize, event->event);
        if (first == CUDA_SUCCESS)
            first = code;
        if (code == CUDA_SUCCESS || tdm_cuda_status(code) == TDM_DEVICE_LOST)
            break;
    }
    return first;
}

/*
 * Waits even if a call fails, like tdm_cuda_stream_wait, because the caller may then free memory
 * that the work uses.
 */
tdm_status tdm_cuda_event_wait(tdm_bk_event *event) {
    CUresult code = tdm_cuda_enter_always(event->device);
    if (code != CUDA_SUCCESS)
        return tdm_cuda_fail(code, "event", "cuCtxPushCurrent");
    code = wait_for(event);
    tdm_cuda_leave(event->device);
    return code == CUDA_SUCCESS ? TDM_OK : tdm_cuda_fail(code, "event", "cuEventSynchronize");
}

tdm_status tdm_cuda_event_elapsed(tdm_bk_event *start, tdm_bk_event *end, double *nanoseconds) {
    float milliseconds = 0;
    const tdm_status status = tdm_cuda_enter(start->device, "event");
    if (status != TDM_OK)
        return status;
    const CUresult code =
        CUDA_CALL(start->device->api, cuEventElapsedTime, &milliseconds, start->event, end->event);
    tdm_cuda_leave(start->device);
    if (code != CUDA_SUCCESS)
        return tdm_cuda_fail(code, "event", "cuEventElapsedTime");
    *nanoseconds = (double)milliseconds * 1e6;
    return TDM_OK;
}

tdm_status tdm_cuda_stream_wait_event(tdm_bk_stream *stream, tdm_bk_event *event) {
    const tdm_status status = tdm_cuda_enter(stream->device, "stream_wait_event");
    if (status != TDM_OK)
        return status;
    const CUresult code =
        CUDA_CALL(stream->device->api, cuStreamWaitEvent, stream->stream, event->event, 0);
    tdm_cuda_leave(stream->device);
    if (code != CUDA_SUCCESS)
        return tdm_cuda_enqueue_fail(stream, code, "stream_wait_event", "cuStreamWaitEvent");
    tdm_cuda_stream_note(stream, "stream_wait_event");
    return TDM_OK;
}
