/* Energy and power in `tandem compare`: files with known figures, of an HBM and a GDDR device, and figures that are none. */
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

#include "bench/compare/compare_energy.h"
#include "tests/support/bench/html_check.h"
#include "tests/support/test_folder.h"
#include "tests/support/test_program.h"

static const char program[] = TANDEM_BINARY_DIR "/bin/tandem";

/* A case of both files: what its row counts, and its metrics. */
typedef struct energy_case {
    const char *suite;
    const char *name;
    const char *work[2];
    const char *metrics[2];
} energy_case;

static const energy_case cases[] = {
    {"memory",
     "read",
     {"\"bytes\":1e9", "\"bytes\":1e9"},
     {"\"power_w\":300,\"pj_per_byte\":165", "\"power_w\":250,\"pj_per_byte\":235"}},
    {"memory",
     "triad",
     {"\"bytes\":1e9", "\"bytes\":1e9"},
     {"\"power_w\":1200,\"pj_per_byte\":100", "\"power_w\":200,\"pj_per_byte\":144"}},
    {"memory",
     "silent",
     {"\"bytes\":1e9", "\"bytes\":1e9"},
     {"\"power_w\":null,\"pj_per_byte\":150", ""}},
    {"memory",
     "zero",
     {"\"bytes\":1e9", "\"bytes\":1e9"},
     {"\"power_w\":0,\"pj_per_byte\":0", "\"power_w\":200,\"pj_per_byte\":150"}},
    {"quant",
     "other",
     {"\"bytes\":1e9", "\"bytes\":2e9"},
     {"\"pj_per_byte\":100", "\"pj_per_byte\":100"}},
    {"gemm",
     "square",
     {"\"flops\":1e12", "\"flops\":1e12"},
     {"\"power_w\":350,\"pj_per_flop\":2", "\"pj_per_flop\":1"}},
};

enum {
    CASES = sizeof cases / sizeof *cases
};

/* Rows of six equal samples. */
static void write_file(const char *path, const char *device, int which) {
    FILE *const file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "{\"schema\":\"tandem-bench/1\",\"device\":{\"name\":\"%s\"},\"results\":[",
            device);
    for (int i = 0; i < CASES; i++)
        fprintf(file,
                "%s{\"suite\":\"%s\",\"case\":\"%s\",\"impl\":\"tandem\",\"dtype\":\"f32\","
                "\"mode\":\"pipelined\",\"status\":\"ok\",\"median_s\":0.5,"
                "\"raw_s\":[0.5,0.5,0.5,0.5,0.5,0.5],%s,\"metrics\":{%s}}",
                i == 0 ? "" : ",", cases[i].suite, cases[i].name, cases[i].work[which],
                cases[i].metrics[which]);
    fputs("]}", file);
    assert_int_equal(fclose(file), 0);
}

static test_program_result run(const char *arguments) {
    char words[800];
    char a[TEST_PATH];
    char b[TEST_PATH];
    write_file(test_folder_path(a, "a.json"), "NVIDIA A100-SXM4-40GB", 0);
    write_file(test_folder_path(b, "b.json"), "NVIDIA L40", 1);
    snprintf(words, sizeof words, "compare %s %s %s", a, b, arguments);
    test_program_result result = test_program_run(program, words, NULL, 60);
    if (result.exit_code != 0)
        fail_msg("tandem %s gave %d\n%s%s", words, result.exit_code, result.output, result.errors);
    return result;
}

static const cJSON *member(const cJSON *json, const char *key) {
    const cJSON *const found = cJSON_GetObjectItemCaseSensitive(json, key);
    if (found == NULL)
        fail_msg("there is no member '%s'", key);
    return found;
}

/* NaN: null. */
static void expect_number(const cJSON *json, const char *key, double expected) {
    const cJSON *const found = member(json, key);
    if (isnan(expected) ? !cJSON_IsNull(found) : fabs(found->valuedouble - expected) > 1e-9)
        fail_msg("%s is %s", key, cJSON_PrintUnformatted(found));
}

static void programs_are_told_energy_and_its_ratio(void **state) {
    static const struct {
        double power, byte, flop, ratio; /* of the second device */
    } expected[] = {
        {250, 235, NAN, 235.0 / 165}, {200, 144, NAN, 1.44}, {NAN, NAN, NAN, NAN},
        {200, 150, NAN, NAN},         {NAN, 100, NAN, NAN}, /* other work */
        {NAN, NAN, 1, 0.5},
    };
    (void)state;
    test_program_result result = run("--json -");
    cJSON *const root = cJSON_Parse(result.output);
    assert_non_null(root);
    for (int i = 0; i < CASES; i++) {
        const cJSON *const cells = member(cJSON_GetArrayItem(member(root, "cases"), i), "cells");
        const cJSON *const energy = member(cJSON_GetArrayItem(cells, 1), "energy");
        if (i == 2) {
            assert_true(cJSON_IsNull(energy));
            continue;
        }
        expect_number(energy, "power_w", expected[i].power);
        expect_number(energy, "pj_per_byte", expected[i].byte);
        expect_number(energy, "pj_per_flop", expected[i].flop);
        expect_number(energy, "ratio", expected[i].ratio);
        if (i != 3) /* zeroes are none */
            expect_number(member(cJSON_GetArrayItem(cells, 0), "energy"), "ratio", NAN);
    }
    const cJSON *const means = member(root, "energy_means");
    assert_int_equal(cJSON_GetArraySize(means), 2);
    expect_number(cJSON_GetArrayItem(means, 0), "ratio", sqrt(235.0 / 165 * 1.44));
    expect_number(cJSON_GetArrayItem(means, 0), "cases", 2);
    expect_number(cJSON_GetArrayItem(means, 1), "ratio", 0.5);
    cJSON_Delete(root);
    test_program_release(&result);
}

static void expect_parts(const char *text, const char *const *parts, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strstr(text, parts[i]) == NULL)
            fail_msg("there is no '%s' in\n%s", parts[i], text);
}

static void people_are_told_energy_side_by_side(void **state) {
    static const char mean[] = "memory (main memory), tandem: B takes 1.43 times the energy of A";
    static const char *const lines[] = {
        "suite   case    impl    how         A W  pJ/byte  pJ/FLOP  B W  pJ/byte  pJ/FLOP  B takes",
        "memory  read    tandem  pipelined   300      165        -  250      235        -    1.42x",
        "memory  triad   tandem  pipelined  1200      100        -  200      144        -    1.44x",
        "quant   other   tandem  pipelined     -      100        -    -      100        -        -",
        "gemm    square  tandem  pipelined   350        -     2.00    -        -     1.00    0.50x",
        " for the same work, geometric mean of 2 cases",
        mean,
    };
    static const char *const parts[] = {
        "<h2>Energy</h2>",
        mean,
        "<td>memory: read</td><td>tandem</td><td>pipelined</td><td class=\"number\">300 W</td>",
        "<td class=\"number\">250 W</td><td class=\"number\">235 pJ</td>",
        "<td class=\"number\">235 pJ</td><td class=\"number\">–</td>",
        "<td class=\"number\">–</td><td class=\"number\">1.42x</td></tr>",
    };
    char page[TEST_PATH];
    char words[300];
    size_t size = 0;
    (void)state;
    test_program_result result = run("");
    expect_parts(result.output, lines, sizeof lines / sizeof *lines);
    const char *const energy = strstr(result.output, "energy: of a GPU's board");
    assert_non_null(energy);
    assert_null(strstr(energy, "memory  silent"));
    assert_null(strstr(energy, "memory  zero"));
    test_program_release(&result);
    snprintf(words, sizeof words, "--html %s", test_folder_path(page, "page.html"));
    result = run(words);
    test_program_release(&result);
    char *const text = (char *)test_file_read(page, &size);
    html_check_page(text);
    expect_parts(text, parts, sizeof parts / sizeof *parts);
    free(text);
}

/* Of one device a picowatt and less, of the other more than all the sun's: the ratio of bytes is beyond any number. */
static void absurd_energy_has_an_exponent(void **state) {
    results_figure figures[2][3] = {
        {{"power_w", 1e-300}, {"pj_per_byte", 1e-300}, {"pj_per_flop", 1}},
        {{"power_w", 1e300}, {"pj_per_byte", 1e300}, {"pj_per_flop", 1e10}}};
    results_row rows[2];
    static compare_case item;
    compare_mean mean = {.suite = "gemm", .impl = "tandem", .bound = BOUND_ARITHMETIC, .column = 1};
    compare_table table = {
        .cases = &item, .case_count = 1, .column_count = 2, .means = &mean, .mean_count = 1};
    char *text = NULL;
    size_t size = 0;
    (void)state;
    for (int c = 0; c < 2; c++) {
        rows[c] = (results_row){.suite = "gemm", .case_name = "x", .impl = "tandem"};
        rows[c].metrics = (results_figures){figures[c], 3};
        item.cells[c] = (compare_cell){.row = &rows[c], .repeats = 1};
        table.columns[c].label = (char)('A' + c);
    }
    item.row = &rows[0];
    assert_true(isnan(compare_energy_ratio(&item, 1)));
    figures[0][1].value = figures[1][1].value = NAN;
    assert_true(compare_energy_ratio(&item, 1) == 1e10);
    FILE *const file = open_memstream(&text, &size);
    compare_energy_print(&table, file);
    compare_energy_write(file, &table);
    assert_int_equal(fclose(file), 0);
    static const char *const parts[] = {
        "1.0e-300        -     1.00  1.0e+300        -  1.0e+10  1.00e+10x",
        "gemm (arithmetic), tandem: B takes 1.00e+10 times the energy of A",
        "<td class=\"number\">1.00e-300 W</td>",
        "<td class=\"number\">1.00e+300 W</td>",
        "<td class=\"number\">1.00e+10 pJ</td><td class=\"number\">1.00e+10x</td></tr>",
    };
    expect_parts(text, parts, sizeof parts / sizeof *parts);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(programs_are_told_energy_and_its_ratio, test_folder_make,
                                        test_folder_remove),
        cmocka_unit_test_setup_teardown(people_are_told_energy_side_by_side, test_folder_make,
                                        test_folder_remove),
        cmocka_unit_test(absurd_energy_has_an_exponent),
    };
    return cmocka_run_group_tests_name("compare energy", tests, NULL, NULL);
}
