/* The capabilities that only running commands can show. Everything here gives up after a time. */
#include <stdatomic.h>
#include <time.h>

#include "backend_opencl/opencl_probe.h"

#define PATIENCE_NS 2000000000LL
#define PAUSE_NS    1000000L

static long long clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void pause_ns(long nanoseconds) {
    const struct timespec pause = {.tv_nsec = nanoseconds};
    nanosleep(&pause, NULL);
}

/* CL_COMPLETE, an earlier state, or a negative code. */
static cl_int event_state(const tdm_opencl_api *api, cl_event event) {
    cl_int state = CL_QUEUED;
    const cl_int code = OPENCL_CALL(api, clGetEventInfo, event, CL_EVENT_COMMAND_EXECUTION_STATUS,
                                    sizeof state, &state, NULL);
    return code == CL_SUCCESS ? state : code;
}

/* Wait for the event, but not for ever. */
static bool finishes(tdm_opencl_probe_state *probe, cl_event event) {
    const long long deadline = clock_ns() + PATIENCE_NS;
    for (long pause = 1000;; pause = pause < PAUSE_NS ? 2 * pause : pause) {
        const cl_int state = event_state(probe->api, event);
        if (state <= CL_COMPLETE)
            return state == CL_COMPLETE;
        if (clock_ns() > deadline) {
            probe->hung = true;
            return false;
        }
        pause_ns(pause);
    }
}

/* ---- profiling ------------------------------------------------------------------------------ */

/* Device time at which a marker was passed; 0 where that failed. */
static cl_ulong marker_time(tdm_opencl_probe_state *probe) {
    const tdm_opencl_api *const api = probe->api;
    cl_event event;
    if (OPENCL_CALL(api, clEnqueueMarkerWithWaitList, probe->queue, 0, NULL, &event) != CL_SUCCESS)
        return 0;
    cl_ulong time = 0;
    if (OPENCL_CALL(api, clFlush, probe->queue) != CL_SUCCESS || !finishes(probe, event) ||
        OPENCL_CALL(api, clGetEventProfilingInfo, event, CL_PROFILING_COMMAND_END, sizeof time,
                    &time, NULL) != CL_SUCCESS)
        time = 0;
    OPENCL_RELEASE(api, clReleaseEvent, event);
    return time;
}

bool tdm_opencl_probe_profiling(tdm_opencl_probe_state *probe) {
    const cl_ulong properties =
        tdm_opencl_device_ulong(probe->api, probe->record->id, CL_DEVICE_QUEUE_PROPERTIES);
    if (probe->hung || !(properties & CL_QUEUE_PROFILING_ENABLE))
        return false;
    const long long before = clock_ns();
    const cl_ulong first = marker_time(probe);
    const long long pause_begin = clock_ns();
    pause_ns(PAUSE_NS);
    const long long pause_end = clock_ns();
    const cl_ulong second = marker_time(probe);
    const long long after = clock_ns();
    if (first == 0 || second <= first)
        return false;
    // The clocks may drift and the markers may pass early or late, but not by a factor of two.
    const double passed = (double)(second - first);
    return passed >= 0.5 * (double)(pause_end - pause_begin) &&
           passed <= 2.0 * (double)(after - before);
}

/* ---- host tasks ----------------------------------------------------------------------------- */

/* Shared with the callback, which may come late or never: the last of the two frees it. */
typedef struct callback_note {
    atomic_int holders;
    atomic_bool called;
} callback_note;

static void note_release(callback_note *note) {
    if (atomic_fetch_sub(&note->holders, 1) == 1)
        tdm_host_free(note);
}

static void CL_CALLBACK note_call(cl_event event, cl_int status, void *user) {
    callback_note *const note = user;
    (void)event;
    (void)status;
    atomic_store(&note->called, true);
    note_release(note);
}

static bool callback_comes(const tdm_opencl_probe_state *probe, cl_event event) {
    callback_note *const note = tdm_host_calloc(1, sizeof *note);
    if (!note)
        return false;
    atomic_store(&note->holders, 2);
    if (OPENCL_CALL(probe->api, clSetEventCallback, event, CL_COMPLETE, note_call, note) !=
        CL_SUCCESS) {
        tdm_host_free(note);
        return false;
    }
    bool called = false;
    if (OPENCL_CALL(probe->api, clFlush, probe->queue) == CL_SUCCESS) {
        const long long deadline = clock_ns() + PATIENCE_NS;
        for (long pause = 1000; !(called = atomic_load(&note->called)) && clock_ns() < deadline;
             pause = pause < PAUSE_NS ? 2 * pause : pause)
            pause_ns(pause);
    }
    note_release(note);
    return called;
}

/*
 * As tdm_opencl_host_task does it: marker (with the callback), flush, barrier on the user event.
 * A last marker must wait until the user event is set.
 */
static bool holds_back(tdm_opencl_probe_state *probe, cl_event user) {
    const tdm_opencl_api *const api = probe->api;
    cl_event first = NULL, last = NULL;
    bool held =
        OPENCL_CALL(api, clEnqueueMarkerWithWaitList, probe->queue, 0, NULL, &first) ==
            CL_SUCCESS &&
        OPENCL_CALL(api, clFlush, probe->queue) == CL_SUCCESS &&
        OPENCL_CALL(api, clEnqueueBarrierWithWaitList, probe->queue, 1, &user, NULL) ==
            CL_SUCCESS &&
        OPENCL_CALL(api, clEnqueueMarkerWithWaitList, probe->queue, 0, NULL, &last) == CL_SUCCESS &&
        callback_comes(probe, first) && event_state(api, last) > CL_COMPLETE;
    // Set it whatever happened: the barrier would hold the queue for ever.
    if (!tdm_opencl_user_event_set(api, user))
        probe->hung = true;
    held = held && !probe->hung && finishes(probe, last);
    if (first)
        OPENCL_RELEASE(api, clReleaseEvent, first);
    if (last)
        OPENCL_RELEASE(api, clReleaseEvent, last);
    return held;
}

bool tdm_opencl_probe_host_task(tdm_opencl_probe_state *probe) {
    const tdm_opencl_api *const api = probe->api;
    if (probe->hung || probe->record->family->runs_in_calls || !api->clCreateUserEvent ||
        !api->clSetUserEventStatus || !api->clSetEventCallback)
        return false;
    cl_int code;
    const cl_event user = OPENCL_CREATE(api, &code, clCreateUserEvent, probe->context);
    if (!user)
        return false;
    const bool works = holds_back(probe, user);
    if (!probe->hung)
        OPENCL_RELEASE(api, clReleaseEvent, user);
    return works;
}
