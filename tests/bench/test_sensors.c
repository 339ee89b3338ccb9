/* Energy, power and clocks: from a stand-in for NVML in all the ways in which that may be less, and from a folder like powercap's. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "bench/cases/memory_case.h"
#include "bench/harness/bench_runner.h"
#include "tests/support/test_folder.h"
#include "tests/support/test_program.h"

#define LIBRARY(kind) TANDEM_BINARY_DIR "/lib/libtandem_fake_nvml_" kind ".so"

static sensors *open_gpu_at(const char *library, const char *name, const char *address) {
    const sensor_places places = {.nvml = library, .powercap = "/nonexistent"};
    tdm_device_info device = {.type = TDM_DEVICE_GPU};
    snprintf(device.name, sizeof device.name, "%s", name);
    snprintf(device.pci_address, sizeof device.pci_address, "%s", address);
    return sensors_open(&places, &device);
}

static sensors *open_gpu(const char *library, const char *name) {
    return open_gpu_at(library, name, "");
}

static void all_of_a_gpu_is_read(void **state) {
    (void)state;
    sensors *const own = open_gpu(LIBRARY("whole"), "Fake GPU 1");
    assert_non_null(own);
    const sensor_reading before = sensors_read(own);
    const sensor_reading after = sensors_read(own);
    assert_true(fabs(sensors_joules(&before, &after) - 0.5) < 1e-9);
    assert_true(fabs(after.power_w - 150.001) < 1e-9);
    assert_true(after.temperature_c == 61);
    assert_true(before.clock_mhz == 1001 && after.clock_mhz == 1001);
    assert_true(before.throttled + after.throttled == 1); /* idle is none */
    const sensor_facts facts = sensors_facts(own);
    assert_string_equal(facts.driver, "555.1");
    assert_true(fabs(facts.power_limit_w - 350.001) < 1e-9);
    assert_true(facts.clock_mhz == 1001 && facts.memory_clock_mhz == 2001);
    assert_true(facts.most_clock_mhz == 1101 && facts.most_memory_clock_mhz == 2201);
    assert_true(facts.link_generation == 5 && facts.link_width == 16);
    assert_true(facts.most_link_generation == 6 && facts.most_link_width == 32);
    assert_true(fabs(facts.default_power_limit_w - 700.001) < 1e-9);
    assert_true(facts.error_correction == 1);
    sensors_close(own);
}

static void reasons_have_names(void **state) {
    (void)state;
    static const struct {
        unsigned long long reasons;
        const char *text;
    } cases[] = {{0, ""},
                 {0x4, "power-cap"},
                 {0x20 | 0x40, "heat, hardware-heat"},
                 {0x4 | 0x1000, "power-cap, 0x1000"},
                 {0x1fc, "power-cap, hardware-slowdown, sync-boost, heat, hardware-heat, "
                         "power-brake, display-clock"},
                 {0x200, "0x200"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[SENSOR_REASONS_TEXT];
        sensors_name_reasons(cases[i].reasons, text);
        assert_string_equal(text, cases[i].text);
    }
}

static void missing_functions_are_nulls(void **state) {
    (void)state;
    sensors *const own = open_gpu(LIBRARY("poor"), "Fake GPU 0");
    assert_non_null(own);
    const sensor_reading reading = sensors_read(own);
    assert_true(isnan(reading.energy_j));
    assert_true(fabs(reading.power_w - 150) < 1e-9);
    assert_true(reading.throttled == 0);
    assert_true(isnan(sensors_facts(own).error_correction));
    assert_true(isnan(sensors_joules(&reading, &reading)));
    sensors_close(own);
}

static void failing_calls_are_nulls(void **state) {
    (void)state;
    sensors *const own = open_gpu(LIBRARY("failing"), "Fake GPU 0");
    assert_non_null(own);
    const sensor_reading reading = sensors_read(own);
    const sensor_facts facts = sensors_facts(own);
    assert_true(isnan(reading.energy_j) && isnan(reading.power_w));
    assert_true(isnan(reading.temperature_c) && isnan(reading.throttled) &&
                isnan(reading.clock_mhz));
    assert_string_equal(facts.driver, "");
    assert_true(isnan(facts.power_limit_w) && isnan(facts.clock_mhz));
    assert_true(isnan(facts.link_width) && isnan(facts.error_correction));
    assert_true(isnan(facts.most_link_width) && isnan(facts.default_power_limit_w));
    sensors_close(own);
}

/* Another device's figures would be worse than none. */
static void a_device_that_is_not_certain_has_no_sensors(void **state) {
    (void)state;
    assert_null(open_gpu(LIBRARY("twins"), "Fake GPU 0"));
    assert_null(open_gpu(LIBRARY("whole"), "Fake GPU 7"));
    assert_null(open_gpu("/nonexistent/libnvidia-ml.so", "Fake GPU 0"));
    assert_null(open_gpu(TANDEM_BINARY_DIR "/lib/" TANDEM_COUNTING_DRIVER,
                         "Fake GPU 0")); /* no NVML at all */
    assert_true(isnan(sensors_read(NULL).energy_j));
    assert_true(isnan(sensors_facts(NULL).power_limit_w));
    sensors_close(NULL);
}

/* Devices of one name are told apart by where they are. */
static void equal_devices_have_their_own_sensors(void **state) {
    static const char *const addresses[] = {"0000:3a:00.0", "0000:3b:00.0"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        sensors *const own = open_gpu_at(LIBRARY("twins"), "Fake GPU 0", addresses[i]);
        assert_non_null(own);
        assert_true(sensors_read(own).temperature_c == 60 + i);
        sensors_close(own);
    }
    assert_null(open_gpu_at(LIBRARY("twins"), "Fake GPU 0", "0000:3c:00.0"));
    assert_null(open_gpu_at(LIBRARY("whole"), "Fake GPU 0 MIG 1g.10gb", "0000:3a:00.0"));
    sensors *const named = open_gpu_at(LIBRARY("whole"), "Fake GPU 1", "ffff:00:00.0");
    assert_true(sensors_read(named).temperature_c == 61);
    sensors_close(named);
}

static void write_number(const char *folder, const char *file, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    FILE *const stream = fopen(path, "w");
    assert_non_null(stream);
    fputs(text, stream);
    fclose(stream);
}

static void remove_file(const char *folder, const char *file) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    unlink(path);
}

static void powercap_counts_packages(void **state) {
    (void)state;
    char folder[] = "/tmp/tandem-powercap-XXXXXX";
    char package[64];
    assert_non_null(mkdtemp(folder));
    const sensor_places places = {.nvml = "/nonexistent", .powercap = folder};
    const tdm_device_info device = {.type = TDM_DEVICE_CPU};
    assert_null(sensors_open(&places, &device));
    snprintf(package, sizeof package, "%s/intel-rapl:0", folder);
    assert_int_equal(mkdir(package, 0700), 0);
    assert_null(sensors_open(&places, &device));
    write_number(package, "energy_uj", "9000000\n");
    write_number(package, "max_energy_range_uj", "10000000\n");
    write_number(package, "constraint_0_power_limit_uw", "120000000\n");
    sensors *const own = sensors_open(&places, &device);
    assert_non_null(own);
    const sensor_reading before = sensors_read(own);
    write_number(package, "energy_uj", "9500000\n");
    const sensor_reading after = sensors_read(own);
    write_number(package, "energy_uj", "250000\n");
    const sensor_reading around = sensors_read(own);
    remove_file(package, "energy_uj");
    const sensor_reading gone = sensors_read(own);
    assert_true(fabs(sensors_joules(&before, &after) - 0.5) < 1e-9);
    assert_true(fabs(sensors_joules(&after, &around) - 0.75) < 1e-9);
    assert_true(isnan(sensors_joules(&around, &gone)));
    assert_true(before.at_s > 0 && after.at_s >= before.at_s);
    assert_true(isnan(before.power_w) && isnan(before.temperature_c) && isnan(before.throttled));
    assert_true(fabs(sensors_facts(own).power_limit_w - 120) < 1e-9);
    sensors_close(own);
    remove_file(package, "max_energy_range_uj");
    remove_file(package, "constraint_0_power_limit_uw");
    rmdir(package);
    rmdir(folder);
}

/* A file "<folder>/<name>/<file>" with the text. */
static void write_entry(const char *folder, const char *name, const char *file, const char *text) {
    char path[TEST_PATH + 32];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    mkdir(path, 0700);
    write_number(path, file, text);
}

static double temperature_of(const sensor_places *places) {
    const tdm_device_info device = {.type = TDM_DEVICE_CPU};
    sensors *const own = sensors_open(places, &device);
    const sensor_reading reading = sensors_read(own);
    assert_true(isnan(reading.energy_j) && isnan(reading.power_w));
    assert_true(isnan(sensors_facts(own).power_limit_w));
    sensors_close(own);
    return reading.temperature_c;
}

/* The hottest of the processors' own; a zone of the firmware where there is none of them; nothing of a disk. */
static void processors_have_a_temperature(void **state) {
    char hwmon[TEST_PATH];
    char zones[TEST_PATH];
    (void)state;
    const sensor_places places = {.nvml = "/nonexistent",
                                  .powercap = "/nonexistent",
                                  .hwmon = test_folder_path(hwmon, "hwmon"),
                                  .thermal = test_folder_path(zones, "zones")};
    assert_true(isnan(temperature_of(&places)));
    mkdir(hwmon, 0700);
    mkdir(zones, 0700);
    write_entry(hwmon, "hwmon0", "name", "nvme\n");
    write_entry(hwmon, "hwmon0", "temp1_input", "90000\n");
    assert_true(isnan(temperature_of(&places)));
    write_entry(zones, "thermal_zone0", "type", "acpitz\n");
    write_entry(zones, "thermal_zone0", "temp", "80000\n");
    assert_true(isnan(temperature_of(&places)));
    write_entry(zones, "thermal_zone1", "type", "x86_pkg_temp\n");
    write_entry(zones, "thermal_zone1", "temp", "41000\n");
    assert_true(temperature_of(&places) == 41);
    write_entry(hwmon, "hwmon2", "name", "k10temp\n");
    write_entry(hwmon, "hwmon2", "temp1_input", "52500\n");
    write_entry(hwmon, "hwmon3", "name", "k10temp\n");
    write_entry(hwmon, "hwmon3", "temp1_input", "57250\n");
    assert_true(temperature_of(&places) == 57.25);
}

/* Half a joule between the readings before and after each turn. */
static void turns_are_counted(void **state) {
    (void)state;
    static bench_entrant entrant;
    worker_text request = {.length = 0};
    sensors *const own = open_gpu(LIBRARY("whole"), "Fake GPU 1");
    const memory_case item = {.operation = MEMORY_BUFFER, .bytes = 4096, .threads = 1, .seed = 1};
    entrant.impl = "memcpy";
    entrant.arguments[0] = "_worker";
    entrant.arguments[1] = "memcpy";
    snprintf(entrant.program, sizeof entrant.program, "%s", TANDEM_BINARY_DIR "/bin/tandem");
    memory_case_write(&item, &request);
    const bench_plan plan = {
        .task = {.request = request.text, .verify = memory_case_check, .user = &item},
        .rule = {.minimum_samples = 3, .maximum_samples = 3, .maximum_seconds = 10},
        .turn_seconds = 0.0001,
        .timeout_s = 30 * test_time_factor(),
        .sensors = own,
        .label = "memcpy",
    };
    bench_run_case(&plan, &entrant, 1);
    assert_int_equal(entrant.status, RESULT_OK);
    assert_int_equal(entrant.series.count, 3);
    assert_true(fabs(entrant.energy.joules - 1.5) < 1e-9);
    assert_true(entrant.energy.calls == 3 * (double)entrant.calls);
    assert_true(entrant.energy.temperature_c == 61);
    assert_true(entrant.energy.throttled == 0 || entrant.energy.throttled == 1);
    bench_entrants_release(&entrant, 1);
    sensors_close(own);
}

/* Powercap tells joules only. */
static void power_is_energy_over_time_where_it_is_not_told(void **state) {
    (void)state;
    const sensor_reading rows[] = {
        {.at_s = 10, .energy_j = 1, .power_w = NAN},   {.at_s = 12, .energy_j = 4, .power_w = NAN},
        {.at_s = 14, .energy_j = 5, .power_w = NAN},   {.at_s = 15, .energy_j = 9, .power_w = 80},
        {.at_s = 16, .energy_j = NAN, .power_w = NAN},
    };
    static const double watts[] = {1.5, 1, 80, NAN};
    bench_energy energy = bench_no_energy;
    for (int i = 0; i < 4; i++) {
        bench_note_energy(&rows[i], &rows[i + 1], 1, &energy);
        assert_true(isnan(watts[i]) ? isnan(energy.power_w)
                                    : fabs(energy.power_w - watts[i]) < 1e-12);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_of_a_gpu_is_read),
        cmocka_unit_test(reasons_have_names),
        cmocka_unit_test(missing_functions_are_nulls),
        cmocka_unit_test(failing_calls_are_nulls),
        cmocka_unit_test(a_device_that_is_not_certain_has_no_sensors),
        cmocka_unit_test(equal_devices_have_their_own_sensors),
        cmocka_unit_test(powercap_counts_packages),
        cmocka_unit_test(processors_have_a_temperature),
        cmocka_unit_test(turns_are_counted),
        cmocka_unit_test(power_is_energy_over_time_where_it_is_not_told),
    };
    return cmocka_run_group_tests_name("sensors", tests, test_folder_make, test_folder_remove);
}
