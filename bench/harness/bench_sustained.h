/*
 * `--sustained SECONDS`: a case again and again for so long: what a device gives at first, and what it
 * keeps giving when heat and power limits hold it down.
 */
#ifndef TANDEM_BENCH_HARNESS_BENCH_SUSTAINED_H
#define TANDEM_BENCH_HARNESS_BENCH_SUSTAINED_H

#include "bench/harness/bench_settings.h"

#define BENCH_SUSTAINED_OPTION(target)                                                             \
    {                                                                                              \
        "sustained", CLI_NUMBER, target, "SECONDS",                                                \
            "behind a case's row run it for so long: how much of its first speed it keeps", NULL,  \
            0.1, 86400                                                                             \
    }

/*
 * Run the plan's task, which the entrant has just measured, for `seconds` more and report a row of
 * suite "sustained" like `row`. None where the entrant's case was not ok.
 */
void bench_sustain(const bench_plan *plan, bench_entrant *entrant, double seconds,
                   const bench_result *row, bench_report *report);

#endif
