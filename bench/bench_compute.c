/* `tandem bench compute`: the limits of a device that rooflines are drawn from. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench_commands.h"
#include "bench/bench_peers.h"
#include "bench/bench_settings.h"

static const char command_name[] = "tandem bench compute";

enum {
    COMPUTE_ENTRANTS = 2,
    STEEPEST = 1024,         /* flops a byte */
    HALVES = 3,              /* 1/4, 1/8, 1/16 */
    MAX_RUNGS = HALVES + 12, /* and 1/2 to 1024 */
    FULL_INTENSITY = 32,     /* up to which a rung reads all bytes */
    LEAST_LADDER_BYTES = 4096
};

typedef struct compute_options {
    const char *operations;
    int64_t bytes;
    int64_t steps;
    bench_settings settings;
} compute_options;

static void run_case(const compute_options *options, const bench_device *device, probe_kind kind,
                     bench_entrant *entrants, bench_report *report) {
    char name[MAX_PROBE_NAME];
    worker_text request;
    worker_text fields = {.length = 0};
    const probe_case item = {
        .kind = kind,
        .bytes = options->bytes,
        .steps = options->steps,
        .seed = (uint64_t)options->settings.seed,
    };
    bench_device_write(device, &fields);
    bench_plan plan = bench_settings_plan(&options->settings);
    plan.task = bench_probe_task(&item, &fields, &request);
    plan.label = probe_kind_name(kind);
    bench_run_case(&plan, entrants, COMPUTE_ENTRANTS);
    const bench_result row = bench_probe_row(&item, entrants[0].work, name);
    bench_report_case(report, &row, entrants, COMPUTE_ENTRANTS);
}

/* A rung as the case left it: which is the fastest is known when all are measured. */
typedef struct ladder_rung {
    probe_case item;
    bench_entrant entrant;
    double rate;    /* flops a second */
    double of_peak; /* share of the multiply-adds from registers measured in turn */
} ladder_rung;

/* From 1/16 to 1024 flops a byte; the steep ones, which memory does not hold up, read less. */
static int choose_rungs(const compute_options *options, probe_case *items) {
    int count = 0;
    for (int64_t share = 8; share >= 2; share /= 2)
        items[count++] = (probe_case){.kind = PROBE_LADDER, .share = share};
    for (int64_t steps = 1; steps <= 2 * STEEPEST; steps *= 2)
        items[count++] = (probe_case){.kind = PROBE_LADDER, .steps = steps};
    for (int i = 0; i < count; i++) {
        const double intensity = probe_ladder_intensity(&items[i]);
        const double kept = intensity > FULL_INTENSITY ? FULL_INTENSITY / intensity : 1;
        const int64_t bytes = (int64_t)(kept * (double)options->bytes);
        items[i].bytes = bytes < LEAST_LADDER_BYTES ? LEAST_LADDER_BYTES : bytes;
        items[i].seed = (uint64_t)options->settings.seed;
    }
    return count;
}

static void measure_rung(const compute_options *options, const bench_device *device,
                         bench_entrant *entrants, ladder_rung *rung) {
    char name[MAX_PROBE_NAME];
    worker_text request;
    worker_text peak_request;
    worker_text fields = {.length = 0};
    const probe_case peak = {
        .kind = PROBE_FMA, .steps = options->steps, .seed = (uint64_t)options->settings.seed};
    bench_device_write(device, &fields);
    bench_plan plan = bench_settings_plan(&options->settings);
    plan.task = bench_probe_task(&rung->item, &fields, &request);
    const bench_task peak_task = bench_probe_task(&peak, &fields, &peak_request);
    entrants[1].task = &peak_task;
    snprintf(name, sizeof name, "fma f32 intensity %g", probe_ladder_intensity(&rung->item));
    plan.label = name;
    bench_run_case(&plan, entrants, 2);
    entrants[1].task = NULL;
    rung->rate = bench_roof_rate(&entrants[0]);
    rung->of_peak = rung->rate / bench_roof_rate(&entrants[1]);
    rung->entrant = entrants[0];
    rung->entrant.worker = NULL;
    entrants[0].series = (sample_series){.count = 0}; /* they are the rung's now */
}

static void report_rung(ladder_rung *rung, int is_peak, bench_report *report) {
    char name[MAX_PROBE_NAME];
    const double intensity = probe_ladder_intensity(&rung->item);
    snprintf(name, sizeof name, "fma f32 intensity %g", intensity);
    const bench_result row = {
        .suite = "compute",
        .case_name = name,
        .dtype = "f32",
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
    series_release(&rung->entrant.series);
}

/* Types that the kernels have for storage alone. */
static void report_storage_type(const char *dtype, bench_report *report) {
    char name[MAX_PROBE_NAME];
    snprintf(name, sizeof name, "fma %s", dtype);
    const bench_result row = {
        .suite = "compute",
        .case_name = name,
        .impl = "tandem",
        .dtype = dtype,
        .mode = "pipelined",
        .packing = "none",
        .max_error = NAN,
        .status = RESULT_SKIPPED,
        .reason = "no kernel of this operation computes in the type: it is one of storage",
    };
    bench_report_row(report, &row);
}

static void run_ladder(const compute_options *options, const bench_device *device,
                       bench_entrant *entrants, bench_report *report) {
    probe_case items[MAX_RUNGS];
    int peak = 0;
    const int count = choose_rungs(options, items);
    ladder_rung *const rungs = calloc(MAX_RUNGS, sizeof *rungs);
    for (int i = 0; rungs != NULL && i < count; i++) {
        rungs[i].item = items[i];
        measure_rung(options, device, entrants, &rungs[i]);
        if (!(rungs[i].rate <= rungs[peak].rate))
            peak = i;
    }
    for (int i = 0; rungs != NULL && i < count; i++)
        report_rung(&rungs[i], i == peak, report);
    free(rungs);
    report_storage_type("f16", report);
    report_storage_type("bf16", report);
}

static int run_on_device(const compute_options *options) {
    static bench_entrant entrants[COMPUTE_ENTRANTS];
    bench_device device;
    bench_report report;
    const char *operations = options->operations;
    char word[16];
    const int code =
        bench_settings_open(command_name, &options->settings, "GFLOP/s", NULL, &device, &report);
    if (code != CLI_EXIT_OK)
        return code;
    bench_entrant_self(&entrants[0], "tandem", "probe");
    bench_entrant_self(&entrants[1], BENCH_TWIN_NAME, "probe");
    while (cli_next_word(&operations, ',', word, sizeof word) == 1) {
        probe_kind kind = PROBE_FMA;
        probe_kind_parse(word, &kind);
        if (kind == PROBE_LADDER)
            run_ladder(options, &device, entrants, &report);
        else
            run_case(options, &device, kind, entrants, &report);
    }
    bench_entrants_release(entrants, COMPUTE_ENTRANTS);
    return bench_report_close(&report, command_name, options->settings.json);
}

int bench_compute_command(int argc, char **argv) {
    compute_options given = {
        .operations = "fma,dot,read,ladder",
        .bytes = 128 << 20,
        .steps = 4096,
        .settings = BENCH_SETTINGS_INIT,
    };
    const cli_option options[] = {
        {"operation", CLI_CHOICES, &given.operations, "LIST",
         "f32 multiply-adds, dot products of bytes, reading memory, multiply-adds on what is read",
         "fma|dot|read|ladder", 0, 0},
        {"bytes", CLI_BYTES, &given.bytes, "N", "how much is read; 128M by default", NULL, 1, 1e12},
        {"steps", CLI_COUNT, &given.steps, "N", "steps of a chain of fma or dot; 4096 by default",
         NULL, 1, 60000},
        BENCH_SETTINGS_OPTIONS(&given.settings),
    };
    const cli_command command = {
        .name = command_name,
        .summary = "the device's limits: arithmetic and reading, verified",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .notes = "The other suites measure these beside their cases where --roof names them.",
    };
    const cli_outcome outcome = cli_parse(&command, argc, argv, NULL);
    return outcome == CLI_RUN ? run_on_device(&given) : cli_exit_code(outcome);
}
