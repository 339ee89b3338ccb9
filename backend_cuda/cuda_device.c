/* Opening a device: its primary context, and making that context current. */
#include "backend_cuda/cuda_internal.h"

static tdm_status open_failure(const tdm_cuda_record *record, CUresult code) {
    const char *const hint =
        code == CUDA_ERROR_DEVICE_UNAVAILABLE
            ? "; another process uses it exclusively (nvidia-smi -c 0 lets processes share it)"
            : "";
    return tdm_fail(tdm_cuda_status(code), "%s: cuDevicePrimaryCtxRetain: %s (%u)%s",
                    record->info.name, tdm_cuda_error_name(code), code, hint);
}

tdm_status tdm_cuda_device_open(tdm_bk_instance *instance, int index, tdm_bk_device **device) {
    const tdm_cuda_record *const record = &instance->records[index];
    tdm_bk_device *const opened = tdm_host_calloc(1, sizeof *opened);
    if (!opened)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "%s: no host memory", record->info.name);
    opened->api = &instance->api;
    opened->record = record;
    pthread_mutex_init(&opened->modules_lock, NULL);
    pthread_mutex_init(&opened->maps_lock, NULL);
    const CUresult code =
        CUDA_CALL(opened->api, cuDevicePrimaryCtxRetain, &opened->context, record->id);
    if (code != CUDA_SUCCESS) {
        opened->context = NULL;
        tdm_cuda_device_close(opened);
        return open_failure(record, code);
    }
    *device = opened;
    return TDM_OK;
}

void tdm_cuda_device_close(tdm_bk_device *device) {
    if (device->context) {
        const bool entered = tdm_cuda_enter_always(device) == CUDA_SUCCESS;
        tdm_cuda_modules_unload(device, entered);
        if (entered)
            tdm_cuda_leave(device);
        CUDA_RELEASE(device->api, cuDevicePrimaryCtxRelease, device->record->id);
    }
    pthread_mutex_destroy(&device->modules_lock);
    pthread_mutex_destroy(&device->maps_lock);
    tdm_host_free(device->maps);
    tdm_host_free(device);
}

tdm_status tdm_cuda_enter(const tdm_bk_device *device, const char *what) {
    CUDA_TRY(what, device->api, cuCtxPushCurrent, device->context);
    return TDM_OK;
}

CUresult tdm_cuda_enter_always(const tdm_bk_device *device) {
    const int fault = tdm_fault("cuCtxPushCurrent");
    const CUresult code = device->api->cuCtxPushCurrent(device->context);
    tdm_cuda_released(fault, code, "cuCtxPushCurrent");
    return code;
}

void tdm_cuda_leave(const tdm_bk_device *device) {
    CUcontext left;
    CUDA_RELEASE(device->api, cuCtxPopCurrent, &left);
}

void *tdm_cuda_native(tdm_bk_device *device, tdm_native_kind kind, void *object) {
    switch (kind) {
    case TDM_NATIVE_PLATFORM:
        return NULL;
    case TDM_NATIVE_DEVICE:
        return (void *)(intptr_t)device->record->id;
    case TDM_NATIVE_CONTEXT:
        return device->context;
    case TDM_NATIVE_STREAM:
        return ((const tdm_bk_stream *)object)->stream;
    case TDM_NATIVE_MEMORY:
        return (void *)(uintptr_t)((const tdm_bk_memory *)object)->address;
    }
    return NULL;
}
