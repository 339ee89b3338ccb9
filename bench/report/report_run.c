#include "bench/report/report_run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <tandem/tandem.h>

#include "bench/harness/bench_runner.h"
#include "bench/record/results_json.h"
#include "bench/report/report_suite.h"
#include "common/command/cli_options.h"
#include "common/command/command_line.h"
#include "common/command/device_pick.h"
#include "common/command/progress.h"

static const char command_name[] = "tandem report";

/* The time of all suites together, and the rest that the page and the case at hand need when time is over. */
static const double full_budget_s = 300;
static const double quick_budget_s = 55;
static const double reserve_s = 3;
static const double least_budget_s = 1;

/* A suite whose time is over has the case at hand to end, and its rows to print. */
static const double suite_grace_s = 30;

typedef struct report_run {
    const report_options *options;
    cJSON *root;    /* the first suite's document */
    cJSON *results; /* the rows of all suites */
    cJSON *steps;
    int device; /* its index */
    int failures;
    int missing;       /* rows that there was no time for */
    double others;     /* the greatest share of the processors' time that other programs took */
    double deadline_s; /* of bench_now: of all suites */
    double expected_s; /* of all suites, by their rows */
    double done_s;     /* the part of it that is done */
    const report_suite *present;
} report_run;

/* Add the facts that an earlier suite's environment lacks. */
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

/* Rows with a member that begins so. */
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
    results_put_text(step, "message", outcome->exit_code == 0 ? NULL : outcome->message);
    cJSON_AddItemToArray(run->steps, step);
}

static void take_outcome(report_run *run, const report_suite *suite, suite_outcome *outcome) {
    cJSON *const rows = cJSON_DetachItemFromObjectCaseSensitive(outcome->document, "results");
    const int missing = count_rows(rows, "reason", bench_time_is_over);
    add_step(run, suite, outcome);
    run->missing += missing;
    /* A suite that there was no time for has not failed, though it measured nothing of Tandem. */
    if (outcome->exit_code != 0 && (missing == 0 || count_rows(rows, "status", "failed") > 0)) {
        run->failures++;
        progress_clear();
        fprintf(stderr, "%s: %s failed: %s\n", command_name, outcome->command,
                outcome->message[0] == '\0' ? "no reason given" : outcome->message);
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

/* 0: it is not wanted. */
static double expected_seconds(const report_options *options, const report_suite *suite) {
    if (options->suites != NULL && !cli_list_has(options->suites, suite->name))
        return 0;
    return options->quick ? suite->quick_seconds : suite->seconds;
}

static void show_progress(void *user, double seconds) {
    const report_run *const run = user;
    const double expected = expected_seconds(run->options, run->present);
    const double done = run->done_s + fmin(expected, seconds);
    progress_bar(done / run->expected_s,
                 fmin(run->expected_s - done, run->deadline_s - bench_now()), run->present->name);
}

/* A suite's share of the time that is left is by the time that it and those behind it are expected to take. */
static void run_suite(report_run *run, const report_suite *suite) {
    suite_outcome outcome;
    const double expected = expected_seconds(run->options, suite);
    const double share = expected / (run->expected_s - run->done_s);
    const suite_task task = {.device = run->device,
                             .quick = run->options->quick,
                             .budget_s =
                                 fmax(least_budget_s, share * (run->deadline_s - bench_now())),
                             .grace_s = suite_grace_s,
                             .watcher = show_progress,
                             .user = run};
    run->present = suite;
    show_progress(run, 0);
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
        fprintf(stderr, "%s: rows without time: %d; --seconds gives more\n", command_name,
                run->missing);
    if (run->root != NULL)
        return CLI_EXIT_OK;
    fprintf(stderr, "%s: no suite gave a result\n", command_name);
    return CLI_EXIT_FAILED;
}

/* Make one document of the suites' ones. */
static void finish_document(report_run *run) {
    cJSON *const environment = cJSON_GetObjectItemCaseSensitive(run->root, "environment");
    cJSON_ReplaceItemInObjectCaseSensitive(run->root, "schema",
                                           cJSON_CreateString("tandem-report/1"));
    /* Each suite's own command stands in "suites". */
    cJSON_ReplaceItemInObjectCaseSensitive(run->root, "command", command_line_json());
    cJSON_DeleteItemFromObjectCaseSensitive(environment, "others_of_run");
    results_put_number(environment, "others_of_run", run->others);
    cJSON_AddItemToObject(run->root, "results", run->results);
    cJSON_AddItemToObject(run->root, "suites", run->steps);
    run->results = run->steps = NULL;
}

int report_measure(const report_options *options, cJSON **root, int *failures) {
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
