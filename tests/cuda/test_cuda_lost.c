// Tests a CUDA device that is lost. The failure is reported once, and the stream's host tasks still
// run. Nothing that they own leaks. The device stays lost, so that test comes last.
// ctest: device cuda
#include <stdatomic.h>
#include <time.h>

#include "api/device/memory/staging_ring.h"
#include "backend_cuda/cuda_internal.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/devices/own_device.h"
#include "tests/support/drivers/backend_rig.h"
#include "tests/support/drivers/counted_host.h"
#include "tests/support/test_case.h"

#define SIDE 32
#define RING_BYTES ((size_t)5 * 4096)

typedef struct note {
    int *counter;
    int order, runs;
} note;

static void take_note(void *user) {
    note *const n = user;
    n->order = ++*n->counter;
    n->runs++;
}

/* A kernel with an invalid address makes the device fail permanently. */
static void lose_device(const own_device *own) {
    tdm_kernel *kernel;
    TEST_OK(tdm_device_kernel(own->device, tdm_variant_find("probe_launch_s32"), &kernel));
    tdm_bk_memory nowhere = {.address = 4096};
    const tdm_arg args[] = {
        {.kind = TDM_ARG_BUFFER, .value.buffer.memory = &nowhere},
        {.kind = TDM_ARG_S32, .value.s32 = 1},
        {.kind = TDM_ARG_LOCAL, .bytes = 64},
    };
    const tdm_launch launch = {
        .args = args, .arg_count = 3, .groups = {1, 1, 1}, .group = {1, 1, 1}};
    TEST_OK(own->device->api->launch(own->stream->native, "launch", kernel->native, &launch));
}

/* Copies with gaps between the elements on the host. Host tasks of the library free the dense
 * copies; for a read, a task also spreads the elements first. */
static void copy_with_gaps(const own_device *own, tdm_tensor *tensor, float *host, size_t bytes) {
    static const int64_t strides[] = {2 * SIDE, 2};
    TEST_OK(tdm_tensor_write_async(own->stream, host, bytes, strides, tensor));
    TEST_OK(tdm_tensor_read_async(own->stream, tensor, host, bytes, strides));
}

static void check_notes(const note *notes, int count) {
    for (int i = 0; i < count; i++)
        if (notes[i].runs != 1 || notes[i].order != i + 1)
            test_case_fail("task %d ran %d times, as number %d", i, notes[i].runs, notes[i].order);
}

static void lose_with_tasks_under_way(const own_device *own) {
    enum {
        NOTES = 5
    };
    static float host[2 * SIDE * SIDE];
    static unsigned char pageable[RING_BYTES];
    const int64_t shape[] = {SIDE, SIDE};
    atomic_bool gate = false;
    int counter = 0;
    note notes[NOTES];
    tdm_tensor *tensor;
    tdm_buffer *buffer;
    tdm_staging_ring *ring;
    TEST_OK(tdm_tensor_create(own->device, TDM_F32, 2, shape, &tensor));
    TEST_OK(tdm_buffer_create(own->device, RING_BYTES, &buffer));
    TEST_OK(tdm_staging_ring_open(own->device, 4096, &ring));
    TEST_OK(tdm_stream_host_task(own->stream, rig_wait_for_gate, &gate));
    lose_device(own);
    copy_with_gaps(own, tensor, host, sizeof host);
    // There are more pieces than ring slots. The ring's own stream must therefore wait for this
    // stream, in the middle of its tasks.
    TEST_OK(tdm_staging_ring_in_bytes(ring, own->stream, "ring", buffer->block, 0, pageable,
                                      RING_BYTES));
    for (int i = 0; i < NOTES; i++) {
        notes[i] = (note){.counter = &counter};
        TEST_OK(tdm_stream_host_task(own->stream, take_note, &notes[i]));
    }
    atomic_store(&gate, true);
    TEST_REFUSED(tdm_stream_synchronize(own->stream), TDM_DEVICE_LOST,
                 "CUDA_ERROR_ILLEGAL_ADDRESS (700)");
    check_notes(notes, NOTES);
    TEST_REFUSED(tdm_stream_host_task(own->stream, take_note, &notes[0]), TDM_DEVICE_LOST, "700");
    TEST_REFUSED(tdm_stream_synchronize(own->stream), TDM_DEVICE_LOST, "700");
    check_notes(notes, NOTES);
    tdm_staging_ring_close(ring);
    tdm_buffer_destroy(buffer);
    tdm_tensor_destroy(tensor);
}

/* The driver may start a host task after it has reported the loss. It then finds that the task has
 * already run. */
DEVICE_TEST(no_task_runs_twice) {
    atomic_bool gate = false;
    int counter = 0;
    note notes[3] = {{.counter = &counter}, {.counter = &counter}, {.counter = &counter}};
    const char *failed;
    tdm_bk_stream *other;
    tdm_bk_event *event;
    backend_rig r = rig_open(device);
    TEST_OK(r.api->stream_create(r.native, &other));
    TEST_OK(r.api->host_task(other, "gate", rig_wait_for_gate, &gate));
    TEST_OK(r.api->event_record(other, false, &event));
    TEST_OK(r.api->stream_wait_event(r.stream, event));
    for (int i = 0; i < 3; i++)
        TEST_OK(r.api->host_task(r.stream, "note", take_note, &notes[i]));
    tdm_fault_plant("cuStreamSynchronize", 1, CUDA_ERROR_ECC_UNCORRECTABLE, false);
    const tdm_status status = r.api->stream_wait(r.stream, &failed);
    tdm_fault_clear();
    TEST_REFUSED(status, TDM_DEVICE_LOST, "CUDA_ERROR_ECC_UNCORRECTABLE (214)");
    check_notes(notes, 3);
    atomic_store(&gate, true);
    TEST_OK(r.api->stream_wait(r.stream, &failed));
    check_notes(notes, 3);
    r.api->event_destroy(event);
    r.api->stream_destroy(other);
    rig_close(&r);
}

/* The driver may even start a host task after the stream and its state are gone. */
DEVICE_TEST(no_task_runs_after_its_stream) {
    atomic_bool gate = false;
    int counter = 0;
    note notes[3] = {{.counter = &counter}, {.counter = &counter}, {.counter = &counter}};
    tdm_bk_stream *late;
    tdm_bk_event *opened, *done;
    backend_rig r = rig_open(device);
    TEST_OK(r.api->stream_create(r.native, &late));
    TEST_OK(r.api->host_task(r.stream, "gate", rig_wait_for_gate, &gate));
    TEST_OK(r.api->event_record(r.stream, false, &opened));
    TEST_OK(r.api->stream_wait_event(late, opened));
    for (int i = 0; i < 3; i++)
        TEST_OK(r.api->host_task(late, "note", take_note, &notes[i]));
    TEST_OK(r.api->event_record(late, false, &done));
    // The fault occurs once and replaces the wait. A permanent fault would occur only after the
    // wait, which would hang on the closed gate.
    tdm_fault_plant("cuStreamSynchronize", 1, CUDA_ERROR_ECC_UNCORRECTABLE, false);
    r.api->stream_destroy(late);
    tdm_fault_clear();
    check_notes(notes, 3);
    atomic_store(&gate, true);
    TEST_OK(r.api->event_wait(done));
    check_notes(notes, 3);
    r.api->event_destroy(opened);
    r.api->event_destroy(done);
    rig_close(&r);
}

/* The stream runs its tasks itself after the loss. These flags order them with tasks that the
 * driver starts late. */
typedef struct late_tasks {
    atomic_bool gate, begun, done;
} late_tasks;

static void let_the_driver_begin(void *user) {
    late_tasks *const t = user;
    atomic_store(&t->gate, true);
    rig_wait_for_gate(&t->begun);
}

static void take_long(void *user) {
    const struct timespec pause = {.tv_nsec = 50000000};
    late_tasks *const t = user;
    atomic_store(&t->begun, true);
    nanosleep(&pause, NULL);
    atomic_store(&t->done, true);
}

/* The driver starts the second task while the stream runs the first one. No task of the stream may
 * run after the wait. */
DEVICE_TEST(a_wait_ends_behind_what_the_driver_began_late) {
    late_tasks tasks = {false, false, false};
    const char *failed;
    tdm_bk_stream *other;
    tdm_bk_event *event;
    backend_rig r = rig_open(device);
    TEST_OK(r.api->stream_create(r.native, &other));
    TEST_OK(r.api->host_task(other, "gate", rig_wait_for_gate, &tasks.gate));
    TEST_OK(r.api->event_record(other, false, &event));
    TEST_OK(r.api->stream_wait_event(r.stream, event));
    TEST_OK(r.api->host_task(r.stream, "first", let_the_driver_begin, &tasks));
    TEST_OK(r.api->host_task(r.stream, "second", take_long, &tasks));
    tdm_fault_plant("cuStreamSynchronize", 1, CUDA_ERROR_ECC_UNCORRECTABLE, false);
    const tdm_status status = r.api->stream_wait(r.stream, &failed);
    const bool done = atomic_load(&tasks.done);
    tdm_fault_clear();
    TEST_REFUSED(status, TDM_DEVICE_LOST, "CUDA_ERROR_ECC_UNCORRECTABLE (214)");
    TEST_OK(r.api->stream_wait(r.stream, &failed));
    if (!done)
        test_case_fail("the wait is over and a task still runs");
    r.api->event_destroy(event);
    r.api->stream_destroy(other);
    rig_close(&r);
}

DEVICE_TEST(host_tasks_run_where_the_device_is_lost) {
    const long before = counted_host_live();
    own_device own = own_device_open(device, 0);
    lose_with_tasks_under_way(&own);
    own_device_close(&own);
    if (counted_host_live() != before)
        test_case_fail("%ld host blocks leak", counted_host_live() - before);
}

int main(void) {
    if (!counted_host_install())
        return 1;
    return test_run_all(test_devices_setup, test_devices_teardown);
}
