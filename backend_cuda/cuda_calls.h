/*
 * The CUDA driver as a table of function pointers, the macros that call it, and its error codes.
 *
 * No file of the backend calls a pointer of the table directly. CUDA_CALL and CUDA_RELEASE call
 * tdm_fault first, so that tests can make any call fail.
 */
#ifndef TANDEM_BACKEND_CUDA_CUDA_CALLS_H
#define TANDEM_BACKEND_CUDA_CUDA_CALLS_H

#include "api/backend.h"
#include "backend_cuda/cuda_api.h"

/* The oldest driver version that has every required function, as cuDriverGetVersion reports it. */
#define CUDA_MIN_VERSION 11000

typedef struct tdm_cuda_api {
    void *library; /* handle from dlopen */
    int version;   /* the driver's version: major * 1000 + minor * 10 */
#define CUDA_FUNCTION(name, symbol, need, since, parameters) CUresult(*name) parameters;
#include "backend_cuda/cuda_functions.def"
#undef CUDA_FUNCTION
} tdm_cuda_api;

/*
 * Opens and initialises the driver: the file that TANDEM_CUDA_LIBRARY names, else libcuda.so.1.
 * Returns TDM_NO_DEVICE with the reason if there is no driver, it is too old, or it has no device.
 * The driver stays mapped for the life of the process: drivers have threads that would continue to
 * run in unmapped code.
 */
tdm_status tdm_cuda_load(tdm_cuda_api *api);
void tdm_cuda_unload(tdm_cuda_api *api);

/* Calls a function of the table. */
#define CUDA_CALL(api, name, ...)                                                                  \
    __extension__({                                                                                \
        const int fault_ = tdm_fault(#name);                                                       \
        fault_ != 0 ? (CUresult)fault_ : (api)->name(__VA_ARGS__);                                 \
    })

/* Calls a function that waits; see tdm_fault_lasts. */
#define CUDA_WAIT(api, name, ...)                                                                  \
    __extension__({                                                                                \
        const int fault_ = tdm_fault(#name);                                                       \
        const CUresult waited_ =                                                                   \
            fault_ != 0 && !tdm_fault_lasts() ? CUDA_SUCCESS : (api)->name(__VA_ARGS__);           \
        fault_ != 0 ? (CUresult)fault_ : waited_;                                                  \
    })

/*
 * The number of attempts of a wait that fails although the device is not lost. The caller will free
 * memory that the work uses, so the wait must really happen.
 */
#define CUDA_WAIT_TRIES 2

/*
 * Calls a function that releases something, even if a fault is injected. A failure is only logged,
 * because nothing else can be done.
 */
#define CUDA_RELEASE(api, name, ...)                                                               \
    tdm_cuda_released(tdm_fault(#name), (api)->name(__VA_ARGS__), #name)
void tdm_cuda_released(int fault, CUresult code, const char *call);

/* Returns from the caller on failure; `what` begins the detail text. */
#define CUDA_TRY(what, api, name, ...)                                                             \
    do {                                                                                           \
        const CUresult try_code_ = CUDA_CALL(api, name, __VA_ARGS__);                              \
        if (try_code_ != CUDA_SUCCESS)                                                             \
            return tdm_cuda_fail(try_code_, what, #name);                                          \
    } while (0)

/*
 * Returns a name like "CUDA_ERROR_OUT_OF_MEMORY". The driver names a code that is not in the list;
 * the last resort is "unknown CUDA error".
 */
const char *tdm_cuda_error_name(CUresult code);

/* Makes tdm_cuda_error_name ask this driver for the names of codes that are newer than the list. */
void tdm_cuda_errors_query(const tdm_cuda_api *api);

/* Returns the default meaning of a code, for calls without a special case. */
tdm_status tdm_cuda_status(CUresult code);

/* Sets the detail "what: call: NAME (code)" and returns tdm_cuda_status(code). */
tdm_status tdm_cuda_fail(CUresult code, const char *what, const char *call);

#endif
