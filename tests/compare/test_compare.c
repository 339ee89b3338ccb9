/*
 * Tests `tandem compare`: verdicts on samples with known truth, matching, best lines, different
 * machines, and unusable files.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "bench/compare/compare_table.h"
#include "bench/record/bench_statistics.h"
#include "tests/support/bench/drawn_samples.h"
#include "tests/support/bench/html_check.h"
#include "tests/support/test_case.h"
#include "tests/support/test_folder.h"
#include "tests/support/test_program.h"

static const char program[] = TANDEM_BINARY_DIR "/bin/tandem";

/* ---- ratios ---- */

static speed_ratio compared(double base_s, double other_s, double spread, size_t count,
                            uint64_t seed) {
    double base[64];
    double other[64];
    speed_ratio ratio;
    drawn_samples(base, count, base_s, spread, 2 * seed);
    drawn_samples(other, count, other_s, spread, 2 * seed + 1);
    assert_int_equal(speed_ratio_find((sample_list){base, count}, (sample_list){other, count},
                                      RATIO_MARGIN, &ratio),
                     0);
    return ratio;
}

TEST(a_planted_shift_is_found_and_its_absence_too) {
    for (uint64_t seed = 0; seed < 50; seed++) {
        assert_int_equal(compared(1.05e-3, 1e-3, 0.005, 20, seed).verdict, VERDICT_FASTER);
        assert_int_equal(compared(1e-3, 1.05e-3, 0.005, 20, seed).verdict, VERDICT_SLOWER);
        assert_int_equal(compared(1e-3, 1e-3, 0.005, 20, seed).verdict, VERDICT_SAME);
        assert_int_equal(compared(1e-3, 1.01e-3, 0.005, 20, seed).verdict, VERDICT_SAME);
        assert_int_equal(compared(1e-3, 1e-3, 0.2, 10, seed).verdict, VERDICT_AMBIGUOUS);
    }
    const speed_ratio ratio = compared(2e-3, 1e-3, 0.001, 20, 7);
    assert_true(fabs(ratio.ratio - 2) < 0.01 && ratio.low > 1.99 && ratio.high < 2.01);
}

TEST(the_interval_covers_the_truth) {
    static const size_t counts[] = {9, 10, 25, 40};
    for (size_t c = 0; c < 4; c++) {
        int covered = 0;
        double width = 0;
        for (uint64_t seed = 0; seed < 300; seed++) {
            const speed_ratio ratio = compared(1.3, 1, 0.05, counts[c], 1000 + seed);
            covered += ratio.low <= 1.3 && ratio.high >= 1.3;
            width += (ratio.high - ratio.low) / 300;
        }
        print_message("%zu samples: %d of 300 intervals cover, %.3f wide\n", counts[c], covered,
                      width);
        assert_true(covered >= 273 && covered <= 299); /* 95 % would be 285 */
        assert_true(width < 0.25);
    }
}

TEST(few_samples_decide_nothing) {
    double many[20];
    const double few[] = {1.0, 1.1, 0.9};
    const sample_list lists[] = {{few, 3}, {many, 20}};
    speed_ratio ratio;
    drawn_samples(many, 20, 2, 0.001, 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(speed_ratio_find(lists[i], lists[1 - i], 0.03, &ratio), 0);
        assert_int_equal(ratio.verdict, VERDICT_AMBIGUOUS);
        assert_true(fabs(ratio.ratio - (i == 0 ? 0.5 : 2)) < 0.01 && isnan(ratio.low));
    }
    assert_int_equal(speed_ratio_find(lists[0], lists[0], 0.03, &ratio), 0);
    assert_int_equal(ratio.verdict, VERDICT_SAME);
    assert_int_equal(speed_ratio_find(lists[0], (sample_list){NULL, 0}, 0.03, &ratio), 0);
    assert_int_equal(ratio.verdict, VERDICT_NONE);
    assert_true(isnan(ratio.ratio));
}

/* ---- files ---- */

typedef struct file_plan {
    const char *device;
    const char *version;
    const char *pattern;
    double factor; /* scales every time except that of the case "fixed" */
    double spread;
    uint64_t seed;
    double flops; /* of the gemm rows */
} file_plan;

static void add_row(cJSON *rows, const file_plan *plan, const char *suite, const char *name,
                    const char *dtype, double seconds, double flops, double bytes) {
    double raw[15];
    const size_t count = sizeof raw / sizeof *raw;
    drawn_samples(raw, count, seconds, plan->spread,
                  plan->seed + (uint64_t)cJSON_GetArraySize(rows));
    const double median = summarize_samples(raw, count).median;
    cJSON *const row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "suite", suite);
    cJSON_AddStringToObject(row, "case", name);
    cJSON_AddStringToObject(row, "impl", "tandem");
    cJSON_AddStringToObject(row, "dtype", dtype);
    cJSON_AddStringToObject(row, "status", "ok");
    cJSON *const shape = cJSON_AddObjectToObject(row, "shape");
    if (bytes > 0)
        cJSON_AddNumberToObject(shape, "bytes", bytes);
    cJSON_AddItemToObject(row, "raw_s", cJSON_CreateDoubleArray(raw, (int)count));
    cJSON_AddNumberToObject(row, "median_s", median);
    if (flops > 0)
        cJSON_AddNumberToObject(row, "flops", flops);
    if (bytes > 0)
        cJSON_AddNumberToObject(row, "bytes", bytes);
    cJSON_AddItemToArray(rows, row);
}

static cJSON *plan_json(const file_plan *plan) {
    cJSON *const root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "schema", "tandem-bench/1");
    cJSON_AddStringToObject(cJSON_AddObjectToObject(root, "library"), "version", plan->version);
    cJSON_AddStringToObject(cJSON_AddObjectToObject(root, "device"), "name", plan->device);
    cJSON *const environment = cJSON_AddObjectToObject(root, "environment");
    cJSON_AddStringToObject(environment, "data_pattern", plan->pattern);
    cJSON_AddStringToObject(environment, "load_average", plan->pattern);
    cJSON *const rows = cJSON_AddArrayToObject(root, "results");
    add_row(rows, plan, "gemm", "one", "f32", 1e-3 * plan->factor, plan->flops, 0);
    add_row(rows, plan, "gemm", "two", "f32", 4e-3 * plan->factor, plan->flops, 0);
    add_row(rows, plan, "gemm", "fixed", "f32", 2e-3, plan->flops, 0);
    add_row(rows, plan, "memory", "copy", "f32", 1e-3 * plan->factor, 0, 1e9);
    return root;
}

/* Writes `root` to a file and frees `root`. */
static void write_json(char path[TEST_PATH], const char *name, cJSON *root) {
    char *const text = cJSON_PrintUnformatted(root);
    test_file_write(test_folder_path(path, name), text, strlen(text));
    free(text);
    cJSON_Delete(root);
}

static void write_plan(char path[TEST_PATH], const char *name, const file_plan *plan) {
    write_json(path, name, plan_json(plan));
}

static const file_plan plain = {"NVIDIA GeForce RTX 4090", "1.0.0", "random", 1, 0.004, 1, 1e9};

/* Runs the program on a.json and b.json, with further arguments. */
static test_program_result run(const char *arguments, int exit_code) {
    char words[800];
    char a[TEST_PATH];
    char b[TEST_PATH];
    snprintf(words, sizeof words, "compare %s %s %s", test_folder_path(a, "a.json"),
             test_folder_path(b, "b.json"), arguments);
    test_program_result result = test_program_run(program, words, NULL, 60);
    if (result.exit_code != exit_code)
        fail_msg("tandem %s gave %d\n%s%s", words, result.exit_code, result.output, result.errors);
    return result;
}

static cJSON *run_json(const char *arguments) {
    char words[200];
    snprintf(words, sizeof words, "--json - %s", arguments);
    test_program_result result = run(words, 0);
    cJSON *const root = cJSON_Parse(result.output);
    assert_non_null(root);
    test_program_release(&result);
    return root;
}

static const cJSON *ratio_of(const cJSON *root, int index) {
    const cJSON *const cases = cJSON_GetObjectItem(root, "cases");
    const cJSON *const cells = cJSON_GetObjectItem(cJSON_GetArrayItem(cases, index), "cells");
    return cJSON_GetObjectItem(cJSON_GetArrayItem(cells, 1), "ratio");
}

static const char *verdict_of(const cJSON *root, int index) {
    return cJSON_GetStringValue(cJSON_GetObjectItem(ratio_of(root, index), "verdict"));
}

TEST(identical_files_are_the_same) {
    char path[TEST_PATH];
    file_plan noisy = plain;
    noisy.spread = 0.3;
    write_plan(path, "a.json", &noisy);
    write_plan(path, "b.json", &noisy);
    cJSON *const root = run_json("");
    for (int i = 0; i < 4; i++)
        assert_string_equal(verdict_of(root, i), "SAME");
    cJSON_Delete(root);
}

TEST(a_shift_of_five_percent_is_found_where_it_is) {
    char path[TEST_PATH];
    file_plan faster = plain;
    faster.factor = 1 / 1.05;
    faster.seed = 100;
    write_plan(path, "a.json", &plain);
    write_plan(path, "b.json", &faster);
    cJSON *const root = run_json("");
    assert_string_equal(verdict_of(root, 0), "FASTER");
    assert_string_equal(verdict_of(root, 1), "FASTER");
    assert_string_equal(verdict_of(root, 2), "SAME");
    assert_string_equal(verdict_of(root, 3), "FASTER");
    const double ratio = cJSON_GetObjectItem(ratio_of(root, 0), "value")->valuedouble;
    assert_true(fabs(ratio - 1.05) < 0.01);
    const cJSON *const means = cJSON_GetObjectItem(root, "geometric_means");
    const cJSON *const mean = cJSON_GetArrayItem(means, 0);
    assert_int_equal(cJSON_GetArraySize(means), 1); /* of GEMM, not of memory */
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(mean, "dtype")), "f32");
    assert_true(cJSON_GetObjectItem(mean, "cases")->valuedouble == 3);
    assert_true(fabs(cJSON_GetObjectItem(mean, "mean")->valuedouble - pow(1.05, 2.0 / 3)) < 0.005);
    cJSON_Delete(root);
    write_plan(path, "a.json", &faster);
    write_plan(path, "b.json", &plain);
    cJSON *const slower = run_json("");
    assert_string_equal(verdict_of(slower, 0), "SLOWER");
    cJSON_Delete(slower);
    cJSON *const wide = run_json("--margin 10");
    assert_string_equal(verdict_of(wide, 0), "SAME");
    cJSON_Delete(wide);
}

/*
 * 1e9 bytes in a millisecond are 1000 GB/s. The datasheet has 1008, and a 5 % faster run exceeds
 * it.
 */
TEST(shares_of_the_datasheet) {
    char path[TEST_PATH];
    file_plan faster = plain;
    faster.factor = 1 / 1.05;
    write_plan(path, "a.json", &plain);
    write_plan(path, "b.json", &faster);
    cJSON *const root = run_json("");
    const cJSON *const cells =
        cJSON_GetObjectItem(cJSON_GetArrayItem(cJSON_GetObjectItem(root, "cases"), 3), "cells");
    const cJSON *const first = cJSON_GetArrayItem(cells, 0);
    const cJSON *const second = cJSON_GetArrayItem(cells, 1);
    assert_true(fabs(cJSON_GetObjectItem(first, "of_sheet")->valuedouble - 0.992) < 0.01);
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(second, "note")),
                        "above the datasheet peak");
    cJSON_Delete(root);
    test_program_result result = run("", 0);
    assert_non_null(strstr(result.output, "GDDR6X"));
    assert_non_null(strstr(result.output, "%!)"));
    assert_non_null(strstr(result.output, "FASTER"));
    test_program_release(&result);
}

TEST(unlike_machines_are_refused_or_marked) {
    char path[TEST_PATH];
    file_plan other = plain;
    write_plan(path, "a.json", &plain);
    other.version = "2.0.0";
    write_plan(path, "b.json", &other);
    test_program_result result = run("", 1);
    assert_non_null(strstr(result.errors, "a.json has library version '1.0.0', and b.json has "
                                          "'2.0.0'"));
    assert_non_null(strstr(result.errors, "--force"));
    test_program_release(&result);
    result = run("--force", 0);
    assert_non_null(strstr(result.output, "library version  1.0.0  2.0.0"));
    test_program_release(&result);
    other = plain;
    other.pattern = "zeros";
    write_plan(path, "b.json", &other);
    result = run("", 1);
    assert_non_null(strstr(result.errors, "environment data_pattern"));
    assert_null(strstr(result.errors, "load_average"));
    test_program_release(&result);
}

/* Probes adapt the length of their loops to the device. Twice the work in equal time is therefore
 * twice the speed. */
TEST(loops_of_other_lengths_are_compared_by_their_rates) {
    static const struct {
        const char *suite;
        double flops[2];
        double bytes[2];
        double ratio; /* 0: none */
    } cases[] = {
        {"memory", {0, 0}, {1e9, 2e9}, 2},
        {"compute", {1e9, 4e9}, {0, 0}, 4},
        {"compute", {1e9, 4e9}, {1e8, 4e8}, 4},
        {"compute", {1e9, 4e9}, {1e8, 1e8}, 0}, /* another kind of loop */
        {"quant", {0, 0}, {1e9, 2e9}, 0},
    };
    const int count = sizeof cases / sizeof *cases;
    char path[TEST_PATH];
    for (int second = 0; second < 2; second++) {
        file_plan plan = plain;
        plan.seed += 100 * (uint64_t)second;
        cJSON *const root = plan_json(&plan);
        for (int i = 0; i < count; i++) {
            char name[20];
            snprintf(name, sizeof name, "case %d", i);
            add_row(cJSON_GetObjectItem(root, "results"), &plan, cases[i].suite, name, "f32", 1e-3,
                    cases[i].flops[second], 0);
            cJSON *const row = cJSON_GetArrayItem(cJSON_GetObjectItem(root, "results"), 4 + i);
            if (cases[i].bytes[second] > 0)
                cJSON_AddNumberToObject(row, "bytes", cases[i].bytes[second]);
        }
        write_json(path, second ? "b.json" : "a.json", root);
    }
    cJSON *const root = run_json("");
    for (int i = 0; i < count; i++) {
        const cJSON *const ratio = ratio_of(root, 4 + i);
        const double value =
            cJSON_IsNull(ratio) ? 0 : cJSON_GetObjectItem(ratio, "value")->valuedouble;
        if (fabs(value - cases[i].ratio) > 0.02 * cases[i].ratio)
            fail_msg("case %d has %g for %g", i, value, cases[i].ratio);
    }
    cJSON_Delete(root);
}

TEST(files_that_cannot_be_used) {
    static const struct {
        const char *text;
        const char *sentence;
    } rows[] = {
        {"{", "b.json: it is not a JSON object"},
        {"{\"schema\":\"tandem-bench/9\"}", "its schema is 'tandem-bench/9'"},
        {"{\"schema\":\"tandem-bench/1\",\"results\":[]}",
         "no case was measured successfully on two devices"},
    };
    char path[TEST_PATH];
    write_plan(path, "a.json", &plain);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        test_file_write(test_folder_path(path, "b.json"), rows[i].text, strlen(rows[i].text));
        test_program_result result = run("", 1);
        if (strstr(result.errors, rows[i].sentence) == NULL)
            fail_msg("'%s' gave: %s", rows[i].text, result.errors);
        assert_string_equal(result.output, "");
        test_program_release(&result);
    }
    test_program_result result = test_program_run(program, "compare", NULL, 60);
    assert_int_equal(result.exit_code, 2);
    test_program_release(&result);
}

/* Two devices in one file are two columns. Repeated rows are one case. */
TEST(several_devices_and_repeated_rows) {
    static const char *const selectors[] = {"x/y/one", "x/y/two"};
    file_plan plan = plain;
    compare_table table = {.margin = RATIO_MARGIN};
    results_file file;
    file_error error;
    cJSON *const root = plan_json(&plan);
    cJSON *const rows = cJSON_GetObjectItem(root, "results");
    for (int i = 0; i < 4; i++) {
        cJSON *const copy = cJSON_Duplicate(cJSON_GetArrayItem(rows, i), 1);
        cJSON_AddStringToObject(cJSON_GetArrayItem(rows, i), "device", selectors[0]);
        cJSON_AddStringToObject(copy, "device", selectors[i % 2]);
        cJSON_AddItemToArray(rows, copy);
    }
    cJSON *const devices = cJSON_AddArrayToObject(root, "devices");
    for (int i = 0; i < 2; i++) {
        cJSON *const device = cJSON_CreateObject();
        cJSON_AddStringToObject(device, "selector", selectors[i]);
        cJSON_AddItemToArray(devices, device);
    }
    char *const text = cJSON_PrintUnformatted(root);
    if (results_read_text("two", text, strlen(text), &file, &error) != 0)
        fail_msg("%s", error.text);
    assert_int_equal(compare_add_columns(&table, &file), 0);
    assert_int_equal(table.column_count, 2);
    assert_int_equal(compare_match(&table), 0);
    assert_int_equal(table.case_count, 4);
    assert_int_equal(table.matched, 2);
    assert_string_equal(table.cases[0].row->case_name, "one");
    assert_int_equal(table.cases[0].cells[0].repeats, 2);
    assert_int_equal(table.cases[0].cells[0].sample_count, 30);
    assert_int_equal(table.cases[0].cells[1].repeats, 0);
    assert_int_equal(table.cases[1].cells[1].repeats, 1);
    assert_int_equal(table.cases[1].cells[1].ratio.verdict, VERDICT_SAME);
    compare_release(&table);
    results_file_release(&file);
    free(text);
    cJSON_Delete(root);
}

TEST(what_is_compared_is_not_overwritten) {
    static const struct {
        const char *options; /* with the folder */
        const char *reason;
    } rows[] = {
        {"--html %s/a.json", "is an input"},
        {"--json %s//b.json", "is an input"},
        {"--json %1$s/new --html %1$s/./new", "name the same file"},
        {"--json - --html -", "stdout can take only one"},
    };
    char path[TEST_PATH];
    char words[2 * TEST_PATH + 80];
    write_plan(path, "a.json", &plain);
    write_plan(path, "b.json", &plain);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(words, sizeof words, rows[i].options, test_folder());
        test_program_result result = run(words, 2);
        assert_non_null(strstr(result.errors, rows[i].reason));
        test_program_release(&result);
    }
    snprintf(words, sizeof words, "report --from %s --html %s", path, path);
    test_program_result result = test_program_run(program, words, NULL, 60);
    assert_int_equal(result.exit_code, 2);
    assert_non_null(strstr(result.errors, "is an input"));
    test_program_release(&result);
}

static void expect_page_alone(const char *words) {
    test_program_result result = test_program_run(program, words, NULL, 60);
    assert_int_equal(result.exit_code, 0);
    assert_string_equal(result.errors, "");
    assert_ptr_equal(strstr(result.output, "<!DOCTYPE html>"), result.output);
    const size_t length = strlen(result.output);
    assert_string_equal(result.output + length - strlen("</html>\n"), "</html>\n");
    test_program_release(&result);
    assert_int_equal(access("-", F_OK), -1);
}

TEST(pages_go_to_stdout) {
    char a[TEST_PATH];
    char b[TEST_PATH];
    char words[3 * TEST_PATH];
    write_plan(a, "a.json", &plain);
    write_plan(b, "b.json", &plain);
    snprintf(words, sizeof words, "report --from %s --html -", a);
    expect_page_alone(words);
    snprintf(words, sizeof words, "compare --html - %s %s", a, b);
    expect_page_alone(words);
}

/* Writes two modes of one call on a busy machine, and a case that only the first file has. */
static void write_modes(const char *name, const char *device, double factor) {
    static const char *const modes[] = {"pipelined", "waited", "pipelined"};
    char path[TEST_PATH];
    file_plan plan = plain;
    plan.device = device;
    cJSON *const root = plan_json(&plan);
    cJSON *const rows = cJSON_GetObjectItem(root, "results");
    cJSON *const environment = cJSON_GetObjectItem(root, "environment");
    cJSON_AddNumberToObject(environment, "others_of_run", factor > 1 ? 0.12 : 0.04);
    for (int i = 0; i < 3; i++) {
        add_row(rows, &plan, "launch", "kernel", "f32", factor * (i == 1 ? 20e-6 : 2e-6), 0, 0);
        cJSON *const row = cJSON_GetArrayItem(rows, 4 + i);
        cJSON_AddStringToObject(row, "mode", modes[i]);
        cJSON_AddStringToObject(row, "packing", i == 2 ? "prepacked" : "none");
        if (i == 1)
            cJSON_AddNumberToObject(cJSON_AddObjectToObject(row, "metrics"), "noisy", 0.07);
    }
    if (factor == 1)
        add_row(rows, &plan, "memory", "read 67108864", "f32", 1e-3, 0, 67108864);
    write_json(path, name, root);
}

TEST(the_page_has_what_the_table_has) {
    static const char *const texts[] = {
        "<td>launch</td><td>kernel</td><td>tandem</td><td>pipelined </td>",
        "<td>launch</td><td>kernel</td><td>tandem</td><td>waited </td>",
        "<td>launch</td><td>kernel</td><td>tandem</td><td>pipelined prepacked</td>",
        "<td>memory</td><td>read 64 MiB</td>",
        "A: noisy",
        "B: not measured",
        "12.0 %",
        "Roofline of f32",
        "A &lt;b&gt;bold&lt;/b&gt; &amp; strange",
    };
    char page[TEST_PATH];
    char words[300];
    size_t size = 0;
    write_modes("a.json", "A <b>bold</b> & strange RTX 4090", 1);
    write_modes("b.json", plain.device, 1.5);
    snprintf(words, sizeof words, "--html %s", test_folder_path(page, "page.html"));
    test_program_result result = run(words, 0);
    test_program_release(&result);
    char *const text = (char *)test_file_read(page, &size);
    html_check_page(text);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        must_have(text, texts[i]);
    must_not_have(text, "load_average"); /* it differs between any two runs */
    free(text);
    result = run("--html /nowhere/page.html", 1);
    assert_non_null(strstr(result.errors, "/nowhere/page.html"));
    test_program_release(&result);
}

/* ---- best lines ---- */

typedef struct device_row {
    const char *suite;
    const char *name;
    const char *impl;
    const char *mode;
    const char *dtype;
    double set_mb;     /* MB that a loop touches; 0: no loop */
    double rate;       /* GB/s, or GFLOP/s if there is no set; 0: none */
    double latency_ns; /* 0: none */
} device_row;

/* Makes a file of rows that take a millisecond each. */
static void read_device(const char *device, const device_row *rows, size_t count,
                        results_file *file) {
    char text[8192];
    file_error error;
    size_t length = (size_t)snprintf(
        text, sizeof text,
        "{\"schema\":\"tandem-bench/1\",\"device\":{\"name\":\"%s\"},\"results\":[", device);
    for (size_t i = 0; i < count; i++) {
        const device_row *const row = &rows[i];
        length += (size_t)snprintf(
            text + length, sizeof text - length,
            "%s{\"suite\":\"%s\",\"case\":\"%s\",\"impl\":\"%s\",\"mode\":\"%s\",\"dtype\":\"%s\","
            "\"raw_s\":[1e-3,1e-3],\"median_s\":1e-3,\"status\":\"ok\",\"shape\":{\"bytes\":%ge6},",
            i == 0 ? "" : ",", row->suite, row->name, row->impl, row->mode, row->dtype,
            row->set_mb);
        if (row->latency_ns > 0)
            length += (size_t)snprintf(text + length, sizeof text - length,
                                       "\"metrics\":{\"latency_ns\":%g}}", row->latency_ns);
        else
            length += (size_t)snprintf(text + length, sizeof text - length, "\"%s\":%ge6}",
                                       row->set_mb > 0 ? "bytes" : "flops", row->rate);
        assert_true(length < sizeof text);
    }
    length += (size_t)snprintf(text + length, sizeof text - length, "]}");
    if (results_read_text("test.json", text, length, file, &error) != 0)
        fail_msg("%s", error.text);
}

static void is_near(double value, double expected) {
    if (isnan(expected) ? !isnan(value) : !(fabs(value - expected) <= 1e-3 * fabs(expected)))
        fail_msg("%g for %g", value, expected);
}

/*
 * Best lines exclude caches, peers, waited launches and pageable memory. Without a datasheet, sets
 * below 1024 MB may be in a cache.
 */
TEST(lines_are_of_what_counts) {
    static const device_row first[] = {
        {"memory", "read 300M", "tandem", "pipelined", "f32", 300, 900, 0},
        {"memory", "read 64M", "tandem", "pipelined", "f32", 64, 4000, 0},
        {"memory", "triad 300M", "tandem", "pipelined", "f32", 300, 1100, 0},
        {"memory", "triad 16M", "tandem", "pipelined", "f32", 16, 5000, 0},
        {"memory", "chase 300M", "tandem", "pipelined", "u32", 300, 0, 250},
        {"memory", "chase 64M", "tandem", "pipelined", "u32", 64, 0, 60},
        {"compute", "fma f32", "tandem", "pipelined", "f32", 0, 80000, 0},
        {"gemm", "a", "tandem", "pipelined", "s8", 0, 330500, 0},
        {"gemm", "a", "cublas", "pipelined", "s8", 0, 600000, 0},
        {"launch", "kernel", "tandem", "pipelined", "u8", 0, 1, 0},
        {"launch", "kernel", "tandem", "waited", "u8", 0, 1, 0},
        {"memory", "upload 64M, pinned", "tandem", "pipelined", "u8", 64, 25, 0},
        {"memory", "upload 64M, pageable", "tandem", "pipelined", "u8", 64, 90, 0},
    };
    static const device_row second[] = {
        {"memory", "read 1200M", "tandem", "pipelined", "f32", 1200, 2700, 0},
        {"memory", "read 640M", "tandem", "pipelined", "f32", 640, 9000, 0},
        {"memory", "scan 1100M", "tandem", "pipelined", "s32", 1100, 2800, 0},
        {"memory", "chase 64M", "tandem", "pipelined", "u32", 64, 0, 50},
        {"compute", "fma f32", "tandem", "pipelined", "f32", 0, 40000, 0},
    };
    static const struct {
        const char *what;
        double values[2];
        double of_sheet; /* of the first column */
        double ratio;
    } expected[] = {
        {"main memory, reading", {900, 2800}, 900.0 / 1008, 2800.0 / 900},
        {"main memory, triad", {1100, NAN}, 1100.0 / 1008, NAN},
        {"main memory, latency", {250, NAN}, NAN, NAN},
        {"arithmetic, f32", {80000, 40000}, 80.0 / 82.6, 0.5},
        {"GEMM, s8", {330500, NAN}, 0.5, NAN},
        {"launch, pipelined", {1000, NAN}, NAN, NAN},
        {"from the host, pinned", {25, NAN}, NAN, NAN},
    };
    results_file files[2];
    compare_table table = {.margin = RATIO_MARGIN};
    best_line lines[BEST_MAX_LINES];
    read_device("NVIDIA GeForce RTX 4090", first, sizeof first / sizeof *first, &files[0]);
    read_device("Other", second, sizeof second / sizeof *second, &files[1]);
    for (int i = 0; i < 2; i++)
        assert_int_equal(compare_add_columns(&table, &files[i]), 0);
    assert_int_equal(best_lines_find(table.columns, 2, lines), sizeof expected / sizeof *expected);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        assert_string_equal(lines[i].what, expected[i].what);
        is_near(lines[i].values[0], expected[i].values[0]);
        is_near(lines[i].values[1], expected[i].values[1]);
        is_near(lines[i].of_sheet[0], expected[i].of_sheet);
        is_near(lines[i].of_sheet[1], NAN);
        is_near(best_line_ratio(&lines[i], 1), expected[i].ratio);
    }
    lines[5].values[1] = 2000; /* A launch that takes twice as long is half as fast. */
    is_near(best_line_ratio(&lines[5], 1), 0.5);
    for (int i = 0; i < 2; i++)
        results_file_release(&files[i]);
}

/* Figures must have neither only zeros nor three hundred digits. */
TEST(figures_have_digits_that_count) {
    static const struct {
        const char *dtype;
        double flops;
        double bytes;
        double median_s;
        const char *text;
    } rates[] = {
        {"f32", 743e9, NAN, 1, "743 GFLOP/s"},     {"w8", 82600e9, NAN, 1, "82.6 TFLOP/s"},
        {"u8s8", 661000e9, NAN, 1, "661 TOP/s"},   {"w8a8", 9990e9, NAN, 1, "9990 GOP/s"},
        {NULL, NAN, 0.03e9, 1, "0.03 GB/s"},       {NULL, NAN, 1.25e299, 1e-9, "1.25e+299 GB/s"},
        {NULL, NAN, 0.0004e9, 1, "4.00e-04 GB/s"}, {NULL, NAN, NAN, 3.271e-9, "3.27 ns"},
        {NULL, NAN, NAN, 3.68e-6, "3.68 us"},
    };
    static const speed_ratio plain_ratio = {1.0449, 0.0051, 99.999, VERDICT_NONE};
    static const speed_ratio absurd = {1e300, 0.0049, 1e9, VERDICT_NONE};
    cJSON *const latency = cJSON_Parse("{\"latency_ns\":80}");
    const results_row chase = {.suite = "memory", .median_s = 2, .metrics = latency};
    char text[COMPARE_RATIO_TEXT];
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        const results_row row = {.suite = "gemm",
                                 .dtype = rates[i].dtype,
                                 .flops = rates[i].flops,
                                 .bytes = rates[i].bytes};
        report_rate_text(&row, rates[i].median_s, NAN, text, sizeof text);
        assert_string_equal(text, rates[i].text);
    }
    report_rate_text(&chase, 2.5, NAN, text, sizeof text);
    assert_string_equal(text, "100 ns");
    cJSON_Delete(latency);
    compare_ratio_text(&plain_ratio, text, sizeof text);
    assert_string_equal(text, "1.04x [0.005x, 100.00x] -");
    compare_ratio_text(&absurd, text, sizeof text);
    assert_string_equal(text, "1.00e+300x [4.90e-03x, 1.00e+09x] -");
}

TEST_MAIN(test_folder_make, test_folder_remove)
