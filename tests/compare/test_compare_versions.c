/* `tandem compare` across versions of the schema: an early file of few members beside a later one with members that nobody here knows. */
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

#include "tests/support/bench/html_check.h"
#include "tests/support/test_folder.h"
#include "tests/support/test_program.h"

static const char program[] = TANDEM_BINARY_DIR "/bin/tandem";

/* Nine equal samples, and their median. */
#define SAMPLES(seconds)                                                                           \
    "\"median_s\":" seconds ",\"raw_s\":[" seconds "," seconds "," seconds "," seconds "," seconds \
    "," seconds "," seconds "," seconds "," seconds "]"

/* Members that nobody knows, of every kind. */
#define NEW                                                                                        \
    "\"new_text\":\"x\",\"new_number\":1e300,\"new_list\":[1,[null,{}]],"                          \
    "\"new_object\":{\"a\":{\"b\":[]}},\"new_null\":null,\"new_true\":true"

static const char row_start[] =
    "\"impl\":\"tandem\",\"dtype\":\"f32\",\"mode\":\"pipelined\",\"packing\":\"none\","
    "\"status\":\"ok\"";

/* No host, no environment, no rates, no metrics, no shape of one row; one suite that was given up since. */
static const char early[] =
    "{\"schema\":\"%s\",\"library\":{\"version\":\"0.1.0\"},\"device\":{\"name\":\"A\"},"
    "\"results\":["
    "{\"suite\":\"memory\",\"case\":\"read\",%s,\"shape\":{\"bytes\":1000},\"bytes\":1000," SAMPLES(
        "0.002") "},"
                 "{\"suite\":\"gemm\",\"case\":\"square\",%s,\"flops\":1000," SAMPLES(
                     "0.004") "},"
                              "{\"suite\":\"gone\",\"case\":\"case\",%s," SAMPLES("1") "}]}";

/* Everything there is, and more in every object. */
static const char later[] =
    "{\"schema\":\"%s\"," NEW ",\"library\":{\"version\":\"0.1.0\"," NEW "},"
    "\"created\":\"2027-01-01T00:00:00Z\",\"host\":{\"cpu\":\"C\"," NEW "},"
    "\"device\":{\"name\":\"B\",\"selector\":\"x/y/B\"," NEW "},\"environment\":{" NEW "},"
    "\"suites\":[{}],\"command\":[\"tandem\",\"report\"],\"results\":["
    "{\"suite\":\"memory\",\"case\":\"read\",%s," NEW ",\"shape\":{\"bytes\":1000},\"bytes\":1000,"
    "\"gbs\":0.001,\"metrics\":{\"visits\":3,\"unheard_of\":2,\"none\":null},\"visits\":[{}],"
    "\"note\":null,\"samples\":9," SAMPLES(
        "0.001") "},"
                 "{\"suite\":\"gemm\",\"case\":\"square\",%s,\"flops\":1000,\"verified\":"
                 "true," SAMPLES("0.004") "},"
                                          "{\"suite\":\"later\",\"case\":\"case\",%s," NEW
                                          "," SAMPLES("1") "}]}";

typedef struct version {
    const char *text;
    const char *schema;
} version;

static void write_version(char path[TEST_PATH], const char *name, const version *of) {
    char text[4096];
    snprintf(text, sizeof text, of->text, of->schema, row_start, row_start, row_start);
    test_text_write(test_folder_path(path, name), text, 0600);
}

static test_program_result run(const version *first, const version *second, const char *arguments) {
    char words[800];
    char a[TEST_PATH];
    char b[TEST_PATH];
    write_version(a, "a.json", first);
    write_version(b, "b.json", second);
    snprintf(words, sizeof words, "compare %s %s %s", a, b, arguments);
    return test_program_run(program, words, NULL, 60);
}

static const cJSON *at(const cJSON *json, const char *key, int index) {
    const cJSON *const list = cJSON_GetObjectItemCaseSensitive(json, key);
    assert_int_equal(cJSON_IsArray(list), 1);
    return cJSON_GetArrayItem(list, index);
}

static const char *text_of(const cJSON *json, const char *key) {
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, key));
}

/* The second file's ratio of a case; NaN: it has none. */
static double ratio_of(const cJSON *root, int index) {
    const cJSON *const cell = at(at(root, "cases", index), "cells", 1);
    const cJSON *const ratio = cJSON_GetObjectItemCaseSensitive(cell, "ratio");
    return cJSON_IsObject(ratio) ? cJSON_GetObjectItemCaseSensitive(ratio, "value")->valuedouble
                                 : NAN;
}

static void expect_compared(const version *first, const version *second, double read) {
    test_program_result result = run(first, second, "--json -");
    if (result.exit_code != 0)
        fail_msg("%d: %s", result.exit_code, result.errors);
    cJSON *const root = cJSON_Parse(result.output);
    assert_non_null(root);
    assert_string_equal(text_of(at(root, "devices", 0), "schema"), first->schema);
    assert_string_equal(text_of(at(root, "devices", 1), "schema"), second->schema);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(root, "cases")), 4);
    assert_true(fabs(ratio_of(root, 0) - read) < 1e-9);
    assert_true(fabs(ratio_of(root, 1) - 1) < 1e-9);
    assert_true(isnan(ratio_of(root, 2)) && isnan(ratio_of(root, 3))); /* of one file alone */
    cJSON_Delete(root);
    test_program_release(&result);
}

static const version first_version = {early, "tandem-bench/1.0"};
static const version seventh_version = {later, "tandem-report/1.7"};

static void versions_are_compared_both_ways(void **state) {
    static const version plain = {early, "tandem-bench/1"}, twelfth = {later, "tandem-bench/1.12"};
    (void)state;
    expect_compared(&first_version, &seventh_version, 2);
    expect_compared(&seventh_version, &first_version, 0.5);
    expect_compared(&plain, &twelfth, 2);
}

static void another_major_version_is_refused_by_name(void **state) {
    (void)state;
    static const version second_major = {later, "tandem-report/2.0"};
    test_program_result result = run(&first_version, &second_major, "");
    assert_int_equal(result.exit_code, 1);
    assert_non_null(strstr(result.errors, "b.json"));
    assert_non_null(strstr(result.errors, "tandem-report/2.0"));
    assert_null(strstr(result.errors, "a.json"));
    test_program_release(&result);
}

static void pages_are_made_of_both(void **state) {
    char page[TEST_PATH];
    char words[400];
    size_t size = 0;
    (void)state;
    snprintf(words, sizeof words, "--html %s", test_folder_path(page, "page.html"));
    test_program_result result = run(&first_version, &seventh_version, words);
    assert_int_equal(result.exit_code, 0);
    test_program_release(&result);
    char *text = (char *)test_file_read(page, &size);
    html_check_page(text);
    assert_non_null(strstr(text, "2.00x"));
    free(text);
    for (int i = 0; i < 2; i++) {
        char json[TEST_PATH];
        snprintf(words, sizeof words, "report --from %s --html %s",
                 test_folder_path(json, i == 0 ? "a.json" : "b.json"), page);
        result = test_program_run(program, words, NULL, 60);
        if (result.exit_code != 0)
            fail_msg("%s: %s", words, result.errors);
        test_program_release(&result);
        text = (char *)test_file_read(page, &size);
        html_check_page(text);
        free(text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(versions_are_compared_both_ways, test_folder_make,
                                        test_folder_remove),
        cmocka_unit_test_setup_teardown(another_major_version_is_refused_by_name, test_folder_make,
                                        test_folder_remove),
        cmocka_unit_test_setup_teardown(pages_are_made_of_both, test_folder_make,
                                        test_folder_remove),
    };
    return cmocka_run_group_tests_name("compare versions", tests, NULL, NULL);
}
