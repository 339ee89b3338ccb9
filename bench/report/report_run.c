#include "bench/report/report_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <tandem/tandem.h>

#include "bench/harness/bench_runner.h"
#include "bench/record/bench_statistics.h"
#include "bench/record/machine_busy.h"
#include "bench/record/results_json.h"
#include "bench/report/report_suites.h"
#include "bench/report/report_visits.h"
#include "bench/suites/bench_memory.h"
#include "common/cli_options.h"
#include "common/command_line.h"
#include "common/device_pick.h"
#include "common/plural.h"
#include "common/progress.h"

static const char command_name[] = "tandem report";

/* What all suites together may take, and what is left beside them for the page and for the case at hand when time is over. */
static const double full_budget_s = 300;
static const double quick_budget_s = 55;
static const double reserve_s = 3;
static const double least_budget_s = 1;

/* Of each sustained case. */
static const double usual_sustain_s = 4;

enum {
    SUSTAINED_CASES = 3,
    FULL_VISITS = 5,
    QUICK_VISITS = 1
};

/* A visit of a suite may take so many times what the one before took. */
static const double visit_margin = 1.15;

/* A suite has settled when no more of its rows became shorter by a visit. */
static const double settled_share = 0.05;

/* A suite whose time is over has the case at hand to end, and its rows to print. */
static const double suite_grace_s = 30;

/* Less is no use to a suite that goes on: it has workers to start and kernels to build. */
static const double least_continued_s = 2;

/* A suite's part of the report. */
typedef struct report_part {
    cJSON *rows;        /* of all its visits */
    double taken_s;     /* by its last visit, with what continued it */
    double moved;       /* share of its rows that the last visit made shorter */
    double misplaced;   /* share of its rows that were never met in the report's placement */
    double slowed;      /* share of its rows that only met a slow clock or a shared core */
    int missing;        /* rows that there was no time for */
    int64_t unfinished; /* the case that its first visit is to be continued with; -1: none */
    int unfinished_row; /* and that case's first row */
    double vain_s;      /* so much time was not enough to finish that case; 0: not known */
    int wanted;
} report_part;

typedef struct report_run {
    const report_request *request;
    cJSON *root; /* the first suite's document */
    cJSON *steps;
    report_part parts[REPORT_MAX_SUITES];
    int device;     /* its index */
    int visits;     /* at most */
    int visit;      /* from 0 */
    int continuing; /* a suite's first visit, at the case that was not finished */
    int failures;
    double deadline_s; /* of bench_now: of all suites */
    double expected_s; /* of what is to be done, as the suites' rows say */
    double done_s;     /* the part of it that is done */
    double taken_s;    /* what that part took */
    const report_suite *present;
} report_run;

/* Facts that an earlier suite's environment lacks. */
static void merge_environment(const cJSON *into, cJSON *from) {
    cJSON *const known = cJSON_GetObjectItemCaseSensitive(into, "environment");
    cJSON *const offered = cJSON_GetObjectItemCaseSensitive(from, "environment");
    cJSON *item = offered == NULL ? NULL : offered->child;
    while (known != NULL && item != NULL) {
        cJSON *const next = item->next;
        if (!cJSON_HasObjectItem(known, item->string)) {
            cJSON *const moved = cJSON_DetachItemViaPointer(offered, item);
            cJSON_AddItemToObject(known, moved->string, moved);
        }
        item = next;
    }
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

/* A suite that there was no time for has not failed, though it measured nothing of Tandem. */
static int has_failed(const suite_outcome *outcome) {
    const cJSON *const rows = cJSON_GetObjectItemCaseSensitive(outcome->document, "results");
    return outcome->exit_code != 0 && (count_rows(rows, "reason", bench_time_is_over) == 0 ||
                                       count_rows(rows, "status", "failed") > 0);
}

static void add_step(const report_run *run, const report_suite *suite, const suite_task *task,
                     const suite_outcome *outcome) {
    const cJSON *const rows = cJSON_GetObjectItemCaseSensitive(outcome->document, "results");
    cJSON *const step = cJSON_CreateObject();
    results_put_text(step, "suite", suite->name);
    cJSON_AddNumberToObject(step, "visit", run->visit + 1);
    results_put_text(step, "command", outcome->command);
    cJSON_AddNumberToObject(step, "exit", outcome->exit_code);
    results_put_number(step, "seconds", outcome->seconds);
    results_put_number(step, "budget_s", task->budget_s);
    cJSON_AddNumberToObject(step, "rows_without_time",
                            count_rows(rows, "reason", bench_time_is_over));
    results_put_text(step, "message", outcome->exit_code == 0 ? NULL : outcome->message);
    cJSON_AddItemToArray(run->steps, step);
}

/* The rows from the case on that was not finished give way to those that went on there. */
static void continue_rows(const report_part *part, cJSON *rows) {
    while (cJSON_GetArraySize(part->rows) > part->unfinished_row)
        cJSON_DeleteItemFromArray(part->rows, cJSON_GetArraySize(part->rows) - 1);
    while (rows->child != NULL)
        cJSON_AddItemToArray(part->rows, cJSON_DetachItemViaPointer(rows, rows->child));
}

static double number_of(const cJSON *object, const char *key) {
    const cJSON *const item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsNumber(item) ? item->valuedouble : -1;
}

/* Where a suite's first visit is to go on. Its rows stand behind so many others. */
static void take_unfinished(report_part *part, const suite_task *task, suite_outcome *outcome,
                            int rows_before) {
    cJSON *const unfinished =
        cJSON_DetachItemFromObjectCaseSensitive(outcome->document, "unfinished");
    const int64_t before = part->unfinished;
    part->unfinished = (int64_t)number_of(unfinished, "case");
    part->unfinished_row = rows_before + (int)fmax(0, number_of(unfinished, "row"));
    part->vain_s = part->unfinished > before ? 0 : task->budget_s;
    cJSON_Delete(unfinished);
}

static void take_rows(report_run *run, report_part *part, const suite_task *task,
                      suite_outcome *outcome) {
    cJSON *const rows = cJSON_DetachItemFromObjectCaseSensitive(outcome->document, "results");
    if (rows == NULL) {
        part->vain_s = task->budget_s;
        return;
    }
    if (run->continuing)
        continue_rows(part, rows);
    else if (part->rows != NULL)
        part->moved = report_visits_merge(part->rows, rows);
    if (run->visit == 0)
        take_unfinished(part, task, outcome, run->continuing ? part->unfinished_row : 0);
    if (part->rows == NULL)
        part->rows = rows;
    else
        cJSON_Delete(rows);
    part->missing = count_rows(part->rows, "reason", bench_time_is_over);
}

static void take_outcome(report_run *run, const report_suite *suite, const suite_task *task,
                         suite_outcome *outcome) {
    report_part *const part = &run->parts[suite - report_suites];
    add_step(run, suite, task, outcome);
    if (has_failed(outcome)) {
        run->failures++;
        progress_clear();
        fprintf(stderr, "%s: %s failed: %s\n", command_name, outcome->command,
                outcome->message[0] == '\0' ? "no reason given" : outcome->message);
    }
    part->taken_s = outcome->seconds + (run->continuing ? part->taken_s : 0);
    take_rows(run, part, task, outcome);
    if (run->root == NULL) {
        run->root = outcome->document;
        outcome->document = NULL;
    } else if (outcome->document != NULL) {
        merge_environment(run->root, outcome->document);
    }
    report_suite_release(outcome);
}

static int is_wanted(const report_request *request, const report_suite *suite) {
    const int given = request->quick ? suite->quick[0] != NULL : 1;
    return given && (request->suites == NULL || cli_list_has(request->suites, suite->name));
}

static double sustain_seconds(const report_request *request) {
    return request->sustain_s > 0 ? request->sustain_s : usual_sustain_s;
}

/* What a suite takes beyond its row's seconds where cases are sustained for longer than usual; negative for shorter. */
static double added_seconds(const report_request *request, const report_suite *suite) {
    if (suite->kind != SUITE_SUSTAINED)
        return 0;
    return SUSTAINED_CASES * (sustain_seconds(request) - usual_sustain_s);
}

static double expected_seconds(const report_run *run, const report_suite *suite) {
    if (run->request->quick)
        return suite->quick_seconds;
    return suite->seconds + added_seconds(run->request, suite);
}

/* The suites done so far say how fast this machine is beside the one that the rows' seconds are of. */
static void show_progress(void *user, double seconds) {
    const report_run *const run = user;
    const double expected = expected_seconds(run, run->present);
    const double slowness = run->done_s > 0 ? run->taken_s / run->done_s : 1;
    const double done = run->done_s + fmin(expected, seconds / slowness);
    const double taken = run->taken_s + seconds;
    const double left =
        fmax(0, fmin(slowness * (run->expected_s - done), run->deadline_s - bench_now()));
    progress_bar(taken / (taken + left), left, run->present->name);
}

/* Of suites from this one on in a visit. */
static double expected_from(const report_run *run, int first) {
    double sum = 0;
    for (int i = first; i < report_suite_count; i++)
        sum += run->parts[i].wanted && (run->visit == 0 || report_suites[i].kind != SUITE_SUSTAINED)
                   ? expected_seconds(run, &report_suites[i])
                   : 0;
    return sum;
}

/* About what a suite would take for the rows that it had no time for. */
static double unfinished_seconds(const report_part *part) {
    const int done = cJSON_GetArraySize(part->rows) - part->missing;
    return part->unfinished < 0 ? 0 : part->taken_s * part->missing / fmax(1, done);
}

/* A share of the time that is left, among the suites from this one on that are to be continued. */
static double budget_to_continue(const report_run *run, int number) {
    const double left = run->deadline_s - bench_now();
    double sum = 0;
    for (int i = number; i < report_suite_count; i++)
        sum += unfinished_seconds(&run->parts[i]);
    return fmin(left, fmax(least_continued_s,
                           left * unfinished_seconds(&run->parts[number]) / fmax(sum, 1e-9)));
}

/* A suite's share of the time that is left: by what it and those behind it are expected to take; a later visit is known to be short. */
static double budget_of(const report_run *run, int number) {
    const double left = run->deadline_s - bench_now();
    if (run->continuing)
        return budget_to_continue(run, number);
    const double share =
        run->visit > 0 ? 1
                       : expected_seconds(run, &report_suites[number]) / expected_from(run, number);
    return fmax(least_budget_s, share * left);
}

static void run_suite(report_run *run, int number) {
    const report_suite *const suite = &report_suites[number];
    char forms[REPORT_FORMS_TEXT] = "";
    suite_outcome outcome;
    const suite_task task = {.device = run->device,
                             .quick = run->request->quick,
                             .visited = run->visits > 1,
                             .sustained_s = sustain_seconds(run->request),
                             .begin = run->continuing ? run->parts[number].unfinished : 0,
                             .forms = forms,
                             .budget_s = budget_of(run, number),
                             .grace_s = suite_grace_s,
                             .watcher = show_progress,
                             .user = run};
    if ((run->visit > 0 || run->continuing) && suite->kind == SUITE_FINDS_FORMS)
        report_visits_forms(run->parts[number].rows, forms, sizeof forms);
    run->present = suite;
    show_progress(run, 0);
    report_suite_run(suite, &task, &outcome);
    run->done_s += run->continuing ? 0 : expected_seconds(run, suite);
    run->taken_s += outcome.seconds;
    take_outcome(run, suite, &task, &outcome);
}

/* Rows that the report's placement, or its pace, has not met yet. */
static double unmet_share(const report_part *part) {
    return fmax(part->misplaced, part->slowed);
}

/* Later visits are of suites that had time for all their rows, have not settled, and end within what is left. */
static int is_due(const report_run *run, int number) {
    const report_part *const part = &run->parts[number];
    if (!part->wanted || run->visit == 0)
        return part->wanted;
    return report_suites[number].kind != SUITE_SUSTAINED && part->rows != NULL &&
           part->missing == 0 && fmax(part->moved, unmet_share(part)) > settled_share &&
           visit_margin * part->taken_s <= run->deadline_s - bench_now();
}

/* Where the processors were when most rows were measured; NaN: not known. */
static processor_state placement_of_run(const report_run *run) {
    sample_series handovers = {.count = 0};
    sample_series works = {.count = 0};
    for (int i = 0; i < report_suite_count; i++)
        if (run->parts[i].rows != NULL)
            report_visits_placements(run->parts[i].rows, &handovers, &works);
    const processor_state medians = {summarize_samples(handovers.values, handovers.count).median,
                                     summarize_samples(works.values, works.count).median, NAN};
    series_release(&handovers);
    series_release(&works);
    return medians;
}

/* As those of pace_record of placement_watch.h. */
static report_pace best_pace_of_run(const report_run *run) {
    sample_series chains = {.count = 0};
    sample_series crowding = {.count = 0};
    for (int i = 0; i < report_suite_count; i++)
        if (run->parts[i].rows != NULL)
            report_visits_paces(run->parts[i].rows, &chains, &crowding);
    const report_pace best = {summarize_samples(chains.values, chains.count).p5,
                              summarize_samples(crowding.values, crowding.count).p5};
    series_release(&chains);
    series_release(&crowding);
    return best;
}

static void note_conditions(report_run *run) {
    const processor_state placement = placement_of_run(run);
    const report_pace best = best_pace_of_run(run);
    for (int i = 0; i < report_suite_count; i++) {
        report_part *const part = &run->parts[i];
        if (part->rows == NULL)
            continue;
        part->misplaced = report_visits_misplaced(part->rows, placement);
        part->slowed = report_visits_slowed(part->rows, best);
    }
}

/* Rows that another visit may better, for each second that it takes; what shortens them is known when they were visited twice. */
static double gain_of(const report_run *run, int number) {
    const report_part *const part = &run->parts[number];
    const double unmet = unmet_share(part);
    const double share = run->visit > 1 ? fmax(part->moved, unmet) : unmet;
    return share * cJSON_GetArraySize(part->rows) / fmax(part->taken_s, least_budget_s);
}

/* Those go first whose visits are worth most, and in their own order where none is worth more. */
static void order_suites(const report_run *run, int *order) {
    for (int i = 0; i < report_suite_count; i++) {
        const double own = gain_of(run, i);
        int place = i;
        for (; place > 0 && gain_of(run, order[place - 1]) < own; place--)
            order[place] = order[place - 1];
        order[place] = i;
    }
}

/* A case that was not finished in all of a suite's time is tried again with at least twice as much. */
static int may_continue(const report_run *run, int number) {
    const report_part *const part = &run->parts[number];
    return part->unfinished >= 0 && run->deadline_s - bench_now() >= least_continued_s &&
           budget_to_continue(run, number) >= 2 * part->vain_s;
}

/* Rows that there was no time for come before any row is measured again: what suites left of their shares is for them. */
static void continue_suites(report_run *run) {
    int continued = 1;
    run->continuing = 1;
    while (continued) {
        continued = 0;
        for (int i = 0; i < report_suite_count; i++) {
            if (!may_continue(run, i))
                continue;
            run_suite(run, i);
            continued = 1;
        }
    }
    run->continuing = 0;
}

static void run_visit(report_run *run) {
    int order[REPORT_MAX_SUITES];
    order_suites(run, order);
    for (int i = 0; i < report_suite_count; i++)
        if (is_due(run, order[i]))
            run_suite(run, order[i]);
    if (run->visit == 0)
        continue_suites(run);
    note_conditions(run);
}

static double whole_budget(const report_request *request) {
    double added = 0;
    if (request->budget_s > 0)
        return request->budget_s;
    if (request->quick)
        return quick_budget_s;
    for (int i = 0; i < report_suite_count; i++)
        added +=
            is_wanted(request, &report_suites[i]) ? added_seconds(request, &report_suites[i]) : 0;
    return full_budget_s + fmax(0, added);
}

static int run_suites(report_run *run) {
    int missing = 0;
    run->deadline_s = bench_now() + fmax(0, whole_budget(run->request) - reserve_s);
    for (int i = 0; i < report_suite_count; i++)
        run->parts[i] = (report_part){
            .wanted = is_wanted(run->request, &report_suites[i]), .moved = 1, .unfinished = -1};
    for (run->visit = 0; run->visit < run->visits; run->visit++)
        run->expected_s += expected_from(run, 0);
    for (run->visit = 0; run->visit < run->visits; run->visit++)
        run_visit(run);
    progress_clear();
    for (int i = 0; i < report_suite_count; i++)
        missing += run->parts[i].missing;
    if (missing > 0)
        fprintf(stderr, "%s: there was no time for %d row%s, which %s so; --seconds gives more\n",
                command_name, missing, plural_s((size_t)missing), missing == 1 ? "says" : "say");
    if (run->root != NULL)
        return CLI_EXIT_OK;
    fprintf(stderr, "%s: no suite gave a result\n", command_name);
    return CLI_EXIT_FAILED;
}

/* All suites' rows in the order of the suites. */
static void join_rows(report_run *run) {
    const processor_state placement = placement_of_run(run);
    cJSON *const all = cJSON_AddArrayToObject(run->root, "results");
    for (int i = 0; i < report_suite_count; i++) {
        cJSON *const rows = run->parts[i].rows;
        if (rows == NULL)
            continue;
        report_visits_place(rows, placement);
        report_visits_finish(rows);
        while (rows->child != NULL)
            cJSON_AddItemToArray(all, cJSON_DetachItemViaPointer(rows, rows->child));
    }
}

/* What bare loops read from memory in the first visit and in the last one: another guest of the machine shows there. */
static void tell_reference(const report_run *run) {
    cJSON *const environment = cJSON_GetObjectItemCaseSensitive(run->root, "environment");
    const cJSON *const rows = cJSON_GetObjectItemCaseSensitive(run->root, "results");
    const cJSON *row = NULL;
    cJSON_ArrayForEach(row, rows) {
        double first = NAN;
        double last = NAN;
        if (report_visits_reference(row, &first, &last) != 0)
            continue;
        results_put_number(environment, "stream_read_gbs_start", first);
        results_put_number(environment, "stream_read_gbs_end", last);
        return;
    }
}

/* A suite's document tells of the levels that its own visit saw. */
static void tell_levels(const report_run *run, const tdm_device_info *info) {
    cJSON *const environment = cJSON_GetObjectItemCaseSensitive(run->root, "environment");
    const cache_hints hints = memory_cache_hints(info);
    char text[256];
    report_visits_levels(cJSON_GetObjectItemCaseSensitive(run->root, "results"), &hints, text,
                         sizeof text);
    if (text[0] == '\0')
        return;
    cJSON_DeleteItemFromObjectCaseSensitive(environment, "cache_levels");
    results_put_text(environment, "cache_levels", text);
}

/* What a suite said of its own time is told for all of them. */
static void tell_time(const report_run *run, const machine_use *used) {
    cJSON *const environment = cJSON_GetObjectItemCaseSensitive(run->root, "environment");
    const machine_use use = machine_use_now();
    cJSON_DeleteItemFromObjectCaseSensitive(environment, "others_of_run");
    results_put_number(environment, "others_of_run", machine_busy_share(used, &use));
}

int report_measure(const report_request *request, report_result *result) {
    report_run run = {.request = request, .visits = request->visits};
    if (run.visits == 0)
        run.visits = request->quick ? QUICK_VISITS : FULL_VISITS;
    const machine_use used = machine_use_now();
    tdm_context *context = NULL;
    tdm_device_info info;
    *result = (report_result){.root = NULL};
    int code = device_pick(command_name, request->device, &context, &run.device, &info);
    if (code != CLI_EXIT_OK)
        return code;
    tdm_context_destroy(context);
    run.steps = cJSON_CreateArray();
    code = run_suites(&run);
    if (run.root != NULL) {
        cJSON_ReplaceItemInObjectCaseSensitive(run.root, "schema",
                                               cJSON_CreateString("tandem-report/1"));
        /* Each suite's own stands in "suites". */
        cJSON_ReplaceItemInObjectCaseSensitive(run.root, "command", command_line_json());
        join_rows(&run);
        tell_reference(&run);
        tell_levels(&run, &info);
        results_put_number(cJSON_GetObjectItemCaseSensitive(run.root, "environment"), "visits",
                           run.visits);
        cJSON_AddItemToObject(run.root, "suites", run.steps);
        tell_time(&run, &used);
        run.steps = NULL;
    }
    for (int i = 0; i < report_suite_count; i++)
        cJSON_Delete(run.parts[i].rows);
    cJSON_Delete(run.steps);
    *result = (report_result){run.root, run.failures};
    return code;
}
