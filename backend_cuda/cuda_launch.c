/* Launches kernels: sets parameters, permits large local memory, and forms clusters. It also counts
 * the clusters that a device holds at once. */
#include "backend_cuda/cuda_internal.h"

/* Local memory that a launch may use without a prior cuFuncSetAttribute. */
#define DEFAULT_LOCAL_BYTES (48u * 1024)
#define MAX_MAPS 3

/* These are the parameters of a launch in the form of cuLaunchKernel. The pointers refer to values
 * that must live until it returns. */
typedef struct launch_parameters {
    void *pointers[2 * TDM_MAX_ARGS];
    CUdeviceptr addresses[TDM_MAX_ARGS];
    uint32_t local_bytes;
    uint64_t local; /* passed in place of a local-memory pointer; the kernel ignores it */
    CUtensorMap maps[MAX_MAPS];
    int map_count;
} launch_parameters;

static tdm_status set_map(tdm_bk_device *device, const char *operation, const tdm_arg *arg,
                          launch_parameters *p) {
    if (p->map_count == MAX_MAPS)
        return tdm_fail(TDM_INTERNAL, "%s: more than %d tensor maps", operation, MAX_MAPS);
    return tdm_cuda_tensor_map(device, operation,
                               arg->value.buffer.memory->address +
                                   (CUdeviceptr)arg->value.buffer.offset,
                               arg->value.buffer.tensor_map, &p->maps[p->map_count++]);
}

static tdm_status set_parameters(const tdm_bk_kernel *kernel, const char *operation,
                                 const tdm_launch *launch, launch_parameters *p) {
    int count = 0;
    for (int i = 0; i < launch->arg_count; i++) {
        const tdm_arg *const arg = &launch->args[i];
        switch (arg->kind) {
        case TDM_ARG_BUFFER:
            p->addresses[i] = arg->value.buffer.memory->address;
            p->pointers[count++] = &p->addresses[i];
            p->pointers[count++] = (void *)&arg->value.buffer.offset;
            break;
        case TDM_ARG_S32:
        case TDM_ARG_U32:
        case TDM_ARG_S64:
        case TDM_ARG_F32:
            p->pointers[count++] = (void *)&arg->value;
            break;
        case TDM_ARG_BLOB:
            p->pointers[count++] = (void *)(uintptr_t)arg->value.blob;
            break;
        case TDM_ARG_LOCAL:
            p->local_bytes += arg->bytes;
            p->pointers[count++] = &p->local;
            break;
        case TDM_ARG_TENSOR_MAP: {
            const tdm_status status = set_map(kernel->device, operation, arg, p);
            if (status != TDM_OK)
                return status;
            p->pointers[count++] = &p->maps[p->map_count - 1];
            break;
        }
        default:
            return tdm_fail(TDM_INTERNAL, "%s: argument %d of kernel %s has an unknown kind",
                            operation, i, kernel->entry);
        }
    }
    return TDM_OK;
}

/* Permits all launches of the kernel to use `bytes` of dynamic local memory. */
static tdm_status allow_local(tdm_bk_kernel *kernel, const char *operation, uint32_t bytes) {
    const uint64_t most = kernel->device->record->info.local_bytes;
    const uint64_t all = (uint64_t)bytes + kernel->static_bytes;
    if (all <= DEFAULT_LOCAL_BYTES || bytes <= atomic_load(&kernel->dynamic_bytes))
        return TDM_OK;
    if (all > most)
        return tdm_fail(
            TDM_UNSUPPORTED, "%s: kernel %s needs %llu bytes of local memory, the device has %llu",
            operation, kernel->entry, (unsigned long long)all, (unsigned long long)most);
    CUresult code = CUDA_SUCCESS;
    pthread_mutex_lock(&kernel->lock);
    if (bytes > atomic_load(&kernel->dynamic_bytes))
        code = CUDA_CALL(kernel->device->api, cuFuncSetAttribute, kernel->function,
                         CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)bytes);
    if (code == CUDA_SUCCESS && bytes > atomic_load(&kernel->dynamic_bytes))
        atomic_store(&kernel->dynamic_bytes, bytes);
    pthread_mutex_unlock(&kernel->lock);
    return code == CUDA_SUCCESS ? TDM_OK : tdm_cuda_fail(code, operation, "cuFuncSetAttribute");
}

/* The device's context must be current. */
static tdm_status count_clusters(tdm_bk_kernel *kernel, const CUlaunchConfig *config,
                                 int *clusters) {
    const tdm_status status = allow_local(kernel, kernel->entry, config->sharedMemBytes);
    if (status != TDM_OK)
        return status;
    const CUresult code = CUDA_CALL(kernel->device->api, cuOccupancyMaxActiveClusters, clusters,
                                    kernel->function, config);
    return code == CUDA_SUCCESS
               ? TDM_OK
               : tdm_cuda_fail(code, kernel->entry, "cuOccupancyMaxActiveClusters");
}

tdm_status tdm_cuda_kernel_clusters(tdm_bk_kernel *kernel, uint32_t cluster, uint32_t group_items,
                                    uint32_t local_bytes, uint32_t *clusters) {
    CUlaunchAttribute size = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION};
    size.value.clusterDim.x = cluster;
    size.value.clusterDim.y = size.value.clusterDim.z = 1;
    const CUlaunchConfig config = {.gridDimX = cluster,
                                   .gridDimY = 1,
                                   .gridDimZ = 1,
                                   .blockDimX = group_items,
                                   .blockDimY = 1,
                                   .blockDimZ = 1,
                                   .sharedMemBytes = local_bytes,
                                   .attrs = &size,
                                   .numAttrs = 1};
    int count = 0;
    if (!kernel->device->api->cuOccupancyMaxActiveClusters)
        return tdm_fail(TDM_UNSUPPORTED,
                        "%s: the driver has no cuOccupancyMaxActiveClusters (CUDA 11.8)",
                        kernel->entry);
    tdm_status status = tdm_cuda_enter(kernel->device, kernel->entry);
    if (status != TDM_OK)
        return status;
    status = count_clusters(kernel, &config, &count);
    tdm_cuda_leave(kernel->device);
    if (status == TDM_OK)
        *clusters = (uint32_t)count;
    return status;
}

static CUresult launch_clusters(const tdm_bk_stream *stream, const tdm_bk_kernel *kernel,
                                const tdm_launch *launch, launch_parameters *p) {
    CUlaunchAttribute cluster = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION};
    cluster.value.clusterDim.x = launch->cluster[0];
    cluster.value.clusterDim.y = launch->cluster[1];
    cluster.value.clusterDim.z = launch->cluster[2];
    const CUlaunchConfig config = {.gridDimX = launch->groups[0],
                                   .gridDimY = launch->groups[1],
                                   .gridDimZ = launch->groups[2],
                                   .blockDimX = launch->group[0],
                                   .blockDimY = launch->group[1],
                                   .blockDimZ = launch->group[2],
                                   .sharedMemBytes = p->local_bytes,
                                   .hStream = stream->stream,
                                   .attrs = &cluster,
                                   .numAttrs = 1};
    if (!stream->device->api->cuLaunchKernelEx)
        return CUDA_ERROR_NOT_SUPPORTED;
    return CUDA_CALL(stream->device->api, cuLaunchKernelEx, &config, kernel->function, p->pointers,
                     NULL);
}

static CUresult launch_groups(const tdm_bk_stream *stream, const tdm_bk_kernel *kernel,
                              const tdm_launch *launch, launch_parameters *p) {
    return CUDA_CALL(stream->device->api, cuLaunchKernel, kernel->function, launch->groups[0],
                     launch->groups[1], launch->groups[2], launch->group[0], launch->group[1],
                     launch->group[2], p->local_bytes, stream->stream, p->pointers, NULL);
}

/* The device's context must be current. */
static tdm_status enqueue(const tdm_bk_stream *stream, const char *operation, tdm_bk_kernel *kernel,
                          const tdm_launch *launch, launch_parameters *p) {
    const tdm_status status = allow_local(kernel, operation, p->local_bytes);
    if (status != TDM_OK)
        return status;
    const CUresult code = launch->cluster[0] ? launch_clusters(stream, kernel, launch, p)
                                             : launch_groups(stream, kernel, launch, p);
    if (code == CUDA_SUCCESS)
        return TDM_OK;
    if (tdm_cuda_status(code) == TDM_DEVICE_LOST)
        return tdm_cuda_enqueue_fail(stream, code, operation,
                                     launch->cluster[0] ? "cuLaunchKernelEx" : "cuLaunchKernel");
    // The driver reports a grid beyond the limits only as an invalid value.
    return tdm_fail(code == CUDA_ERROR_INVALID_VALUE ? TDM_UNSUPPORTED : tdm_cuda_status(code),
                    "%s: kernel %s, %u x %u x %u groups of %u x %u x %u, %u bytes of local memory: "
                    "%s (%u)",
                    operation, kernel->entry, launch->groups[0], launch->groups[1],
                    launch->groups[2], launch->group[0], launch->group[1], launch->group[2],
                    p->local_bytes, tdm_cuda_error_name(code), code);
}

/* The device's context must be current, also for the encoding of tensor maps. */
static tdm_status prepare_and_enqueue(const tdm_bk_stream *stream, const char *operation,
                                      tdm_bk_kernel *kernel, const tdm_launch *launch) {
    launch_parameters parameters;
    parameters.local_bytes = 0;
    parameters.local = 0;
    parameters.map_count = 0;
    const tdm_status status = set_parameters(kernel, operation, launch, &parameters);
    return status != TDM_OK ? status : enqueue(stream, operation, kernel, launch, &parameters);
}

tdm_status tdm_cuda_launch(tdm_bk_stream *stream, const char *operation, tdm_bk_kernel *kernel,
                           const tdm_launch *launch) {
    tdm_status status = tdm_cuda_enter(stream->device, operation);
    if (status != TDM_OK)
        return status;
    status = prepare_and_enqueue(stream, operation, kernel, launch);
    tdm_cuda_leave(stream->device);
    if (status == TDM_OK)
        tdm_cuda_stream_note(stream, operation);
    return status;
}
