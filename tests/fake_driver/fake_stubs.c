/*
 * These weak stubs return an error, one for every function of the driver list. fake_queries.c and
 * real drivers override them.
 */
#define OPENCL_FUNCTION(name, need, since)                                                         \
    __attribute__((weak)) int name(void);                                                          \
    __attribute__((weak)) int name(void) {                                                         \
        return -59; /* CL_INVALID_OPERATION */                                                     \
    }
#include "backend_opencl/opencl_functions.def"
