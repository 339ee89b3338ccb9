/*
 * `--sustained SECONDS`: a case again and again for so long, in windows of time: what a device gives at first and what it keeps giving when
 * heat and power limits hold it down.
 */
#ifndef TANDEM_BENCH_HARNESS_BENCH_SUSTAINED_H
#define TANDEM_BENCH_HARNESS_BENCH_SUSTAINED_H

#include "bench/harness/bench_settings.h"

#define BENCH_SUSTAINED_OPTION(target)                                                             \
    {                                                                                              \
        "sustained", CLI_NUMBER, target, "SECONDS",                                                \
            "behind a case's row run it for so long, in windows of time", NULL, 0.1, 86400         \
    }

/* What windows come to. Seconds and joules are of a call; NaN: not known. */
typedef struct sustained_summary {
    double burst_s,
        sustained_s; /* medians of the windows that begin in the first two seconds, that end in the last third */
    double burst_j, sustained_j;
} sustained_summary;

/*
 * `samples[i]`, seconds of a call, was taken in windows[i]. Of runs of less than six seconds the first third stands for the first two seconds;
 * one that was cut far short of its `seconds` tells nothing of what is kept up.
 */
sustained_summary sustained_summarize(const double *samples, const result_window *windows,
                                      size_t count, double seconds);

/*
 * Run the plan's task, which the entrant has just measured, for `seconds` more and report a row of suite "sustained" like `row`. None where
 * the entrant's case was not ok.
 */
void bench_sustain(const bench_plan *plan, bench_entrant *entrant, double seconds,
                   const bench_result *row, bench_report *report);

#endif
