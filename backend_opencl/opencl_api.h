/*
 * The OpenCL driver as a table of function pointers, the macros that call it, and its error codes.
 *
 * No file of the backend calls a pointer of the table directly. OPENCL_CALL, OPENCL_CREATE and
 * OPENCL_RELEASE call tdm_fault first, so that tests can make any call fail.
 */
#ifndef TANDEM_BACKEND_OPENCL_OPENCL_API_H
#define TANDEM_BACKEND_OPENCL_OPENCL_API_H

#define CL_TARGET_OPENCL_VERSION 300
/* clCreateCommandQueue is the only function that creates queues on 1.2 and 3.0 drivers alike. */
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <CL/cl_ext.h>

#include "api/backend.h"

typedef struct tdm_opencl_api {
    void *library; /* handle from dlopen; NULL if the functions were preloaded */
    bool serial;   /* the driver is not thread-safe: one call at a time */
#define OPENCL_FUNCTION(name, need, since) __typeof__(&name) name;
#include "backend_opencl/opencl_functions.def"
#undef OPENCL_FUNCTION
} tdm_opencl_api;

/*
 * Finds the driver: the file that TANDEM_OPENCL_LIBRARY names, else a preloaded one, else the ICD
 * loader, else vendors' libraries. Returns TDM_NO_DEVICE with the reason if there is none. Drivers
 * that would crash the process are skipped and named in the notes (may be NULL); see
 * driver_check.h. Only one thread at a time may call this. The driver stays mapped for the life of
 * the process: drivers have threads that would continue to run in unmapped code.
 */
tdm_status tdm_opencl_load(tdm_opencl_api *api, tdm_notes *notes);
void tdm_opencl_unload(tdm_opencl_api *api);

/*
 * These functions surround every driver call. They lock and unlock a mutex if the driver is serial.
 */
void tdm_opencl_call_begin(const tdm_opencl_api *api);
void tdm_opencl_call_end(const tdm_opencl_api *api);

/* Calls a function that returns a code. */
#define OPENCL_CALL(api, name, ...)                                                                \
    __extension__({                                                                                \
        tdm_opencl_call_begin(api);                                                                \
        const cl_int call_code_ = tdm_fault(#name) ?: (api)->name(__VA_ARGS__);                    \
        tdm_opencl_call_end(api);                                                                  \
        call_code_;                                                                                \
    })

/* Calls a function that waits, or one that ends the wait of another call; see tdm_fault_lasts. */
#define OPENCL_WAIT(api, name, ...)                                                                \
    __extension__({                                                                                \
        tdm_opencl_call_begin(api);                                                                \
        const cl_int fault_ = tdm_fault(#name);                                                    \
        const cl_int waited_ =                                                                     \
            fault_ != 0 && !tdm_fault_lasts() ? fault_ : (api)->name(__VA_ARGS__);                 \
        tdm_opencl_call_end(api);                                                                  \
        fault_ ?: waited_;                                                                         \
    })

/*
 * Calls a function that returns an object and writes a code through its last parameter, here
 * `code`.
 */
#define OPENCL_CREATE(api, code, name, ...)                                                        \
    __extension__({                                                                                \
        tdm_opencl_call_begin(api);                                                                \
        *(code) = tdm_fault(#name);                                                                \
        __typeof__((api)->name(__VA_ARGS__, code)) created_ =                                      \
            *(code) != CL_SUCCESS ? NULL : (api)->name(__VA_ARGS__, code);                         \
        tdm_opencl_call_end(api);                                                                  \
        created_;                                                                                  \
    })

/*
 * Calls a function that releases an object. A failure is only logged, because nothing else can be
 * done.
 */
#define OPENCL_RELEASE(api, name, object)                                                          \
    do {                                                                                           \
        tdm_opencl_call_begin(api);                                                                \
        tdm_opencl_released(tdm_fault(#name), (api)->name(object), #name);                         \
        tdm_opencl_call_end(api);                                                                  \
    } while (0)
void tdm_opencl_released(cl_int fault, cl_int code, const char *call);

/* Returns from the caller on failure; `what` begins the detail text. */
#define OPENCL_TRY(what, api, name, ...)                                                           \
    do {                                                                                           \
        const cl_int try_code_ = OPENCL_CALL(api, name, __VA_ARGS__);                              \
        if (try_code_ != CL_SUCCESS)                                                               \
            return tdm_opencl_fail(try_code_, what, #name);                                        \
    } while (0)

/*
 * Returns a name like "CL_OUT_OF_RESOURCES", or "unknown OpenCL error" for a code that is not in
 * the list.
 */
const char *tdm_opencl_error_name(cl_int code);

/* Returns the default meaning of a code, for calls without a special case. */
tdm_status tdm_opencl_status(cl_int code);

/* Sets the detail "what: call: NAME (code)" and returns tdm_opencl_status(code). */
tdm_status tdm_opencl_fail(cl_int code, const char *what, const char *call);

/*
 * Logs a driver's message line by line, because log messages are single lines: "opencl: what:
 * line".
 */
void tdm_opencl_log_lines(tdm_log_level level, const char *what, const char *text);

#endif
