/* Every function of the CUDA driver's list that fake_cuda.c does not answer: each refuses. */
#include "backend_cuda/cuda_api.h"

#define CUDA_FUNCTION(name, symbol, need, since, parameters)                                       \
    __attribute__((weak)) CUresult symbol parameters {                                             \
        return CUDA_ERROR_NOT_SUPPORTED;                                                           \
    }
#include "backend_cuda/cuda_functions.def"
#undef CUDA_FUNCTION
