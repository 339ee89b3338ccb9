#include <stdio.h>
#include <string.h>

#include "tests/support/drivers/counted_host.h"
#include "tests/support/drivers/fault_sweep.h"

/* ---- a device ---- */

typedef struct job {
    const char *selector;
    tdm_context *context;
    tdm_device *device;
} job;

/* Notes name the devices that the listing skipped. Returns NULL if no note contains `part`. */
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

/* ---- the work ---- */

static void count_run(void *user) {
    ++*(int *)user;
}

static tdm_status make_objects(sweep_round *w) {
    const int64_t a[] = {SWEEP_ROWS, SWEEP_INNER}, b[] = {SWEEP_INNER, SWEEP_COLUMNS};
    const int64_t d[] = {SWEEP_ROWS, SWEEP_COLUMNS};
    TDM_TRY(tdm_stream_create(w->device, &w->stream));
    TDM_TRY(tdm_stream_create(w->device, &w->other));
    TDM_TRY(tdm_tensor_create(w->device, TDM_F32, 2, a, &w->a));
    TDM_TRY(tdm_tensor_create(w->device, TDM_F32, 2, b, &w->b0));
    TDM_TRY(tdm_tensor_create(w->device, TDM_F32, 2, b, &w->b));
    TDM_TRY(tdm_tensor_create(w->device, TDM_F32, 2, d, &w->d));
    TDM_TRY(tdm_buffer_create(w->device, SWEEP_BYTES, &w->copy));
    return tdm_host_buffer_create(w->device, 4096, &w->pinned);
}

/* Recording is completed or not started, so that the stream is left as it was. */
static tdm_status record(sweep_round *w) {
    TDM_TRY(tdm_stream_begin_recording(w->stream));
    tdm_status status = tdm_tensor_copy(w->stream, w->b0, w->b);
    if (status == TDM_OK)
        status = tdm_tensor_fill(w->stream, -1.0, w->d);
    const tdm_status ended = tdm_stream_end_recording(w->stream, &w->graph);
    return status == TDM_OK ? ended : status;
}

/*
 * Computes d = a·b on one stream. Then it copies d to `copy` on the other stream, and to the host.
 */
static tdm_status enqueue_work(const sweep_driver *driver, sweep_round *w, float *a, float *scratch,
                               float *result) {
    float *const pinned = tdm_host_buffer_address(w->pinned);
    for (int i = 0; i < SWEEP_ROWS * SWEEP_INNER; i++)
        a[i] = (float)(i % 5 - 2);
    for (int i = 0; i < SWEEP_INNER * SWEEP_COLUMNS; i++)
        pinned[i] = (float)(i % 7 - 3);
    TDM_TRY(tdm_event_record(w->stream, &w->begin));
    TDM_TRY(driver->use_more(w, scratch));
    TDM_TRY(tdm_tensor_write(w->stream, a, sizeof(float) * SWEEP_ROWS * SWEEP_INNER, NULL, w->a));
    TDM_TRY(tdm_tensor_write(w->stream, pinned, sizeof(float) * SWEEP_INNER * SWEEP_COLUMNS, NULL,
                             w->b0));
    TDM_TRY(record(w));
    TDM_TRY(tdm_graph_launch(w->graph, w->stream));
    TDM_TRY(tdm_stream_host_task(w->stream, count_run, &w->task_runs));
    TDM_TRY(tdm_gemm(w->stream, 1.0f, w->a, w->b, 0.0f, NULL, w->d, NULL));
    TDM_TRY(tdm_event_record(w->stream, &w->end));
    TDM_TRY(tdm_stream_wait_event(w->other, w->end));
    TDM_TRY(tdm_buffer_copy(w->other, w->copy, 0, tdm_tensor_buffer(w->d), 0, SWEEP_BYTES));
    TDM_TRY(tdm_stream_flush(w->other));
    TDM_TRY(tdm_event_wait(w->end));
    TDM_TRY(tdm_buffer_read(w->other, w->copy, 0, result, SWEEP_BYTES));
    return tdm_stream_synchronize(w->other);
}

static tdm_status ask(sweep_round *w) {
    int done = 0;
    double nanoseconds = 0;
    tdm_memory_info info = {.struct_size = sizeof info};
    TDM_TRY(tdm_event_query(w->end, &done));
    TDM_TRY(tdm_stream_synchronize(w->stream));
    TDM_TRY(tdm_device_memory_info(w->device, &info));
    return tdm_event_elapsed(w->begin, w->end, &nanoseconds, NULL);
}

static void check_result(const sweep_round *w, const float *result) {
    for (int i = 0; i < SWEEP_ROWS; i++)
        for (int j = 0; j < SWEEP_COLUMNS; j++) {
            int sum = 0;
            for (int k = 0; k < SWEEP_INNER; k++)
                sum += ((i * SWEEP_INNER + k) % 5 - 2) * ((k * SWEEP_COLUMNS + j) % 7 - 3);
            if (result[i * SWEEP_COLUMNS + j] != (float)sum)
                test_case_fail("element %d, %d is %g, not %d", i, j,
                               (double)result[i * SWEEP_COLUMNS + j], sum);
        }
    if (w->task_runs != 1)
        test_case_fail("the host task ran %d times", w->task_runs);
}

static void drop_objects(sweep_round *w) {
    // A call that failed half-way may have left work that uses the caller's host memory.
    if (w->stream)
        tdm_stream_synchronize(w->stream);
    if (w->other)
        tdm_stream_synchronize(w->other);
    tdm_graph_destroy(w->graph);
    tdm_event_destroy(w->begin);
    tdm_event_destroy(w->end);
    tdm_tensor_destroy(w->a);
    tdm_tensor_destroy(w->b0);
    tdm_tensor_destroy(w->b);
    tdm_tensor_destroy(w->d);
    tdm_buffer_destroy(w->wrapped);
    tdm_buffer_destroy(w->copy);
    tdm_host_buffer_destroy(w->pinned);
    tdm_stream_destroy(w->stream);
    tdm_stream_destroy(w->other);
    tdm_device_trim(w->device);
}

/* One round: allocate, copy, multiply, free, trim. `detail` gets the detail of the failure. */
static tdm_status do_work(const sweep_driver *driver, const job *j, char *detail,
                          size_t detail_bytes) {
    sweep_round w = {.device = j->device};
    float a[SWEEP_ROWS * SWEEP_INNER] = {0}, scratch[SWEEP_ROWS * SWEEP_INNER] = {0};
    float result[SWEEP_ROWS * SWEEP_COLUMNS] = {0};
    tdm_status status = make_objects(&w);
    if (status == TDM_OK)
        status = driver->wrap(&w);
    if (status == TDM_OK)
        status = enqueue_work(driver, &w, a, scratch, result);
    if (status == TDM_OK)
        status = ask(&w);
    if (status == TDM_OK)
        check_result(&w, result);
    snprintf(detail, detail_bytes, "%s", status == TDM_OK ? "" : tdm_last_detail());
    drop_objects(&w);
    return status;
}

/* ---- one fault ---- */

typedef struct fault {
    const sweep_driver *driver;
    const char *call;
    long nth;
    int code;
    bool quiet;
} fault;

typedef struct outcome {
    long calls;    /* of the function */
    bool reported; /* by a status, or by the driver's `said` */
    bool loud;     /* a status or `said` must report it */
} outcome;

static void check_pool_is_empty(const fault *f,
                                tdm_status (*stats_of)(const tdm_device *, tdm_memory_stats *),
                                const tdm_device *device, const char *what) {
    tdm_memory_stats stats = {.struct_size = sizeof stats};
    TEST_OK(stats_of(device, &stats));
    if (stats.live_blocks || stats.requested || stats.allocated || stats.reserved || stats.pending)
        test_case_fail("%s, call %ld: %s has %llu live blocks, %llu bytes allocated, %llu reserved",
                       f->call, f->nth, what, (unsigned long long)stats.live_blocks,
                       (unsigned long long)stats.allocated, (unsigned long long)stats.reserved);
}

/* Repeats failed work without a fault. */
static void do_again(job *j, const fault *f) {
    char detail[512] = "";
    tdm_status status = TDM_OK;
    if (!j->device) {
        close_job(j);
        status = open_job(j, "");
        snprintf(detail, sizeof detail, "%s", tdm_last_detail());
    }
    if (status == TDM_OK)
        status = do_work(f->driver, j, detail, sizeof detail);
    if (status != TDM_OK)
        test_case_fail("%s, call %ld failed with %d and the retry fails too: %s: %s", f->call,
                       f->nth, f->code, tdm_status_text(status), detail);
}

/*
 * The detail of a failure must contain the name of the error code. A failed release must not make a
 * call fail.
 */
static void check_report(const fault *f, tdm_status status, bool opened, const char *detail) {
    const char *const name = f->driver->error_name(f->code);
    if (status == TDM_OK)
        return;
    if (!strstr(detail, name))
        test_case_fail("%s, call %ld failed with %s and the detail is only: %s: %s", f->call,
                       f->nth, name, tdm_status_text(status), detail);
    if (opened && f->quiet && strstr(f->call, "Release"))
        test_case_fail("%s, call %ld: a release that failed became %s", f->call, f->nth, detail);
}

static void plant_rest(const fault *f, long seen) {
    tdm_fault_plant(f->call, f->nth > seen ? f->nth - seen : -1, f->code, false);
}

static void check_nothing_leaks(const fault *f, long host_before, long driver_before) {
    const long host = counted_host_live() - host_before;
    const long driver = f->driver->objects() - driver_before;
    if (host != 0)
        test_case_fail("%s, call %ld: %ld host blocks leak", f->call, f->nth, host);
    if (driver != 0)
        test_case_fail("%s, call %ld: %ld objects of the driver leak", f->call, f->nth, driver);
}

/* The fault can occur anywhere from opening to closing. */
static outcome run_with_fault(const char *selector, const fault *f) {
    job j = {.selector = selector};
    outcome o = {0};
    char detail[512] = "";
    const long host_before = counted_host_live(), driver_before = f->driver->objects();
    plant_rest(f, 0);
    tdm_status status = open_job(&j, f->driver->error_name(f->code));
    snprintf(detail, sizeof detail, "%s", status == TDM_OK ? "" : tdm_last_detail());
    const bool opened = status == TDM_OK;
    const long to_open = tdm_fault_clear();
    o.loud = f->nth > (f->driver->probes ? to_open : 0) && !f->quiet;
    plant_rest(f, to_open);
    if (opened)
        status = do_work(f->driver, &j, detail, sizeof detail);
    const long to_work_end = to_open + tdm_fault_clear();
    check_report(f, status, opened, detail);
    o.reported = (f->driver->said && f->driver->said()) || status != TDM_OK;
    if (status != TDM_OK)
        do_again(&j, f);
    check_pool_is_empty(f, tdm_device_memory_stats, j.device, "the pool");
    check_pool_is_empty(f, tdm_device_host_memory_stats, j.device, "pinned memory");
    plant_rest(f, to_work_end);
    close_job(&j);
    o.calls = to_work_end + tdm_fault_clear();
    check_nothing_leaks(f, host_before, driver_before);
    return o;
}

long sweep_function(const sweep_driver *driver, const char *selector, const char *function,
                    bool quiet, void (*prepare)(void), long *reported) {
    fault f = {.driver = driver, .call = function, .quiet = quiet};
    for (f.nth = 1;; f.nth++) {
        f.code = driver->codes[f.nth % SWEEP_CODES];
        if (prepare)
            prepare();
        const outcome o = run_with_fault(selector, &f);
        if (o.calls < f.nth)
            return f.nth - 1;
        *reported += o.reported;
        if (o.loud && !o.reported)
            test_case_fail("%s, call %ld failed with %d and nothing said so", f.call, f.nth,
                           f.code);
    }
}
