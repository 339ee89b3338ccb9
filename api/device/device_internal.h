/* Declarations shared by the context and the device. */
#ifndef TANDEM_API_DEVICE_DEVICE_INTERNAL_H
#define TANDEM_API_DEVICE_DEVICE_INTERNAL_H

#include "api/device/core.h"

void tdm_context_retain(tdm_context *context);
void tdm_context_release(tdm_context *context);

/* Adds a reference to an open device. */
void tdm_device_retain(tdm_device *device);

/* Lists the open devices, each with a new reference. Free the list with tdm_host_free. */
tdm_status tdm_context_open_devices(tdm_context *context, tdm_device ***devices, int *count);

/* Copies the properties into a caller's struct, which may have an older, smaller size. */
tdm_status tdm_device_info_copy(const tdm_device_info *source, tdm_device_info *target);

/* Fails with TDM_NO_DEVICE. The detail gives the number of devices, or why there are none. */
tdm_status tdm_context_no_device(const tdm_context *context, const char *operation, int index);

/* Describes the device as the upstream of a pool of its memory, within the context's budget. */
tdm_pool_upstream tdm_device_upstream(tdm_device *device);

/* Creates the device's own pool. */
tdm_status tdm_device_pool_create(tdm_device *device);

/* Waits until the stream has completed the command. It returns at once if the stream no longer
 * exists or is broken. */
void tdm_device_wait_use(tdm_device *device, tdm_use use);

/* Waits for enqueued work of the block's earlier generations. Users outside the library's streams
 * need it, because dependencies cannot order them. */
void tdm_device_wait_former_uses(tdm_device *device, tdm_block *block);

/* Copies a pool's statistics into a caller's struct, which may have an older, smaller size. */
tdm_status tdm_pool_stats_copy(const char *operation, tdm_pool *pool, tdm_memory_stats *stats);

/*
 * Gets a fence for `use`: the stream has completed that command once the fence's event is complete.
 * The fence is NULL if it already has, or if the stream no longer exists. The caller releases it
 * with tdm_fence_release.
 */
tdm_status tdm_device_fence(tdm_device *device, tdm_use use, tdm_fence **fence);
void tdm_fence_release(tdm_fence *fence);

/* Gets a fence that completes after command `sequence` of the stream. The stream is locked. */
tdm_status tdm_stream_fence_locked(tdm_stream *stream, uint64_t sequence, tdm_fence **fence);
/* Gets a new fence with a time stamp, even if nothing was enqueued since the last one. */
tdm_status tdm_stream_fence_time_locked(tdm_stream *stream, tdm_fence **fence);

void tdm_stream_retain(tdm_stream *stream);
void tdm_stream_release(tdm_stream *stream);

/* Runs a function in stream order. The backend does so if the device has TDM_CAP_HOST_TASK.
 * Otherwise the calling thread waits for the stream and runs the function. The stream is locked. */
tdm_status tdm_host_task_locked(tdm_stream *stream, const char *operation,
                                void (*function)(void *user), void *user);

/* Returns the stream's sticky failure as status and detail, or TDM_OK. The stream is locked. */
tdm_status tdm_stream_failure_locked(tdm_stream *stream);

/* Stores a failure of enqueued work with the thread's detail text. Returns `status`. */
tdm_status tdm_stream_fail_locked(tdm_stream *stream, tdm_status status);

#endif
