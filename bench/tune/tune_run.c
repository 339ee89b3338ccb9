#include "bench/tune/tune_run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "bench/record/bench_statistics.h"
#include "common/command/standard_streams.h"

/* ---- measuring a choice ---------------------------------------------------------------------- */

enum {
    MAX_CALLS = 10000,
    PREPARE_TIMEOUTS = 4,
    MAX_SAMPLES = 64
};

/* Starts the worker if it is not running. */
static int start(tune_bench *bench) {
    const worker_launch launch = {
        .program = bench->program,
        .arguments = bench->arguments,
    };
    if (worker_is_alive(bench->worker))
        return 0;
    worker_stop(bench->worker);
    bench->worker = worker_start(&launch, bench->timeout_s, &bench->reason);
    return bench->worker == NULL ? -1 : 0;
}

/* A worker that failed is not used again, so that its state cannot affect the next choice. */
static tune_verdict record_failure(tune_bench *bench, worker_answer answer) {
    if (answer == WORKER_SKIP)
        return TUNE_REFUSED;
    tune_bench_close(bench);
    return TUNE_FAILED;
}

static worker_answer check_result(tune_bench *bench) {
    const void *bytes = NULL;
    size_t size = 0;
    double max_error = 0;
    const worker_answer answer = worker_result(bench->worker, PREPARE_TIMEOUTS * bench->timeout_s,
                                               &bytes, &size, &bench->reason);
    if (answer != WORKER_OK)
        return answer;
    worker_text reason = {.length = 0};
    if (bench->verify(bench->user, bytes, size, &max_error, &reason) == 0)
        return WORKER_OK;
    worker_text_set(&bench->reason, "wrong result: %s", reason.text);
    return WORKER_FAIL;
}

/*
 * Sends the GEMM with this choice to the worker, runs it once and checks the result. *seconds is
 * the time of that run.
 */
static worker_answer prepare(tune_bench *bench, const tdm_choice *choice, double *seconds) {
    worker_text request = {.length = 0};
    char text[TDM_CHOICE_TEXT];
    const double patience = PREPARE_TIMEOUTS * bench->timeout_s;
    worker_text_set(&request, "%s", bench->request);
    if (choice != NULL)
        worker_field_add(&request, "variant", tdm_choice_write(choice, text));
    worker_answer answer = worker_describe(bench->worker, request.text, patience, &bench->reason);
    if (answer != WORKER_OK)
        return answer;
    worker_field(bench->reason.text, "variant", bench->variant, sizeof bench->variant);
    answer = worker_run(bench->worker, 1, 1, 1, patience, seconds, &bench->reason);
    return answer == WORKER_OK ? check_result(bench) : answer;
}

static int64_t calls_for(const tune_bench *bench, double seconds) {
    const double wanted = seconds > 0 ? ceil(bench->sample_seconds / seconds) : MAX_CALLS;
    return wanted < 1 ? 1 : wanted > MAX_CALLS ? MAX_CALLS : (int64_t)wanted;
}

/*
 * Finds how many calls make a sample, and about how long one call takes. The run in prepare() does
 * not count, because it includes warm-up. The number is determined twice, because most of a single
 * short call is waiting.
 */
static worker_answer choose_calls(tune_bench *bench, int64_t *calls, double *seconds) {
    *calls = 1;
    for (int round = 0; round < 2; round++) {
        const worker_answer answer =
            worker_run(bench->worker, 1, *calls, 0, bench->timeout_s, seconds, &bench->reason);
        if (answer != WORKER_OK)
            return answer;
        *calls = calls_for(bench, *seconds);
    }
    return WORKER_OK;
}

tune_verdict tune_bench_measure(tune_bench *bench, const tdm_choice *choice, double limit,
                                double *seconds) {
    double samples[MAX_SAMPLES];
    int64_t calls = 1;
    if (start(bench) != 0)
        return TUNE_FAILED;
    worker_answer answer = prepare(bench, choice, seconds);
    if (answer == WORKER_OK)
        answer = choose_calls(bench, &calls, seconds);
    if (answer == WORKER_OK && *seconds > limit)
        return TUNE_MEASURED;
    if (answer == WORKER_OK)
        answer = worker_run(bench->worker, bench->samples, calls, 0,
                            bench->samples * PREPARE_TIMEOUTS * bench->timeout_s, samples,
                            &bench->reason);
    if (answer != WORKER_OK)
        return record_failure(bench, answer);
    *seconds = summarize_samples(samples, (size_t)bench->samples).median;
    return TUNE_MEASURED;
}

/*
 * The library's own choice and `best` alternate, so that a temporary slowdown of the machine
 * affects both.
 */
int tune_bench_compare(tune_bench *bench, const tdm_choice *best, tune_comparison *comparison) {
    double seconds[2][TUNE_TURNS];
    for (int turn = 0; turn < TUNE_TURNS; turn++)
        for (int side = 0; side < 2; side++) {
            if (tune_bench_measure(bench, side == 0 ? NULL : best, INFINITY,
                                   &seconds[side][turn]) != TUNE_MEASURED)
                return -1;
            if (side == 0)
                memcpy(comparison->own_variant, bench->variant, sizeof bench->variant);
        }
    comparison->own_s = summarize_samples(seconds[0], TUNE_TURNS).median;
    comparison->tuned_s = summarize_samples(seconds[1], TUNE_TURNS).median;
    return 0;
}

void tune_bench_close(tune_bench *bench) {
    worker_stop(bench->worker);
    bench->worker = NULL;
}

/* ---- a problem ------------------------------------------------------------------------------- */

enum {
    TUNE_PROCESSES = 2 /* they hold the operands: the worker, and this process for the check */
};

/*
 * The tuned choice must be faster by this share. A smaller gain is noise, and the library's own
 * choice stays.
 */
static const double least_gain = 0.02;

double tune_clock(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* The callbacks of the search need this data. */
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
    if (verdict == TUNE_FAILED) {
        progress_clear();
        fprintf(own->run->notes, "%s: %s: %s failed: %s\n", own->run->command, own->name,
                tdm_choice_write(choice, text), bench->reason.text);
    }
    return verdict;
}

static void show(void *user, const tune_search *search) {
    const tune_case *const own = user;
    char text[TDM_CHOICE_TEXT];
    const int found = search->best >= 0;
    progress_show(own->run->number, own->run->total, "%s: %d tried, %.4g ms %s", own->name,
                  search->trials, found ? 1e3 * search->seconds[search->best] : 0,
                  found ? tdm_choice_write(&search->tried[search->best], text) : "");
}

/* ---- the row --------------------------------------------------------------------------------- */

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

static int end_without(tune_outcome *outcome, tune_status status, const char *what,
                       const char *reason) {
    outcome->status = status;
    snprintf(outcome->reason, sizeof outcome->reason, "%s%.200s", what, reason);
    return 0;
}

static int finish(tune_run *run, const tdm_choice *found, tune_outcome *outcome) {
    tune_comparison *const comparison = &outcome->comparison;
    tdm_choice own;
    char reason[TDM_TUNING_REASON];
    if (tune_bench_compare(&run->bench, found, comparison) != 0)
        return end_without(outcome, TUNE_BROKEN,
                           "comparison with the default: ", run->bench.reason.text);
    /* A row that keeps the library's choice records that the shape was tuned. */
    if (tdm_choice_read(comparison->own_variant, &own, reason) != TDM_TUNING_OK)
        return end_without(outcome, TUNE_BROKEN,
                           "unknown default choice: ", comparison->own_variant);
    if (!tune_choice_equal(found, &own) &&
        comparison->tuned_s < comparison->own_s * (1 - least_gain))
        return write_row(run, found, comparison->tuned_s, outcome);
    comparison->tuned_s = comparison->own_s; /* the time of the choice that is kept */
    return write_row(run, &own, comparison->own_s, outcome);
}

/* Returns -1 if memory is short. */
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
    if (!run->again && tune_file_has(run->file, &row))
        return end_without(outcome, TUNE_SKIPPED, "",
                           "already in the file; --again tunes it again");
    if (run->deadline <= now)
        return end_without(outcome, TUNE_SKIPPED, "", "the time limit was reached");
    worker_text reason = {.length = 0};
    if (!gemm_case_fits(item, TUNE_PROCESSES, run->info, &reason))
        return end_without(outcome, TUNE_SKIPPED, "", reason.text);
    gemm_case_name(item, name, sizeof name);
    tune_case each = {.run = run, .name = name, .deadline = now + (run->deadline - now) / left};
    if (open_bench(run, item, &request) != 0)
        return end_without(outcome, TUNE_BROKEN, "reference result: ", "out of memory");
    tune_space_fill(&space, run->info, item);
    search = (tune_search){.space = &space,
                           .measure = measure,
                           .user = &each,
                           .seconds_left = seconds_left,
                           .progress = show};
    tune_search_run(&search);
    outcome->trials = search.trials;
    outcome->failures = search.failures;
    if (search.best < 0)
        return end_without(outcome, TUNE_BROKEN,
                           "nothing could be measured: ", run->bench.reason.text);
    return finish(run, &search.tried[search.best], outcome);
}
