// Every function of the driver fails at its Nth call, for every N. The status contains the native
// name of the error. Nothing leaks in the library or the driver. The same work succeeds when it is
// repeated.
// ctest: device opencl timeout=300
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend_opencl/opencl_api.h"
#include "tests/support/drivers/counted_host.h"
#include "tests/support/drivers/fault_sweep.h"
#include "tests/support/test_case.h"
#include "tests/support/test_folder.h"
#include "tests/support/test_tree.h"

#include <tandem/opencl.h>

#define ALL_KINDS 99

/* ---- the functions that are swept ------------------------------------------------------------ */

/* The kind of work that calls a function. */
typedef enum sweep_kind {
    PLAIN,  /* kernels are built from source */
    LOGGED, /* as PLAIN, while the build logs are read */
    COLD,   /* built from source, with an empty program cache */
    WARM    /* taken from the program cache */
} sweep_kind;

static const char *const listed[] = {
#define OPENCL_FUNCTION(name, need, since) #name,
#include "backend_opencl/opencl_functions.def"
#undef OPENCL_FUNCTION
};
#define LISTED_COUNT (sizeof listed / sizeof listed[0])

/*
 * A failure of these functions may have no effect. Either there is a fallback, or the pool requests
 * less memory, or the released object is gone anyway. A failure of any other function during the
 * work must be reported. */
static const char quiet[] =
    " clGetPlatformInfo clGetDeviceInfo clReleaseContext clReleaseCommandQueue clFinish "
    "clCreateBuffer clReleaseMemObject clEnqueueMapBuffer clEnqueueUnmapMemObject "
    "clEnqueueMigrateMemObjects clWaitForEvents clGetEventInfo clReleaseEvent "
    "clSetUserEventStatus clCreateProgramWithBinary clGetProgramInfo "
    "clGetProgramBuildInfo clReleaseProgram clReleaseKernel clGetKernelWorkGroupInfo ";

static bool is_quiet(const char *name) {
    char word[64];
    snprintf(word, sizeof word, " %s ", name);
    return strstr(quiet, word) != NULL;
}

static sweep_kind kind_of(const char *name) {
    return strcmp(name, "clCreateProgramWithBinary") == 0 ? WARM
           : strcmp(name, "clGetProgramInfo") == 0        ? COLD
           : strcmp(name, "clGetProgramBuildInfo") == 0   ? LOGGED
                                                          : PLAIN;
}

/* ---- OpenCL-specific parts ------------------------------------------------------------------- */

static long (*driver_objects)(int kind);

static long objects(void) {
    return driver_objects(ALL_KINDS);
}

static const char *error_name(int code) {
    return tdm_opencl_error_name(code);
}

static tdm_status wrap(sweep_round *w) {
    struct _cl_mem *memory;
    size_t offset;
    TDM_TRY(tdm_opencl_memory_of_buffer(w->copy, &memory, &offset));
    return tdm_buffer_from_opencl(w->device, memory, offset + SWEEP_BYTES, &w->wrapped);
}

/* Copies rows with gaps on the host to the device and back. */
static tdm_status move_rows(const sweep_round *w, float *scratch) {
    float host[SWEEP_ROWS][SWEEP_INNER + 3], back[SWEEP_ROWS][SWEEP_INNER + 3];
    tdm_block *const block = tdm_tensor_buffer(w->a)->block;
    const tdm_bk_rows rows = {.pitch = SWEEP_INNER * sizeof(float),
                              .host_pitch = sizeof host[0],
                              .bytes = SWEEP_INNER * sizeof(float),
                              .rows = SWEEP_ROWS};
    for (int i = 0; i < SWEEP_ROWS * SWEEP_INNER; i++)
        host[i / SWEEP_INNER][i % SWEEP_INNER] = scratch[i] = (float)i;
    tdm_status status = tdm_enqueue_write_rows(w->stream, "write_rows", block, &rows, host);
    if (status == TDM_OK)
        status = tdm_enqueue_read_rows(w->stream, "read_rows", block, &rows, back);
    char detail[512];
    snprintf(detail, sizeof detail, "%s", tdm_last_detail());
    const tdm_status waited = tdm_stream_wait_always(w->stream);
    if (status != TDM_OK)
        return tdm_fail(status, "%s", detail);
    for (int i = 0; waited == TDM_OK && i < SWEEP_ROWS * SWEEP_INNER; i++)
        if (back[i / SWEEP_INNER][i % SWEEP_INNER] != scratch[i])
            test_case_fail("element %d came back changed", i);
    return waited;
}

static const sweep_driver driver = {
    .codes = {CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_OUT_OF_RESOURCES, CL_OUT_OF_HOST_MEMORY},
    .error_name = error_name,
    .objects = objects,
    .wrap = wrap,
    .use_more = move_rows,
    .probes = true,
};

/* ---- the sweep ------------------------------------------------------------------------------- */

static void empty_cache(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -f '%s'/*", test_folder());
    assert_int_equal(system(command), 0);
}

static void read_log(void *user, tdm_log_level level, const char *topic, const char *message) {
    (void)user;
    (void)level;
    (void)topic;
    (void)message;
}

static sweep_kind kind;

static void prepare(void) {
    const bool cached = kind == COLD || kind == WARM;
    setenv("TANDEM_CACHE_FORCE", cached ? "1" : "0", 1);
    setenv("TANDEM_CACHE_DIR", cached ? test_folder() : "off", 1);
    tdm_set_log(kind == LOGGED ? read_log : NULL, NULL);
    if (kind == COLD)
        empty_cache();
}

static long sweep(const char *selector, const char *name, long *reported) {
    long none = 0;
    kind = kind_of(name);
    prepare();
    if (kind == WARM)
        sweep_function(&driver, selector, "none, which fills the cache", true, NULL, &none);
    const long calls = sweep_function(&driver, selector, name, is_quiet(name), prepare, reported);
    // PoCL supports everything that the work requires; other drivers may lack host tasks and hence
    // user events.
    if (calls == 0 && strstr(selector, "/pocl/"))
        test_case_fail("the work never calls %s", name);
    return calls;
}

static char selectors[TEST_MAX_DEVICES][192];
static int selector_count;

TEST(every_function_fails_at_every_call) {
    for (int d = 0; d < selector_count; d++) {
        if (!test_case_begin(test_device_at(d), NULL, "every_function_fails_at_every_call"))
            continue;
        long runs = 0, noticed = 0;
        for (size_t i = 0; i < LISTED_COUNT; i++) {
            const long before = noticed, count = sweep(selectors[d], listed[i], &noticed);
            printf("%s: %ld calls failed one by one, %ld reported\n", listed[i], count,
                   noticed - before);
            runs += count;
        }
        printf("%s: %ld faults, %ld reported\n", selectors[d], runs, noticed);
        assert_true(runs >= 150 && noticed >= 60);
        test_case_end();
    }
}

/* ---- the counting driver --------------------------------------------------------------------- */

static void find_driver_objects(void) {
    char path[TEST_TREE_PATH];
    void *const library =
        dlopen(test_tree_build(path, "lib/" TANDEM_COUNTING_DRIVER), RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    void *const function = dlsym(library, "counting_driver_live");
    assert_non_null(function);
    memcpy(&driver_objects, &function, sizeof driver_objects);
}

static int setup(void **state) {
    char path[TEST_TREE_PATH];
    const char *const file = getenv("TANDEM_OPENCL_LIBRARY");
    if (file)
        setenv("COUNTING_TARGET", file, 1);
    setenv("TANDEM_OPENCL_LIBRARY", test_tree_build(path, "lib/" TANDEM_COUNTING_DRIVER), 1);
    setenv("COUNTING_DISCRETE", "1", 1); // residency is forced on such devices only
    if (test_folder_make(state) != 0 || test_devices_setup(state) != 0)
        return -1;
    find_driver_objects();
    selector_count = test_device_count();
    for (int i = 0; i < selector_count; i++)
        snprintf(selectors[i], sizeof selectors[i], "%s", test_device_at(i)->info.selector);
    return 0;
}

static int teardown(void **state) {
    const int removed = test_folder_remove(state);
    return test_devices_teardown(state) != 0 || removed != 0;
}

int main(void) {
    if (!counted_host_install())
        return 1;
    // GEMMs use a variant that builds quickly, because it is built some hundred times.
    tdm_force_variant("gemm_any_reference");
    return test_run_all(setup, teardown);
}
