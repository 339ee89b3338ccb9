/* The program `tandem predict`: what it tells of the made device and of datasheets, and what it refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <cjson/cJSON.h>

#include "tests/support/devices/made_device.h"
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
             "predict --workload digits --weights f32 --profiles %s,sheet:RTX-4090", path);
    /* The output layer has ten columns, and no such product was measured. */
    test_program_result result = run_program(words, 1);
    assert_non_null(strstr(result.output, "made.json"));
    assert_non_null(strstr(result.output, "each predicted from others"));
    assert_non_null(strstr(result.output, "nothing was measured"));
    assert_non_null(strstr(result.output, "refused: output layer"));
    test_program_release(&result);
    snprintf(words, sizeof words, "predict --workload bert-base --json - --profiles %s", path);
    result = run_program(words, 0);
    cJSON *const root = cJSON_Parse(result.output);
    const cJSON *const first = cJSON_GetArrayItem(cJSON_GetObjectItem(root, "predictions"), 0);
    const cJSON *const up = cJSON_GetArrayItem(cJSON_GetObjectItem(first, "operations"), 4);
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(up, "name")), "up");
    test_is_near(cJSON_GetObjectItem(up, "seconds")->valuedouble,
                 12 * made_product_s(128, 3072, 768), 0.05);
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(up, "limiter")), "compute");
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
        {"predict --workload digits --profiles sheet:Voodoo", 1, "no one datasheet of 'Voodoo'"},
        {"predict --workload digits --profiles sheet:A100", 1, "A100-40 SXM\n  A100-80 SXM\n"},
        {"predict --workload digits --profiles sheet:Orin-Nano", 1, ":\n  Orin Nano Super\n"},
        {"predict --workload nothing.json --profiles sheet:L4", 1, "nothing.json"},
        {"predict --workload digits --profiles /nowhere.json", 1, "/nowhere.json"},
        {"predict --workload digits --profiles sheet:L4,", 2, "empty or too long"},
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
        cmocka_unit_test(an_input_is_not_written_over),
        cmocka_unit_test(wrong_words),
    };
    return cmocka_run_group_tests(tests, test_folder_make, test_folder_remove);
}
