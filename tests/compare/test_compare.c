/* `tandem compare`: verdicts on samples whose truth is known, matching, unlike machines, and files that cannot be used. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <cjson/cJSON.h>

#include "bench/compare/compare_table.h"
#include "bench/record/bench_statistics.h"
#include "formats/utf8_text.h"
#include "tests/support/bench/drawn_samples.h"
#include "tests/support/bench/html_check.h"
#include "tests/support/test_folder.h"
#include "tests/support/test_program.h"

static const char program[] = TANDEM_BINARY_DIR "/bin/tandem";

/* ---- files ----------------------------------------------------------------------------------------- */

typedef struct file_plan {
    const char *device;
    const char *version;
    const char *pattern;
    double factor; /* of every time but that of the case "fixed" */
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

static char *write_plan(char path[TEST_PATH], const char *name, const file_plan *plan) {
    cJSON *const root = plan_json(plan);
    char *const text = cJSON_PrintUnformatted(root);
    test_file_write(test_folder_path(path, name), text, strlen(text));
    free(text);
    cJSON_Delete(root);
    return path;
}

static const file_plan plain = {"NVIDIA GeForce RTX 4090", "1.0.0", "random", 1, 0.004, 1, 1e9};

/* Run the program; FILES become the paths a and b. */
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

static void identical_files_are_the_same(void **state) {
    char path[TEST_PATH];
    file_plan noisy = plain;
    (void)state;
    noisy.spread = 0.3;
    write_plan(path, "a.json", &noisy);
    write_plan(path, "b.json", &noisy);
    cJSON *const root = run_json("");
    for (int i = 0; i < 4; i++)
        assert_string_equal(verdict_of(root, i), "SAME");
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(root, "unlike")), 0);
    cJSON_Delete(root);
}

static void a_shift_of_five_percent_is_found_where_it_is(void **state) {
    char path[TEST_PATH];
    file_plan faster = plain;
    (void)state;
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
    const cJSON *const mean = cJSON_GetArrayItem(cJSON_GetObjectItem(root, "geometric_means"), 0);
    const double expected = pow(1.05, 2.0 / 3);
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(mean, "suite")), "gemm");
    assert_true(cJSON_GetObjectItem(mean, "cases")->valuedouble == 3);
    assert_true(cJSON_GetObjectItem(mean, "faster")->valuedouble == 2);
    assert_true(fabs(cJSON_GetObjectItem(cJSON_GetObjectItem(mean, "ratio"), "value")->valuedouble -
                     expected) < 0.005);
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

/* 1e9 bytes in a millisecond are 1000 GB/s: below the sheet's 1008, and above it when 5 % faster. */
static void shares_of_the_datasheet(void **state) {
    char path[TEST_PATH];
    file_plan faster = plain;
    (void)state;
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
                        "above its datasheet");
    cJSON_Delete(root);
    test_program_result result = run("", 0);
    assert_non_null(strstr(result.output, "GDDR6X"));
    assert_non_null(strstr(result.output, "%!)"));
    assert_non_null(strstr(result.output, "FASTER"));
    test_program_release(&result);
}

static void unlike_machines_are_refused_or_marked(void **state) {
    char path[TEST_PATH];
    file_plan other = plain;
    (void)state;
    write_plan(path, "a.json", &plain);
    other.version = "2.0.0";
    write_plan(path, "b.json", &other);
    test_program_result result = run("", 1);
    assert_non_null(strstr(result.errors, "a.json has library version '1.0.0', and b.json has "
                                          "'2.0.0'"));
    assert_non_null(strstr(result.errors, "--force"));
    test_program_release(&result);
    result = run("--force", 0);
    assert_non_null(strstr(result.output, "unlike (forced): library version: A 1.0.0, B 2.0.0"));
    test_program_release(&result);
    other = plain;
    other.pattern = "zeros";
    write_plan(path, "b.json", &other);
    result = run("", 1);
    assert_non_null(strstr(result.errors, "environment data_pattern"));
    assert_null(strstr(result.errors, "load_average"));
    test_program_release(&result);
}

static void work_that_is_counted_otherwise_has_no_ratio(void **state) {
    char path[TEST_PATH];
    file_plan other = plain;
    (void)state;
    other.flops = 2e9;
    write_plan(path, "a.json", &plain);
    write_plan(path, "b.json", &other);
    cJSON *const root = run_json("");
    assert_true(cJSON_IsNull(ratio_of(root, 0)));
    assert_true(cJSON_IsObject(ratio_of(root, 3)));
    cJSON_Delete(root);
}

/* Probes are as long as suits the device: twice the work in the same time is twice the speed. */
static void loops_of_other_lengths_are_compared_by_their_rates(void **state) {
    static const struct {
        const char *suite;
        double flops[2];
        double bytes[2];
        double ratio; /* 0: none */
    } cases[] = {
        {"memory", {0, 0}, {1e9, 2e9}, 2},
        {"compute", {1e9, 4e9}, {0, 0}, 4},
        {"sustained", {3e9, 1e9}, {0, 0}, 1.0 / 3},
        {"compute", {1e9, 4e9}, {1e8, 4e8}, 4}, /* a rung of the ladder */
        {"compute", {1e9, 4e9}, {1e8, 1e8}, 0}, /* of another one */
        {"quant", {0, 0}, {1e9, 2e9}, 0},
    };
    const int count = sizeof cases / sizeof *cases;
    char path[TEST_PATH];
    (void)state;
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
        char *const text = cJSON_PrintUnformatted(root);
        test_file_write(test_folder_path(path, second ? "b.json" : "a.json"), text, strlen(text));
        free(text);
        cJSON_Delete(root);
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

static void files_that_cannot_be_used(void **state) {
    static const struct {
        const char *text;
        const char *sentence;
    } rows[] = {
        {"{", "b.json: it is no JSON"},
        {"", "b.json"},
        {"{\"schema\":\"tandem-bench/9\"}", "its schema is 'tandem-bench/9'"},
        {"{\"schema\":\"tandem-bench/1\"}", "member \"results\" is missing"},
        {"{\"schema\":\"tandem-bench/1\",\"results\":[{\"suite\":\"gemm\"}]}",
         "row 1: member \"case\" is missing"},
        {"{\"schema\":\"tandem-bench/1\",\"results\":[]}", "no two devices have a row in common"},
    };
    char path[TEST_PATH];
    (void)state;
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

/* Two devices in one file are two columns; rows that repeat are one case. */
static void several_devices_and_repeated_rows(void **state) {
    static const char *const selectors[] = {"x/y/one", "x/y/two"};
    file_plan plan = plain;
    compare_table table = {.column_count = 0};
    results_file file;
    file_error error;
    (void)state;
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
    assert_int_equal(compare_match(&table, RATIO_MARGIN), 0);
    assert_int_equal(table.case_count, 4);
    assert_int_equal(table.matched, 2);
    assert_string_equal(table.cases[0].row->case_name, "one");
    assert_int_equal(table.cases[0].cells[0].repeats, 2);
    assert_int_equal(table.cases[0].cells[0].samples.count, 30);
    assert_int_equal(table.cases[0].cells[1].repeats, 0);
    assert_int_equal(table.cases[1].cells[1].repeats, 1);
    assert_int_equal(table.cases[1].cells[1].ratio.verdict, VERDICT_SAME);
    compare_release(&table);
    results_file_release(&file);
    free(text);
    cJSON_Delete(root);
}

static void the_page_holds_everything_itself(void **state) {
    char path[TEST_PATH];
    char page[TEST_PATH];
    char words[300];
    size_t size = 0;
    file_plan strange = plain;
    (void)state;
    strange.device = "A <b>bold</b> & strange RTX 4090";
    write_plan(path, "a.json", &plain);
    write_plan(path, "b.json", &strange);
    snprintf(words, sizeof words, "--html %s", test_folder_path(page, "page.html"));
    test_program_result result = run(words, 0);
    test_program_release(&result);
    char *const text = (char *)test_file_read(page, &size);
    assert_non_null(strstr(text, "<!DOCTYPE html>"));
    assert_non_null(strstr(text, "</html>"));
    assert_non_null(strstr(text, "SAME"));
    assert_non_null(strstr(text, "A &lt;b&gt;bold&lt;/b&gt; &amp; strange"));
    assert_null(strstr(text, "<b>"));
    html_check_page(text);
    free(text);
    result = run("--html /nowhere/page.html", 1);
    assert_non_null(strstr(result.errors, "/nowhere/page.html"));
    test_program_release(&result);
}

/* A note may be longer than there is room for; half a letter is not UTF-8. */
static void long_notes_end_with_a_letter(void **state) {
    char path[TEST_PATH];
    char note[601];
    (void)state;
    for (int i = 0; i < 300; i++)
        memcpy(note + 2 * i, "\xc3\xa9", 3);
    cJSON *const root = plan_json(&plain);
    cJSON *const row = cJSON_GetArrayItem(cJSON_GetObjectItem(root, "results"), 0);
    cJSON_DeleteItemFromObject(row, "note");
    cJSON_AddStringToObject(row, "note", note);
    char *const text = cJSON_PrintUnformatted(root);
    test_file_write(test_folder_path(path, "a.json"), text, strlen(text));
    test_file_write(test_folder_path(path, "b.json"), text, strlen(text));
    free(text);
    cJSON_Delete(root);
    test_program_result result = run("", 0);
    assert_null(strstr(result.output, "\xc3\n"));
    test_program_release(&result);
    cJSON *const json = run_json("");
    const cJSON *const item = cJSON_GetArrayItem(cJSON_GetObjectItem(json, "cases"), 0);
    const cJSON *const cell = cJSON_GetArrayItem(cJSON_GetObjectItem(item, "cells"), 0);
    const char *const told = cJSON_GetStringValue(cJSON_GetObjectItem(cell, "note"));
    assert_true(strlen(told) == 254 && utf8_is_plain(told, strlen(told)));
    cJSON_Delete(json);
}

static void what_is_compared_is_not_overwritten(void **state) {
    static const struct {
        const char *options; /* with the folder */
        const char *reason;
    } rows[] = {
        {"--html %s/a.json", "it is an input"},
        {"--json %s//b.json", "it is an input"},
        {"--json %1$s/new --html %1$s/./new", "it is the page"},
        {"--json - --html -", "stdout takes one of them"},
    };
    char path[TEST_PATH];
    char words[2 * TEST_PATH + 80];
    (void)state;
    write_plan(path, "a.json", &plain);
    write_plan(path, "b.json", &plain);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(words, sizeof words, rows[i].options, test_folder());
        test_program_result result = run(words, 2);
        assert_non_null(strstr(result.errors, rows[i].reason));
        test_program_release(&result);
    }
    test_program_result result = run("", 0);
    test_program_release(&result);
    snprintf(words, sizeof words, "report --from %s --html %s", path, path);
    result = test_program_run(program, words, NULL, 60);
    assert_int_equal(result.exit_code, 2);
    assert_non_null(strstr(result.errors, "it is the results file"));
    test_program_release(&result);
    snprintf(words, sizeof words, "report --json %s/new --html %s//new", test_folder(),
             test_folder());
    result = test_program_run(program, words, NULL, 60);
    assert_int_equal(result.exit_code, 2);
    assert_non_null(strstr(result.errors, "it is the page"));
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

static void pages_go_to_stdout(void **state) {
    char a[TEST_PATH];
    char b[TEST_PATH];
    char words[3 * TEST_PATH];
    (void)state;
    write_plan(a, "a.json", &plain);
    write_plan(b, "b.json", &plain);
    snprintf(words, sizeof words, "report --from %s --html -", a);
    expect_page_alone(words);
    snprintf(words, sizeof words, "compare --html - %s %s", a, b);
    expect_page_alone(words);
    test_program_result both = test_program_run(program, "report --json - --html -", NULL, 60);
    assert_int_equal(both.exit_code, 2);
    assert_non_null(strstr(both.errors, "stdout takes one of them"));
    test_program_release(&both);
}

/* Two modes of one call, a peer, and a row that is noisy. */
static void write_modes(const char *name, double factor) {
    static const char *const members[][3] = {
        {"pipelined", "none", "tandem"},
        {"waited", "none", "tandem"},
        {"pipelined", "none", "opencl"},
        {"pipelined", "prepacked", "tandem"},
    };
    char path[TEST_PATH];
    cJSON *const root = plan_json(&plain);
    cJSON *const rows = cJSON_GetObjectItem(root, "results");
    cJSON *const environment = cJSON_GetObjectItem(root, "environment");
    cJSON_AddNumberToObject(environment, "others_of_run", factor > 1 ? 0.12 : 0.04);
    for (int i = 0; i < 4; i++) {
        add_row(rows, &plain, "launch", "kernel", "f32", factor * (i == 1 ? 20e-6 : 2e-6), 0, 0);
        cJSON *const row = cJSON_GetArrayItem(rows, 4 + i);
        cJSON_AddStringToObject(row, "mode", members[i][0]);
        cJSON_AddStringToObject(row, "packing", members[i][1]);
        cJSON_SetValuestring(cJSON_GetObjectItem(row, "impl"), members[i][2]);
        if (i == 1)
            cJSON_AddNumberToObject(cJSON_AddObjectToObject(row, "metrics"), "noisy", 0.07);
    }
    char *const text = cJSON_PrintUnformatted(root);
    test_file_write(test_folder_path(path, name), text, strlen(text));
    free(text);
    cJSON_Delete(root);
}

/* A case that this file alone has, of a set of 64 MiB. */
static void add_alone(const char *name) {
    char path[TEST_PATH];
    size_t size = 0;
    char *text = (char *)test_file_read(test_folder_path(path, name), &size);
    cJSON *const root = cJSON_Parse(text);
    free(text);
    add_row(cJSON_GetObjectItem(root, "results"), &plain, "memory", "read 67108864", "f32", 1e-3, 0,
            67108864);
    text = cJSON_PrintUnformatted(root);
    test_file_write(path, text, strlen(text));
    free(text);
    cJSON_Delete(root);
}

static void the_page_tells_what_the_table_tells(void **state) {
    char page[TEST_PATH];
    char words[300];
    size_t size = 0;
    (void)state;
    write_modes("a.json", 1);
    write_modes("b.json", 1.5);
    add_alone("a.json");
    snprintf(words, sizeof words, "--html %s", test_folder_path(page, "page.html"));
    test_program_result result = run(words, 0);
    test_program_release(&result);
    char *const text = (char *)test_file_read(page, &size);
    html_check_page(text);
    static const char *const parts[] = {
        "<td>launch: kernel</td><td>tandem</td><td>pipelined</td>",
        "<td>launch: kernel</td><td>tandem</td><td>waited</td>",
        "<td>launch: kernel</td><td>tandem</td><td>pipelined prepacked</td>",
        "A: noisy",
        "the machine was busy: others took 12 %",
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strstr(text, parts[i]) == NULL)
            fail_msg("there is no '%s'", parts[i]);
    const char *const folded = strstr(text, "<details><summary>Cases that one device alone has");
    assert_non_null(folded);
    assert_non_null(strstr(folded, "<td>memory: read 64 MiB</td>"));
    assert_null(strstr(folded, "launch: kernel"));
    assert_null(strstr(text, "unlike: ")); /* what differs between any two runs */
    free(text);
}

/* The best setting of one device is the default of the other, which so has one row for both. */
static void settings_are_compared_by_what_they_are(void **state) {
    char path[TEST_PATH];
    (void)state;
    for (int second = 0; second < 2; second++) {
        cJSON *const root = plan_json(&plain);
        cJSON *const rows = cJSON_GetObjectItem(root, "results");
        for (int i = 0; i < 2 - second; i++) {
            file_plan plan = plain;
            plan.seed = 50 + (uint64_t)i;
            add_row(rows, &plan, "memory", "triad", "f32", i == 0 ? 2e-3 : 1e-3, 0, 1e9);
            cJSON *const row = cJSON_GetArrayItem(rows, 4 + i);
            cJSON_AddNumberToObject(cJSON_GetObjectItem(row, "shape"), "unroll", 1 + 3 * i);
            cJSON *const metrics = cJSON_AddObjectToObject(row, "metrics");
            cJSON_AddNumberToObject(metrics, i == 0 ? "setting_default" : "setting_best", 1);
            if (second)
                cJSON_AddNumberToObject(metrics, "setting_best", 1);
        }
        char *const text = cJSON_PrintUnformatted(root);
        test_file_write(test_folder_path(path, second ? "b.json" : "a.json"), text, strlen(text));
        free(text);
        cJSON_Delete(root);
    }
    cJSON *const root = run_json("");
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(root, "cases")), 6);
    assert_string_equal(verdict_of(root, 4), "SAME"); /* default and default */
    assert_string_equal(verdict_of(root, 5), "SLOWER");
    const cJSON *const last = cJSON_GetArrayItem(cJSON_GetObjectItem(root, "cases"), 5);
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(last, "setting")), "best");
    cJSON_Delete(root);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(identical_files_are_the_same),
        cmocka_unit_test(a_shift_of_five_percent_is_found_where_it_is),
        cmocka_unit_test(shares_of_the_datasheet),
        cmocka_unit_test(unlike_machines_are_refused_or_marked),
        cmocka_unit_test(work_that_is_counted_otherwise_has_no_ratio),
        cmocka_unit_test(loops_of_other_lengths_are_compared_by_their_rates),
        cmocka_unit_test(files_that_cannot_be_used),
        cmocka_unit_test(several_devices_and_repeated_rows),
        cmocka_unit_test(the_page_holds_everything_itself),
        cmocka_unit_test(long_notes_end_with_a_letter),
        cmocka_unit_test(what_is_compared_is_not_overwritten),
        cmocka_unit_test(pages_go_to_stdout),
        cmocka_unit_test(the_page_tells_what_the_table_tells),
        cmocka_unit_test(settings_are_compared_by_what_they_are),
    };
    return cmocka_run_group_tests(tests, test_folder_make, test_folder_remove);
}
