/* Native allocations: device memory, pinned host memory, wrapped memory of the caller. */
#include "backend_cuda/cuda_internal.h"

static CUresult allocate(tdm_bk_device *device, tdm_memory_kind kind, size_t bytes,
                         tdm_bk_memory *memory, const char **call) {
    const tdm_cuda_api *const api = device->api;
    *call = "cuMemAlloc";
    if (kind == TDM_MEMORY_DEVICE)
        return CUDA_CALL(api, cuMemAlloc, &memory->address, bytes);
    // Portable: the memory is pinned for every context, so that two devices can share it.
    *call = "cuMemHostAlloc";
    CUresult code = CUDA_CALL(api, cuMemHostAlloc, &memory->host, bytes,
                              CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    if (code != CUDA_SUCCESS)
        return code;
    *call = "cuMemHostGetDevicePointer";
    code = CUDA_CALL(api, cuMemHostGetDevicePointer, &memory->address, memory->host, 0);
    if (code != CUDA_SUCCESS)
        CUDA_RELEASE(api, cuMemFreeHost, memory->host);
    return code;
}

tdm_status tdm_cuda_memory_alloc(tdm_bk_device *device, tdm_memory_kind kind, size_t bytes,
                                 tdm_bk_memory **memory) {
    tdm_bk_memory *const created = tdm_host_calloc(1, sizeof *created);
    if (!created)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "%zu bytes of device memory: no host memory",
                        bytes);
    tdm_status status = tdm_cuda_enter(device, "device memory");
    if (status == TDM_OK) {
        const char *call;
        const CUresult code = allocate(device, kind, bytes, created, &call);
        tdm_cuda_leave(device);
        if (code != CUDA_SUCCESS)
            status = tdm_fail(tdm_cuda_status(code), "%zu bytes of %s memory: %s: %s (%u)", bytes,
                              kind == TDM_MEMORY_DEVICE ? "device" : "pinned", call,
                              tdm_cuda_error_name(code), code);
    }
    if (status != TDM_OK) {
        tdm_host_free(created);
        return status;
    }
    *memory = created;
    return TDM_OK;
}

void tdm_cuda_memory_free(tdm_bk_device *device, tdm_bk_memory *memory) {
    if (!memory->foreign && tdm_cuda_enter_always(device) == CUDA_SUCCESS) {
        if (memory->host)
            CUDA_RELEASE(device->api, cuMemFreeHost, memory->host);
        else
            CUDA_RELEASE(device->api, cuMemFree, memory->address);
        tdm_cuda_leave(device);
    }
    tdm_host_free(memory);
}

/* Checks that `address` is the start of `bytes` bytes of the device's memory. */
static tdm_status check_foreign(const tdm_bk_device *device, CUdeviceptr address, size_t bytes) {
    const tdm_cuda_api *const api = device->api;
    CUmemorytype type = 0;
    int ordinal = -1;
    CUdeviceptr base = 0;
    size_t size = 0;
    if (address % device->record->info.alignment_bytes != 0)
        return tdm_fail(TDM_BAD_ARGUMENT, "wrapped memory: the address is not a multiple of %u",
                        device->record->info.alignment_bytes);
    CUDA_TRY("wrapped memory", api, cuPointerGetAttribute, &type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
             address);
    CUDA_TRY("wrapped memory", api, cuPointerGetAttribute, &ordinal,
             CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address);
    if (type != CU_MEMORYTYPE_DEVICE)
        return tdm_fail(TDM_BAD_ARGUMENT, "wrapped memory: the address is not in device memory");
    if (ordinal != device->record->ordinal)
        return tdm_fail(TDM_BAD_ARGUMENT,
                        "wrapped memory: the address belongs to device %d, not %d", ordinal,
                        device->record->ordinal);
    const CUresult code = CUDA_CALL(api, cuMemGetAddressRange, &base, &size, address);
    if (code == CUDA_ERROR_NOT_FOUND)
        return tdm_fail(TDM_BAD_ARGUMENT, "wrapped memory: the address is not in an allocation: "
                                          "cuMemGetAddressRange: CUDA_ERROR_NOT_FOUND (500)");
    if (code != CUDA_SUCCESS)
        return tdm_cuda_fail(code, "wrapped memory", "cuMemGetAddressRange");
    if (size - (size_t)(address - base) < bytes)
        return tdm_fail(
            TDM_BAD_ARGUMENT,
            "wrapped memory: the allocation has %zu bytes after the address, bytes is %zu",
            size - (size_t)(address - base), bytes);
    return TDM_OK;
}

tdm_status tdm_cuda_memory_wrap(tdm_bk_device *device, void *native, size_t bytes,
                                tdm_bk_memory **memory) {
    const CUdeviceptr address = (uintptr_t)native;
    tdm_status status = tdm_cuda_enter(device, "wrapped memory");
    if (status != TDM_OK)
        return status;
    status = check_foreign(device, address, bytes);
    tdm_cuda_leave(device);
    if (status != TDM_OK)
        // An address outside every allocation is the caller's mistake.
        return status == TDM_INTERNAL ? TDM_BAD_ARGUMENT : status;
    tdm_bk_memory *const created = tdm_host_calloc(1, sizeof *created);
    if (!created)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "wrapped memory: no host memory");
    created->address = address;
    created->foreign = true;
    *memory = created;
    return TDM_OK;
}

tdm_status tdm_cuda_memory_host_address(tdm_bk_device *device, tdm_bk_memory *memory,
                                        void **address) {
    (void)device;
    *address = memory->host;
    return TDM_OK;
}

tdm_status tdm_cuda_memory_free_bytes(tdm_bk_device *device, uint64_t *bytes) {
    size_t free_bytes = 0, total = 0;
    const tdm_status status = tdm_cuda_enter(device, "free memory");
    if (status != TDM_OK)
        return status;
    const CUresult code = CUDA_CALL(device->api, cuMemGetInfo, &free_bytes, &total);
    tdm_cuda_leave(device);
    if (code != CUDA_SUCCESS)
        return tdm_cuda_fail(code, "free memory", "cuMemGetInfo");
    *bytes = free_bytes;
    return TDM_OK;
}
