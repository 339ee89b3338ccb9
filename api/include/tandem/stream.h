/*
 * Streams (in-order queues of one device) and events.
 *
 * Operations enqueue on a stream and return; tdm_stream_synchronize, events and blocking copies
 * wait. Different streams may be used from different threads. One stream may be used from several
 * threads too: each call locks it, and the order among threads is the order of the calls.
 */
#ifndef TANDEM_STREAM_H
#define TANDEM_STREAM_H

#include <tandem/device.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tdm_stream tdm_stream;
typedef struct tdm_event tdm_event;
typedef struct tdm_graph tdm_graph;

/*
 * Create a stream on a device. The caller releases it with tdm_stream_destroy; it keeps its device
 * alive. Statuses: TDM_BAD_ARGUMENT, TDM_OUT_OF_HOST_MEMORY, TDM_DEVICE_LOST, TDM_INTERNAL.
 * Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_stream_create(tdm_device *device, tdm_stream **stream);

/*
 * Release a stream; NULL is accepted. Work that was enqueued still runs to its end (the call waits
 * for it). Not to be called while another thread uses the stream. Since 0.1.
 */
TDM_API void tdm_stream_destroy(tdm_stream *stream);

/*
 * Wait until everything enqueued so far is done. A failure of enqueued work is sticky: it is
 * returned here (and by later operations on the stream) with the name of the operation in the
 * detail, until tdm_stream_clear_failure. Statuses: TDM_BAD_ARGUMENT, TDM_BAD_STATE (the stream is
 * recording), the failure. Since 0.1.
 */
TDM_API tdm_status tdm_stream_synchronize(tdm_stream *stream);

/* Hand enqueued work to the device without waiting. Statuses as tdm_stream_synchronize. Since 0.1.
 */
TDM_API tdm_status tdm_stream_flush(tdm_stream *stream);

/*
 * Forget a sticky failure. Results of the failed work are undefined. TDM_DEVICE_LOST stays.
 * Statuses: TDM_BAD_ARGUMENT, TDM_DEVICE_LOST. Since 0.1.
 */
TDM_API tdm_status tdm_stream_clear_failure(tdm_stream *stream);

/*
 * Run a host function in stream order: after what was enqueued before, before what is enqueued
 * after. The function runs in a thread of the driver or of the library and must not call Tandem.
 * It runs exactly once where the call succeeds, also where work before it failed; where the device is lost it
 * runs at the latest in the wait that tells so, or in tdm_stream_destroy, on that thread.
 * user must stay valid until then. Statuses: TDM_BAD_ARGUMENT, TDM_OUT_OF_HOST_MEMORY, the stream's
 * failure. Not blocking where the device has TDM_CAP_HOST_TASK; elsewhere the call waits for the
 * stream and runs the function itself. Since 0.1.
 */
TDM_API tdm_status tdm_stream_host_task(tdm_stream *stream, void (*function)(void *user),
                                        void *user);

/*
 * Record an event: it is done when everything enqueued on the stream so far is done. The caller
 * releases it with tdm_event_destroy. Not blocking where the device has TDM_CAP_PROFILING or
 * TDM_CAP_HOST_TASK; elsewhere the call waits for the stream, so that the event has a time.
 * Statuses: TDM_BAD_ARGUMENT, TDM_BAD_STATE (recording), TDM_OUT_OF_HOST_MEMORY, the stream's
 * failure. Since 0.1.
 */
TDM_API tdm_status tdm_event_record(tdm_stream *stream, tdm_event **event);

/* Release an event; NULL is accepted. Thread-safe. Since 0.1. */
TDM_API void tdm_event_destroy(tdm_event *event);

/* Wait for an event. Statuses: TDM_BAD_ARGUMENT, the failure of the work before it. Thread-safe.
 * Since 0.1. */
TDM_API tdm_status tdm_event_wait(tdm_event *event);

/* *done = 1 when the event is done, else 0; does not block. Statuses as tdm_event_wait.
 * Thread-safe. Since 0.1. */
TDM_API tdm_status tdm_event_query(tdm_event *event, int *done);

/*
 * Make later work of `stream` wait for `event`, which may belong to another stream of the same
 * device. Does not block the host. Statuses: TDM_BAD_ARGUMENT (NULL, or the event's device
 * differs), TDM_BAD_STATE, the failure. Since 0.1.
 */
TDM_API tdm_status tdm_stream_wait_event(tdm_stream *stream, tdm_event *event);

/*
 * Nanoseconds from `start` to `end`, both done, both of one device. By the device's clock where it
 * has TDM_CAP_PROFILING, otherwise by the host's clock (the time at which a host task just before
 * the event ran): *from_device says which (may be NULL). Statuses:
 * TDM_BAD_ARGUMENT, TDM_BAD_STATE (not done). Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_event_elapsed(tdm_event *start, tdm_event *end, double *nanoseconds,
                                     int *from_device);

/*
 * Record instead of run: from here to tdm_stream_end_recording, operations on the stream are
 * checked as always but only noted down. Operations that would allocate, build, wait or read on the
 * host are refused with TDM_BAD_STATE (plans' run functions never do those; others build where they run for the first time,
 * so run them once before). Statuses:
 * TDM_BAD_ARGUMENT, TDM_BAD_STATE (already recording), the failure. Since 0.1.
 */
TDM_API tdm_status tdm_stream_begin_recording(tdm_stream *stream);

/*
 * End a recording. The graph keeps every block it uses until it is destroyed. The caller releases
 * it with tdm_graph_destroy. Statuses: TDM_BAD_ARGUMENT, TDM_BAD_STATE (not recording),
 * TDM_OUT_OF_HOST_MEMORY. Since 0.1.
 */
TDM_API tdm_status tdm_stream_end_recording(tdm_stream *stream, tdm_graph **graph);

/*
 * Enqueue everything that was recorded, in the recorded order: the same kernels with the same
 * arguments, so the same bits. The stream may differ from the recorded one, the device must not.
 * Statuses: TDM_BAD_ARGUMENT, TDM_BAD_STATE, the failure. A graph may be launched from one thread
 * at a time. Since 0.1.
 */
TDM_API tdm_status tdm_graph_launch(tdm_graph *graph, tdm_stream *stream);

/* Number of recorded commands; 0 for NULL. Since 0.1. */
TDM_API int tdm_graph_command_count(const tdm_graph *graph);

/* Release a graph; NULL is accepted; legal while its work is in flight. Since 0.1. */
TDM_API void tdm_graph_destroy(tdm_graph *graph);

#ifdef __cplusplus
}
#endif

#endif
