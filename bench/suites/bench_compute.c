/* `tandem bench compute`: the limits of a device that rooflines are drawn from. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tandem/tandem.h>

#include "bench/bench_commands.h"
#include "bench/harness/bench_peers.h"
#include "bench/harness/bench_settings.h"
#include "bench/harness/bench_sustained.h"
#include "bench/suites/gemm_beside.h"

static const char command_name[] = "tandem bench compute";

enum {
    STEEPEST = 1024,         /* flops a byte */
    HALVES = 3,              /* 1/4, 1/8, 1/16 */
    MAX_RUNGS = HALVES + 12, /* and 1/2 to 1024 */
    FULL_INTENSITY = 32,     /* up to which a rung reads all bytes */
    LEAST_LADDER_BYTES = 4096
};

typedef struct compute_options {
    const char *operations;
    const char *dtypes;
    int64_t bytes;
    int64_t steps;
    int64_t side; /* of the products */
    bench_settings settings;
} compute_options;

static void run_case(const compute_options *options, const bench_device *device, probe_kind kind,
                     tdm_dtype dtype, bench_entrant *entrants, bench_report *report) {
    char name[MAX_PROBE_NAME];
    worker_text request;
    worker_text fields = {.length = 0};
    const probe_case item = {
        .kind = kind,
        .dtype = dtype,
        .bytes = options->bytes,
        .steps = options->steps,
        .seed = (uint64_t)options->settings.seed,
    };
    bench_device_write(device, &fields);
    bench_plan plan = bench_settings_plan(&options->settings);
    plan.task = bench_probe_task(&item, &fields, &request);
    plan.label = probe_kind_name(kind);
    bench_run_case(&plan, entrants, 1);
    const bench_result row = bench_probe_row(&item, entrants[0].work, name);
    bench_report_case(report, &row, entrants, 1);
    if (options->settings.sustained_s > 0)
        bench_sustain(&plan, &entrants[0], options->settings.sustained_s, &row, report);
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

static void name_ladder(const probe_case *item, char name[MAX_PROBE_NAME]) {
    snprintf(name, MAX_PROBE_NAME, "%s %s", probe_arithmetic_name(item->dtype),
             tdm_dtype_name(item->dtype));
}

static void name_rung(const probe_case *item, char name[MAX_PROBE_NAME]) {
    snprintf(name, MAX_PROBE_NAME, "%s %s intensity %g", probe_arithmetic_name(item->dtype),
             tdm_dtype_name(item->dtype), probe_ladder_intensity(item));
}

static void measure_rung(const compute_options *options, const bench_device *device,
                         bench_plan plan, bench_entrant *entrants, ladder_rung *rung) {
    char name[MAX_PROBE_NAME];
    worker_text request;
    worker_text peak_request;
    worker_text fields = {.length = 0};
    const probe_case peak = {.kind = PROBE_FMA,
                             .dtype = rung->item.dtype,
                             .steps = options->steps,
                             .seed = (uint64_t)options->settings.seed};
    bench_device_write(device, &fields);
    plan.task = bench_probe_task(&rung->item, &fields, &request);
    const bench_task peak_task = bench_probe_task(&peak, &fields, &peak_request);
    entrants[1].task = &peak_task;
    name_rung(&rung->item, name);
    plan.label = name;
    bench_run_case(&plan, entrants, 2);
    entrants[1].task = NULL;
    rung->rate = bench_roof_rate(&entrants[0]);
    rung->of_peak = rung->rate / bench_roof_rate(&entrants[1]);
    rung->entrant = bench_entrant_hand_over(&entrants[0]);
}

static void report_rung(ladder_rung *rung, int is_peak, int is_alone, bench_report *report) {
    char name[MAX_PROBE_NAME];
    const double intensity = probe_ladder_intensity(&rung->item);
    if (is_alone)
        name_ladder(&rung->item, name);
    else
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

/* One case: where the first rung has no kernel no other has, and one row says why. */
static void run_ladder(const compute_options *options, const bench_device *device, tdm_dtype dtype,
                       bench_entrant *entrants, bench_report *report) {
    probe_case items[MAX_RUNGS];
    double most = 0;
    int peak = -1;
    int count = choose_rungs(options, dtype, items);
    ladder_rung *const rungs = calloc(MAX_RUNGS, sizeof *rungs);
    const bench_plan plan = bench_settings_plan(&options->settings);
    for (int i = 0; rungs != NULL && i < count; i++) {
        rungs[i].item = items[i];
        measure_rung(options, device, plan, entrants, &rungs[i]);
        if (rungs[i].rate > most) { /* a NaN is not */
            most = rungs[i].rate;
            peak = i;
        }
        if (rungs[0].entrant.status == RESULT_SKIPPED)
            count = 1;
    }
    for (int i = 0; rungs != NULL && i < count; i++)
        report_rung(&rungs[i], i == peak, count == 1, report);
    free(rungs);
}

static void measure_product(const compute_options *options, const bench_device *device,
                            const gemm_case *item, const gemm_oracle *oracle,
                            bench_entrant *entrant, bench_report *report) {
    char name[MAX_GEMM_CASE_NAME];
    worker_text request = {.length = 0};
    worker_text reason = {.length = 0};
    const bench_result row = gemm_case_row(item, "gemm", name);
    const char *const missing =
        gemm_case_fits(item, 2, &device->info, &reason) ? NULL : reason.text;
    gemm_case_write(item, &request);
    bench_device_write(device, &request);
    bench_plan plan = bench_settings_plan(&options->settings);
    plan.task = (bench_task){.request = request.text, .verify = gemm_oracle_check, .user = oracle};
    plan.label = name;
    entrant->missing = missing;
    bench_run_case(&plan, entrant, 1);
    bench_report_case(report, &row, entrant, 1);
}

/* Points below the roof: a square product of each type, as bench gemm has them. */
static void run_products(const compute_options *options, const bench_device *device,
                         bench_report *report) {
    static bench_entrant entrant;
    const char *dtypes = options->dtypes;
    char word[16];
    gemm_oracle oracle = GEMM_ORACLE_INIT;
    bench_entrant_self(&entrant, "tandem", "gemm");
    while (cli_next_word(&dtypes, ',', word, sizeof word) == 1) {
        const gemm_case item = {.types = gemm_types_find(word),
                                .m = options->side,
                                .n = options->side,
                                .k = options->side,
                                .seed = (uint64_t)options->settings.seed};
        if (gemm_oracle_set(&oracle, &item) == 0)
            measure_product(options, device, &item, &oracle, &entrant, report);
    }
    bench_entrants_release(&entrant, 1);
    gemm_oracle_release(&oracle);
}

/* One operation of the list: fma is of real numbers, dot of bytes, ladder of both. */
static void run_operation(const compute_options *options, const bench_device *device,
                          const char *operation, bench_entrant *entrants, bench_report *report) {
    const char *dtypes = options->dtypes;
    char word[16];
    if (strcmp(operation, "read") == 0) {
        run_case(options, device, PROBE_READ, TDM_F32, entrants, report);
        return;
    }
    if (strcmp(operation, "gemm") == 0) {
        run_products(options, device, report);
        return;
    }
    while (cli_next_word(&dtypes, ',', word, sizeof word) == 1) {
        const tdm_dtype dtype = tdm_dtype_from_name(word);
        if (strcmp(operation, "ladder") == 0)
            run_ladder(options, device, dtype, entrants, report);
        else if (strcmp(operation, probe_arithmetic_name(dtype)) == 0)
            run_case(options, device, PROBE_FMA, dtype, entrants, report);
    }
}

static int run_on_device(const compute_options *options) {
    static bench_entrant entrants[2]; /* the second runs the peak beside a ladder */
    bench_device device;
    bench_report report;
    const char *operations = options->operations;
    char word[16];
    const int code =
        bench_settings_open(command_name, &options->settings, "GFLOP/s", NULL, &device, &report);
    if (code != CLI_EXIT_OK)
        return code;
    bench_entrant_self(&entrants[0], "tandem", "probe");
    bench_entrant_self(&entrants[1], "tandem", "probe");
    while (cli_next_word(&operations, ',', word, sizeof word) == 1)
        run_operation(options, &device, word, entrants, &report);
    bench_entrants_release(entrants, 2);
    return bench_report_close(&report, command_name, options->settings.json);
}

int bench_compute_command(int argc, char **argv) {
    compute_options given = {
        .operations = "fma,dot,read,ladder",
        .dtypes = "f32,f16,bf16,s8",
        .bytes = 128 << 20,
        .steps = 4096,
        .side = 1024,
        .settings = BENCH_SETTINGS_INIT,
    };
    const cli_option options[] = {
        {"operation", CLI_CHOICES, &given.operations, "LIST",
         "multiply-adds, dot products of bytes, reading memory, either on what is read, and, where "
         "asked for, square products",
         "fma|dot|read|ladder|gemm", 0, 0},
        {"dtype", CLI_CHOICES, &given.dtypes, "LIST", "types of fma, dot (s8), ladder and gemm",
         "f32|f16|bf16|s8", 0, 0},
        {"bytes", CLI_BYTES, &given.bytes, "N", "how much is read; 128M by default", NULL, 1, 1e12},
        {"steps", CLI_COUNT, &given.steps, "N",
         "steps of a chain of fma or dot, at most so many of ladder; 4096 by default", NULL, 1,
         60000},
        {"side", CLI_COUNT, &given.side, "N",
         "rows and columns of gemm's products; 1024 by default", NULL, 1, 8192},
        BENCH_SUSTAINED_OPTION(&given.settings.sustained_s),
        BENCH_SETTINGS_OPTIONS(&given.settings),
    };
    const cli_command command = {
        .name = command_name,
        .summary = "the device's limits: arithmetic and reading, verified",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .notes = "The other suites measure these beside their cases where --roof names them. "
                 "--sustained is of fma,\ndot and read.",
    };
    const cli_outcome outcome = cli_parse(&command, argc, argv, NULL);
    return outcome == CLI_RUN ? run_on_device(&given) : cli_exit_code(outcome);
}
