/*
 * The CUDA driver as a table of pointers, the ways to call it, and its error codes.
 *
 * No file of the backend calls a pointer of the table directly: CUDA_CALL and CUDA_RELEASE ask tdm_fault first, so that tests
 * can make any call fail.
 */
#ifndef TANDEM_BACKEND_CUDA_CUDA_CALLS_H
#define TANDEM_BACKEND_CUDA_CUDA_CALLS_H

#include "api/backend.h"
#include "backend_cuda/cuda_api.h"

/* The version of the driver interface that has every required function, as cuDriverGetVersion tells it. */
#define CUDA_LEAST_VERSION 11000

typedef struct tdm_cuda_api {
    void *library; /* of dlopen */
    int version;   /* of the driver: major * 1000 + minor * 10 */
#define CUDA_FUNCTION(name, symbol, need, since, parameters) CUresult(*name) parameters;
#include "backend_cuda/cuda_functions.def"
#undef CUDA_FUNCTION
} tdm_cuda_api;

/*
 * Find the driver, the file TANDEM_CUDA_LIBRARY names or libcuda.so.1, and initialise it. TDM_NO_DEVICE with the reason when
 * there is none, it is too old, or it has nothing to drive. It stays mapped for the life of the process: drivers keep threads
 * that would run on in unmapped code.
 */
tdm_status tdm_cuda_load(tdm_cuda_api *api);
void tdm_cuda_unload(tdm_cuda_api *api);

/* Call a function of the table. */
#define CUDA_CALL(api, name, ...)                                                                  \
    __extension__({                                                                                \
        const int fault_ = tdm_fault(#name);                                                       \
        fault_ != 0 ? (CUresult)fault_ : (api)->name(__VA_ARGS__);                                 \
    })

/* Call a function that waits: see tdm_fault_lasts. */
#define CUDA_WAIT(api, name, ...)                                                                  \
    __extension__({                                                                                \
        const int fault_ = tdm_fault(#name);                                                       \
        const CUresult waited_ =                                                                   \
            fault_ != 0 && !tdm_fault_lasts() ? CUDA_SUCCESS : (api)->name(__VA_ARGS__);           \
        fault_ != 0 ? (CUresult)fault_ : waited_;                                                  \
    })

/* A wait that fails for another reason than the device's end is tried again this often: the caller will free what is in use. */
#define CUDA_WAIT_TRIES 2

/*
 * Call a function that gives something back, whatever the fault. A driver that refuses is logged; there is nothing else to do.
 */
#define CUDA_RELEASE(api, name, ...)                                                               \
    tdm_cuda_released(tdm_fault(#name), (api)->name(__VA_ARGS__), #name)
void tdm_cuda_released(int fault, CUresult code, const char *call);

/* Return on failure; `what` begins the detail text. */
#define CUDA_TRY(what, api, name, ...)                                                             \
    do {                                                                                           \
        const CUresult try_code_ = CUDA_CALL(api, name, __VA_ARGS__);                              \
        if (try_code_ != CUDA_SUCCESS)                                                             \
            return tdm_cuda_fail(try_code_, what, #name);                                          \
    } while (0)

/* "CUDA_ERROR_OUT_OF_MEMORY"; a code that is not in the list is named by the driver, or "unknown CUDA error". */
const char *tdm_cuda_error_name(CUresult code);

/* That driver names the codes of the list's future. */
void tdm_cuda_errors_ask(const tdm_cuda_api *api);

/* What a code means where nothing special is known of the call. */
tdm_status tdm_cuda_status(CUresult code);

/* Set the detail "what: call: NAME (code)" and return tdm_cuda_status(code). */
tdm_status tdm_cuda_fail(CUresult code, const char *what, const char *call);

#endif
