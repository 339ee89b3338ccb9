/*
 * Host functions in stream order: a marker that is done when the work before is done, whose callback runs the
 * function, and a barrier on a user event that holds the work behind back until the function has returned.
 */
#include "backend_opencl/opencl_internal.h"

typedef struct host_task {
    tdm_bk_stream *stream;
    cl_event held; /* the user event */
    void (*function)(void *user);
    void *user;
} host_task;

bool tdm_opencl_user_event_set(const tdm_opencl_api *api, cl_event user) {
    // Everything behind the event waits for ever when this fails, so once is not enough.
    cl_int code = OPENCL_CALL(api, clSetUserEventStatus, user, CL_COMPLETE);
    if (code != CL_SUCCESS)
        code = OPENCL_CALL(api, clSetUserEventStatus, user, CL_COMPLETE);
    if (code != CL_SUCCESS)
        tdm_log(TDM_LOG_ERROR, "driver", "opencl: clSetUserEventStatus: %s (%d)",
                tdm_opencl_error_name(code), code);
    return code == CL_SUCCESS;
}

static void count_task(tdm_bk_stream *stream, bool begin) {
    pthread_mutex_lock(&stream->task_lock);
    stream->tasks += begin ? 1u : (uint32_t)-1;
    if (stream->tasks == 0)
        pthread_cond_broadcast(&stream->task_done);
    pthread_mutex_unlock(&stream->task_lock);
}

/* Runs on a thread of the driver, also when the work before failed: the function may have something to release. */
static void CL_CALLBACK run_task(cl_event event, cl_int status, void *user) {
    host_task *const task = user;
    tdm_bk_stream *const stream = task->stream;
    const tdm_opencl_api *const api = stream->device->api;
    (void)event;
    (void)status;
    task->function(task->user);
    tdm_opencl_user_event_set(api, task->held);
    OPENCL_RELEASE(api, clReleaseEvent, task->held);
    tdm_host_free(task);
    count_task(stream, false);
}

/* Enqueue marker and barrier, then hand the task over. `*call` names what failed. */
static cl_int enqueue_task(tdm_bk_stream *stream, host_task *task, cl_event *marker,
                           const char **call) {
    const tdm_opencl_api *const api = stream->device->api;
    *call = "clEnqueueMarkerWithWaitList";
    cl_int code = OPENCL_CALL(api, clEnqueueMarkerWithWaitList, stream->queue, 0, NULL, marker);
    if (code != CL_SUCCESS)
        return code;
    // Flushed apart from the barrier: rusticl finishes no command of a flush before it reaches the barrier's wait.
    *call = "clFlush";
    code = OPENCL_CALL(api, clFlush, stream->queue);
    if (code == CL_SUCCESS) {
        *call = "clEnqueueBarrierWithWaitList";
        code = OPENCL_CALL(api, clEnqueueBarrierWithWaitList, stream->queue, 1, &task->held, NULL);
    }
    if (code == CL_SUCCESS) {
        *call = "clSetEventCallback";
        count_task(stream, true);
        code = OPENCL_CALL(api, clSetEventCallback, *marker, CL_COMPLETE, run_task, task);
        if (code != CL_SUCCESS)
            count_task(stream, false);
    }
    if (code != CL_SUCCESS)
        OPENCL_RELEASE(api, clReleaseEvent, *marker);
    return code;
}

tdm_status tdm_opencl_host_task(tdm_bk_stream *stream, const char *operation,
                                void (*function)(void *user), void *user) {
    const tdm_opencl_api *const api = stream->device->api;
    const tdm_status status = tdm_opencl_stream_reserve(stream, operation);
    if (status != TDM_OK)
        return status;
    host_task *const task = tdm_host_calloc(1, sizeof *task);
    if (!task)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "%s: no host memory", operation);
    *task = (host_task){.stream = stream, .function = function, .user = user};
    cl_int code;
    const char *call = "clCreateUserEvent";
    cl_event marker;
    task->held = OPENCL_CREATE(api, &code, clCreateUserEvent, stream->device->context);
    if (task->held)
        code = enqueue_task(stream, task, &marker, &call);
    if (code != CL_SUCCESS) {
        // Set, so that a barrier that was enqueued lets the queue go on.
        if (task->held) {
            tdm_opencl_user_event_set(api, task->held);
            OPENCL_RELEASE(api, clReleaseEvent, task->held);
        }
        tdm_host_free(task);
        return tdm_opencl_fail(code, operation, call);
    }
    tdm_opencl_stream_push(stream, operation, marker);
    // The barrier goes too: what is enqueued next may be waited for elsewhere.
    tdm_opencl_stream_kick(stream, operation);
    return TDM_OK;
}
