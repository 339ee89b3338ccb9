/*
 * Streams (in-order queues of one device), events and recorded graphs.
 *
 * Operations enqueue on a stream and return. tdm_stream_synchronize, events and blocking copies
 * wait. Different streams may be used from different threads. Several threads may use one stream
 * too: each call locks it, and the order among threads is the order of the calls.
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
 * Create a stream on a device. The caller releases it with tdm_stream_destroy. The stream keeps its
 * device alive. Statuses: TDM_BAD_ARGUMENT, TDM_OUT_OF_HOST_MEMORY, TDM_DEVICE_LOST, TDM_INTERNAL.
 * Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_stream_create(tdm_device *device, tdm_stream **stream);

/* Release a stream; NULL is accepted. The call waits for enqueued work, which still runs to its
 * end. It must not be called while another thread uses the stream. Since 0.1. */
TDM_API void tdm_stream_destroy(tdm_stream *stream);

/*
 * Wait until everything enqueued so far is done. A failure of enqueued work is sticky: this call
 * and later operations on the stream return it until tdm_stream_clear_failure. The detail names the
 * operation that failed. Statuses: TDM_BAD_ARGUMENT, TDM_BAD_STATE (the stream is recording), the
 * failure. Since 0.1.
 */
TDM_API tdm_status tdm_stream_synchronize(tdm_stream *stream);

/* Hand enqueued work to the device without waiting. Statuses as tdm_stream_synchronize. Since 0.1.
 */
TDM_API tdm_status tdm_stream_flush(tdm_stream *stream);

/* Clear a sticky failure. The results of the failed work stay undefined. TDM_DEVICE_LOST cannot be
 * cleared. Statuses: TDM_BAD_ARGUMENT, TDM_DEVICE_LOST. Since 0.1. */
TDM_API tdm_status tdm_stream_clear_failure(tdm_stream *stream);

/*
 * Run a host function in stream order, after earlier work and before later work of the stream. The
 * function must not call Tandem. It runs on a thread of the driver or of the library, or on the
 * calling thread (see below). If the call succeeds, the function runs exactly once, even if earlier
 * work failed. If the device is lost, it runs at the latest in the wait that reports the loss, or
 * in tdm_stream_destroy, on that thread. user must stay valid until then.
 *
 * Not blocking if the device has TDM_CAP_HOST_TASK. Otherwise the call waits for the stream and
 * runs the function itself. Statuses: TDM_BAD_ARGUMENT, TDM_OUT_OF_HOST_MEMORY, the stream's
 * failure. Since 0.1.
 */
TDM_API tdm_status tdm_stream_host_task(tdm_stream *stream, void (*function)(void *user),
                                        void *user);

/*
 * Record an event. It is done when everything enqueued on the stream so far is done. The caller
 * releases it with tdm_event_destroy. Not blocking if the device has TDM_CAP_PROFILING or
 * TDM_CAP_HOST_TASK. Otherwise the call waits for the stream, so that the event has a time.
 * Statuses: TDM_BAD_ARGUMENT, TDM_BAD_STATE (recording), TDM_OUT_OF_HOST_MEMORY, the stream's
 * failure. Since 0.1.
 */
TDM_API tdm_status tdm_event_record(tdm_stream *stream, tdm_event **event);

/* Release an event; NULL is accepted. Thread-safe. Since 0.1. */
TDM_API void tdm_event_destroy(tdm_event *event);

/* Wait for an event. Statuses: TDM_BAD_ARGUMENT, the failure of the work before it. Thread-safe.
 * Since 0.1. */
TDM_API tdm_status tdm_event_wait(tdm_event *event);

/* *done = 1 if the event is done, else 0; does not block. Statuses as tdm_event_wait. Thread-safe.
 * Since 0.1. */
TDM_API tdm_status tdm_event_query(tdm_event *event, int *done);

/*
 * Make later work of `stream` wait for `event`, which may belong to another stream of the same
 * device. Does not block the host. Statuses: TDM_BAD_ARGUMENT (NULL, or the event's device
 * differs), TDM_BAD_STATE, the failure. Since 0.1.
 */
TDM_API tdm_status tdm_stream_wait_event(tdm_stream *stream, tdm_event *event);

/*
 * *nanoseconds = time from `start` to `end`. Both events must be done and on one device. The
 * device's clock is used if the device has TDM_CAP_PROFILING. Otherwise the host's clock is used,
 * read by a host task just before the event. *from_device (may be NULL) is 1 for the device's
 * clock, else 0. Statuses: TDM_BAD_ARGUMENT, TDM_BAD_STATE (not done), the failure of the work
 * before an event. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_event_elapsed(tdm_event *start, tdm_event *end, double *nanoseconds,
                                     int *from_device);

/*
 * Start recording. Until tdm_stream_end_recording, operations on the stream are checked as usual
 * but only recorded, not run. Operations that would allocate, build, wait, or copy from or to the
 * host are refused with TDM_BAD_STATE. The run functions of plans never do those. Other operations
 * build on their first run, so run them once before recording. Statuses: TDM_BAD_ARGUMENT,
 * TDM_BAD_STATE (already recording), TDM_OUT_OF_HOST_MEMORY, the failure. Since 0.1.
 */
TDM_API tdm_status tdm_stream_begin_recording(tdm_stream *stream);

/*
 * End a recording. The caller releases the graph with tdm_graph_destroy. The graph keeps every
 * block that it uses until it is destroyed. Statuses: TDM_BAD_ARGUMENT, TDM_BAD_STATE (not
 * recording), TDM_OUT_OF_HOST_MEMORY. Since 0.1.
 */
TDM_API tdm_status tdm_stream_end_recording(tdm_stream *stream, tdm_graph **graph);

/*
 * Enqueue all recorded commands in the recorded order. They are the same kernels with the same
 * arguments, so results have the same bits. The stream may differ from the recorded one, but the
 * device must be the same. Only one thread at a time may launch a graph. Statuses:
 * TDM_BAD_ARGUMENT, TDM_BAD_STATE, the failure. Since 0.1.
 */
TDM_API tdm_status tdm_graph_launch(tdm_graph *graph, tdm_stream *stream);

/* Returns the number of recorded commands; 0 for NULL. Since 0.1. */
TDM_API int tdm_graph_command_count(const tdm_graph *graph);

/* Release a graph; NULL is accepted; legal while its work is in flight. Since 0.1. */
TDM_API void tdm_graph_destroy(tdm_graph *graph);

#ifdef __cplusplus
}
#endif

#endif
