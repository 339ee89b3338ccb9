#include "bench/harness/bench_runner.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/harness/bench_peers.h"
#include "common/command/standard_streams.h"

enum {
    MAX_CALLS = 10000,
    CALLS_OF_A_BATCH = 4, /* a batch has at least this many pipelined calls, if they fit into
                             longest_batch_seconds */
    MAX_BATCHES = 64,     /* in a turn */
    PREPARE_TIMEOUTS = 4
};

/*
 * The target duration of a batch. A shorter batch would mostly measure the wait at its end; a
 * longer one would meet more disturbances.
 */
static const double batch_seconds = 0.001;

/*
 * The limit for batches of longer calls. Up to CALLS_OF_A_BATCH pipelined calls still share one
 * wait, as long as the batch takes less than this. A batch of a single call would add the wait to
 * each call, 20 us on PoCL. For calls beyond this limit the wait is less than half a per cent.
 */
static const double longest_batch_seconds = 0.01;

const char bench_time_is_over[] = "the suite's time is over";
static const bench_energy no_energy = {0, 0, NAN, NAN, NAN, NAN};

const char bench_sampling[] =
    "shortest of a turn's batches of 1 ms, of four pipelined calls where those take up to 10 ms";

/*
 * The pause after a peer's turn, in which threads that spin for work (OpenMP, OpenBLAS) go to
 * sleep. bench_peers.c bounds their spinning to less than this. Threads of Tandem's own workers
 * sleep at once.
 */
static const long settle_nanoseconds = 3000000;

/* An answer that is outstanding at the deadline may still arrive within this time. */
static const double grace_s = 2;

double bench_now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int is_over(const bench_plan *plan) {
    return plan->deadline_s > 0 && bench_now() >= plan->deadline_s;
}

/* Returns how long to wait for an answer, at most until shortly after the deadline. */
static double patience_of(const bench_plan *plan, int timeouts) {
    const double patience = timeouts * plan->timeout_s;
    if (!(plan->deadline_s > 0))
        return patience;
    return fmin(patience, fmax(plan->deadline_s - bench_now(), 0) + grace_s);
}

void bench_device_write(const bench_device *device, worker_text *request) {
    worker_field_add_integer(request, "index", device->index);
    worker_field_add(request, "selector", device->info.selector);
}

static void settle(const bench_contender *contenders, int turn) {
    const struct timespec pause = {.tv_nsec = settle_nanoseconds};
    if (strcmp(contenders[turn].program, contenders[0].program) != 0)
        nanosleep(&pause, NULL);
}

/* Stops a worker that failed, so that its state cannot affect the next case. */
static void drop_out(const bench_plan *plan, bench_contender *contender, worker_answer answer,
                     const char *step) {
    worker_text with_step = {.length = 0};
    /* A worker that did not start cannot be queried. */
    const int late =
        (contender->worker == NULL || worker_was_late(contender->worker)) && is_over(plan);
    contender->status = answer == WORKER_SKIP || late ? RESULT_SKIPPED : RESULT_FAILED;
    if (answer == WORKER_SKIP)
        return;
    worker_text_set(&with_step, "%s%s%s: %s", late ? bench_time_is_over : "", late ? ", " : "",
                    step, contender->reason.text);
    contender->reason = with_step;
    worker_stop(contender->worker);
    contender->worker = NULL;
    contender->prepared.request.length = 0;
}

static void start_worker(const bench_plan *plan, bench_contender *contender) {
    const worker_launch launch = {
        .program = contender->program,
        .arguments = contender->arguments,
        .show_messages = contender->show_messages,
    };
    worker_stop(contender->worker);
    contender->prepared.request.length = 0;
    contender->worker = worker_start(&launch, patience_of(plan, 1), &contender->greeting);
    if (contender->worker == NULL) {
        contender->reason = contender->greeting;
        drop_out(plan, contender, WORKER_FAIL, "start");
    }
}

static void begin_case(const bench_plan *plan, bench_contender *contender) {
    series_release(&contender->series);
    contender->status = RESULT_OK;
    worker_text_set(&contender->reason, "%s", "");
    contender->variant[0] = '\0';
    contender->check = RESULT_UNCHECKED;
    contender->max_error = NAN;
    contender->work = 0;
    contender->calls = contender->batches = 1;
    contender->energy = no_energy;
    if (contender->missing != NULL)
        worker_text_set(&contender->reason, "%s", contender->missing);
    else if (is_over(plan))
        worker_text_set(&contender->reason, "%s, the case was not started", bench_time_is_over);
    if (contender->reason.length > 0)
        contender->status = RESULT_SKIPPED;
}

static const bench_task *task_of(const bench_plan *plan, const bench_contender *contender) {
    return contender->task != NULL ? contender->task : &plan->task;
}

static void verify(const bench_plan *plan, bench_contender *contender) {
    const bench_task *const task = task_of(plan, contender);
    const void *bytes = NULL;
    size_t size = 0;
    const worker_answer answer = worker_result(
        contender->worker, patience_of(plan, PREPARE_TIMEOUTS), &bytes, &size, &contender->reason);
    if (answer != WORKER_OK) {
        drop_out(plan, contender, answer, "result");
        return;
    }
    worker_text_set(&contender->reason, "%s", "");
    const int wrong =
        task->verify(task->user, bytes, size, &contender->max_error, &contender->reason);
    contender->check = wrong ? RESULT_WRONG : RESULT_VERIFIED;
    if (wrong)
        drop_out(plan, contender, WORKER_FAIL, "wrong result");
}

static int64_t at_least_one(double wanted, int64_t most) {
    return !(wanted > 1) ? 1 : wanted > (double)most ? most : (int64_t)wanted;
}

/* Sets the calls of a batch and the batches of a turn. */
static void divide_turn(const bench_plan *plan, double seconds_per_call,
                        bench_contender *contender) {
    const double batch = fmin(batch_seconds, plan->turn_seconds);
    const double longest = fmin(longest_batch_seconds, plan->turn_seconds);
    const double call = contender->call_s = fmax(seconds_per_call, 1e-9);
    const double together =
        task_of(plan, contender)->waited ? 1 : fmin(floor(longest / call), CALLS_OF_A_BATCH);
    contender->calls = at_least_one(fmax(ceil(batch / call), together), MAX_CALLS);
    contender->batches =
        at_least_one(round(plan->turn_seconds / ((double)contender->calls * call)), MAX_BATCHES);
}

/*
 * Measures the time of a call and divides the turn accordingly. An earlier call has already warmed
 * up the worker. A single short call mostly measures the wait. If calls are pipelined and one call
 * does not fill a turn, a second measurement therefore uses the number of calls that the first
 * one gave.
 */
static void choose_calls(const bench_plan *plan, bench_contender *contender) {
    const int waited = task_of(plan, contender)->waited;
    const int rounds = waited ? 1 : 2;
    for (int round = 0; round < rounds; round++) {
        double seconds = 0;
        const worker_answer answer = worker_run(contender->worker, 1, contender->calls, waited,
                                                patience_of(plan, 1), &seconds, &contender->reason);
        if (answer != WORKER_OK) {
            drop_out(plan, contender, answer, "run");
            return;
        }
        divide_turn(plan, seconds, contender);
        if (seconds >= plan->turn_seconds)
            return;
    }
}

/*
 * True if the worker still holds this task. The task of a roof (bench_roof.h) is often the same in
 * many cases. It need not be prepared and verified again.
 */
static int is_prepared(const bench_plan *plan, const bench_contender *contender) {
    const worker_text *const held = &contender->prepared.request;
    return contender->keeps_task && held->length > 0 &&
           strcmp(held->text, task_of(plan, contender)->request) == 0;
}

static void take_prepared(bench_contender *contender) {
    snprintf(contender->variant, sizeof contender->variant, "%s", contender->prepared.variant);
    contender->work = contender->prepared.work;
    contender->max_error = contender->prepared.max_error;
    contender->check = RESULT_VERIFIED;
}

static void note_prepared(const bench_plan *plan, bench_contender *contender) {
    bench_prepared *const prepared = &contender->prepared;
    worker_text_set(&prepared->request, "%s", task_of(plan, contender)->request);
    snprintf(prepared->variant, sizeof prepared->variant, "%s", contender->variant);
    prepared->work = contender->work;
    prepared->max_error = contender->max_error;
}

/*
 * Describes the case, runs it once and compares the result with the oracle. No call is timed before
 * the result is known to be correct.
 */
static void prepare(const bench_plan *plan, bench_contender *contender) {
    double seconds = 0;
    if (!worker_is_alive(contender->worker))
        start_worker(plan, contender);
    if (contender->status != RESULT_OK)
        return;
    if (is_prepared(plan, contender)) {
        take_prepared(contender);
        choose_calls(plan, contender);
        return;
    }
    contender->prepared.request.length = 0;
    worker_answer answer = worker_describe(contender->worker, task_of(plan, contender)->request,
                                           patience_of(plan, PREPARE_TIMEOUTS), &contender->reason);
    if (answer != WORKER_OK) {
        drop_out(plan, contender, answer, "prepare");
        return;
    }
    worker_field(contender->reason.text, "variant", contender->variant, sizeof contender->variant);
    contender->work = (double)worker_field_integer(contender->reason.text, "work", 0);
    answer = worker_run(contender->worker, 1, 1, 1, patience_of(plan, PREPARE_TIMEOUTS), &seconds,
                        &contender->reason);
    if (answer != WORKER_OK) {
        drop_out(plan, contender, answer, "first run");
        return;
    }
    verify(plan, contender);
    if (contender->status != RESULT_OK)
        return;
    note_prepared(plan, contender);
    choose_calls(plan, contender);
}

static void note_energy(const sensor_reading *before, const sensor_reading *after, double calls,
                        bench_energy *energy) {
    energy->joules += after->energy_j - before->energy_j;
    energy->calls += calls;
    energy->power_w = after->power_w;
    energy->temperature_c = after->temperature_c;
    energy->clock_mhz = after->clock_mhz;
    if (!(energy->throttled > 0))
        energy->throttled = after->throttled;
}

/*
 * Returns the time limit of a turn. It suffices for the turn even after the deadline, so that every
 * prepared contender gets a sample.
 */
static double patience_of_turn(const bench_plan *plan, const bench_contender *contender) {
    const double expected = contender->call_s * (double)(contender->batches * contender->calls);
    return fmax(patience_of(plan, 1), fmin(plan->timeout_s, grace_s + 3 * expected));
}

/*
 * Takes a turn's batches and keeps the shortest as a sample. Disturbances, such as an interrupt or
 * a noisy neighbour, only ever lengthen times.
 */
static void take_turn(const bench_plan *plan, bench_contender *contender) {
    double seconds[MAX_BATCHES]; /* per call */
    const double calls = (double)(contender->batches * contender->calls);
    const sensor_reading before = sensors_read(plan->sensors);
    const worker_answer answer = worker_run(
        contender->worker, contender->batches, contender->calls, task_of(plan, contender)->waited,
        patience_of_turn(plan, contender), seconds, &contender->reason);
    const sensor_reading after = sensors_read(plan->sensors);
    if (answer != WORKER_OK) {
        drop_out(plan, contender, answer, "run");
        return;
    }
    double shortest = seconds[0];
    double all = 0;
    for (int64_t i = 0; i < contender->batches; i++) {
        shortest = fmin(shortest, seconds[i]);
        all += seconds[i] * (double)contender->calls;
    }
    note_energy(&before, &after, calls, &contender->energy);
    if (series_add(&contender->series, shortest, all) != 0) {
        worker_text_set(&contender->reason, "out of memory");
        drop_out(plan, contender, WORKER_FAIL, "samples");
    }
}

/*
 * Takes samples in turn until each contender has enough, or for one turn if the time is over. A
 * slower moment of the machine thus affects every contender.
 */
static void take_samples(const bench_plan *plan, bench_contender *contenders, int count) {
    int left = 1;
    for (int round = 0; left > 0; round++) {
        left = 0;
        for (int turn = 0; turn < count; turn++) {
            const int i = (turn + round) % count; /* rotates, so that neighbours change */
            bench_contender *const contender = &contenders[i];
            if (contender->status != RESULT_OK || series_done(&contender->series, &plan->rule))
                continue;
            if (contender->series.count > 0 && is_over(plan))
                continue;
            take_turn(plan, contender);
            settle(contenders, i);
            left++;
        }
    }
}

void bench_run_case(const bench_plan *plan, bench_contender *contenders, int count) {
    for (int i = 0; i < count; i++) {
        begin_case(plan, &contenders[i]);
        progress_show(i + 1, count, "%s: preparing %s", plan->label, contenders[i].impl);
        if (contenders[i].status == RESULT_OK)
            prepare(plan, &contenders[i]);
        settle(contenders, i);
    }
    progress_show(0, 0, "%s: measuring", plan->label);
    take_samples(plan, contenders, count);
    for (int i = 0; i < count; i++)
        if (contenders[i].status == RESULT_OK)
            worker_text_set(&contenders[i].reason, "%s", "");
    progress_clear();
}

void bench_contenders_release(bench_contender *contenders, int count) {
    for (int i = 0; i < count; i++) {
        worker_text reason = {.length = 0};
        if (worker_is_alive(contenders[i].worker) &&
            worker_quit(contenders[i].worker, &reason) != WORKER_OK)
            fprintf(stderr, "%s, when it was closed: %s\n", contenders[i].impl, reason.text);
        worker_stop(contenders[i].worker);
        contenders[i].worker = NULL;
        series_release(&contenders[i].series);
    }
}
