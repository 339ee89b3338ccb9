#include "bench/tune/tune_run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/command/progress.h"

enum {
    TUNE_PROCESSES = 3 /* two workers in the comparison, and the check */
};

/* Less than this is noise: the library's own choice stays. */
static const double least_gain = 0.02;

double tune_clock(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* What the callbacks of the search need. */
typedef struct tune_case {
    tune_run *run;
    const char *name;
    double deadline;
} tune_case;

static double seconds_left(void *user) {
    const tune_case *const own = user;
    return own->deadline - tune_clock();
}

static tune_verdict measure(void *user, const tdm_choice *choice, double limit, double *seconds) {
    const tune_case *const own = user;
    tune_bench *const bench = &own->run->bench;
    char text[TDM_CHOICE_TEXT];
    const tune_verdict verdict = tune_bench_measure(bench, choice, limit, seconds);
    if (verdict == TUNE_FAILED && own->run->notes != NULL) {
        progress_clear();
        fprintf(own->run->notes, "%s: %s: %s failed: %s\n", own->run->command, own->name,
                tdm_choice_write(choice, text), bench->reason.text);
    }
    return verdict;
}

static void show(void *user, const tune_search *search) {
    const tune_case *const own = user;
    char text[TDM_CHOICE_TEXT];
    if (search->best < 0)
        progress_show(own->run->number, own->run->total, "%s: %d tried", own->name, search->trials);
    else
        progress_show(own->run->number, own->run->total, "%s: %d tried, %.4g ms %s", own->name,
                      search->trials, 1e3 * search->seconds[search->best],
                      tdm_choice_write(&search->tried[search->best], text));
}

/* ---- the row --------------------------------------------------------------------------------------- */

static tdm_tuning_row row_of(const tune_run *run, const gemm_case *item) {
    return (tdm_tuning_row){.device = run->device,
                            .op = gemm_types_op(item->types),
                            .quantize_a = gemm_types_dynamic(item->types),
                            .allows_3xtf32 = gemm_types_allow_3xtf32(item->types),
                            .a = gemm_types_dtype(item->types, OP_GEMM_A),
                            .b = gemm_types_dtype(item->types, OP_GEMM_B),
                            .layout = tdm_tuning_layout(item->transpose_a, item->transpose_b),
                            .shape = {item->m, item->n, item->k, gemm_case_batch(item)}};
}

static int write_row(tune_run *run, const tdm_choice *choice, double seconds,
                     tune_outcome *outcome) {
    tdm_tuning_row row = row_of(run, &outcome->item);
    row.choice = *choice;
    row.ns = seconds * 1e9 < 1 ? 1 : (uint64_t)llround(seconds * 1e9);
    tdm_choice_write(choice, outcome->choice);
    return tune_file_put(run->file, &row);
}

/* What the library takes by itself, as a choice: a row that keeps it, and shows that the shape was tuned. */
static int own_choice(const char *text, tdm_choice *choice) {
    char reason[TDM_TUNING_REASON];
    return tdm_choice_read(text, choice, reason) == TDM_TUNING_OK ? 0 : -1;
}

static int break_off(tune_outcome *outcome, const char *what, const char *reason) {
    outcome->status = TUNE_BROKEN;
    snprintf(outcome->reason, sizeof outcome->reason, "%s: %.200s", what, reason);
    return 0;
}

static int finish(tune_run *run, const tdm_choice *found, tune_outcome *outcome) {
    tune_comparison *const comparison = &outcome->comparison;
    tdm_choice own;
    if (tune_bench_compare(&run->bench, found, comparison) != 0)
        return break_off(outcome, "the comparison", run->bench.reason.text);
    if (own_choice(comparison->own_variant, &own) != 0)
        return break_off(outcome, "the library's choice", comparison->own_variant);
    if (!tune_choice_equal(found, &own) &&
        comparison->tuned_s < comparison->own_s * (1 - least_gain))
        return write_row(run, found, comparison->tuned_s, outcome);
    comparison->tuned_s = comparison->own_s; /* what is kept */
    return write_row(run, &own, comparison->own_s, outcome);
}

/* -1 when memory is short. */
static int open_bench(tune_run *run, const gemm_case *item, worker_text *request) {
    worker_text_set(request, "%s", run->device_fields);
    gemm_case_write(item, request);
    run->bench.request = request->text;
    run->bench.verify = gemm_oracle_check;
    run->bench.user = &run->oracle;
    return gemm_oracle_set(&run->oracle, item);
}

int tune_run_case(tune_run *run, const gemm_case *item, int left, tune_outcome *outcome) {
    static tune_space space;
    static tune_search search;
    worker_text request = {.length = 0};
    char name[96];
    const double now = tune_clock();
    const tdm_tuning_row row = row_of(run, item);
    *outcome = (tune_outcome){.item = *item};
    if (!run->again && tune_file_has(run->file, &row)) {
        outcome->status = TUNE_SKIPPED;
        return 0;
    }
    if (run->deadline <= now) {
        outcome->status = TUNE_NOT_REACHED;
        return 0;
    }
    worker_text reason = {.length = 0};
    if (!gemm_case_fits(item, TUNE_PROCESSES, run->info, &reason)) {
        outcome->status = TUNE_TOO_LARGE;
        snprintf(outcome->reason, sizeof outcome->reason, "%.200s", reason.text);
        return 0;
    }
    gemm_case_name(item, name, sizeof name);
    tune_case each = {.run = run, .name = name, .deadline = now + (run->deadline - now) / left};
    if (open_bench(run, item, &request) != 0)
        return break_off(outcome, "the check", "out of memory");
    tune_space_fill(&space, run->info, item);
    search = (tune_search){.space = &space,
                           .measure = measure,
                           .user = &each,
                           .seconds_left = seconds_left,
                           .progress = show,
                           .seed = run->seed};
    tune_search_run(&search);
    outcome->trials = search.trials;
    outcome->failures = search.failures;
    if (search.best < 0)
        return break_off(outcome, "nothing could be measured", run->bench.reason.text);
    return finish(run, &search.tried[search.best], outcome);
}
