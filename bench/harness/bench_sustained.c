#include "bench/harness/bench_sustained.h"

#include <math.h>
#include <stdio.h>

#include "common/command/progress.h"

enum {
    MOST_CALLS = 10000, /* that wait in a queue */
    CASE_NAME = 128
};

/* A sample is the mean of the calls of about so long. */
static const double usual_window_s = 0.25;

/* Clocks rise within this time, and heat takes longer. */
static const double burst_s = 2;

/* Take windows of calls for so long; 0, or -1 when the worker failed or memory is short. */
static int take_windows(const bench_plan *plan, bench_entrant *entrant, double seconds,
                        sample_series *first, sample_series *last) {
    const double window_s = fmin(usual_window_s, seconds / 12);
    const double start = bench_now();
    int64_t calls = entrant->calls;
    series_release(&entrant->series);
    double begun = 0;
    while (begun < seconds && !bench_is_over(plan)) {
        double call = 0;
        progress_show((int)(100 * begun / seconds), 100, "%s: sustained", plan->label);
        const sensor_reading before = sensors_read(plan->sensors);
        if (worker_run(entrant->worker, 1, calls, plan->task.waited, plan->timeout_s, &call,
                       &entrant->reason) != WORKER_OK)
            return -1;
        const sensor_reading after = sensors_read(plan->sensors);
        const double spent = call * (double)calls;
        bench_note_energy(&before, &after, (double)calls, &entrant->energy);
        if (series_add(&entrant->series, call, spent) != 0 ||
            (begun < fmin(burst_s, seconds / 3) && series_add(first, call, spent) != 0) ||
            (begun >= seconds * 2 / 3 && series_add(last, call, spent) != 0))
            return -1;
        calls = (int64_t)fmax(1, fmin(MOST_CALLS, window_s / fmax(call, 1e-9)));
        begun = bench_now() - start;
    }
    return 0;
}

static void report_row(const bench_entrant *entrant, double seconds, const bench_result *like,
                       double first_s, double last_s, bench_report *report) {
    char name[CASE_NAME];
    char note[64];
    char reasons[SENSOR_REASONS_TEXT];
    bench_result row = *like;
    int place = 0;
    snprintf(name, sizeof name, "sustained %s", like->case_name);
    snprintf(note, sizeof note, "last third at %.3f of the first speed", first_s / last_s);
    sensors_name_reasons(entrant->energy.throttle_reasons, reasons);
    row.suite = "sustained";
    row.case_name = name;
    row.throttle_reasons = reasons;
    while (row.shape[place].key != NULL)
        place++;
    row.shape[place] = (result_number){"seconds", seconds};
    for (place = 0; row.metrics[place].key != NULL;)
        place++;
    if (isfinite(first_s / last_s)) {
        row.metrics[place++] = (result_number){"burst_s", first_s};
        row.metrics[place++] = (result_number){"sustained_s", last_s};
        row.metrics[place] = (result_number){"sustained_of_burst", first_s / last_s};
    }
    bench_report_noted(report, &row, entrant, isfinite(first_s / last_s) ? note : "");
}

void bench_sustain(const bench_plan *plan, bench_entrant *entrant, double seconds,
                   const bench_result *row, bench_report *report) {
    sample_series first = {.count = 0};
    sample_series last = {.count = 0};
    if (entrant->status != RESULT_OK)
        return;
    bench_begin_case(plan, entrant, 1);
    if (entrant->status == RESULT_OK && take_windows(plan, entrant, seconds, &first, &last) != 0)
        entrant->status = RESULT_FAILED;
    if (entrant->status == RESULT_OK)
        worker_text_set(&entrant->reason, "%s", ""); /* the worker's last answer */
    progress_clear();
    report_row(entrant, seconds, row, summarize_samples(first.values, first.count).median,
               summarize_samples(last.values, last.count).median, report);
    series_release(&first);
    series_release(&last);
}
