/*
 * Tests `tandem tune` from end to end on the device of this run. The library must then use the
 * file.
 */
// ctest: device compiled rusticl_in_ci timeout=300 cost=8
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/test_case.h"
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

/* Returns the argument of --device, which is the first name of TANDEM_TEST_DEVICES. */
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

/* Counts the rows of the file that contain this text. */
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

TEST(shapes_are_tuned_kept_and_not_tuned_again) {
    const char *const variables[] = {output_variable, NULL};
    expect(
        run("tune --quick --time-limit 100 --shapes 1x64x64,24x40x32 --dtype f32,w4a8", variables),
        0, "4 tuned, 0 skipped, 0 failed", "");
    assert_int_equal(rows_with("tandem-tuning 1"), 1);
    assert_int_equal(rows_with(" gemm f32 f32 nn 24x40x32x1 gemm_"), 1);
    assert_int_equal(rows_with(" gemm-weights-a8 f32 s4 nn 24x40x32x1 gemm_"), 1);
    assert_int_equal(rows_with(" measured="), 4);
    expect(run("tune --quick --time-limit 100 --shapes 24x40x32 --dtype f32,w4a8", variables), 0,
           "0 tuned, 2 skipped, 0 failed", "");
    expect(run("tune --quick --time-limit 100 --shapes 24x40x32 --again", variables), 0,
           "1 tuned, 0 skipped, 0 failed", "");
    assert_int_equal(rows_with(" measured="), 4);
}

/* The preceding test wrote the file. */
TEST(the_library_follows_the_file_and_says_so) {
    const char *const variables[] = {output_variable, "TANDEM_LOG=dispatch", NULL};
    expect(run("bench gemm --quick --shapes 24x40x32", variables), 0, "f32 24x40x32 nn",
           "of the user's file, 24x40x32x1 nn, measured ");
    const char *const off[] = {"TANDEM_TUNING_FILE=off", "TANDEM_LOG=dispatch", NULL};
    test_program_result without = run("bench gemm --quick --shapes 24x40x32", off);
    assert_int_equal(without.exit_code, 0);
    assert_null(strstr(without.errors, "user's file"));
    test_program_release(&without);
}

TEST(what_cannot_be_is_refused) {
    char other[TEST_PATH];
    char command[512];
    test_text_write(test_folder_path(other, "other.txt"), "precious\n", 0600);
    snprintf(command, sizeof command, "tune --shapes 8x8x8 --output %s", other);
    expect(run(command, NULL), 1, "", "line 1: the first line is not");
    const char *const off[] = {"TANDEM_TUNING_FILE=off", NULL};
    expect(run("tune --shapes 8x8x8", off), 2, "", "there is no default tuning file");
    expect(run("tune --set bert --shapes 8x8x8", NULL), 2, "", "give --set or --shapes, not both");
    expect(run("tune --time-limit 0.1 --output /dev/null/none --shapes 8x8x8", NULL), 1, "",
           "cannot ");
}

int main(void) {
    test_tree_build(program, "bin/tandem");
    return test_run_all(make_folder, test_folder_remove);
}
