/*
 * `tandem bench launch`: what the library adds to a launch. A kernel that does next to nothing is enqueued
 * by the library and by the bare driver, OpenCL or CUDA; a small product runs by its plan and by tdm_gemm, which finds the plan
 * in its cache first.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench/bench_commands.h"
#include "bench/cases/launch_case.h"
#include "bench/harness/bench_peers.h"
#include "bench/harness/bench_settings.h"

static const char command_name[] = "tandem bench launch";

enum {
    LAUNCH_ENTRANTS = 2,
    REFERENCE = 1 /* the entrant that the library's call is compared with */
};

typedef struct launch_options {
    const char *operations;
    const char *modes;
    const char *shape;
    bench_settings settings;
} launch_options;

typedef struct launch_run {
    const launch_options *options;
    bench_device device;
    bench_report report;
    gemm_oracle oracle;
    worker_text summary;
} launch_run;

static void write_request(const launch_run *run, const launch_case *item, worker_text *request) {
    launch_case_write(item, request);
    bench_device_write(&run->device, request);
}

static void report(launch_run *run, bench_result *row, bench_entrant *entrants) {
    const double reference = bench_entrant_median(&entrants[REFERENCE]);
    const double extra = bench_entrant_median(&entrants[0]) - reference;
    row->metrics[0] = (result_number){"reference_s", reference};
    row->metrics[1] = (result_number){"extra_s", extra};
    if (isfinite(extra))
        worker_text_add(&run->summary, "%s %s: tandem adds %.2f us to the %.2f us of %s\n",
                        row->case_name, row->mode, 1e6 * extra, 1e6 * reference,
                        entrants[REFERENCE].impl);
    bench_report_case(&run->report, row, entrants, LAUNCH_ENTRANTS);
}

/* Bare launches of the device's own driver. */
static void enter_bare(const launch_run *run, bench_entrant *entrant) {
    if (strcmp(run->device.info.backend, "cuda") == 0)
        bench_entrant_self(entrant, "cuda", "bare-cuda");
    else
        bench_entrant_peer(entrant, "opencl");
}

/* The same kernel, by the library and bare. */
static void run_kernel(launch_run *run, int waited) {
    static bench_entrant entrants[LAUNCH_ENTRANTS];
    worker_text request = {.length = 0};
    const launch_case item = {
        .way = LAUNCH_KERNEL,
        .probe = {.kind = PROBE_LAUNCH, .seed = (uint64_t)run->options->settings.seed},
    };
    bench_entrant_self(&entrants[0], "tandem", "launch");
    enter_bare(run, &entrants[REFERENCE]);
    write_request(run, &item, &request);
    bench_plan plan = bench_settings_plan(&run->options->settings);
    plan.task = (bench_task){
        .request = request.text,
        .verify = probe_case_check,
        .user = &item.probe,
        .waited = waited,
    };
    plan.label = "kernel";
    bench_run_case(&plan, entrants, LAUNCH_ENTRANTS);
    bench_result row = {
        .suite = "launch",
        .case_name = "kernel",
        .mode = waited ? "waited" : "pipelined",
        .packing = "none",
    };
    report(run, &row, entrants);
    bench_entrants_release(entrants, LAUNCH_ENTRANTS);
}

/* Many of the kernel, recorded once and replayed by a call. */
static void run_list(launch_run *run, int waited) {
    static bench_entrant entrant;
    char name[48];
    worker_text request = {.length = 0};
    const launch_case item = {
        .way = LAUNCH_LIST,
        .probe = {.kind = PROBE_LAUNCH, .seed = (uint64_t)run->options->settings.seed},
    };
    snprintf(name, sizeof name, "command list of %d kernels", LAUNCH_LIST_COMMANDS);
    bench_entrant_self(&entrant, "tandem", "launch");
    write_request(run, &item, &request);
    bench_plan plan = bench_settings_plan(&run->options->settings);
    plan.task = (bench_task){
        .request = request.text,
        .verify = probe_case_check,
        .user = &item.probe,
        .waited = waited,
    };
    plan.label = name;
    bench_run_case(&plan, &entrant, 1);
    const bench_result row = {
        .suite = "launch",
        .case_name = name,
        .shape = {{"commands", LAUNCH_LIST_COMMANDS}},
        .mode = waited ? "waited" : "pipelined",
        .packing = "none",
        .metrics = {{"command_s", bench_entrant_median(&entrant) / LAUNCH_LIST_COMMANDS}},
    };
    bench_report_case(&run->report, &row, &entrant, 1);
    bench_entrants_release(&entrant, 1);
}

/* The same product, by tdm_gemm and by its plan. */
static void run_gemm(launch_run *run, int waited) {
    static bench_entrant entrants[LAUNCH_ENTRANTS];
    worker_text request = {.length = 0};
    worker_text plan_request = {.length = 0};
    char name[96];
    launch_case item = {
        .way = LAUNCH_CALL,
        .gemm = {.types = GEMM_F32, .seed = (uint64_t)run->options->settings.seed},
    };
    gemm_case_parse_shape(run->options->shape, &item.gemm);
    if (gemm_oracle_set(&run->oracle, &item.gemm) != 0)
        return;
    gemm_case_name(&item.gemm, name, sizeof name);
    write_request(run, &item, &request);
    item.way = LAUNCH_PLAN;
    write_request(run, &item, &plan_request);
    bench_entrant_self(&entrants[0], "tandem", "launch");
    bench_entrant_self(&entrants[REFERENCE], "tandem-plan", "launch");
    bench_plan plan = bench_settings_plan(&run->options->settings);
    plan.task = (bench_task){
        .request = request.text,
        .verify = gemm_oracle_check,
        .user = &run->oracle,
        .waited = waited,
    };
    bench_task by_plan = plan.task;
    by_plan.request = plan_request.text;
    entrants[REFERENCE].task = &by_plan;
    plan.label = name;
    bench_run_case(&plan, entrants, LAUNCH_ENTRANTS);
    bench_result row = {
        .suite = "launch",
        .case_name = name,
        .dtype = "f32",
        .shape = {{"m", (double)item.gemm.m},
                  {"n", (double)item.gemm.n},
                  {"k", (double)item.gemm.k}},
        .mode = waited ? "waited" : "pipelined",
        .packing = "inside",
    };
    report(run, &row, entrants);
    bench_entrants_release(entrants, LAUNCH_ENTRANTS);
}

static int run_on_device(const launch_options *options) {
    static launch_run run;
    const char *modes = options->modes;
    char mode[16];
    run = (launch_run){.options = options, .oracle = GEMM_ORACLE_INIT};
    const int code = bench_settings_open(command_name, &options->settings, "calls/s", NULL,
                                         &run.device, &run.report);
    if (code != CLI_EXIT_OK)
        return code;
    while (cli_next_word(&modes, ',', mode, sizeof mode) == 1) {
        const int waited = strcmp(mode, "waited") == 0;
        if (cli_list_has(options->operations, "kernel"))
            run_kernel(&run, waited);
        if (cli_list_has(options->operations, "list"))
            run_list(&run, waited);
        if (cli_list_has(options->operations, "gemm"))
            run_gemm(&run, waited);
    }
    gemm_oracle_release(&run.oracle);
    const int closed = bench_report_close(&run.report, command_name, options->settings.json);
    if (options->settings.json == NULL || strcmp(options->settings.json, "-") != 0)
        fputs(run.summary.text, stdout);
    return closed;
}

int bench_launch_command(int argc, char **argv) {
    launch_options given = {
        .operations = "kernel,list,gemm",
        .modes = "pipelined,waited",
        .shape = "8x8x8",
        .settings = BENCH_SETTINGS_INIT,
    };
    const cli_option options[] = {
        {"operation", CLI_CHOICES, &given.operations, "LIST",
         "a kernel beside the bare driver, a replayed list of kernels, tdm_gemm beside its plan",
         "kernel|list|gemm", 0, 0},
        {"shape", CLI_TEXT, &given.shape, "MxNxK", "of the product; 8x8x8 by default", NULL, 0, 0},
        {"mode", CLI_CHOICES, &given.modes, "LIST", "many calls and one wait, or a wait after each",
         "pipelined|waited", 0, 0},
        BENCH_SETTINGS_OPTIONS(&given.settings),
    };
    const cli_command command = {
        .name = command_name,
        .summary = "what a call of the library costs beyond the launch",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .notes =
            "The bare kernel is enqueued with clEnqueueNDRangeKernel or cuLaunchKernel alone, its\n"
            "arguments set once, on a queue or stream that the library made. tandem-plan runs the\n"
            "plan that tdm_gemm looks up.",
    };
    gemm_case item;
    const cli_outcome outcome = cli_parse(&command, argc, argv, NULL);
    if (outcome != CLI_RUN)
        return cli_exit_code(outcome);
    if (gemm_case_parse_shape(given.shape, &item) != 0)
        return cli_refuse(command_name, "--shape does not take '%s': %s", given.shape,
                          gemm_case_shape_rule);
    return run_on_device(&given);
}
