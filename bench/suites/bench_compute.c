/* `tandem bench compute`: the arithmetic of a device that rooflines are drawn from. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tandem/tandem.h>

#include "bench/bench_commands.h"
#include "bench/harness/bench_peers.h"
#include "bench/harness/bench_settings.h"
#include "common/command/progress.h"

enum {
    MOST_CALLS = 10000 /* that wait in a queue */
};

typedef struct compute_options {
    const char *operations;
    const char *dtypes;
    int64_t steps;
    double sustained_s; /* 0: not */
    bench_settings settings;
} compute_options;

typedef struct compute_run {
    const compute_options *options;
    bench_suite suite;
    bench_entrant entrants[1];
} compute_run;

/* ---- sustained ----------------------------------------------------------------------------------------- */

/* A sample is the mean of the calls of about so long; clocks rise within a burst, and heat takes longer. */
static const double window_s = 0.25, burst_s = 2;

/* Take windows of calls for so long; 0, or -1 when the worker failed or memory is short. */
static int take_windows(const bench_plan *plan, bench_entrant *entrant, double seconds,
                        sample_series *first, sample_series *last) {
    const double start = bench_now();
    int64_t calls = entrant->calls;
    double begun = 0;
    bench_entrant_forget(entrant);
    while (begun < seconds && !bench_is_over(plan)) {
        double call = 0;
        progress_show((int)(100 * begun / seconds), 100, "%s: sustained", plan->label);
        const sensor_reading before = sensors_read(plan->sensors);
        if (worker_run(entrant->worker, 1, calls, plan->task.waited, plan->timeout_s, &call,
                       &entrant->reason) != WORKER_OK)
            return -1;
        const sensor_reading after = sensors_read(plan->sensors);
        bench_note_energy(&before, &after, (double)calls, &entrant->energy);
        if (series_add(&entrant->series, call, 0) != 0 ||
            (begun < fmin(burst_s, seconds / 3) && series_add(first, call, 0) != 0) ||
            (begun >= seconds * 2 / 3 && series_add(last, call, 0) != 0))
            return -1;
        calls = (int64_t)fmax(1, fmin(MOST_CALLS, fmin(window_s, seconds / 12) / fmax(call, 1e-9)));
        begun = bench_now() - start;
    }
    worker_text_set(&entrant->reason, "%s", ""); /* the worker's last answer */
    return 0;
}

/* Run the plan's task again and again: how much of its first speed a device keeps when heat and power limits hold it down. */
static void sustain(compute_run *run, const bench_plan *plan, bench_result row) {
    sample_series first = {.count = 0}, last = {.count = 0};
    bench_entrant *const entrant = &run->entrants[0];
    const double seconds = run->options->sustained_s;
    char name[MAX_ROOF_NAME + 16], reasons[SENSOR_REASONS_TEXT];
    if (entrant->status != RESULT_OK)
        return;
    bench_begin_case(plan, entrant, 1);
    if (entrant->status == RESULT_OK && take_windows(plan, entrant, seconds, &first, &last) != 0)
        entrant->status = RESULT_FAILED;
    progress_clear();
    const double first_s = summarize_samples(first.values, first.count).median;
    const double last_s = summarize_samples(last.values, last.count).median;
    snprintf(name, sizeof name, "sustained %s", row.case_name);
    sensors_name_reasons(entrant->energy.throttle_reasons, reasons);
    row.suite = "sustained";
    row.case_name = name;
    row.throttle_reasons = reasons;
    row.shape[1] = (result_number){"seconds", seconds};
    row.metrics[0] = (result_number){"burst_s", first_s};
    row.metrics[1] = (result_number){"sustained_s", last_s};
    row.metrics[2] = (result_number){"sustained_of_burst", first_s / last_s};
    bench_report_case(&run->suite.report, &row, entrant, 1);
    series_release(&first);
    series_release(&last);
}

/* ---- cases --------------------------------------------------------------------------------------------- */

static void run_case(compute_run *run, tdm_dtype dtype) {
    const compute_options *const options = run->options;
    char name[MAX_ROOF_NAME];
    worker_text request;
    const probe_case item = {
        .kind = PROBE_FMA,
        .dtype = dtype,
        .steps = options->steps,
        .seed = (uint64_t)options->settings.seed,
    };
    bench_plan plan = bench_settings_plan(&options->settings);
    plan.task = bench_probe_task(&item, &run->suite.device, &request);
    plan.label = probe_kind_name(PROBE_FMA);
    bench_run_case(&plan, run->entrants, 1);
    const bench_result row = bench_probe_row(&item, run->entrants[0].work, name);
    bench_report_case(&run->suite.report, &row, run->entrants, 1);
    if (options->sustained_s > 0)
        sustain(run, &plan, row);
}

/* One operation of the list: fma is of real numbers, dot of bytes. */
static void run_operation(compute_run *run, const char *operation) {
    const char *dtypes = run->options->dtypes;
    char word[16];
    while (cli_next_word(&dtypes, ',', word, sizeof word) == 1) {
        const tdm_dtype dtype = tdm_dtype_from_name(word);
        if (strcmp(operation, probe_arithmetic_name(dtype)) == 0)
            run_case(run, dtype);
    }
}

static int run_on_device(const char *command, const compute_options *options) {
    static compute_run run;
    const char *operations = options->operations;
    char word[16];
    run = (compute_run){.options = options,
                        .suite = {.command = command, .settings = &options->settings}};
    const int code = bench_suite_open(&run.suite, "GFLOP/s", NULL);
    if (code != CLI_EXIT_OK)
        return code;
    bench_entrant_self(&run.entrants[0], "tandem", "probe");
    while (cli_next_word(&operations, ',', word, sizeof word) == 1)
        run_operation(&run, word);
    return bench_suite_close(&run.suite, run.entrants, 1);
}

int bench_compute_command(int argc, char **argv) {
    compute_options given = {
        .operations = "fma,dot",
        .dtypes = "f32,f16,bf16,s8",
        .steps = 4096,
        .settings = BENCH_SETTINGS_INIT,
    };
    const cli_option options[] = {
        {"operation", CLI_CHOICES, &given.operations, "LIST",
         "multiply-adds, dot products of bytes", "fma|dot", 0, 0},
        {"dtype", CLI_CHOICES, &given.dtypes, "LIST", "types of fma and dot (s8)",
         "f32|f16|bf16|s8", 0, 0},
        {"steps", CLI_COUNT, &given.steps, "N", "steps of a chain of fma or dot; 4096 by default",
         NULL, 1, 60000},
        {"sustained", CLI_NUMBER, &given.sustained_s, "SECONDS",
         "behind a row run it for so long: how much of its first speed it keeps", NULL, 0.1, 86400},
        BENCH_SETTINGS_OPTIONS(&given.settings),
    };
    const cli_command command = {
        .name = "tandem bench compute",
        .summary = "the device's limit of arithmetic, verified",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
    };
    const cli_outcome outcome = cli_parse(&command, argc, argv, NULL);
    return outcome == CLI_RUN ? run_on_device(command.name, &given) : cli_exit_code(outcome);
}
