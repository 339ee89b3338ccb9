#include "bench/harness/bench_sustained.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/progress.h"

enum {
    LEAST_WINDOWS = 12,
    MOST_WINDOWS = 2000,
    MOST_CALLS = 10000, /* that wait in a queue */
    MOST_BATCHES = 256, /* of a window */
    CASE_NAME = 128
};

/* Windows of this length unless there would be too few or too many. */
static const double usual_window_s = 0.25;

/* The course of a run. */
typedef struct sustained_run {
    const bench_plan *plan;
    bench_entrant *entrant;
    double seconds, window_s;
    int64_t calls, batches; /* of a window */
    result_window *windows;
    size_t count, room;
} sustained_run;

/* What is given at first: long enough for clocks to rise, too short for heat. */
static const double burst_seconds = 2;

/* A run that ended after less of its time than this share was cut short. */
static const double whole_run = 0.9;

/* Median over the windows that end behind `from` and begin before `to`; what is not known is passed over. */
static double median_between(const double *values, const result_window *windows, size_t count,
                             double from, double to) {
    double *const kept = calloc(count + 1, sizeof *kept);
    size_t found = 0;
    for (size_t i = 0; kept != NULL && i < count; i++)
        if (windows[i].at_s + windows[i].seconds > from && windows[i].at_s < to &&
            isfinite(values[i]))
            kept[found++] = values[i];
    const double median = kept == NULL ? NAN : summarize_samples(kept, found).median;
    free(kept);
    return median;
}

sustained_summary sustained_summarize(const double *samples, const result_window *windows,
                                      size_t count, double seconds) {
    sustained_summary summary = {NAN, NAN, NAN, NAN};
    double *const joules = calloc(count + 1, sizeof *joules);
    if (count == 0 || joules == NULL) {
        free(joules);
        return summary;
    }
    for (size_t i = 0; i < count; i++)
        joules[i] = windows[i].joules;
    const double end = windows[count - 1].at_s + windows[count - 1].seconds;
    const double first = fmin(burst_seconds, end / 3);
    summary.burst_s = median_between(samples, windows, count, 0, first);
    summary.burst_j = median_between(joules, windows, count, 0, first);
    if (end >= whole_run * seconds) {
        summary.sustained_s = median_between(samples, windows, count, end * 2 / 3, INFINITY);
        summary.sustained_j = median_between(joules, windows, count, end * 2 / 3, INFINITY);
    }
    free(joules);
    return summary;
}

/* Batches as long as a window where so many calls, of so many seconds each, may wait in a queue. */
static void divide_window(sustained_run *run, double call) {
    const double wanted = fmax(1, run->window_s / fmax(call, 1e-9));
    run->calls = (int64_t)fmin(wanted, MOST_CALLS);
    run->batches = (int64_t)fmin(fmax(1, round(wanted / (double)run->calls)), MOST_BATCHES);
}

/* Windows of the length that one round of calls suggests; 0, or -1 when the worker failed. */
static int begin_windows(sustained_run *run) {
    bench_entrant *const entrant = run->entrant;
    double call = 0;
    if (worker_run(entrant->worker, 1, entrant->calls, run->plan->task.waited, run->plan->timeout_s,
                   &call, &entrant->reason) != WORKER_OK)
        return -1;
    divide_window(run, call);
    return 0;
}

/* One window at the end of the run's; 0, or -1 when the worker failed or memory is short. */
static int take_window(sustained_run *run, double start) {
    double batches[MOST_BATCHES];
    bench_entrant *const entrant = run->entrant;
    bench_energy energy = bench_no_energy;
    result_window *const window = &run->windows[run->count];
    const double calls = (double)(run->calls * run->batches);
    const processor_time time_before = processor_time_now();
    const sensor_reading before = sensors_read(run->plan->sensors);
    const double from = bench_now();
    if (worker_run(entrant->worker, run->batches, run->calls, run->plan->task.waited,
                   run->plan->timeout_s, batches, &entrant->reason) != WORKER_OK)
        return -1;
    const double to = bench_now();
    const sensor_reading after = sensors_read(run->plan->sensors);
    const processor_time time_after = processor_time_now();
    double mean = 0;
    for (int64_t i = 0; i < run->batches; i++)
        mean += batches[i] / (double)run->batches;
    bench_note_energy(&before, &after, calls, &energy);
    bench_note_energy(&before, &after, calls, &entrant->energy);
    *window = (result_window){
        .at_s = from - start,
        .seconds = to - from,
        .joules = energy.joules / calls,
        .power_w = energy.power_w,
        .temperature_c = energy.temperature_c,
        .clock_mhz = energy.clock_mhz,
        .stolen = stolen_share(&time_before, &time_after),
        .throttled = energy.throttled,
    };
    sensors_name_reasons(energy.throttle_reasons, window->throttle_reasons);
    run->count++;
    if (window->seconds < run->window_s / 2) /* the calls that it was measured by were held up */
        divide_window(run, window->seconds / calls);
    return series_add(&entrant->series, mean, to - from);
}

/* Windows until the run's seconds have been measured, or one where the suite's time is over; 0, or -1. The entrant's series has their samples. */
static int take_windows(sustained_run *run) {
    bench_entrant *const entrant = run->entrant;
    const processor_time before = processor_time_now();
    const double start = bench_now();
    double passed = 0;
    series_release(&entrant->series);
    do {
        progress_show((int)(100 * passed / run->seconds), 100, "%s: sustained", run->plan->label);
        if (take_window(run, start) != 0)
            return -1;
        passed = run->windows[run->count - 1].at_s + run->windows[run->count - 1].seconds;
    } while (passed < run->seconds && run->count < run->room && !bench_is_over(run->plan));
    const processor_time after = processor_time_now();
    entrant->stolen = stolen_share(&before, &after);
    return 0;
}

static void add_number(result_number *numbers, const char *key, double value) {
    while (numbers->key != NULL)
        numbers++;
    if (isfinite(value))
        *numbers = (result_number){key, value};
}

/* What the whole comes to, in the row's figures and as a sentence for people. */
static void summarize(const sustained_run *run, const bench_result *like, bench_result *row,
                      worker_text *note) {
    const double amount = like->flops > 0 ? like->flops : like->bytes;
    const char *const of_amount = like->flops > 0 ? "GFLOP/s" : "GB/s";
    const sustained_summary summary =
        sustained_summarize(run->entrant->series.values, run->windows, run->count, run->seconds);
    const double per_amount = amount > 0 ? 1e12 / amount : NAN;
    add_number(row->metrics, "burst_s", summary.burst_s);
    add_number(row->metrics, "sustained_s", summary.sustained_s);
    add_number(row->metrics, "sustained_of_burst", summary.burst_s / summary.sustained_s);
    add_number(row->metrics, "burst_pj", summary.burst_j * per_amount);
    add_number(row->metrics, "sustained_pj", summary.sustained_j * per_amount);
    if (isfinite(summary.sustained_s))
        worker_text_set(note, "at first %.4g, last third %.4g %s", amount / summary.burst_s * 1e-9,
                        amount / summary.sustained_s * 1e-9, of_amount);
    else
        worker_text_set(note, "at first %.4g %s; it ended too soon to tell what is kept up",
                        amount / summary.burst_s * 1e-9, of_amount);
}

static void report_row(const sustained_run *run, const bench_result *like, bench_report *report) {
    char name[CASE_NAME];
    char reasons[SENSOR_REASONS_TEXT];
    worker_text note = {.length = 0};
    bench_result row = *like;
    bench_entrant *const entrant = run->entrant;
    snprintf(name, sizeof name, "sustained %s", like->case_name);
    sensors_name_reasons(entrant->energy.throttle_reasons, reasons);
    row.suite = "sustained";
    row.case_name = name;
    row.windows = run->windows;
    row.throttle_reasons = reasons;
    add_number(row.shape, "seconds", run->seconds);
    summarize(run, like, &row, &note);
    bench_report_noted(report, &row, entrant, note.text);
}

void bench_sustain(const bench_plan *plan, bench_entrant *entrant, double seconds,
                   const bench_result *row, bench_report *report) {
    const double window =
        fmax(fmin(usual_window_s, seconds / LEAST_WINDOWS), seconds / MOST_WINDOWS);
    sustained_run run = {
        .plan = plan,
        .entrant = entrant,
        .seconds = seconds,
        .window_s = window,
        .room = 2 * MOST_WINDOWS,
    };
    if (entrant->status != RESULT_OK)
        return;
    run.windows = calloc(run.room, sizeof *run.windows);
    bench_begin_case(plan, entrant, 1);
    if (entrant->status == RESULT_OK &&
        (run.windows == NULL || begin_windows(&run) != 0 || take_windows(&run) != 0))
        entrant->status = RESULT_FAILED;
    if (entrant->status == RESULT_OK)
        worker_text_set(&entrant->reason, "%s", ""); /* the worker's last answer */
    progress_clear();
    report_row(&run, row, report);
    free(run.windows);
}
