// Tests recorded graphs on CUDA. The driver replays a graph in one call, with the same bits and
// lifetimes as the library's own replay. The library replays a graph that the driver refuses.
// ctest: device cuda
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "api/device/core.h"
#include "backend_cuda/cuda_internal.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/devices/own_device.h"
#include "tests/support/drivers/backend_rig.h"
#include "tests/support/test_case.h"
#include "tests/support/test_data.h"

#define SIZE 24
#define BYTES (SIZE * SIZE * sizeof(float))

/* ---- what is recorded ------------------------------------------------------------------------ */

typedef struct work {
    tdm_stream *stream;
    tdm_tensor *a, *b, *c, *d;
    tdm_tensor *row; /* a row of b */
} work;

static tdm_tensor *matrix(tdm_device *device) {
    const int64_t shape[] = {SIZE, SIZE};
    tdm_tensor *made;
    TEST_OK(tdm_tensor_create(device, TDM_F32, 2, shape, &made));
    return made;
}

static work work_open(tdm_stream *stream) {
    work w = {.stream = stream,
              .a = matrix(stream->device),
              .b = matrix(stream->device),
              .c = matrix(stream->device),
              .d = matrix(stream->device)};
    float host[SIZE * SIZE];
    for (int i = 0; i < SIZE * SIZE; i++)
        host[i] = (float)((i * 37 + i / 5) % 101) / 64.0f - 0.7f;
    TEST_OK(tdm_tensor_write(stream, host, sizeof host, NULL, w.a));
    TEST_OK(tdm_tensor_slice(w.b, 0, 3, 4, 1, &w.row));
    return w;
}

static void work_close(work *w) {
    tdm_tensor_destroy(w->a);
    tdm_tensor_destroy(w->b);
    tdm_tensor_destroy(w->c);
    tdm_tensor_destroy(w->d);
    tdm_tensor_destroy(w->row);
}

/* Launches kernels for d = a + neg(softmax(a)), then copies d to b and fills a row of b. The work
 * contains every kind of command that can be recorded. */
static void do_work(const work *w) {
    TEST_OK(tdm_softmax(w->stream, w->a, 1, w->b));
    TEST_OK(tdm_unary_op(w->stream, TDM_NEG, w->b, w->c));
    TEST_OK(tdm_binary_op(w->stream, TDM_ADD, w->a, w->c, w->d));
    TEST_OK(
        tdm_buffer_copy(w->stream, tdm_tensor_buffer(w->b), 0, tdm_tensor_buffer(w->d), 0, BYTES));
    TEST_OK(tdm_tensor_fill(w->stream, 2.5, w->row));
}

static tdm_graph *record(const work *w) {
    tdm_graph *graph;
    TEST_OK(tdm_stream_begin_recording(w->stream));
    do_work(w);
    TEST_OK(tdm_stream_end_recording(w->stream, &graph));
    return graph;
}

static void fetch(const work *w, uint32_t host[SIZE * SIZE]) {
    TEST_OK(tdm_tensor_read(w->stream, w->b, host, BYTES, NULL));
}

static void poison(const work *w) {
    TEST_OK(tdm_tensor_fill(w->stream, -99, w->b));
    TEST_OK(tdm_tensor_fill(w->stream, -99, w->c));
    TEST_OK(tdm_tensor_fill(w->stream, -99, w->d));
}

/* Launches the graph and returns how often this calls the driver's function. */
static long calls_of(const char *call, tdm_graph *graph, tdm_stream *stream) {
    tdm_fault_plant(call, -1, 0, false);
    const tdm_status status = tdm_graph_launch(graph, stream);
    const long calls = tdm_fault_clear();
    TEST_OK(status);
    return calls;
}

static void expect_same(const work *w, tdm_graph *graph, const uint32_t *expected,
                        const char *what) {
    uint32_t found[SIZE * SIZE];
    poison(w);
    TEST_OK(tdm_graph_launch(graph, w->stream));
    fetch(w, found);
    if (memcmp(found, expected, BYTES) != 0)
        test_case_fail("%s: the bits differ from those of the single commands", what);
}

/* ---- the driver's replay --------------------------------------------------------------------- */

DEVICE_TEST(replay_is_one_call) {
    work w = work_open(device->stream);
    do_work(&w); // kernels are built here
    uint32_t expected[SIZE * SIZE];
    fetch(&w, expected);
    tdm_graph *const graph = record(&w);
    assert_int_equal(tdm_graph_command_count(graph), 5);
    assert_int_equal(calls_of("cuGraphLaunch", graph, w.stream), 1);
    assert_int_equal(calls_of("cuLaunchKernel", graph, w.stream), 0);
    assert_int_equal(calls_of("cuMemsetD32Async", graph, w.stream), 0);
    assert_int_equal(calls_of("cuMemcpyDtoDAsync", graph, w.stream), 0);
    expect_same(&w, graph, expected, "the driver's replay");
    tdm_graph_destroy(graph);
    work_close(&w);
}

static char logged[4096];

static void keep_log(void *user, tdm_log_level level, const char *topic, const char *message) {
    (void)user;
    (void)level;
    const size_t used = strlen(logged);
    if (strcmp(topic, "dispatch") == 0)
        snprintf(logged + used, sizeof logged - used, "%s\n", message);
}

/* A graph works whatever the driver refuses. The log says whether the driver or the library replays
 * it. */
DEVICE_TEST(the_library_replays_what_the_driver_refuses) {
    static const struct {
        const char *call;
        bool by_library;
    } rows[] = {
        {"", false},
        {"cuStreamCreate", true},
        {"cuStreamBeginCapture", true},
        {"cuLaunchKernel", true},
        {"cuMemcpyDtoDAsync", true},
        {"cuMemsetD32Async", true},
        {"cuStreamEndCapture", true},
        {"cuGraphInstantiate", true},
        {"cuGraphDestroy", false},
    };
    work w = work_open(device->stream);
    do_work(&w);
    uint32_t expected[SIZE * SIZE];
    fetch(&w, expected);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        logged[0] = '\0';
        tdm_set_log(keep_log, NULL);
        TEST_OK(tdm_stream_begin_recording(w.stream));
        do_work(&w);
        tdm_graph *graph;
        tdm_fault_plant(rows[i].call, 1, CUDA_ERROR_OUT_OF_MEMORY, false);
        const tdm_status status = tdm_stream_end_recording(w.stream, &graph);
        const long met = tdm_fault_clear();
        tdm_set_log(NULL, NULL);
        TEST_OK(status);
        assert_int_equal(met > 0, rows[i].call[0] != '\0');
        const char *const reported = rows[i].by_library
                                         ? "graph of 5 commands: replayed by the library: "
                                         : "graph of 5 commands: replayed by the driver\n";
        if (!strstr(logged, reported) ||
            (rows[i].by_library && !strstr(logged, "CUDA_ERROR_OUT_OF_MEMORY")))
            test_case_fail("%s: the log is only: %s", rows[i].call, logged);
        assert_int_equal(calls_of("cuGraphLaunch", graph, w.stream), !rows[i].by_library);
        expect_same(&w, graph, expected, rows[i].call);
        tdm_graph_destroy(graph);
    }
    work_close(&w);
}

/* Before CUDA 11.4, the driver has no graphs that the backend can use. */
DEVICE_TEST(old_drivers_have_none) {
    work w = work_open(device->stream);
    do_work(&w);
    uint32_t expected[SIZE * SIZE];
    fetch(&w, expected);
    tdm_bk_device *const native = device->device->native;
    const tdm_cuda_api *const whole = native->api;
    tdm_cuda_api old = *whole;
    old.cuGraphInstantiate = NULL;
    old.version = 11020;
    native->api = &old;
    logged[0] = '\0';
    tdm_set_log(keep_log, NULL);
    tdm_graph *const graph = record(&w);
    tdm_set_log(NULL, NULL);
    native->api = whole;
    assert_non_null(strstr(logged, "replayed by the library: graphs need CUDA 11.4, the driver "
                                   "offers 11.2"));
    expect_same(&w, graph, expected, "an old driver");
    tdm_graph_destroy(graph);
    work_close(&w);
}

/* The driver refuses one launch. */
DEVICE_TEST(refusals_at_a_launch) {
    work w = work_open(device->stream);
    do_work(&w);
    uint32_t expected[SIZE * SIZE], found[SIZE * SIZE];
    fetch(&w, expected);
    tdm_graph *const graph = record(&w);
    poison(&w);
    tdm_fault_plant("cuGraphLaunch", 1, CUDA_ERROR_UNKNOWN, false);
    const tdm_status status = tdm_graph_launch(graph, w.stream);
    assert_int_equal(tdm_fault_clear(), 1);
    TEST_OK(status);
    fetch(&w, found);
    assert_memory_equal(found, expected, BYTES);
    assert_int_equal(calls_of("cuGraphLaunch", graph, w.stream), 1); // the driver replays again
    tdm_graph_destroy(graph);
    work_close(&w);
}

/* A host task must run even if the device is lost. Therefore the library replays graphs with host
 * tasks, in order and once per launch. */
static void note_order(void *user) {
    ++*(int *)user;
}

DEVICE_TEST(host_tasks_are_the_librarys) {
    int runs = 0;
    tdm_graph *graph;
    work w = work_open(device->stream);
    do_work(&w);
    TEST_OK(tdm_stream_begin_recording(w.stream));
    do_work(&w);
    TEST_OK(tdm_stream_host_task(w.stream, note_order, &runs));
    TEST_OK(tdm_stream_end_recording(w.stream, &graph));
    assert_int_equal(calls_of("cuGraphLaunch", graph, w.stream), 0);
    TEST_OK(tdm_graph_launch(graph, w.stream));
    TEST_OK(tdm_stream_synchronize(w.stream));
    assert_int_equal(runs, 2);
    tdm_graph_destroy(graph);
    TEST_OK(tdm_stream_begin_recording(w.stream));
    TEST_OK(tdm_stream_end_recording(w.stream, &graph));
    assert_int_equal(calls_of(NULL, graph, w.stream), 0); // an empty graph makes no call
    tdm_graph_destroy(graph);
    work_close(&w);
}

/* ---- lifetimes ------------------------------------------------------------------------------- */

static void expect_all(tdm_stream *stream, const tdm_tensor *tensor, float value) {
    float host[SIZE * SIZE];
    TEST_OK(tdm_tensor_read(stream, tensor, host, BYTES, NULL));
    for (int i = 0; i < SIZE * SIZE; i++)
        if (host[i] != value)
            test_case_fail("element %d is %g, not %g", i, (double)host[i], (double)value);
}

/*
 * The graph and its tensors are destroyed while the graph waits to run. Another stream then gets
 * their memory, and must not use it before the graph has run. */
DEVICE_TEST(a_graph_may_go_while_it_runs) {
    own_device own = own_device_open_slabs(device, 0);
    atomic_bool gate = false;
    tdm_stream *other;
    tdm_graph *graph;
    TEST_OK(tdm_stream_create(own.device, &other));
    tdm_tensor *x = matrix(own.device), *heirs[4];
    TEST_OK(tdm_tensor_fill(own.stream, 0, x));
    TEST_OK(tdm_stream_begin_recording(own.stream));
    TEST_OK(tdm_tensor_fill(own.stream, 3, x));
    TEST_OK(tdm_tensor_fill(own.stream, 4, x));
    TEST_OK(tdm_stream_end_recording(own.stream, &graph));
    TEST_OK(tdm_stream_synchronize(own.stream));
    TEST_OK(tdm_stream_host_task(own.stream, rig_wait_for_gate, &gate));
    tdm_fault_plant("cuGraphLaunch", -1, 0, false);
    TEST_OK(tdm_graph_launch(graph, own.stream));
    assert_int_equal(tdm_fault_clear(), 1);
    tdm_graph_destroy(graph);
    tdm_tensor_destroy(x);
    for (int i = 0; i < 4; i++) {
        heirs[i] = matrix(own.device);
        TEST_OK(tdm_tensor_fill(other, 7, heirs[i]));
    }
    // Work that does not wait for the graph has run by then.
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    atomic_store(&gate, true);
    TEST_OK(tdm_stream_synchronize(own.stream));
    for (int i = 0; i < 4; i++) {
        expect_all(other, heirs[i], 7);
        tdm_tensor_destroy(heirs[i]);
    }
    tdm_stream_destroy(other);
    own_device_close(&own);
}

/* Another stream may still use the memory of a graph's tensors. The first launch of the graph waits
 * for that stream, as single commands do. */
DEVICE_TEST(a_graph_waits_for_former_users) {
    enum {
        MOST = 256
    };
    own_device own = own_device_open_slabs(device, 8 << 20);
    atomic_bool gate = false;
    tdm_stream *other;
    tdm_graph *graph;
    tdm_tensor *taken[MOST] = {NULL};
    int count = 0;
    const int64_t shape[] = {1 << 18};
    TEST_OK(tdm_stream_create(own.device, &other));
    TEST_OK(tdm_tensor_create(own.device, TDM_F32, 1, shape, &taken[0]));
    TEST_OK(tdm_tensor_fill(own.stream, 0, taken[0]));
    TEST_OK(tdm_stream_synchronize(own.stream));
    TEST_OK(tdm_stream_host_task(other, rig_wait_for_gate, &gate));
    TEST_OK(tdm_tensor_fill(other, 5, taken[0]));
    tdm_tensor_destroy(taken[0]);
    TEST_OK(tdm_stream_flush(own.stream));
    // The memory limit makes the pool hand out memory that the other stream still uses.
    while (count < MOST &&
           tdm_tensor_create(own.device, TDM_F32, 1, shape, &taken[count]) == TDM_OK)
        count++;
    assert_true(count > 1 && count < MOST);
    TEST_OK(tdm_stream_begin_recording(own.stream));
    for (int i = 0; i < count; i++)
        TEST_OK(tdm_tensor_fill(own.stream, i, taken[i]));
    TEST_OK(tdm_stream_end_recording(own.stream, &graph));
    tdm_fault_plant("cuStreamWaitEvent", -1, 0, false);
    TEST_OK(tdm_graph_launch(graph, own.stream));
    assert_int_equal(tdm_fault_clear(), 1);
    atomic_store(&gate, true);
    TEST_OK(tdm_stream_synchronize(other));
    TEST_OK(tdm_stream_synchronize(own.stream));
    for (int i = 0; i < count; i++) {
        float first = -1;
        TEST_OK(tdm_buffer_read(own.stream, tdm_tensor_buffer(taken[i]), 0, &first, sizeof first));
        TEST_OK(tdm_stream_synchronize(own.stream));
        assert_true(first == (float)i);
        tdm_tensor_destroy(taken[i]);
    }
    tdm_graph_destroy(graph);
    tdm_stream_destroy(other);
    own_device_close(&own);
}

/* ---- failures -------------------------------------------------------------------------------- */

DEVICE_TEST(failed_graphs_are_named) {
    own_device own = own_device_open_slabs(device, 0);
    tdm_graph *graph;
    tdm_tensor *const x = matrix(own.device);
    TEST_OK(tdm_tensor_fill(own.stream, 1, x));
    TEST_OK(tdm_unary_op(own.stream, TDM_NEG, x, x));
    TEST_OK(tdm_stream_synchronize(own.stream));
    TEST_OK(tdm_stream_begin_recording(own.stream));
    TEST_OK(tdm_tensor_fill(own.stream, 1, x));
    TEST_OK(tdm_unary_op(own.stream, TDM_NEG, x, x));
    TEST_OK(tdm_stream_end_recording(own.stream, &graph));
    TEST_OK(tdm_graph_launch(graph, own.stream));
    tdm_fault_plant("cuStreamSynchronize", 1, CUDA_ERROR_ILLEGAL_ADDRESS, true);
    const tdm_status status = tdm_stream_synchronize(own.stream);
    tdm_fault_clear();
    TEST_REFUSED(status, TDM_DEVICE_LOST, "(700), in one of: fill, ");
    TEST_REFUSED(tdm_graph_launch(graph, own.stream), TDM_DEVICE_LOST, "(700)");
    tdm_graph_destroy(graph);
    tdm_tensor_destroy(x);
    own_device_close(&own);
}

/* If the device is lost at a launch, the library does not try the commands one by one. */
DEVICE_TEST(a_launch_on_a_lost_device) {
    own_device own = own_device_open(device, 0);
    work w = work_open(own.stream);
    do_work(&w);
    tdm_graph *const graph = record(&w);
    tdm_fault_plant("cuGraphLaunch", 1, CUDA_ERROR_LAUNCH_FAILED, false);
    const tdm_status status = tdm_graph_launch(graph, w.stream);
    tdm_fault_clear();
    TEST_REFUSED(status, TDM_DEVICE_LOST, "cuGraphLaunch: CUDA_ERROR_LAUNCH_FAILED (719)");
    TEST_REFUSED(tdm_stream_synchronize(w.stream), TDM_DEVICE_LOST, "719");
    tdm_graph_destroy(graph);
    work_close(&w);
    own_device_close(&own);
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
