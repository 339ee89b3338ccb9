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

#include "tests/support/html_check.h"
#include "tests/support/test_folder.h"
#include "tests/support/test_program.h"

static const char program[] = TANDEM_BINARY_DIR "/bin/tandem";

#define FILE_OF(device, rows)                                                                      \
    "{\"schema\":\"tandem-bench/1\",\"device\":{\"name\":\"" device "\"},\"results\":[" rows "]}"

/* A row of fifteen equal samples. */
#define ROW(suite, name, work, metrics)                                                            \
    "{\"suite\":\"" suite "\",\"case\":\"" name "\",\"impl\":\"tandem\",\"dtype\":\"f32\","        \
    "\"mode\":\"pipelined\",\"status\":\"ok\",\"median_s\":0.001,\"raw_s\":[0.001,0.001,0.001,"    \
    "0.001,0.001,0.001,0.001,0.001,0.001,0.001,0.001,0.001,0.001,0.001,0.001]," work               \
    ",\"metrics\":{" metrics "}}"

static const char
    hbm[] =
        FILE_OF("NVIDIA A100-SXM4-40GB",
                ROW("memory", "read", "\"bytes\":1e9", "\"power_w\":300,\"pj_per_byte\":165") "," ROW("memory", "triad", "\"bytes\":1e9", "\"power_w\":1200,\"pj_per_byte\":100") "," ROW(
                    "memory", "silent", "\"bytes\":1e9",
                    "\"power_w\":null,\"pj_per_byte\":150") "," ROW("memory", "zero",
                                                                    "\"bytes\":1e9",
                                                                    "\"power_w\":0,\"pj_per_byte\":"
                                                                    "0") "," ROW("memory", "other",
                                                                                 "\"bytes\":1e9",
                                                                                 "\"pj_per_byte\":"
                                                                                 "100") "," ROW("ge"
                                                                                                "m"
                                                                                                "m",
                                                                                                "sq"
                                                                                                "ua"
                                                                                                "r"
                                                                                                "e",
                                                                                                "\""
                                                                                                "fl"
                                                                                                "op"
                                                                                                "s"
                                                                                                "\""
                                                                                                ":1"
                                                                                                "e1"
                                                                                                "2",
                                                                                                "\""
                                                                                                "po"
                                                                                                "we"
                                                                                                "r_"
                                                                                                "w"
                                                                                                "\""
                                                                                                ":3"
                                                                                                "50"
                                                                                                ","
                                                                                                "\""
                                                                                                "pj"
                                                                                                "_p"
                                                                                                "er"
                                                                                                "_f"
                                                                                                "lo"
                                                                                                "p"
                                                                                                "\""
                                                                                                ":"
                                                                                                "2"));

static const char gddr[] = FILE_OF(
    "NVIDIA L40",
    ROW("memory", "read", "\"bytes\":1e9", "\"power_w\":250,\"pj_per_byte\":235") "," ROW(
        "memory", "triad", "\"bytes\":1e9",
        "\"power_w\":200,\"pj_per_byte\":144") "," ROW("memory", "silent", "\"bytes\":1e9",
                                                       "") "," ROW("memory", "zero",
                                                                   "\"bytes\":1e9",
                                                                   "\"power_w\":200,\"pj_per_"
                                                                   "byte\":150") "," ROW("memory",
                                                                                         "other",
                                                                                         "\"bytes\""
                                                                                         ":2e9",
                                                                                         "\"pj_per_"
                                                                                         "byte\":"
                                                                                         "100") "," ROW("gemm",
                                                                                                        "square",
                                                                                                        "\"flops\":1e12",
                                                                                                        "\"pj_per_flop\":1"));

static test_program_result run(const char *arguments) {
    char words[800];
    char a[TEST_PATH];
    char b[TEST_PATH];
    test_text_write(test_folder_path(a, "a.json"), hbm, 0600);
    test_text_write(test_folder_path(b, "b.json"), gddr, 0600);
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
    for (int i = 0; i < 6; i++) {
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
    static const char *const lines[] = {
        "suite   case    impl    how         A W  pJ/byte  pJ/FLOP  B W  pJ/byte  pJ/FLOP  B takes",
        "memory  read    tandem  pipelined   300      165        -  250      235        -    1.42x",
        "memory  triad   tandem  pipelined  1200      100        -  200      144        -    1.44x",
        "memory  other   tandem  pipelined     -      100        -    -      100        -        -",
        "gemm    square  tandem  pipelined   350        -     2.00    -        -     1.00    0.50x",
        "memory, tandem: B takes 1.43 times the energy of A for the same work, geometric mean of 2 "
        "cases",
    };
    static const char *const parts[] = {
        "<h2>Energy</h2>",
        "<li>memory, tandem: B takes 1.43 times the energy of A",
        "<td>memory: read</td><td>tandem</td><td>pipelined</td><td class=\"number\">300 W</td>"
        "<td class=\"number\">165 pJ</td><td class=\"number\">–</td><td class=\"number\">250 W</td>"
        "<td class=\"number\">235 pJ</td><td class=\"number\">–</td><td "
        "class=\"number\">1.42x</td></tr>",
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(programs_are_told_energy_and_its_ratio, test_folder_make,
                                        test_folder_remove),
        cmocka_unit_test_setup_teardown(people_are_told_energy_side_by_side, test_folder_make,
                                        test_folder_remove),
    };
    return cmocka_run_group_tests_name("compare energy", tests, NULL, NULL);
}
