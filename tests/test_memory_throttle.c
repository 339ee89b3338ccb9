// A throttled device: an allocation waits for another stream's work, and not for ever.
// ctest: device threads
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/core.h"
#include "tests/support/device_cases.h"

#define MIB (UINT64_C(1) << 20)

static void sleep_long(void *user) {
    usleep(250000);
    atomic_store((atomic_bool *)user, true);
}

static tdm_tensor *words(const test_device *device, int64_t bytes) {
    tdm_tensor *tensor;
    TEST_OK(tdm_tensor_create(device->device, TDM_S32, 1, (const int64_t[]){bytes / 4}, &tensor));
    return tensor;
}

/* 12 MiB are freed while a sleeping stream has yet to write to them. */
static void leave_pending(const test_device *device, atomic_bool *awake) {
    tdm_tensor *const tensor = words(device, 12 * MIB), *part;
    TEST_OK(tdm_tensor_slice(tensor, 0, 0, 64, 1, &part));
    atomic_store(awake, false);
    TEST_OK(tdm_stream_host_task(device->stream, sleep_long, awake));
    TEST_OK(tdm_fill(device->stream, part, 1));
    TEST_OK(tdm_stream_flush(device->stream));
    tdm_tensor_destroy(part);
    tdm_tensor_destroy(tensor);
}

/* With patience the larger block waits for the stream; without it comes while the stream sleeps. */
static bool slept_on(const test_device *device, uint32_t share, uint32_t patience_ms) {
    atomic_bool awake;
    TEST_OK(tdm_stream_synchronize(device->stream));
    TEST_OK(tdm_device_trim(device->device));
    TEST_OK(tdm_device_set_memory_throttle(device->device, share, patience_ms));
    leave_pending(device, &awake);
    tdm_tensor *const larger = words(device, 30 * MIB);
    const bool asleep = !atomic_load(&awake);
    TEST_OK(tdm_stream_synchronize(device->stream));
    tdm_tensor_destroy(larger);
    TEST_OK(tdm_device_set_memory_throttle(device->device, 0, 0));
    return asleep;
}

DEVICE_TEST(a_throttled_allocation_waits_within_its_patience) {
    if (!(device->info.capabilities & TDM_CAP_SLABS)) {
        slept_on(device, 16, 20); // each free waits
        return;
    }
    // Some devices run tasks in the call.
    const bool ahead = slept_on(device, 0, 0);
    assert_int_equal(slept_on(device, 16, 20), ahead);
    assert_false(slept_on(device, 16, 20000));
}

DEVICE_TEST(patience_is_asked_for) {
    TEST_REFUSED(tdm_device_set_memory_throttle(device->device, 16, 0), TDM_BAD_ARGUMENT,
                 "patience_ms is 0");
    TEST_REFUSED(tdm_device_set_memory_throttle(NULL, 16, 1), TDM_BAD_ARGUMENT, "device is NULL");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_throttled_allocation_waits_within_its_patience),
        cmocka_unit_test(patience_is_asked_for),
    };
    return cmocka_run_group_tests_name("memory throttle", tests, test_devices_setup,
                                       test_devices_teardown);
}
