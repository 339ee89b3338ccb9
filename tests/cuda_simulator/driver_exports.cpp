/* This file references each function of the list, so that the library does not link if one is
 * missing. */
#include "tests/cuda_simulator/driver_state.h"

__attribute__((used)) static const void *const exports[] = {
#define CUDA_FUNCTION(name, symbol, need, since, parameters)                                       \
    reinterpret_cast<const void *>(&symbol),
#include "backend_cuda/cuda_functions.def"
#undef CUDA_FUNCTION
};
