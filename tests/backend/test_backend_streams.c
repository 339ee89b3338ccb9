// Tests the OpenCL backend through its function table: the order of commands, events, and failing
// commands.
// ctest: device threads
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/device/core.h"
#include "backend_opencl/opencl_api.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/drivers/backend_rig.h"
#include "tests/support/drivers/driver_faults.h"
#include "tests/support/test_case.h"

/* This is more than the initial capacity of the backend's ring of commands in flight. */
#define MANY 700

/* ---- order ----------------------------------------------------------------------------------- */

static void sleep_ms(long milliseconds) {
    const struct timespec pause = {.tv_nsec = milliseconds * 1000000};
    nanosleep(&pause, NULL);
}

/* Returns pinned memory. A copy reads it when the stream reaches the copy. Drivers may read
 * pageable memory during the call. */
static int32_t *pinned_words(const backend_rig *r, size_t count, tdm_bk_memory **memory) {
    void *address;
    TEST_OK(r->api->memory_alloc(r->native, TDM_MEMORY_PINNED, count * sizeof(int32_t), memory));
    TEST_OK(r->api->memory_host_address(r->native, *memory, &address));
    return address;
}

/* Enqueues far more commands than the ring holds at first, while a host task blocks the stream. */
DEVICE_TEST(many_in_flight) {
    backend_rig r = rig_open(device);
    const bool gated = (device->info.capabilities & TDM_CAP_HOST_TASK) != 0;
    atomic_bool gate = false;
    int32_t words[RIG_WORDS];
    tdm_bk_memory *pinned;
    int32_t *const values = pinned_words(&r, MANY, &pinned);
    if (gated)
        TEST_OK(r.api->host_task(r.stream, "gate", rig_wait_for_gate, &gate));
    for (int i = 0; i < MANY; i++) {
        values[i] = i * i;
        TEST_OK(r.api->write(r.stream, "write", r.memory, (uint64_t)i * 4, &values[i], 4));
    }
    atomic_store(&gate, true);
    rig_fetch(&r, words);
    assert_memory_equal(words, values, MANY * sizeof *values);
    r.api->memory_free(r.native, pinned);
    rig_close(&r);
}

/* An event that is recorded behind a closed gate (a blocking host task) is not done until the gate
 * opens. */
DEVICE_TEST(events_are_not_done_early) {
    if (!(device->info.capabilities & TDM_CAP_HOST_TASK))
        return;
    backend_rig r = rig_open(device);
    atomic_bool gate = false;
    bool done = true;
    tdm_bk_event *event;
    TEST_OK(r.api->host_task(r.stream, "gate", rig_wait_for_gate, &gate));
    TEST_OK(r.api->event_record(r.stream, false, &event));
    TEST_OK(r.api->event_query(event, &done));
    assert_false(done);
    atomic_store(&gate, true);
    TEST_OK(r.api->event_wait(event));
    TEST_OK(r.api->event_query(event, &done));
    assert_true(done);
    r.api->event_destroy(event);
    rig_close(&r);
}

/* A wait right after a flush must still wait: rusticl's clFinish does not. */
DEVICE_TEST(wait_after_flush) {
    const size_t words = test_is_small() ? 1u << 16 : 1u << 21;
    backend_rig r = rig_open(device);
    tdm_bk_memory *large;
    int32_t *const host = calloc(words, sizeof *host);
    assert_non_null(host);
    const int32_t pattern = 0x12345678;
    TEST_OK(r.api->memory_alloc(r.native, TDM_MEMORY_DEVICE, words * sizeof *host, &large));
    TEST_OK(r.api->fill(r.stream, "fill", large, 0, words * sizeof *host, &pattern, 4));
    TEST_OK(r.api->read(r.stream, "read", large, 0, host, words * sizeof *host));
    TEST_OK(r.api->stream_flush(r.stream));
    TEST_OK(rig_wait(&r));
    assert_int_equal(host[words - 1], pattern);
    free(host);
    r.api->memory_free(r.native, large);
    rig_close(&r);
}

/* ---- failures after enqueue ------------------------------------------------------------------ */

/* The driver reports a failed command only through its event. Here the second of three commands
 * fails. */
DEVICE_TEST(failure_is_named) {
    if (test_runs_on_cuda())
        return;
    backend_rig r = rig_open(device);
    int32_t word = 5;
    TEST_OK(r.api->write(r.stream, "first_write", r.memory, 0, &word, 4));
    TEST_OK(r.api->write(r.stream, "second_write", r.memory, 0, &word, 4));
    TEST_OK(r.api->write(r.stream, "third_write", r.memory, 0, &word, 4));
    const char *failed = NULL;
    tdm_fault_plant("clGetEventInfo", 2, CL_OUT_OF_RESOURCES, true);
    const tdm_status status = r.api->stream_wait(r.stream, &failed);
    tdm_fault_clear();
    assert_int_equal(status, TDM_INTERNAL);
    assert_string_equal(failed, "second_write");
    assert_non_null(strstr(tdm_last_detail(), "CL_OUT_OF_RESOURCES"));
    // The failure is reported once; the stream continues to work.
    failed = "something";
    TEST_OK(r.api->stream_wait(r.stream, &failed));
    assert_null(failed);
    rig_close(&r);
}

/* A wait also reports an earlier flush that failed. */
DEVICE_TEST(failed_flush_is_named) {
    if (test_runs_on_cuda())
        return; // there is nothing to flush
    backend_rig r = rig_open(device);
    int32_t word = 5;
    const char *failed = NULL;
    tdm_fault_plant("clFlush", 1, CL_OUT_OF_HOST_MEMORY, false);
    for (int i = 0; i < 100; i++)
        TEST_OK(r.api->write(r.stream, "write", r.memory, 0, &word, 4));
    const tdm_status status = r.api->stream_wait(r.stream, &failed);
    assert_true(tdm_fault_clear() >= 2); // the stream is also flushed between many commands
    assert_int_equal(status, TDM_OUT_OF_HOST_MEMORY);
    assert_string_equal(failed, "write");
    rig_close(&r);
}

/* ---- the core's view: sticky failures -------------------------------------------------------- */

DEVICE_TEST(failed_wait_is_sticky) {
    tdm_stream *stream;
    tdm_buffer *buffer;
    int32_t word = 1;
    TEST_OK(tdm_stream_create(device->device, &stream));
    TEST_OK(tdm_buffer_create(device->device, 4, &buffer));
    TEST_OK(tdm_buffer_write(stream, buffer, 0, &word, 4));
    test_fault_plant("clFinish", 1, CL_OUT_OF_RESOURCES, false);
    TEST_REFUSED(tdm_stream_synchronize(stream), TDM_INTERNAL, test_code_name(CL_OUT_OF_RESOURCES));
    tdm_fault_clear();
    TEST_REFUSED(tdm_buffer_write(stream, buffer, 0, &word, 4), TDM_INTERNAL,
                 test_code_name(CL_OUT_OF_RESOURCES));
    TEST_OK(tdm_stream_clear_failure(stream));
    TEST_OK(tdm_buffer_write(stream, buffer, 0, &word, 4));
    TEST_OK(tdm_stream_synchronize(stream));
    tdm_buffer_destroy(buffer);
    tdm_stream_destroy(stream);
}

typedef struct slow_task {
    atomic_bool begun;
    int32_t *memory; /* belongs to the caller, which frees it after the wait */
} slow_task;

static void write_slowly(void *user) {
    slow_task *const task = user;
    atomic_store(&task->begun, true);
    for (int32_t i = 0; i < 10; i++) {
        sleep_ms(10);
        task->memory[i] = i + 1;
    }
}

/* A wait that fails must not leave a host task that writes into the caller's memory. */
DEVICE_TEST(failed_wait_waits_for_host_tasks) {
    if (!(device->info.capabilities & TDM_CAP_HOST_TASK))
        return;
    backend_rig r = rig_open(device);
    int32_t word = 5;
    for (int behind = 0; behind < 2; behind++) {
        slow_task task = {.memory = calloc(10, sizeof *task.memory)};
        assert_non_null(task.memory);
        TEST_OK(r.api->write(r.stream, "write", r.memory, 0, &word, 4));
        TEST_OK(r.api->host_task(r.stream, "task", write_slowly, &task));
        if (behind)
            TEST_OK(r.api->write(r.stream, "write", r.memory, 0, &word, 4));
        while (!atomic_load(&task.begun))
            sleep_ms(1);
        test_fault_plant("clFinish", 1, CL_OUT_OF_RESOURCES, false);
        const tdm_status status = rig_wait(&r);
        tdm_fault_clear();
        const int32_t last = task.memory[9];
        if (last == 10)
            free(task.memory);
        assert_int_equal(status, TDM_INTERNAL);
        assert_int_equal(last, 10);
    }
    rig_close(&r);
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
