/*
 * DEVICE_TEST(name) { ... } defines the cmocka test `name`. Its body runs once for each device of
 * the run. The parameter `device` is that device. Each of these runs is one case.
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
