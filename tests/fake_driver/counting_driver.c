/*
 * This is a wrapper of a real OpenCL driver that counts live objects and changes some answers:
 *
 *   COUNTING_TARGET     the driver file; libOpenCL.so.1 if unset
 *   COUNTING_FREE_KIB   the value of CL_DEVICE_GLOBAL_FREE_MEMORY_AMD, "free,largest"; "error":
 *                       it is announced and fails; unset: it is not announced
 *   COUNTING_DISCRETE   set: the device has its own memory
 *   COUNTING_SPOIL      "<entry> <expression>": adds the expression to the sums of that integer
 *                       GEMM kernel, so that they are wrong or the kernel does not compile
 *   COUNTING_STOP_MS    delays the first query of a command's state by this time and then reports
 *                       the command as queued, as if the process had been stopped
 *
 * counting_driver_live(kind) returns the counts, with a kind of `kinds`.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <CL/cl_ext.h>

enum {
    CONTEXTS,
    QUEUES,
    MEMORY,
    EVENTS,
    PROGRAMS,
    KERNELS,
    KINDS
};
static atomic_long live[KINDS];

/* Returns the number of live objects of a kind. KINDS and larger numbers stand for all kinds
 * together. */
long counting_driver_live(int kind);
long counting_driver_live(int kind) {
    long sum = 0;
    for (int i = 0; i < KINDS; i++)
        sum += i == kind || kind >= KINDS ? atomic_load(&live[i]) : 0;
    return sum;
}

static void *target(const char *name) {
    static _Atomic(void *) library;
    void *opened = atomic_load(&library);
    if (!opened) {
        const char *const file = getenv("COUNTING_TARGET");
        opened = dlopen(file ? file : "libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
        if (!opened)
            abort();
        atomic_store(&library, opened);
    }
    void *const function = dlsym(opened, name);
    if (!function)
        abort();
    return function;
}

#define REAL(name)                                                                                 \
    static _Atomic(void *) found_;                                                                 \
    void *known_ = atomic_load(&found_);                                                           \
    if (!known_) {                                                                                 \
        known_ = target(#name);                                                                    \
        atomic_store(&found_, known_);                                                             \
    }                                                                                              \
    __typeof__(&name) real;                                                                        \
    memcpy(&real, &known_, sizeof real)

#define FORWARD(name, parameters, arguments)                                                       \
    CL_API_ENTRY cl_int CL_API_CALL name parameters {                                              \
        REAL(name);                                                                                \
        return real arguments;                                                                     \
    }

/* Wraps a function that creates an object and returns its status through `code`. */
#define CREATE(type, kind, name, parameters, arguments)                                            \
    CL_API_ENTRY type CL_API_CALL name parameters {                                                \
        REAL(name);                                                                                \
        const type made = real arguments;                                                          \
        if (made)                                                                                  \
            atomic_fetch_add(&live[kind], 1);                                                      \
        return made;                                                                               \
    }

#define RELEASE(type, kind, name, change)                                                          \
    CL_API_ENTRY cl_int CL_API_CALL name(type object) {                                            \
        REAL(name);                                                                                \
        const cl_int code = real(object);                                                          \
        if (code == CL_SUCCESS)                                                                    \
            atomic_fetch_add(&live[kind], change);                                                 \
        return code;                                                                               \
    }

/* Wraps a function whose last parameter is `event`. The function may return an event through it. */
#define ENQUEUE(name, parameters, arguments)                                                       \
    CL_API_ENTRY cl_int CL_API_CALL name parameters {                                              \
        REAL(name);                                                                                \
        const cl_int code = real arguments;                                                        \
        if (code == CL_SUCCESS && event)                                                           \
            atomic_fetch_add(&live[EVENTS], 1);                                                    \
        return code;                                                                               \
    }

/* ---- queries ---- */

#define INFO cl_uint what, size_t bytes, void *value, size_t *size

FORWARD(clGetPlatformIDs, (cl_uint count, cl_platform_id *list, cl_uint *found),
        (count, list, found))
FORWARD(clGetPlatformInfo, (cl_platform_id platform, INFO), (platform, what, bytes, value, size))
FORWARD(clGetDeviceIDs,
        (cl_platform_id platform, cl_device_type type, cl_uint count, cl_device_id *list,
         cl_uint *found),
        (platform, type, count, list, found))
FORWARD(clGetMemObjectInfo, (cl_mem memory, INFO), (memory, what, bytes, value, size))

CL_API_ENTRY cl_int CL_API_CALL clGetEventInfo(cl_event event, INFO) {
    static atomic_bool stopped;
    REAL(clGetEventInfo);
    const cl_int code = real(event, what, bytes, value, size);
    const char *const milliseconds = getenv("COUNTING_STOP_MS");
    if (milliseconds && what == CL_EVENT_COMMAND_EXECUTION_STATUS && code == CL_SUCCESS && value &&
        !atomic_exchange(&stopped, true)) {
        const long most = strtol(milliseconds, NULL, 10);
        const cl_int then = CL_QUEUED;
        nanosleep(&(struct timespec){most / 1000, most % 1000 * 1000000}, NULL);
        memcpy(value, &then, sizeof then);
    }
    return code;
}

FORWARD(clGetEventProfilingInfo, (cl_event event, INFO), (event, what, bytes, value, size))
FORWARD(clGetProgramInfo, (cl_program program, INFO), (program, what, bytes, value, size))
FORWARD(clGetProgramBuildInfo, (cl_program program, cl_device_id device, INFO),
        (program, device, what, bytes, value, size))
FORWARD(clGetKernelWorkGroupInfo, (cl_kernel kernel, cl_device_id device, INFO),
        (kernel, device, what, bytes, value, size))

static cl_int answer(const void *from, size_t from_bytes, size_t bytes, void *value, size_t *size) {
    if (size)
        *size = from_bytes;
    if (value && bytes < from_bytes)
        return CL_INVALID_VALUE;
    if (value)
        memcpy(value, from, from_bytes);
    return CL_SUCCESS;
}

static cl_int answer_free(const char *kib, size_t bytes, void *value, size_t *size) {
    char *end;
    const unsigned long long total = strtoull(kib, &end, 10);
    const unsigned long long largest = *end == ',' ? strtoull(end + 1, NULL, 10) : 0;
    if (end == kib)
        return CL_INVALID_VALUE;
    const size_t both[2] = {(size_t)total, (size_t)largest};
    return answer(both, sizeof both, bytes, value, size);
}

CL_API_ENTRY cl_int CL_API_CALL clGetDeviceInfo(cl_device_id device, INFO) {
    REAL(clGetDeviceInfo);
    static const char announced[] = "cl_amd_device_attribute_query";
    const char *const kib = getenv("COUNTING_FREE_KIB");
    const cl_bool no = CL_FALSE;
    if (what == CL_DEVICE_HOST_UNIFIED_MEMORY && getenv("COUNTING_DISCRETE"))
        return answer(&no, sizeof no, bytes, value, size);
    if (kib && what == CL_DEVICE_GLOBAL_FREE_MEMORY_AMD)
        return answer_free(kib, bytes, value, size);
    if (kib && what == CL_DEVICE_EXTENSIONS_WITH_VERSION)
        return CL_INVALID_VALUE;
    if (kib && what == CL_DEVICE_EXTENSIONS)
        return answer(announced, sizeof announced, bytes, value, size);
    return real(device, what, bytes, value, size);
}

/* ---- objects ---- */

typedef void(CL_CALLBACK *context_notify)(const char *, const void *, size_t, void *);
typedef void(CL_CALLBACK *program_notify)(cl_program, void *);

CREATE(cl_context, CONTEXTS, clCreateContext,
       (const cl_context_properties *properties, cl_uint count, const cl_device_id *devices,
        context_notify notify, void *user, cl_int *code),
       (properties, count, devices, notify, user, code))
RELEASE(cl_context, CONTEXTS, clReleaseContext, -1)
CREATE(cl_command_queue, QUEUES, clCreateCommandQueue,
       (cl_context context, cl_device_id device, cl_command_queue_properties properties,
        cl_int *code),
       (context, device, properties, code))
RELEASE(cl_command_queue, QUEUES, clReleaseCommandQueue, -1)
CREATE(cl_mem, MEMORY, clCreateBuffer,
       (cl_context context, cl_mem_flags flags, size_t bytes, void *host, cl_int *code),
       (context, flags, bytes, host, code))
RELEASE(cl_mem, MEMORY, clRetainMemObject, 1)
RELEASE(cl_mem, MEMORY, clReleaseMemObject, -1)
CREATE(cl_event, EVENTS, clCreateUserEvent, (cl_context context, cl_int *code), (context, code))
RELEASE(cl_event, EVENTS, clReleaseEvent, -1)
static cl_program create_program(cl_context context, cl_uint count, const char **texts,
                                 const size_t *lengths, cl_int *code) {
    REAL(clCreateProgramWithSource);
    const cl_program made = real(context, count, texts, lengths, code);
    if (made)
        atomic_fetch_add(&live[PROGRAMS], 1);
    return made;
}

/* COUNTING_SPOIL adds its expression at this position of the kernel source. */
#define SUM_OF_COLUMN "to->base[x] = tdm_sub_wrap("
#define SPOILED_SUM "to->base[x] = COUNTING_SPOILED + tdm_sub_wrap("

CL_API_ENTRY cl_program CL_API_CALL clCreateProgramWithSource(cl_context context, cl_uint count,
                                                              const char **texts,
                                                              const size_t *lengths, cl_int *code) {
    const char *const at =
        getenv("COUNTING_SPOIL") && count == 1 ? strstr(texts[0], SUM_OF_COLUMN) : NULL;
    if (!at)
        return create_program(context, count, texts, lengths, code);
    const size_t before = (size_t)(at - texts[0]), own = sizeof SPOILED_SUM - 1,
                 after = strlen(at + sizeof SUM_OF_COLUMN - 1);
    char *const spoiled = malloc(before + own + after + 1);
    if (!spoiled)
        abort();
    memcpy(spoiled, texts[0], before);
    memcpy(spoiled + before, SPOILED_SUM, own);
    memcpy(spoiled + before + own, at + sizeof SUM_OF_COLUMN - 1, after + 1);
    const cl_program made = create_program(context, 1, (const char **)&spoiled, NULL, code);
    free(spoiled);
    return made;
}

CREATE(cl_program, PROGRAMS, clCreateProgramWithBinary,
       (cl_context context, cl_uint count, const cl_device_id *devices, const size_t *lengths,
        const unsigned char **binaries, cl_int *states, cl_int *code),
       (context, count, devices, lengths, binaries, states, code))
RELEASE(cl_program, PROGRAMS, clReleaseProgram, -1)
CREATE(cl_kernel, KERNELS, clCreateKernel, (cl_program program, const char *name, cl_int *code),
       (program, name, code))
RELEASE(cl_kernel, KERNELS, clReleaseKernel, -1)

FORWARD(clSetUserEventStatus, (cl_event event, cl_int status), (event, status))
FORWARD(clWaitForEvents, (cl_uint count, const cl_event *list), (count, list))
FORWARD(clFlush, (cl_command_queue queue), (queue))
FORWARD(clFinish, (cl_command_queue queue), (queue))

CL_API_ENTRY cl_int CL_API_CALL clBuildProgram(cl_program program, cl_uint count,
                                               const cl_device_id *devices, const char *options,
                                               program_notify notify, void *user) {
    REAL(clBuildProgram);
    char all[2048], entry[256], expression[64];
    const char *const spoil = getenv("COUNTING_SPOIL");
    if (!spoil || sscanf(spoil, "%199s %63s", all, expression) != 2)
        return real(program, count, devices, options, notify, user);
    snprintf(entry, sizeof entry, "-DTDM_ENTRY=%.199s ", all);
    snprintf(all, sizeof all, "%s -DCOUNTING_SPOILED=%s", options,
             strstr(options, entry) ? expression : "0");
    return real(program, count, devices, all, notify, user);
}

FORWARD(clSetKernelArg, (cl_kernel kernel, cl_uint index, size_t bytes, const void *value),
        (kernel, index, bytes, value))

/* ---- commands ---- */

#define WAITS cl_uint count, const cl_event *waits, cl_event *event
#define WAITED count, waits, event

CL_API_ENTRY void *CL_API_CALL clEnqueueMapBuffer(cl_command_queue queue, cl_mem memory,
                                                  cl_bool blocking, cl_map_flags flags,
                                                  size_t offset, size_t bytes, WAITS,
                                                  cl_int *code) {
    REAL(clEnqueueMapBuffer);
    void *const address = real(queue, memory, blocking, flags, offset, bytes, WAITED, code);
    if (address && event)
        atomic_fetch_add(&live[EVENTS], 1);
    return address;
}

ENQUEUE(clEnqueueUnmapMemObject, (cl_command_queue queue, cl_mem memory, void *address, WAITS),
        (queue, memory, address, WAITED))
ENQUEUE(clEnqueueMigrateMemObjects,
        (cl_command_queue queue, cl_uint objects, const cl_mem *list, cl_mem_migration_flags flags,
         WAITS),
        (queue, objects, list, flags, WAITED))
ENQUEUE(clEnqueueReadBuffer,
        (cl_command_queue queue, cl_mem memory, cl_bool blocking, size_t offset, size_t bytes,
         void *host, WAITS),
        (queue, memory, blocking, offset, bytes, host, WAITED))
ENQUEUE(clEnqueueWriteBuffer,
        (cl_command_queue queue, cl_mem memory, cl_bool blocking, size_t offset, size_t bytes,
         const void *host, WAITS),
        (queue, memory, blocking, offset, bytes, host, WAITED))
ENQUEUE(clEnqueueReadBufferRect,
        (cl_command_queue queue, cl_mem memory, cl_bool blocking, const size_t *origin,
         const size_t *host_origin, const size_t *region, size_t row, size_t slice, size_t host_row,
         size_t host_slice, void *host, WAITS),
        (queue, memory, blocking, origin, host_origin, region, row, slice, host_row, host_slice,
         host, WAITED))
ENQUEUE(clEnqueueWriteBufferRect,
        (cl_command_queue queue, cl_mem memory, cl_bool blocking, const size_t *origin,
         const size_t *host_origin, const size_t *region, size_t row, size_t slice, size_t host_row,
         size_t host_slice, const void *host, WAITS),
        (queue, memory, blocking, origin, host_origin, region, row, slice, host_row, host_slice,
         host, WAITED))
ENQUEUE(clEnqueueCopyBuffer,
        (cl_command_queue queue, cl_mem from, cl_mem to, size_t from_offset, size_t to_offset,
         size_t bytes, WAITS),
        (queue, from, to, from_offset, to_offset, bytes, WAITED))
ENQUEUE(clEnqueueFillBuffer,
        (cl_command_queue queue, cl_mem memory, const void *pattern, size_t pattern_bytes,
         size_t offset, size_t bytes, WAITS),
        (queue, memory, pattern, pattern_bytes, offset, bytes, WAITED))
ENQUEUE(clEnqueueMarkerWithWaitList, (cl_command_queue queue, WAITS), (queue, WAITED))
ENQUEUE(clEnqueueBarrierWithWaitList, (cl_command_queue queue, WAITS), (queue, WAITED))
ENQUEUE(clEnqueueNDRangeKernel,
        (cl_command_queue queue, cl_kernel kernel, cl_uint dimensions, const size_t *offset,
         const size_t *global, const size_t *local, WAITS),
        (queue, kernel, dimensions, offset, global, local, WAITED))
