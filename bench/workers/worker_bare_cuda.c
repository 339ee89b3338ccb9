/*
 * This worker launches a kernel through the CUDA driver without Tandem, as the launch suite's
 * baseline. Kernel, grid, stream and device are those of Tandem's launch. The worker calls
 * cuLaunchKernel alone and sets the arguments once. It looks up the driver's functions and loads
 * the module itself, so nothing of the library's launch path is measured.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include <tandem/cuda.h>

#include "bench/workers/probe_run.h"
#include "bench/workers/worker_tandem.h"
#include "kernels/kernel_index.h"

/*
 * The file declares the driver's functions itself, as the backend does. All handles are pointers,
 * and all functions return 0 for success.
 */
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
    worker_device device; /* worker_tandem.h requires that it is first */
    probe_case item;
    bare_driver driver;
    probe_run probe; /* gives variant, grid and output; it is never enqueued */
    struct CUstream_st *stream;
    int entered; /* the device's context is current in this thread */
    void *module;
    void *function;
    uint64_t address; /* `parameters` points to it and to the next two members */
    int64_t offset;
    int32_t value;
    void *parameters[3];
} bare_state;

static int read_case(void *state, const char *request) {
    return probe_case_read(request, &((bare_state *)state)->item);
}

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
}

/*
 * Returns 1 if the function exists. The pointer is copied, because ISO C has no cast from dlsym's
 * data pointer to a function pointer. POSIX makes the copy usable.
 */
static int look_up(void *library, const char *name, void *target) {
    void *const found = dlsym(library, name);
    memcpy(target, &found, sizeof found);
    return found != NULL;
}

/* Opens the driver file that the library has loaded, and looks up the functions. Returns 1 or 0. */
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

static tdm_status status_of(const char *what, int code) {
    return code == 0 ? TDM_OK : tdm_fail(TDM_INTERNAL, "%s: code %d", what, code);
}

static tdm_status prepare(void *state, const char *request, worker_text *reply) {
    bare_state *const own = state;
    struct CUctx_st *context = NULL;
    (void)request;
    TDM_TRY(tdm_cuda_handles_of_device(own->device.device, NULL, &context));
    TDM_TRY(tdm_cuda_native_stream(own->device.stream, &own->stream));
    TDM_TRY(
        probe_run_create(own->device.device, own->device.stream, &own->item, NULL, &own->probe));
    TDM_TRY(tdm_cuda_address_of_buffer(own->probe.output, &own->address));
    const tdm_variant *const row = own->probe.kernel->variant;
    const tdm_kernel_image *const image = tdm_kernel_image_find(row->source);
    if (image == NULL || !open_driver(&own->driver))
        return tdm_fail(TDM_UNSUPPORTED, "there is no image of %s, or no CUDA driver file",
                        row->source);
    own->value = probe_launch_value(&own->item);
    own->parameters[0] = &own->address;
    own->parameters[1] = &own->offset;
    own->parameters[2] = &own->value;
    TDM_TRY(status_of("cuCtxPushCurrent", own->driver.push(context)));
    own->entered = 1;
    TDM_TRY(status_of("cuModuleLoadDataEx",
                      own->driver.load(&own->module, image->data, 0, NULL, NULL)));
    worker_field_add(reply, "variant", "cuLaunchKernel");
    return status_of("cuModuleGetFunction",
                     own->driver.find(&own->function, own->module, row->name));
}

static tdm_status enqueue(void *state) {
    bare_state *const own = state;
    return status_of("cuLaunchKernel",
                     own->driver.launch(own->function, own->probe.groups, 1, 1, own->probe.group, 1,
                                        1, 0, own->stream, own->parameters, NULL));
}

static tdm_status wait_for_stream(void *state) {
    const bare_state *const own = state;
    return status_of("cuStreamSynchronize", own->driver.wait(own->stream));
}

static size_t output_bytes(const void *state) {
    return probe_run_output_bytes(&((const bare_state *)state)->probe);
}

static tdm_status output(void *state, void *bytes) {
    const bare_state *const own = state;
    return probe_run_output(&own->probe, own->device.stream, bytes);
}

const tandem_worker worker_bare_cuda = {
    "cuda",          sizeof(bare_state), read_case, prepare, enqueue,
    wait_for_stream, output_bytes,       output,    release, NULL};
