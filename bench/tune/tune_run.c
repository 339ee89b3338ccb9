#include "bench/tune/tune_run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "bench/record/bench_statistics.h"
#include "common/command/progress.h"

/* ---- measuring a choice -------------------------------------------------------------------------------- */

enum {
    MAX_CALLS = 10000,
    PREPARE_TIMEOUTS = 4,
    MAX_SAMPLES = 64
};

/* After a comparison's turn: the other process's threads go to sleep. */
static const long settle_nanoseconds = 3000000;

static int start(tune_bench *bench, worker_process **worker) {
    const worker_launch launch = {
        .program = bench->program,
        .arguments = bench->arguments,
        .environment = bench->variables,
    };
    if (worker_is_alive(*worker))
        return 0;
    worker_stop(*worker);
    *worker = worker_start(&launch, bench->timeout_s, &bench->reason);
    return *worker == NULL ? -1 : 0;
}

/* A worker that failed is not asked again: what it left behind must not reach the next choice. */
static tune_verdict end_badly(worker_process **worker, worker_answer answer) {
    if (answer == WORKER_SKIP)
        return TUNE_REFUSED;
    worker_stop(*worker);
    *worker = NULL;
    return TUNE_FAILED;
}

static worker_answer check_result(tune_bench *bench, worker_process *worker) {
    const void *bytes = NULL;
    size_t size = 0;
    double max_error = 0;
    const worker_answer answer =
        worker_result(worker, PREPARE_TIMEOUTS * bench->timeout_s, &bytes, &size, &bench->reason);
    if (answer != WORKER_OK)
        return answer;
    worker_text reason = {.length = 0};
    if (bench->verify(bench->user, bytes, size, &max_error, &reason) == 0)
        return WORKER_OK;
    worker_text_set(&bench->reason, "wrong result: %s", reason.text);
    return WORKER_FAIL;
}

/* Describe the case with this choice, run it once and check what came out; *seconds of that first run. */
static worker_answer prepare(tune_bench *bench, worker_process *worker, const tdm_choice *choice,
                             double *seconds, worker_text *reply) {
    worker_text request = {.length = 0};
    char text[TDM_CHOICE_TEXT];
    const double patience = PREPARE_TIMEOUTS * bench->timeout_s;
    worker_text_set(&request, "%s", bench->request);
    if (choice != NULL)
        worker_field_add(&request, "variant", tdm_choice_write(choice, text));
    worker_answer answer = worker_describe(worker, request.text, patience, &bench->reason);
    if (answer != WORKER_OK)
        return answer;
    *reply = bench->reason;
    answer = worker_run(worker, 1, 1, 1, patience, seconds, &bench->reason);
    return answer == WORKER_OK ? check_result(bench, worker) : answer;
}

static int64_t calls_for(const tune_bench *bench, double seconds) {
    const double wanted = seconds > 0 ? ceil(bench->sample_seconds / seconds) : MAX_CALLS;
    return wanted < 1 ? 1 : wanted > MAX_CALLS ? MAX_CALLS : (int64_t)wanted;
}

/*
 * How many calls make a sample, and about how long one takes. The first run paid for warming up and for the wait; the number is
 * asked for twice because a single call is mostly waiting where calls are short.
 */
static worker_answer choose_calls(tune_bench *bench, worker_process *worker, int64_t *calls,
                                  double *seconds) {
    *calls = 1;
    for (int round = 0; round < 2; round++) {
        const worker_answer answer =
            worker_run(worker, 1, *calls, 0, bench->timeout_s, seconds, &bench->reason);
        if (answer != WORKER_OK)
            return answer;
        *calls = calls_for(bench, *seconds);
    }
    return WORKER_OK;
}

tune_verdict tune_bench_measure(tune_bench *bench, const tdm_choice *choice, double limit,
                                double *seconds) {
    double samples[MAX_SAMPLES];
    worker_text reply;
    int64_t calls = 1;
    if (start(bench, &bench->worker) != 0)
        return TUNE_FAILED;
    worker_answer answer = prepare(bench, bench->worker, choice, seconds, &reply);
    if (answer == WORKER_OK)
        answer = choose_calls(bench, bench->worker, &calls, seconds);
    if (answer == WORKER_OK && *seconds > limit)
        return TUNE_MEASURED;
    if (answer == WORKER_OK)
        answer = worker_run(bench->worker, bench->samples, calls, 0,
                            bench->samples * PREPARE_TIMEOUTS * bench->timeout_s, samples,
                            &bench->reason);
    if (answer != WORKER_OK)
        return end_badly(&bench->worker, answer);
    *seconds = summarize_samples(samples, (size_t)bench->samples).median;
    return TUNE_MEASURED;
}

/* ---- the comparison at the end --------------------------------------------------------------------- */

/* A process that runs one side. */
typedef struct runner {
    worker_process *worker;
    int64_t calls;
    double seconds[MAX_SAMPLES];
} runner;

static int prepare_runner(tune_bench *bench, runner *own, const tdm_choice *choice,
                          worker_text *reply) {
    double seconds = 0;
    if (start(bench, &own->worker) != 0)
        return -1;
    worker_answer answer = prepare(bench, own->worker, choice, &seconds, reply);
    if (answer == WORKER_OK)
        answer = choose_calls(bench, own->worker, &own->calls, &seconds);
    return answer == WORKER_OK ? 0 : -1;
}

static int take_turns(tune_bench *bench, runner runners[2], int samples) {
    const struct timespec pause = {.tv_nsec = settle_nanoseconds};
    for (int turn = 0; turn < 2 * samples; turn++) {
        /* Nobody is always the first of a pair. */
        runner *const each = &runners[(turn + turn / 2) % 2];
        if (worker_run(each->worker, 1, each->calls, 0, PREPARE_TIMEOUTS * bench->timeout_s,
                       &each->seconds[turn / 2], &bench->reason) != WORKER_OK)
            return -1;
        nanosleep(&pause, NULL);
    }
    return 0;
}

int tune_bench_compare(tune_bench *bench, const tdm_choice *best, tune_comparison *comparison) {
    runner runners[2] = {{.worker = NULL}, {.worker = bench->worker}};
    const int samples = bench->final_samples < MAX_SAMPLES ? bench->final_samples : MAX_SAMPLES;
    worker_text reply = {.length = 0};
    int status = prepare_runner(bench, &runners[0], NULL, &reply);
    if (status == 0) {
        worker_field(reply.text, "variant", comparison->own_variant,
                     sizeof comparison->own_variant);
        status = prepare_runner(bench, &runners[1], best, &reply);
    }
    if (status == 0)
        status = take_turns(bench, runners, samples);
    if (status == 0) {
        comparison->own_s = summarize_samples(runners[0].seconds, (size_t)samples).median;
        comparison->tuned_s = summarize_samples(runners[1].seconds, (size_t)samples).median;
    }
    worker_stop(runners[0].worker);
    bench->worker = runners[1].worker;
    return status;
}

void tune_bench_close(tune_bench *bench) {
    worker_stop(bench->worker);
    bench->worker = NULL;
}

/* ---- a problem --------------------------------------------------------------------------------------------- */

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

static int break_off(tune_outcome *outcome, const char *what, const char *reason) {
    outcome->status = TUNE_BROKEN;
    snprintf(outcome->reason, sizeof outcome->reason, "%s: %.200s", what, reason);
    return 0;
}

static int finish(tune_run *run, const tdm_choice *found, tune_outcome *outcome) {
    tune_comparison *const comparison = &outcome->comparison;
    tdm_choice own;
    char reason[TDM_TUNING_REASON];
    if (tune_bench_compare(&run->bench, found, comparison) != 0)
        return break_off(outcome, "the comparison", run->bench.reason.text);
    /* A row that keeps the library's choice shows that the shape was tuned. */
    if (tdm_choice_read(comparison->own_variant, &own, reason) != TDM_TUNING_OK)
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
                           .progress = show};
    tune_search_run(&search);
    outcome->trials = search.trials;
    outcome->failures = search.failures;
    if (search.best < 0)
        return break_off(outcome, "nothing could be measured", run->bench.reason.text);
    return finish(run, &search.tried[search.best], outcome);
}
