/* Tests energy, power and clocks from stand-ins for NVML. Some of them lack functions or fail. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/cases/memory_case.h"
#include "bench/harness/bench_runner.h"
#include "tests/support/test_case.h"
#include "tests/support/test_program.h"

#define LIBRARY(kind) TANDEM_BINARY_DIR "/lib/libtandem_fake_nvml_" kind ".so"

/* Opens the sensors of a GPU. The stand-ins have two GPUs, at 0000:3a:00.0 and 0000:3b:00.0. */
static sensors *open_gpu(const char *library, const char *name, const char *address) {
    tdm_device_info device = {.type = TDM_DEVICE_GPU};
    snprintf(device.name, sizeof device.name, "%s", name);
    snprintf(device.pci_address, sizeof device.pci_address, "%s", address);
    return sensors_open(library, &device);
}

TEST(all_of_a_gpu_is_read) {
    sensors *const own = open_gpu(LIBRARY("whole"), "Fake GPU 1", "0000:3b:00.0");
    assert_non_null(own);
    const sensor_reading before = sensors_read(own);
    const sensor_reading after = sensors_read(own);
    assert_true(fabs(after.energy_j - before.energy_j - 0.5) < 1e-9);
    assert_true(fabs(after.power_w - 150.001) < 1e-9);
    assert_true(after.temperature_c == 61);
    assert_true(before.clock_mhz == 1001 && after.clock_mhz == 1001);
    assert_true(before.throttled + after.throttled == 1); /* idle does not count */
    assert_true(fabs(sensors_power_limit_w(own) - 350.001) < 1e-9);
    sensors_close(own);
}

TEST(missing_functions_are_nulls) {
    sensors *const own = open_gpu(LIBRARY("poor"), "Fake GPU 0", "0000:3a:00.0");
    assert_non_null(own);
    const sensor_reading reading = sensors_read(own);
    assert_true(isnan(reading.energy_j));
    assert_true(fabs(reading.power_w - 150) < 1e-9);
    assert_true(reading.throttled == 0);
    sensors_close(own);
}

TEST(failing_calls_are_nulls) {
    sensors *const own = open_gpu(LIBRARY("failing"), "Fake GPU 0", "0000:3a:00.0");
    assert_non_null(own);
    const sensor_reading reading = sensors_read(own);
    assert_true(isnan(reading.energy_j) && isnan(reading.power_w));
    assert_true(isnan(reading.temperature_c) && isnan(reading.throttled) &&
                isnan(reading.clock_mhz));
    assert_true(isnan(sensors_power_limit_w(own)));
    sensors_close(own);
}

/* A GPU that is not identified for certain has no sensors. Figures of another device would be worse
 * than none. */
TEST(a_device_that_is_not_certain_has_no_sensors) {
    static const char *const rows[][3] = {
        {LIBRARY("whole"), "Fake GPU 0", ""},
        {LIBRARY("whole"), "Fake GPU 0", "0000:3c:00.0"},
        {LIBRARY("whole"), "Fake GPU 0", "0000:3b:00.0"},
        {LIBRARY("whole"), "Fake GPU 0 MIG 1g.10gb", "0000:3a:00.0"},
        {"/nonexistent/libnvidia-ml.so", "Fake GPU 0", "0000:3a:00.0"},
        {TANDEM_BINARY_DIR "/lib/" TANDEM_COUNTING_DRIVER, "Fake GPU 0", "0000:3a:00.0"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_null(open_gpu(rows[i][0], rows[i][1], rows[i][2]));
    assert_true(isnan(sensors_read(NULL).energy_j) && isnan(sensors_power_limit_w(NULL)));
    sensors_close(NULL);
}

/* The energy grows by half a joule between the readings before and after each turn. */
TEST(turns_are_counted) {
    static bench_contender contender;
    worker_text request = {.length = 0};
    sensors *const own = open_gpu(LIBRARY("whole"), "Fake GPU 1", "0000:3b:00.0");
    const memory_case item = {.operation = MEMORY_BUFFER, .bytes = 4096, .threads = 1, .seed = 1};
    contender.impl = "memcpy";
    contender.arguments[0] = "_worker";
    contender.arguments[1] = "memcpy";
    snprintf(contender.program, sizeof contender.program, "%s", TANDEM_BINARY_DIR "/bin/tandem");
    memory_case_write(&item, &request);
    const bench_plan plan = {
        .task = {.request = request.text, .verify = memory_case_check, .user = &item},
        .rule = {.samples = 3, .seconds = 10},
        .turn_seconds = 0.0001,
        .timeout_s = 30 * test_time_factor(),
        .sensors = own,
        .label = "memcpy",
    };
    bench_run_case(&plan, &contender, 1);
    assert_int_equal(contender.status, RESULT_OK);
    assert_int_equal(contender.series.count, 3);
    assert_true(fabs(contender.energy.joules - 1.5) < 1e-9);
    assert_true(contender.energy.calls == 3 * (double)contender.calls);
    assert_true(contender.energy.temperature_c == 61);
    assert_true(contender.energy.throttled == 0 || contender.energy.throttled == 1);
    bench_contenders_release(&contender, 1);
    sensors_close(own);
}

TEST_MAIN(NULL, NULL)
