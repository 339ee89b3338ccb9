// Every function of the CUDA driver fails at its Nth call, for every N. The status contains the
// native name of the error. Nothing leaks in the library or the driver. The same work succeeds when
// it is repeated.
// ctest: device cuda timeout=300
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend_cuda/cuda_calls.h"
#include "tests/support/drivers/counted_host.h"
#include "tests/support/drivers/fault_sweep.h"
#include "tests/support/test_case.h"

#include <tandem/cuda.h>

#define BIG_LOCAL (64u * 1024 - 256)
#define CLUSTER_ARCHITECTURE 90
#define ALL_KINDS 99

static const char *const quiet_functions[] = {
    "cuDeviceGetPCIBusId",
    "cuCtxPushCurrent", /* called by functions that release something */
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
};

/* These are not called on a device without clusters; the last one is not called without wgmma. */
static const char *const cluster_functions[] = {
    "cuLaunchKernelEx",
    "cuOccupancyMaxActiveClusters",
    "cuTensorMapEncodeTiled",
};

/* This function is in the list, but it is called only for error codes that the library's own list
 * lacks. The sweep uses no such code; names_of_unknown_codes does. */
static const char *const uncalled_functions[] = {
    "cuGetErrorName",
};

/* A GEMM by tensor maps calls these functions in another way than the other work. The simulator
 * creates its 768 threads anew in each round. The sweep of other functions therefore omits the
 * GEMM. */
static const char *const product_functions[] = {
    "cuFuncSetAttribute",     "cuLaunchKernelEx", "cuModuleGetFunction",
    "cuModuleLoadDataEx",     "cuModuleUnload",   "cuOccupancyMaxActiveClusters",
    "cuTensorMapEncodeTiled",
};

static const char *const listed[] = {
#define CUDA_FUNCTION(name, symbol, need, since, parameters) #name,
#include "backend_cuda/cuda_functions.def"
#undef CUDA_FUNCTION
};
#define LISTED_COUNT (sizeof listed / sizeof listed[0])

/* ---- CUDA-specific parts --------------------------------------------------------------------- */

static const char *error_name(int code) {
    return tdm_cuda_error_name((CUresult)code);
}

/* Counts the live objects of the simulator. It is NULL on a real driver. */
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

/* Calls the backend for rows with gaps on both sides, and for fill patterns of every width. */
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

/* Launches a kernel with more local memory than the default limit. If the device has clusters,
 * launches it in a cluster, too. */
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

/* ---- a GEMM by tensor maps, of two work-groups in a cluster ---------------------------------- */

enum {
    TENSOR_MAP_M = 136, /* a tile for each group of the cluster */
    TENSOR_MAP_N = 16,
    TENSOR_MAP_K = 64
};

static bool with_tensor_map_product;

typedef struct tensor_map_product {
    tdm_tensor *a, *b, *d;
    tdm_gemm_plan *plan;
    uint16_t result[TENSOR_MAP_M * TENSOR_MAP_N]; /* f16 */
} tensor_map_product;

static tdm_status make_tensor_map_product(const sweep_round *w, tensor_map_product *p) {
    const int64_t a[] = {TENSOR_MAP_M, TENSOR_MAP_K}, b[] = {TENSOR_MAP_K, TENSOR_MAP_N},
                  d[] = {TENSOR_MAP_M, TENSOR_MAP_N};
    tdm_gemm_desc desc = TDM_GEMM_DESC_INIT;
    TDM_TRY(tdm_layout_contiguous(TDM_F16, 2, a, &desc.a));
    TDM_TRY(tdm_layout_contiguous(TDM_F16, 2, b, &desc.b));
    TDM_TRY(tdm_layout_contiguous(TDM_F16, 2, d, &desc.d));
    TDM_TRY(tdm_tensor_create(w->device, TDM_F16, 2, a, &p->a));
    TDM_TRY(tdm_tensor_create(w->device, TDM_F16, 2, b, &p->b));
    TDM_TRY(tdm_tensor_create(w->device, TDM_F16, 2, d, &p->d));
    desc.variant = "gemm_f16_wgmma_256x256__sm90a";
    const tdm_status status = tdm_gemm_plan_create(w->device, &desc, &p->plan);
    if (status != TDM_UNSUPPORTED || !strstr(tdm_last_detail(), "cannot run one of its clusters"))
        return status;
    // The query for the number of clusters failed; a variant without clusters is the fallback.
    atomic_store(&by_library, true);
    desc.variant = "gemm_f16_wgmma_128x256__sm90a";
    return tdm_gemm_plan_create(w->device, &desc, &p->plan);
}

/* Runs the GEMM. Each result is a sum of TENSOR_MAP_K products of 1/2 and 1. */
static tdm_status run_tensor_map_product(const sweep_round *w, tensor_map_product *p) {
    tdm_gemm_args args = TDM_GEMM_ARGS_INIT;
    args.a = p->a;
    args.b = p->b;
    args.d = p->d;
    TDM_TRY(tdm_tensor_fill(w->stream, 0.5, p->a));
    TDM_TRY(tdm_tensor_fill(w->stream, 1.0, p->b));
    TDM_TRY(tdm_tensor_fill(w->stream, -1.0, p->d));
    char detail[512];
    const tdm_status first = tdm_gemm_plan_run(p->plan, w->stream, &args);
    snprintf(detail, sizeof detail, "%s", tdm_last_detail());
    // The GEMM runs again with the same tensors. It must not use a wrong map that the failure left
    // in the cache.
    if (first != TDM_OK)
        TEST_OK(tdm_gemm_plan_run(p->plan, w->stream, &args));
    TDM_TRY(tdm_tensor_read(w->stream, p->d, p->result, sizeof p->result, NULL));
    for (int i = 0; i < TENSOR_MAP_M * TENSOR_MAP_N; i++)
        if (p->result[i] != 0x5000) /* 32 */
            test_case_fail("element %d, %d of the product by tensor maps has the bits %04x",
                           i / TENSOR_MAP_N, i % TENSOR_MAP_N, p->result[i]);
    return first == TDM_OK ? TDM_OK : tdm_fail(first, "%s", detail);
}

static tdm_status use_tensor_maps(const sweep_round *w) {
    static tensor_map_product p; // host data must live until the streams have ended
    if (!with_tensor_map_product || !(w->device->info.capabilities & TDM_CAP_WGMMA))
        return TDM_OK;
    p.a = p.b = p.d = NULL;
    p.plan = NULL;
    tdm_status status = make_tensor_map_product(w, &p);
    if (status == TDM_OK)
        status = run_tensor_map_product(w, &p);
    char detail[512];
    snprintf(detail, sizeof detail, "%s", tdm_last_detail());
    tdm_gemm_plan_destroy(p.plan);
    tdm_tensor_destroy(p.a);
    tdm_tensor_destroy(p.b);
    tdm_tensor_destroy(p.d);
    return status == TDM_OK ? TDM_OK : tdm_fail(status, "%s", detail);
}

static tdm_status use_more(const sweep_round *w, float *scratch) {
    TDM_TRY(use_slots(w, scratch));
    TDM_TRY(use_tensor_maps(w));
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

/* ---- the sweep ------------------------------------------------------------------------------- */

static bool is_in(const char *name, const char *const *names, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}
#define IS_IN(name, names) is_in(name, names, sizeof(names) / sizeof((names)[0]))

static char selector[192];
static tdm_device_info info;

static bool is_called(const char *name) {
    if (info.architecture < CLUSTER_ARCHITECTURE && IS_IN(name, cluster_functions))
        return false;
    if (!(info.capabilities & TDM_CAP_WGMMA) && strcmp(name, "cuTensorMapEncodeTiled") == 0)
        return false;
    return !IS_IN(name, uncalled_functions);
}

TEST(every_function_fails_at_every_call) {
    if (!test_case_begin(test_device_at(0), NULL, "every_function_fails_at_every_call"))
        return;
    long runs = 0, reported = 0;
    tdm_set_log(read_log, NULL);
    for (size_t i = 0; i < LISTED_COUNT; i++) {
        const long before = reported;
        with_tensor_map_product = IS_IN(listed[i], product_functions);
        const long count = sweep_function(&driver, selector, listed[i],
                                          IS_IN(listed[i], quiet_functions), NULL, &reported);
        printf("%s: %ld calls failed one by one, %ld reported\n", listed[i], count,
               reported - before);
        if ((count > 0) != is_called(listed[i]))
            test_case_fail("the work calls %s %ld times", listed[i], count);
        runs += count;
    }
    tdm_set_log(NULL, NULL);
    printf("%s: %ld faults, %ld reported\n", selector, runs, reported);
    assert_true(runs >= 150 && reported >= 60);
    test_case_end();
}

/* A driver may be newer than the library's list of codes. If the driver does not know the name
 * either, the library reports an unknown error. */
TEST(names_of_unknown_codes) {
    const CUresult unknown = (CUresult)12345;
    if (!test_case_begin(test_device_at(0), NULL, "names_of_unknown_codes"))
        return;
    tdm_fault_plant("cuGetErrorName", 1, CUDA_ERROR_UNKNOWN, false);
    const char *const name = tdm_cuda_error_name(unknown);
    const long calls = tdm_fault_clear();
    assert_int_equal(calls, 1);
    assert_string_equal(name, "unknown CUDA error");
    assert_string_equal(tdm_cuda_error_name(CUDA_ERROR_OUT_OF_MEMORY), "CUDA_ERROR_OUT_OF_MEMORY");
    test_case_end();
}

static int setup(void **state) {
    if (test_devices_setup(state) != 0)
        return -1;
    find_objects();
    info = test_device_at(0)->info;
    snprintf(selector, sizeof selector, "%s", info.selector);
    // Leaks of the simulated driver's objects must be detectable.
    return strstr(selector, "/simulator/") && !simulator_objects ? -1 : 0;
}

int main(void) {
    if (!counted_host_install())
        return 1;
    tdm_force_variant("gemm_any_reference");
    return test_run_all(setup, test_devices_teardown);
}
