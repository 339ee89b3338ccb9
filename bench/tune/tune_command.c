/* `tandem tune` finds a device's fastest variants and parameters, for the library to use. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tandem/tandem.h>

#include "bench/bench_commands.h"
#include "bench/cases/gemm_sets.h"
#include "bench/harness/bench_peers.h"
#include "bench/tune/tune_run.h"
#include "common/command/cli_options.h"
#include "common/command/device_pick.h"
#include "common/command/standard_streams.h"
#include "common/table_print.h"

static const char command_name[] = "tandem tune";

typedef struct tune_options {
    const char *device;
    const char *shapes; /* NULL: the sets, or the default */
    const char *sets;
    const char *dtypes;
    const char *layouts; /* NULL: those of the set */
    const char *output;
    double time_limit;
    int again;
    int quick;
} tune_options;

/* ---- reporting ------------------------------------------------------------------------------- */

static void add_row(text_table *table, const tune_outcome *outcome) {
    const tune_comparison *const comparison = &outcome->comparison;
    char name[96];
    gemm_case_name(&outcome->item, name, sizeof name);
    table_cell(table, "%s", name);
    if (outcome->status != TUNE_DONE) {
        table_cell(table, "%s", outcome->status == TUNE_BROKEN ? "FAILED" : "skipped");
        for (int empty = 0; empty < 3; empty++)
            table_cell(table, "%s", "");
        table_cell(table, "%s", outcome->reason);
        return;
    }
    table_duration(table, comparison->own_s);
    table_duration(table, comparison->tuned_s);
    table_cell(table, "%.2fx", comparison->own_s / comparison->tuned_s);
    table_cell(table, "%d%s", outcome->trials, outcome->failures > 0 ? " !" : "");
    table_cell(table, "%s", outcome->choice);
}

/* ---- the run --------------------------------------------------------------------------------- */

/* Tunes all cases and prints the report. Returns an exit code. */
static int tune_all(tune_run *run, const tune_cases *cases, const char *path) {
    text_table *const table = table_create("case|>default|>tuned|>gain|>tried|variant:parameters");
    int counts[TUNE_BROKEN + 1] = {0};
    int status = 0;
    for (int i = 0; i < cases->count && status == 0; i++) {
        static tune_outcome outcome;
        run->number = i + 1;
        run->total = cases->count;
        status = tune_run_case(run, &cases->items[i], cases->count - i, &outcome);
        progress_clear();
        counts[outcome.status]++;
        add_row(table, &outcome);
    }
    tune_bench_close(&run->bench);
    table_print(table, stdout);
    printf("\n%s: %d tuned, %d skipped, %d failed\n", path, counts[TUNE_DONE], counts[TUNE_SKIPPED],
           counts[TUNE_BROKEN]);
    table_destroy(table);
    return status == 0 && counts[TUNE_BROKEN] == 0 ? CLI_EXIT_OK : CLI_EXIT_FAILED;
}

/* Returns the path of the tuning file, which the caller frees. */
static char *output_path(const tune_options *options) {
    bool named;
    char *const path =
        options->output != NULL ? tdm_host_strdup(options->output) : tdm_tuning_path(&named);
    if (path == NULL)
        cli_refuse(command_name, "there is no default tuning file: name one with --output");
    return path;
}

static int run_on_device(const tune_options *options, const tune_cases *cases,
                         const tdm_device_info *info, int index, const char *path) {
    static bench_contender self; /* provides the program and arguments of the workers */
    char device[TDM_TUNING_DEVICE_TEXT];
    worker_text fields = {.length = 0};
    bench_contender_self(&self, "tandem", "gemm");
    setenv("TANDEM_TUNING_FILE", "off", 1); /* workers ignore earlier results */
    worker_field_add_integer(&fields, "index", index);
    worker_field_add(&fields, "selector", info->selector);
    tune_run run = {
        .command = command_name,
        .device = device,
        .info = info,
        .device_fields = fields.text,
        .bench = {.program = self.program,
                  .arguments = self.arguments,
                  .timeout_s = 15,
                  .sample_seconds = options->quick ? 0.001 : 0.02,
                  .samples = options->quick ? 2 : 5},
        .oracle = GEMM_ORACLE_INIT,
        .file = tune_file_open(command_name, path),
        .deadline = tune_clock() + options->time_limit,
        .again = options->again,
        .notes = stderr,
    };
    int code = CLI_EXIT_FAILED;
    if (run.file != NULL && tdm_tuning_device_write(info, device))
        code = tune_all(&run, cases, path);
    tune_file_close(run.file);
    gemm_oracle_release(&run.oracle);
    return code;
}

static int gather_cases(const tune_options *options, tune_cases *cases) {
    if (options->sets != NULL && options->shapes != NULL)
        return cli_refuse(command_name, "give --set or --shapes, not both");
    return tune_cases_add(command_name, options->sets,
                          options->shapes == NULL ? tune_default_shapes : options->shapes,
                          options->dtypes, options->layouts, cases);
}

static int run_with(const tune_options *options) {
    tune_cases cases = {.items = NULL};
    tdm_context *context = NULL;
    tdm_device_info info;
    int index = 0;
    char *path = NULL;
    int code = gather_cases(options, &cases);
    if (code == CLI_EXIT_OK && (path = output_path(options)) == NULL)
        code = CLI_EXIT_USAGE;
    if (code == CLI_EXIT_OK)
        code = device_pick(command_name, options->device, &context, &index, &info);
    /* The driver's threads in this process would slow the workers, so the context is closed. */
    if (code == CLI_EXIT_OK) {
        tdm_context_destroy(context);
        code = run_on_device(options, &cases, &info, index, path);
    }
    tdm_host_free(path);
    tune_cases_release(&cases);
    return code;
}

int tune_command(int argc, char **argv) {
    tune_options given = {
        .dtypes = "f32",
        .time_limit = 600,
    };
    const cli_option options[] = {
        CLI_DEVICE_OPTION(&given.device),
        {"shapes", CLI_TEXT, &given.shapes, "MxNxK,...",
         "problem sizes, D is MxN, BATCH*MxNxK for batches; squares, tails and transformer layers "
         "by default",
         NULL, 0, 0},
        {"set", CLI_CHOICES, &given.sets, "LIST", "shapes of a workload, as in tandem bench gemm",
         gemm_set_choices, 0, 0},
        {"dtype", CLI_CHOICES, &given.dtypes, "LIST",
         "types of A and B, as in tandem bench gemm; f32 by default", tune_dtype_choices, 0, 0},
        {"layout", CLI_CHOICES, &given.layouts, "LIST",
         "A and B as stored (n) or transposed (t); nn, or the set's layout, by default",
         "nn|nt|tn|tt", 0, 0},
        {"time-limit", CLI_NUMBER, &given.time_limit, "SECONDS",
         "time limit of all shapes together; 600 by default", NULL, 0.1, 1e6},
        {"output", CLI_TEXT, &given.output, "FILE",
         "tuning file to add to; by default the file that the library reads", NULL, 0, 0},
        {"again", CLI_FLAG, &given.again, NULL, "also tune shapes that are already in the file",
         NULL, 0, 0},
        {"quick", CLI_FLAG, &given.quick, NULL, "take few samples, to check that everything works",
         NULL, 0, 0},
    };
    const cli_command command = {
        .name = command_name,
        .summary = "find the fastest kernels and parameters for a device",
        CLI_OPTIONS(options),
        .notes =
            "Every candidate runs in its own process and is verified before it is timed. If one\n"
            "fails, crashes or hangs, this is noted and the search continues. Each shape's result "
            "is\n"
            "written as soon as it is found, so a stopped run can be continued. The library reads\n"
            "TANDEM_TUNING_FILE, else tandem/tuning.txt in XDG_CONFIG_HOME or ~/.config.",
    };
    const cli_outcome outcome = cli_parse(&command, argc, argv, NULL);
    return outcome == CLI_RUN ? run_with(&given) : cli_exit_code(outcome);
}
