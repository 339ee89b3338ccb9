// Every function of the CUDA driver fails at its Nth call, for every N: the status says so with the native name, nothing
// leaks on either side, and the same work succeeds when it is done again.
// ctest: device cuda timeout=300
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend_cuda/cuda_calls.h"
#include "tests/support/counted_host.h"
#include "tests/support/fault_sweep.h"

#include <tandem/cuda.h>

#define BIG_LOCAL (64u * 1024 - 256)
#define CLUSTER_ARCHITECTURE 90
#define ALL_KINDS 99

static const char *const quiet_functions[] = {
    "cuCtxPushCurrent", /* where something is given back */
    "cuCtxPopCurrent",
    "cuDevicePrimaryCtxRelease",
    "cuMemFree",
    "cuMemFreeHost",
    "cuMemAlloc",
    "cuMemHostAlloc",
    "cuMemHostGetDevicePointer",
    "cuMemGetInfo",
    "cuDeviceGetAttribute",
    "cuStreamSynchronize",
    "cuStreamDestroy",
    "cuEventDestroy",
    "cuEventSynchronize",
    "cuModuleUnload",
    "cuEventQuery",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
    "cuMemFreeAsync",
};

/* Of the list, but of what the work does not call: the driver's own names of its codes, which nothing calls yet; tensor maps, which
 * test_gemm_wgmma is about. */
static const char *const uncalled_functions[] = {
    "cuGetErrorName",
    "cuTensorMapEncodeTiled",
};

static const char *const listed[] = {
#define CUDA_FUNCTION(name, symbol, need, since, parameters) #name,
#include "backend_cuda/cuda_functions.def"
#undef CUDA_FUNCTION
};
#define LISTED_COUNT (sizeof listed / sizeof listed[0])

/* ---- what is CUDA's own -------------------------------------------------------------------------- */

static const char *error_name(int code) {
    return tdm_cuda_error_name((CUresult)code);
}

/* Of the simulator; a real driver does not tell. */
static long (*simulator_objects)(int kind);

static long objects(void) {
    return simulator_objects ? simulator_objects(ALL_KINDS) : 0;
}

static void find_objects(void) {
    const char *const named = getenv("TANDEM_CUDA_LIBRARY");
    void *const library = dlopen(named ? named : "libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    assert_non_null(library);
    void *const function = dlsym(library, "tandem_simulator_live");
    memcpy(&simulator_objects, &function, sizeof simulator_objects);
    dlclose(library);
}

static atomic_bool by_library;

static void read_log(void *user, tdm_log_level level, const char *topic, const char *message) {
    (void)user;
    (void)level;
    if (strcmp(topic, "dispatch") == 0 && strstr(message, "replayed by the library"))
        atomic_store(&by_library, true);
}

static bool said(void) {
    return atomic_exchange(&by_library, false);
}

static tdm_status wrap(sweep_round *w) {
    uint64_t address;
    TDM_TRY(tdm_cuda_address_of_buffer(w->copy, &address));
    return tdm_buffer_from_cuda(w->device, address, SWEEP_BYTES, &w->wrapped);
}

/* Pieces with gaps on both sides, and patterns of every width, through the slots. */
static tdm_status use_slots(const sweep_round *w, float *scratch) {
    const tdm_backend *const api = w->device->api;
    const tdm_block *const block = tdm_tensor_buffer(w->a)->block;
    const tdm_bk_rows rows = {
        .offset = block->offset, .pitch = 32, .host_pitch = 24, .bytes = 16, .rows = 3};
    static const unsigned char pattern[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    TDM_TRY(api->write_rows(w->stream->native, "write_rows", block->memory, &rows, scratch));
    TDM_TRY(api->read_rows(w->stream->native, "read_rows", block->memory, &rows, scratch));
    for (size_t width = 1; width <= 8; width *= 2)
        TDM_TRY(
            api->fill(w->stream->native, "fill", block->memory, block->offset, 64, pattern, width));
    return TDM_OK;
}

/* A kernel with more local memory than it may have unasked, and in a cluster. */
static tdm_status launch_large(const sweep_round *w) {
    tdm_kernel *kernel;
    const tdm_variant *const variant = tdm_variant_find("probe_launch_s32");
    TDM_TRY(tdm_device_kernel(w->device, variant, &kernel));
    const tdm_arg args[] = {tdm_arg_block(tdm_tensor_buffer(w->a)->block, 0, 4),
                            {.kind = TDM_ARG_S32, .value.s32 = 1},
                            {.kind = TDM_ARG_LOCAL, .bytes = BIG_LOCAL}};
    tdm_launch launch = {.args = args, .arg_count = 3, .groups = {2, 1, 1}, .group = {1, 1, 1}};
    const tdm_backend *const api = w->device->api;
    uint32_t groups;
    TDM_TRY(api->kernel_occupancy(kernel->native, 1, BIG_LOCAL, &groups));
    TDM_TRY(api->launch(w->stream->native, "launch", kernel->native, &launch));
    if (w->device->info.architecture < CLUSTER_ARCHITECTURE)
        return TDM_OK;
    launch.cluster[0] = 2;
    launch.cluster[1] = launch.cluster[2] = 1;
    TDM_TRY(api->kernel_clusters(kernel->native, 2, 1, BIG_LOCAL, &groups));
    return api->launch(w->stream->native, "launch", kernel->native, &launch);
}

static tdm_status use_ordered(const sweep_round *w) {
    const tdm_backend *const api = w->device->api;
    uint64_t address, held = 0;
    TDM_TRY(api->ordered_open(w->device->native));
    TDM_TRY(api->ordered_alloc(w->stream->native, 4096, &address));
    const tdm_status status = api->ordered_held(w->device->native, &held);
    api->ordered_free(w->stream->native, address);
    return status;
}

static tdm_status use_more(const sweep_round *w, float *scratch) {
    TDM_TRY(use_slots(w, scratch));
    TDM_TRY(use_ordered(w));
    return launch_large(w);
}

static const sweep_driver driver = {
    .codes = {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_UNKNOWN, CUDA_ERROR_OPERATING_SYSTEM},
    .error_name = error_name,
    .objects = objects,
    .wrap = wrap,
    .use_more = use_more,
    .said = said,
};

/* ---- the sweep ----------------------------------------------------------------------------------- */

static bool is_in(const char *name, const char *const *names, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}
#define IS_IN(name, names) is_in(name, names, sizeof(names) / sizeof((names)[0]))

static char selector[192];

static void every_function_fails_at_every_call(void **state) {
    (void)state;
    if (!test_case_begin(test_device_at(0), NULL, "every_function_fails_at_every_call"))
        return;
    long runs = 0, reported = 0;
    tdm_set_log(read_log, NULL);
    for (size_t i = 0; i < LISTED_COUNT; i++) {
        const long before = reported;
        const long count = sweep_function(&driver, selector, listed[i],
                                          IS_IN(listed[i], quiet_functions), NULL, &reported);
        printf("%s: %ld calls failed one by one, %ld reported\n", listed[i], count,
               reported - before);
        if ((count == 0) != IS_IN(listed[i], uncalled_functions))
            test_case_fail("the work calls %s %ld times", listed[i], count);
        runs += count;
    }
    tdm_set_log(NULL, NULL);
    printf("%s: %ld faults, %ld reported\n", selector, runs, reported);
    assert_true(runs >= 150 && reported >= 60);
    test_case_end();
}

static int setup(void **state) {
    if (test_devices_setup(state) != 0)
        return -1;
    find_objects();
    snprintf(selector, sizeof selector, "%s", test_device_at(0)->info.selector);
    // Or leaks of the driver's objects would not be seen.
    return strstr(selector, "/simulator/") && !simulator_objects ? -1 : 0;
}

int main(void) {
    if (!counted_host_install())
        return 1;
    tdm_force_variant("gemm_any_reference");
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_function_fails_at_every_call)};
    return cmocka_run_group_tests(tests, setup, test_devices_teardown);
}
