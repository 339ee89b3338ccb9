// A driver may compile a kernel wrongly, or not at all. Then another kernel is used, the log gets a
// line, and results stay right.
// ctest: device rusticl_in_ci opencl
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/device/device_internal.h"
#include "api/gemm/gemm_internal.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/devices/own_device.h"
#include "tests/support/gemm/gemm_int_trial.h"
#include "tests/support/gemm/gemm_table.h"
#include "tests/support/test_case.h"
#include "tests/support/test_tree.h"

enum {
    SIDE = 64
};

static tdm_gemm_desc description(int64_t m) {
    return gemm_dense_desc(TDM_U8, TDM_S8, TDM_S32, m, SIDE, SIDE);
}

static struct {
    const char *kernel;
    int lines;  /* warnings that name the kernel */
    int errors; /* messages at error level */
    char driver_line[512];
} seen;

static void watch(void *user, tdm_log_level level, const char *topic, const char *message) {
    (void)user;
    (void)topic;
    seen.errors += level == TDM_LOG_ERROR;
    if (level != TDM_LOG_WARNING || !strstr(message, seen.kernel))
        return;
    seen.lines++;
    snprintf(seen.driver_line, sizeof seen.driver_line, "%s", message);
}

/* Gets the kernel that the device uses with a correct driver. */
static void name_first_choice(const test_device *device, char name[128]) {
    const tdm_gemm_desc desc = description(SIDE);
    tdm_gemm_plan *plan;
    TEST_OK(tdm_gemm_plan_create(device->device, &desc, &plan));
    snprintf(name, 128, "%s", tdm_gemm_plan_variant(plan));
    tdm_gemm_plan_destroy(plan);
}

/*
 * Opens a device whose driver changes the kernel as `how` says. The program cache is off, because
 * other tests must not get its programs.
 */
static own_device open_spoiled(const test_device *device, const char *kernel, const char *how) {
    char driver[TEST_TREE_PATH], spoil[256];
    const char *const file = getenv("TANDEM_OPENCL_LIBRARY");
    if (file)
        setenv("COUNTING_TARGET", file, 1);
    snprintf(spoil, sizeof spoil, "%s %s", kernel, how);
    setenv("TANDEM_OPENCL_LIBRARY", test_tree_build(driver, "lib/" TANDEM_COUNTING_DRIVER), 1);
    setenv("TANDEM_CACHE_DIR", "off", 1);
    setenv("COUNTING_SPOIL", spoil, 1);
    memset(&seen, 0, sizeof seen);
    seen.kernel = kernel;
    tdm_set_log(watch, NULL);
    return own_device_open(device, 0);
}

static void close_spoiled(own_device *own) {
    const char *const file = getenv("COUNTING_TARGET");
    own_device_close(own);
    tdm_set_log(NULL, NULL);
    file ? setenv("TANDEM_OPENCL_LIBRARY", file, 1) : unsetenv("TANDEM_OPENCL_LIBRARY");
    unsetenv("COUNTING_SPOIL");
}

/*
 * Expects another kernel to be used for several shapes. The log has no errors, and the results are
 * right.
 */
static void expect_another(const test_device *device, const char *kernel, const char *how,
                           const char *refusal) {
    own_device own = open_spoiled(device, kernel, how);
    for (int64_t m = SIDE; m < SIDE + 3; m++) {
        const tdm_gemm_desc desc = description(m);
        tdm_gemm_plan *plan;
        TEST_OK(tdm_gemm_plan_create(own.device, &desc, &plan));
        assert_string_not_equal(tdm_gemm_plan_variant(plan), kernel);
        assert_non_null(strstr(tdm_gemm_plan_refusals(plan), refusal));
        tdm_gemm_plan_destroy(plan);
    }
    assert_int_equal(seen.errors, 0);
    test_device spoiled = *device;
    spoiled.device = own.device;
    spoiled.stream = own.stream;
    const gemm_int_trial trial =
        gemm_int_trial_read("64x64x64 u8>s32 A:one+zero B:each+zero bias:s32");
    gemm_int_trial_run(&spoiled, &trial);
    tdm_gemm_desc forced = description(SIDE);
    tdm_gemm_plan *plan;
    forced.variant = kernel;
    assert_int_equal(tdm_gemm_plan_create(own.device, &forced, &plan), TDM_BUILD_FAILED);
    assert_null(plan);
    assert_non_null(strstr(tdm_last_detail(), kernel));
    close_spoiled(&own);
}

DEVICE_TEST(a_kernel_with_wrong_sums_is_passed_over) {
    char kernel[128];
    name_first_choice(device, kernel);
    expect_another(device, kernel, "1", "its kernel computes wrong results on this device");
    assert_int_equal(seen.lines, 1);
    assert_non_null(strstr(seen.driver_line, device->info.selector));
    assert_non_null(strstr(seen.driver_line, device->info.driver_version));
}

DEVICE_TEST(a_kernel_that_does_not_build_is_compiled_once) {
    char kernel[128];
    name_first_choice(device, kernel);
    expect_another(device, kernel, ")", "its kernel does not build on this device");
    // The log has one line for each line of the compiler's log, all from a single attempt.
    const int lines = seen.lines;
    assert_true(lines >= 1);
    own_device own = open_spoiled(device, kernel, ")");
    const tdm_gemm_desc desc = description(SIDE);
    tdm_gemm_plan *plan;
    TEST_OK(tdm_gemm_plan_create(own.device, &desc, &plan));
    tdm_gemm_plan_destroy(plan);
    assert_int_equal(seen.lines, lines);
    close_spoiled(&own);
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
