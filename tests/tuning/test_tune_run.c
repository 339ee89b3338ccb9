/* `tandem tune` from end to end on the device of this run, and the library that follows what it wrote. */
// ctest: device compiled rusticl_in_ci timeout=300 cost=20
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/test_folder.h"
#include "tests/support/test_program.h"
#include "tests/support/test_tree.h"

static char program[TEST_TREE_PATH]; /* set by main */
static char path[TEST_PATH];         /* of the tuning file */
static char output_variable[TEST_PATH + 32];

enum {
    PATIENCE_S = 240
};

static int make_folder(void **state) {
    if (test_folder_make(state) != 0)
        return -1;
    test_folder_path(path, "tuning.txt");
    snprintf(output_variable, sizeof output_variable, "TANDEM_TUNING_FILE=%s", path);
    return 0;
}

/* What --device gets: the first name of TANDEM_TEST_DEVICES. */
static const char *selector(void) {
    static char name[128];
    const char *const wanted = getenv("TANDEM_TEST_DEVICES");
    snprintf(name, sizeof name, "%s", wanted == NULL || wanted[0] == '\0' ? "0" : wanted);
    name[strcspn(name, ",")] = '\0';
    return name;
}

static test_program_result run(const char *command, const char *const *variables) {
    char arguments[1024];
    snprintf(arguments, sizeof arguments, "%.600s --device %s", command, selector());
    return test_program_run(program, arguments, variables, PATIENCE_S);
}

static void expect(test_program_result result, int exit_code, const char *output,
                   const char *errors) {
    if (result.exit_code != exit_code || strstr(result.output, output) == NULL ||
        strstr(result.errors, errors) == NULL)
        fail_msg("%d, expected '%s' and '%s'\n-- output:\n%s\n-- errors:\n%s", result.exit_code,
                 output, errors, result.output, result.errors);
    test_program_release(&result);
}

/* Rows of the file with this text in them. */
static int rows_with(const char *text) {
    char line[2048];
    int count = 0;
    FILE *const file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL)
        count += line[0] != '#' && strstr(line, text) != NULL;
    fclose(file);
    return count;
}

static void shapes_are_tuned_kept_and_not_tuned_again(void **state) {
    (void)state;
    const char *const variables[] = {output_variable, NULL};
    expect(run("tune --quick --time-limit 100 --shapes 48x40x56,1x64x64", variables), 0,
           "2 tuned, 0 skipped, 0 not reached, 0 failed", "");
    assert_int_equal(rows_with("tandem-tuning 1"), 1);
    assert_int_equal(rows_with(" gemm f32 f32 nn 48x40x56x1 gemm_"), 1);
    assert_int_equal(rows_with(" gemm f32 f32 nn 1x64x64x1 gemm_"), 1);
    assert_int_equal(rows_with(" measured="), 2);
    expect(run("tune --quick --time-limit 100 --shapes 48x40x56,20x20x20 --dtype f32", variables),
           0, "1 tuned, 1 skipped, 0 not reached, 0 failed", "");
    assert_int_equal(rows_with(" measured="), 3);
    expect(run("tune --quick --time-limit 100 --shapes 48x40x56 --again", variables), 0,
           "1 tuned, 0 skipped, 0 not reached, 0 failed", "");
    assert_int_equal(rows_with(" gemm f32 f32 nn 48x40x56x1 gemm_"), 1);
    assert_int_equal(rows_with(" measured="), 3);
}

/* The case before wrote the file. */
static void the_library_follows_the_file_and_says_so(void **state) {
    (void)state;
    const char *const variables[] = {output_variable, "TANDEM_LOG=dispatch", NULL};
    expect(run("bench gemm --quick --shapes 48x40x56", variables), 0, "f32 48x40x56 nn",
           "of the user's file, 48x40x56x1 nn, measured ");
    const char *const off[] = {"TANDEM_TUNING_FILE=off", "TANDEM_LOG=dispatch", NULL};
    test_program_result without = run("bench gemm --quick --shapes 48x40x56", off);
    assert_int_equal(without.exit_code, 0);
    assert_null(strstr(without.errors, "user's file"));
    test_program_release(&without);
}

/* Every candidate was verified: one that is wrong, crashes or hangs is named on standard error. */
static void integers_and_weights_are_tuned_and_followed(void **state) {
    (void)state;
    const char *const variables[] = {output_variable, NULL};
    expect(run("tune --quick --time-limit 100 --shapes 24x40x32 --dtype u8s8,w8,w4a8 --layout nt",
               variables),
           0, "3 tuned, 0 skipped, 0 not reached, 0 failed", "");
    assert_int_equal(rows_with(" gemm-int u8 s8 nt 24x40x32x1 gemm_int_"), 1);
    assert_int_equal(rows_with(" gemm-weights f32 s8 nt 24x40x32x1 gemm_"), 1);
    assert_int_equal(rows_with(" gemm-weights-a8 f32 s4 nt 24x40x32x1 gemm_"), 1);
    expect(run("tune --quick --time-limit 100 --shapes 24x40x32 --dtype w8,u8s8 --layout nt",
               variables),
           0, "0 tuned, 2 skipped, 0 not reached, 0 failed", "");
    const char *const loud[] = {output_variable, "TANDEM_LOG=dispatch", NULL};
    expect(run("bench gemm --quick --shapes 24x40x32 --layout nt --dtype u8s8 --roof memory", loud),
           0, "u8s8 24x40x32 nt", "of the user's file, 24x40x32x1 nt, measured ");
    expect(run("bench gemm --quick --shapes 24x40x32 --layout nt --dtype w8 --roof memory", loud),
           0, "w8 24x40x32 nt", "of the user's file, 24x40x32x1 nt, measured ");
    test_program_result again = run("tune --quick --again --time-limit 100 --shapes 24x40x32 "
                                    "--dtype u8s8,w8a8 --layout nt",
                                    variables);
    assert_int_equal(again.exit_code, 0);
    if (strstr(again.errors, "failed") != NULL)
        fail_msg("%s", again.errors);
    test_program_release(&again);
    assert_int_equal(rows_with(" gemm-int u8 s8 nt 24x40x32x1 gemm_int_"), 1);
}

static void an_applications_log_says_what_to_tune(void **state) {
    (void)state;
    char command[512];
    const char *const off[] = {"TANDEM_TUNING_FILE=off", "TANDEM_LOG=dispatch", NULL};
    const char *const variables[] = {output_variable, NULL};
    test_program_result application = run("bench gemm --quick --shapes 33x9x17 --dtype f16", off);
    assert_int_equal(application.exit_code, 0);
    char log[TEST_PATH];
    test_text_write(test_folder_path(log, "log.txt"), application.errors, 0600);
    test_program_release(&application);
    snprintf(command, sizeof command, "tune --quick --time-limit 100 --from-log %s", log);
    expect(run(command, variables), 0, "f16 33x9x17 nn", "");
    assert_int_equal(rows_with(" gemm f16 f16 nn 33x9x17x1 gemm_"), 1);
    application =
        run("bench gemm --quick --shapes 5x9x16 --dtype w8a8 --layout nt --roof memory", off);
    assert_int_equal(application.exit_code, 0);
    test_text_write(log, application.errors, 0600);
    test_program_release(&application);
    expect(run(command, variables), 0, "w8a8 5x9x16 nt", "");
    assert_int_equal(rows_with(" gemm-weights-a8 f32 s8 nt 5x9x16x1 gemm_"), 1);
}

/* Before the time is over nothing is begun after it, and what was not reached is said. */
static void the_time_limit_holds(void **state) {
    (void)state;
    const char *const variables[] = {output_variable, NULL};
    const time_t start = time(NULL);
    expect(run("tune --time-limit 0.1 --output /dev/null/none --shapes 8x8x8", variables), 1, "",
           "cannot ");
    expect(run("tune --quick --time-limit 0.1 --shapes 70x70x70,71x71x71,72x72x72,73x73x73",
               variables),
           0, " not reached, 0 failed", "");
    assert_true(time(NULL) - start < 60 * test_time_factor());
}

static void a_file_of_somebody_else_is_refused(void **state) {
    (void)state;
    char other[TEST_PATH];
    char command[512];
    test_text_write(test_folder_path(other, "other.txt"), "precious\n", 0600);
    snprintf(command, sizeof command, "tune --shapes 8x8x8 --output %s", other);
    expect(run(command, NULL), 1, "", "line 1: the first line is not");
    const char *const variables[] = {output_variable, NULL};
    expect(test_program_run(program, "tune --device no-such-device", variables, PATIENCE_S), 3, "",
           "no device matches 'no-such-device'");
    const char *const off[] = {"TANDEM_TUNING_FILE=off", NULL};
    expect(run("tune --shapes 8x8x8", off), 2, "", "there is no place for a tuning file");
    expect(test_program_run(program, "tune --shapes 8x8", NULL, PATIENCE_S), 2, "",
           "--shapes does not take '8x8'");
    expect(test_program_run(program, "tune --set bert --shapes 8x8x8", NULL, PATIENCE_S), 2, "",
           "give one of --shapes, --set and --from-log");
    expect(test_program_run(program, "tune --from-log /nonexistent", NULL, PATIENCE_S), 1, "",
           "cannot read '/nonexistent'");
}

int main(void) {
    test_tree_build(program, "bin/tandem");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_are_tuned_kept_and_not_tuned_again),
        cmocka_unit_test(the_library_follows_the_file_and_says_so),
        cmocka_unit_test(integers_and_weights_are_tuned_and_followed),
        cmocka_unit_test(an_applications_log_says_what_to_tune),
        cmocka_unit_test(the_time_limit_holds),
        cmocka_unit_test(a_file_of_somebody_else_is_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, test_folder_remove);
}
