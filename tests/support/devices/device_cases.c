#include "tests/support/devices/device_cases.h"

void test_on_each_device(const char *name, void (*test)(const test_device *device)) {
    for (int i = 0; i < test_device_count(); i++) {
        const test_device *const device = test_device_at(i);
        if (!test_case_begin(device, NULL, "%s", name))
            continue;
        test(device);
        test_case_end();
    }
}
