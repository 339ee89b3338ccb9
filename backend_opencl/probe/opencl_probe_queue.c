/*
 * The capabilities that only running commands can show. Every function here gives up after some
 * time.
 */
#include <time.h>

#include "backend_opencl/probe/opencl_probe.h"

#define PATIENCE 2000 /* queries, a pause apart */
#define PAUSE_NS 1000000L

static long long clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void pause_ns(long nanoseconds) {
    const struct timespec pause = {.tv_nsec = nanoseconds};
    nanosleep(&pause, NULL);
}

/* Returns CL_COMPLETE, an earlier state, or a negative code. */
static cl_int event_state(const tdm_opencl_api *api, cl_event event) {
    cl_int state = CL_QUEUED;
    const cl_int code = OPENCL_CALL(api, clGetEventInfo, event, CL_EVENT_COMMAND_EXECUTION_STATUS,
                                    sizeof state, &state, NULL);
    return code == CL_SUCCESS ? state : code;
}

/*
 * Waits for the event, but not for ever. The limit counts queries rather than time. If the process
 * was stopped, or the machine was busy, the driver had no more time than this thread.
 */
static bool finishes(const tdm_opencl_probe_state *probe, cl_event event) {
    long pause = 1000;
    for (int questions = 0; questions < PATIENCE; questions++) {
        const cl_int state = event_state(probe->api, event);
        if (state <= CL_COMPLETE)
            return state == CL_COMPLETE;
        pause_ns(pause);
        pause = pause < PAUSE_NS ? 2 * pause : pause;
    }
    return false;
}

/* ---- profiling ------------------------------------------------------------------------------- */

/* Returns the device time at which a marker completed, or 0 on failure. */
static cl_ulong marker_time(const tdm_opencl_probe_state *probe) {
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
    if (probe->hung || !(probe->record->queue_properties & CL_QUEUE_PROFILING_ENABLE))
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
    // The clocks may drift and the markers may complete early or late, but not by a factor of two.
    const double passed = (double)(second - first);
    return passed >= 0.5 * (double)(pause_end - pause_begin) &&
           passed <= 2.0 * (double)(after - before);
}

/* ---- host tasks ------------------------------------------------------------------------------ */

/*
 * The commands of two consecutive host tasks, [0] and [1]. Each is a marker, a flush, a barrier on
 * a user event, and a flush.
 */
typedef struct task_pair {
    cl_event marker[2];
    cl_event held[2];
} task_pair;

static bool enqueue_pair(const tdm_opencl_probe_state *probe, task_pair *pair) {
    const tdm_opencl_api *const api = probe->api;
    for (int i = 0; i < 2; i++) {
        cl_int code;
        pair->held[i] = OPENCL_CREATE(api, &code, clCreateUserEvent, probe->context);
        if (!pair->held[i] ||
            OPENCL_CALL(api, clEnqueueMarkerWithWaitList, probe->queue, 0, NULL,
                        &pair->marker[i]) != CL_SUCCESS ||
            OPENCL_CALL(api, clFlush, probe->queue) != CL_SUCCESS ||
            OPENCL_CALL(api, clEnqueueBarrierWithWaitList, probe->queue, 1, &pair->held[i], NULL) !=
                CL_SUCCESS ||
            OPENCL_CALL(api, clFlush, probe->queue) != CL_SUCCESS)
            return false;
    }
    return true;
}

/*
 * True if the first marker completes, and the second one completes only after the first user event
 * is set.
 */
static bool pair_in_order(const tdm_opencl_probe_state *probe, const task_pair *pair, bool set[2]) {
    if (!finishes(probe, pair->marker[0]) ||
        event_state(probe->api, pair->marker[1]) <= CL_COMPLETE)
        return false;
    set[0] = tdm_opencl_user_event_set(probe->api, pair->held[0]);
    return set[0] && finishes(probe, pair->marker[1]);
}

bool tdm_opencl_probe_host_task(tdm_opencl_probe_state *probe) {
    const tdm_opencl_api *const api = probe->api;
    const tdm_opencl_family *const family = probe->record->family;
    if (probe->hung || family->runs_in_calls || family->late_markers || !api->clCreateUserEvent ||
        !api->clSetUserEventStatus)
        return false;
    task_pair pair = {0};
    bool set[2] = {false, false};
    const bool works = enqueue_pair(probe, &pair) && pair_in_order(probe, &pair, set);
    for (int i = 0; i < 2; i++) {
        // The user events are set in any case, because the barriers would hold the queue for ever.
        if (pair.held[i] && !set[i] && !tdm_opencl_user_event_set(api, pair.held[i]))
            probe->hung = true;
        if (pair.held[i])
            OPENCL_RELEASE(api, clReleaseEvent, pair.held[i]);
        if (pair.marker[i])
            OPENCL_RELEASE(api, clReleaseEvent, pair.marker[i]);
    }
    return works && !probe->hung;
}
