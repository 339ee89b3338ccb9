/* Native allocations: device memory, pinned host memory, wrapped memory of the caller. */
#include "backend_opencl/opencl_internal.h"

/*
 * Reports a failed allocation. Only for allocations does CL_OUT_OF_RESOURCES mean a lack of memory.
 */
static tdm_status allocation_failure(cl_int code, const char *call, size_t bytes) {
    const tdm_status status =
        code == CL_OUT_OF_RESOURCES ? TDM_OUT_OF_DEVICE_MEMORY : tdm_opencl_status(code);
    return tdm_fail(status, "%zu bytes of device memory: %s: %s (%d)", bytes, call,
                    tdm_opencl_error_name(code), code);
}

/*
 * Forces the driver to allocate now. Some drivers return an object without memory and fail at the
 * first kernel; migrating the object to the device finds the failure. If host and device share
 * memory, this is not needed.
 */
static tdm_status make_resident(tdm_bk_device *device, cl_mem object, size_t bytes) {
    const tdm_opencl_api *const api = device->api;
    if ((device->record->info.capabilities & TDM_CAP_UNIFIED_MEMORY) ||
        !api->clEnqueueMigrateMemObjects)
        return TDM_OK;
    pthread_mutex_lock(&device->service_lock);
    const char *call = "clEnqueueMigrateMemObjects";
    cl_int code = OPENCL_CALL(api, clEnqueueMigrateMemObjects, device->service_queue, 1, &object,
                              CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED, 0, NULL, NULL);
    if (code == CL_SUCCESS) {
        call = "clFinish";
        code = OPENCL_WAIT(device->api, clFinish, device->service_queue);
    }
    pthread_mutex_unlock(&device->service_lock);
    return code == CL_SUCCESS ? TDM_OK : allocation_failure(code, call, bytes);
}

tdm_status tdm_opencl_memory_alloc(tdm_bk_device *device, tdm_memory_kind kind, size_t bytes,
                                   tdm_bk_memory **memory) {
    const tdm_opencl_api *const api = device->api;
    const uint64_t largest = device->record->info.max_alloc_bytes;
    if (bytes > largest)
        return tdm_fail(TDM_UNSUPPORTED,
                        "%zu bytes of device memory: the largest single allocation is %llu", bytes,
                        (unsigned long long)largest);
    tdm_bk_memory *const created = tdm_host_calloc(1, sizeof *created);
    if (!created)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "%zu bytes of device memory: no host memory",
                        bytes);
    const cl_mem_flags flags =
        CL_MEM_READ_WRITE | (kind == TDM_MEMORY_PINNED ? CL_MEM_ALLOC_HOST_PTR : 0);
    cl_int code;
    tdm_status status = TDM_OK;
    created->object =
        OPENCL_CREATE(api, &code, clCreateBuffer, device->context, flags, bytes, NULL);
    if (!created->object)
        status = allocation_failure(code, "clCreateBuffer", bytes);
    else if (kind == TDM_MEMORY_DEVICE)
        status = make_resident(device, created->object, bytes);
    if (status != TDM_OK) {
        tdm_opencl_memory_free(device, created);
        return status;
    }
    *memory = created;
    return TDM_OK;
}

static void unmap(tdm_bk_device *device, tdm_bk_memory *memory) {
    const tdm_opencl_api *const api = device->api;
    pthread_mutex_lock(&device->service_lock);
    cl_int code = OPENCL_CALL(api, clEnqueueUnmapMemObject, device->service_queue, memory->object,
                              memory->mapped, 0, NULL, NULL);
    if (code == CL_SUCCESS)
        code = OPENCL_WAIT(device->api, clFinish, device->service_queue);
    pthread_mutex_unlock(&device->service_lock);
    if (code != CL_SUCCESS)
        tdm_log(TDM_LOG_WARNING, "driver", "opencl: unmapping pinned memory: %s (%d)",
                tdm_opencl_error_name(code), code);
}

void tdm_opencl_memory_free(tdm_bk_device *device, tdm_bk_memory *memory) {
    if (memory->mapped)
        unmap(device, memory);
    if (memory->object)
        OPENCL_RELEASE(device->api, clReleaseMemObject, memory->object);
    tdm_host_free(memory);
}

/* Checks that `object` is a buffer of at least `bytes` in the device's context. */
static tdm_status check_foreign(tdm_bk_device *device, cl_mem object, size_t bytes) {
    const tdm_opencl_api *const api = device->api;
    cl_mem_object_type type = 0;
    size_t size = 0;
    cl_context context = NULL;
    OPENCL_TRY("wrapped memory", api, clGetMemObjectInfo, object, CL_MEM_TYPE, sizeof type, &type,
               NULL);
    OPENCL_TRY("wrapped memory", api, clGetMemObjectInfo, object, CL_MEM_SIZE, sizeof size, &size,
               NULL);
    OPENCL_TRY("wrapped memory", api, clGetMemObjectInfo, object, CL_MEM_CONTEXT, sizeof context,
               &context, NULL);
    if (type != CL_MEM_OBJECT_BUFFER)
        return tdm_fail(TDM_BAD_ARGUMENT, "wrapped memory: the cl_mem is an image, not a buffer");
    if (context != device->context)
        return tdm_fail(TDM_BAD_ARGUMENT,
                        "wrapped memory: the cl_mem belongs to another cl_context");
    if (size < bytes)
        return tdm_fail(TDM_BAD_ARGUMENT, "wrapped memory: the cl_mem has %zu bytes, not %zu", size,
                        bytes);
    return TDM_OK;
}

tdm_status tdm_opencl_memory_wrap(tdm_bk_device *device, void *native, size_t bytes,
                                  tdm_bk_memory **memory) {
    const cl_mem object = native;
    const tdm_status status = check_foreign(device, object, bytes);
    if (status != TDM_OK)
        return status;
    tdm_bk_memory *const created = tdm_host_calloc(1, sizeof *created);
    if (!created)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "wrapped memory: no host memory");
    const cl_int code = OPENCL_CALL(device->api, clRetainMemObject, object);
    if (code != CL_SUCCESS) {
        tdm_host_free(created);
        return tdm_opencl_fail(code, "wrapped memory", "clRetainMemObject");
    }
    created->object = object;
    *memory = created;
    return TDM_OK;
}

tdm_status tdm_opencl_memory_host_address(tdm_bk_device *device, tdm_bk_memory *memory,
                                          void **address) {
    const tdm_opencl_api *const api = device->api;
    tdm_status status = TDM_OK;
    pthread_mutex_lock(&device->service_lock);
    if (!memory->mapped) {
        size_t size = 0;
        const char *call = "clGetMemObjectInfo";
        cl_int code = OPENCL_CALL(api, clGetMemObjectInfo, memory->object, CL_MEM_SIZE, sizeof size,
                                  &size, NULL);
        if (code == CL_SUCCESS) {
            call = "clEnqueueMapBuffer";
            memory->mapped =
                OPENCL_CREATE(api, &code, clEnqueueMapBuffer, device->service_queue, memory->object,
                              CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, size, 0, NULL, NULL);
        }
        if (!memory->mapped)
            status = tdm_opencl_fail(code, "pinned memory", call);
    }
    if (status == TDM_OK)
        *address = memory->mapped;
    pthread_mutex_unlock(&device->service_lock);
    return status;
}

/*
 * Reads cl_amd_device_attribute_query: free memory and its largest block, in KiB. No other vendor's
 * OpenCL reports it; NVIDIA and Intel do so through libraries of their own.
 */
tdm_status tdm_opencl_memory_free_bytes(tdm_bk_device *device, uint64_t *bytes) {
    size_t kib[2] = {0, 0};
    const uint64_t total = device->record->info.global_bytes;
    if (!tdm_opencl_has_token(device->record->extensions, "cl_amd_device_attribute_query"))
        return tdm_fail(TDM_UNSUPPORTED, "free memory: the driver does not report it");
    OPENCL_TRY("free memory", device->api, clGetDeviceInfo, device->record->id,
               CL_DEVICE_GLOBAL_FREE_MEMORY_AMD, sizeof kib, kib, NULL);
    if (kib[0] > total / 1024)
        return tdm_fail(TDM_UNSUPPORTED, "free memory: the driver reports %zu KiB of %llu bytes",
                        kib[0], (unsigned long long)total);
    *bytes = (uint64_t)kib[0] * 1024;
    return TDM_OK;
}
