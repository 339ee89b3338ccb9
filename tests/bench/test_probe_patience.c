// A device keeps all its capabilities when it is probed while the machine stalls.
// ctest: device opencl
#include <stdlib.h>

#include "api/device/device_internal.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/devices/own_device.h"
#include "tests/support/test_case.h"
#include "tests/support/test_tree.h"

DEVICE_TEST(a_stop_while_the_device_is_probed_costs_no_capability) {
    char driver[TEST_TREE_PATH];
    const char *const file = getenv("TANDEM_OPENCL_LIBRARY");
    if (file)
        setenv("COUNTING_TARGET", file, 1);
    setenv("TANDEM_OPENCL_LIBRARY", test_tree_build(driver, "lib/" TANDEM_COUNTING_DRIVER), 1);
    setenv("COUNTING_STOP_MS", "2200", 1);
    own_device own = own_device_open(device, 0);
    assert_int_equal(own.device->info.capabilities, device->info.capabilities);
    own_device_close(&own);
    file ? setenv("TANDEM_OPENCL_LIBRARY", file, 1) : unsetenv("TANDEM_OPENCL_LIBRARY");
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
