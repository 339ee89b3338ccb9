/*
 * What every device test stands on: the devices of the run, the cases that were executed, and what
 * is
 * said when one fails.
 *
 * TANDEM_TEST_DEVICES  comma-separated parts of "backend/driver-family/name", any case: each must
 * match a
 *                      device, or the program fails. Unset: every device that is found, at least
 *                      one.
 * TANDEM_TEST_CASE     run only the cases whose name contains this (what a failure's rerun line
 * sets)
 * TANDEM_TEST_SCALE    "small" shrinks shapes, for slow implementations
 * TANDEM_TEST_LIST     a file that gets the capabilities of the devices and the name of each executed case, with what its variant
 *                      requires: check_executed_cases.sh compares two
 *
 * A program that executed no case, on any of its devices, fails.
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

/* True under TANDEM_TEST_SCALE=small. */
bool test_is_small(void);

/*
 * A case begins: its name is "variant: text", or just the text when variant is NULL. False when
 * TANDEM_TEST_CASE leaves it out, and then the caller goes on to the next one. Unless it fails, the
 * case
 * counts as executed, for its device and its variant, when test_case_end is called.
 */
bool test_case_begin(const test_device *device, const char *variant, const char *format, ...)
    TDM_PRINTF(3, 4);
void test_case_end(void);

/* Fail the running case: prints its device, its name, the message and the command that reruns it.
 * */
#ifdef __GNUC__
__attribute__((noreturn))
#endif
void test_case_fail(const char *format, ...) TDM_PRINTF(1, 2);

/* True when the device meets the requirements of a variant's row. */
bool test_can_run(const test_device *device, const tdm_variant *variant);

/*
 * Fail unless every row of the op that a device can run was executed on it. Does nothing when
 * TANDEM_TEST_CASE
 * narrows the run.
 */
void test_require_all_variants(tdm_op op);

/* The status must be TDM_OK; the detail text is shown when it is not. */
#define TEST_OK(expression) test_expect_ok((expression), #expression, __FILE__, __LINE__)
void test_expect_ok(tdm_status status, const char *expression, const char *file, int line);

/* The call must be refused with this status and a detail text that contains `part`. */
#define TEST_REFUSED(expression, status, part)                                                     \
    test_expect_refused((expression), (status), (part), #expression, __FILE__, __LINE__)
void test_expect_refused(tdm_status actual, tdm_status expected, const char *part,
                         const char *expression, const char *file, int line);

/* Let the device's caches count as too small for anything, so that results go past them; or as what they are. */
void test_pass_caches(const test_device *device, bool pass);

#endif
