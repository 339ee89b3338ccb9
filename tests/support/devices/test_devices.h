/*
 * Basis of every device test: the devices of the run, the executed cases, and the report of a
 * failure.
 *
 * TANDEM_TEST_DEVICES  comma-separated parts of "backend/driver-family/name", any case. Each must
 *                      match a device, or the program fails. Unset: all devices, at least one.
 * TANDEM_TEST_CASE     run only the cases whose name contains this (a failure's rerun line sets it)
 * TANDEM_TEST_SCALE    "small" shrinks shapes, for slow implementations
 * TANDEM_TEST_LIST     a file that receives the capabilities of the devices, and the name of each
 *                      executed case with the requirements of its variant. check_executed_cases.sh
 *                      compares two such files.
 *
 * A program that executed no case on any of its devices fails.
 */
#ifndef TANDEM_TESTS_SUPPORT_DEVICES_TEST_DEVICES_H
#define TANDEM_TESTS_SUPPORT_DEVICES_TEST_DEVICES_H

#include <stdbool.h>

#include "kernels/kernel_index.h"
#include "tests/support/unit.h"

#include <tandem/tandem.h>

#define TEST_MAX_DEVICES 16

typedef struct test_device {
    tdm_device *device;
    tdm_stream *stream;
    tdm_device_info info;
    int index; /* among the devices of the run */
} test_device;

/* Group setup and teardown for cmocka_run_group_tests. */
int test_devices_setup(void **state);
int test_devices_teardown(void **state);

int test_device_count(void);
const test_device *test_device_at(int index);
tdm_context *test_context(void);

/* Returns true if TANDEM_TEST_SCALE is "small". */
bool test_is_small(void);

/*
 * Begins a case. Its name is "variant: text", or just the text if variant is NULL. Returns false if
 * TANDEM_TEST_CASE excludes the case; the caller then goes on to the next one. Unless it fails, the
 * case counts as executed, for its device and its variant, when test_case_end is called.
 */
bool test_case_begin(const test_device *device, const char *variant, const char *format, ...)
    TDM_PRINTF(3, 4);
void test_case_end(void);

/*
 * Fails the running case: prints its device, its name, the message and the command that reruns it.
 */
#ifdef __GNUC__
__attribute__((noreturn))
#endif
void test_case_fail(const char *format, ...) TDM_PRINTF(1, 2);

/* True if the device meets the requirements of a variant's row. */
bool test_can_run(const test_device *device, const tdm_variant *variant);

/*
 * Fails unless every variant of the op that a device can run was executed on it. Does nothing if
 * TANDEM_TEST_CASE narrows the run.
 */
void test_require_all_variants(tdm_op op);

/* The status must be TDM_OK; otherwise the detail text is shown. */
#define TEST_OK(expression) test_expect_ok((expression), #expression, __FILE__, __LINE__)
void test_expect_ok(tdm_status status, const char *expression, const char *file, int line);

/* The call must be refused with this status and a detail text that contains `part`. */
#define TEST_REFUSED(expression, status, part)                                                     \
    test_expect_refused((expression), (status), (part), #expression, __FILE__, __LINE__)
void test_expect_refused(tdm_status actual, tdm_status expected, const char *part,
                         const char *expression, const char *file, int line);

/*
 * If `pass`, sets the device's cache size to 1 byte, so that kernels use non-temporal stores for
 * results. Otherwise restores the size.
 */
void test_pass_caches(const test_device *device, bool pass);

#endif
