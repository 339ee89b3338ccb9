/* `tandem trace`: generate and replay as scripts see them, on machines without any device. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/test_program.h"

static const char program[] = TANDEM_BINARY_DIR "/bin/tandem";
static const char *const no_drivers[] = {"OCL_ICD_VENDORS=/nonexistent", NULL};
static char path[64];

static int make_path(void **state) {
    (void)state;
    snprintf(path, sizeof path, "/tmp/tandem_trace_XXXXXX");
    const int file = mkstemp(path);
    return file < 0 ? -1 : close(file);
}

static int remove_path(void **state) {
    (void)state;
    return unlink(path);
}

/* Run "tandem trace" with the path for FILE. */
static test_program_result run(const char *arguments, int exit_code) {
    char all[400];
    const char *const place = strstr(arguments, "FILE");
    const int before = place == NULL ? (int)strlen(arguments) : (int)(place - arguments);
    snprintf(all, sizeof all, "trace %.*s%s%s", before, arguments, place == NULL ? "" : path,
             place == NULL ? "" : place + 4);
    test_program_result result = test_program_run(program, all, no_drivers, 60);
    if (result.exit_code != exit_code)
        fail_msg("'tandem %s' gave %d\n-- output:\n%s-- errors:\n%s", all, result.exit_code,
                 result.output, result.errors);
    return result;
}

static void expect(const char *arguments, int exit_code, const char *output, const char *errors) {
    test_program_result result = run(arguments, exit_code);
    if ((output != NULL && strstr(result.output, output) == NULL) ||
        (errors != NULL && strstr(result.errors, errors) == NULL))
        fail_msg("'tandem trace %s'\n-- output:\n%s-- errors:\n%s", arguments, result.output,
                 result.errors);
    test_program_release(&result);
}

static void a_trace_is_made_and_replayed(void **state) {
    (void)state;
    expect("generate inference FILE --layers 2 --sequence 16 --steps 2", 0, "MiB at most", NULL);
    expect("replay FILE", 0, "generated: inference, layers 2", NULL);
    expect("replay FILE", 0, "\nweights ", NULL);
    test_program_result results[2];
    for (int i = 0; i < 2; i++) {
        results[i] = run("replay FILE --command-time 40", 0);
        assert_non_null(strstr(results[i].output, "  decisions "));
    }
    assert_string_equal(strstr(results[0].output, "  decisions "),
                        strstr(results[1].output, "  decisions "));
    for (int i = 0; i < 2; i++)
        test_program_release(&results[i]);
    expect("replay FILE --budget 100K", 1, "first refused event", NULL);
}

static void a_bad_file_is_refused_with_its_line(void **state) {
    (void)state;
    FILE *const file = fopen(path, "w");
    assert_non_null(file);
    fputs("tandem-memory-trace 1\na 1 1 64 0 0\nf 1 2\n", file);
    fclose(file);
    expect("replay FILE", 1, NULL, "line 3: life 2 was never allocated");
    expect("replay FILE --unfinished", 1, NULL, "line 3: life 2 was never allocated");
    expect("replay /nonexistent", 1, NULL, "/nonexistent");
    assert_int_equal(truncate(path, 22 + 13), 0);
    expect("replay FILE", 1, NULL, "line 3: the file ends before the line of the end");
    expect("replay FILE --unfinished", 0, "never freed", NULL);
    expect("generate training /nonexistent/x", 1, NULL, "/nonexistent/x");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trace_is_made_and_replayed),
        cmocka_unit_test(a_bad_file_is_refused_with_its_line),
    };
    return cmocka_run_group_tests_name("tandem trace", tests, make_path, remove_path);
}
