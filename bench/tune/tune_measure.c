#include "bench/tune/tune_measure.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "bench/record/bench_statistics.h"

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
