/*
 * Every function of the driver list, doing nothing: fake_queries.c and real drivers' behaviour
 * stand before these.
 */
#define OPENCL_FUNCTION(name, need, since)                                                         \
    __attribute__((weak)) int name(void);                                                          \
    __attribute__((weak)) int name(void) {                                                         \
        return -59; /* CL_INVALID_OPERATION */                                                     \
    }
#include "backend_opencl/opencl_functions.def"
