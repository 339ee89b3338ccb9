/* `tandem trace`: a replay as scripts see it, on machines without any device. */
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
static void expect(const char *arguments, int exit_code, const char *output, const char *errors) {
    char all[400];
    const char *const place = strstr(arguments, "FILE");
    snprintf(all, sizeof all, "trace %s%s", place == NULL ? "" : path,
             place == NULL ? arguments : place + 4);
    test_program_result result = test_program_run(program, all, no_drivers, 60);
    if (result.exit_code != exit_code ||
        (output != NULL && strstr(result.output, output) == NULL) ||
        (errors != NULL && strstr(result.errors, errors) == NULL))
        fail_msg("'tandem %s' gave %d\n-- output:\n%s-- errors:\n%s", all, result.exit_code,
                 result.output, result.errors);
    test_program_release(&result);
}

static void write_trace(const char *lines) {
    FILE *const file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "tandem-memory-trace 1\n%s", lines);
    fclose(file);
}

static void a_trace_is_shown_and_replayed(void **state) {
    (void)state;
    write_trace("# of a test\nt 1 weights\na 1 1 300000 1 1\nu 1 1 1\na 1 2 64 0 0\n"
                "e 3 c0ffee0000000000\n");
    expect("FILE", 1, NULL, "line 7: the checksum is wrong");
    write_trace("# of a test\nt 1 weights\na 1 1 300000 1 1\nu 1 1 1\na 1 2 64 0 0\n");
    expect("FILE", 1, NULL, "line 7: the file ends before the line of the end");
    expect("FILE --unfinished --command-time 40", 0, "of a test", NULL);
    expect("FILE --unfinished", 0, "\nweights ", NULL);
    expect("FILE --unfinished", 0, "  decisions ", NULL);
    expect("FILE --unfinished --budget 100K", 1, "first refused event", NULL);
}

static void a_bad_file_is_refused_with_its_line(void **state) {
    (void)state;
    write_trace("a 1 1 64 0 0\nf 1 2\n");
    expect("FILE --unfinished", 1, NULL, "line 3: life 2 was never allocated");
    expect("/nonexistent", 1, NULL, "/nonexistent");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trace_is_shown_and_replayed),
        cmocka_unit_test(a_bad_file_is_refused_with_its_line),
    };
    return cmocka_run_group_tests_name("tandem trace", tests, make_path, remove_path);
}
