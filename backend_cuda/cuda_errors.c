/* Names of native error codes, and their meaning to the core. */
#include <stdatomic.h>

#include "backend_cuda/cuda_calls.h"

typedef CUresult (*name_function)(CUresult code, const char **name);

/* cuGetErrorName of the driver that was loaded last, which stays mapped. */
static _Atomic(name_function) driver_names;

void tdm_cuda_errors_query(const tdm_cuda_api *api) {
    atomic_store(&driver_names, api->cuGetErrorName);
}

/* Asks the driver, which may be newer than the list. */
static const char *name_by_driver(CUresult code) {
    const name_function ask = atomic_load(&driver_names);
    const char *name = NULL;
    if (!ask || tdm_fault("cuGetErrorName") != 0 || ask(code, &name) != CUDA_SUCCESS || !name)
        return "unknown CUDA error";
    return name;
}

const char *tdm_cuda_error_name(CUresult code) {
    switch (code) {
#define CUDA_ERROR(name, value, status)                                                            \
    case name:                                                                                     \
        return #name;
#include "backend_cuda/cuda_errors.def"
#undef CUDA_ERROR
    default:
        return name_by_driver(code);
    }
}

tdm_status tdm_cuda_status(CUresult code) {
    switch (code) {
#define CUDA_ERROR(name, value, status)                                                            \
    case name:                                                                                     \
        return status;
#include "backend_cuda/cuda_errors.def"
#undef CUDA_ERROR
    default:
        return TDM_INTERNAL;
    }
}

tdm_status tdm_cuda_fail(CUresult code, const char *what, const char *call) {
    return tdm_fail(tdm_cuda_status(code), "%s: %s: %s (%u)", what, call, tdm_cuda_error_name(code),
                    code);
}

void tdm_cuda_released(int fault, CUresult code, const char *call) {
    const CUresult first = fault != 0 ? (CUresult)fault : code;
    if (first != CUDA_SUCCESS)
        tdm_log(TDM_LOG_WARNING, "driver", "cuda: %s: %s (%u)", call, tdm_cuda_error_name(first),
                first);
}
