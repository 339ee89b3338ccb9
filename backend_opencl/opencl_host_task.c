/*
 * Host functions in stream order. A marker completes when the work before it is done. A barrier on
 * a user event delays the work that is enqueued after it. A thread of the stream waits for the
 * marker, runs the function and sets the user event.
 *
 * Event callbacks would need no thread, but drivers run them on any thread. PoCL runs one inside
 * clSetEventCallback if the event is already complete, which would block the caller for as long as
 * the function takes.
 */
#include <signal.h>
#include <time.h>

#include "backend_opencl/opencl_internal.h"

/* The largest number of consecutive failed waits, which are a millisecond apart. */
#define MAX_REFUSALS 10000

struct tdm_opencl_task {
    struct tdm_opencl_task *next;
    cl_event before; /* the marker */
    cl_event held;   /* the user event of the barrier */
    void (*function)(void *user);
    void *user;
};

bool tdm_opencl_user_event_set(const tdm_opencl_api *api, cl_event user) {
    // If this fails, all commands that wait for the event wait for ever, so it is tried twice.
    cl_int code = OPENCL_WAIT(api, clSetUserEventStatus, user, CL_COMPLETE);
    if (code != CL_SUCCESS)
        code = OPENCL_WAIT(api, clSetUserEventStatus, user, CL_COMPLETE);
    if (code != CL_SUCCESS)
        tdm_log(TDM_LOG_ERROR, "driver", "opencl: clSetUserEventStatus: %s (%d)",
                tdm_opencl_error_name(code), code);
    return code == CL_SUCCESS;
}

/* ---- the stream's thread --------------------------------------------------------------------- */

/*
 * Waits until the work before the task is done or has failed. A wait that fails for another reason
 * is repeated. After MAX_REFUSALS failures the work counts as lost.
 */
static void wait_before(tdm_bk_device *device, cl_event before) {
    const struct timespec pause = {.tv_nsec = 1000000};
    cl_int state = CL_COMPLETE;
    for (int refusals = 0; refusals < MAX_REFUSALS; refusals++) {
        if (OPENCL_WAIT(device->api, clWaitForEvents, 1, &before) == CL_SUCCESS ||
            OPENCL_CALL(device->api, clGetEventInfo, before, CL_EVENT_COMMAND_EXECUTION_STATUS,
                        sizeof state, &state, NULL) != CL_SUCCESS ||
            state <= CL_COMPLETE)
            return;
        nanosleep(&pause, NULL);
    }
    tdm_log(TDM_LOG_ERROR, "driver", "opencl: waiting for the work before a host task failed");
}

/*
 * Runs the function even if the work before the task failed: the function may have something to
 * release.
 */
static void run_task(tdm_bk_device *device, tdm_opencl_task *task) {
    const tdm_opencl_api *const api = device->api;
    wait_before(device, task->before);
    task->function(task->user);
    tdm_opencl_user_event_set(api, task->held);
    OPENCL_RELEASE(api, clReleaseEvent, task->before);
    OPENCL_RELEASE(api, clReleaseEvent, task->held);
}

static void *run_tasks(void *user) {
    tdm_bk_stream *const stream = user;
    pthread_mutex_lock(&stream->task_lock);
    for (;;) {
        while (!stream->first_task && !stream->stop_tasks)
            pthread_cond_wait(&stream->task_change, &stream->task_lock);
        tdm_opencl_task *const task = stream->first_task;
        if (!task)
            break;
        pthread_mutex_unlock(&stream->task_lock);
        run_task(stream->device, task);
        pthread_mutex_lock(&stream->task_lock);
        // The task is removed only now, because an empty list means that nothing runs.
        stream->first_task = task->next;
        if (!stream->first_task)
            stream->last_task = NULL;
        pthread_cond_broadcast(&stream->task_change);
        tdm_host_free(task);
    }
    pthread_mutex_unlock(&stream->task_lock);
    return NULL;
}

/*
 * Starts the thread with all signals blocked, because it must not handle the program's signals. The
 * thread inherits the mask.
 */
static tdm_status start_thread(tdm_bk_stream *stream, const char *operation) {
    if (stream->has_task_thread)
        return TDM_OK;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    stream->has_task_thread = pthread_create(&stream->task_thread, NULL, run_tasks, stream) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return stream->has_task_thread
               ? TDM_OK
               : tdm_fail(TDM_OUT_OF_HOST_MEMORY, "%s: the thread for host tasks cannot be started",
                          operation);
}

void tdm_opencl_tasks_wait(tdm_bk_stream *stream) {
    if (!stream->has_task_thread)
        return;
    pthread_mutex_lock(&stream->task_lock);
    while (stream->first_task)
        pthread_cond_wait(&stream->task_change, &stream->task_lock);
    pthread_mutex_unlock(&stream->task_lock);
}

void tdm_opencl_tasks_end(tdm_bk_stream *stream) {
    if (!stream->has_task_thread)
        return;
    pthread_mutex_lock(&stream->task_lock);
    stream->stop_tasks = true;
    pthread_cond_broadcast(&stream->task_change);
    pthread_mutex_unlock(&stream->task_lock);
    pthread_join(stream->task_thread, NULL);
    stream->has_task_thread = false;
}

/* ---- enqueueing ------------------------------------------------------------------------------ */

/*
 * Enqueues the marker and the barrier. On failure `*call` is the failed call; task->before is set
 * if the marker was enqueued.
 */
static cl_int enqueue_events(tdm_bk_stream *stream, tdm_opencl_task *task, const char **call) {
    const tdm_opencl_api *const api = stream->device->api;
    cl_int code;
    *call = "clCreateUserEvent";
    task->held = OPENCL_CREATE(api, &code, clCreateUserEvent, stream->device->context);
    if (!task->held)
        return code != CL_SUCCESS ? code : CL_OUT_OF_RESOURCES;
    *call = "clEnqueueMarkerWithWaitList";
    code = OPENCL_CALL(api, clEnqueueMarkerWithWaitList, stream->queue, 0, NULL, &task->before);
    if (code != CL_SUCCESS)
        return code;
    // This flush is separate from the barrier's, because a driver may complete all commands of one
    // flush together.
    *call = "clFlush";
    code = OPENCL_CALL(stream->device->api, clFlush, stream->queue);
    if (code != CL_SUCCESS)
        return code;
    *call = "clEnqueueBarrierWithWaitList";
    return OPENCL_CALL(api, clEnqueueBarrierWithWaitList, stream->queue, 1, &task->held, NULL);
}

static void append_task(tdm_bk_stream *stream, tdm_opencl_task *task) {
    pthread_mutex_lock(&stream->task_lock);
    if (stream->last_task)
        stream->last_task->next = task;
    else
        stream->first_task = task;
    stream->last_task = task;
    pthread_cond_broadcast(&stream->task_change);
    pthread_mutex_unlock(&stream->task_lock);
}

tdm_status tdm_opencl_host_task(tdm_bk_stream *stream, const char *operation,
                                void (*function)(void *user), void *user) {
    const tdm_opencl_api *const api = stream->device->api;
    const tdm_status status = start_thread(stream, operation);
    if (status != TDM_OK)
        return status;
    tdm_opencl_task *const task = tdm_host_calloc(1, sizeof *task);
    if (!task)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "%s: no host memory", operation);
    task->function = function;
    task->user = user;
    stream->quiet = false;
    const char *call;
    const cl_int code = enqueue_events(stream, task, &call);
    if (code == CL_SUCCESS) {
        append_task(stream, task);
        // The barrier is flushed too, because another stream may wait for what is enqueued next.
        tdm_opencl_stream_kick(stream, operation);
        return TDM_OK;
    }
    if (task->before)
        OPENCL_RELEASE(api, clReleaseEvent, task->before);
    if (task->held)
        OPENCL_RELEASE(api, clReleaseEvent, task->held);
    tdm_host_free(task);
    return tdm_opencl_fail(code, operation, call);
}
