/* Built kernels: functions of a module, and the limits of the device for them. */
#include "backend_cuda/cuda_internal.h"

static tdm_status attribute_of(const tdm_bk_kernel *kernel, CUfunction_attribute attribute,
                               uint32_t *value) {
    int answer = 0;
    CUDA_TRY(kernel->entry, kernel->device->api, cuFuncGetAttribute, &answer, attribute,
             kernel->function);
    *value = (uint32_t)answer;
    return TDM_OK;
}

/* Finds the kernel's function. The caller has made the device's context current. */
static tdm_status find_function(tdm_bk_kernel *kernel, const tdm_kernel_source *source) {
    CUmodule module;
    const tdm_status status = tdm_cuda_module_get(kernel->device, source, &module);
    if (status != TDM_OK)
        return status;
    CUDA_TRY(source->entry, kernel->device->api, cuModuleGetFunction, &kernel->function, module,
             source->entry);
    return attribute_of(kernel, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, &kernel->static_bytes);
}

tdm_status tdm_cuda_kernel_build(tdm_bk_device *device, const tdm_kernel_source *source,
                                 tdm_bk_kernel **kernel) {
    tdm_bk_kernel *const created = tdm_host_calloc(1, sizeof *created);
    if (!created)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "%s: no host memory", source->entry);
    created->device = device;
    pthread_mutex_init(&created->lock, NULL);
    created->entry = tdm_host_strdup(source->entry);
    tdm_status status = created->entry
                            ? tdm_cuda_enter(device, source->entry)
                            : tdm_fail(TDM_OUT_OF_HOST_MEMORY, "%s: no host memory", source->entry);
    if (status == TDM_OK) {
        status = find_function(created, source);
        tdm_cuda_leave(device);
    }
    if (status != TDM_OK) {
        tdm_cuda_kernel_release(created);
        return status;
    }
    *kernel = created;
    return TDM_OK;
}

/* Frees the kernel only. The function belongs to the module, and the module to the device. */
void tdm_cuda_kernel_release(tdm_bk_kernel *kernel) {
    pthread_mutex_destroy(&kernel->lock);
    tdm_host_free(kernel->entry);
    tdm_host_free(kernel);
}

tdm_status tdm_cuda_kernel_limits(tdm_bk_kernel *kernel, tdm_kernel_limits *limits) {
    uint32_t items = 0, private_bytes = 0;
    tdm_status status = tdm_cuda_enter(kernel->device, kernel->entry);
    if (status != TDM_OK)
        return status;
    status = attribute_of(kernel, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &items);
    if (status == TDM_OK)
        status = attribute_of(kernel, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, &private_bytes);
    tdm_cuda_leave(kernel->device);
    if (status == TDM_OK)
        *limits =
            (tdm_kernel_limits){.max_group_items = items,
                                .preferred_multiple = kernel->device->record->info.subgroup_size,
                                .local_bytes = kernel->static_bytes,
                                .private_bytes = private_bytes};
    return status;
}

tdm_status tdm_cuda_kernel_occupancy(tdm_bk_kernel *kernel, uint32_t group_items,
                                     uint32_t local_bytes, uint32_t *groups) {
    int blocks = 0;
    const tdm_status status = tdm_cuda_enter(kernel->device, kernel->entry);
    if (status != TDM_OK)
        return status;
    const CUresult code =
        CUDA_CALL(kernel->device->api, cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks,
                  kernel->function, (int)group_items, local_bytes);
    tdm_cuda_leave(kernel->device);
    if (code != CUDA_SUCCESS)
        return tdm_cuda_fail(code, kernel->entry, "cuOccupancyMaxActiveBlocksPerMultiprocessor");
    *groups = (uint32_t)blocks;
    return TDM_OK;
}
