/*
 * `tandem bench launch`: what the library adds to a launch. A kernel that does next to nothing is enqueued by the library and by the
 * bare driver; a small product runs by tdm_gemm, which finds its plan in a cache, and by that plan.
 */
#include <stdio.h>
#include <string.h>

#include "bench/bench_commands.h"
#include "bench/cases/launch_case.h"
#include "bench/harness/bench_peers.h"
#include "bench/harness/bench_settings.h"

typedef struct launch_options {
    const char *operations, *modes, *shape;
    bench_settings settings;
} launch_options;

/* What a word of --operation measures: Tandem's call, and the reference that its time is compared with (NULL: none). */
static const struct {
    const char *word, *reference;
    launch_way way, reference_way;
} operations[] = {{"kernel", "opencl", LAUNCH_KERNEL, LAUNCH_KERNEL},
                  {"list", NULL, LAUNCH_LIST, LAUNCH_LIST},
                  {"gemm", "tandem-plan", LAUNCH_CALL, LAUNCH_PLAN}};

static void write_request(const bench_suite *suite, const launch_case *item, worker_text *request) {
    launch_case_write(item, request);
    bench_device_write(&suite->device, request);
}

static void enter(bench_entrant *entrants, const bench_suite *suite, const char *reference) {
    bench_entrant_self(&entrants[0], "tandem", "launch");
    if (reference == NULL)
        return;
    if (strcmp(reference, "opencl") != 0)
        bench_entrant_self(&entrants[1], reference, "launch");
    else if (strcmp(suite->device.info.backend, "cuda") == 0)
        bench_entrant_self(&entrants[1], "cuda", "bare-cuda");
    else
        bench_entrant_peer(&entrants[1], "opencl");
}

static bench_result row_of(const launch_case *item, const char *name, const char *mode) {
    bench_result row = {.suite = "launch", .case_name = name, .mode = mode, .packing = "none"};
    if (item->way == LAUNCH_LIST)
        row.shape[0] = (result_number){"commands", LAUNCH_LIST_COMMANDS};
    if (launch_way_is_kernel(item->way))
        return row;
    row.dtype = "f32";
    row.packing = "inside";
    row.shape[0] = (result_number){"m", (double)item->gemm.m};
    row.shape[1] = (result_number){"n", (double)item->gemm.n};
    row.shape[2] = (result_number){"k", (double)item->gemm.k};
    return row;
}

static void run_case(bench_suite *suite, int number, launch_case item, const gemm_oracle *oracle,
                     const char *mode) {
    static bench_entrant entrants[2];
    worker_text requests[2] = {{.length = 0}, {.length = 0}};
    char name[96] = "kernel";
    const int count = operations[number].reference == NULL ? 1 : 2;
    const int is_kernel = launch_way_is_kernel(operations[number].way);
    item.way = operations[number].reference_way;
    write_request(suite, &item, &requests[1]);
    item.way = operations[number].way;
    write_request(suite, &item, &requests[0]);
    if (item.way == LAUNCH_LIST)
        snprintf(name, sizeof name, "command list of %d kernels", LAUNCH_LIST_COMMANDS);
    if (!is_kernel)
        gemm_case_name(&item.gemm, name, sizeof name);
    bench_result row = row_of(&item, name, mode);
    const bench_task task = {.request = requests[0].text,
                             .verify = is_kernel ? probe_case_check : gemm_oracle_check,
                             .user = is_kernel ? (const void *)&item.probe : oracle,
                             .waited = strcmp(mode, "waited") == 0};
    bench_task reference = task;
    reference.request = requests[1].text;
    enter(entrants, suite, operations[number].reference);
    entrants[1].task = &reference;
    bench_suite_run(suite, &task, name, entrants, count);
    const double own = bench_entrant_median(&entrants[0]);
    if (count == 2) {
        const double other = bench_entrant_median(&entrants[1]);
        row.metrics[0] = (result_number){"reference_s", other};
        row.metrics[1] = (result_number){"extra_s", own - other};
    } else {
        row.metrics[0] = (result_number){"command_s", own / LAUNCH_LIST_COMMANDS};
    }
    bench_report_case(&suite->report, &row, entrants, count);
    bench_entrants_release(entrants, count);
    entrants[1].task = NULL;
}

static int run_on_device(bench_suite *suite, const launch_options *options, launch_case *item) {
    const char *modes = options->modes;
    char mode[16];
    gemm_oracle oracle = GEMM_ORACLE_INIT;
    const int code = bench_suite_open(suite, "calls/s", NULL);
    if (code != CLI_EXIT_OK)
        return code;
    item->gemm.types = GEMM_F32;
    item->gemm.seed = item->probe.seed = (uint64_t)options->settings.seed;
    item->probe.kind = PROBE_LAUNCH;
    if (gemm_oracle_set(&oracle, &item->gemm) != 0)
        return CLI_EXIT_FAILED;
    while (cli_next_word(&modes, ',', mode, sizeof mode) == 1) {
        for (int i = 0; i < (int)(sizeof operations / sizeof operations[0]); i++)
            if (cli_list_has(options->operations, operations[i].word))
                run_case(suite, i, *item, &oracle, mode);
    }
    gemm_oracle_release(&oracle);
    return bench_suite_close(suite, NULL, 0);
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
        .name = "tandem bench launch",
        .summary = "what a call of the library costs beyond the launch",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .notes = "metrics: extra_s is what Tandem's call takes beyond the reference_s of the\n"
                 "bare launch, or of the plan that tdm_gemm looks up.",
    };
    launch_case item = {.way = LAUNCH_KERNEL};
    bench_suite suite = {.command = command.name, .settings = &given.settings};
    const cli_outcome outcome = cli_parse(&command, argc, argv, NULL);
    if (outcome != CLI_RUN)
        return cli_exit_code(outcome);
    if (gemm_case_parse_shape(given.shape, &item.gemm) != 0)
        return cli_refuse(command.name, "--shape does not take '%s': %s", given.shape,
                          gemm_case_shape_rule);
    return run_on_device(&suite, &given, &item);
}
