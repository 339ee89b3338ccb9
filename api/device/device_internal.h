/* What the context and the device share. */
#ifndef TANDEM_API_DEVICE_DEVICE_INTERNAL_H
#define TANDEM_API_DEVICE_DEVICE_INTERNAL_H

#include "api/device/core.h"

void tdm_context_retain(tdm_context *context);
void tdm_context_release(tdm_context *context);

/* One more reference to an open device. */
void tdm_device_retain(tdm_device *device);

/* The devices that somebody holds, each with one more reference; the list is of tdm_host_alloc. */
tdm_status tdm_context_open_devices(tdm_context *context, tdm_device ***devices, int *count);

/* Copy into a caller's struct of the same or an older, smaller size. */
tdm_status tdm_device_info_copy(const tdm_device_info *source, tdm_device_info *target);

/* TDM_NO_DEVICE, with the number of devices there are, or why there are none. */
tdm_status tdm_context_no_device(const tdm_context *context, const char *operation, int index);

/* The device as upstream of a pool of its memory, within the context's budget. */
tdm_pool_upstream tdm_device_upstream(tdm_device *device);

/* The device's own pool. */
tdm_status tdm_device_pool_create(tdm_device *device);

/* Wait until the stream has passed the command; a stream that is gone or broken has. */
void tdm_device_wait_use(tdm_device *device, tdm_use use);

/* Wait for enqueued work of the block's former lives: for users that no edge can hold back. */
void tdm_device_wait_former_uses(tdm_device *device, tdm_block *block);

/* A pool's statistics into a caller's struct of this or an older, smaller size. */
tdm_status tdm_pool_stats_copy(const char *operation, tdm_pool *pool, tdm_memory_stats *stats);

/*
 * A mark that stands for `use`: the stream passed that command when the mark's event is done. NULL
 * when it already passed (or the stream is gone). The caller releases it with tdm_mark_release.
 */
tdm_status tdm_device_mark(tdm_device *device, tdm_use use, tdm_mark **mark);
void tdm_mark_release(tdm_mark *mark);

/* A mark of everything enqueued on the stream so far; the stream is locked by the caller. */
tdm_status tdm_stream_mark_locked(tdm_stream *stream, uint64_t sequence, tdm_mark **mark);
/* A mark of its own even where nothing was enqueued since the last one: it carries a time stamp. */
tdm_status tdm_stream_mark_time_locked(tdm_stream *stream, tdm_mark **mark);

void tdm_stream_retain(tdm_stream *stream);
void tdm_stream_release(tdm_stream *stream);

/*
 * Run a function in stream order: by the backend where the device has TDM_CAP_HOST_TASK, else here, after a
 * wait for the stream. The stream is locked.
 */
tdm_status tdm_host_task_locked(tdm_stream *stream, const char *operation,
                                void (*function)(void *user), void *user);

/* The stream's sticky failure as status and detail, or TDM_OK; the stream is locked. */
tdm_status tdm_stream_failure_locked(tdm_stream *stream);

/* Remember a failure of enqueued work; the thread's detail text is what is remembered. Returns
 * `status`. */
tdm_status tdm_stream_fail_locked(tdm_stream *stream, tdm_status status);

#endif
