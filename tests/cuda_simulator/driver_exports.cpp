/* The library does not link where a function of the list is missing: this refers to each. */
#include "tests/cuda_simulator/driver_state.h"

extern const void *const tandem_sim_exports[] __attribute__((used));
const void *const tandem_sim_exports[] = {
#define CUDA_FUNCTION(name, symbol, need, since, parameters)                                       \
    reinterpret_cast<const void *>(&symbol),
#include "backend_cuda/cuda_functions.def"
#undef CUDA_FUNCTION
};
