/*
 * `tandem bench quant` and `tandem bench elementwise` measure operations that memory traffic
 * limits. The baseline is a plain stream of as many bytes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tandem/tandem.h>

#include "bench/bench_commands.h"
#include "bench/cases/elementwise_case.h"
#include "bench/cases/quant_case.h"
#include "bench/harness/bench_peers.h"
#include "bench/harness/bench_settings.h"

enum {
    CONTENDERS = 2, /* Tandem, the stream */
    DEFAULT_COUNT = 32 << 20,
    QUICK_COUNT = 32 << 10
};

/* Lists of words, as the user gave them. */
typedef struct traffic_options {
    const char *operations, *types, *targets;
    const char *blocks, *groups, *shape; /* quant */
    int64_t count;                       /* elementwise */
    bench_settings settings;
} traffic_options;

typedef struct traffic_run {
    const traffic_options *options;
    bench_suite suite;
    bench_contender contenders[CONTENDERS];
    worker_text requests[CONTENDERS];
    bench_task tasks[CONTENDERS];
    quant_case quant, stream; /* the stream of the case */
    elementwise_case elementwise;
} traffic_run;

/* Runs a case whose request and verifier are already in the first task. */
static void run_case(traffic_run *run, bench_result *row) {
    run->requests[1].length = 0;
    quant_case_write(&run->stream, &run->requests[1]);
    run->tasks[1] = (bench_task){.verify = quant_case_check, .user = &run->stream};
    for (int i = 0; i < CONTENDERS; i++) {
        bench_device_write(&run->suite.device, &run->requests[i]);
        run->tasks[i].request = run->requests[i].text;
        run->contenders[i].task = &run->tasks[i];
    }
    bench_suite_run(&run->suite, &run->tasks[0], row->case_name, run->contenders, CONTENDERS);
    const double own = bench_contender_median(&run->contenders[0]);
    row->mode = "pipelined";
    row->packing = "none";
    row->metrics[0] =
        (result_number){"of_stream", bench_contender_median(&run->contenders[1]) / own};
    bench_report_case(&run->suite.report, row, run->contenders, CONTENDERS);
}

static int open_suite(traffic_run *run, const char *command, const char *worker) {
    run->suite = (bench_suite){.command = command, .settings = &run->options->settings};
    bench_contender_self(&run->contenders[0], "tandem", worker);
    bench_contender_self(&run->contenders[1], "tandem-stream", "quant");
    return bench_suite_open(&run->suite, "GB/s", NULL);
}

/* ---- quant ----------------------------------------------------------------------------------- */

static void run_quant(traffic_run *run) {
    const quant_case *const item = &run->quant;
    char name[96], types[16];
    run->requests[0].length = 0;
    quant_case_write(item, &run->requests[0]);
    run->tasks[0] = (bench_task){.verify = quant_case_check, .user = item};
    run->stream = quant_case_stream(item);
    quant_case_name(item, name, sizeof name);
    snprintf(types, sizeof types, "%s%s", tdm_dtype_name(item->real), tdm_dtype_name(item->codes));
    bench_result row = {
        .suite = "quant",
        .case_name = name,
        .dtype = types,
        .shape = {{"rows", (double)item->rows}, {"columns", (double)item->columns}},
        .bytes = quant_case_traffic(item),
    };
    run_case(run, &row);
}

/* Runs the case with each kind of blocks. Plain conversions have no blocks, so they run once. */
static void run_blocks(traffic_run *run) {
    const char *list = run->options->blocks;
    char word[16];
    while (cli_next_word(&list, ',', word, sizeof word) == 1) {
        const char *groups = run->options->groups;
        quant_blocks_parse(word, &run->quant.blocks);
        const int has_blocks = quant_case_has_blocks(&run->quant);
        const int grouped = run->quant.blocks == QUANT_GROUP || run->quant.blocks == QUANT_BAND;
        if (!has_blocks || !grouped)
            run_quant(run);
        if (!has_blocks)
            return;
        while (grouped && cli_next_word(&groups, ',', word, sizeof word) == 1) {
            run->quant.group = strtol(word, NULL, 10);
            run_quant(run);
        }
        run->quant.group = 0;
    }
}

static void run_types(traffic_run *run) {
    const quant_operation operation = run->quant.operation;
    const int packs = operation == QUANT_PACK || operation == QUANT_UNPACK;
    const char *dequantized = packs                           ? "s8"
                              : operation == QUANT_REQUANTIZE ? "s32"
                                                              : run->options->types;
    char word[16];
    while (cli_next_word(&dequantized, ',', word, sizeof word) == 1) {
        const char *codes = packs ? "s4" : run->options->targets;
        run->quant.real = tdm_dtype_from_name(word);
        while (cli_next_word(&codes, ',', word, sizeof word) == 1) {
            run->quant.codes = tdm_dtype_from_name(word);
            run_blocks(run);
        }
    }
}

#define TRAFFIC_NOTES                                                                              \
    "tandem-stream reads and writes as many bytes as the operation but computes nothing; the\n"    \
    "metric of_stream is the operation's speed as a share of that."

int bench_quant_command(int argc, char **argv) {
    static traffic_run run;
    traffic_options given = {
        .operations = "quantize,dynamic,dequantize,fake,mask,requantize,convert,widen",
        .types = "f32",
        .targets = "s8",
        .blocks = "tensor,row,column,group",
        .groups = "32",
        .settings = BENCH_SETTINGS_INIT,
    };
    const cli_option options[] = {
        {"operation", CLI_CHOICES, &given.operations, "LIST",
         "operations; all but pack and unpack (s8 to s4 and back) by default",
         "quantize|dynamic|dequantize|fake|mask|requantize|convert|widen|pack|unpack", 0, 0},
        {"float", CLI_CHOICES, &given.types, "LIST", "floating-point types", "f32|f16|bf16", 0, 0},
        {"quantized", CLI_CHOICES, &given.targets, "LIST",
         "types of the quantized values, s8 by default; u8 has zero points", "s8|u8|s4", 0, 0},
        {"blocks", CLI_CHOICES, &given.blocks, "LIST",
         "elements that share a scale: all, a row, a column, a group of a row, a group of a column",
         "tensor|row|column|group|band", 0, 0},
        {"group", CLI_CHOICES, &given.groups, "LIST", "elements per group, 32 by default",
         "32|64|128", 0, 0},
        {"shape", CLI_TEXT, &given.shape, "ROWSxCOLUMNS", "tensor shape; 8192x4096 by default",
         NULL, 0, 0},
        BENCH_SETTINGS_OPTIONS(&given.settings),
    };
    const cli_command command = {
        .name = "tandem bench quant",
        .summary = "speed of quantization and conversion, verified",
        CLI_OPTIONS(options),
        .notes = TRAFFIC_NOTES,
    };
    const cli_outcome outcome = cli_parse(&command, argc, argv, NULL);
    char word[16];
    if (outcome != CLI_RUN)
        return cli_exit_code(outcome);
    run = (traffic_run){.options = &given, .quant.seed = (uint64_t)given.settings.seed};
    if (given.shape == NULL)
        given.shape = given.settings.quick ? "64x512" : "8192x4096";
    if (quant_shape_parse(given.shape, &run.quant.rows, &run.quant.columns) != 0)
        return cli_refuse(
            command.name,
            "--shape does not take '%s': give ROWSxCOLUMNS with an even number of columns",
            given.shape);
    const int code = open_suite(&run, command.name, "quant");
    if (code != CLI_EXIT_OK)
        return code;
    while (cli_next_word(&given.operations, ',', word, sizeof word) == 1) {
        quant_operation_parse(word, &run.quant.operation);
        run_types(&run);
    }
    return bench_suite_close(&run.suite, run.contenders, CONTENDERS);
}

/* ---- elementwise ----------------------------------------------------------------------------- */

static void run_elementwise(traffic_run *run) {
    const elementwise_case *const item = &run->elementwise;
    char name[96], types[16];
    run->requests[0].length = 0;
    elementwise_case_write(item, &run->requests[0]);
    run->tasks[0] = (bench_task){.verify = elementwise_case_check, .user = item};
    run->stream = elementwise_case_stream(item);
    elementwise_case_name(item, name, sizeof name);
    snprintf(types, sizeof types, "%s%s", tdm_dtype_name(item->dtype),
             item->kind == ELEMENTWISE_CONVERT ? tdm_dtype_name(item->to) : "");
    bench_result row = {
        .suite = "elementwise",
        .case_name = name,
        .dtype = types,
        .shape = {{"count", (double)item->count}},
        .bytes = elementwise_case_traffic(item),
    };
    run_case(run, &row);
}

/* Runs a conversion to every other type. All other operations keep their type. */
static void run_elementwise_types(traffic_run *run) {
    elementwise_case *const item = &run->elementwise;
    const char *types = run->options->types;
    char word[16], target[16];
    while (cli_next_word(&types, ',', word, sizeof word) == 1) {
        const int converts = item->kind == ELEMENTWISE_CONVERT;
        const char *targets = converts ? run->options->targets : word;
        item->dtype = tdm_dtype_from_name(word);
        while (cli_next_word(&targets, ',', target, sizeof target) == 1) {
            item->to = tdm_dtype_from_name(target);
            if (!converts || item->to != item->dtype)
                run_elementwise(run);
        }
    }
}

int bench_elementwise_command(int argc, char **argv) {
    static traffic_run run;
    traffic_options given = {
        .operations = "relu,gelu,add,convert",
        .types = "f32,f16,bf16",
        .targets = "f32,f16,bf16",
        .settings = BENCH_SETTINGS_INIT,
    };
    const cli_option options[] = {
        {"operation", CLI_CHOICES, &given.operations, "LIST",
         "operations; relu,gelu,add,convert by default", ELEMENTWISE_CHOICES, 0, 0},
        {"dtype", CLI_CHOICES, &given.types, "LIST", "types of the operands", "f32|f16|bf16", 0, 0},
        {"to", CLI_CHOICES, &given.targets, "LIST", "target types of convert", "f32|f16|bf16", 0,
         0},
        {"count", CLI_COUNT, &given.count, "N", "number of elements; 33554432 by default", NULL, 1,
         1e9},
        BENCH_SETTINGS_OPTIONS(&given.settings),
    };
    const cli_command command = {
        .name = "tandem bench elementwise",
        .summary = "speed of elementwise operations and conversions, verified",
        CLI_OPTIONS(options),
        .notes = TRAFFIC_NOTES,
    };
    const cli_outcome outcome = cli_parse(&command, argc, argv, NULL);
    char word[16];
    if (outcome != CLI_RUN)
        return cli_exit_code(outcome);
    run = (traffic_run){.options = &given, .elementwise.seed = (uint64_t)given.settings.seed};
    run.elementwise.count = given.count > 0        ? given.count
                            : given.settings.quick ? QUICK_COUNT
                                                   : DEFAULT_COUNT;
    const int code = open_suite(&run, command.name, "elementwise");
    if (code != CLI_EXIT_OK)
        return code;
    while (cli_next_word(&given.operations, ',', word, sizeof word) == 1) {
        elementwise_operation_parse(word, &run.elementwise);
        run_elementwise_types(&run);
    }
    return bench_suite_close(&run.suite, run.contenders, CONTENDERS);
}
