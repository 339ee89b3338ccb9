/* `tandem bench compute` measures the peak arithmetic rates of a device, for rooflines. */
#include <string.h>

#include <tandem/tandem.h>

#include "bench/bench_commands.h"
#include "bench/harness/bench_peers.h"
#include "bench/harness/bench_settings.h"

typedef struct compute_options {
    const char *dtypes;
    int64_t steps;
    bench_settings settings;
} compute_options;

typedef struct compute_run {
    const compute_options *options;
    bench_suite suite;
    bench_contender contenders[1];
} compute_run;

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
    const bench_task task = bench_probe_task(&item, &run->suite.device, &request);
    bench_suite_run(&run->suite, &task, probe_kind_name(PROBE_FMA), run->contenders, 1);
    const bench_result row = bench_probe_row(&item, run->contenders[0].work, name);
    bench_report_case(&run->suite.report, &row, run->contenders, 1);
}

static int run_on_device(const char *command, const compute_options *options) {
    static compute_run run;
    const char *dtypes = options->dtypes;
    char word[16];
    run = (compute_run){.options = options,
                        .suite = {.command = command, .settings = &options->settings}};
    const int code = bench_suite_open(&run.suite, "GFLOP/s", NULL);
    if (code != CLI_EXIT_OK)
        return code;
    bench_contender_self(&run.contenders[0], "tandem", "probe");
    while (cli_next_word(&dtypes, ',', word, sizeof word) == 1)
        run_case(&run, tdm_dtype_from_name(word));
    return bench_suite_close(&run.suite, run.contenders, 1);
}

int bench_compute_command(int argc, char **argv) {
    compute_options given = {
        .dtypes = "f32,f16,bf16,s8",
        .steps = 4096,
        .settings = BENCH_SETTINGS_INIT,
    };
    const cli_option options[] = {
        {"dtype", CLI_CHOICES, &given.dtypes, "LIST",
         "data types of the multiply-adds; s8 measures dot products", "f32|f16|bf16|s8", 0, 0},
        {"steps", CLI_COUNT, &given.steps, "N", "steps of a chain of fma or dot; 4096 by default",
         NULL, 1, 60000},
        BENCH_SETTINGS_OPTIONS(&given.settings),
    };
    const cli_command command = {
        .name = "tandem bench compute",
        .summary = "the device's peak arithmetic rates, verified",
        CLI_OPTIONS(options),
    };
    const cli_outcome outcome = cli_parse(&command, argc, argv, NULL);
    return outcome == CLI_RUN ? run_on_device(command.name, &given) : cli_exit_code(outcome);
}
