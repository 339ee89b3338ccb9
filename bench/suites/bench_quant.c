/* `tandem bench quant`: quantization and conversion beside a copy of as many bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tandem/tandem.h>

#include "bench/bench_commands.h"
#include "bench/cases/quant_case.h"
#include "bench/harness/bench_peers.h"
#include "bench/harness/bench_settings.h"

static const char command_name[] = "tandem bench quant";

enum {
    COPY = 1,
    STREAM = 2,
    QUANT_ENTRANTS = 3
};

typedef struct quant_options {
    const char *operations;
    const char *reals;
    const char *codes;
    const char *blocks;
    const char *groups;
    const char *shape;
    const char *modes;
    bench_settings settings;
} quant_options;

typedef struct quant_run {
    const quant_options *options;
    bench_entrant *entrants;
    bench_device device;
    quant_case item;
    bench_report report;
} quant_run;

static void write_request(const quant_run *run, const quant_case *item, worker_text *request) {
    *request = (worker_text){.length = 0};
    quant_case_write(item, request);
    bench_device_write(&run->device, request);
}

static void run_mode(quant_run *run, int waited) {
    char name[96], types[16];
    worker_text request, copy_request, stream_request;
    quant_case copy = quant_case_copy(&run->item), stream = quant_case_stream(&run->item);
    write_request(run, &run->item, &request);
    write_request(run, &copy, &copy_request);
    write_request(run, &stream, &stream_request);
    quant_case_name(&run->item, name, sizeof name);
    snprintf(types, sizeof types, "%s%s", tdm_dtype_name(run->item.real),
             tdm_dtype_name(run->item.codes));
    bench_plan plan = bench_settings_plan(&run->options->settings);
    plan.task = (bench_task){
        .request = request.text, .verify = quant_case_check, .user = &run->item, .waited = waited};
    bench_task of_copy = plan.task, of_stream = plan.task;
    of_copy.request = copy_request.text;
    of_copy.user = &copy;
    run->entrants[COPY].task = &of_copy;
    of_stream.request = stream_request.text;
    of_stream.user = &stream;
    run->entrants[STREAM].task = &of_stream;
    plan.label = name;
    bench_run_case(&plan, run->entrants, QUANT_ENTRANTS);
    const double own = bench_entrant_median(&run->entrants[0]);
    const bench_result row = {
        .suite = "quant",
        .case_name = name,
        .dtype = types,
        .shape = {{"rows", (double)run->item.rows}, {"columns", (double)run->item.columns}},
        .mode = waited ? "waited" : "pipelined",
        .packing = "none",
        .bytes = quant_case_traffic(&run->item),
        .metrics = {{"of_copy", bench_entrant_median(&run->entrants[COPY]) / own},
                    {"of_stream", bench_entrant_median(&run->entrants[STREAM]) / own}},
    };
    bench_report_case(&run->report, &row, run->entrants, QUANT_ENTRANTS);
    run->entrants[COPY].task = NULL;
    run->entrants[STREAM].task = NULL;
}

static void run_modes(quant_run *run) {
    const char *modes = run->options->modes;
    char mode[16];
    while (cli_next_word(&modes, ',', mode, sizeof mode) == 1)
        run_mode(run, strcmp(mode, "waited") == 0);
}

static void run_groups(quant_run *run) {
    const char *list = run->options->groups;
    char word[16];
    while (cli_next_word(&list, ',', word, sizeof word) == 1) {
        run->item.group = strtol(word, NULL, 10);
        run_modes(run);
    }
    run->item.group = 0;
}

/* Conversions know no blocks: they run once. */
static void run_blocks(quant_run *run) {
    const char *list = run->options->blocks;
    char word[16];
    while (cli_next_word(&list, ',', word, sizeof word) == 1) {
        quant_blocks_parse(word, &run->item.blocks);
        if (!quant_case_has_blocks(&run->item)) {
            run_modes(run);
            return;
        }
        if (run->item.blocks == QUANT_GROUP || run->item.blocks == QUANT_BAND)
            run_groups(run);
        else
            run_modes(run);
    }
}

static void run_types(quant_run *run) {
    const char *reals = run->options->reals;
    char word[16];
    if (run->item.operation == QUANT_PACK || run->item.operation == QUANT_UNPACK) {
        run->item.real = TDM_S8;
        run->item.codes = TDM_S4;
        run_blocks(run);
        return;
    }
    if (run->item.operation == QUANT_REQUANTIZE)
        reals = "s32";
    while (cli_next_word(&reals, ',', word, sizeof word) == 1) {
        const char *codes = run->options->codes;
        run->item.real = tdm_dtype_from_name(word);
        while (cli_next_word(&codes, ',', word, sizeof word) == 1) {
            run->item.codes = tdm_dtype_from_name(word);
            run_blocks(run);
        }
    }
}

static int run_on_device(const quant_options *options) {
    static bench_entrant entrants[QUANT_ENTRANTS];
    quant_run run = {.options = options, .entrants = entrants};
    const char *operations = options->operations;
    const char *const shape = options->shape != NULL    ? options->shape
                              : options->settings.quick ? "64x512"
                                                        : "8192x4096";
    char word[16];
    if (quant_shape_parse(shape, &run.item.rows, &run.item.columns) != 0)
        return cli_refuse(command_name, "--shape does not take '%s': ROWSxCOLUMNS, columns even",
                          shape);
    const int code = bench_settings_open(command_name, &options->settings, "GB/s", NULL,
                                         &run.device, &run.report);
    if (code != CLI_EXIT_OK)
        return code;
    run.item.seed = (uint64_t)options->settings.seed;
    bench_entrant_self(&entrants[0], "tandem", "quant");
    bench_entrant_self(&entrants[COPY], "tandem-copy", "quant");
    bench_entrant_self(&entrants[STREAM], "tandem-stream", "quant");
    while (cli_next_word(&operations, ',', word, sizeof word) == 1) {
        quant_operation_parse(word, &run.item.operation);
        run_types(&run);
    }
    bench_entrants_release(entrants, QUANT_ENTRANTS);
    return bench_report_close(&run.report, command_name, options->settings.json);
}

int bench_quant_command(int argc, char **argv) {
    quant_options given = {
        .operations = "quantize,dynamic,dequantize,fake,mask,requantize,convert,widen",
        .reals = "f32",
        .codes = "s8",
        .blocks = "tensor,row,column,group",
        .groups = "32",
        .modes = "pipelined",
        .settings = BENCH_SETTINGS_INIT,
    };
    const cli_option options[] = {
        {"operation", CLI_CHOICES, &given.operations, "LIST",
         "with given scales, with derived ones, back, to codes and back without and with a mask, "
         "from sums, conversions without scales, and of s8 to s4 and back; all but the last two by "
         "default",
         "quantize|dynamic|dequantize|fake|mask|requantize|convert|widen|pack|unpack", 0, 0},
        {"real", CLI_CHOICES, &given.reals, "LIST", "types of the real numbers", "f32|f16|bf16", 0,
         0},
        {"codes", CLI_CHOICES, &given.codes, "LIST",
         "types of the codes, s8 by default; u8 has zero points", "s8|u8|s4", 0, 0},
        {"dtype", CLI_CHOICES, &given.codes, "LIST", "the same as --codes", "s8|u8|s4", 0, 0},
        {"blocks", CLI_CHOICES, &given.blocks, "LIST",
         "what shares a scale: all, a row, a column, a group of a row, a group of a column",
         "tensor|row|column|group|band", 0, 0},
        {"group", CLI_CHOICES, &given.groups, "LIST", "elements of a group, 32 by default",
         "32|64|128", 0, 0},
        {"shape", CLI_TEXT, &given.shape, "ROWSxCOLUMNS", "8192x4096 by default", NULL, 0, 0},
        {"mode", CLI_CHOICES, &given.modes, "LIST", "many calls and one wait, or a wait after each",
         "pipelined|waited", 0, 0},
        BENCH_SETTINGS_OPTIONS(&given.settings),
    };
    const cli_command command = {
        .name = command_name,
        .summary = "speed of quantization and conversion, verified",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .notes =
            "Bytes are those that have to be read and written, parameters included: once, but the\n"
            "source twice where 'dynamic' needs the range of a whole tensor or column before its\n"
            "first code. tandem-copy copies a tensor with as many bytes of traffic, tandem-stream\n"
            "reads as many bytes and writes as many as the operation does and computes nothing, "
            "in\n"
            "turn with the others. metrics: of_copy and of_stream, the shares of their speed. "
            "Where\n"
            "operands are less than twice a cache, rows say so: to measure memory, give a larger\n"
            "--shape.",
    };
    const cli_outcome outcome = cli_parse(&command, argc, argv, NULL);
    return outcome == CLI_RUN ? run_on_device(&given) : cli_exit_code(outcome);
}
