/* `tandem report`: everything the program measures of a device, as one results file and one page. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "bench/bench_commands.h"
#include "bench/harness/bench_settings.h"
#include "bench/record/results_json.h"
#include "bench/report/report_page.h"
#include "bench/report/report_run.h"
#include "common/command/device_pick.h"
#include "formats/output_file.h"

static const char command_name[] = "tandem report";

typedef struct report_options {
    const char *device;
    const char *from;
    const char *json;
    const char *html;
    const char *suites;
    double budget_s; /* of all suites together; 0: the default */
    int quick;
} report_options;

static int fail(const char *text) {
    fprintf(stderr, "%s: %s\n", command_name, text);
    return CLI_EXIT_FAILED;
}

/* The page in memory, so that a file of it appears whole or not at all. */
static int write_page(const results_file *results, const char *path) {
    char *text = NULL;
    size_t length = 0;
    FILE *const page = open_memstream(&text, &length);
    if (page == NULL)
        return fail("out of memory");
    int failed = report_page_write(page, results) != 0 || ferror(page);
    failed |= fclose(page) != 0;
    int code = CLI_EXIT_OK;
    if (failed)
        code = fail("out of memory");
    else if (results_write_text(command_name, path, text, length) != 0)
        code = CLI_EXIT_FAILED;
    free(text);
    return code;
}

/* The files that were written, where nothing else is printed. */
static void tell_files(const char *json, const char *html) {
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
        if (write_page(&results, options->html) != CLI_EXIT_OK)
            code = CLI_EXIT_FAILED;
        results_file_release(&results);
    }
    free(text);
    return code;
}

static int report_measured(const report_options *options) {
    report_result result;
    if (results_check_path(command_name, options->json) != 0 ||
        results_check_path(command_name, options->html) != 0)
        return CLI_EXIT_FAILED;
    const report_request request = {.device = options->device,
                                    .suites = options->suites,
                                    .budget_s = options->budget_s,
                                    .quick = options->quick};
    int code = report_measure(&request, &result);
    if (code == CLI_EXIT_OK)
        code = publish(options, result.root);
    if (code == CLI_EXIT_OK && result.failures > 0)
        code = CLI_EXIT_FAILED;
    if (code == CLI_EXIT_OK)
        tell_files(options->json, options->html);
    cJSON_Delete(result.root);
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
        code = write_page(&results, options->html);
    results_file_release(&results);
    if (code == CLI_EXIT_OK)
        tell_files(NULL, options->html);
    return code;
}

/* The first of those that were given, or NULL. */
static const char *option_of_measuring(const report_options *given) {
    const struct {
        int is_given;
        const char *name;
    } options[] = {
        {given->suites != NULL, "suite"},
        {given->json != NULL, "json"},
        {given->budget_s > 0, "seconds"},
        {given->quick != 0, "quick"},
    };
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (options[i].is_given)
            return options[i].name;
    return NULL;
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
        .notes =
            "The page loads nothing from elsewhere. The suites are those of tandem bench, whose "
            "command\n"
            "lines stand in the results file; where a suite fails the others go on. On a slow "
            "device each\n"
            "has its share of the time, and rows that did not come to their turn say so.",
    };
    const cli_outcome outcome = cli_parse(&command, argc, argv, NULL);
    if (outcome != CLI_RUN)
        return cli_exit_code(outcome);
    const char *const measures = given.from != NULL ? option_of_measuring(&given) : NULL;
    if (measures != NULL)
        return cli_refuse(command_name, "--%s does not go with --from, which measures nothing",
                          measures);
    if (given.json == NULL)
        given.json = "tandem-report.json";
    if (given.from == NULL && results_is_stdout(given.json) && results_is_stdout(given.html))
        return cli_refuse(command_name, "--json and --html are both '-': stdout takes one of them");
    if (given.from == NULL && results_would_replace(given.json, given.html))
        return cli_refuse(command_name, "--json does not take '%s': it is the page", given.json);
    return given.from != NULL ? report_from_file(&given) : report_measured(&given);
}
