/* `tandem bench compute`: the limits of a device that rooflines are drawn from. */
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
    STEEPEST = 1024,         /* flops a byte */
    HALVES = 3,              /* 1/4, 1/8, 1/16 */
    MAX_RUNGS = HALVES + 12, /* and 1/2 to 1024 */
    FULL_INTENSITY = 32,     /* up to which a rung reads all bytes */
    LEAST_LADDER_BYTES = 4096,
    MOST_CALLS = 10000 /* that wait in a queue */
};

typedef struct compute_options {
    const char *operations;
    const char *dtypes;
    int64_t bytes;
    int64_t steps;
    double sustained_s; /* 0: not */
    bench_settings settings;
} compute_options;

typedef struct compute_run {
    const compute_options *options;
    bench_suite suite;
    bench_entrant entrants[2]; /* the second runs the peak beside a ladder */
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
    char name[MAX_PROBE_NAME + 16], reasons[SENSOR_REASONS_TEXT];
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

static void run_case(compute_run *run, probe_kind kind, tdm_dtype dtype) {
    const compute_options *const options = run->options;
    char name[MAX_PROBE_NAME];
    worker_text request;
    const probe_case item = {
        .kind = kind,
        .dtype = dtype,
        .bytes = options->bytes,
        .steps = options->steps,
        .seed = (uint64_t)options->settings.seed,
    };
    bench_plan plan = bench_settings_plan(&options->settings);
    plan.task = bench_probe_task(&item, &run->suite.device, &request);
    plan.label = probe_kind_name(kind);
    bench_run_case(&plan, run->entrants, 1);
    const bench_result row = bench_probe_row(&item, run->entrants[0].work, name);
    bench_report_case(&run->suite.report, &row, run->entrants, 1);
    if (options->sustained_s > 0)
        sustain(run, &plan, row);
}

/* A rung as the case left it: which is the fastest is known when all are measured. */
typedef struct ladder_rung {
    probe_case item;
    bench_entrant entrant;
    double rate;    /* flops a second */
    double of_peak; /* share of the multiply-adds from registers measured in turn */
} ladder_rung;

/*
 * From what one chain of eight makes of it, 1/16 of f32, to 1024 operations a byte; the steep ones, which memory does not hold up, read
 * less.
 */
static int choose_rungs(const compute_options *options, tdm_dtype dtype, probe_case *items) {
    int count = 0;
    const int64_t wanted = 4 * STEEPEST / probe_word_operations(dtype);
    const int64_t steepest = wanted < options->steps ? wanted : options->steps;
    for (int64_t share = 8; share >= 2; share /= 2)
        items[count++] = (probe_case){.kind = PROBE_LADDER, .dtype = dtype, .share = share};
    for (int64_t steps = 1; steps <= steepest; steps *= 2)
        items[count++] = (probe_case){.kind = PROBE_LADDER, .dtype = dtype, .steps = steps};
    for (int i = 0; i < count; i++) {
        const double intensity = probe_ladder_intensity(&items[i]);
        const double kept = intensity > FULL_INTENSITY ? FULL_INTENSITY / intensity : 1;
        const int64_t bytes = (int64_t)(kept * (double)options->bytes);
        items[i].bytes = bytes < LEAST_LADDER_BYTES ? LEAST_LADDER_BYTES : bytes;
        items[i].seed = (uint64_t)options->settings.seed;
    }
    return count;
}

static void name_rung(const probe_case *item, char name[MAX_PROBE_NAME]) {
    snprintf(name, MAX_PROBE_NAME, "%s %s intensity %g", probe_arithmetic_name(item->dtype),
             tdm_dtype_name(item->dtype), probe_ladder_intensity(item));
}

static void measure_rung(compute_run *run, ladder_rung *rung) {
    char name[MAX_PROBE_NAME];
    worker_text request, peak_request;
    const probe_case peak = {.kind = PROBE_FMA,
                             .dtype = rung->item.dtype,
                             .steps = run->options->steps,
                             .seed = (uint64_t)run->options->settings.seed};
    const bench_task task = bench_probe_task(&rung->item, &run->suite.device, &request);
    const bench_task peak_task = bench_probe_task(&peak, &run->suite.device, &peak_request);
    run->entrants[1].task = &peak_task;
    name_rung(&rung->item, name);
    bench_suite_run(&run->suite, &task, name, run->entrants, 2);
    run->entrants[1].task = NULL;
    rung->rate = bench_roof_rate(&run->entrants[0]);
    rung->of_peak = rung->rate / bench_roof_rate(&run->entrants[1]);
    rung->entrant = bench_entrant_hand_over(&run->entrants[0]);
}

static void report_rung(ladder_rung *rung, int is_peak, bench_report *report) {
    char name[MAX_PROBE_NAME];
    const double intensity = probe_ladder_intensity(&rung->item);
    name_rung(&rung->item, name);
    const bench_result row = {
        .suite = "compute",
        .case_name = name,
        .dtype = tdm_dtype_name(rung->item.dtype),
        .shape = {{"intensity", intensity},
                  {"steps", (double)rung->item.steps},
                  {"bytes", (double)rung->item.bytes}},
        .metrics = {{"of_peak", rung->of_peak}, {is_peak ? "peak" : NULL, 1}},
        .mode = "pipelined",
        .packing = "none",
        .flops = rung->entrant.work,
        .bytes = rung->entrant.work / intensity,
    };
    bench_report_case(report, &row, &rung->entrant, 1);
    bench_entrant_forget(&rung->entrant);
}

/* Where the first rung has no kernel no other has, and one row says why. */
static void run_ladder(compute_run *run, tdm_dtype dtype) {
    probe_case items[MAX_RUNGS];
    double most = 0;
    int peak = -1;
    int count = choose_rungs(run->options, dtype, items);
    ladder_rung *const rungs = calloc(MAX_RUNGS, sizeof *rungs);
    for (int i = 0; rungs != NULL && i < count; i++) {
        rungs[i].item = items[i];
        measure_rung(run, &rungs[i]);
        if (rungs[i].rate > most) { /* a NaN is not */
            most = rungs[i].rate;
            peak = i;
        }
        if (rungs[0].entrant.status == RESULT_SKIPPED)
            count = 1;
    }
    for (int i = 0; rungs != NULL && i < count; i++)
        report_rung(&rungs[i], i == peak, &run->suite.report);
    free(rungs);
}

/* One operation of the list: fma is of real numbers, dot of bytes, ladder of both. */
static void run_operation(compute_run *run, const char *operation) {
    const char *dtypes = run->options->dtypes;
    char word[16];
    if (strcmp(operation, "read") == 0) {
        run_case(run, PROBE_READ, TDM_F32);
        return;
    }
    while (cli_next_word(&dtypes, ',', word, sizeof word) == 1) {
        const tdm_dtype dtype = tdm_dtype_from_name(word);
        if (strcmp(operation, "ladder") == 0)
            run_ladder(run, dtype);
        else if (strcmp(operation, probe_arithmetic_name(dtype)) == 0)
            run_case(run, PROBE_FMA, dtype);
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
    bench_entrant_self(&run.entrants[1], "tandem", "probe");
    while (cli_next_word(&operations, ',', word, sizeof word) == 1)
        run_operation(&run, word);
    return bench_suite_close(&run.suite, run.entrants, 2);
}

int bench_compute_command(int argc, char **argv) {
    compute_options given = {
        .operations = "fma,dot,read,ladder",
        .dtypes = "f32,f16,bf16,s8",
        .bytes = 128 << 20,
        .steps = 4096,
        .settings = BENCH_SETTINGS_INIT,
    };
    const cli_option options[] = {
        {"operation", CLI_CHOICES, &given.operations, "LIST",
         "multiply-adds, dot products of bytes, reading memory, and either on what is read",
         "fma|dot|read|ladder", 0, 0},
        {"dtype", CLI_CHOICES, &given.dtypes, "LIST", "types of fma, dot (s8) and ladder",
         "f32|f16|bf16|s8", 0, 0},
        {"bytes", CLI_BYTES, &given.bytes, "N", "how much is read; 128M by default", NULL, 1, 1e12},
        {"steps", CLI_COUNT, &given.steps, "N",
         "steps of a chain of fma or dot, at most so many of ladder; 4096 by default", NULL, 1,
         60000},
        {"sustained", CLI_NUMBER, &given.sustained_s, "SECONDS",
         "behind a row of fma, dot or read run it for so long: how much of its first speed it "
         "keeps",
         NULL, 0.1, 86400},
        BENCH_SETTINGS_OPTIONS(&given.settings),
    };
    const cli_command command = {
        .name = "tandem bench compute",
        .summary = "the device's limits: arithmetic and reading, verified",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
    };
    const cli_outcome outcome = cli_parse(&command, argc, argv, NULL);
    return outcome == CLI_RUN ? run_on_device(command.name, &given) : cli_exit_code(outcome);
}
