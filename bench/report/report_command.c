/* `tandem report`: everything the program measures of a device, as one results file and one page. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "bench/analysis/main_memory.h"
#include "bench/bench_commands.h"
#include "bench/harness/bench_settings.h"
#include "bench/record/results_json.h"
#include "bench/report/report_parts.h"
#include "bench/report/report_run.h"
#include "common/command/device_pick.h"

static const char command_name[] = "tandem report";

static int fail(const char *text) {
    fprintf(stderr, "%s: %s\n", command_name, text);
    return CLI_EXIT_FAILED;
}

/* Report the files that were written, where nothing else is printed. */
static void print_files(const char *json, const char *html) {
    const char *const names[] = {json, html};
    FILE *const out = results_is_stdout(json) || results_is_stdout(html) ? stderr : stdout;
    for (int i = 0; i < 2; i++) {
        if (names[i] != NULL && !results_is_stdout(names[i]))
            fprintf(out, "%s is written\n", names[i]);
    }
}

static int write_page(const report_options *options, const results_file *results, size_t device) {
    const report_device shown = {
        .file = results, .device = device, .sheet = main_memory_sheet(results, device)};
    return report_save_page(command_name, options->html, report_page_write, &shown);
}

/* The page is made from the file's own text: what it shows is what others can read. */
static int publish(const report_options *options, const cJSON *root) {
    results_file results;
    file_error error;
    char *const text = results_json_text(root);
    int code =
        results_write_json(root, command_name, options->json) == 0 ? CLI_EXIT_OK : CLI_EXIT_FAILED;
    if (text == NULL) {
        code = fail("out of memory");
    } else if (results_read_text(options->json, text, strlen(text), &results, &error) != 0) {
        code = fail(error.text);
    } else {
        const int page = write_page(options, &results, 0);
        code = code == CLI_EXIT_OK ? page : code;
        results_file_release(&results);
    }
    free(text);
    return code;
}

static int report_measured(const report_options *options) {
    cJSON *root = NULL;
    int failures = 0;
    int code = report_measure(options, &root, &failures);
    if (code == CLI_EXIT_OK)
        code = publish(options, root);
    if (code == CLI_EXIT_OK && failures > 0)
        code = CLI_EXIT_FAILED;
    cJSON_Delete(root);
    return code;
}

static int report_from_file(const report_options *options) {
    results_file results;
    file_error error;
    size_t device = 0;
    if (results_read(options->from, &results, &error) != 0)
        return fail(error.text);
    while (device < results.device_count &&
           !device_matches(options->device, (int)device,
                           results_get_text(results.devices[device], "selector")))
        device++;
    int code = CLI_EXIT_NO_DEVICE;
    if (device == results.device_count)
        fprintf(stderr, "%s: '%s' has no device '%s'\n", command_name, options->from,
                options->device);
    else
        code = write_page(options, &results, device);
    results_file_release(&results);
    return code;
}

int report_command(int argc, char **argv) {
    report_options given = {.html = "tandem-report.html"};
    const cli_option options[] = {
        CLI_DEVICE_OPTION(&given.device),
        {"suite", CLI_CHOICES, &given.suites, "LIST", "some of the suites; all by default",
         REPORT_SUITE_CHOICES, 0, 0},
        {"from", CLI_TEXT, &given.from, "FILE",
         "measure nothing: the page of this results file, of the device that --device names", NULL,
         0, 0},
        {"json", CLI_TEXT, &given.json, "FILE",
         "the results, - for stdout; tandem-report.json by default", NULL, 0, 0},
        {"html", CLI_TEXT, &given.html, "FILE",
         "the page, - for stdout; tandem-report.html by default", NULL, 0, 0},
        {"seconds", CLI_NUMBER, &given.budget_s, "SECONDS",
         "what the suites may take together; 300 by default, 55 of --quick", NULL, 1, 1e6},
        BENCH_QUICK_OPTION(&given.quick),
    };
    const cli_command command = {
        .name = command_name,
        .summary = "measure a device from all sides: one results file and one page",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .notes = "The suites are those of tandem bench; where one fails the others go on. Rows "
                 "that there was no time for say so.",
    };
    const cli_outcome outcome = cli_parse(&command, argc, argv, NULL);
    if (outcome != CLI_RUN)
        return cli_exit_code(outcome);
    if (given.from != NULL &&
        (given.suites != NULL || given.json != NULL || given.budget_s > 0 || given.quick))
        return cli_refuse(command_name, "--from measures nothing: --suite, --json, --seconds and "
                                        "--quick do not go with it");
    if (given.from == NULL && given.json == NULL)
        given.json = "tandem-report.json";
    int code =
        report_check_outputs(command_name, given.json, given.html, &given.from, given.from != NULL);
    if (code != CLI_EXIT_OK)
        return code;
    code = given.from != NULL ? report_from_file(&given) : report_measured(&given);
    if (code == CLI_EXIT_OK)
        print_files(given.json, given.html);
    return code;
}
