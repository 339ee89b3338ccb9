/* Launches: arguments and sizes. */
#include "backend_opencl/opencl_internal.h"

/* Sets the kernel parameters for one argument, from *index on. */
static cl_int set_argument(const tdm_opencl_api *api, cl_kernel kernel, const tdm_arg *arg,
                           cl_uint *index) {
    const cl_uint i = (*index)++;
    switch (arg->kind) {
    case TDM_ARG_BUFFER: {
        const cl_long offset = arg->value.buffer.offset;
        const cl_int code = OPENCL_CALL(api, clSetKernelArg, kernel, i, sizeof(cl_mem),
                                        &arg->value.buffer.memory->object);
        if (code != CL_SUCCESS)
            return code;
        return OPENCL_CALL(api, clSetKernelArg, kernel, (*index)++, sizeof offset, &offset);
    }
    case TDM_ARG_S32:
        return OPENCL_CALL(api, clSetKernelArg, kernel, i, sizeof(cl_int), &arg->value.s32);
    case TDM_ARG_U32:
        return OPENCL_CALL(api, clSetKernelArg, kernel, i, sizeof(cl_uint), &arg->value.u32);
    case TDM_ARG_S64:
        return OPENCL_CALL(api, clSetKernelArg, kernel, i, sizeof(cl_long), &arg->value.s64);
    case TDM_ARG_F32:
        return OPENCL_CALL(api, clSetKernelArg, kernel, i, sizeof(cl_float), &arg->value.f32);
    case TDM_ARG_BLOB:
        return OPENCL_CALL(api, clSetKernelArg, kernel, i, arg->bytes, arg->value.blob);
    case TDM_ARG_LOCAL:
        return OPENCL_CALL(api, clSetKernelArg, kernel, i, arg->bytes, NULL);
    case TDM_ARG_TENSOR_MAP:
        break; // no OpenCL device has them
    }
    return CL_INVALID_ARG_VALUE;
}

static tdm_status set_arguments(const tdm_bk_kernel *kernel, cl_kernel native,
                                const char *operation, const tdm_launch *launch) {
    cl_uint index = 0;
    for (int i = 0; i < launch->arg_count; i++) {
        const cl_int code = set_argument(kernel->device->api, native, &launch->args[i], &index);
        if (code != CL_SUCCESS)
            return tdm_fail(tdm_opencl_status(code), "%s: argument %d of kernel %s: %s (%d)",
                            operation, i, kernel->entry, tdm_opencl_error_name(code), code);
    }
    return TDM_OK;
}

typedef struct launch_size {
    cl_uint dimensions; /* trailing dimensions of one are omitted */
    size_t global[3];
    size_t local[3];
} launch_size;

static tdm_status measure(const tdm_bk_kernel *kernel, const char *operation,
                          const tdm_launch *launch, launch_size *size) {
    const tdm_device_info *const info = &kernel->device->record->info;
    const uint64_t largest = info->address_bits == 32 ? UINT32_MAX : SIZE_MAX;
    size->dimensions = 1;
    for (unsigned i = 0; i < 3; i++) {
        const uint64_t global = (uint64_t)launch->groups[i] * launch->group[i];
        if (global > largest)
            return tdm_fail(
                TDM_UNSUPPORTED,
                "%s: %u groups of %u work-items exceed the address range of the %u-bit device",
                operation, launch->groups[i], launch->group[i], info->address_bits);
        size->global[i] = (size_t)global;
        size->local[i] = launch->group[i];
        if (global > 1)
            size->dimensions = i + 1;
    }
    return TDM_OK;
}

static tdm_status enqueue(tdm_bk_stream *stream, const char *operation, const tdm_bk_kernel *kernel,
                          cl_kernel native, const launch_size *size) {
    cl_event event;
    const cl_int code =
        OPENCL_CALL(stream->device->api, clEnqueueNDRangeKernel, stream->queue, native,
                    size->dimensions, NULL, size->global, size->local, 0, NULL, &event);
    if (code != CL_SUCCESS)
        return tdm_fail(
            tdm_opencl_status(code),
            "%s: kernel %s, %zu x %zu x %zu work-items in groups of %zu x %zu x %zu: %s (%d)",
            operation, kernel->entry, size->global[0], size->global[1], size->global[2],
            size->local[0], size->local[1], size->local[2], tdm_opencl_error_name(code), code);
    tdm_opencl_stream_push(stream, operation, event);
    return TDM_OK;
}

tdm_status tdm_opencl_launch(tdm_bk_stream *stream, const char *operation, tdm_bk_kernel *kernel,
                             const tdm_launch *launch) {
    launch_size size;
    cl_kernel native;
    tdm_status status = tdm_opencl_stream_reserve(stream, operation);
    if (status == TDM_OK)
        status = measure(kernel, operation, launch, &size);
    if (status == TDM_OK)
        status = tdm_opencl_kernel_take(kernel, operation, &native);
    if (status != TDM_OK)
        return status;
    status = set_arguments(kernel, native, operation, launch);
    if (status == TDM_OK)
        status = enqueue(stream, operation, kernel, native, &size);
    tdm_opencl_kernel_give(kernel, native);
    return status;
}
