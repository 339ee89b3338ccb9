/* Names of native error codes, and what they mean to the core. */
#include "backend_cuda/cuda_calls.h"

const char *tdm_cuda_error_name(CUresult code) {
    switch (code) {
#define CUDA_ERROR(name, value, status)                                                            \
    case name:                                                                                     \
        return #name;
#include "backend_cuda/cuda_errors.def"
#undef CUDA_ERROR
    default:
        return "unknown CUDA error";
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
