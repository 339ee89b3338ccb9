/*
 * These are stubs for every CUDA driver function that fake_cuda.c does not implement. Each one
 * returns an error, whatever its arguments are.
 */
#include "backend_cuda/cuda_api.h"

CUresult fake_refuse(void);

CUresult fake_refuse(void) {
    return CUDA_ERROR_NOT_SUPPORTED;
}

#define CUDA_FUNCTION(name, symbol, need, since, parameters)                                       \
    CUresult symbol(void) __attribute__((weak, alias("fake_refuse")));
#include "backend_cuda/cuda_functions.def"
#undef CUDA_FUNCTION
