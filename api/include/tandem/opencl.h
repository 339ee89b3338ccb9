/*
 * The native objects behind OpenCL devices: take them out, wrap an own buffer.
 *
 * No header of OpenCL is included: the handles are pointers to the same structures that CL/cl.h
 * names, so a cl_mem can be passed as it is. On a device of another backend every function here
 * returns TDM_UNSUPPORTED. A device makes its own cl_context and a stream its own cl_command_queue: there is no way to give it
 * another one, so a program that has buffers of its own creates them in that cl_context.
 *
 * Handles that are taken out stay owned by Tandem and valid while the object they came from
 * lives; retain one to keep it longer. Work that is enqueued on them directly is not known to
 * Tandem: order it with tdm_stream_synchronize, or by enqueueing it on a stream's own queue.
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

/*
 * The cl_platform_id, cl_device_id and cl_context of a device; each out-pointer may be NULL. Not
 * blocking. Thread-safe. Statuses: TDM_BAD_ARGUMENT, TDM_UNSUPPORTED. Since 0.1.
 */
TDM_API tdm_status tdm_opencl_handles_of_device(tdm_device *device,
                                                struct _cl_platform_id **platform,
                                                struct _cl_device_id **device_id,
                                                struct _cl_context **context);

/*
 * The cl_command_queue of a stream: in order, with profiling where the device has it. Commands
 * that are enqueued on it take their place in the stream's order, as long as no other thread uses
 * the stream meanwhile. Statuses: TDM_BAD_ARGUMENT, TDM_UNSUPPORTED. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_opencl_queue_of_stream(tdm_stream *stream, struct _cl_command_queue **queue);

/*
 * The cl_mem a buffer lies in, and the offset of its first byte there (a cl_mem may hold several
 * buffers). Blocks until work of the memory's former owners has passed. Tandem does not know of commands
 * that are enqueued with the handle: destroy the buffer after they have passed. Statuses: TDM_BAD_ARGUMENT,
 * TDM_UNSUPPORTED. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_opencl_memory_of_buffer(tdm_buffer *buffer, struct _cl_mem **memory,
                                               size_t *offset);

/*
 * A buffer on the first `bytes` of a cl_mem, which must be a buffer object of the device's
 * cl_context. The cl_mem is retained until the buffer is gone; it does not count as the pool's.
 * The caller releases the result with tdm_buffer_destroy. Statuses: TDM_BAD_ARGUMENT (NULL, no
 * buffer object, another context, too small, 0 bytes), TDM_UNSUPPORTED, TDM_OUT_OF_HOST_MEMORY.
 * Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_buffer_from_opencl(tdm_device *device, struct _cl_mem *memory, size_t bytes,
                                          tdm_buffer **buffer);

#ifdef __cplusplus
}
#endif

#endif
