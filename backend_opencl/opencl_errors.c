/* Names of native error codes, and their meaning to the core. */
#include <string.h>

#include "backend_opencl/opencl_api.h"

#define NVIDIA_ILLEGAL_ACCESS (-9999)

/* Error codes of the core API and of extensions that loaders and drivers return: name, meaning. */
#define OPENCL_ERROR_LIST(X)                                                                       \
    X(CL_DEVICE_NOT_FOUND, TDM_NO_DEVICE)                                                          \
    X(CL_DEVICE_NOT_AVAILABLE, TDM_DEVICE_LOST)                                                    \
    X(CL_COMPILER_NOT_AVAILABLE, TDM_BUILD_FAILED)                                                 \
    X(CL_MEM_OBJECT_ALLOCATION_FAILURE, TDM_OUT_OF_DEVICE_MEMORY)                                  \
    X(CL_OUT_OF_RESOURCES, TDM_INTERNAL)                                                           \
    X(CL_OUT_OF_HOST_MEMORY, TDM_OUT_OF_HOST_MEMORY)                                               \
    X(CL_PROFILING_INFO_NOT_AVAILABLE, TDM_UNSUPPORTED)                                            \
    X(CL_MEM_COPY_OVERLAP, TDM_INTERNAL)                                                           \
    X(CL_IMAGE_FORMAT_MISMATCH, TDM_INTERNAL)                                                      \
    X(CL_IMAGE_FORMAT_NOT_SUPPORTED, TDM_INTERNAL)                                                 \
    X(CL_BUILD_PROGRAM_FAILURE, TDM_BUILD_FAILED)                                                  \
    X(CL_MAP_FAILURE, TDM_INTERNAL)                                                                \
    X(CL_MISALIGNED_SUB_BUFFER_OFFSET, TDM_INTERNAL)                                               \
    X(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, TDM_INTERNAL)                                  \
    X(CL_COMPILE_PROGRAM_FAILURE, TDM_BUILD_FAILED)                                                \
    X(CL_LINKER_NOT_AVAILABLE, TDM_BUILD_FAILED)                                                   \
    X(CL_LINK_PROGRAM_FAILURE, TDM_BUILD_FAILED)                                                   \
    X(CL_DEVICE_PARTITION_FAILED, TDM_INTERNAL)                                                    \
    X(CL_KERNEL_ARG_INFO_NOT_AVAILABLE, TDM_INTERNAL)                                              \
    X(CL_INVALID_VALUE, TDM_INTERNAL)                                                              \
    X(CL_INVALID_DEVICE_TYPE, TDM_INTERNAL)                                                        \
    X(CL_INVALID_PLATFORM, TDM_INTERNAL)                                                           \
    X(CL_INVALID_DEVICE, TDM_INTERNAL)                                                             \
    X(CL_INVALID_CONTEXT, TDM_DEVICE_LOST)                                                         \
    X(CL_INVALID_QUEUE_PROPERTIES, TDM_INTERNAL)                                                   \
    X(CL_INVALID_COMMAND_QUEUE, TDM_DEVICE_LOST)                                                   \
    X(CL_INVALID_HOST_PTR, TDM_INTERNAL)                                                           \
    X(CL_INVALID_MEM_OBJECT, TDM_INTERNAL)                                                         \
    X(CL_INVALID_IMAGE_FORMAT_DESCRIPTOR, TDM_INTERNAL)                                            \
    X(CL_INVALID_IMAGE_SIZE, TDM_INTERNAL)                                                         \
    X(CL_INVALID_SAMPLER, TDM_INTERNAL)                                                            \
    X(CL_INVALID_BINARY, TDM_BUILD_FAILED)                                                         \
    X(CL_INVALID_BUILD_OPTIONS, TDM_BUILD_FAILED)                                                  \
    X(CL_INVALID_PROGRAM, TDM_BUILD_FAILED)                                                        \
    X(CL_INVALID_PROGRAM_EXECUTABLE, TDM_BUILD_FAILED)                                             \
    X(CL_INVALID_KERNEL_NAME, TDM_BUILD_FAILED)                                                    \
    X(CL_INVALID_KERNEL_DEFINITION, TDM_BUILD_FAILED)                                              \
    X(CL_INVALID_KERNEL, TDM_INTERNAL)                                                             \
    X(CL_INVALID_ARG_INDEX, TDM_INTERNAL)                                                          \
    X(CL_INVALID_ARG_VALUE, TDM_INTERNAL)                                                          \
    X(CL_INVALID_ARG_SIZE, TDM_INTERNAL)                                                           \
    X(CL_INVALID_KERNEL_ARGS, TDM_INTERNAL)                                                        \
    X(CL_INVALID_WORK_DIMENSION, TDM_INTERNAL)                                                     \
    X(CL_INVALID_WORK_GROUP_SIZE, TDM_UNSUPPORTED)                                                 \
    X(CL_INVALID_WORK_ITEM_SIZE, TDM_UNSUPPORTED)                                                  \
    X(CL_INVALID_GLOBAL_OFFSET, TDM_INTERNAL)                                                      \
    X(CL_INVALID_EVENT_WAIT_LIST, TDM_INTERNAL)                                                    \
    X(CL_INVALID_EVENT, TDM_INTERNAL)                                                              \
    X(CL_INVALID_OPERATION, TDM_INTERNAL)                                                          \
    X(CL_INVALID_BUFFER_SIZE, TDM_UNSUPPORTED)                                                     \
    X(CL_INVALID_GLOBAL_WORK_SIZE, TDM_UNSUPPORTED)                                                \
    X(CL_INVALID_PROPERTY, TDM_INTERNAL)                                                           \
    X(CL_PLATFORM_NOT_FOUND_KHR, TDM_NO_DEVICE)                                                    \
    X(NVIDIA_ILLEGAL_ACCESS, TDM_DEVICE_LOST)

const char *tdm_opencl_error_name(cl_int code) {
    switch (code) {
#define NAME(name, status)                                                                         \
    case name:                                                                                     \
        return #name;
        OPENCL_ERROR_LIST(NAME)
#undef NAME
    default:
        return "unknown OpenCL error";
    }
}

tdm_status tdm_opencl_status(cl_int code) {
    switch (code) {
#define STATUS(name, status)                                                                       \
    case name:                                                                                     \
        return status;
        OPENCL_ERROR_LIST(STATUS)
#undef STATUS
    default:
        return TDM_INTERNAL;
    }
}

tdm_status tdm_opencl_fail(cl_int code, const char *what, const char *call) {
    return tdm_fail(tdm_opencl_status(code), "%s: %s: %s (%d)", what, call,
                    tdm_opencl_error_name(code), code);
}

void tdm_opencl_released(cl_int fault, cl_int code, const char *call) {
    const cl_int first = fault != CL_SUCCESS ? fault : code;
    if (first != CL_SUCCESS)
        tdm_log(TDM_LOG_WARNING, "driver", "opencl: %s: %s (%d)", call,
                tdm_opencl_error_name(first), first);
}

void tdm_opencl_log_lines(tdm_log_level level, const char *what, const char *text) {
    while (*text) {
        const size_t length = strcspn(text, "\n");
        if (length > strspn(text, " \t\r"))
            tdm_log(level, "driver", "opencl: %s: %.*s", what, (int)length, text);
        text += length + (text[length] == '\n');
    }
}
