// Tests streams, events, host tasks, recording, sticky failures, and the order of work across
// streams.
// ctest: device threads
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/device/core.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/drivers/driver_faults.h"
#include "tests/support/test_case.h"

#define COUNT 4096

static tdm_tensor *vector(const test_device *device) {
    tdm_tensor *tensor;
    TEST_OK(tdm_tensor_create(device->device, TDM_S32, 1, (const int64_t[]){COUNT}, &tensor));
    return tensor;
}

static void expect_all(tdm_stream *stream, const tdm_tensor *tensor, int32_t value) {
    int32_t *const seen = malloc(COUNT * sizeof *seen);
    assert_non_null(seen);
    TEST_OK(tdm_tensor_read(stream, tensor, seen, COUNT * sizeof *seen, NULL));
    for (int i = 0; i < COUNT; i++)
        if (seen[i] != value)
            test_case_fail("element %d is %d, not %d", i, seen[i], value);
    free(seen);
}

DEVICE_TEST(events_are_done_and_time_grows_with_the_work) {
    const bool from_driver = (device->info.capabilities & TDM_CAP_PROFILING) != 0;
    tdm_event *events[3];
    tdm_tensor *tensor;
    double idle, work;
    int done, from_device;
    TEST_OK(tdm_tensor_create(device->device, TDM_S32, 1, (const int64_t[]){1 << 18}, &tensor));
    TEST_OK(tdm_tensor_fill(device->stream, 1, tensor));
    TEST_OK(tdm_stream_synchronize(device->stream));
    TEST_OK(tdm_event_record(device->stream, &events[0]));
    TEST_OK(tdm_event_record(device->stream, &events[1]));
    for (int i = 0; i < 30; i++)
        TEST_OK(tdm_tensor_fill(device->stream, i, tensor));
    TEST_OK(tdm_event_record(device->stream, &events[2]));
    TEST_OK(tdm_event_wait(events[2]));
    for (int i = 0; i < 3; i++) {
        TEST_OK(tdm_event_query(events[i], &done));
        assert_true(done);
    }
    TEST_OK(tdm_event_elapsed(events[0], events[1], &idle, NULL));
    TEST_OK(tdm_event_elapsed(events[1], events[2], &work, &from_device));
    // 30 MB cannot be written in a microsecond: this detects a clock that stands still or counts
    // calls.
    assert_true(idle >= 0 && work > 1000 && work < 60e9);
    assert_int_equal(from_device, from_driver);
    for (int i = 0; i < 3; i++)
        tdm_event_destroy(events[i]);
    tdm_tensor_destroy(tensor);
}

/* Tasks write atomics, because ThreadSanitizer does not see that the driver makes the host wait for
 * them. */
static void append(void *user) {
    atomic_int *const seen = user;
    const int place = seen[0] + 1;
    seen[place] = place;
    seen[0] = place;
}

typedef struct delayed_look {
    const int32_t *source;
    atomic_int seen;
} delayed_look;

static void look(void *user) {
    delayed_look *const l = user;
    usleep(20000);
    l->seen = l->source[COUNT - 1];
}

DEVICE_TEST(host_tasks_run_in_stream_order) {
    tdm_tensor *const tensor = vector(device);
    int32_t *const host = calloc(COUNT, sizeof *host);
    delayed_look before = {.source = host}, after = {.source = host};
    atomic_int order[4] = {0};
    TEST_OK(tdm_tensor_fill(device->stream, 11, tensor));
    TEST_OK(tdm_tensor_read_async(device->stream, tensor, host, COUNT * sizeof *host, NULL));
    TEST_OK(tdm_stream_host_task(device->stream, look, &before));
    TEST_OK(tdm_stream_host_task(device->stream, append, order));
    TEST_OK(tdm_tensor_fill(device->stream, 12, tensor));
    TEST_OK(tdm_tensor_read_async(device->stream, tensor, host, COUNT * sizeof *host, NULL));
    TEST_OK(tdm_stream_host_task(device->stream, look, &after));
    TEST_OK(tdm_stream_host_task(device->stream, append, order));
    TEST_OK(tdm_stream_synchronize(device->stream));
    // The first task slept: later work must have waited for it.
    assert_int_equal(before.seen, 11);
    assert_int_equal(after.seen, 12);
    assert_int_equal(order[0], 2);
    TEST_REFUSED(tdm_stream_host_task(device->stream, NULL, NULL), TDM_BAD_ARGUMENT, "function is");
    free(host);
    tdm_tensor_destroy(tensor);
}

DEVICE_TEST(a_stream_waits_for_anothers_event) {
    tdm_stream *other;
    tdm_event *event;
    TEST_OK(tdm_stream_create(device->device, &other));
    tdm_tensor *const tensor = vector(device);
    delayed_look slow = {.source = calloc(COUNT, sizeof(int32_t))};
    TEST_OK(tdm_stream_host_task(device->stream, look, &slow));
    TEST_OK(tdm_tensor_fill(device->stream, 21, tensor));
    TEST_OK(tdm_event_record(device->stream, &event));
    TEST_OK(tdm_stream_wait_event(other, event));
    expect_all(other, tensor, 21);
    assert_int_equal(slow.seen, 0);
    tdm_event_destroy(event);
    TEST_REFUSED(tdm_stream_wait_event(other, NULL), TDM_BAD_ARGUMENT, "event is NULL");
    tdm_stream_destroy(other);
    free((void *)slow.source);
    tdm_tensor_destroy(tensor);
}

/* A block is freed while a slow stream still reads it. Another stream gets the block, and its write
 * must wait. */
DEVICE_TEST(an_early_free_does_not_let_the_next_owner_in) {
    tdm_stream *other;
    TEST_OK(tdm_stream_create(device->device, &other));
    TEST_OK(tdm_device_trim(device->device));
    tdm_tensor *const source = vector(device), *const result = vector(device);
    tdm_buffer *const block = tdm_tensor_buffer(source);
    const tdm_bk_memory *const memory = block->block->memory;
    const uint64_t offset = block->block->offset;
    delayed_look slow = {.source = calloc(COUNT, sizeof(int32_t))};
    TEST_OK(tdm_tensor_fill(device->stream, 31, source));
    TEST_OK(tdm_stream_host_task(device->stream, look, &slow));
    TEST_OK(tdm_tensor_copy(device->stream, source, result));
    TEST_OK(tdm_stream_flush(device->stream));
    tdm_tensor_destroy(source);
    // The pool has no room to grow: the pending block is the only one.
    tdm_memory_stats stats = {.struct_size = sizeof stats};
    TEST_OK(tdm_device_memory_stats(device->device, &stats));
    TEST_OK(tdm_device_set_memory_budget(device->device, stats.reserved));
    tdm_tensor *next[64];
    int taken = 0;
    bool met = false;
    while (taken < 64 && !met) {
        if (tdm_tensor_create(device->device, TDM_S32, 1, (const int64_t[]){COUNT}, &next[taken]) !=
            TDM_OK)
            break;
        const tdm_block *const given = tdm_tensor_buffer(next[taken++])->block;
        met = given->memory == memory && given->offset == offset;
    }
    TEST_OK(tdm_device_set_memory_budget(device->device, 0));
    if (met)
        TEST_OK(tdm_tensor_fill(other, 32, next[taken - 1]));
    TEST_OK(tdm_stream_synchronize(other));
    expect_all(device->stream, result, 31);
    assert_int_equal(slow.seen, 0);
    // Memory checkers get a native allocation per block and never see a block again.
    if (device->info.capabilities & TDM_CAP_SLABS)
        assert_true(met);
    for (int i = 0; i < taken; i++)
        tdm_tensor_destroy(next[i]);
    tdm_stream_destroy(other);
    free((void *)slow.source);
    tdm_tensor_destroy(result);
}

DEVICE_TEST(recordings_replay_the_same) {
    tdm_graph *graph;
    tdm_tensor *const a = vector(device), *const b = vector(device), *const c = vector(device);
    TEST_OK(tdm_tensor_fill(device->stream, 1, a));
    TEST_OK(tdm_tensor_fill(device->stream, 3, c));
    TEST_OK(tdm_binary_op(device->stream, TDM_ADD, a, c, b)); // kernels are built now
    TEST_OK(tdm_stream_begin_recording(device->stream));
    TEST_REFUSED(tdm_stream_begin_recording(device->stream), TDM_BAD_STATE, "recording already");
    TEST_OK(tdm_binary_op(device->stream, TDM_ADD, a, c, a));
    TEST_OK(tdm_binary_op(device->stream, TDM_MUL, a, c, b));
    TEST_REFUSED(tdm_stream_synchronize(device->stream), TDM_BAD_STATE, "recording");
    int32_t host;
    TEST_REFUSED(tdm_tensor_read(device->stream, a, &host, sizeof host, NULL), TDM_BAD_STATE,
                 "recording");
    tdm_event *event;
    TEST_REFUSED(tdm_event_record(device->stream, &event), TDM_BAD_STATE, "recording");
    TEST_OK(tdm_stream_end_recording(device->stream, &graph));
    assert_int_equal(tdm_graph_command_count(graph), 2);
    expect_all(device->stream, a, 1); // recorded, not run
    for (int i = 0; i < 3; i++)
        TEST_OK(tdm_graph_launch(graph, device->stream));
    expect_all(device->stream, a, 10);
    expect_all(device->stream, b, 30);
    tdm_stream *other;
    TEST_OK(tdm_stream_create(device->device, &other));
    TEST_OK(tdm_graph_launch(graph, other));
    expect_all(other, a, 13);
    tdm_stream_destroy(other);
    // The graph keeps the blocks of destroyed tensors.
    tdm_tensor_destroy(c);
    tdm_tensor *const heir = vector(device); // would get c's block if that were free
    TEST_OK(tdm_tensor_fill(device->stream, -7, heir));
    TEST_OK(tdm_graph_launch(graph, device->stream));
    expect_all(device->stream, a, 16);
    tdm_tensor_destroy(heir);
    tdm_graph_destroy(graph);
    TEST_REFUSED(tdm_stream_end_recording(device->stream, &graph), TDM_BAD_STATE, "not recording");
    assert_null(graph);
    tdm_tensor_destroy(a);
    tdm_tensor_destroy(b);
}

DEVICE_TEST(a_stream_may_go_while_it_records) {
    tdm_stream *stream;
    tdm_tensor *const a = vector(device);
    TEST_OK(tdm_tensor_fill(device->stream, 1, a));
    TEST_OK(tdm_stream_create(device->device, &stream));
    TEST_OK(tdm_stream_begin_recording(stream));
    TEST_OK(tdm_tensor_fill(stream, 2, a));
    tdm_stream_destroy(stream);
    expect_all(device->stream, a, 1);
    tdm_tensor_destroy(a);
}

/*
 * Work that nobody waited for uses temporaries and workspaces. They must be reused and not
 * accumulate.
 */
DEVICE_TEST(temporaries_do_not_pile_up) {
    const int64_t shape[] = {64, 256}, square[] = {256, 256};
    tdm_memory_stats before = {.struct_size = sizeof before}, after = before;
    tdm_tensor *a, *b, *d, *tensor;
    TEST_OK(tdm_tensor_create(device->device, TDM_F32, 2, shape, &a));
    TEST_OK(tdm_tensor_create(device->device, TDM_F32, 2, square, &b));
    TEST_OK(tdm_tensor_create(device->device, TDM_F32, 2, shape, &d));
    TEST_OK(tdm_tensor_fill(device->stream, 1, a));
    TEST_OK(tdm_tensor_fill(device->stream, 1, b));
    for (int products = 0; products < 2; products++) {
        TEST_OK(tdm_gemm(device->stream, 1, a, b, 0, NULL, d, NULL));
        TEST_OK(tdm_stream_synchronize(device->stream));
        TEST_OK(tdm_device_memory_stats(device->device, &before));
        for (int i = 0; i < (!test_is_small() ? 100 : products ? 2 : 20); i++) {
            if (products) {
                TEST_OK(tdm_gemm(device->stream, 1, a, b, 0, NULL, d, NULL));
                continue;
            }
            TEST_OK(tdm_tensor_create(device->device, TDM_S32, 2, (const int64_t[]){1 << 9, 1 << 9},
                                      &tensor));
            TEST_OK(tdm_tensor_fill(device->stream, i, tensor));
            tdm_tensor_destroy(tensor);
        }
        TEST_OK(tdm_device_memory_stats(device->device, &after));
        TEST_OK(tdm_stream_synchronize(device->stream));
        if (after.reserved > before.reserved + (products ? 4 << 20 : 16 << 20))
            test_case_fail("reserved grew by %lld bytes",
                           (long long)(after.reserved - before.reserved));
    }
    tdm_tensor_destroy(a);
    tdm_tensor_destroy(b);
    tdm_tensor_destroy(d);
}

typedef struct worker {
    const test_device *device;
    int number;
    const char *failure;
} worker;

/* Runs a thread with a stream of its own; cmocka's assertions belong to the main thread. */
static void *work(void *user) {
    worker *const w = user;
    tdm_stream *stream = NULL;
    tdm_tensor *a = NULL, *b = NULL;
    int32_t *const seen = malloc(COUNT * sizeof *seen);
    const int64_t shape[] = {COUNT};
    if (!seen || tdm_stream_create(w->device->device, &stream) != TDM_OK)
        w->failure = "no stream";
    for (int round = 0; round < 25 && !w->failure; round++) {
        const int32_t value = 1000 * w->number + round;
        if (tdm_tensor_create(w->device->device, TDM_S32, 1, shape, &a) != TDM_OK ||
            tdm_tensor_create(w->device->device, TDM_S32, 1, shape, &b) != TDM_OK ||
            tdm_tensor_fill(stream, value, a) != TDM_OK ||
            tdm_binary_op(stream, TDM_ADD, a, a, b) != TDM_OK)
            w->failure = "a call failed";
        tdm_tensor_destroy(a); // in flight
        a = NULL;
        if (!w->failure && tdm_tensor_read(stream, b, seen, COUNT * sizeof *seen, NULL) != TDM_OK)
            w->failure = "the copy failed";
        for (int i = 0; i < COUNT && !w->failure; i++)
            if (seen[i] != 2 * value)
                w->failure = "a wrong value";
        tdm_tensor_destroy(b);
        b = NULL;
    }
    tdm_tensor_destroy(a);
    tdm_stream_destroy(stream);
    free(seen);
    return NULL;
}

DEVICE_TEST(threads_with_their_own_streams) {
    enum {
        THREADS = 4
    };
    pthread_t threads[THREADS];
    worker workers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.device = device, .number = i + 1};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        if (workers[i].failure)
            test_case_fail("thread %d: %s", i, workers[i].failure);
}

TEST(null_streams_are_refused) {
    tdm_stream *stream;
    tdm_event *event;
    tdm_graph *graph;
    int done;
    double ns;
    TEST_REFUSED(tdm_stream_create(NULL, &stream), TDM_BAD_ARGUMENT, "device is NULL");
    TEST_REFUSED(tdm_stream_synchronize(NULL), TDM_BAD_ARGUMENT, "stream is NULL");
    TEST_REFUSED(tdm_stream_flush(NULL), TDM_BAD_ARGUMENT, "stream is NULL");
    TEST_REFUSED(tdm_stream_clear_failure(NULL), TDM_BAD_ARGUMENT, "stream is NULL");
    TEST_REFUSED(tdm_event_record(NULL, &event), TDM_BAD_ARGUMENT, "stream is NULL");
    assert_null(event);
    TEST_REFUSED(tdm_event_wait(NULL), TDM_BAD_ARGUMENT, "event is NULL");
    TEST_REFUSED(tdm_event_query(NULL, &done), TDM_BAD_ARGUMENT, "event is NULL");
    TEST_REFUSED(tdm_event_elapsed(NULL, NULL, &ns, NULL), TDM_BAD_ARGUMENT, "start is NULL");
    TEST_REFUSED(tdm_stream_begin_recording(NULL), TDM_BAD_ARGUMENT, "stream is NULL");
    TEST_REFUSED(tdm_stream_end_recording(NULL, &graph), TDM_BAD_ARGUMENT, "stream is NULL");
    TEST_REFUSED(tdm_graph_launch(NULL, NULL), TDM_BAD_ARGUMENT, "graph is NULL");
    TEST_REFUSED(tdm_device_synchronize(NULL), TDM_BAD_ARGUMENT, "device is NULL");
    tdm_stream_destroy(NULL);
    tdm_event_destroy(NULL);
    tdm_graph_destroy(NULL);
    assert_int_equal(tdm_graph_command_count(NULL), 0);
}

/* A stream's wait is a command of its own; the driver may report its failure later. */
DEVICE_TEST(waits_are_asked_for_their_outcome) {
    if (test_runs_on_cuda())
        return; // its events never report the failure of a single command
    tdm_stream *second;
    tdm_event *event;
    TEST_OK(tdm_stream_create(device->device, &second));
    TEST_OK(tdm_event_record(device->stream, &event));
    TEST_OK(tdm_stream_wait_event(second, event));
    tdm_fault_plant("clGetEventInfo", 1, -5, false);
    const tdm_status status = tdm_stream_synchronize(second);
    tdm_fault_clear();
    assert_int_not_equal(status, TDM_OK);
    assert_non_null(strstr(tdm_last_detail(), "stream_wait_event"));
    tdm_event_destroy(event);
    tdm_stream_destroy(second);
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
