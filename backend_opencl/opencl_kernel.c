/* Built kernels: the program, its one entry point, and the device's limits for it. */
#include "backend_opencl/opencl_internal.h"

tdm_status tdm_opencl_kernel_build(tdm_bk_device *device, const tdm_kernel_source *source,
                                   tdm_bk_kernel **kernel) {
    tdm_bk_kernel *const created = tdm_host_calloc(1, sizeof *created);
    if (!created)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "%s: no host memory", source->entry);
    created->device = device;
    pthread_mutex_init(&created->lock, NULL);
    created->entry = tdm_host_strdup(source->entry);
    tdm_status status = created->entry
                            ? tdm_opencl_program_build(device, source, &created->program)
                            : tdm_fail(TDM_OUT_OF_HOST_MEMORY, "%s: no host memory", source->entry);
    // Creating a first native object here finds a missing entry point now, not at a launch.
    cl_kernel native;
    if (status == TDM_OK)
        status = tdm_opencl_kernel_take(created, source->entry, &native);
    if (status == TDM_OK)
        tdm_opencl_kernel_give(created, native);
    if (status != TDM_OK) {
        tdm_opencl_kernel_release(created);
        return status;
    }
    *kernel = created;
    return TDM_OK;
}

void tdm_opencl_kernel_release(tdm_bk_kernel *kernel) {
    const tdm_opencl_api *const api = kernel->device->api;
    for (int i = 0; i < kernel->idle_count; i++)
        OPENCL_RELEASE(api, clReleaseKernel, kernel->idle[i]);
    if (kernel->program)
        OPENCL_RELEASE(api, clReleaseProgram, kernel->program);
    pthread_mutex_destroy(&kernel->lock);
    tdm_host_free(kernel->entry);
    tdm_host_free(kernel);
}

tdm_status tdm_opencl_kernel_take(tdm_bk_kernel *kernel, const char *what, cl_kernel *taken) {
    pthread_mutex_lock(&kernel->lock);
    *taken = kernel->idle_count > 0 ? kernel->idle[--kernel->idle_count] : NULL;
    pthread_mutex_unlock(&kernel->lock);
    if (*taken)
        return TDM_OK;
    cl_int code;
    *taken =
        OPENCL_CREATE(kernel->device->api, &code, clCreateKernel, kernel->program, kernel->entry);
    return *taken ? TDM_OK : tdm_opencl_fail(code, what, "clCreateKernel");
}

void tdm_opencl_kernel_give(tdm_bk_kernel *kernel, cl_kernel given) {
    pthread_mutex_lock(&kernel->lock);
    const bool kept = kernel->idle_count < OPENCL_IDLE_KERNELS;
    if (kept)
        kernel->idle[kernel->idle_count++] = given;
    pthread_mutex_unlock(&kernel->lock);
    if (!kept)
        OPENCL_RELEASE(kernel->device->api, clReleaseKernel, given);
}

/* Queries one property of a native kernel object. */
static tdm_status group_info(const tdm_bk_kernel *kernel, cl_kernel native,
                             cl_kernel_work_group_info what, size_t bytes, void *value) {
    OPENCL_TRY(kernel->entry, kernel->device->api, clGetKernelWorkGroupInfo, native,
               kernel->device->record->id, what, bytes, value, NULL);
    return TDM_OK;
}

/*
 * Returns the largest work-group size. rusticl 22.3 reports the sub-group size instead, which is
 * also the preferred multiple. A kernel that was built with a larger required size runs at that
 * size all the same.
 */
static size_t largest_group(size_t items, size_t multiple, const size_t required[3]) {
    const size_t built_for = required[0] * required[1] * required[2];
    return items == multiple && built_for > items ? built_for : items;
}

tdm_status tdm_opencl_kernel_limits(tdm_bk_kernel *kernel, tdm_kernel_limits *limits) {
    cl_kernel native;
    size_t items = 0, multiple = 0, required[3] = {0};
    cl_ulong local = 0, private = 0;
    tdm_status status = tdm_opencl_kernel_take(kernel, kernel->entry, &native);
    if (status != TDM_OK)
        return status;
    status = group_info(kernel, native, CL_KERNEL_WORK_GROUP_SIZE, sizeof items, &items);
    if (status == TDM_OK)
        status = group_info(kernel, native, CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE,
                            sizeof multiple, &multiple);
    if (status == TDM_OK)
        status = group_info(kernel, native, CL_KERNEL_LOCAL_MEM_SIZE, sizeof local, &local);
    if (status == TDM_OK)
        status = group_info(kernel, native, CL_KERNEL_PRIVATE_MEM_SIZE, sizeof private, &private);
    if (status == TDM_OK)
        status = group_info(kernel, native, CL_KERNEL_COMPILE_WORK_GROUP_SIZE, sizeof required,
                            required);
    tdm_opencl_kernel_give(kernel, native);
    if (status == TDM_OK)
        *limits = (tdm_kernel_limits){.max_group_items =
                                          (uint32_t)largest_group(items, multiple, required),
                                      .preferred_multiple = (uint32_t)multiple,
                                      .local_bytes = local,
                                      .private_bytes = private};
    return status;
}
