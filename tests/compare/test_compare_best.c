/* What `tandem compare` says of each device at best: main memory, arithmetic, a launch, beside its datasheet. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <cjson/cJSON.h>

#include "bench/compare/compare_page.h"
#include "bench/report/page_texts.h"
#include "tests/support/bench/html_check.h"

#define TIMES                                                                                      \
    "\"packing\":\"none\",\"samples\":2,\"raw_s\":[1e-3,1e-3],\"median_s\":1e-3,\"min_s\":1e-3,"   \
    "\"p5_s\":1e-3,\"p95_s\":1e-3,\"verified\":true,\"status\":\"ok\","
#define ROW(suite, name, impl, mode, rest)                                                         \
    "{\"suite\":\"" suite "\",\"case\":\"" name "\",\"impl\":\"" impl "\",\"mode\":\"" mode        \
    "\"," TIMES rest "}"
/* A loop over so many MB, with its GB/s. */
#define LOOP(name, megabytes, gbs)                                                                 \
    ROW("memory", name, "tandem", "pipelined",                                                     \
        "\"dtype\":\"f32\",\"shape\":{\"bytes\":" megabytes "e6},\"bytes\":" gbs                   \
        "e6,\"gbs\":" gbs)
#define CHASE(name, megabytes, ns)                                                                 \
    ROW("memory", name, "tandem", "pipelined",                                                     \
        "\"shape\":{\"bytes\":" megabytes "e6},\"metrics\":{\"latency_ns\":" ns "}")
#define WORK(suite, name, impl, dtype, gflops)                                                     \
    ROW(suite, name, impl, "pipelined",                                                            \
        "\"dtype\":\"" dtype "\",\"shape\":{\"m\":1},\"flops\":" gflops "e6,\"gflops\":" gflops)

/* A launch of half the time, which is not a pipelined one. */
#define WAITED                                                                                     \
    "{\"suite\":\"launch\",\"case\":\"kernel\",\"impl\":\"tandem\",\"mode\":\"waited\",\"shape\":" \
    "{},"                                                                                          \
    "\"status\":\"ok\",\"raw_s\":[5e-4],\"median_s\":5e-4}"

static const char *const first_rows[] = {
    LOOP("read 300M", "300", "900"),
    LOOP("read 64M", "64", "4000"),
    LOOP("triad 300M", "300", "1100"),
    LOOP("triad 16M", "16", "5000"),
    CHASE("chase 300M", "300", "250"),
    CHASE("chase 64M", "64", "60"),
    WORK("compute", "fma f32", "tandem", "f32", "80000"),
    WORK("compute", "fma f32 intensity 1024", "tandem", "f32", "78000"),
    WORK("gemm", "a", "tandem", "s8", "330500"),
    WORK("gemm", "a", "cublas", "s8", "600000"),
    ROW("launch", "kernel", "tandem", "pipelined", "\"shape\":{}"),
    WAITED,
    LOOP("upload 64M, pinned", "64", "25"),
    LOOP("upload 64M, pageable", "64", "90"),
    NULL,
};

/* A device without a sheet, whose cache is not known: sets of less than 1024 MB may be in it. */
static const char *const second_rows[] = {
    LOOP("read 1200M", "1200", "2700"),
    LOOP("read 640M", "640", "9000"),
    LOOP("scan 1100M", "1100", "2800"),
    CHASE("chase 64M", "64", "50"),
    WORK("compute", "fma f32", "tandem", "f32", "40000"),
    NULL,
};

typedef struct compared {
    results_file files[2];
    compare_table table;
    best_line lines[BEST_MAX_LINES];
    size_t count;
} compared;

static void read_rows(const char *device, const char *const *rows, results_file *file) {
    static char text[16384];
    file_error error;
    size_t length = (size_t)snprintf(
        text, sizeof text,
        "{\"schema\":\"tandem-report/1\",\"library\":{},\"created\":null,\"host\":{},\"device\":"
        "{\"name\":\"%s\"},\"environment\":{},\"results\":[",
        device);
    for (int i = 0; rows[i] != NULL; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, "%s%s", i == 0 ? "" : ",",
                                   rows[i]);
    length += (size_t)snprintf(text + length, sizeof text - length, "]}");
    assert_in_range(length, 1, sizeof text - 1);
    if (results_read_text("test.json", text, length, file, &error) != 0)
        fail_msg("%s", error.text);
}

static int set_up(void **state) {
    static compared all;
    all = (compared){.count = 0};
    read_rows("NVIDIA GeForce RTX 4090", first_rows, &all.files[0]);
    read_rows("Other", second_rows, &all.files[1]);
    for (int i = 0; i < 2; i++)
        assert_int_equal(compare_add_columns(&all.table, &all.files[i]), 0);
    all.count = best_lines_find(all.table.columns, 2, all.lines);
    *state = &all;
    return 0;
}

static int tear_down(void **state) {
    compared *const all = *state;
    for (int i = 0; i < 2; i++)
        results_file_release(&all->files[i]);
    return 0;
}

static void is_near(double value, double expected) {
    if (isnan(expected) ? !isnan(value) : !(fabs(value - expected) <= 1e-3 * fabs(expected)))
        fail_msg("%g for %g", value, expected);
}

static void lines_are_of_what_counts(void **state) {
    static const struct {
        const char *what;
        double values[2];
        double of_sheet; /* of the first */
        double ratio;
    } expected[] = {
        {"main memory, reading", {900, 2800}, 900.0 / 1008, 2800.0 / 900},
        {"main memory, triad", {1100, NAN}, 1100.0 / 1008, NAN},
        {"main memory, latency", {250, NAN}, NAN, NAN},
        {"arithmetic, f32", {80000, 40000}, 80.0 / 82.6, 0.5},
        {"products, s8", {330500, NAN}, 0.5, NAN},
        {"launch, pipelined", {1000, NAN}, NAN, NAN},
        {"from the host, pinned", {25, NAN}, NAN, NAN},
    };
    const compared *const all = *state;
    assert_int_equal(all->count, sizeof expected / sizeof *expected);
    for (size_t i = 0; i < all->count; i++) {
        const best_line *const line = &all->lines[i];
        assert_string_equal(line->what, expected[i].what);
        is_near(line->values[0], expected[i].values[0]);
        is_near(line->values[1], expected[i].values[1]);
        is_near(line->of_sheet[0], expected[i].of_sheet);
        is_near(line->of_sheet[1], NAN);
        is_near(best_line_ratio(line, 1), expected[i].ratio);
    }
}

/* Of a list in a cache, and of one beside which nothing else tells what main memory is, there is none. */
static void a_list_in_a_cache_has_no_latency_of_memory(void **state) {
    static const char *const devices[] = {"NVIDIA GeForce RTX 4090", "Other"};
    static const char *const rows[] = {CHASE("chase 64M", "64", "60"), NULL};
    (void)state;
    for (int i = 0; i < 2; i++) {
        compared one = {.count = 0};
        read_rows(devices[i], rows, &one.files[0]);
        assert_int_equal(compare_add_columns(&one.table, &one.files[0]), 0);
        assert_int_equal(best_lines_find(one.table.columns, 1, one.lines), 0);
        results_file_release(&one.files[0]);
    }
}

static void less_time_is_faster(void **state) {
    best_line line = {.less_is_better = 1, .values = {250, 500}};
    (void)state;
    is_near(best_line_ratio(&line, 1), 0.5);
    line.less_is_better = 0;
    is_near(best_line_ratio(&line, 1), 2);
}

static void people_and_programs_are_told(void **state) {
    static const char *const texts[] = {
        "at best                                  A             B   B is",
        "main memory, reading       900 GB/s (89 %)     2800 GB/s  3.11x",
        "main memory, triad      1100 GB/s (109 %!)             -      -",
        "main memory, latency                250 ns             -      -",
        "arithmetic, f32        80.0 TFLOP/s (97 %)  40.0 TFLOP/s  0.50x",
        "products, s8              330 TOP/s (50 %)             -      -",
    };
    static char text[16384];
    static char page[1 << 17];
    compared *const all = *state;
    const compare_differences none = {NULL, 0, 0};
    const compare_report report = {&all->table, &none, RATIO_MARGIN};
    assert_int_equal(compare_match(&all->table, RATIO_MARGIN), 0);
    FILE *file = fmemopen(text, sizeof text, "w");
    assert_non_null(file);
    compare_print(&report, file);
    assert_int_equal(fclose(file), 0);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (strstr(text, texts[i]) == NULL)
            fail_msg("there is no '%s' in\n%s", texts[i], text);
    file = fmemopen(page, sizeof page, "w");
    assert_non_null(file);
    assert_int_equal(compare_page_write(file, &report), 0);
    assert_int_equal(fclose(file), 0);
    html_check_page(page);
    must_have(page, "<td>main memory, reading</td><td class=\"number\">900 GB/s (89 %)</td><td "
                    "class=\"number\">2800 GB/s</td><td class=\"number\">3.11x</td>");
    cJSON *const json = compare_json(&report);
    const cJSON *const list = cJSON_GetObjectItem(json, "at_best");
    const cJSON *const triad = cJSON_GetArrayItem(list, 1);
    const cJSON *const values = cJSON_GetObjectItem(triad, "values");
    assert_int_equal(cJSON_GetArraySize(list), (int)all->count);
    assert_true(cJSON_GetArrayItem(values, 0)->valuedouble == 1100);
    assert_true(cJSON_IsNull(cJSON_GetArrayItem(values, 1)));
    assert_true(cJSON_IsNull(cJSON_GetArrayItem(cJSON_GetObjectItem(triad, "ratios"), 1)));
    cJSON_Delete(json);
    compare_release(&all->table);
}

static void times_are(double ratio, const char *expected) {
    char text[32];
    page_times_text(ratio, 2, text, sizeof text);
    assert_string_equal(text, expected);
}

static void rate_is(const char *dtype, double gflops, double median_s, const char *expected) {
    const results_row row = {.suite = "gemm", .dtype = dtype};
    const compare_cell cell = {.row = &row,
                               .median_s = median_s,
                               .gflops = gflops,
                               .gbs = NAN,
                               .repeats = 1,
                               .share = NAN};
    char text[32];
    compare_rate_text(&cell, text, sizeof text);
    assert_string_equal(text, expected);
}

static void figures_have_digits_that_count(void **state) {
    (void)state;
    times_are(1.05, "1.05");
    times_are(0.1, "0.10");
    times_are(0.0541, "0.054");
    times_are(0.0049, "4.90e-03");
    rate_is("f32", 743, 1, "743 GFLOP/s");
    rate_is("w8", 82600, 1, "82.6 TFLOP/s");
    rate_is("u8s8", 661000, 1, "661 TOP/s");
    rate_is("w8a8", 9990, 1, "9990 GOP/s");
    rate_is(NULL, NAN, 164e-9, "164 ns");
    rate_is(NULL, NAN, 1.78e-6, "1.78 us");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_of_what_counts),
        cmocka_unit_test(a_list_in_a_cache_has_no_latency_of_memory),
        cmocka_unit_test(less_time_is_faster),
        cmocka_unit_test(people_and_programs_are_told),
        cmocka_unit_test(figures_have_digits_that_count),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
