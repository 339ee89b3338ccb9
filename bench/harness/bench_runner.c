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
    CALLS_OF_A_BATCH = 4, /* least number of pipelined calls in a batch */
    MAX_BATCHES = 64,     /* in a turn */
    PREPARE_TIMEOUTS = 4
};

/*
 * A shorter batch would mostly measure the wait at its end; a longer one would meet more
 * disturbances.
 */
static const double batch_seconds = 0.001;

/*
 * Longer pipelined calls still share one wait among CALLS_OF_A_BATCH, as long as a batch takes less
 * than this. A batch of a single call would add the wait to each call, 20 us on PoCL. For calls
 * beyond this limit the wait is less than half a per cent.
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

static void settle(const bench_entrant *entrants, int turn) {
    const struct timespec pause = {.tv_nsec = settle_nanoseconds};
    if (strcmp(entrants[turn].program, entrants[0].program) != 0)
        nanosleep(&pause, NULL);
}

/* Stops a worker that failed, so that its state cannot affect the next case. */
static void drop_out(const bench_plan *plan, bench_entrant *entrant, worker_answer answer,
                     const char *step) {
    worker_text with_step = {.length = 0};
    /* A worker that did not start cannot be queried. */
    const int late = (entrant->worker == NULL || worker_was_late(entrant->worker)) && is_over(plan);
    entrant->status = answer == WORKER_SKIP || late ? RESULT_SKIPPED : RESULT_FAILED;
    if (answer == WORKER_SKIP)
        return;
    worker_text_set(&with_step, "%s%s%s: %s", late ? bench_time_is_over : "", late ? ", " : "",
                    step, entrant->reason.text);
    entrant->reason = with_step;
    worker_stop(entrant->worker);
    entrant->worker = NULL;
    entrant->prepared.request.length = 0;
}

static void start_worker(const bench_plan *plan, bench_entrant *entrant) {
    const worker_launch launch = {
        .program = entrant->program,
        .arguments = entrant->arguments,
        .show_messages = entrant->show_messages,
    };
    worker_stop(entrant->worker);
    entrant->prepared.request.length = 0;
    entrant->worker = worker_start(&launch, patience_of(plan, 1), &entrant->greeting);
    if (entrant->worker == NULL) {
        entrant->reason = entrant->greeting;
        drop_out(plan, entrant, WORKER_FAIL, "start");
    }
}

static void begin_case(const bench_plan *plan, bench_entrant *entrant) {
    series_release(&entrant->series);
    entrant->status = RESULT_OK;
    worker_text_set(&entrant->reason, "%s", "");
    entrant->variant[0] = '\0';
    entrant->check = RESULT_UNCHECKED;
    entrant->max_error = NAN;
    entrant->work = 0;
    entrant->calls = entrant->batches = 1;
    entrant->energy = no_energy;
    if (entrant->missing != NULL)
        worker_text_set(&entrant->reason, "%s", entrant->missing);
    else if (is_over(plan))
        worker_text_set(&entrant->reason, "%s, it was not begun", bench_time_is_over);
    if (entrant->reason.length > 0)
        entrant->status = RESULT_SKIPPED;
}

static const bench_task *task_of(const bench_plan *plan, const bench_entrant *entrant) {
    return entrant->task != NULL ? entrant->task : &plan->task;
}

static void verify(const bench_plan *plan, bench_entrant *entrant) {
    const bench_task *const task = task_of(plan, entrant);
    const void *bytes = NULL;
    size_t size = 0;
    const worker_answer answer = worker_result(entrant->worker, patience_of(plan, PREPARE_TIMEOUTS),
                                               &bytes, &size, &entrant->reason);
    if (answer != WORKER_OK) {
        drop_out(plan, entrant, answer, "result");
        return;
    }
    worker_text_set(&entrant->reason, "%s", "");
    const int wrong = task->verify(task->user, bytes, size, &entrant->max_error, &entrant->reason);
    entrant->check = wrong ? RESULT_WRONG : RESULT_VERIFIED;
    if (wrong)
        drop_out(plan, entrant, WORKER_FAIL, "wrong result");
}

static int64_t at_least_one(double wanted, int64_t most) {
    return !(wanted > 1) ? 1 : wanted > (double)most ? most : (int64_t)wanted;
}

/* Sets the calls of a batch and the batches of a turn. */
static void divide_turn(const bench_plan *plan, double seconds_per_call, bench_entrant *entrant) {
    const double batch = fmin(batch_seconds, plan->turn_seconds);
    const double longest = fmin(longest_batch_seconds, plan->turn_seconds);
    const double call = entrant->call_s = fmax(seconds_per_call, 1e-9);
    const double together =
        task_of(plan, entrant)->waited ? 1 : fmin(floor(longest / call), CALLS_OF_A_BATCH);
    entrant->calls = at_least_one(fmax(ceil(batch / call), together), MAX_CALLS);
    entrant->batches =
        at_least_one(round(plan->turn_seconds / ((double)entrant->calls * call)), MAX_BATCHES);
}

/*
 * Measures the time of a call and divides the turn accordingly. The first call paid for warming up.
 * A single short call mostly measures the wait. So pipelined calls are measured again with the
 * suggested number, unless one call fills a turn.
 */
static void choose_calls(const bench_plan *plan, bench_entrant *entrant) {
    const int waited = task_of(plan, entrant)->waited;
    const int rounds = waited ? 1 : 2;
    for (int round = 0; round < rounds; round++) {
        double seconds = 0;
        const worker_answer answer = worker_run(entrant->worker, 1, entrant->calls, waited,
                                                patience_of(plan, 1), &seconds, &entrant->reason);
        if (answer != WORKER_OK) {
            drop_out(plan, entrant, answer, "run");
            return;
        }
        divide_turn(plan, seconds, entrant);
        if (seconds >= plan->turn_seconds)
            return;
    }
}

/*
 * True if the worker still holds this task. A roof's task is often the same in many cases, and need
 * not be prepared and verified again.
 */
static int is_prepared(const bench_plan *plan, const bench_entrant *entrant) {
    const worker_text *const held = &entrant->prepared.request;
    return entrant->keeps_task && held->length > 0 &&
           strcmp(held->text, task_of(plan, entrant)->request) == 0;
}

static void take_prepared(bench_entrant *entrant) {
    snprintf(entrant->variant, sizeof entrant->variant, "%s", entrant->prepared.variant);
    entrant->work = entrant->prepared.work;
    entrant->max_error = entrant->prepared.max_error;
    entrant->check = RESULT_VERIFIED;
}

static void note_prepared(const bench_plan *plan, bench_entrant *entrant) {
    bench_prepared *const prepared = &entrant->prepared;
    worker_text_set(&prepared->request, "%s", task_of(plan, entrant)->request);
    snprintf(prepared->variant, sizeof prepared->variant, "%s", entrant->variant);
    prepared->work = entrant->work;
    prepared->max_error = entrant->max_error;
}

/*
 * Describes the case, runs it once and compares the result with the oracle. Nothing is timed before
 * its result was right.
 */
static void prepare(const bench_plan *plan, bench_entrant *entrant) {
    double seconds = 0;
    if (!worker_is_alive(entrant->worker))
        start_worker(plan, entrant);
    if (entrant->status != RESULT_OK)
        return;
    if (is_prepared(plan, entrant)) {
        take_prepared(entrant);
        choose_calls(plan, entrant);
        return;
    }
    entrant->prepared.request.length = 0;
    worker_answer answer = worker_describe(entrant->worker, task_of(plan, entrant)->request,
                                           patience_of(plan, PREPARE_TIMEOUTS), &entrant->reason);
    if (answer != WORKER_OK) {
        drop_out(plan, entrant, answer, "prepare");
        return;
    }
    worker_field(entrant->reason.text, "variant", entrant->variant, sizeof entrant->variant);
    entrant->work = (double)worker_field_integer(entrant->reason.text, "work", 0);
    answer = worker_run(entrant->worker, 1, 1, 1, patience_of(plan, PREPARE_TIMEOUTS), &seconds,
                        &entrant->reason);
    if (answer != WORKER_OK) {
        drop_out(plan, entrant, answer, "first run");
        return;
    }
    verify(plan, entrant);
    if (entrant->status != RESULT_OK)
        return;
    note_prepared(plan, entrant);
    choose_calls(plan, entrant);
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
static double patience_of_turn(const bench_plan *plan, const bench_entrant *entrant) {
    const double expected = entrant->call_s * (double)(entrant->batches * entrant->calls);
    return fmax(patience_of(plan, 1), fmin(plan->timeout_s, grace_s + 3 * expected));
}

/*
 * Takes a turn's batches and keeps the shortest as a sample. Disturbances, such as an interrupt or
 * a noisy neighbour, only ever lengthen times.
 */
static void take_turn(const bench_plan *plan, bench_entrant *entrant) {
    double seconds[MAX_BATCHES]; /* per call */
    const double calls = (double)(entrant->batches * entrant->calls);
    const sensor_reading before = sensors_read(plan->sensors);
    const worker_answer answer = worker_run(
        entrant->worker, entrant->batches, entrant->calls, task_of(plan, entrant)->waited,
        patience_of_turn(plan, entrant), seconds, &entrant->reason);
    const sensor_reading after = sensors_read(plan->sensors);
    if (answer != WORKER_OK) {
        drop_out(plan, entrant, answer, "run");
        return;
    }
    double shortest = seconds[0];
    double all = 0;
    for (int64_t i = 0; i < entrant->batches; i++) {
        shortest = fmin(shortest, seconds[i]);
        all += seconds[i] * (double)entrant->calls;
    }
    note_energy(&before, &after, calls, &entrant->energy);
    if (series_add(&entrant->series, shortest, all) != 0) {
        worker_text_set(&entrant->reason, "out of memory");
        drop_out(plan, entrant, WORKER_FAIL, "samples");
    }
}

/*
 * Takes samples in turn until each contender has enough, or for one turn if the time is over. A
 * slower moment of the machine thus affects every contender.
 */
static void take_samples(const bench_plan *plan, bench_entrant *entrants, int count) {
    int left = 1;
    for (int round = 0; left > 0; round++) {
        left = 0;
        for (int turn = 0; turn < count; turn++) {
            const int i = (turn + round) % count; /* rotates, so that neighbours change */
            bench_entrant *const entrant = &entrants[i];
            if (entrant->status != RESULT_OK || series_done(&entrant->series, &plan->rule))
                continue;
            if (entrant->series.count > 0 && is_over(plan))
                continue;
            take_turn(plan, entrant);
            settle(entrants, i);
            left++;
        }
    }
}

void bench_run_case(const bench_plan *plan, bench_entrant *entrants, int count) {
    for (int i = 0; i < count; i++) {
        begin_case(plan, &entrants[i]);
        progress_show(i + 1, count, "%s: preparing %s", plan->label, entrants[i].impl);
        if (entrants[i].status == RESULT_OK)
            prepare(plan, &entrants[i]);
        settle(entrants, i);
    }
    progress_show(0, 0, "%s: measuring", plan->label);
    take_samples(plan, entrants, count);
    for (int i = 0; i < count; i++)
        if (entrants[i].status == RESULT_OK)
            worker_text_set(&entrants[i].reason, "%s", "");
    progress_clear();
}

void bench_entrants_release(bench_entrant *entrants, int count) {
    for (int i = 0; i < count; i++) {
        worker_text reason = {.length = 0};
        if (worker_is_alive(entrants[i].worker) &&
            worker_quit(entrants[i].worker, &reason) != WORKER_OK)
            fprintf(stderr, "%s, when it was done: %s\n", entrants[i].impl, reason.text);
        worker_stop(entrants[i].worker);
        entrants[i].worker = NULL;
        series_release(&entrants[i].series);
    }
}
