/* The driver's own allocator in the order of a stream, which `tandem bench pool` puts beside the library's pool. */
#include "backend_cuda/cuda_internal.h"

/* The functions came with 11.2; that a pool tells what it holds, with 11.3. */
#define LEAST_VERSION 11030

static const char ordered[] = "memory in stream order";

static tdm_status check(const tdm_bk_device *device) {
    const tdm_cuda_api *const api = device->api;
    int supported = 0;
    if (api->version < LEAST_VERSION || !api->cuDeviceGetDefaultMemPool ||
        !api->cuMemPoolSetAttribute || !api->cuMemPoolGetAttribute || !api->cuMemAllocAsync ||
        !api->cuMemFreeAsync)
        return tdm_fail(TDM_UNSUPPORTED, "%s needs CUDA %d.%d, the driver offers %d.%d", ordered,
                        LEAST_VERSION / 1000, LEAST_VERSION % 1000 / 10, api->version / 1000,
                        api->version % 1000 / 10);
    CUDA_TRY(ordered, api, cuDeviceGetAttribute, &supported,
             CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, device->record->id);
    if (!supported)
        return tdm_fail(TDM_UNSUPPORTED, "%s: the driver has no memory pools for the %s", ordered,
                        device->record->info.name);
    return TDM_OK;
}

/* Without this the driver gives all that is free back at every wait. */
static tdm_status keep_what_is_freed(const tdm_bk_device *device) {
    const tdm_cuda_api *const api = device->api;
    CUmemoryPool pool = NULL;
    uint64_t threshold = UINT64_MAX;
    CUDA_TRY(ordered, api, cuDeviceGetDefaultMemPool, &pool, device->record->id);
    CUDA_TRY(ordered, api, cuMemPoolSetAttribute, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
             &threshold);
    return TDM_OK;
}

tdm_status tdm_cuda_ordered_open(tdm_bk_device *device) {
    tdm_status status = check(device);
    if (status == TDM_OK)
        status = tdm_cuda_enter(device, ordered);
    if (status != TDM_OK)
        return status;
    status = keep_what_is_freed(device);
    tdm_cuda_leave(device);
    return status;
}

tdm_status tdm_cuda_ordered_alloc(tdm_bk_stream *stream, size_t bytes, uint64_t *address) {
    CUdeviceptr found = 0;
    const tdm_status status = tdm_cuda_enter(stream->device, ordered);
    if (status != TDM_OK)
        return status;
    const CUresult code =
        CUDA_CALL(stream->device->api, cuMemAllocAsync, &found, bytes, stream->stream);
    tdm_cuda_leave(stream->device);
    if (code != CUDA_SUCCESS)
        return tdm_cuda_fail(code, ordered, "cuMemAllocAsync");
    *address = found;
    return TDM_OK;
}

void tdm_cuda_ordered_free(tdm_bk_stream *stream, uint64_t address) {
    if (tdm_cuda_enter_always(stream->device) != CUDA_SUCCESS)
        return;
    CUDA_RELEASE(stream->device->api, cuMemFreeAsync, address, stream->stream);
    tdm_cuda_leave(stream->device);
}

static tdm_status read_held(const tdm_bk_device *device, uint64_t *bytes) {
    const tdm_cuda_api *const api = device->api;
    CUmemoryPool pool = NULL;
    CUDA_TRY(ordered, api, cuDeviceGetDefaultMemPool, &pool, device->record->id);
    CUDA_TRY(ordered, api, cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, bytes);
    return TDM_OK;
}

tdm_status tdm_cuda_ordered_held(tdm_bk_device *device, uint64_t *bytes) {
    uint64_t held = 0;
    tdm_status status = tdm_cuda_enter(device, ordered);
    if (status != TDM_OK)
        return status;
    status = read_held(device, &held);
    tdm_cuda_leave(device);
    if (status == TDM_OK)
        *bytes = held;
    return status;
}
