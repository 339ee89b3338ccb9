/* Tests that the suites of `tandem report` are commands of this program and return results. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "bench/report/report_suite.h"
#include "tests/support/test_case.h"
#include "tests/support/test_program.h"

/* The device does not exist: the command reports that and returns no results. */
TEST(a_suite_that_fails_has_no_document) {
    static const report_suite suite = {"test", 1, 1, {"bench", "compute"}, {"bench", "launch"}};
    suite_task task = {.device = 99, .budget_s = 2.5};
    suite_outcome outcome;
    /* No driver is loaded, because its leaks would count as this program's. */
    setenv("OCL_ICD_VENDORS", "/nowhere", 1);
    setenv("OPENCL_VENDOR_PATH", "/nowhere", 1);
    report_suite_run(&suite, &task, &outcome);
    assert_int_equal(outcome.exit_code, 3);
    assert_null(outcome.document);
    assert_string_equal(outcome.command, "tandem bench compute --device 99 --patience 0.15");
    report_suite_release(&outcome);
    task.quick = 1;
    report_suite_run(&suite, &task, &outcome);
    assert_string_equal(outcome.command, "tandem bench launch --device 99");
    report_suite_release(&outcome);
    unsetenv("OCL_ICD_VENDORS");
    unsetenv("OPENCL_VENDOR_PATH");
}

/* Options are parsed in order. An unknown one is therefore refused before --help takes effect. */
TEST(suites_are_commands) {
    for (int i = 0; i < 2 * report_suite_count; i++) {
        const report_suite *const suite = &report_suites[i / 2];
        const char *const *const words = i % 2 == 0 ? suite->words : suite->quick;
        char line[1024] = "";
        for (size_t w = 0; words[w] != NULL; w++)
            snprintf(line + strlen(line), sizeof line - strlen(line), "%s ", words[w]);
        snprintf(line + strlen(line), sizeof line - strlen(line), "--help");
        test_program_result result =
            test_program_run(TANDEM_BINARY_DIR "/bin/tandem", line, NULL, 60);
        if (result.exit_code != 0)
            fail_msg("tandem %s: %s", line, result.errors);
        test_program_release(&result);
    }
}

TEST_MAIN(NULL, NULL)
