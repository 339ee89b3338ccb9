// Tests the CUDA backend through its function table: pinned memory, contexts, failures after
// enqueue, launch limits, native handles.
// ctest: device cuda
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/device/core.h"
#include "backend_cuda/cuda_internal.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/devices/own_device.h"
#include "tests/support/drivers/backend_rig.h"
#include "tests/support/test_case.h"

#include <tandem/cuda.h>

/* ---- host memory ----------------------------------------------------------------------------- */

/* Copies between pinned memory and the device do not block, and the bytes follow the stream's
 * order. */
DEVICE_TEST(pinned_copies_are_in_stream_order) {
    backend_rig r = rig_open(device);
    tdm_bk_memory *pinned;
    void *address;
    atomic_bool gate = false;
    TEST_OK(r.api->memory_alloc(r.native, TDM_MEMORY_PINNED, 8, &pinned));
    TEST_OK(r.api->memory_host_address(r.native, pinned, &address));
    int32_t *const words = address;
    words[0] = 1;
    words[1] = 0;
    TEST_OK(r.api->host_task(r.stream, "gate", rig_wait_for_gate, &gate));
    TEST_OK(r.api->write(r.stream, "write", r.memory, 0, &words[0], 4));
    TEST_OK(r.api->read(r.stream, "read", r.memory, 0, &words[1], 4));
    words[0] = 2; // the gate is closed: nothing has been read yet
    assert_int_equal(words[1], 0);
    atomic_store(&gate, true);
    TEST_OK(rig_wait(&r));
    assert_int_equal(words[1], 2);
    r.api->memory_free(r.native, pinned);
    rig_close(&r);
}

/* ---- contexts -------------------------------------------------------------------------------- */

/* After each call through the function table, the thread again has no current context. */
DEVICE_TEST(no_context_stays_behind) {
    const char *const named = getenv("TANDEM_CUDA_LIBRARY");
    void *const library = dlopen(named ? named : "libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    assert_non_null(library);
    CUresult (*pop)(CUcontext *);
    void *const found = dlsym(library, "cuCtxPopCurrent_v2");
    assert_non_null(found);
    memcpy(&pop, &found, sizeof pop);
    CUcontext left = NULL;
    backend_rig r = rig_open(device);
    const int32_t value = 7;
    tdm_bk_event *event;
    bool done;
    TEST_OK(r.api->fill(r.stream, "fill", r.memory, 0, 64, &value, 4));
    TEST_OK(r.api->event_record(r.stream, true, &event));
    TEST_OK(r.api->event_wait(event));
    TEST_OK(r.api->event_query(event, &done));
    tdm_fault_plant("cuMemsetD32Async", 1, CUDA_ERROR_UNKNOWN, false);
    TEST_REFUSED(r.api->fill(r.stream, "fill", r.memory, 0, 64, &value, 4), TDM_INTERNAL,
                 "fill: cuMemsetD32Async: CUDA_ERROR_UNKNOWN (999)");
    tdm_fault_clear();
    r.api->event_destroy(event);
    rig_close(&r);
    assert_int_equal(pop(&left), CUDA_ERROR_INVALID_CONTEXT);
    dlclose(library);
}

static int driver_calls;

static CUresult refuse_push(CUcontext context) {
    (void)context;
    driver_calls++;
    return CUDA_ERROR_INVALID_CONTEXT;
}

static CUresult count_pop(CUcontext *context) {
    *context = NULL;
    driver_calls++;
    return CUDA_SUCCESS;
}

/* If a context cannot be entered, the backend calls nothing in it and does not leave it. The
 * caller's own context stays current. */
DEVICE_TEST(what_was_not_entered_is_not_left) {
    backend_rig r = rig_open(device);
    tdm_bk_memory *memory;
    tdm_bk_event *event;
    const char *failed;
    TEST_OK(r.api->memory_alloc(r.native, TDM_MEMORY_DEVICE, 64, &memory));
    TEST_OK(r.api->event_record(r.stream, false, &event));
    const tdm_cuda_api *const whole = r.native->api;
    tdm_cuda_api broken = *whole;
    broken.cuCtxPushCurrent = refuse_push;
    broken.cuCtxPopCurrent = count_pop;
    const tdm_bk_event kept_event = *event;
    const tdm_bk_memory kept_memory = *memory;
    driver_calls = 0;
    r.native->api = &broken;
    r.api->memory_free(r.native, memory);
    r.api->event_destroy(event);
    const tdm_status status = r.api->stream_wait(r.stream, &failed);
    r.native->api = whole;
    assert_int_equal(driver_calls, 3);
    TEST_REFUSED(status, TDM_DEVICE_LOST, "cuCtxPushCurrent: CUDA_ERROR_INVALID_CONTEXT (201)");
    TEST_OK(tdm_cuda_enter(r.native, "test"));
    assert_int_equal(whole->cuMemFree(kept_memory.address), CUDA_SUCCESS);
    assert_int_equal(whole->cuEventDestroy(kept_event.event), CUDA_SUCCESS);
    tdm_cuda_leave(r.native);
    rig_close(&r);
}

/* ---- failures -------------------------------------------------------------------------------- */

static tdm_status failing_wait(const backend_rig *r, CUresult code, const char **failed) {
    tdm_fault_plant("cuStreamSynchronize", 1, (int)code, true);
    const tdm_status status = r->api->stream_wait(r->stream, failed);
    tdm_fault_clear();
    return status;
}

static void take_long(void *done) {
    const struct timespec pause = {.tv_nsec = 30000000};
    nanosleep(&pause, NULL);
    atomic_store((atomic_bool *)done, true);
}

/* A wait for an event lasts until the work before the event is done, because the caller may then
 * free memory. A driver call that fails once must not end the wait. */
DEVICE_TEST(a_wait_for_an_event_waits_whatever_fails) {
    static const struct {
        const char *call;
        bool reported;
    } rows[] = {{"cuCtxPushCurrent", false}, {"cuEventSynchronize", true}};
    backend_rig r = rig_open(device);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        atomic_bool done = false;
        tdm_bk_event *event;
        const char *failed;
        TEST_OK(r.api->host_task(r.stream, "long", take_long, &done));
        TEST_OK(r.api->event_record(r.stream, false, &event));
        tdm_fault_plant(rows[i].call, 1, CUDA_ERROR_UNKNOWN, false);
        const tdm_status status = r.api->event_wait(event);
        const bool waited = atomic_load(&done);
        tdm_fault_clear();
        TEST_OK(r.api->stream_wait(r.stream, &failed));
        if (!waited)
            test_case_fail("%s fails once, and the work before the event still runs", rows[i].call);
        if (rows[i].reported)
            TEST_REFUSED(status, TDM_INTERNAL, "event: cuEventSynchronize: CUDA_ERROR_UNKNOWN");
        else
            TEST_OK(status);
        r.api->event_destroy(event);
    }
    rig_close(&r);
}

/* The driver does not say which work failed. If all work has one name, that name is reported;
 * otherwise the detail lists all names. */
DEVICE_TEST(failed_work_is_named) {
    backend_rig r = rig_open(device);
    const int32_t value = 7;
    const char *failed;
    TEST_OK(r.api->fill(r.stream, "first", r.memory, 0, 64, &value, 4));
    TEST_OK(r.api->fill(r.stream, "first", r.memory, 0, 64, &value, 4));
    TEST_REFUSED(failing_wait(&r, CUDA_ERROR_ILLEGAL_ADDRESS, &failed), TDM_DEVICE_LOST,
                 "CUDA_ERROR_ILLEGAL_ADDRESS (700)");
    assert_string_equal(failed, "first");
    TEST_OK(r.api->fill(r.stream, "first", r.memory, 0, 64, &value, 4));
    TEST_OK(r.api->fill(r.stream, "second", r.memory, 0, 64, &value, 4));
    TEST_REFUSED(failing_wait(&r, CUDA_ERROR_LAUNCH_FAILED, &failed), TDM_DEVICE_LOST,
                 "CUDA_ERROR_LAUNCH_FAILED (719), in one of: first, second");
    assert_null(failed);
    TEST_OK(r.api->stream_wait(r.stream, &failed));
    rig_close(&r);
}

/* The driver reports a failure of the device. If two streams have work, neither of them is named as
 * the cause. */
DEVICE_TEST(failed_work_of_two_streams) {
    backend_rig r = rig_open(device);
    const int32_t value = 7;
    const char *failed;
    tdm_bk_stream *other;
    TEST_OK(r.api->stream_create(r.native, &other));
    TEST_OK(r.api->fill(other, "theirs", r.memory, 0, 64, &value, 4));
    TEST_OK(r.api->fill(r.stream, "ours", r.memory, 64, 64, &value, 4));
    TEST_REFUSED(failing_wait(&r, CUDA_ERROR_ILLEGAL_ADDRESS, &failed), TDM_DEVICE_LOST,
                 "(700), in one of: ours; on this stream or another one");
    assert_null(failed);
    TEST_OK(r.api->stream_wait(other, &failed));
    TEST_OK(r.api->stream_wait(r.stream, &failed));
    TEST_OK(r.api->fill(other, "theirs", r.memory, 0, 64, &value, 4));
    r.api->stream_destroy(other);
    TEST_OK(r.api->fill(r.stream, "ours", r.memory, 0, 64, &value, 4));
    TEST_REFUSED(failing_wait(&r, CUDA_ERROR_ILLEGAL_ADDRESS, &failed), TDM_DEVICE_LOST, "(700)");
    assert_string_equal(failed, "ours");
    TEST_OK(r.api->stream_wait(r.stream, &failed));
    rig_close(&r);
}

/* A later call may report the failure of earlier work. It is not attributed to that call. */
DEVICE_TEST(failure_at_an_enqueue_is_of_earlier_work) {
    backend_rig r = rig_open(device);
    const int32_t value = 7;
    tdm_bk_event *event;
    tdm_fault_plant("cuMemsetD32Async", 1, CUDA_ERROR_ILLEGAL_ADDRESS, false);
    TEST_REFUSED(r.api->fill(r.stream, "innocent", r.memory, 0, 64, &value, 4), TDM_DEVICE_LOST,
                 "reported at innocent; failed work: none of this stream since its last wait");
    tdm_fault_clear();
    TEST_OK(r.api->fill(r.stream, "culprit", r.memory, 0, 64, &value, 4));
    TEST_OK(r.api->write(r.stream, "suspect", r.memory, 0, &value, 4));
    tdm_fault_plant("cuMemsetD32Async", 1, CUDA_ERROR_ILLEGAL_ADDRESS, false);
    TEST_REFUSED(r.api->fill(r.stream, "innocent", r.memory, 0, 64, &value, 4), TDM_DEVICE_LOST,
                 "cuMemsetD32Async: CUDA_ERROR_ILLEGAL_ADDRESS (700), reported at innocent; failed "
                 "work: one of culprit, suspect");
    tdm_fault_clear();
    tdm_fault_plant("cuEventRecord", 1, CUDA_ERROR_LAUNCH_FAILED, false);
    TEST_REFUSED(r.api->event_record(r.stream, false, &event), TDM_DEVICE_LOST,
                 "(719), reported at event; failed work: one of culprit, suspect");
    tdm_fault_clear();
    rig_close(&r);
}

DEVICE_TEST(memory_codes) {
    static const struct {
        CUresult code;
        tdm_status status;
        const char *text;
    } rows[] = {
        {CUDA_ERROR_OUT_OF_MEMORY, TDM_OUT_OF_DEVICE_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY (2)"},
        {CUDA_ERROR_ECC_UNCORRECTABLE, TDM_DEVICE_LOST, "CUDA_ERROR_ECC_UNCORRECTABLE (214)"},
        {CUDA_ERROR_UNKNOWN, TDM_INTERNAL, "CUDA_ERROR_UNKNOWN (999)"},
        {12345, TDM_INTERNAL, "unknown CUDA error (12345)"},
    };
    backend_rig r = rig_open(device);
    tdm_bk_memory *memory;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tdm_fault_plant("cuMemAlloc", 1, (int)rows[i].code, false);
        const tdm_status status = r.api->memory_alloc(r.native, TDM_MEMORY_DEVICE, 64, &memory);
        tdm_fault_clear();
        TEST_REFUSED(status, rows[i].status, rows[i].text);
    }
    TEST_REFUSED(r.api->memory_alloc(r.native, TDM_MEMORY_DEVICE, SIZE_MAX / 2, &memory),
                 TDM_OUT_OF_DEVICE_MEMORY, "bytes of device memory: cuMemAlloc");
    rig_close(&r);
}

/* A lost device makes its stream fail permanently, in the core. */
DEVICE_TEST(lost_device) {
    tdm_stream *stream;
    tdm_tensor *x;
    const int64_t shape[1] = {64};
    TEST_OK(tdm_stream_create(device->device, &stream));
    TEST_OK(tdm_tensor_create(device->device, TDM_F32, 1, shape, &x));
    TEST_OK(tdm_tensor_fill(stream, 1.0, x));
    tdm_fault_plant("cuLaunchKernel", 1, CUDA_ERROR_LAUNCH_FAILED, false);
    const tdm_status status = tdm_unary_op(stream, TDM_NEG, x, x);
    tdm_fault_clear();
    TEST_REFUSED(status, TDM_DEVICE_LOST, "CUDA_ERROR_LAUNCH_FAILED (719)");
    TEST_REFUSED(tdm_tensor_fill(stream, 2.0, x), TDM_DEVICE_LOST, "719");
    TEST_REFUSED(tdm_stream_clear_failure(stream), TDM_DEVICE_LOST, "719");
    tdm_tensor_destroy(x);
    tdm_stream_destroy(stream);
}

/* ---- kernels --------------------------------------------------------------------------------- */

DEVICE_TEST(kernels_without_an_image) {
    static const tdm_prebuilt foreign = {.data = "neither this nor that", .bytes = 22};
    backend_rig r = rig_open(device);
    tdm_bk_kernel *kernel;
    TEST_REFUSED(rig_build(&r, "nothing", "no text", "", &kernel), TDM_BUILD_FAILED,
                 "nothing: the library contains no CUDA image");
    const tdm_kernel_source source = {
        .entry = "odd", .text = "", .defines = "", .prebuilt = &foreign};
    TEST_REFUSED(r.api->kernel_build(r.native, &source, &kernel), TDM_BUILD_FAILED,
                 "odd: cuModuleLoadDataEx: CUDA_ERROR_INVALID_");
    rig_close(&r);
}

DEVICE_TEST(local_memory_of_a_launch) {
    backend_rig r = rig_open(device);
    tdm_kernel *kernel;
    TEST_OK(tdm_device_kernel(device->device, tdm_variant_find("probe_launch_s32"), &kernel));
    tdm_arg args[] = {rig_buffer_arg(r.memory, 3),
                      {.kind = TDM_ARG_S32, .value.s32 = 77},
                      {.kind = TDM_ARG_LOCAL, .bytes = 1024}};
    const tdm_launch launch = {
        .args = args, .arg_count = 3, .groups = {1, 1, 1}, .group = {32, 1, 1}};
    const uint32_t most = (uint32_t)device->info.local_bytes;
    static const uint32_t usual = 48 * 1024;
    const uint32_t sizes[] = {1024, usual, usual + 16, most, 4096};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        args[1].value.s32 = (int32_t)i + 77;
        args[2].bytes = sizes[i];
        TEST_OK(r.api->launch(r.stream, "launch", kernel->native, &launch));
        int32_t words[RIG_WORDS];
        rig_fetch(&r, words);
        assert_int_equal(words[3], (int32_t)i + 77);
    }
    args[2].bytes = most + 16;
    TEST_REFUSED(r.api->launch(r.stream, "launch", kernel->native, &launch), TDM_UNSUPPORTED,
                 "launch: kernel probe_launch_s32 needs");
    rig_close(&r);
}

/* The expected numbers follow from the simulator's limits: 2048 threads and 228 KiB for each
 * multiprocessor. Each block takes 1 KiB for itself. */
DEVICE_TEST(groups_that_a_unit_holds) {
    static const struct {
        uint32_t items, local_bytes, groups;
    } rows[] = {{1024, 0, 2}, {256, 0, 8},        {100, 0, 20},
                {32, 0, 64},  {32, 40 * 1024, 5}, {512, 40 * 1024, 4}};
    backend_rig r = rig_open(device);
    tdm_kernel *kernel;
    uint32_t groups = 77;
    own_device own = own_device_open(device, 0);
    TEST_OK(tdm_device_kernel(own.device, tdm_variant_find("probe_launch_s32"), &kernel));
    const bool exact =
        strstr(device->info.selector, "/simulator/") && device->info.architecture == 90;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        TEST_OK(
            r.api->kernel_occupancy(kernel->native, rows[i].items, rows[i].local_bytes, &groups));
        assert_true(groups >= 1 && groups <= device->info.unit_items / rows[i].items);
        if (exact)
            assert_int_equal(groups, rows[i].groups);
    }
    tdm_fault_plant("cuOccupancyMaxActiveBlocksPerMultiprocessor", 1, CUDA_ERROR_UNKNOWN, false);
    const tdm_status status = r.api->kernel_occupancy(kernel->native, 32, 0, &groups);
    const uint32_t held = tdm_kernel_resident_groups(own.device, kernel, 1024);
    tdm_fault_clear();
    TEST_REFUSED(
        status, TDM_INTERNAL,
        "probe_launch_s32: cuOccupancyMaxActiveBlocksPerMultiprocessor: CUDA_ERROR_UNKNOWN");
    assert_true(held >= 1 && held == tdm_kernel_resident_groups(own.device, kernel, 1024));
    own_device_close(&own);
    rig_close(&r);
}

/* Three of the simulator's four multiprocessors can run a cluster's blocks together. */
DEVICE_TEST(clusters_that_the_device_holds) {
    static const struct {
        uint32_t cluster, items, local_bytes, clusters;
    } rows[] = {{2, 1024, 0, 4}, {2, 384, 200 * 1024, 1}, {4, 384, 200 * 1024, 0}, {1, 512, 0, 16}};
    tdm_kernel *kernel;
    uint32_t clusters = 77;
    if (device->info.architecture < 90)
        return;
    backend_rig r = rig_open(device);
    own_device own = own_device_open(device, 0);
    TEST_OK(tdm_device_kernel(own.device, tdm_variant_find("probe_launch_s32"), &kernel));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        TEST_OK(r.api->kernel_clusters(kernel->native, rows[i].cluster, rows[i].items,
                                       rows[i].local_bytes, &clusters));
        if (strstr(device->info.selector, "/simulator/"))
            assert_int_equal(clusters, rows[i].clusters);
    }
    TEST_REFUSED(r.api->kernel_clusters(kernel->native, 2, 32, 1u << 20, &clusters),
                 TDM_UNSUPPORTED, "bytes of local memory");
    tdm_fault_plant("cuOccupancyMaxActiveClusters", 1, CUDA_ERROR_UNKNOWN, false);
    const uint32_t held = tdm_kernel_resident_clusters(own.device, kernel, 2, 384, 0);
    tdm_fault_clear();
    assert_int_equal(held, 0); // the failed query is not cached
    TEST_OK(r.api->kernel_clusters(kernel->native, 2, 384, 0, &clusters));
    assert_true(clusters > 0);
    assert_int_equal(tdm_kernel_resident_clusters(own.device, kernel, 2, 384, 0), clusters);
    tdm_fault_plant("cuOccupancyMaxActiveClusters", 1, CUDA_ERROR_UNKNOWN, false);
    assert_int_equal(tdm_kernel_resident_clusters(own.device, kernel, 2, 384, 0), clusters);
    tdm_fault_clear();
    own_device_close(&own);
    rig_close(&r);
}

/* ---- native handles -------------------------------------------------------------------------- */

DEVICE_TEST(native_handles) {
    struct CUctx_st *context;
    struct CUstream_st *stream;
    int id, expected;
    uint64_t address;
    tdm_buffer *buffer, *wrapped;
    TEST_OK(tdm_cuda_handles_of_device(device->device, &id, &context));
    backend_rig r = rig_open(device);
    assert_int_equal(r.native->api->cuDeviceGet(&expected, r.native->record->ordinal), 0);
    assert_int_equal(id, expected);
    assert_non_null(context);
    TEST_OK(tdm_cuda_native_stream(device->stream, &stream));
    assert_non_null(stream);
    TEST_OK(tdm_buffer_create(device->device, 4096, &buffer));
    TEST_OK(tdm_cuda_address_of_buffer(buffer, &address));
    TEST_OK(tdm_buffer_from_cuda(device->device, address, 4096, &wrapped));
    const int32_t written = 42;
    int32_t read = 0;
    TEST_OK(tdm_buffer_write(device->stream, wrapped, 8, &written, 4));
    TEST_OK(tdm_stream_synchronize(device->stream));
    TEST_OK(tdm_buffer_read(device->stream, buffer, 8, &read, 4));
    TEST_OK(tdm_stream_synchronize(device->stream));
    assert_int_equal(read, 42);
    tdm_buffer_destroy(wrapped);
    TEST_REFUSED(tdm_buffer_from_cuda(device->device, address + 4, 16, &wrapped), TDM_BAD_ARGUMENT,
                 "not a multiple of 256");
    TEST_REFUSED(tdm_buffer_from_cuda(device->device, 100, 16, &wrapped), TDM_BAD_ARGUMENT,
                 "not a multiple of 256");
    tdm_fault_plant("cuMemGetAddressRange", 1, CUDA_ERROR_NOT_FOUND, false);
    const tdm_status status = tdm_buffer_from_cuda(device->device, address, 16, &wrapped);
    tdm_fault_clear();
    TEST_REFUSED(status, TDM_BAD_ARGUMENT, "the address is not in an allocation");
    TEST_REFUSED(tdm_buffer_from_cuda(device->device, 256, 16, &wrapped), TDM_BAD_ARGUMENT,
                 "buffer_from_cuda: wrapped memory: cuPointerGetAttribute");
    TEST_REFUSED(tdm_buffer_from_cuda(device->device, address, SIZE_MAX / 2, &wrapped),
                 TDM_BAD_ARGUMENT, "bytes after the address");
    TEST_REFUSED(tdm_buffer_from_cuda(device->device, 0, 16, &wrapped), TDM_BAD_ARGUMENT,
                 "address is 0");
    TEST_REFUSED(tdm_cuda_address_of_buffer(NULL, &address), TDM_BAD_ARGUMENT, "buffer is NULL");
    TEST_REFUSED(tdm_cuda_native_stream(NULL, &stream), TDM_BAD_ARGUMENT, "stream is NULL");
    TEST_REFUSED(tdm_cuda_handles_of_device(NULL, &id, &context), TDM_BAD_ARGUMENT,
                 "device is NULL");
    tdm_buffer_destroy(buffer);
    rig_close(&r);
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
