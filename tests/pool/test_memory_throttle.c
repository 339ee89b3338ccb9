// A throttled device: an allocation waits for another stream's work, and not for ever.
// ctest: device threads
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/device/core.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/test_program.h"

#define MIB (UINT64_C(1) << 20)

#define LONGEST_WAIT_MS 20000

/* What a stream waits for: until it is told, or a quarter of a second, where whoever tells it may wait for the stream. */
typedef struct sleeper {
    bool until_told;
    atomic_bool told, awake;
} sleeper;

static void sleep_long(void *user) {
    sleeper *const own = user;
    const int most_ms = own->until_told ? LONGEST_WAIT_MS * test_time_factor() : 250;
    for (int i = 0; i < most_ms && !atomic_load(&own->told); i++)
        usleep(1000);
    atomic_store(&own->awake, true);
}

static tdm_tensor *words(const test_device *device, int64_t bytes) {
    tdm_tensor *tensor;
    TEST_OK(tdm_tensor_create(device->device, TDM_S32, 1, (const int64_t[]){bytes / 4}, &tensor));
    return tensor;
}

/* 12 MiB are freed while a sleeping stream has yet to write to them. */
static void leave_pending(const test_device *device, sleeper *own) {
    tdm_tensor *const tensor = words(device, 12 * MIB), *part;
    TEST_OK(tdm_tensor_slice(tensor, 0, 0, 64, 1, &part));
    TEST_OK(tdm_stream_host_task(device->stream, sleep_long, own));
    TEST_OK(tdm_tensor_fill(device->stream, 1, part));
    TEST_OK(tdm_stream_flush(device->stream));
    tdm_tensor_destroy(part);
    tdm_tensor_destroy(tensor);
}

/* With patience the larger block waits for the stream; without it comes while the stream sleeps, `until_told`. */
static bool slept_on(const test_device *device, uint32_t share, uint32_t patience_ms,
                     bool until_told) {
    sleeper own = {.until_told = until_told};
    TEST_OK(tdm_stream_synchronize(device->stream));
    TEST_OK(tdm_device_trim(device->device));
    TEST_OK(tdm_device_set_memory_throttle(device->device, share, patience_ms));
    leave_pending(device, &own);
    tdm_tensor *const larger = words(device, 30 * MIB);
    const bool asleep = !atomic_load(&own.awake);
    atomic_store(&own.told, true);
    TEST_OK(tdm_stream_synchronize(device->stream));
    tdm_tensor_destroy(larger);
    TEST_OK(tdm_device_set_memory_throttle(device->device, 0, 0));
    return asleep;
}

DEVICE_TEST(a_throttled_allocation_waits_within_its_patience) {
    if (!(device->info.capabilities & TDM_CAP_SLABS)) {
        slept_on(device, 16, 20, false); // each free waits
        return;
    }
    // Some devices run tasks in the call.
    const bool tasks_apart = (device->info.capabilities & TDM_CAP_HOST_TASK) != 0;
    const bool ahead = slept_on(device, 0, 0, tasks_apart);
    assert_int_equal(slept_on(device, 16, 20, tasks_apart), ahead);
    assert_false(slept_on(device, 16, 20000, false));
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
