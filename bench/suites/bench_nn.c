/*
 * `tandem bench nn` measures operations of neural networks. Attention of many queries is limited by
 * arithmetic. Memory traffic limits the others, whose baseline is a plain stream of as many bytes.
 */
#include <stdio.h>
#include <stdlib.h>

#include <tandem/tandem.h>

#include "bench/bench_commands.h"
#include "bench/cases/nn_case.h"
#include "bench/harness/bench_peers.h"
#include "bench/harness/bench_settings.h"

enum {
    CONTENDERS = 2, /* Tandem, the stream */
    /* Prefill has the heads of BERT base, and decode those of Llama 3 8B. */
    PREFILL_HEADS = 12,
    PREFILL_WIDTH = 64,
    DECODE_HEADS = 32,
    DECODE_KV_HEADS = 8,
    DECODE_WIDTH = 128
};

/* Lists, as the user gave them. */
typedef struct nn_options {
    const char *operations, *types, *caches, *shapes, *queries, *keys;
    bench_settings settings;
} nn_options;

typedef struct nn_run {
    const nn_options *options;
    bench_suite suite;
    bench_contender contenders[CONTENDERS];
    worker_text requests[CONTENDERS];
    bench_task tasks[CONTENDERS];
    nn_case item;
    quant_case stream;
} nn_run;

static void run_case(nn_run *run) {
    const nn_case *const item = &run->item;
    const int attends = nn_case_is_attention(item);
    const int contenders = item->operation == NN_PREFILL ? 1 : CONTENDERS;
    char name[96], types[16];
    nn_case_name(item, name, sizeof name);
    snprintf(types, sizeof types, "%s%s", tdm_dtype_name(item->dtype),
             item->stored != item->dtype ? tdm_dtype_name(item->stored) : "");
    bench_result row = {
        .suite = "nn",
        .case_name = name,
        .dtype = types,
        .mode = "pipelined",
        .packing = "none",
        .shape = {{"rows", (double)item->rows}, {"columns", (double)item->columns}},
        .flops = nn_case_flops(item),
        .bytes = nn_case_traffic(item),
    };
    if (attends) {
        row.shape[2] = (result_number){"heads", (double)item->heads};
        row.shape[3] = (result_number){"kv_heads", (double)item->kv_heads};
        row.shape[4] = (result_number){"keys", (double)item->keys};
    }
    run->stream = nn_case_stream(item);
    run->requests[0].length = run->requests[1].length = 0;
    nn_case_write(item, &run->requests[0]);
    quant_case_write(&run->stream, &run->requests[1]);
    run->tasks[0] = (bench_task){.verify = nn_case_check, .user = item};
    run->tasks[1] = (bench_task){.verify = quant_case_check, .user = &run->stream};
    for (int i = 0; i < contenders; i++) {
        bench_device_write(&run->suite.device, &run->requests[i]);
        run->tasks[i].request = run->requests[i].text;
        run->contenders[i].task = &run->tasks[i];
    }
    bench_suite_run(&run->suite, &run->tasks[0], name, run->contenders, contenders);
    if (contenders == CONTENDERS)
        row.metrics[0] =
            (result_number){"of_stream", bench_contender_median(&run->contenders[1]) /
                                             bench_contender_median(&run->contenders[0])};
    bench_report_case(&run->suite.report, &row, run->contenders, contenders);
}

/* ---- the cases of an operation ---- */

static void run_prefill(nn_run *run) {
    const char *list = run->options->queries;
    char word[16];
    while (cli_next_word(&list, ',', word, sizeof word) == 1) {
        const int64_t queries = strtol(word, NULL, 10);
        run->item.rows = run->item.keys = queries;
        run->item.columns = PREFILL_WIDTH;
        run->item.heads = run->item.kv_heads = PREFILL_HEADS;
        run_case(run);
    }
}

/* The query has the type of a cache of floats, and is f32 for s8. */
static void run_decode(nn_run *run) {
    const char *caches = run->options->caches;
    char word[16];
    while (cli_next_word(&caches, ',', word, sizeof word) == 1) {
        const char *list = run->options->keys;
        run->item.stored = tdm_dtype_from_name(word);
        run->item.dtype = run->item.stored == TDM_S8 ? TDM_F32 : run->item.stored;
        while (cli_next_word(&list, ',', word, sizeof word) == 1) {
            run->item.rows = 1;
            run->item.columns = DECODE_WIDTH;
            run->item.heads = DECODE_HEADS;
            run->item.kv_heads = DECODE_KV_HEADS;
            run->item.keys = strtol(word, NULL, 10);
            run_case(run);
        }
    }
}

static void run_shapes(nn_run *run) {
    const char *list = run->options->shapes;
    char word[32];
    run->item.heads = run->item.kv_heads = run->item.keys = 1;
    while (cli_next_word(&list, ',', word, sizeof word) == 1) {
        quant_shape_parse(word, &run->item.rows, &run->item.columns);
        run_case(run);
    }
}

static void run_operation(nn_run *run) {
    const char *types = run->options->types;
    char word[16];
    if (run->item.operation == NN_DECODE) {
        run_decode(run);
        return;
    }
    while (cli_next_word(&types, ',', word, sizeof word) == 1) {
        run->item.dtype = run->item.stored = tdm_dtype_from_name(word);
        if (run->item.operation == NN_EMBED)
            run->item.stored = TDM_S8;
        if (run->item.operation == NN_PREFILL)
            run_prefill(run);
        else
            run_shapes(run);
    }
}

/* ---- the command ---- */

/* True if all shapes can be parsed and have columns of whole groups. */
static int shapes_are_valid(const char *list) {
    char word[32];
    int64_t rows, columns;
    int more;
    while ((more = cli_next_word(&list, ',', word, sizeof word)) == 1)
        if (quant_shape_parse(word, &rows, &columns) != 0 || columns % NN_GROUP != 0)
            return 0;
    return more == 0;
}

/* True if all numbers are within 1 … 2^20. */
static int counts_are_valid(const char *list) {
    char word[16], *end;
    int more;
    while ((more = cli_next_word(&list, ',', word, sizeof word)) == 1) {
        const long count = strtol(word, &end, 10);
        if (*end != '\0' || count < 1 || count > 1 << 20)
            return 0;
    }
    return more == 0;
}

#define NN_NOTES                                                                                   \
    "Prefill is causal attention of 12 heads of 64. Decode is attention of one query with 32 "     \
    "heads\n"                                                                                      \
    "of 128 and 8 KV heads; its bytes are those of the cache. s8 has a scale for 32 elements.\n"   \
    "tandem-stream reads and writes as many bytes as the operation but computes nothing; the\n"    \
    "metric of_stream is the operation's speed as a share of that."

int bench_nn_command(int argc, char **argv) {
    static nn_run run;
    nn_options given = {
        .operations = "prefill,decode,rms,layer,gather,scatter,embed,rope,softmax,where,compare,"
                      "concat",
        .types = "f32,f16",
        .caches = "f32,f16,s8",
        .settings = BENCH_SETTINGS_INIT,
    };
    const cli_option options[] = {
        {"operation", CLI_CHOICES, &given.operations, "LIST",
         "operations, all by default; embed gathers rows of an s8 table", NN_OPERATIONS, 0, 0},
        {"dtype", CLI_CHOICES, &given.types, "LIST", "types of the operands, but for decode",
         "f32|f16|bf16", 0, 0},
        {"cache", CLI_CHOICES, &given.caches, "LIST", "decode: types of the cache",
         "f32|f16|bf16|s8", 0, 0},
        {"shape", CLI_TEXT, &given.shapes, "LIST",
         "tensors that are not of attention: ROWSxCOLUMNS, 256x1024,8192x4096 by default", NULL, 0,
         0},
        {"queries", CLI_TEXT, &given.queries, "LIST", "prefill: queries, 1024,4096 by default",
         NULL, 0, 0},
        {"keys", CLI_TEXT, &given.keys, "LIST", "decode: keys, 4096,32768 by default", NULL, 0, 0},
        BENCH_SETTINGS_OPTIONS(&given.settings),
    };
    const cli_command command = {
        .name = "tandem bench nn",
        .summary = "speed of operations of neural networks, verified",
        CLI_OPTIONS(options),
        .notes = NN_NOTES,
    };
    const cli_outcome outcome = cli_parse(&command, argc, argv, NULL);
    char word[16];
    if (outcome != CLI_RUN)
        return cli_exit_code(outcome);
    const int quick = given.settings.quick;
    if (given.shapes == NULL)
        given.shapes = quick ? "48x64" : "256x1024,8192x4096";
    if (given.queries == NULL)
        given.queries = quick ? "40" : "1024,4096";
    if (given.keys == NULL)
        given.keys = quick ? "200" : "4096,32768";
    if (!shapes_are_valid(given.shapes))
        return cli_refuse(
            command.name,
            "--shape does not take '%s': give ROWSxCOLUMNS with a multiple of 32 columns",
            given.shapes);
    if (!counts_are_valid(given.queries) || !counts_are_valid(given.keys))
        return cli_refuse(command.name,
                          "--queries and --keys take numbers within 1 and 1048576, not '%s'",
                          counts_are_valid(given.queries) ? given.keys : given.queries);
    run = (nn_run){.options = &given, .item.seed = (uint64_t)given.settings.seed};
    run.suite = (bench_suite){.command = command.name, .settings = &given.settings};
    bench_contender_self(&run.contenders[0], "tandem", "nn");
    bench_contender_self(&run.contenders[1], "tandem-stream", "quant");
    const int code = bench_suite_open(&run.suite, "GB/s", NULL);
    if (code != CLI_EXIT_OK)
        return code;
    while (cli_next_word(&given.operations, ',', word, sizeof word) == 1) {
        nn_operation_parse(word, &run.item.operation);
        run_operation(&run);
    }
    return bench_suite_close(&run.suite, run.contenders, CONTENDERS);
}
