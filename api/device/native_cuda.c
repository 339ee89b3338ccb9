/* Native handles of CUDA devices. */
#include <string.h>

#include "api/base/handles.h"
#include "api/device/core.h"
#include "api/device/device_internal.h"

#include <tandem/cuda.h>

static tdm_status check_backend(const char *function, const tdm_device *device) {
    if (strcmp(device->api->name, "cuda") != 0)
        return tdm_fail(TDM_UNSUPPORTED, "%s: %s is not a CUDA device", function,
                        device->info.selector);
    return TDM_OK;
}

tdm_status tdm_cuda_handles_of_device(tdm_device *device, int *device_id,
                                      struct CUctx_st **context) {
    if (device_id)
        *device_id = -1;
    if (context)
        *context = NULL;
    if (!device)
        return tdm_fail(TDM_BAD_ARGUMENT, "cuda_handles_of_device: device is NULL");
    TDM_TRY(check_backend("cuda_handles_of_device", device));
    if (device_id)
        *device_id = (int)(intptr_t)device->api->native(device->native, TDM_NATIVE_DEVICE, NULL);
    if (context)
        *context = device->api->native(device->native, TDM_NATIVE_CONTEXT, NULL);
    return TDM_OK;
}

tdm_status tdm_cuda_native_stream(tdm_stream *stream, struct CUstream_st **native) {
    if (!native)
        return tdm_fail(TDM_BAD_ARGUMENT, "cuda_native_stream: native is NULL");
    *native = NULL;
    if (!stream)
        return tdm_fail(TDM_BAD_ARGUMENT, "cuda_native_stream: stream is NULL");
    const tdm_device *const device = stream->device;
    TDM_TRY(check_backend("cuda_native_stream", device));
    *native = device->api->native(device->native, TDM_NATIVE_STREAM, stream->native);
    return TDM_OK;
}

tdm_status tdm_cuda_address_of_buffer(tdm_buffer *buffer, uint64_t *address) {
    if (!address)
        return tdm_fail(TDM_BAD_ARGUMENT, "cuda_address_of_buffer: address is NULL");
    *address = 0;
    if (!buffer)
        return tdm_fail(TDM_BAD_ARGUMENT, "cuda_address_of_buffer: buffer is NULL");
    TDM_TRY(tdm_handle_check(TDM_HANDLE_BUFFER, buffer, "cuda_address_of_buffer", "buffer"));
    tdm_device *const device = buffer->device;
    TDM_TRY(check_backend("cuda_address_of_buffer", device));
    // Dependencies cannot order commands that Tandem does not enqueue.
    tdm_device_wait_former_uses(device, buffer->block);
    void *const start =
        device->api->native(device->native, TDM_NATIVE_MEMORY, buffer->block->memory);
    *address = (uint64_t)(uintptr_t)start + buffer->block->offset;
    return TDM_OK;
}

tdm_status tdm_buffer_from_cuda(tdm_device *device, uint64_t address, size_t bytes,
                                tdm_buffer **buffer) {
    if (!buffer)
        return tdm_fail(TDM_BAD_ARGUMENT, "buffer_from_cuda: buffer is NULL");
    *buffer = NULL;
    if (!device || !address || bytes == 0)
        return tdm_fail(TDM_BAD_ARGUMENT, "buffer_from_cuda: %s",
                        !device    ? "device is NULL"
                        : !address ? "address is 0"
                                   : "bytes is 0");
    TDM_TRY(check_backend("buffer_from_cuda", device));
    return tdm_buffer_wrap("buffer_from_cuda", device, (void *)(uintptr_t)address, bytes, buffer);
}
