/* The program `tandem predict`: what it tells of the made device and of datasheets, and what it refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <cjson/cJSON.h>

#include "tests/support/made_device.h"
#include "tests/support/test_folder.h"
#include "tests/support/test_near.h"
#include "tests/support/test_program.h"

static const char program[] = TANDEM_BINARY_DIR "/bin/tandem";

static test_program_result run_program(const char *arguments, int exit_code) {
    test_program_result result = test_program_run(program, arguments, NULL, 60);
    if (result.exit_code != exit_code)
        fail_msg("tandem %s gave %d\n%s%s", arguments, result.exit_code, result.output,
                 result.errors);
    return result;
}

/* Its profile in the test's folder, as made.json. */
static void write_made_device(char path[TEST_PATH]) {
    results_file file;
    char *text = NULL;
    made_device_read(&file, &text);
    test_file_write(test_folder_path(path, "made.json"), text, strlen(text));
    results_file_release(&file);
}

static void the_program_keeps_measured_and_promised_apart(void **state) {
    char path[TEST_PATH];
    char words[600];
    (void)state;
    write_made_device(path);
    snprintf(words, sizeof words,
             "predict --workload digits --weights f32 --profiles %s,sheet:RTX-4090 "
             "--price 500,1600 --tariff 0.3 --power 50,450",
             path);
    /* The output layer has ten columns, and no such product was measured. */
    test_program_result result = run_program(words, 1);
    assert_non_null(strstr(result.output, "made.json"));
    assert_non_null(strstr(result.output, "rows kept out of the fit"));
    assert_non_null(strstr(result.output, "nothing was measured"));
    assert_non_null(strstr(result.output, "refused: output layer"));
    test_program_release(&result);
    snprintf(words, sizeof words, "predict --workload bert-base --json - --profiles %s", path);
    result = run_program(words, 0);
    cJSON *const root = cJSON_Parse(result.output);
    const cJSON *const first = cJSON_GetArrayItem(cJSON_GetObjectItem(root, "predictions"), 0);
    const cJSON *const up = cJSON_GetArrayItem(cJSON_GetObjectItem(first, "operations"), 4);
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(up, "name")), "up");
    test_is_near(cJSON_GetObjectItem(up, "call_s")->valuedouble, made_product_s(128, 3072, 768),
                 0.01);
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(up, "limiter")), "compute");
    cJSON_Delete(root);
    test_program_release(&result);
}

/* Predicts a product of 32 * batch rows, with the made device's path behind the words. What it says of other batches, or NULL. */
static void batch_suggested(const char *product, const char *options, const char *suggestion) {
    char path[TEST_PATH];
    char given[TEST_PATH];
    char workload[400];
    char words[2 * TEST_PATH + 100];
    snprintf(workload, sizeof workload,
             "{\"schema\":\"tandem-workload/1\",\"name\":\"w\",\"operations\":[{\"op\":\"gemm\","
             "\"name\":\"g\",\"m\":\"32*batch\",%s}]}",
             product);
    test_file_write(test_folder_path(given, "w.json"), workload, strlen(workload));
    snprintf(words, sizeof words, "predict --workload %s --profiles %s%s", given,
             test_folder_path(path, "made.json"), options);
    test_program_result result = run_program(words, 1);
    const char *const said = strstr(result.errors, "with --batch");
    assert_string_equal(said == NULL ? "nothing\n" : said, suggestion);
    test_program_release(&result);
}

/* The made device has products of 2 * 64 * 64 * 400 to 2^33 operations: half of the former and 8 times the latter are predicted. */
static void a_refusal_says_which_batch_would_do(void **state) {
    char path[TEST_PATH];
    (void)state;
    write_made_device(path);
    batch_suggested("\"n\":32,\"k\":32,\"dtype\":\"f32\"", "",
                    "with --batch 32 nothing is refused of made.json\n");
    batch_suggested("\"n\":512,\"k\":512,\"dtype\":\"f32\"", " --batch 1000000",
                    "with --batch 4096 nothing is refused of made.json\n");
    batch_suggested("\"n\":512,\"k\":512,\"dtype\":\"f16\"", "", "nothing\n");
}

/* Sets of 800 KB and 8 MB, which the made device's first and second cache serve. */
static void the_level_that_limits_is_named(void **state) {
    static const char workload[] =
        "{\"schema\":\"tandem-workload/1\",\"name\":\"w\",\"operations\":["
        "{\"op\":\"stream\",\"name\":\"small\",\"count\":10,\"reads\":8e5,\"writes\":0},"
        "{\"op\":\"stream\",\"name\":\"large\",\"reads\":8e6,\"writes\":0}]}";
    char path[TEST_PATH];
    char given[TEST_PATH];
    char words[2 * TEST_PATH + 100];
    (void)state;
    write_made_device(path);
    test_file_write(test_folder_path(given, "w.json"), workload, strlen(workload));
    snprintf(words, sizeof words, "predict --workload %s --profiles %s", given, path);
    test_program_result result = run_program(words, 0);
    /* 10 times 4 us of launch, 2 us and 10 us of L1; 4 us of launch, 2 us and 100 us of L2: 266 us. */
    if (strstr(result.output, "  L1  ") == NULL || strstr(result.output, "  L2  ") == NULL ||
        strstr(result.output, "cache 83 %: L1 45 % + L2 38 %, capacity") == NULL)
        fail_msg("%s", result.output);
    test_program_release(&result);
    snprintf(words, sizeof words, "predict --workload %s --profiles %s --json -", given, path);
    result = run_program(words, 0);
    assert_non_null(strstr(result.output, "\"limited_by\":\t\"L2\""));
    test_program_release(&result);
}

static int has_nan(const char *text) {
    return strstr(text, "nan") != NULL;
}

/* Weights of f32 need 31 GB: a card of 24 brings the rest in each pass, over a link that no datasheet tells. */
static void a_time_that_is_not_known_is_no_number(void **state) {
    static const char words[] = "predict --workload llama-3-8b-decode --weights f32 --profiles "
                                "sheet:L4,sheet:A100-SXM4-80GB";
    char with_json[160];
    (void)state;
    test_program_result result = run_program(words, 0);
    const char *const best = strstr(result.output, "none is faster and cheaper");
    assert_false(has_nan(result.output));
    assert_non_null(strstr(result.output, "time of a pass: not known"));
    assert_non_null(strstr(result.output, "time of a pass: 1"));
    assert_true(best != NULL && strstr(best + 1, "none is faster and cheaper") == NULL);
    test_program_release(&result);
    snprintf(with_json, sizeof with_json, "%s --json -", words);
    result = run_program(with_json, 0);
    cJSON *const root = cJSON_Parse(result.output);
    const cJSON *const first = cJSON_GetArrayItem(cJSON_GetObjectItem(root, "predictions"), 0);
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(first, "seconds")));
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(first, "limiter")));
    assert_true(cJSON_IsFalse(cJSON_GetObjectItem(first, "pareto")));
    cJSON_Delete(root);
    test_program_release(&result);
}

static void wrong_words(void **state) {
    static const struct {
        const char *words;
        int exit_code;
        const char *sentence;
    } rows[] = {
        {"predict", 2, "--workload and --profiles are needed"},
        {"predict --workload digits --profiles sheet:Voodoo", 1, "no datasheet of 'Voodoo'"},
        {"predict --workload digits --profiles sheet:A100", 1,
         "'A100' may be one of these datasheets, give its whole name: A100-40 SXM, A100-80 SXM\n"},
        {"predict --workload digits --profiles sheet:Orin-Nano", 1, "name: Orin Nano Super\n"},
        {"predict --workload nothing.json --profiles sheet:L4", 1, "nothing.json"},
        {"predict --workload digits --profiles /nowhere.json", 1, "/nowhere.json"},
        {"predict --workload digits --profiles sheet:L4,", 2, "empty or too long"},
        {"predict --workload digits --profiles sheet:L4 --price x", 2, "--price does not take 'x'"},
        {"predict --workload digits --profiles sheet:L4,sheet:T4,sheet:A10 --price 1,2", 2,
         "--price has 2 numbers"},
        {"predict --workload digits --profiles sheet:L4 --weights q8", 1, "the dtype 'q8'"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        test_program_result result = run_program(rows[i].words, rows[i].exit_code);
        if (strstr(result.errors, rows[i].sentence) == NULL)
            fail_msg("tandem %s said: %s", rows[i].words, result.errors);
        test_program_release(&result);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_program_keeps_measured_and_promised_apart),
        cmocka_unit_test(a_refusal_says_which_batch_would_do),
        cmocka_unit_test(the_level_that_limits_is_named),
        cmocka_unit_test(a_time_that_is_not_known_is_no_number),
        cmocka_unit_test(wrong_words),
    };
    return cmocka_run_group_tests(tests, test_folder_make, test_folder_remove);
}
