/* `tandem bench compute`: the limits of a device that rooflines are drawn from. */
#include <string.h>

#include "bench/bench_commands.h"
#include "bench/bench_peers.h"
#include "bench/bench_settings.h"

static const char command_name[] = "tandem bench compute";

enum {
    COMPUTE_ENTRANTS = 2
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
        run_case(options, &device, kind, entrants, &report);
    }
    bench_entrants_release(entrants, COMPUTE_ENTRANTS);
    return bench_report_close(&report, command_name, options->settings.json);
}

int bench_compute_command(int argc, char **argv) {
    compute_options given = {
        .operations = "fma,dot,read",
        .bytes = 256 << 20,
        .steps = 4096,
        .settings = BENCH_SETTINGS_INIT,
    };
    const cli_option options[] = {
        {"operation", CLI_CHOICES, &given.operations, "LIST",
         "f32 multiply-adds, dot products of bytes, reading memory", "fma|dot|read", 0, 0},
        {"bytes", CLI_BYTES, &given.bytes, "N", "how much is read; 256M by default", NULL, 1, 1e12},
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
