/*
 * The native objects behind CUDA devices: take them out, wrap own device memory.
 *
 * No header of CUDA is included: the handles are pointers to the same structures that cuda.h names, so a CUstream can be
 * used as it is, and a CUdeviceptr is a 64-bit number. On a device of another backend every function here returns
 * TDM_UNSUPPORTED.
 *
 * Handles that are taken out stay owned by Tandem and valid while the object they came from lives. Work that is enqueued on
 * them directly is not known to Tandem: order it with tdm_stream_synchronize, or by enqueueing it on a stream's own CUstream.
 */
#ifndef TANDEM_CUDA_H
#define TANDEM_CUDA_H

#include <tandem/memory.h>

#ifdef __cplusplus
extern "C" {
#endif

struct CUctx_st;
struct CUstream_st;

/*
 * The CUdevice and the CUcontext of a device; each out-pointer may be NULL. The context is the device's primary one, which
 * the runtime API uses too. Not blocking. Thread-safe. Statuses: TDM_BAD_ARGUMENT, TDM_UNSUPPORTED. Since 0.1.
 */
TDM_API tdm_status tdm_cuda_handles_of_device(tdm_device *device, int *device_id,
                                              struct CUctx_st **context);

/*
 * The CUstream of a stream: it does not synchronize with the legacy default stream. Commands that are enqueued on it take
 * their place in the stream's order, as long as no other thread uses the stream meanwhile. Statuses: TDM_BAD_ARGUMENT,
 * TDM_UNSUPPORTED. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_cuda_stream_of_stream(tdm_stream *stream, struct CUstream_st **native);

/*
 * The CUdeviceptr of a buffer's first byte. Blocks until work of the memory's former owners has passed. Tandem does not know
 * of commands that are enqueued with the address: destroy the buffer after they have passed. Statuses: TDM_BAD_ARGUMENT,
 * TDM_UNSUPPORTED. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_cuda_address_of_buffer(tdm_buffer *buffer, uint64_t *address);

/*
 * A buffer on `bytes` bytes of the device's own memory from a CUdeviceptr on, which is a multiple of the device's
 * alignment_bytes. The memory stays its owner's, who keeps it until the buffer is destroyed and its work has passed; it does
 * not count as the pool's. The caller releases the result with tdm_buffer_destroy. Statuses: TDM_BAD_ARGUMENT (NULL, 0
 * bytes, no allocation or too small a one, another device's, host memory, alignment), TDM_UNSUPPORTED,
 * TDM_OUT_OF_HOST_MEMORY. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_buffer_from_cuda(tdm_device *device, uint64_t address, size_t bytes,
                                        tdm_buffer **buffer);

#ifdef __cplusplus
}
#endif

#endif
