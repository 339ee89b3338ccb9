/* Events: markers in a queue. */
#include "backend_opencl/opencl_internal.h"

/* `timed` is ignored: the queue decides whether its events carry times. */
tdm_status tdm_opencl_event_record(tdm_bk_stream *stream, bool timed, tdm_bk_event **event) {
    (void)timed;
    const tdm_opencl_api *const api = stream->device->api;
    tdm_bk_event *const created = tdm_host_calloc(1, sizeof *created);
    if (!created)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "event: no host memory");
    created->device = stream->device;
    cl_int code =
        OPENCL_CALL(api, clEnqueueMarkerWithWaitList, stream->queue, 0, NULL, &created->event);
    if (code != CL_SUCCESS) {
        tdm_host_free(created);
        return tdm_opencl_fail(code, "event", "clEnqueueMarkerWithWaitList");
    }
    stream->quiet = false;
    const tdm_status status = tdm_opencl_stream_flush(stream);
    if (status != TDM_OK) {
        tdm_opencl_event_destroy(created);
        return status;
    }
    *event = created;
    return TDM_OK;
}

void tdm_opencl_event_destroy(tdm_bk_event *event) {
    OPENCL_RELEASE(event->device->api, clReleaseEvent, event->event);
    tdm_host_free(event);
}

static tdm_status work_failure(cl_int code) {
    return tdm_fail(tdm_opencl_status(code), "%s (%d)", tdm_opencl_error_name(code), code);
}

tdm_status tdm_opencl_event_query(tdm_bk_event *event, bool *done) {
    cl_int state;
    OPENCL_TRY("event", event->device->api, clGetEventInfo, event->event,
               CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
    if (state < CL_COMPLETE)
        return work_failure(state);
    *done = state == CL_COMPLETE;
    return TDM_OK;
}

tdm_status tdm_opencl_event_wait(tdm_bk_event *event) {
    const cl_int code = OPENCL_WAIT(event->device->api, clWaitForEvents, 1, &event->event);
    // The wait only reports that there was a failure; the event holds the failure itself.
    cl_int state = CL_COMPLETE;
    if (code == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST &&
        OPENCL_CALL(event->device->api, clGetEventInfo, event->event,
                    CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL) == CL_SUCCESS &&
        state < CL_COMPLETE)
        return work_failure(state);
    return code == CL_SUCCESS ? TDM_OK : tdm_opencl_fail(code, "event", "clWaitForEvents");
}

static tdm_status end_time(tdm_bk_event *event, cl_ulong *time) {
    OPENCL_TRY("event", event->device->api, clGetEventProfilingInfo, event->event,
               CL_PROFILING_COMMAND_END, sizeof *time, time, NULL);
    return TDM_OK;
}

tdm_status tdm_opencl_event_elapsed(tdm_bk_event *start, tdm_bk_event *end, double *nanoseconds) {
    cl_ulong first = 0, last = 0;
    tdm_status status = end_time(start, &first);
    if (status == TDM_OK)
        status = end_time(end, &last);
    if (status == TDM_OK)
        *nanoseconds = (double)(cl_long)(last - first);
    return status;
}

tdm_status tdm_opencl_stream_wait_event(tdm_bk_stream *stream, tdm_bk_event *event) {
    // The barrier's event reports a failure of work in the other queue. clFinish on this queue may
    // not report it.
    cl_event barrier = NULL;
    const tdm_status status = tdm_opencl_stream_reserve(stream, "stream_wait_event");
    if (status != TDM_OK)
        return status;
    OPENCL_TRY("stream_wait_event", stream->device->api, clEnqueueBarrierWithWaitList,
               stream->queue, 1, &event->event, &barrier);
    tdm_opencl_stream_push(stream, "stream_wait_event", barrier);
    return TDM_OK;
}
