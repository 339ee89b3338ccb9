/*
 * DEVICE_TEST(name) { ... } defines a cmocka test `name` whose body runs once per device, as one
 * case, with `device` set.
 */
#ifndef TANDEM_TESTS_SUPPORT_DEVICES_DEVICE_CASES_H
#define TANDEM_TESTS_SUPPORT_DEVICES_DEVICE_CASES_H

#include "tests/support/devices/test_devices.h"
#include "tests/support/test_case.h"

void test_on_each_device(const char *name, void (*test)(const test_device *device));

#define DEVICE_TEST(name)                                                                          \
    static void name##_on(const test_device *device);                                              \
    TEST(name) {                                                                                   \
        test_on_each_device(#name, name##_on);                                                     \
    }                                                                                              \
    static void name##_on(const test_device *device)

#endif
