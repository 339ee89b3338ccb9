/*
 * How `tandem report` runs a suite in a process of its own and judges it. The suites are this program itself, told by its arguments how
 * to behave.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/report/report_suite.h"
#include "tests/support/test_case.h"
#include "tests/support/test_program.h"

static const char good_document[] = "{\"schema\":\"tandem-bench/1\",\"results\":[]}";

/* A suite that does not end by itself tells its process at the descriptor of this number. */
static const char process_variable[] = "TANDEM_TEST_DESCRIPTOR";

static void stay(void) {
    const pid_t own = getpid();
    const char *const number = getenv(process_variable);
    if (number != NULL &&
        write((int)strtol(number, NULL, 10), &own, sizeof own) == (ssize_t)sizeof own)
        sleep(60);
}

/* What this program does as a suite: argv[2] says it, then come device, patience unless the run is quick, time and file. */
static int play_suite(int argc, char **argv) {
    static const char *const full[] = {"--device",  "3",     "--patience", "0.15",
                                       "--seconds", "2.500", "--json",     "-"};
    static const char *const quick[] = {"--device", "3", "--seconds", "2.500", "--json", "-"};
    const char *const role = argv[2];
    const char *const *const expected = argc == 9 ? quick : full;
    for (int i = 3; i < argc; i++)
        if (argc - 3 != (argc == 9 ? 6 : 8) || strcmp(argv[i], expected[i - 3]) != 0)
            return 9;
    if ((argc == 9) != (strcmp(role, "briefly") == 0))
        return 9;
    if (strcmp(role, "dies") == 0)
        raise(SIGKILL);
    if (strcmp(role, "stays") == 0)
        stay();
    if (strcmp(role, "hangs") == 0)
        sleep(60);
    if (strcmp(role, "fails") == 0)
        fputs("a line before\ntandem bench: this is why\n\n", stderr);
    fputs(strcmp(role, "babbles") == 0 ? "{\"schema\":" : good_document, stdout);
    return strcmp(role, "fails") == 0 ? 1 : 0;
}

static const suite_task plain_task = {.device = 3, .budget_s = 2.5, .grace_s = 60};

static suite_outcome run_role(const char *role, int quick) {
    const report_suite suite = {"test", 1, 1, {"play", role}, {"play", "briefly"}};
    suite_task task = plain_task;
    suite_outcome outcome;
    task.quick = quick;
    report_suite_run(&suite, &task, &outcome);
    return outcome;
}

TEST(a_suite_answers) {
    suite_outcome outcome = run_role("good", 0);
    assert_int_equal(outcome.exit_code, 0);
    assert_non_null(outcome.document);
    assert_string_equal(outcome.command, "tandem play good --device 3 --patience 0.15");
    assert_string_equal(outcome.message, "");
    assert_true(outcome.seconds > 0);
    report_suite_release(&outcome);
    outcome = run_role("dies", 1);
    assert_int_equal(outcome.exit_code, 0);
    report_suite_release(&outcome);
}

TEST(a_suite_that_fails_says_why) {
    suite_outcome outcome = run_role("fails", 0);
    assert_int_equal(outcome.exit_code, 1);
    assert_string_equal(outcome.message, "tandem bench: this is why");
    assert_non_null(outcome.document);
    report_suite_release(&outcome);
    assert_null(outcome.document);
}

TEST(a_suite_may_die_or_babble) {
    suite_outcome outcome = run_role("dies", 0);
    assert_int_equal(outcome.exit_code, -1);
    assert_null(outcome.document);
    assert_non_null(strstr(outcome.message, "signal 9"));
    report_suite_release(&outcome);
    outcome = run_role("babbles", 0);
    assert_null(outcome.document);
    assert_int_equal(outcome.exit_code, -1);
    assert_non_null(strstr(outcome.message, "no results"));
    report_suite_release(&outcome);
}

/* A suite is to end by itself when its time is over; one that does not is stopped. */
TEST(a_suite_that_does_not_end_is_stopped) {
    const report_suite suite = {"test", 1, 1, {"play", "hangs"}, {NULL}};
    suite_task task = plain_task;
    suite_outcome outcome;
    task.grace_s = -1.6;
    report_suite_run(&suite, &task, &outcome);
    assert_int_equal(outcome.exit_code, -1);
    assert_null(outcome.document);
    assert_non_null(strstr(outcome.message, "stopped: it had "));
    assert_true(outcome.seconds > 0.8 && outcome.seconds < 30 * test_time_factor());
    report_suite_release(&outcome);
}

/* In a process of its own, which a signal ends while its suite runs. */
static void run_until_ended(int number) {
    static const report_suite suite = {"test", 1, 1, {"play", "stays"}, {NULL}};
    suite_outcome outcome;
    signal(number, SIG_DFL);
    report_suite_run(&suite, &plain_task, &outcome);
    _exit(1);
}

TEST(a_suite_ends_with_its_report) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGKILL};
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        int ends[2];
        char text[16];
        pid_t suite = 0;
        int status = 0;
        assert_int_equal(pipe(ends), 0);
        snprintf(text, sizeof text, "%d", ends[1]);
        assert_int_equal(setenv(process_variable, text, 1), 0);
        const pid_t report = fork();
        assert_true(report >= 0);
        if (report == 0)
            run_until_ended(numbers[i]);
        assert_int_equal(read(ends[0], &suite, sizeof suite), sizeof suite);
        kill(report, numbers[i]);
        assert_int_equal(waitpid(report, &status, 0), report);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == numbers[i]);
        /* The orphan is ours now. Nobody but its parent's death has told it anything. */
        assert_int_equal(waitpid(suite, &status, 0), suite);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        close(ends[0]);
        close(ends[1]);
    }
}

/* ---- the suites ------------------------------------------------------------------------------------ */

/* Options are parsed in order: an unknown one is refused before --help counts. */
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

int main(int argc, char **argv) {
    if (argc > 2 && strcmp(argv[1], "play") == 0)
        return play_suite(argc, argv);
    return test_run_all(NULL, NULL);
}
