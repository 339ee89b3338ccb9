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

/* A bound is no prediction: a datasheet's time is the least, its speed beside what was measured the most, and neither beats the other. */
static void a_bound_is_not_compared_like_a_prediction(void **state) {
    static const char *const lines[] = {
        "\ntokens: ",
        "\ntokens: at most ",
        "\ntime of a pass: 533.7 us at least, ",
        " J a token, at 50 W\n",
        " a million tokens\n",
        "  at least ",
        "  at most ",
        "nothing measured is faster and cheaper\n",
        "no datasheet is faster and cheaper\n",
        "RTX 4090 costs as much a pass as made.json at a price of at most ",
    };
    char path[TEST_PATH];
    char words[600];
    (void)state;
    write_made_device(path);
    snprintf(words, sizeof words,
             "predict --workload bert-base --profiles %s,sheet:RTX-4090 --price 500,1600 --tariff "
             "0.3 --power 50,450",
             path);
    test_program_result result = run_program(words, 0);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (strstr(result.output, lines[i]) == NULL)
            fail_msg("there is no '%s' in\n%s", lines[i], result.output);
    test_program_release(&result);
    snprintf(words, sizeof words,
             "predict --workload bert-base --profiles sheet:RTX-4090,%s --price 1600,500", path);
    result = run_program(words, 0);
    assert_non_null(strstr(result.output,
                           "made.json costs as much a pass as RTX 4090 at a price of at least "));
    test_program_release(&result);
    snprintf(words, sizeof words,
             "predict --workload bert-base --profiles %s,sheet:L4,sheet:RTX-4090 --price "
             "500,2500,1600 --power 100 --tariff 0.36 --json -",
             path);
    result = run_program(words, 0);
    cJSON *const root = cJSON_Parse(result.output);
    const cJSON *const first = cJSON_GetArrayItem(cJSON_GetObjectItem(root, "predictions"), 0);
    const double tokens = 128;
    for (int i = 0; i < 3; i++) { /* the L4 is slower and dearer than the RTX 4090 */
        const cJSON *const each = cJSON_GetArrayItem(cJSON_GetObjectItem(root, "predictions"), i);
        assert_int_equal(cJSON_IsTrue(cJSON_GetObjectItem(each, "pareto")), i != 1);
    }
    test_is_near(cJSON_GetObjectItem(first, "joules_per_token")->valuedouble,
                 cJSON_GetObjectItem(first, "joules")->valuedouble / tokens, 1e-9);
    test_is_near(cJSON_GetObjectItem(first, "cost_per_million_tokens")->valuedouble,
                 cJSON_GetObjectItem(first, "cost")->valuedouble / tokens * 1e6, 1e-9);
    cJSON_Delete(root);
    test_program_release(&result);
}

static double seconds_of(const char *words, const char *limiter) {
    test_program_result result = run_program(words, 0);
    cJSON *const root = cJSON_Parse(result.output);
    const cJSON *const first = cJSON_GetArrayItem(cJSON_GetObjectItem(root, "predictions"), 0);
    const double seconds = cJSON_GetObjectItem(first, "seconds")->valuedouble;
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(first, "limiter")), limiter);
    cJSON_Delete(root);
    test_program_release(&result);
    return seconds;
}

/* 120 calls of BERT: a launch of 100 us is all that counts on an H100. What was measured keeps its own. */
static void launches_of_datasheets_may_be_given(void **state) {
    char path[TEST_PATH];
    char words[600];
    (void)state;
    const double without =
        seconds_of("predict --workload bert-base --profiles sheet:H100-SXM --json -", "compute");
    const double with = seconds_of(
        "predict --workload bert-base --profiles sheet:H100-SXM --launch 100 --json -", "launch");
    test_is_near(with, without + 120 * 100e-6, 1e-9);
    write_made_device(path);
    snprintf(words, sizeof words, "predict --workload bert-base --json - --profiles %s", path);
    const double measured = seconds_of(words, "compute");
    snprintf(words, sizeof words, "predict --workload bert-base --launch 9 --json - --profiles %s",
             path);
    test_is_near(seconds_of(words, "compute"), measured, 1e-12);
    test_program_result result =
        run_program("predict --workload bert-base --profiles sheet:H100-SXM --launch 2.5", 0);
    assert_non_null(strstr(result.output, "allow, with 2.5 us a launch, as --launch says\n"));
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
    const char *const best = strstr(result.output, "no datasheet is faster");
    assert_false(has_nan(result.output));
    assert_non_null(strstr(result.output, "time of a pass: not known"));
    assert_non_null(strstr(result.output, "time of a pass: 1"));
    assert_true(best != NULL && strstr(best + 1, "no datasheet is faster") == NULL);
    assert_null(strstr(result.output, "cheaper")); /* no prices were given */
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
         "--price has 2 numbers for 3 profiles: give one, or one for each profile"},
        {"predict --workload digits --profiles sheet:L4 --price 1,2", 2,
         "--price has 2 numbers for 1 profile: give one"},
        {"predict --workload digits --profiles sheet:L4,sheet:T4 --power 1,2,3", 2,
         "--power has 3 numbers for 2 profiles"},
        {"predict --workload digits --profiles sheet:L4,sheet:T4 --price 5,", 2,
         "--price does not take '5,'"},
        {"predict --workload digits --profiles sheet:L4 --price ,5", 2,
         "--price does not take ',5'"},
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

/* What was measured is not to be had again. */
static void an_input_is_not_written_over(void **state) {
    char paths[2][TEST_PATH];
    char words[1600];
    (void)state;
    write_made_device(paths[0]);
    test_file_write(test_folder_path(paths[1], "w.json"), "{}", 2);
    for (int i = 0; i < 2; i++) {
        snprintf(words, sizeof words, "predict --workload %s --profiles sheet:L4,%s --json %s",
                 i == 0 ? "bert-base" : paths[1], paths[0], paths[i]);
        test_program_result result = run_program(words, 2);
        if (strstr(result.errors, "it is an input") == NULL)
            fail_msg("tandem %s said: %s", words, result.errors);
        test_program_release(&result);
    }
    snprintf(words, sizeof words, "predict --workload bert-base --profiles %s", paths[0]);
    test_program_result result = run_program(words, 0);
    test_program_release(&result);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_program_keeps_measured_and_promised_apart),
        cmocka_unit_test(a_bound_is_not_compared_like_a_prediction),
        cmocka_unit_test(launches_of_datasheets_may_be_given),
        cmocka_unit_test(a_refusal_says_which_batch_would_do),
        cmocka_unit_test(the_level_that_limits_is_named),
        cmocka_unit_test(a_time_that_is_not_known_is_no_number),
        cmocka_unit_test(an_input_is_not_written_over),
        cmocka_unit_test(wrong_words),
    };
    return cmocka_run_group_tests(tests, test_folder_make, test_folder_remove);
}
