// Every function of the CUDA driver fails at its Nth call, for every N: the status says so with the native name, nothing
// leaks, and the same work succeeds when it is done again.
// ctest: device cuda timeout=300
#include <stdio.h>
#include <string.h>

#include "api/core.h"
#include "backend_cuda/cuda_calls.h"
#include "tests/support/counted_host.h"
#include "tests/support/test_devices.h"

#include <tandem/cuda.h>

#define ROWS 5
#define INNER 24
#define COLUMNS 7
#define BIG_LOCAL (64u * 1024 - 256)
#define CLUSTER_ARCHITECTURE 90

/*
 * Their failure may leave everything as it should be, because there is a second way, because the pool asks again for less, or
 * because what is released is gone anyway. All others must be reported.
 */
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
};

/* Of the list, but of what nothing calls yet: tensor maps, native graphs, occupancy, the driver's own names of its codes. */
static const char *const uncalled_functions[] = {
    "cuTensorMapEncodeTiled",
    "cuGetErrorName",
    "cuOccupancyMaxActiveBlocksPerMultiprocessor",
    "cuStreamBeginCapture",
    "cuOccupancyMaxActiveClusters",
    "cuStreamEndCapture",
    "cuGraphInstantiate",
    "cuGraphLaunch",
    "cuGraphExecDestroy",
    "cuGraphDestroy",
};

static const char *const listed[] = {
#define CUDA_FUNCTION(name, symbol, need, since, parameters) #name,
#include "backend_cuda/cuda_functions.def"
#undef CUDA_FUNCTION
};
#define LISTED_COUNT (sizeof listed / sizeof listed[0])

/* Of memory, of something unknown, of the system: none of them says that the device is lost. */
static const CUresult codes[] = {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_UNKNOWN,
                                 CUDA_ERROR_OPERATING_SYSTEM};

/* ---- the work ------------------------------------------------------------------------------------ */

typedef struct job {
    const char *selector;
    tdm_context *context;
    tdm_device *device;
} job;

typedef struct round_of_work {
    tdm_stream *stream, *other;
    tdm_tensor *a, *b, *d;
    tdm_buffer *copy, *wrapped;
    tdm_host_buffer *pinned;
    tdm_event *begin, *end;
    int task_runs;
} round_of_work;

static tdm_status open_job(job *j) {
    static char notes[2048];
    int index;
    size_t used = 0;
    TDM_TRY(tdm_context_create(NULL, &j->context));
    for (int i = 0; i < tdm_context_note_count(j->context) && used < sizeof notes; i++)
        used += (size_t)snprintf(notes + used, sizeof notes - used, "[%s] ",
                                 tdm_context_note(j->context, i));
    if (tdm_context_find_device(j->context, j->selector, &index) != TDM_OK)
        return tdm_fail(TDM_NO_DEVICE, "%s", notes);
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
    uint64_t address;
    TDM_TRY(tdm_stream_create(j->device, &w->stream));
    TDM_TRY(tdm_stream_create(j->device, &w->other));
    TDM_TRY(tdm_tensor_create(j->device, TDM_F32, 2, a, &w->a));
    TDM_TRY(tdm_tensor_create(j->device, TDM_F32, 2, b, &w->b));
    TDM_TRY(tdm_tensor_create(j->device, TDM_F32, 2, d, &w->d));
    TDM_TRY(tdm_buffer_create(j->device, sizeof(float[ROWS][COLUMNS]), &w->copy));
    TDM_TRY(tdm_cuda_address_of_buffer(w->copy, &address));
    TDM_TRY(tdm_buffer_from_cuda(j->device, address, sizeof(float[ROWS][COLUMNS]), &w->wrapped));
    return tdm_host_buffer_create(j->device, 4096, &w->pinned);
}

/* Pieces with gaps on both sides, and patterns of every width, through the slots; what they write is overwritten. */
static tdm_status use_slots(const round_of_work *w, float *host) {
    const tdm_backend *const api = w->stream->device->api;
    const tdm_block *const block = tdm_tensor_buffer(w->a)->block;
    const tdm_bk_rows rows = {
        .offset = block->offset, .pitch = 32, .host_pitch = 24, .bytes = 16, .rows = 3};
    static const unsigned char pattern[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    TDM_TRY(api->write_rows(w->stream->native, "write_rows", block->memory, &rows, host));
    TDM_TRY(api->read_rows(w->stream->native, "read_rows", block->memory, &rows, host));
    for (size_t width = 1; width <= 8; width *= 2)
        TDM_TRY(
            api->fill(w->stream->native, "fill", block->memory, block->offset, 64, pattern, width));
    return TDM_OK;
}

/* A kernel with more local memory than it may have unasked, and in a cluster. */
static tdm_status launch_large(const round_of_work *w) {
    tdm_kernel *kernel;
    const tdm_variant *const variant = tdm_variant_find("probe_launch_s32");
    TDM_TRY(tdm_device_kernel(w->stream->device, variant, &kernel));
    const tdm_arg args[] = {tdm_arg_block(tdm_tensor_buffer(w->a)->block, 0, 4),
                            {.kind = TDM_ARG_S32, .value.s32 = 1},
                            {.kind = TDM_ARG_LOCAL, .bytes = BIG_LOCAL}};
    tdm_launch launch = {.args = args, .arg_count = 3, .groups = {2, 1, 1}, .group = {1, 1, 1}};
    const tdm_backend *const api = w->stream->device->api;
    TDM_TRY(api->launch(w->stream->native, "launch", kernel->native, &launch));
    if (w->stream->device->info.architecture < CLUSTER_ARCHITECTURE)
        return TDM_OK;
    launch.cluster[0] = 2;
    launch.cluster[1] = launch.cluster[2] = 1;
    return api->launch(w->stream->native, "launch", kernel->native, &launch);
}

/* d = a·b on one stream, from there to `copy` on the other one, and to the host. */
static tdm_status enqueue_work(round_of_work *w, float *a, float *result, size_t bytes) {
    float *const pinned = tdm_host_buffer_address(w->pinned);
    for (int i = 0; i < ROWS * INNER; i++)
        a[i] = (float)(i % 5 - 2);
    for (int i = 0; i < INNER * COLUMNS; i++)
        pinned[i] = (float)(i % 7 - 3);
    TDM_TRY(tdm_event_record(w->stream, &w->begin));
    TDM_TRY(use_slots(w, result));
    TDM_TRY(launch_large(w));
    TDM_TRY(tdm_copy_from_host(w->stream, w->a, a, sizeof(float) * ROWS * INNER, NULL));
    TDM_TRY(tdm_copy_from_host(w->stream, w->b, pinned, sizeof(float) * INNER * COLUMNS, NULL));
    TDM_TRY(tdm_fill(w->stream, w->d, -1.0));
    TDM_TRY(tdm_stream_host_task(w->stream, count_run, &w->task_runs));
    TDM_TRY(tdm_gemm(w->stream, 1.0f, w->a, w->b, 0.0f, NULL, w->d, NULL));
    TDM_TRY(tdm_event_record(w->stream, &w->end));
    TDM_TRY(tdm_stream_wait_event(w->other, w->end));
    TDM_TRY(tdm_buffer_copy(w->other, w->wrapped, 0, tdm_tensor_buffer(w->d), 0, bytes));
    TDM_TRY(tdm_event_wait(w->end));
    TDM_TRY(tdm_buffer_read(w->other, w->wrapped, 0, result, bytes));
    return tdm_stream_synchronize(w->other);
}

static tdm_status ask_events(const job *j, round_of_work *w) {
    int done = 0;
    double nanoseconds = 0;
    tdm_memory_info info = {.struct_size = sizeof info};
    TDM_TRY(tdm_event_query(w->end, &done));
    TDM_TRY(tdm_stream_synchronize(w->stream));
    TDM_TRY(tdm_device_memory_info(j->device, &info));
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
    float a[ROWS * INNER] = {0}, result[ROWS * COLUMNS] = {0};
    tdm_status status = make_objects(j, &w);
    if (status == TDM_OK)
        status = enqueue_work(&w, a, result, sizeof result);
    if (status == TDM_OK)
        status = ask_events(j, &w);
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
    CUresult code;
    bool quiet;
} fault;

static void check_memory_is_free(const job *j, const fault *f) {
    tdm_memory_stats stats = {.struct_size = sizeof stats};
    TEST_OK(tdm_device_memory_stats(j->device, &stats));
    if (stats.live_blocks || stats.requested || stats.reserved)
        test_case_fail("%s, call %ld: %llu live blocks, %llu bytes reserved", f->call, f->nth,
                       (unsigned long long)stats.live_blocks, (unsigned long long)stats.reserved);
    // A real driver keeps memory of its own, and others may use the device.
    if (!strstr(j->selector, "/simulator/"))
        return;
    uint64_t free_bytes = 0;
    TEST_OK(j->device->api->memory_free_bytes(j->device->native, &free_bytes));
    if (free_bytes != j->device->info.global_bytes)
        test_case_fail("%s, call %ld: the driver still holds %llu bytes", f->call, f->nth,
                       (unsigned long long)(j->device->info.global_bytes - free_bytes));
}

/* The work once more, without a fault, where it failed. */
static void do_again(job *j, const fault *f) {
    char detail[512] = "";
    tdm_status status = TDM_OK;
    if (!j->device) {
        close_job(j);
        status = open_job(j);
        snprintf(detail, sizeof detail, "%s", tdm_last_detail());
    }
    if (status == TDM_OK)
        status = do_work(j, detail, sizeof detail);
    if (status != TDM_OK)
        test_case_fail("%s, call %ld failed with %u and the retry fails too: %s: %s", f->call,
                       f->nth, f->code, tdm_status_text(status), detail);
}

/* The fault strikes anywhere from opening to closing. Returns how many calls of the function there were. */
static long run_with_fault(const char *selector, const fault *f, bool *reported, bool *loud) {
    job j = {.selector = selector};
    char detail[512] = "";
    const char *const name = tdm_cuda_error_name(f->code);
    const long host_before = counted_host_live();
    tdm_fault_plant(f->call, f->nth, (int)f->code, false);
    tdm_status status = open_job(&j);
    snprintf(detail, sizeof detail, "%s", status == TDM_OK ? "" : tdm_last_detail());
    const long to_open = tdm_fault_clear();
    tdm_fault_plant(f->call, f->nth > to_open ? f->nth - to_open : -1, (int)f->code, false);
    *loud = f->nth > 0 && !f->quiet;
    if (status == TDM_OK)
        status = do_work(&j, detail, sizeof detail);
    const long to_work_end = to_open + tdm_fault_clear();
    *reported = status != TDM_OK;
    if (*reported && !strstr(detail, name))
        test_case_fail("%s, call %ld failed with %s and the detail is only: %s: %s", f->call,
                       f->nth, name, tdm_status_text(status), detail);
    if (*reported)
        do_again(&j, f);
    check_memory_is_free(&j, f);
    tdm_fault_plant(f->call, f->nth > to_work_end ? f->nth - to_work_end : -1, (int)f->code, false);
    close_job(&j);
    const long calls = to_work_end + tdm_fault_clear();
    if (counted_host_live() != host_before)
        test_case_fail("%s, call %ld: %ld host blocks leak", f->call, f->nth,
                       counted_host_live() - host_before);
    return calls;
}

/* ---- the sweep ----------------------------------------------------------------------------------- */

static bool is_in(const char *name, const char *const *names, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}
#define IS_IN(name, names) is_in(name, names, sizeof(names) / sizeof((names)[0]))

static long sweep(const char *selector, const char *name, long *noticed) {
    fault f = {.call = name, .quiet = IS_IN(name, quiet_functions), .nth = -1};
    bool reported, loud;
    for (f.nth = 1;; f.nth++) {
        f.code = codes[(size_t)f.nth % (sizeof codes / sizeof codes[0])];
        if (run_with_fault(selector, &f, &reported, &loud) < f.nth)
            break;
        *noticed += reported;
        if (loud && !reported)
            test_case_fail("%s, call %ld failed with %u and nothing said so", f.call, f.nth,
                           f.code);
    }
    return f.nth - 1;
}

static char selector[192];

static void every_function_fails_at_every_call(void **state) {
    (void)state;
    if (!test_case_begin(test_device_at(0), NULL, "every_function_fails_at_every_call"))
        return;
    long runs = 0, noticed = 0;
    for (size_t i = 0; i < LISTED_COUNT; i++) {
        const long before = noticed, count = sweep(selector, listed[i], &noticed);
        printf("%s: %ld calls failed one by one, %ld reported\n", listed[i], count,
               noticed - before);
        if ((count == 0) != IS_IN(listed[i], uncalled_functions))
            test_case_fail("the work calls %s %ld times", listed[i], count);
        runs += count;
    }
    printf("%s: %ld faults, %ld reported\n", selector, runs, noticed);
    assert_true(runs >= 150 && noticed >= 60);
    test_case_end();
}

static int setup(void **state) {
    if (test_devices_setup(state) != 0)
        return -1;
    snprintf(selector, sizeof selector, "%s", test_device_at(0)->info.selector);
    return 0;
}

int main(void) {
    if (!counted_host_install())
        return 1;
    tdm_force_variant("gemm_any_reference");
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_function_fails_at_every_call)};
    return cmocka_run_group_tests(tests, setup, test_devices_teardown);
}
