/*
 * Native handles of OpenCL devices. This file and native_cuda.c compare the backend's name, because
 * a native handle belongs to one backend.
 */
#include <string.h>

#include "api/base/handles.h"
#include "api/device/core.h"
#include "api/device/device_internal.h"

#include <tandem/opencl.h>

static tdm_status check_backend(const char *function, const tdm_device *device) {
    if (strcmp(device->api->name, "opencl") != 0)
        return tdm_fail(TDM_UNSUPPORTED, "%s: %s is not an OpenCL device", function,
                        device->info.selector);
    return TDM_OK;
}

tdm_status tdm_opencl_handles_of_device(tdm_device *device, struct _cl_platform_id **platform,
                                        struct _cl_device_id **device_id,
                                        struct _cl_context **context) {
    if (platform)
        *platform = NULL;
    if (device_id)
        *device_id = NULL;
    if (context)
        *context = NULL;
    if (!device)
        return tdm_fail(TDM_BAD_ARGUMENT, "opencl_handles_of_device: device is NULL");
    TDM_TRY(check_backend("opencl_handles_of_device", device));
    if (platform)
        *platform = device->api->native(device->native, TDM_NATIVE_PLATFORM, NULL);
    if (device_id)
        *device_id = device->api->native(device->native, TDM_NATIVE_DEVICE, NULL);
    if (context)
        *context = device->api->native(device->native, TDM_NATIVE_CONTEXT, NULL);
    return TDM_OK;
}

tdm_status tdm_opencl_queue_of_stream(tdm_stream *stream, struct _cl_command_queue **queue) {
    if (!queue)
        return tdm_fail(TDM_BAD_ARGUMENT, "opencl_queue_of_stream: queue is NULL");
    *queue = NULL;
    if (!stream)
        return tdm_fail(TDM_BAD_ARGUMENT, "opencl_queue_of_stream: stream is NULL");
    const tdm_device *const device = stream->device;
    TDM_TRY(check_backend("opencl_queue_of_stream", device));
    *queue = device->api->native(device->native, TDM_NATIVE_STREAM, stream->native);
    return TDM_OK;
}

tdm_status tdm_opencl_memory_of_buffer(tdm_buffer *buffer, struct _cl_mem **memory,
                                       size_t *offset) {
    if (!memory || !offset)
        return tdm_fail(TDM_BAD_ARGUMENT, "opencl_memory_of_buffer: %s is NULL",
                        memory ? "offset" : "memory");
    *memory = NULL;
    *offset = 0;
    if (!buffer)
        return tdm_fail(TDM_BAD_ARGUMENT, "opencl_memory_of_buffer: buffer is NULL");
    TDM_TRY(tdm_handle_check(TDM_HANDLE_BUFFER, buffer, "opencl_memory_of_buffer", "buffer"));
    tdm_device *const device = buffer->device;
    TDM_TRY(check_backend("opencl_memory_of_buffer", device));
    // Dependencies cannot order commands that Tandem does not enqueue.
    tdm_device_wait_former_uses(device, buffer->block);
    *memory = device->api->native(device->native, TDM_NATIVE_MEMORY, buffer->block->memory);
    *offset = (size_t)buffer->block->offset;
    return TDM_OK;
}

tdm_status tdm_buffer_from_opencl(tdm_device *device, struct _cl_mem *memory, size_t bytes,
                                  tdm_buffer **buffer) {
    if (!buffer)
        return tdm_fail(TDM_BAD_ARGUMENT, "buffer_from_opencl: buffer is NULL");
    *buffer = NULL;
    if (!device || !memory || bytes == 0)
        return tdm_fail(TDM_BAD_ARGUMENT, "buffer_from_opencl: %s",
                        !device   ? "device is NULL"
                        : !memory ? "memory is NULL"
                                  : "bytes is 0");
    TDM_TRY(check_backend("buffer_from_opencl", device));
    return tdm_buffer_wrap("buffer_from_opencl", device, memory, bytes, buffer);
}
