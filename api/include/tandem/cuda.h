/*
 * Native objects of CUDA devices: get their handles, or wrap device memory of the program.
 *
 * No header of CUDA is included. The handles are pointers to the same structures that cuda.h names,
 * so a CUstream can be used as it is. A CUdeviceptr is a 64-bit number. On a device of another
 * backend every function here returns TDM_UNSUPPORTED.
 *
 * The handles stay owned by Tandem and are valid while their object lives. Tandem does not know of
 * work that the program enqueues through CUDA. Order such work with tdm_stream_synchronize, or
 * enqueue it on the CUstream of the same tdm_stream.
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
 * Get the CUdevice and the CUcontext of a device; each out-pointer may be NULL. The context is the
 * device's primary one, which the runtime API uses too. Not blocking. Thread-safe. Statuses:
 * TDM_BAD_ARGUMENT, TDM_UNSUPPORTED. Since 0.1.
 */
TDM_API tdm_status tdm_cuda_handles_of_device(tdm_device *device, int *device_id,
                                              struct CUctx_st **context);

/*
 * Get the CUstream of a stream. It does not synchronize with the legacy default stream. Commands
 * enqueued on it follow the stream's order, as long as no other thread uses the stream meanwhile.
 * Statuses: TDM_BAD_ARGUMENT, TDM_UNSUPPORTED. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_cuda_native_stream(tdm_stream *stream, struct CUstream_st **native);

/*
 * Get the CUdeviceptr of a buffer's first byte. Blocks until work of the memory's previous owners
 * is done. Tandem does not know of commands that use the address: destroy the buffer after they are
 * done. Statuses: TDM_BAD_ARGUMENT, TDM_UNSUPPORTED. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_cuda_address_of_buffer(tdm_buffer *buffer, uint64_t *address);

/*
 * Create a buffer on `bytes` bytes of the device's own memory, starting at a CUdeviceptr that is a
 * multiple of the device's alignment_bytes. The memory stays owned by the caller, who must keep it
 * until the buffer is destroyed and its work is done. It does not count in the pool's statistics.
 * The caller releases the result with tdm_buffer_destroy. Statuses: TDM_BAD_ARGUMENT (NULL, 0
 * bytes, a range not within one allocation, another device's memory, host memory, alignment),
 * TDM_UNSUPPORTED, TDM_OUT_OF_HOST_MEMORY. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_buffer_from_cuda(tdm_device *device, uint64_t address, size_t bytes,
                                        tdm_buffer **buffer);

#ifdef __cplusplus
}
#endif

#endif
