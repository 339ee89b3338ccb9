/*
 * Native objects of OpenCL devices: get their handles, or wrap a cl_mem of the program.
 *
 * No header of OpenCL is included. The handles are pointers to the same structures that CL/cl.h
 * names, so a cl_mem can be passed as it is. On a device of another backend every function here
 * returns TDM_UNSUPPORTED. A device always makes its own cl_context, and a stream its own
 * cl_command_queue. A program that has its own buffers must create them in that cl_context.
 *
 * The handles stay owned by Tandem and are valid while their object lives; retain one to keep it
 * longer. Tandem does not know of work that is enqueued on them directly. Order such work with
 * tdm_stream_synchronize, or enqueue it on a stream's own queue.
 */
#ifndef TANDEM_OPENCL_H
#define TANDEM_OPENCL_H

#include <tandem/memory.h>

#ifdef __cplusplus
extern "C" {
#endif

struct _cl_platform_id;
struct _cl_device_id;
struct _cl_context;
struct _cl_command_queue;
struct _cl_mem;

/* Get the cl_platform_id, cl_device_id and cl_context of a device; each out-pointer may be NULL.
 * Not blocking. Thread-safe. Statuses: TDM_BAD_ARGUMENT, TDM_UNSUPPORTED. Since 0.1. */
TDM_API tdm_status tdm_opencl_handles_of_device(tdm_device *device,
                                                struct _cl_platform_id **platform,
                                                struct _cl_device_id **device_id,
                                                struct _cl_context **context);

/*
 * Get the cl_command_queue of a stream. The queue is in order, and has profiling if the device
 * supports it. Commands enqueued on it follow the stream's order, as long as no other thread uses
 * the stream meanwhile. Statuses: TDM_BAD_ARGUMENT, TDM_UNSUPPORTED. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_opencl_queue_of_stream(tdm_stream *stream, struct _cl_command_queue **queue);

/*
 * Get the cl_mem that holds a buffer, and the offset of the buffer's first byte (a cl_mem may hold
 * several buffers). Blocks until work of the memory's previous owners is done. Tandem does not know
 * of commands that use the handle: destroy the buffer after they are done. Statuses:
 * TDM_BAD_ARGUMENT, TDM_UNSUPPORTED. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_opencl_memory_of_buffer(tdm_buffer *buffer, struct _cl_mem **memory,
                                               size_t *offset);

/*
 * Create a buffer on the first `bytes` of a cl_mem, which must be a buffer object of the device's
 * cl_context. Tandem retains the cl_mem until the buffer is released. It does not count in the
 * pool's statistics. The caller releases the result with tdm_buffer_destroy. Statuses:
 * TDM_BAD_ARGUMENT (NULL, not a buffer object, another context, too small, 0 bytes),
 * TDM_UNSUPPORTED, TDM_OUT_OF_HOST_MEMORY. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_buffer_from_opencl(tdm_device *device, struct _cl_mem *memory, size_t bytes,
                                          tdm_buffer **buffer);

#ifdef __cplusplus
}
#endif

#endif
