/* `tandem report`: everything the program measures of a device, as one results file and one page. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "bench/bench_commands.h"
#include "bench/harness/bench_settings.h"
#include "bench/record/results_json.h"
#include "bench/report/report_page.h"
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

/* The page is made from the file's own text: what it shows is what others can read. */
static int publish(const report_options *options, const cJSON *root) {
    results_file results;
    file_error error;
    char *const text = results_json_text(root);
    if (text == NULL)
        return fail("out of memory");
    int code = CLI_EXIT_OK;
    if (results_write_json(root, command_name, options->json) != 0)
        code = CLI_EXIT_FAILED;
    if (results_read_text(options->json, text, strlen(text), &results, &error) != 0) {
        code = fail(error.text);
    } else {
        if (report_save_page(command_name, options->html, report_page_write, &results) !=
            CLI_EXIT_OK)
            code = CLI_EXIT_FAILED;
        results_file_release(&results);
    }
    free(text);
    return code;
}

static int report_measured(const report_options *options) {
    cJSON *root = NULL;
    int failures = 0;
    if (results_check_path(command_name, options->json) != 0 ||
        results_check_path(command_name, options->html) != 0)
        return CLI_EXIT_FAILED;
    int code = report_measure(options, &root, &failures);
    if (code == CLI_EXIT_OK)
        code = publish(options, root);
    if (code == CLI_EXIT_OK && failures > 0)
        code = CLI_EXIT_FAILED;
    if (code == CLI_EXIT_OK)
        print_files(options->json, options->html);
    cJSON_Delete(root);
    return code;
}

/* The device of the file that --device names, the first one by default; -1 where none is. */
static int choose_device(results_file *results, const char *selector) {
    for (size_t i = 0; i < results->device_count; i++) {
        tdm_device_info info = {.struct_size = sizeof info};
        const char *const own = results_fact_text(&results->devices[i], "selector");
        const char *const name = results_fact_text(&results->devices[i], "name");
        snprintf(info.selector, sizeof info.selector, "%s",
                 own != NULL    ? own
                 : name != NULL ? name
                                : "");
        if (!device_matches(selector, (int)i, &info))
            continue;
        results_put_first(results, i);
        return 0;
    }
    return -1;
}

static int report_from_file(const report_options *options) {
    if (results_would_replace(options->html, options->from))
        return cli_refuse(command_name, "--html does not take '%s': it is the results file",
                          options->html);
    results_file results;
    file_error error;
    if (results_check_path(command_name, options->html) != 0)
        return CLI_EXIT_FAILED;
    if (results_read(options->from, &results, &error) != 0)
        return fail(error.text);
    int code = CLI_EXIT_NO_DEVICE;
    if (choose_device(&results, options->device) != 0)
        fprintf(stderr, "%s: '%s' has no device '%s'\n", command_name, options->from,
                options->device);
    else
        code = report_save_page(command_name, options->html, report_page_write, &results);
    results_file_release(&results);
    if (code == CLI_EXIT_OK)
        print_files(NULL, options->html);
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
    if (given.from != NULL)
        return report_from_file(&given);
    if (given.json == NULL)
        given.json = "tandem-report.json";
    if (results_is_stdout(given.json) && results_is_stdout(given.html))
        return cli_refuse(command_name, "--json and --html are both '-': stdout takes one of them");
    if (results_would_replace(given.json, given.html))
        return cli_refuse(command_name, "--json does not take '%s': it is the page", given.json);
    return report_measured(&given);
}
