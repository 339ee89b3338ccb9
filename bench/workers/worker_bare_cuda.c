/*
 * The worker of a bare launch on CUDA, for the launch suite: the kernel that Tandem's own row launches, in the same grid, on the
 * same stream and device, by nothing but cuLaunchKernel, its arguments set once. The driver's functions are looked up here, and the
 * module is loaded here: of the library's launch nothing is left in between.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include <tandem/cuda.h>

#include "bench/cases/launch_case.h"
#include "bench/workers/probe_run.h"
#include "bench/workers/worker_tandem.h"
#include "kernels/kernel_index.h"

/* Of the driver's interface, declared by us as in the backend: all handles are pointers, all functions return 0 for success. */
typedef struct bare_driver {
    void *library;
    int (*push)(struct CUctx_st *context);
    int (*pop)(struct CUctx_st **context);
    int (*load)(void **module, const void *image, unsigned count, int *options, void **values);
    int (*unload)(void *module);
    int (*find)(void **function, void *module, const char *name);
    int (*launch)(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                  unsigned block_x, unsigned block_y, unsigned block_z, unsigned local_bytes,
                  struct CUstream_st *stream, void **parameters, void **extra);
    int (*wait)(struct CUstream_st *stream);
} bare_driver;

typedef struct bare_state {
    worker_device device; /* first, for worker_tandem.h */
    launch_case item;
    bare_driver driver;
    probe_run probe; /* row, grid and output; it is never enqueued */
    struct CUstream_st *stream;
    int entered; /* the device's context is this thread's */
    void *module;
    void *function;
    uint64_t address; /* what the parameters point to, like the next two */
    int64_t offset;
    int32_t value;
    void *parameters[3];
} bare_state;

static void release(void *state) {
    bare_state *const own = state;
    struct CUctx_st *context = NULL;
    if (own->stream != NULL && own->driver.wait != NULL)
        own->driver.wait(own->stream);
    if (own->module != NULL)
        own->driver.unload(own->module);
    if (own->entered)
        own->driver.pop(&context);
    probe_run_release(&own->probe);
    if (own->driver.library != NULL)
        dlclose(own->driver.library);
    *own = (bare_state){.device = own->device};
}

/* POSIX makes a pointer of dlsym usable as one to a function; ISO C has no cast for it. */
static int look_up(void *library, const char *name, void *target) {
    void *const found = dlsym(library, name);
    memcpy(target, &found, sizeof found);
    return found != NULL;
}

/* The file that the library has loaded. */
static int open_driver(bare_driver *driver) {
    const char *const named = getenv("TANDEM_CUDA_LIBRARY");
    driver->library =
        dlopen(named != NULL && named[0] != '\0' ? named : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    return driver->library != NULL &&
           look_up(driver->library, "cuCtxPushCurrent_v2", &driver->push) &&
           look_up(driver->library, "cuCtxPopCurrent_v2", &driver->pop) &&
           look_up(driver->library, "cuModuleLoadDataEx", &driver->load) &&
           look_up(driver->library, "cuModuleUnload", &driver->unload) &&
           look_up(driver->library, "cuModuleGetFunction", &driver->find) &&
           look_up(driver->library, "cuLaunchKernel", &driver->launch) &&
           look_up(driver->library, "cuStreamSynchronize", &driver->wait);
}

static worker_answer code_answer(const char *what, int code, worker_text *reply) {
    if (code == 0)
        return WORKER_OK;
    worker_text_set(reply, "%s: code %d", what, code);
    return WORKER_FAIL;
}

/* The kernel of the probe's row, from a module of our own. */
static worker_answer load_kernel(bare_state *own, worker_text *reply) {
    const tdm_variant *const row = own->probe.kernel->variant;
    const tdm_kernel_image *const image = tdm_kernel_image_find(row->text);
    if (image == NULL) {
        worker_text_set(reply, "the library holds no image of %s", row->text);
        return WORKER_SKIP;
    }
    const int code = own->driver.load(&own->module, image->data, 0, NULL, NULL);
    return code != 0 ? code_answer("cuModuleLoadDataEx", code, reply)
                     : code_answer("cuModuleGetFunction",
                                   own->driver.find(&own->function, own->module, row->name), reply);
}

static tdm_status prepare(bare_state *own, struct CUctx_st **context) {
    TDM_TRY(tdm_cuda_handles_of_device(own->device.device, NULL, context));
    TDM_TRY(tdm_cuda_stream_of_stream(own->device.stream, &own->stream));
    TDM_TRY(probe_run_create(own->device.device, own->device.stream, &own->item.probe, NULL,
                             &own->probe));
    TDM_TRY(tdm_cuda_address_of_buffer(own->probe.output, &own->address));
    own->value = probe_launch_value(&own->item.probe);
    own->parameters[0] = &own->address;
    own->parameters[1] = &own->offset;
    own->parameters[2] = &own->value;
    return TDM_OK;
}

static worker_answer describe(void *state, const char *request, worker_text *reply) {
    bare_state *const own = state;
    struct CUctx_st *context = NULL;
    if (launch_case_read(request, &own->item) != 0 || own->item.way != LAUNCH_KERNEL) {
        worker_text_set(reply, "bare CUDA launches a kernel, nothing else");
        return WORKER_SKIP;
    }
    worker_answer answer = worker_device_open(&own->device, request, reply);
    if (answer == WORKER_OK)
        answer = worker_library_answer("launch", prepare(own, &context), reply);
    if (answer != WORKER_OK)
        return answer;
    if (!open_driver(&own->driver)) {
        worker_text_set(reply, "the driver's file cannot be opened a second time");
        return WORKER_SKIP;
    }
    answer = code_answer("cuCtxPushCurrent", own->driver.push(context), reply);
    own->entered = answer == WORKER_OK;
    if (answer == WORKER_OK)
        answer = load_kernel(own, reply);
    if (answer == WORKER_OK)
        worker_field_add(reply, "variant", "cuLaunchKernel");
    return answer;
}

static worker_answer enqueue(void *state, worker_text *reply) {
    bare_state *const own = state;
    return code_answer("cuLaunchKernel",
                       own->driver.launch(own->function, own->probe.groups, 1, 1, own->probe.group,
                                          1, 1, 0, own->stream, own->parameters, NULL),
                       reply);
}

static worker_answer wait_for_stream(void *state, worker_text *reply) {
    const bare_state *const own = state;
    return code_answer("cuStreamSynchronize", own->driver.wait(own->stream), reply);
}

static size_t output_bytes(void *state) {
    return probe_run_output_bytes(&((const bare_state *)state)->probe);
}

static worker_answer output(void *state, void *bytes, worker_text *reply) {
    const bare_state *const own = state;
    return worker_library_answer(
        "read", probe_run_output(&own->probe, &own->item.probe, own->device.stream, bytes), reply);
}

int worker_bare_cuda(void) {
    static const worker_implementation bare = {
        .name = "cuda",
        .describe = describe,
        .enqueue = enqueue,
        .wait = wait_for_stream,
        .output_bytes = output_bytes,
        .output = output,
        .release = release,
    };
    bare_state state = {.stream = NULL};
    return worker_device_serve(&bare, &state);
}
