/* `tandem report` runs all benchmark suites on a device, and writes a results file and a page. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <tandem/tandem.h>

#include "bench/analysis/main_memory.h"
#include "bench/bench_commands.h"
#include "bench/harness/bench_runner.h"
#include "bench/harness/bench_settings.h"
#include "bench/record/results_json.h"
#include "bench/report/report_parts.h"
#include "bench/report/report_suite.h"
#include "common/command/cli_options.h"
#include "common/command/device_pick.h"
#include "common/command/standard_streams.h"

static const char command_name[] = "tandem report";

typedef struct report_options {
    const char *device;
    const char *from;
    const char *json;
    const char *html;
    const char *suites; /* comma-separated; NULL: all */
    double budget_s;    /* limit for all suites together; 0: the default */
    int quick;
} report_options;

static int fail(const char *text) {
    fprintf(stderr, "%s: %s\n", command_name, text);
    return CLI_EXIT_FAILED;
}

/* ---- measuring: each suite runs once, in its share of the time ------------------------------- */

/*
 * The time limits are for all suites together, without and with --quick. reserve_s is left for
 * writing the page and for the case that is running when the time is over. least_budget_s is the
 * least limit of a suite.
 */
static const double full_budget_s = 300;
static const double quick_budget_s = 55;
static const double reserve_s = 3;
static const double least_budget_s = 1;

typedef struct report_run {
    const report_options *options;
    cJSON *root;    /* the first suite's document */
    cJSON *results; /* the rows of all suites */
    cJSON *steps;
    int device; /* index of the device */
    int failures;
    int missing;       /* rows that were skipped because the time was over */
    double others;     /* largest fraction of the processors' time that other programs used */
    double deadline_s; /* time by bench_now after which no case begins */
    double expected_s; /* sum for all selected suites, from report_suites */
    double done_s;     /* the part of expected_s that is done */
} report_run;

/* Adds the members of the document's environment that run->root does not have yet. */
static void merge_environment(report_run *run, const cJSON *document) {
    cJSON *const known = cJSON_GetObjectItemCaseSensitive(run->root, "environment");
    cJSON *const offered = cJSON_GetObjectItemCaseSensitive(document, "environment");
    cJSON *item = offered == NULL ? NULL : offered->child;
    while (known != NULL && item != NULL && known != offered) {
        cJSON *const next = item->next;
        if (!cJSON_HasObjectItem(known, item->string)) {
            cJSON *const moved = cJSON_DetachItemViaPointer(offered, item);
            cJSON_AddItemToObject(known, moved->string, moved);
        }
        item = next;
    }
}

static void note_others(report_run *run, const cJSON *document) {
    const cJSON *const environment = cJSON_GetObjectItemCaseSensitive(document, "environment");
    const cJSON *const others = cJSON_GetObjectItemCaseSensitive(environment, "others_of_run");
    if (cJSON_IsNumber(others))
        run->others = fmax(run->others, others->valuedouble);
}

/* Counts the rows whose member `name` is a text that begins with `start`. */
static int count_rows(const cJSON *rows, const char *name, const char *start) {
    const cJSON *row = NULL;
    int count = 0;
    cJSON_ArrayForEach(row, rows) {
        const char *const text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(row, name));
        count += text != NULL && strncmp(text, start, strlen(start)) == 0;
    }
    return count;
}

static void add_step(report_run *run, const report_suite *suite, const suite_outcome *outcome) {
    cJSON *const step = cJSON_CreateObject();
    results_put_text(step, "suite", suite->name);
    results_put_text(step, "command", outcome->command);
    cJSON_AddNumberToObject(step, "exit", outcome->exit_code);
    results_put_number(step, "seconds", outcome->seconds);
    cJSON_AddItemToArray(run->steps, step);
}

static void take_outcome(report_run *run, const report_suite *suite, suite_outcome *outcome) {
    cJSON *const rows = cJSON_DetachItemFromObjectCaseSensitive(outcome->document, "results");
    const int missing = count_rows(rows, "reason", bench_time_is_over);
    add_step(run, suite, outcome);
    run->missing += missing;
    /* A suite that ran out of time has not failed, even if it measured nothing of Tandem. */
    if (outcome->exit_code != 0 && (missing == 0 || count_rows(rows, "status", "failed") > 0)) {
        run->failures++;
        progress_clear();
        fprintf(stderr, "%s: %s failed\n", command_name, outcome->command);
    }
    while (rows != NULL && rows->child != NULL)
        cJSON_AddItemToArray(run->results, cJSON_DetachItemViaPointer(rows, rows->child));
    cJSON_Delete(rows);
    note_others(run, outcome->document);
    if (run->root == NULL) {
        run->root = outcome->document;
        outcome->document = NULL;
    } else {
        merge_environment(run, outcome->document);
    }
    report_suite_release(outcome);
}

/* Returns the expected duration of a suite, or 0 if it is not selected. */
static double expected_seconds(const report_options *options, const report_suite *suite) {
    if (options->suites != NULL && !cli_list_has(options->suites, suite->name))
        return 0;
    return options->quick ? suite->quick_seconds : suite->seconds;
}

/* The remaining time is divided among the remaining suites in proportion to their expected
 * times. */
static void run_suite(report_run *run, const report_suite *suite) {
    suite_outcome outcome;
    const double expected = expected_seconds(run->options, suite);
    const double share = expected / (run->expected_s - run->done_s);
    const suite_task task = {.device = run->device,
                             .quick = run->options->quick,
                             .budget_s =
                                 fmax(least_budget_s, share * (run->deadline_s - bench_now()))};
    progress_show((int)(100 * run->done_s / run->expected_s), 100, "%s", suite->name);
    report_suite_run(suite, &task, &outcome);
    run->done_s += expected;
    take_outcome(run, suite, &outcome);
}

static int run_suites(report_run *run) {
    const double usual = run->options->quick ? quick_budget_s : full_budget_s;
    const double budget = run->options->budget_s > 0 ? run->options->budget_s : usual;
    run->deadline_s = bench_now() + fmax(0, budget - reserve_s);
    for (int i = 0; i < report_suite_count; i++)
        run->expected_s += expected_seconds(run->options, &report_suites[i]);
    for (int i = 0; i < report_suite_count; i++)
        if (expected_seconds(run->options, &report_suites[i]) > 0)
            run_suite(run, &report_suites[i]);
    progress_clear();
    if (run->missing > 0)
        fprintf(stderr, "%s: rows skipped for lack of time: %d; increase --seconds\n", command_name,
                run->missing);
    if (run->root != NULL)
        return CLI_EXIT_OK;
    fprintf(stderr, "%s: no suite produced results\n", command_name);
    return CLI_EXIT_FAILED;
}

/* Merges the suites' documents into one. */
static void finish_document(report_run *run) {
    cJSON *const environment = cJSON_GetObjectItemCaseSensitive(run->root, "environment");
    cJSON_ReplaceItemInObjectCaseSensitive(run->root, "schema",
                                           cJSON_CreateString("tandem-report/1"));
    /* The array "suites" holds the command of each suite. */
    cJSON_ReplaceItemInObjectCaseSensitive(run->root, "command", command_line_json());
    cJSON_DeleteItemFromObjectCaseSensitive(environment, "others_of_run");
    results_put_number(environment, "others_of_run", run->others);
    cJSON_AddItemToObject(run->root, "results", run->results);
    cJSON_AddItemToObject(run->root, "suites", run->steps);
    run->results = run->steps = NULL;
}

/* Runs the suites. On return, *root has the schema tandem-report/1 and belongs to the caller, or is
 * NULL. *failures counts failed suites. */
static int measure(const report_options *options, cJSON **root, int *failures) {
    report_run run = {.options = options, .others = NAN};
    tdm_context *context = NULL;
    tdm_device_info info;
    int code = device_pick(command_name, options->device, &context, &run.device, &info);
    if (code != CLI_EXIT_OK)
        return code;
    tdm_context_destroy(context);
    run.results = cJSON_CreateArray();
    run.steps = cJSON_CreateArray();
    code = run_suites(&run);
    if (run.root != NULL)
        finish_document(&run);
    cJSON_Delete(run.results);
    cJSON_Delete(run.steps);
    *root = run.root;
    *failures = run.failures;
    return code;
}

/* ---- the command ----------------------------------------------------------------------------- */

/* Prints the names of the written files, on stderr if a result went to stdout. */
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

/* The page is made from the text of the results file. It therefore shows what a reader of the file
 * gets. */
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
    int code = measure(options, &root, &failures);
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

/* Writes the names of the suites into `text`, separated by '|'. */
static void list_suites(char *text, size_t size) {
    text[0] = '\0';
    for (int i = 0; i < report_suite_count; i++)
        if (i == 0 || strcmp(report_suites[i].name, report_suites[i - 1].name) != 0)
            text_append(text, size, "|", "%s", report_suites[i].name);
}

int report_command(int argc, char **argv) {
    report_options given = {.html = "tandem-report.html"};
    char suites[256];
    list_suites(suites, sizeof suites);
    const cli_option options[] = {
        CLI_DEVICE_OPTION(&given.device),
        {"suite", CLI_CHOICES, &given.suites, "LIST", "suites to run; all by default", suites, 0,
         0},
        {"from", CLI_TEXT, &given.from, "FILE",
         "measure nothing: write the page of this results file, for the device of --device", NULL,
         0, 0},
        {"json", CLI_TEXT, &given.json, "FILE",
         "results file, - for stdout; tandem-report.json by default", NULL, 0, 0},
        {"html", CLI_TEXT, &given.html, "FILE",
         "HTML page, - for stdout; tandem-report.html by default", NULL, 0, 0},
        {"seconds", CLI_NUMBER, &given.budget_s, "SECONDS",
         "time limit of all suites together; 300 by default, 55 with --quick", NULL, 1, 1e6},
        BENCH_QUICK_OPTION(&given.quick),
    };
    const cli_command command = {
        .name = command_name,
        .summary = "measure a device with all suites: one results file and one HTML page",
        CLI_OPTIONS(options),
        .notes = "The suites are those of tandem bench; if one fails, the others continue. Rows "
                 "skipped for lack\n"
                 "of time are marked.",
    };
    const cli_outcome outcome = cli_parse(&command, argc, argv, NULL);
    if (outcome != CLI_RUN)
        return cli_exit_code(outcome);
    if (given.from != NULL &&
        (given.suites != NULL || given.json != NULL || given.budget_s > 0 || given.quick))
        return cli_refuse(command_name, "--from measures nothing: it cannot be combined with "
                                        "--suite, --json, --seconds or --quick");
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
