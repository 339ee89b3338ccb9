/* `tandem bench elementwise`: unary and binary operations and conversions beside a copy of as many bytes. */
#include <stdio.h>
#include <string.h>

#include "bench/bench_commands.h"
#include "bench/cases/elementwise_case.h"
#include "bench/harness/bench_peers.h"
#include "bench/harness/bench_settings.h"

static const char command_name[] = "tandem bench elementwise";

enum {
    COPY = 1,
    STREAM = 2,
    ENTRANTS = 3,
    USUAL_COUNT = 32 << 20,
    QUICK_COUNT = 32 << 10
};

typedef struct elementwise_options {
    const char *operations;
    const char *dtypes;
    const char *to;
    const char *modes;
    int64_t count;
    bench_settings settings;
} elementwise_options;

typedef struct elementwise_run {
    const elementwise_options *options;
    bench_entrant *entrants;
    bench_device device;
    elementwise_case item;
    bench_report report;
} elementwise_run;

/* Traffic alone, by the workers of the quant suite. */
static bench_task traffic_task(const elementwise_run *run, const quant_case *item, int waited,
                               worker_text *request) {
    quant_case_write(item, request);
    bench_device_write(&run->device, request);
    return (bench_task){
        .request = request->text, .verify = quant_case_check, .user = item, .waited = waited};
}

static void report(elementwise_run *run, const char *name, int waited) {
    const double own = bench_entrant_median(&run->entrants[0]);
    char types[16];
    snprintf(types, sizeof types, "%s%s", tdm_dtype_name(run->item.dtype),
             run->item.kind == ELEMENTWISE_CONVERT ? tdm_dtype_name(run->item.to) : "");
    const bench_result row = {
        .suite = "elementwise",
        .case_name = name,
        .dtype = types,
        .shape = {{"count", (double)run->item.count}},
        .mode = waited ? "waited" : "pipelined",
        .packing = "none",
        .bytes = elementwise_case_traffic(&run->item),
        .metrics = {{"of_copy", bench_entrant_median(&run->entrants[COPY]) / own},
                    {"of_stream", bench_entrant_median(&run->entrants[STREAM]) / own}},
    };
    bench_report_case(&run->report, &row, run->entrants, ENTRANTS);
}

static void run_mode(elementwise_run *run, int waited) {
    char name[96];
    worker_text request = {.length = 0}, copy_request = {.length = 0},
                stream_request = {.length = 0};
    const quant_case copy = elementwise_case_copy(&run->item);
    const quant_case stream = elementwise_case_stream(&run->item);
    const bench_task of_copy = traffic_task(run, &copy, waited, &copy_request);
    const bench_task of_stream = traffic_task(run, &stream, waited, &stream_request);
    elementwise_case_write(&run->item, &request);
    bench_device_write(&run->device, &request);
    elementwise_case_name(&run->item, name, sizeof name);
    bench_plan plan = bench_settings_plan(&run->options->settings);
    plan.task = (bench_task){.request = request.text,
                             .verify = elementwise_case_check,
                             .user = &run->item,
                             .waited = waited};
    plan.label = name;
    run->entrants[COPY].task = &of_copy;
    run->entrants[STREAM].task = &of_stream;
    bench_run_case(&plan, run->entrants, ENTRANTS);
    report(run, name, waited);
    run->entrants[COPY].task = NULL;
    run->entrants[STREAM].task = NULL;
}

static void run_modes(elementwise_run *run) {
    const char *modes = run->options->modes;
    char mode[16];
    while (cli_next_word(&modes, ',', mode, sizeof mode) == 1)
        run_mode(run, strcmp(mode, "waited") == 0);
}

/* A conversion to each other type; anything else stays in its own. */
static void run_types(elementwise_run *run) {
    const char *dtypes = run->options->dtypes;
    char word[16];
    while (cli_next_word(&dtypes, ',', word, sizeof word) == 1) {
        const char *to = run->item.kind == ELEMENTWISE_CONVERT ? run->options->to : word;
        char target[16];
        run->item.dtype = tdm_dtype_from_name(word);
        while (cli_next_word(&to, ',', target, sizeof target) == 1) {
            run->item.to = tdm_dtype_from_name(target);
            if (run->item.kind != ELEMENTWISE_CONVERT || run->item.to != run->item.dtype)
                run_modes(run);
        }
    }
}

static int run_on_device(const elementwise_options *options) {
    static bench_entrant entrants[ENTRANTS];
    elementwise_run run = {.options = options, .entrants = entrants};
    const char *operations = options->operations;
    char word[16];
    const int code = bench_settings_open(command_name, &options->settings, "GB/s", NULL,
                                         &run.device, &run.report);
    if (code != CLI_EXIT_OK)
        return code;
    run.item.seed = (uint64_t)options->settings.seed;
    run.item.count = options->count > 0        ? options->count
                     : options->settings.quick ? QUICK_COUNT
                                               : USUAL_COUNT;
    bench_entrant_self(&entrants[0], "tandem", "elementwise");
    bench_entrant_self(&entrants[COPY], "tandem-copy", "quant");
    bench_entrant_self(&entrants[STREAM], "tandem-stream", "quant");
    while (cli_next_word(&operations, ',', word, sizeof word) == 1) {
        elementwise_operation_parse(word, &run.item);
        run_types(&run);
    }
    bench_entrants_release(entrants, ENTRANTS);
    return bench_report_close(&run.report, command_name, options->settings.json);
}

int bench_elementwise_command(int argc, char **argv) {
    elementwise_options given = {
        .operations = "relu,gelu,add,convert",
        .dtypes = "f32,f16,bf16",
        .to = "f32,f16,bf16",
        .modes = "pipelined",
        .settings = BENCH_SETTINGS_INIT,
    };
    const cli_option options[] = {
        {"operation", CLI_CHOICES, &given.operations, "LIST", "relu,gelu,add,convert by default",
         ELEMENTWISE_CHOICES, 0, 0},
        {"dtype", CLI_CHOICES, &given.dtypes, "LIST", "types of the operands", "f32|f16|bf16", 0,
         0},
        {"to", CLI_CHOICES, &given.to, "LIST", "types that convert makes", "f32|f16|bf16", 0, 0},
        {"count", CLI_COUNT, &given.count, "N", "elements; 33554432 by default", NULL, 1, 1e9},
        {"mode", CLI_CHOICES, &given.modes, "LIST", "many calls and one wait, or a wait after each",
         "pipelined|waited", 0, 0},
        BENCH_SETTINGS_OPTIONS(&given.settings),
    };
    const cli_command command = {
        .name = command_name,
        .summary = "speed of elementwise operations and conversions, verified",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .notes = "tandem-copy copies a tensor with as many bytes of traffic; tandem-stream reads "
                 "as many\n"
                 "bytes and writes as many as the operation does and computes nothing, in turn "
                 "with the\n"
                 "others. metrics: of_copy and of_stream, the shares of their speed. Where "
                 "operands are\n"
                 "less than twice a cache, rows say so: to measure memory, give a larger --count.",
    };
    const cli_outcome outcome = cli_parse(&command, argc, argv, NULL);
    return outcome == CLI_RUN ? run_on_device(&given) : cli_exit_code(outcome);
}
