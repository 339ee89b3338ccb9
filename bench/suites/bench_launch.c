/*
 * `tandem bench launch` measures the time that the library adds to a launch. The library and the
 * bare driver enqueue a kernel that does almost nothing. A small GEMM runs by tdm_gemm, which finds
 * its plan in a cache, and by that plan directly.
 */
#include <stdio.h>
#include <string.h>

#include "bench/bench_commands.h"
#include "bench/cases/gemm_case.h"
#include "bench/cases/probe_case.h"
#include "bench/harness/bench_peers.h"
#include "bench/harness/bench_settings.h"

typedef struct launch_options {
    const char *operations, *modes;
    bench_settings settings;
} launch_options;

enum {
    LIST_COMMANDS = 64
};

/*
 * The words of --operation: Tandem's call, and the reference to which its time is compared (NULL:
 * none).
 */
static const struct {
    const char *word, *worker, *reference;
    int commands; /* in a command list of kernels */
} operations[] = {{"kernel", "probe", "opencl", 0},
                  {"list", "probe", NULL, LIST_COMMANDS},
                  {"gemm", "gemm", "tandem-plan", 0}};

typedef struct launch_run {
    bench_suite suite;
    gemm_case gemm; /* runs by tdm_gemm */
    probe_case probe;
    gemm_oracle oracle;
} launch_run;

static void enter(bench_contender *contenders, const bench_suite *suite, int number) {
    const char *const reference = operations[number].reference;
    bench_contender_self(&contenders[0], "tandem", operations[number].worker);
    if (reference == NULL)
        return;
    if (strcmp(reference, "opencl") != 0)
        bench_contender_self(&contenders[1], reference, operations[number].worker);
    else if (strcmp(suite->device.info.backend, "cuda") == 0)
        bench_contender_self(&contenders[1], "cuda", "bare-cuda");
    else
        bench_contender_peer(&contenders[1], "opencl");
}

static bench_result row_of_product(const gemm_case *item) {
    return (bench_result){
        .dtype = "f32",
        .packing = "inside",
        .shape = {{"m", (double)item->m}, {"n", (double)item->n}, {"k", (double)item->k}}};
}

static void run_case(launch_run *run, int number, const char *mode) {
    static bench_contender contenders[2];
    worker_text requests[2] = {{.length = 0}, {.length = 0}};
    char name[96] = "kernel";
    const int count = operations[number].reference == NULL ? 1 : 2;
    const int commands = operations[number].commands;
    const int is_kernel = strcmp(operations[number].worker, "probe") == 0;
    gemm_case by_plan = run->gemm;
    probe_case *const probe = &run->probe;
    bench_result row = is_kernel ? (bench_result){.packing = "none"} : row_of_product(&run->gemm);
    by_plan.way = GEMM_BY_PLAN;
    probe->commands = commands;
    for (int i = 0; i < count; i++) {
        if (is_kernel)
            probe_case_write(probe, &requests[i]);
        else
            gemm_case_write(i == 0 ? &run->gemm : &by_plan, &requests[i]);
        bench_device_write(&run->suite.device, &requests[i]);
    }
    if (commands > 0) {
        snprintf(name, sizeof name, "command list of %d kernels", commands);
        row.shape[0] = (result_number){"commands", commands};
    }
    if (!is_kernel)
        gemm_case_name(&run->gemm, name, sizeof name);
    row.suite = "launch";
    row.case_name = name;
    row.mode = mode;
    const bench_task task = {.request = requests[0].text,
                             .verify = is_kernel ? probe_case_check : gemm_oracle_check,
                             .user = is_kernel ? (const void *)probe : &run->oracle,
                             .waited = strcmp(mode, "waited") == 0};
    bench_task reference = task;
    reference.request = requests[1].text;
    enter(contenders, &run->suite, number);
    contenders[1].task = &reference;
    bench_suite_run(&run->suite, &task, name, contenders, count);
    const double own = bench_contender_median(&contenders[0]);
    if (count == 2) {
        const double other = bench_contender_median(&contenders[1]);
        row.metrics[0] = (result_number){"reference_s", other};
        row.metrics[1] = (result_number){"extra_s", own - other};
    } else {
        row.metrics[0] = (result_number){"command_s", own / commands};
    }
    bench_report_case(&run->suite.report, &row, contenders, count);
    bench_contenders_release(contenders, count);
    contenders[1].task = NULL;
}

static int run_on_device(launch_run *run, const launch_options *options) {
    const char *modes = options->modes;
    char mode[16];
    const int code = bench_suite_open(&run->suite, "calls/s", NULL);
    if (code != CLI_EXIT_OK)
        return code;
    run->gemm.seed = run->probe.seed = (uint64_t)options->settings.seed;
    if (gemm_oracle_set(&run->oracle, &run->gemm) != 0)
        return CLI_EXIT_FAILED;
    while (cli_next_word(&modes, ',', mode, sizeof mode) == 1) {
        for (int i = 0; i < (int)(sizeof operations / sizeof operations[0]); i++)
            if (cli_list_has(options->operations, operations[i].word))
                run_case(run, i, mode);
    }
    gemm_oracle_release(&run->oracle);
    return bench_suite_close(&run->suite, NULL, 0);
}

int bench_launch_command(int argc, char **argv) {
    launch_options given = {
        .operations = "kernel,list,gemm",
        .modes = "pipelined,waited",
        .settings = BENCH_SETTINGS_INIT,
    };
    const cli_option options[] = {
        {"operation", CLI_CHOICES, &given.operations, "LIST",
         "a kernel compared with the bare driver, a replayed list of kernels, tdm_gemm compared "
         "with its plan",
         "kernel|list|gemm", 0, 0},
        {"mode", CLI_CHOICES, &given.modes, "LIST",
         "wait once after many calls (pipelined) or after each call (waited)", "pipelined|waited",
         0, 0},
        BENCH_SETTINGS_OPTIONS(&given.settings),
    };
    const cli_command command = {
        .name = "tandem bench launch",
        .summary = "overhead of a library call beyond the launch",
        CLI_OPTIONS(options),
        .notes = "metrics: extra_s is the time of Tandem's call beyond reference_s, the time of "
                 "the bare launch\n"
                 "or of the plan that tdm_gemm looks up.",
    };
    launch_run run = {.suite = {.command = command.name, .settings = &given.settings},
                      .gemm = {.types = GEMM_F32, .m = 8, .n = 8, .k = 8, .way = GEMM_BY_CALL},
                      .probe = {.kind = PROBE_LAUNCH},
                      .oracle = GEMM_ORACLE_INIT};
    const cli_outcome outcome = cli_parse(&command, argc, argv, NULL);
    return outcome == CLI_RUN ? run_on_device(&run, &given) : cli_exit_code(outcome);
}
