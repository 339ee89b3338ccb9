// Tests devices whose driver fails permanently, or fails while there is work: nothing crashes or
// leaks. test_fault_sweep.c covers single failures of every call.
// ctest: device opencl timeout=300
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/device/core.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/drivers/counted_host.h"
#include "tests/support/test_case.h"

#define ELEMENTS 1000
#define OUT_OF_RESOURCES (-5) /* CL_OUT_OF_RESOURCES */

/* ---- the job --------------------------------------------------------------------------------- */

typedef struct job {
    const char *selector;
    tdm_context *context;
    tdm_device *device;
    tdm_stream *stream;
    tdm_tensor *a, *b;
    tdm_event *event;
    int task_runs;
    float result[ELEMENTS];
} job;

static void count_run(void *user) {
    ++*(int *)user;
}

static tdm_status run_job(job *j) {
    const int64_t shape[1] = {ELEMENTS};
    int index = -1;
    TEST_OK(tdm_context_create(NULL, &j->context));
    TDM_TRY(tdm_context_find_device(j->context, j->selector, &index));
    TDM_TRY(tdm_device_get(j->context, index, &j->device));
    TDM_TRY(tdm_stream_create(j->device, &j->stream));
    TDM_TRY(tdm_tensor_create(j->device, TDM_F32, 1, shape, &j->a));
    TDM_TRY(tdm_tensor_create(j->device, TDM_F32, 1, shape, &j->b));
    float values[ELEMENTS];
    for (int i = 0; i < ELEMENTS; i++)
        values[i] = (float)i;
    TDM_TRY(tdm_tensor_write(j->stream, values, sizeof values, NULL, j->a));
    TDM_TRY(tdm_tensor_fill(j->stream, 0.5, j->b));
    TDM_TRY(tdm_event_record(j->stream, &j->event));
    TDM_TRY(tdm_binary_op(j->stream, TDM_ADD, j->a, j->b, j->b));
    TDM_TRY(tdm_stream_wait_event(j->stream, j->event));
    TDM_TRY(tdm_stream_host_task(j->stream, count_run, &j->task_runs));
    TDM_TRY(tdm_tensor_copy(j->stream, j->b, j->a));
    TDM_TRY(tdm_tensor_read(j->stream, j->a, j->result, sizeof j->result, NULL));
    TDM_TRY(tdm_event_wait(j->event));
    TDM_TRY(tdm_stream_synchronize(j->stream));
    return TDM_OK;
}

static void end_job(job *j) {
    tdm_event_destroy(j->event);
    tdm_tensor_destroy(j->a);
    tdm_tensor_destroy(j->b);
    tdm_stream_destroy(j->stream);
    tdm_device_release(j->device);
    tdm_context_destroy(j->context);
}

/* ---- faults ---------------------------------------------------------------------------------- */

/*
 * Every call of one function fails. The job returns an error; nothing crashes, hangs or leaks host
 * memory. */
DEVICE_TEST(driver_dies) {
    static const char *const dead[] = {"clEnqueueNDRangeKernel", "clEnqueueWriteBuffer",
                                       "clCreateBuffer",         "clBuildProgram",
                                       "clCreateKernel",         "clCreateCommandQueue",
                                       "clEnqueueFillBuffer",    "clEnqueueMarkerWithWaitList"};
    for (size_t i = 0; i < sizeof dead / sizeof dead[0]; i++) {
        job j = {.selector = device->info.selector};
        const long before = counted_host_live();
        tdm_fault_plant(dead[i], 1, OUT_OF_RESOURCES, true);
        const tdm_status status = run_job(&j);
        if (status == TDM_OK)
            test_case_fail("%s fails for ever and the job succeeds", dead[i]);
        end_job(&j);
        tdm_fault_clear();
        if (counted_host_live() != before)
            test_case_fail("%s: %ld host blocks leak", dead[i], counted_host_live() - before);
    }
}

/*
 * A device is lost while it has work, and waiting fails. Afterwards none of that work accesses host
 * memory, which the caller may have freed. */
DEVICE_TEST(lost_with_work) {
    const int64_t elements = test_is_small() ? 1 << 12 : 1 << 22;
    const size_t bytes = (size_t)elements * sizeof(float);
    unsigned char *const host = malloc(bytes);
    assert_non_null(host);
    tdm_stream *stream;
    tdm_tensor *a, *b;
    TEST_OK(tdm_stream_create(device->device, &stream));
    TEST_OK(tdm_tensor_create(device->device, TDM_F32, 1, &elements, &a));
    TEST_OK(tdm_tensor_create(device->device, TDM_F32, 1, &elements, &b));
    memset(host, 1, bytes);
    TEST_OK(tdm_tensor_write(stream, host, bytes, NULL, a));
    for (int i = 0; i < 16; i++) {
        TEST_OK(tdm_tensor_copy(stream, a, b));
        TEST_OK(tdm_tensor_copy(stream, b, a));
    }
    TEST_OK(tdm_tensor_read_async(stream, a, host, bytes, NULL));
    tdm_fault_plant(NULL, 1, OUT_OF_RESOURCES, true);
    const tdm_status status = tdm_stream_synchronize(stream);
    memset(host, 2, bytes);
    tdm_fault_clear();
    if (status == TDM_OK)
        test_case_fail("every call fails and the wait succeeds");
    tdm_stream_clear_failure(stream);
    TEST_OK(tdm_stream_synchronize(stream));
    for (size_t i = 0; i < bytes; i++)
        if (host[i] != 2)
            test_case_fail("byte %zu of %zu was written after the wait had failed", i, bytes);
    tdm_tensor_destroy(a);
    tdm_tensor_destroy(b);
    tdm_stream_destroy(stream);
    free(host);
}

int main(void) {
    if (!counted_host_install())
        return 1;
    return test_run_all(test_devices_setup, test_devices_teardown);
}
