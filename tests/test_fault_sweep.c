// Every function of the driver fails at its Nth call, for every N: the status says so with the native name, nothing
// leaks on either side, and the same work succeeds when it is done again.
// ctest: device opencl timeout=300
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/core.h"
#include "backend_opencl/opencl_api.h"
#include "tests/support/counted_host.h"
#include "tests/support/test_devices.h"

#include <tandem/opencl.h>

#define ROWS 5
#define INNER 24
#define COLUMNS 7
#define ALL_KINDS 99

/* ---- what is swept ------------------------------------------------------------------------------- */

/* Which work reaches a function. */
typedef enum sweep_kind {
    PLAIN = 1, /* kernels from their texts */
    LOGGED,    /* as PLAIN, while somebody reads the build logs */
    COLD,      /* from their texts, and into an empty program cache */
    WARM       /* out of the program cache */
} sweep_kind;

/*
 * `quiet`: its failure may leave everything as it should be, because there is a second way, because the pool asks
 * again for less, or because what is released is gone anyway. All others must be reported when they fail in the work.
 */
static const struct {
    const char *name;
    sweep_kind kind;
    bool quiet;
} swept[] = {
    {"clGetPlatformIDs", PLAIN, false},
    {"clGetPlatformInfo", PLAIN, true},
    {"clGetDeviceIDs", PLAIN, false},
    {"clGetDeviceInfo", PLAIN, true},
    {"clCreateContext", PLAIN, false},
    {"clReleaseContext", PLAIN, true},
    {"clCreateCommandQueue", PLAIN, false},
    {"clReleaseCommandQueue", PLAIN, true},
    {"clFlush", PLAIN, false},
    {"clFinish", PLAIN, true},
    {"clCreateBuffer", PLAIN, true},
    {"clRetainMemObject", PLAIN, false},
    {"clReleaseMemObject", PLAIN, true},
    {"clGetMemObjectInfo", PLAIN, false},
    {"clEnqueueMapBuffer", PLAIN, true},
    {"clEnqueueUnmapMemObject", PLAIN, true},
    {"clEnqueueMigrateMemObjects", PLAIN, true},
    {"clEnqueueReadBuffer", PLAIN, false},
    {"clEnqueueWriteBuffer", PLAIN, false},
    {"clEnqueueReadBufferRect", PLAIN, false},
    {"clEnqueueWriteBufferRect", PLAIN, false},
    {"clEnqueueCopyBuffer", PLAIN, false},
    {"clEnqueueFillBuffer", PLAIN, false},
    {"clEnqueueMarkerWithWaitList", PLAIN, false},
    {"clEnqueueBarrierWithWaitList", PLAIN, false},
    {"clWaitForEvents", PLAIN, true},
    {"clGetEventInfo", PLAIN, true},
    {"clGetEventProfilingInfo", PLAIN, false},
    {"clReleaseEvent", PLAIN, true},
    {"clCreateUserEvent", PLAIN, false},
    {"clSetUserEventStatus", PLAIN, true},
    {"clCreateProgramWithSource", PLAIN, false},
    {"clCreateProgramWithBinary", WARM, true},
    {"clBuildProgram", PLAIN, false},
    {"clGetProgramInfo", COLD, true},
    {"clGetProgramBuildInfo", LOGGED, true},
    {"clReleaseProgram", PLAIN, true},
    {"clCreateKernel", PLAIN, false},
    {"clReleaseKernel", PLAIN, true},
    {"clSetKernelArg", PLAIN, false},
    {"clGetKernelWorkGroupInfo", PLAIN, true},
    {"clEnqueueNDRangeKernel", PLAIN, false},
};
#define SWEPT_COUNT (sizeof swept / sizeof swept[0])

static const char *const listed[] = {
#define OPENCL_FUNCTION(name, need, since) #name,
#include "backend_opencl/opencl_functions.def"
#undef OPENCL_FUNCTION
};

/* Lack of device memory, of something, of host memory: none of them says that the device is lost. */
static const int codes[] = {CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_OUT_OF_RESOURCES,
                            CL_OUT_OF_HOST_MEMORY};

/* ---- what must not leak -------------------------------------------------------------------------- */

static long (*driver_objects)(int kind);

/* ---- the work ------------------------------------------------------------------------------------ */

static char cache_folder[64];

typedef struct job {
    const char *selector;
    tdm_context *context;
    tdm_device *device;
} job;

/* What one round of the work holds. */
typedef struct round_of_work {
    tdm_stream *stream, *other;
    tdm_tensor *a, *b, *d;
    tdm_buffer *copy, *wrapped;
    tdm_host_buffer *pinned;
    tdm_event *begin, *end;
    int task_runs;
} round_of_work;

/* The notes say what the listing passed over; NULL: none names the code. */
static const char *note_with(const tdm_context *context, const char *part) {
    for (int i = 0; i < tdm_context_note_count(context); i++)
        if (strstr(tdm_context_note(context, i), part))
            return tdm_context_note(context, i);
    return NULL;
}

static const char *all_notes(const tdm_context *context) {
    static char text[2048];
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < tdm_context_note_count(context) && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "[%s] ",
                                 tdm_context_note(context, i));
    return text;
}

static tdm_status open_job(job *j, const char *code_name) {
    int index;
    TDM_TRY(tdm_context_create(NULL, &j->context));
    const tdm_status status = tdm_context_find_device(j->context, j->selector, &index);
    if (status == TDM_NO_DEVICE) {
        const char *const note = note_with(j->context, code_name);
        return tdm_fail(TDM_NO_DEVICE, "%s", note ? note : all_notes(j->context));
    }
    TDM_TRY(status);
    return tdm_device_get(j->context, index, &j->device);
}

static void close_job(job *j) {
    tdm_device_release(j->device);
    tdm_context_destroy(j->context);
    j->device = NULL;
    j->context = NULL;
}

static void count_run(void *user) {
    ++*(int *)user;
}

static tdm_status make_objects(const job *j, round_of_work *w) {
    const int64_t a[] = {ROWS, INNER}, b[] = {INNER, COLUMNS}, d[] = {ROWS, COLUMNS};
    TDM_TRY(tdm_stream_create(j->device, &w->stream));
    TDM_TRY(tdm_stream_create(j->device, &w->other));
    TDM_TRY(tdm_tensor_create(j->device, TDM_F32, 2, a, &w->a));
    TDM_TRY(tdm_tensor_create(j->device, TDM_F32, 2, b, &w->b));
    TDM_TRY(tdm_tensor_create(j->device, TDM_F32, 2, d, &w->d));
    TDM_TRY(tdm_buffer_create(j->device, sizeof(float[ROWS][COLUMNS]), &w->copy));
    return tdm_host_buffer_create(j->device, 4096, &w->pinned);
}

/* A second buffer on the native memory of the copy. */
static tdm_status wrap(const job *j, round_of_work *w) {
    struct _cl_mem *memory;
    size_t offset;
    TDM_TRY(tdm_opencl_memory_of_buffer(w->copy, &memory, &offset));
    return tdm_buffer_from_opencl(j->device, memory, offset + sizeof(float[ROWS][COLUMNS]),
                                  &w->wrapped);
}

/* The rows of a, with gaps on the host, there and back. */
static tdm_status move_rows(const round_of_work *w, const float *a) {
    float host[ROWS][INNER + 3], back[ROWS][INNER + 3];
    tdm_block *const block = tdm_tensor_buffer(w->a)->block;
    const tdm_bk_rows rows = {.pitch = INNER * sizeof(float),
                              .host_pitch = sizeof host[0],
                              .bytes = INNER * sizeof(float),
                              .rows = ROWS};
    for (int i = 0; i < ROWS; i++)
        memcpy(host[i], a + i * INNER, INNER * sizeof(float));
    tdm_status status = tdm_enqueue_write_rows(w->stream, "write_rows", block, &rows, host);
    if (status == TDM_OK)
        status = tdm_enqueue_read_rows(w->stream, "read_rows", block, &rows, back);
    char detail[512];
    snprintf(detail, sizeof detail, "%s", tdm_last_detail());
    const tdm_status waited = tdm_stream_wait_always(w->stream);
    if (status != TDM_OK)
        return tdm_fail(status, "%s", detail);
    for (int i = 0; waited == TDM_OK && i < ROWS * INNER; i++)
        if (back[i / INNER][i % INNER] != host[i / INNER][i % INNER])
            test_case_fail("element %d came back changed", i);
    return waited;
}

/* d = a·b on one stream, from there to `copy` on the other one, and to the host. */
static tdm_status enqueue_work(round_of_work *w, float *result, size_t bytes) {
    float a[ROWS * INNER], b[INNER * COLUMNS];
    for (int i = 0; i < ROWS * INNER; i++)
        a[i] = (float)(i % 5 - 2);
    for (int i = 0; i < INNER * COLUMNS; i++)
        b[i] = (float)(i % 7 - 3);
    float *const pinned = tdm_host_buffer_address(w->pinned);
    memcpy(pinned, b, sizeof b);
    TDM_TRY(tdm_event_record(w->stream, &w->begin));
    TDM_TRY(tdm_copy_from_host(w->stream, w->a, a, sizeof a, NULL));
    TDM_TRY(move_rows(w, a));
    TDM_TRY(tdm_copy_from_host(w->stream, w->b, pinned, sizeof b, NULL));
    TDM_TRY(tdm_fill(w->stream, w->d, -1.0));
    TDM_TRY(tdm_stream_host_task(w->stream, count_run, &w->task_runs));
    TDM_TRY(tdm_gemm(w->stream, 1.0f, w->a, w->b, 0.0f, NULL, w->d, NULL));
    TDM_TRY(tdm_event_record(w->stream, &w->end));
    TDM_TRY(tdm_stream_wait_event(w->other, w->end));
    TDM_TRY(tdm_buffer_copy(w->other, w->copy, 0, tdm_tensor_buffer(w->d), 0, bytes));
    TDM_TRY(tdm_stream_flush(w->other));
    TDM_TRY(tdm_event_wait(w->end));
    tdm_status status = tdm_buffer_read(w->other, w->copy, 0, result, bytes);
    const tdm_status waited = tdm_stream_synchronize(w->other);
    return status != TDM_OK ? status : waited;
}

static tdm_status ask_events(round_of_work *w) {
    int done = 0;
    double nanoseconds = 0;
    TDM_TRY(tdm_event_query(w->end, &done));
    TDM_TRY(tdm_stream_synchronize(w->stream));
    return tdm_event_elapsed(w->begin, w->end, &nanoseconds, NULL);
}

static void check_result(const round_of_work *w, const float *result) {
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++) {
            int sum = 0;
            for (int k = 0; k < INNER; k++)
                sum += ((i * INNER + k) % 5 - 2) * ((k * COLUMNS + j) % 7 - 3);
            if (result[i * COLUMNS + j] != (float)sum)
                test_case_fail("element %d, %d is %g, not %d", i, j,
                               (double)result[i * COLUMNS + j], sum);
        }
    if (w->task_runs != 1)
        test_case_fail("the host task ran %d times", w->task_runs);
}

static void drop_objects(const job *j, round_of_work *w) {
    // A call that failed half-way may have left work that uses what the host lent.
    if (w->stream)
        tdm_stream_synchronize(w->stream);
    if (w->other)
        tdm_stream_synchronize(w->other);
    tdm_event_destroy(w->begin);
    tdm_event_destroy(w->end);
    tdm_tensor_destroy(w->a);
    tdm_tensor_destroy(w->b);
    tdm_tensor_destroy(w->d);
    tdm_buffer_destroy(w->wrapped);
    tdm_buffer_destroy(w->copy);
    tdm_host_buffer_destroy(w->pinned);
    tdm_stream_destroy(w->stream);
    tdm_stream_destroy(w->other);
    tdm_device_trim(j->device);
}

/* One round: allocate, copy, multiply, free, trim. The detail text is that of the failure. */
static tdm_status do_work(const job *j, char *detail, size_t detail_bytes) {
    round_of_work w = {0};
    float result[ROWS * COLUMNS];
    tdm_status status = make_objects(j, &w);
    if (status == TDM_OK)
        status = wrap(j, &w);
    if (status == TDM_OK)
        status = enqueue_work(&w, result, sizeof result);
    if (status == TDM_OK)
        status = ask_events(&w);
    if (status == TDM_OK)
        check_result(&w, result);
    snprintf(detail, detail_bytes, "%s", status == TDM_OK ? "" : tdm_last_detail());
    drop_objects(j, &w);
    return status;
}

/* ---- one fault ----------------------------------------------------------------------------------- */

typedef struct fault {
    const char *call;
    long nth;
    int code;
    bool quiet;
} fault;

static void check_pool_is_empty(const fault *f,
                                tdm_status (*ask)(const tdm_device *, tdm_memory_stats *),
                                const tdm_device *device, const char *what) {
    tdm_memory_stats stats = {.struct_size = sizeof stats};
    TEST_OK(ask(device, &stats));
    if (stats.live_blocks || stats.requested || stats.allocated || stats.reserved || stats.pending)
        test_case_fail("%s, call %ld: %s has %llu live blocks, %llu bytes allocated, %llu reserved",
                       f->call, f->nth, what, (unsigned long long)stats.live_blocks,
                       (unsigned long long)stats.allocated, (unsigned long long)stats.reserved);
}

/* The work once more, without a fault, where it failed. */
static void do_again(job *j, const fault *f) {
    char detail[512] = "";
    tdm_status status = TDM_OK;
    if (!j->device) {
        close_job(j);
        status = open_job(j, "");
        snprintf(detail, sizeof detail, "%s", tdm_last_detail());
    }
    if (status == TDM_OK)
        status = do_work(j, detail, sizeof detail);
    if (status != TDM_OK)
        test_case_fail("%s, call %ld failed with %d and the retry fails too: %s: %s", f->call,
                       f->nth, f->code, tdm_status_text(status), detail);
}

/* True when the failure was reported; false when all went well in spite of it. */
static bool check_report(const fault *f, tdm_status status, bool opened, const char *detail) {
    const char *const name = tdm_opencl_error_name(f->code);
    if (status == TDM_OK)
        return false;
    if (!strstr(detail, name))
        test_case_fail("%s, call %ld failed with %s and the detail is only: %s: %s", f->call,
                       f->nth, name, tdm_status_text(status), detail);
    if (opened && f->quiet && strstr(f->call, "Release"))
        test_case_fail("%s, call %ld: a release that failed became %s", f->call, f->nth, detail);
    return true;
}

/* The fault strikes anywhere from opening to closing. Returns how many calls of the function there were. */
static long run_with_fault(const char *selector, const fault *f, bool *reported, bool *loud) {
    job j = {.selector = selector};
    char detail[512] = "";
    const long host_before = counted_host_live(), driver_before = driver_objects(ALL_KINDS);
    tdm_fault_plant(f->call, f->nth, f->code, false);
    tdm_status status = open_job(&j, tdm_opencl_error_name(f->code));
    snprintf(detail, sizeof detail, "%s", status == TDM_OK ? "" : tdm_last_detail());
    const bool opened = status == TDM_OK;
    // A probe that fails is no failure; work that does is.
    const long to_open = tdm_fault_clear();
    tdm_fault_plant(f->call, f->nth > to_open ? f->nth - to_open : -1, f->code, false);
    *loud = f->nth > to_open && !f->quiet;
    if (opened)
        status = do_work(&j, detail, sizeof detail);
    *reported = check_report(f, status, opened, detail);
    if (*reported)
        do_again(&j, f);
    check_pool_is_empty(f, tdm_device_memory_stats, j.device, "the pool");
    check_pool_is_empty(f, tdm_device_host_memory_stats, j.device, "pinned memory");
    close_job(&j);
    const long calls = to_open + tdm_fault_clear();
    if (counted_host_live() != host_before)
        test_case_fail("%s, call %ld: %ld host blocks leak", f->call, f->nth,
                       counted_host_live() - host_before);
    if (driver_objects(ALL_KINDS) != driver_before)
        test_case_fail("%s, call %ld: %ld objects of the driver leak", f->call, f->nth,
                       driver_objects(ALL_KINDS) - driver_before);
    return calls;
}

/* ---- the sweep ----------------------------------------------------------------------------------- */

static void empty_cache(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -f '%s'/*", cache_folder);
    assert_int_equal(system(command), 0);
}

static void read_log(void *user, tdm_log_level level, const char *topic, const char *message) {
    (void)user;
    (void)level;
    (void)topic;
    (void)message;
}

static void prepare(sweep_kind kind) {
    const bool cached = kind == COLD || kind == WARM;
    setenv("TANDEM_CACHE_FORCE", cached ? "1" : "0", 1);
    setenv("TANDEM_CACHE_DIR", cached ? cache_folder : "off", 1);
    tdm_set_log(kind == LOGGED ? read_log : NULL, NULL);
    if (kind == COLD)
        empty_cache();
}

static long sweep(const char *selector, size_t row, long *noticed) {
    fault f = {.call = swept[row].name, .quiet = swept[row].quiet, .nth = -1};
    bool reported, loud;
    prepare(swept[row].kind);
    if (swept[row].kind == WARM)
        run_with_fault(selector, &f, &reported, &loud); // fills the cache
    const long calls = run_with_fault(selector, &f, &reported, &loud);
    // PoCL has all that the work asks for; without host tasks, say, there are no user events.
    if (calls == 0 && strstr(selector, "/pocl/"))
        test_case_fail("the work never calls %s", f.call);
    for (f.nth = 1;; f.nth++) {
        f.code = codes[(size_t)f.nth % (sizeof codes / sizeof codes[0])];
        prepare(swept[row].kind);
        if (run_with_fault(selector, &f, &reported, &loud) < f.nth)
            break;
        *noticed += reported;
        if (loud && !reported)
            test_case_fail("%s, call %ld failed with %d and nothing said so", f.call, f.nth,
                           f.code);
    }
    return f.nth - 1;
}

static char selectors[TEST_MAX_DEVICES][192];
static int selector_count;

static void every_function_fails_at_every_call(void **state) {
    (void)state;
    for (int d = 0; d < selector_count; d++) {
        if (!test_case_begin(test_device_at(d), NULL, "every_function_fails_at_every_call"))
            continue;
        long runs = 0, noticed = 0;
        for (size_t row = 0; row < SWEPT_COUNT; row++) {
            const long before = noticed, count = sweep(selectors[d], row, &noticed);
            printf("%s: %ld calls failed one by one, %ld reported\n", swept[row].name, count,
                   noticed - before);
            runs += count;
        }
        printf("%s: %ld faults, %ld reported\n", selectors[d], runs, noticed);
        assert_true(runs >= 150 && noticed >= 60);
        test_case_end();
    }
}

/* A function that is added to the list must be swept. */
static void the_list_is_covered(void **state) {
    (void)state;
    if (!test_case_begin(test_device_at(0), NULL, "the_list_is_covered"))
        return;
    for (size_t i = 0; i < sizeof listed / sizeof listed[0]; i++) {
        int found = 0;
        for (size_t j = 0; j < SWEPT_COUNT; j++)
            found += strcmp(swept[j].name, listed[i]) == 0;
        if (found != 1)
            test_case_fail("%s stands %d times in the table of this test, not once", listed[i],
                           found);
    }
    test_case_end();
}

/* ---- the counting driver --------------------------------------------------------------------------- */

static void find_driver_objects(void) {
    void *const library = dlopen(TANDEM_COUNTING_DRIVER, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    void *const function = dlsym(library, "counting_driver_live");
    assert_non_null(function);
    memcpy(&driver_objects, &function, sizeof driver_objects);
}

static int setup(void **state) {
    const char *const file = getenv("TANDEM_OPENCL_LIBRARY");
    if (file)
        setenv("COUNTING_TARGET", file, 1);
    setenv("TANDEM_OPENCL_LIBRARY", TANDEM_COUNTING_DRIVER, 1);
    setenv("COUNTING_DISCRETE", "1", 1); // residency is forced on such devices only
    snprintf(cache_folder, sizeof cache_folder, "/tmp/tandem-sweep-test-XXXXXX");
    if (!mkdtemp(cache_folder) || test_devices_setup(state) != 0)
        return -1;
    find_driver_objects();
    selector_count = test_device_count();
    for (int i = 0; i < selector_count; i++)
        snprintf(selectors[i], sizeof selectors[i], "%s", test_device_at(i)->info.selector);
    return 0;
}

static int teardown(void **state) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", cache_folder);
    const int removed = system(command);
    return test_devices_teardown(state) != 0 || removed != 0;
}

int main(void) {
    if (!counted_host_install())
        return 1;
    // One kernel, and one that is quick to build: it is built some hundred times.
    tdm_force_variant("gemm_any_reference");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_list_is_covered),
        cmocka_unit_test(every_function_fails_at_every_call),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
