/* The suites of `tandem bench` share this file: options, the device, and the way to run a case. */
#ifndef TANDEM_BENCH_HARNESS_BENCH_SETTINGS_H
#define TANDEM_BENCH_HARNESS_BENCH_SETTINGS_H

#include "bench/harness/bench_report.h"
#include "common/command/cli_options.h"

typedef struct bench_settings {
    const char *device;
    const char *json;
    int64_t seed;
    int64_t samples; /* most samples of a row; 0: the default */
    double timeout_s;
    double budget_s;   /* after this time no case begins; 0: no limit */
    double patience_s; /* sampling time of a row; 0: the default */
    int quick;
} bench_settings;

#define BENCH_SETTINGS_INIT                                                                        \
    { .seed = 1, .timeout_s = 30 }

#define BENCH_QUICK_OPTION(target)                                                                 \
    {                                                                                              \
        "quick", CLI_FLAG, target, NULL,                                                           \
            "take few samples, to check that everything works; not a measurement", NULL, 0, 0      \
    }

/* The rows of a suite's option table. */
#define BENCH_SETTINGS_OPTIONS(settings)                                                           \
    CLI_DEVICE_OPTION(&(settings)->device), CLI_JSON_OPTION(&(settings)->json),                    \
        {"timeout",                                                                                \
         CLI_NUMBER,                                                                               \
         &(settings)->timeout_s,                                                                   \
         "SECONDS",                                                                                \
         "a worker process that does not answer for this long has failed; 30 by default",          \
         NULL,                                                                                     \
         0.1,                                                                                      \
         3600},                                                                                    \
        {"seconds",                                                                                \
         CLI_NUMBER,                                                                               \
         &(settings)->budget_s,                                                                    \
         "SECONDS",                                                                                \
         "skip cases that have not begun after this time; no limit by default",                    \
         NULL,                                                                                     \
         0.001,                                                                                    \
         1e6},                                                                                     \
        {"patience",                                                                               \
         CLI_NUMBER,                                                                               \
         &(settings)->patience_s,                                                                  \
         "SECONDS",                                                                                \
         "sampling time of each row; 0.2 by default",                                              \
         NULL,                                                                                     \
         0.001,                                                                                    \
         1e4},                                                                                     \
        BENCH_QUICK_OPTION(&(settings)->quick), {"samples",                                        \
                                                 CLI_COUNT,                                        \
                                                 &(settings)->samples,                             \
                                                 "N",                                              \
                                                 "most samples of each row; 10 by default",        \
                                                 NULL,                                             \
                                                 1,                                                \
                                                 100000},                                          \
    {                                                                                              \
        "seed", CLI_COUNT, &(settings)->seed, "N", "seed of the data", NULL, 0, 1e15               \
    }

/*
 * A suite's state while it runs. The caller sets `command` and `settings`; bench_suite_open sets
 * the rest.
 */
typedef struct bench_suite {
    const char *command;
    const bench_settings *settings;
    bench_device device;
    bench_report report;
} bench_suite;

/*
 * Checks --json, finds the device and opens the report. Returns CLI_EXIT_OK, or the exit code after
 * printing the reason on stderr. `roofs` may be NULL; it is kept.
 */
int bench_suite_open(bench_suite *suite, const char *rate_name, const bench_roofs *roofs);

/* Runs a case: `task` on every contender that has no task of its own. */
void bench_suite_run(const bench_suite *suite, const bench_task *task, const char *label,
                     bench_contender *contenders, int count);

/* Ends the contenders and writes the report. Returns the exit code. */
int bench_suite_close(bench_suite *suite, bench_contender *contenders, int count);

/* Returns a case's plan, with the fields that the settings determine. */
bench_plan bench_settings_plan(const bench_settings *settings);

#endif
