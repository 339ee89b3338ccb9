/* What long runs come to, window by window, and the time that a host takes from a virtual machine. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "bench/cases/memory_case.h"
#include "bench/harness/bench_sustained.h"
#include "bench/record/stolen_time.h"
#include "formats/json_file.h"
#include "tests/support/bench/bench_rows.h"
#include "tests/support/test_folder.h"
#include "tests/support/test_program.h"

enum {
    WINDOWS = 40
};

/* Windows of a quarter of a second, a call of which takes 3 s in the first three, 1 s in the next five, 2 s later, 4 s and 6 s by turns in the last third. */
static void fill_windows(double window_s, double *samples, result_window *windows) {
    for (int i = 0; i < WINDOWS; i++) {
        const double at = i * window_s;
        windows[i] = (result_window){.at_s = at, .seconds = window_s, .joules = NAN};
        samples[i] = i < 3 ? 3 : i < 8 ? 1 : 3 * (i + 1) <= 2 * WINDOWS ? 2 : 4 + 2 * (i % 2);
    }
}

static void the_first_two_seconds_stand_against_the_last_third(void **state) {
    (void)state;
    double samples[WINDOWS];
    result_window windows[WINDOWS];
    fill_windows(0.25, samples, windows);
    for (int i = 0; i < WINDOWS; i++)
        windows[i].joules = i == 1 ? NAN : 10 * samples[i]; /* the others are enough */
    samples[2] = samples[8] = 100;                          /* one of eight that was disturbed */
    sustained_summary summary = sustained_summarize(samples, windows, WINDOWS, 0.25 * WINDOWS);
    assert_true(summary.burst_s == 1 && summary.sustained_s == 5);
    assert_true(summary.burst_j == 10 && summary.sustained_j == 50);
    summary = sustained_summarize(samples, windows, WINDOWS, 0.3 * WINDOWS); /* cut short */
    assert_true(summary.burst_s == 1 && summary.burst_j == 10);
    assert_true(isnan(summary.sustained_s) && isnan(summary.sustained_j));
    fill_windows(0.0125, samples, windows); /* half a second: its first third has 13 windows */
    summary = sustained_summarize(samples, windows, WINDOWS, 0.0125 * WINDOWS);
    assert_true(summary.burst_s == 2 && summary.sustained_s == 5);
    assert_true(isnan(summary.burst_j) && isnan(summary.sustained_j));
    summary = sustained_summarize(samples, windows, 0, 1);
    assert_true(isnan(summary.burst_s) && isnan(summary.sustained_s));
}

static void the_stolen_share_is_of_what_passed(void **state) {
    (void)state;
    static const char *const texts[] = {
        "cpu  1000 10 200 5000 20 0 30 40 7 7\ncpu0 1 1 1 1 1 1 1 1 1 1\n",
        "cpu  1050 10 200 5040 20 0 30 50 7 7\n", /* 100 later, 10 of them stolen */
        "cpu  1 2 3 4\n",                         /* a system that does not tell */
        "intr 5\n",
    };
    processor_time times[4];
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char path[TEST_PATH];
        test_text_write(test_folder_path(path, "stat"), texts[i], 0600);
        times[i] = processor_time_in(path);
    }
    const processor_time boot = {0, 0};
    assert_true(fabs(stolen_share(&times[0], &times[1]) - 0.1) < 1e-12);
    assert_true(fabs(stolen_share(&boot, &times[0]) - 40.0 / 6300) < 1e-12);
    assert_true(isnan(stolen_share(&times[0], &times[0])));
    assert_true(isnan(stolen_share(&times[0], &times[2])));
    assert_true(isnan(stolen_share(&times[3], &times[1])));
    const processor_time none = processor_time_in("/nonexistent");
    assert_true(isnan(stolen_share(&none, &times[1])));
}

static sensors *open_fake_gpu(void) {
    const sensor_places places = {.nvml = TANDEM_BINARY_DIR "/lib/libtandem_fake_nvml_whole.so",
                                  .powercap = "/nonexistent"};
    const tdm_device_info device = {.type = TDM_DEVICE_GPU, .name = "Fake GPU 1"};
    return sensors_open(&places, &device);
}

/* The case, and the suite whose time is over when its result has been checked; or NULL. */
typedef struct checked_case {
    memory_case item;
    bench_plan *ending;
} checked_case;

static int check(const void *user, const void *bytes, size_t size, double *max_error,
                 worker_text *reason) {
    const checked_case *const own = user;
    if (own->ending != NULL)
        own->ending->deadline_s = bench_now();
    return memory_case_check(&own->item, bytes, size, max_error, reason);
}

/* The row of a run of half a second, which the caller deletes; `ends`: of a minute, but the suite's time is over when it begins. */
static cJSON *sustain(const sensors *meters, int64_t bytes, int ends) {
    static bench_entrant entrant;
    bench_report report;
    char path[TEST_PATH];
    worker_text request = {.length = 0};
    file_error error;
    checked_case own = {
        .item = {.operation = MEMORY_BUFFER, .bytes = bytes, .threads = 1, .seed = 1}};
    const tdm_device_info device = {.type = TDM_DEVICE_GPU, .name = "Fake GPU 1"};
    const bench_result row = {.case_name = "buffer",
                              .mode = "pipelined",
                              .bytes = 2.0 * (double)bytes,
                              .metrics = {{"setting_best", 1}}};
    entrant = (bench_entrant){.impl = "memcpy", .arguments = {"_worker", "memcpy"}};
    snprintf(entrant.program, sizeof entrant.program, "%s", TANDEM_BINARY_DIR "/bin/tandem");
    memory_case_write(&own.item, &request);
    bench_plan plan = {
        .task = {.request = request.text, .verify = check, .user = &own},
        .turn_seconds = 0.001,
        .timeout_s = 30 * test_time_factor(),
        .sensors = meters,
        .label = "buffer",
    };
    assert_int_equal(bench_report_open(&report, "GB/s", NULL, &device), 0);
    own.ending = ends ? &plan : NULL;
    bench_sustain(&plan, &entrant, ends ? 60 : 0.5, &row, &report);
    report.tandem_rows = 1;
    assert_int_equal(bench_report_close(&report, "test", test_folder_path(path, "sustained.json")),
                     0);
    bench_entrants_release(&entrant, 1);
    cJSON *const file = json_file_read(path, &error);
    assert_non_null(file);
    return file;
}

static const cJSON *row_of(const cJSON *file) {
    const cJSON *const row =
        cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(file, "results"), 0);
    assert_non_null(row);
    return row;
}

/* The stand-in holds clocks down for heat at each second question: at the end of each window. */
static void windows_tell_energy_and_why_clocks_are_held(void **state) {
    (void)state;
    sensors *const meters = open_fake_gpu();
    assert_non_null(meters);
    cJSON *const file = sustain(meters, 4096, 0);
    const cJSON *const row = row_of(file);
    const cJSON *const windows = cJSON_GetObjectItemCaseSensitive(row, "windows");
    const cJSON *const metrics = cJSON_GetObjectItemCaseSensitive(row, "metrics");
    const cJSON *window;
    double end = -1;
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(row, "suite")),
                        "sustained");
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(row, "case")),
                        "sustained buffer");
    assert_true(cJSON_GetArraySize(windows) >= 1);
    assert_true(json_number(row, "samples") == cJSON_GetArraySize(windows));
    cJSON_ArrayForEach(window, windows) {
        const cJSON *const reasons = cJSON_GetObjectItemCaseSensitive(window, "throttle_reasons");
        assert_true(json_number(window, "at_s") >= end);
        end = json_number(window, "at_s") + json_number(window, "seconds");
        assert_true(json_number(window, "joules") > 0 &&
                    json_number(window, "temperature_c") == 61);
        assert_true(json_number(window, "throttled") == 1);
        assert_string_equal(cJSON_GetStringValue(reasons), "heat");
    }
    assert_true(end >= 0.5); /* measured, not only passed */
    assert_string_equal(
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(row, "throttle_reasons")), "heat");
    assert_true(json_number(metrics, "burst_s") > 0 &&
                json_number(metrics, "sustained_of_burst") > 0);
    assert_true(json_number(metrics, "burst_pj") > 0 && json_number(metrics, "sustained_pj") > 0);
    assert_true(json_number(metrics, "setting_best") ==
                1); /* tandem compare pairs such rows by it */
    cJSON_Delete(file);
    sensors_close(meters);
}

static void without_sensors_they_are_null(void **state) {
    (void)state;
    cJSON *const file = sustain(NULL, 4096, 0);
    const cJSON *const row = row_of(file);
    const cJSON *const metrics = cJSON_GetObjectItemCaseSensitive(row, "metrics");
    const cJSON *const window =
        cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(row, "windows"), 0);
    assert_true(isnan(json_number(window, "joules")) && isnan(json_number(window, "power_w")));
    assert_true(isnan(json_number(window, "throttled")));
    assert_false(cJSON_HasObjectItem(metrics, "burst_pj"));
    assert_true(json_number(metrics, "sustained_of_burst") > 0);
    cJSON_Delete(file);
}

/* Whoever was prepared has one window, as it has one turn elsewhere. */
static void one_window_is_taken_when_time_is_over(void **state) {
    (void)state;
    cJSON *const file = sustain(NULL, 4096, 1);
    const cJSON *const row = row_of(file);
    const cJSON *const windows = cJSON_GetObjectItemCaseSensitive(row, "windows");
    const cJSON *const metrics = cJSON_GetObjectItemCaseSensitive(row, "metrics");
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(row, "status")),
                        "ok");
    assert_int_equal(cJSON_GetArraySize(windows), 1);
    assert_true(json_number(row, "samples") == 1 && json_number(row, "median_s") > 0);
    assert_true(json_number(metrics, "burst_s") > 0);
    assert_false(cJSON_HasObjectItem(metrics, "sustained_s"));
    assert_false(cJSON_HasObjectItem(metrics, "sustained_of_burst")); /* of one window */
    cJSON_Delete(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_two_seconds_stand_against_the_last_third),
        cmocka_unit_test(the_stolen_share_is_of_what_passed),
        cmocka_unit_test(windows_tell_energy_and_why_clocks_are_held),
        cmocka_unit_test(without_sensors_they_are_null),
        cmocka_unit_test(one_window_is_taken_when_time_is_over),
    };
    return cmocka_run_group_tests_name("bench sustained", tests, test_folder_make,
                                       test_folder_remove);
}
