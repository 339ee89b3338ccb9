/*
 * Tests `tandem report` on the device of this run: its output, and its cleanup after an
 * interruption.
 */
// ctest: device rusticl_in_ci timeout=300 cost=10
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/bench/bench_rows.h"
#include "tests/support/test_case.h"
#include "tests/support/test_folder.h"
#include "tests/support/test_program.h"

TEST_WITH(a_report_is_a_results_file_and_a_page, test_folder_make, test_folder_remove) {
    char arguments[1024];
    char json[TEST_PATH];
    char html[TEST_PATH];
    size_t size = 0;
    test_folder_path(json, "r.json");
    test_folder_path(html, "r.html");
    snprintf(arguments, sizeof arguments,
             "report --quick --suite launch,pool --device %s --json %s --html %s", bench_selector(),
             json, html);
    test_program_result result = test_program_run(bench_program, arguments, NULL, BENCH_PATIENCE_S);
    if (result.exit_code != 0)
        fail_msg("'%s' gave %d: %s", arguments, result.exit_code, result.errors);
    test_program_release(&result);
    unsigned char *const bytes = test_file_read(json, &size);
    cJSON *const root = cJSON_Parse((const char *)bytes);
    assert_string_equal(json_member(root, "schema")->valuestring, "tandem-report/1");
    /* The file holds the report's own command line, not that of its first suite. */
    const cJSON *const words = json_member(root, "command");
    assert_int_equal(cJSON_GetArraySize(words), 11);
    assert_string_equal(cJSON_GetArrayItem(words, 0)->valuestring, "tandem");
    assert_string_equal(cJSON_GetArrayItem(words, 1)->valuestring, "report");
    assert_string_equal(cJSON_GetArrayItem(words, 8)->valuestring, json);
    const cJSON *const suites = json_member(root, "suites");
    assert_int_equal(cJSON_GetArraySize(suites), 2);
    for (int i = 0; i < 2; i++) {
        const cJSON *const step = cJSON_GetArrayItem(suites, i);
        assert_string_equal(json_text(step, "suite"), i == 1 ? "pool" : "launch");
        assert_true(json_number(step, "seconds") > 0);
    }
    assert_true(cJSON_GetArraySize(json_member(root, "results")) >= 6);
    cJSON_Delete(root);
    free(bytes);
    char *const page = (char *)test_file_read(html, &size);
    assert_non_null(strstr(page, "<h2>launch</h2>"));
    assert_non_null(strstr(page, "<h2>pool</h2>"));
    assert_non_null(strstr(page, "</html>"));
    /* The page made from a file must equal the page written with it. */
    assert_int_equal(remove(html), 0);
    snprintf(arguments, sizeof arguments, "report --from %s --html %s", json, html);
    result = test_program_run(bench_program, arguments, NULL, BENCH_PATIENCE_S);
    assert_int_equal(result.exit_code, 0);
    test_program_release(&result);
    char *const again = (char *)test_file_read(html, &size);
    assert_string_equal(again, page);
    free(page);
    free(again);
}

/* All other messages go to stderr. */
TEST_WITH(results_on_stdout_are_nothing_else, test_folder_make, test_folder_remove) {
    char arguments[1024];
    char html[TEST_PATH];
    char *const page = test_folder_path(html, "r.html");
    snprintf(arguments, sizeof arguments,
             "report --quick --suite launch --device %s --json - --html %s", bench_selector(),
             page);
    test_program_result result = test_program_run(bench_program, arguments, NULL, BENCH_PATIENCE_S);
    assert_int_equal(result.exit_code, 0);
    const char *end = NULL;
    cJSON *const root = cJSON_ParseWithOpts(result.output, &end, 1);
    assert_non_null(root);
    assert_non_null(strstr(result.errors, "r.html is written"));
    assert_null(strstr(result.errors, "- is written"));
    cJSON_Delete(root);
    test_program_release(&result);
}

/* The results file has two devices. The page shows the one that --device names. */
TEST_WITH(a_page_is_of_the_device_that_is_named, test_folder_make, test_folder_remove) {
    static const struct {
        const char *device;
        const char *title;
    } rows[] = {{"", "<h1>One</h1>"},
                {"--device two", "<h1>Two</h1>"},
                {"--device 1", "<h1>Two</h1>"},
                {"--device three", NULL}};
    char json[TEST_PATH];
    char arguments[512];
    test_text_write(
        test_folder_path(json, "two.json"),
        "{\"schema\":\"tandem-bench/1\",\"devices\":[{\"name\":\"One\",\"selector\":\"x/y/"
        "One\"},{\"name\":\"Two\",\"selector\":\"x/y/Two\"}],\"results\":[]}",
        0600);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(arguments, sizeof arguments, "report --from %s --html - %s", json, rows[i].device);
        test_program_result result =
            test_program_run(bench_program, arguments, NULL, BENCH_PATIENCE_S);
        assert_int_equal(result.exit_code, rows[i].title == NULL ? 3 : 0);
        if (rows[i].title != NULL)
            assert_non_null(strstr(result.output, rows[i].title));
        else
            assert_non_null(strstr(result.errors, "has no device 'three'"));
        test_program_release(&result);
    }
    static const char *const measuring[] = {"suite gemm", "json -", "seconds 9", "quick"};
    for (size_t i = 0; i < sizeof measuring / sizeof *measuring; i++) {
        snprintf(arguments, sizeof arguments, "report --from %s --html - --%s", json, measuring[i]);
        test_program_result result =
            test_program_run(bench_program, arguments, NULL, BENCH_PATIENCE_S);
        assert_int_equal(result.exit_code, 2);
        assert_non_null(strstr(result.errors, "--from measures nothing"));
        test_program_release(&result);
    }
}

/* Returns 1 if the process has a child. */
static int has_child(pid_t process) {
    char path[64];
    char line[32] = "";
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)process, (int)process);
    FILE *const file = fopen(path, "r");
    assert_non_null(file);
    const int found = fgets(line, sizeof line, file) != NULL;
    fclose(file);
    return found;
}

static pid_t start_report(const char *json, const char *html) {
    const pid_t process = fork();
    assert_true(process >= 0);
    if (process > 0)
        return process;
    execl(bench_program, bench_program, "report", "--quick", "--suite", "compute", "--device",
          bench_selector(), "--json", json, "--html", html, (char *)NULL);
    _exit(127);
}

/* No files and no processes may be left. This process adopts orphaned processes, so it would see
 * them. */
TEST_WITH(an_interrupted_report_leaves_nothing, test_folder_make, test_folder_remove_empty) {
    char json[TEST_PATH];
    char html[TEST_PATH];
    const struct timespec pause = {.tv_nsec = 10000000};
    const time_t deadline = time(NULL) + BENCH_PATIENCE_S * test_time_factor();
    int ended = 0;
    test_folder_path(json, "r.json");
    test_folder_path(html, "r.html");
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    const pid_t process = start_report(json, html);
    while (!has_child(process) && time(NULL) < deadline)
        nanosleep(&pause, NULL);
    kill(process, SIGTERM);
    for (pid_t each = 0; each >= 0 && time(NULL) < deadline; ended += each > 0) {
        each = waitpid(-1, NULL, WNOHANG);
        if (each == 0)
            nanosleep(&pause, NULL);
    }
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_true(ended >= 2); /* the report and its suite */
    assert_int_equal(test_folder_count(test_folder()), 0);
}

TEST_MAIN(NULL, NULL)
