/*
 * `tandem bench gemm` and `tandem bench gemv` measure the speed of matrix multiplications, side by
 * side with other libraries.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tandem/tandem.h>

#include "api/tuning/tuning.h"
#include "bench/bench_commands.h"
#include "bench/cases/gemm_sets.h"
#include "bench/harness/bench_peers.h"
#include "bench/harness/bench_settings.h"
#include "kernels/kernel_index.h"

enum {
    MAX_WORD = 64,
    MAX_NAME = 96
};

/* The name of Tandem's f32 GEMM as a contender, in --vs and in its rows. */
static const char f32_name[] = "tandem-f32";

typedef struct gemm_options {
    const char *command; /* "tandem bench gemm" */
    const char *suite;   /* "gemm" */
    const char *dtypes;
    const char *sets;
    const char *shapes;
    const char *rows;     /* M of the sets' shapes; NULL: the set's */
    const char *layouts;  /* NULL: the set's */
    const char *packings; /* NULL: the set's */
    const char *peers;
    const char *roofs;
    const char *variant;
    const char *epilogue; /* NULL: none */
    int64_t rotate;       /* bytes */
    bench_settings settings;
} gemm_options;

/* The f32 version of a case, measured in turn with it. */
typedef struct gemm_comparison {
    bench_contender *contender; /* NULL: not measured */
    gemm_case item;
    gemm_oracle oracle;
    worker_text request;
    bench_task task;
    bench_result row;
    char name[MAX_NAME];
} gemm_comparison;

typedef struct gemm_run {
    const gemm_options *options;
    bench_suite suite;
    bench_contender contenders[MAX_CONTENDERS]; /* Tandem, the peers, the roofs' workers */
    int count;                                  /* without the roofs' workers */
    bench_roofs roofs;
    gemm_oracle oracle;
    gemm_comparison f32;
    gemm_case_epilogue epilogue;
} gemm_run;

/* The shapes of --shapes form a set without a name. */
static const gemm_set no_set = {.name = "", .layouts = "nn", .packings = "inside"};

/* True if rates are given in bytes: the speed of a GEMV is that of reading B. */
static int by_bytes(const gemm_options *options) {
    return strcmp(options->suite, "gemv") == 0;
}

static int check_shapes(const gemm_options *options) {
    const char *list = options->shapes;
    char word[MAX_WORD];
    gemm_case item;
    int found;
    while ((found = cli_next_word(&list, ',', word, sizeof word)) != 0) {
        if (found < 0 || gemm_case_parse_shape(word, &item) != 0)
            return cli_refuse(options->command, "--shapes does not take '%s': %s",
                              found < 0 ? "" : word, gemm_case_shape_rule);
    }
    if (options->shapes != NULL && options->sets != NULL)
        return cli_refuse(options->command, "give --set or --shapes, not both");
    if (options->rows != NULL && options->sets == NULL)
        return cli_refuse(options->command, "--m needs the shapes of --set");
    gemm_set any = {.name = ""};
    if (options->rows != NULL && gemm_set_take_rows(&any, options->rows) != 0)
        return cli_refuse(options->command, "--m does not take '%s': give numbers of rows",
                          options->rows);
    return CLI_EXIT_OK;
}

static int is_gemm(const tdm_variant *variant) {
    return variant->op == TDM_OP_GEMM || variant->op == TDM_OP_GEMM_INT ||
           variant->op == TDM_OP_GEMM_WEIGHTS;
}

/* Checks the name of a kernel variant, and the launch-time parameters that may follow it. */
static int check_variant(const gemm_options *options) {
    tdm_choice choice;
    char reason[TDM_TUNING_REASON] = "the variant is for another operation";
    if (options->variant == NULL ||
        (tdm_choice_read(options->variant, &choice, reason) == TDM_TUNING_OK &&
         is_gemm(choice.variant)))
        return CLI_EXIT_OK;
    return cli_refuse(options->command, "--variant does not take '%s': %s", options->variant,
                      reason);
}

/* Parses a list like "bias,residual,gelu". Returns -1 if it has more than one activation. */
static int parse_epilogue(const char *list, gemm_case_epilogue *epilogue) {
    static const struct {
        const char *name;
        tdm_activation activation;
    } activations[] = {{"relu", TDM_ACT_RELU},
                       {"gelu", TDM_ACT_GELU},
                       {"gelu_tanh", TDM_ACT_GELU_TANH},
                       {"silu", TDM_ACT_SILU}};
    *epilogue = (gemm_case_epilogue){.bias = cli_list_has(list, "bias"),
                                     .residual = cli_list_has(list, "residual")};
    for (size_t i = 0; i < sizeof activations / sizeof activations[0]; i++) {
        if (!cli_list_has(list, activations[i].name))
            continue;
        if (epilogue->activation != TDM_ACT_NONE)
            return -1;
        epilogue->activation = activations[i].activation;
    }
    return 0;
}

/* Returns the fields that all rows of a case share; `name` receives the case's name. */
static bench_result case_row(const gemm_case *item, const char *suite, char name[MAX_NAME]) {
    const op_gemm_case operation = gemm_case_operation(item);
    gemm_case_name(item, name, MAX_NAME);
    bench_result row = {
        .suite = suite,
        .case_name = name,
        .dtype = gemm_types_name(item->types),
        .shape = {{"m", (double)item->m},
                  {"n", (double)item->n},
                  {"k", (double)item->k},
                  {"batch", (double)gemm_case_batch(item)},
                  {"transpose_a", item->transpose_a},
                  {"transpose_b", item->transpose_b}},
        .mode = "pipelined",
        .packing = item->prepacked ? "prepacked" : "inside",
        .flops = op_gemm_flops(&operation),
        .bytes = gemm_case_operand_bytes(item),
    };
    if (gemm_case_copies(item) > 1)
        row.shape[6] = (result_number){"copies_of_b", gemm_case_copies(item)};
    return row;
}

static void create_contenders(gemm_run *run) {
    static char names[MAX_CONTENDERS][MAX_WORD]; /* contenders keep pointers to their names */
    const char *peers = run->options->peers;
    bench_contender_self(&run->contenders[0], "tandem", "gemm");
    run->count = 1;
    while (cli_next_word(&peers, ',', names[run->count], MAX_WORD) == 1) {
        const char *const name = names[run->count];
        bench_contender *const contender = &run->contenders[run->count++];
        if (strcmp(name, f32_name) != 0) {
            bench_contender_peer(contender, name);
            continue;
        }
        bench_contender_self(contender, name, "gemm");
        run->f32.contender = contender;
    }
    bench_roofs_enter(&run->roofs, run->contenders + run->count);
}

/*
 * Writes the request. Tandem needs the device's index and a forced variant; an OpenCL peer needs
 * the device's name.
 */
static void write_request(const gemm_run *run, const gemm_case *item, int is_forced,
                          worker_text *request) {
    worker_text_set(request, "%s", "");
    gemm_case_write(item, request);
    bench_device_write(&run->suite.device, request);
    if (is_forced && run->options->variant != NULL)
        worker_field_add(request, "variant", run->options->variant);
    worker_field_add(request, "device", run->suite.device.info.name);
    worker_field_add(request, "driver", run->suite.device.info.driver_version);
}

/* Prepares the oracle for a case. Returns 0, and sets the reason, on failure. */
static int take_data(const gemm_run *run, gemm_oracle *oracle, const gemm_case *item,
                     worker_text *reason) {
    if (!gemm_case_fits(item, run->count + 1, &run->suite.device.info, reason))
        return 0;
    worker_text_set(reason, "out of host memory");
    return gemm_oracle_set(oracle, item) == 0;
}

/*
 * Prepares the data of a case and of its f32 version. Returns 0, and sets the reason, on failure.
 */
static int prepare(gemm_run *run, const gemm_case *item, worker_text *reason) {
    gemm_comparison *const f32 = &run->f32;
    const gemm_case_epilogue *const epilogue = &item->epilogue;
    if (gemm_types_requantized(item->types) &&
        (epilogue->residual || epilogue->activation > TDM_ACT_RELU)) {
        worker_text_set(reason, "requantized sums support only bias and relu");
        return 0;
    }
    if (f32->contender != NULL) {
        f32->item = *item;
        f32->item.types = GEMM_F32;
        f32->row = case_row(&f32->item, run->options->suite, f32->name);
        write_request(run, &f32->item, 0, &f32->request);
        f32->task = (bench_task){
            .request = f32->request.text,
            .verify = gemm_oracle_check,
            .user = &f32->oracle,
        };
        f32->contender->missing = item->types == GEMM_F32 ? "the case is already in f32" : NULL;
        f32->contender->task = &f32->task;
        f32->contender->row = &f32->row;
        if (!take_data(run, &f32->oracle, &f32->item, reason))
            return 0;
    }
    return take_data(run, &run->oracle, item, reason);
}

/* Returns the dtype of the multiply-adds with which a GEMM may compute the case. */
static tdm_dtype roof_arithmetic(const gemm_case *item, const tdm_device_info *device) {
    const int pairs = gemm_types_dtype(item->types, OP_GEMM_A) == TDM_BF16 &&
                      gemm_types_dtype(item->types, OP_GEMM_B) == TDM_BF16 &&
                      (device->capabilities & TDM_CAP_HOST_BF16) != 0;
    return gemm_types_integer(item->types) ? TDM_S8 : pairs ? TDM_BF16 : TDM_F32;
}

/* Measures a case, or gives its rows the reason why nothing is measured. */
static void measure(gemm_run *run, const gemm_case *item, const char *name, const char *skipped) {
    const bench_device *const device = &run->suite.device;
    const int count = run->count + run->roofs.count;
    const char *missing[MAX_CONTENDERS];
    worker_text request;
    write_request(run, item, 1, &request);
    bench_roofs_prepare(&run->roofs, run->contenders + run->count,
                        roof_arithmetic(item, &device->info),
                        (int64_t)gemm_case_bytes(item, OP_GEMM_B) * gemm_case_copies(item), device);
    const bench_task task = {
        .request = request.text,
        .verify = gemm_oracle_check,
        .user = &run->oracle,
    };
    for (int i = 0; i < count; i++) {
        missing[i] = run->contenders[i].missing;
        run->contenders[i].missing = skipped != NULL ? skipped : missing[i];
    }
    bench_suite_run(&run->suite, &task, name, run->contenders, count);
    for (int i = 0; i < count; i++)
        run->contenders[i].missing = missing[i];
}

static void run_case(gemm_run *run, const gemm_case *item) {
    char name[MAX_NAME];
    worker_text reason;
    const bench_result row = case_row(item, run->options->suite, name);
    measure(run, item, name, prepare(run, item, &reason) ? NULL : reason.text);
    bench_report_case(&run->suite.report, &row, run->contenders, run->count);
}

/* Runs the shapes of a set or of --shapes, one after another. */
static void run_shapes(gemm_run *run, const gemm_set *set, gemm_case item) {
    const char *shapes = run->options->shapes;
    char word[MAX_WORD];
    for (int i = 0; i < gemm_set_size(set); i++) {
        gemm_set_shape(set, i, &item);
        run_case(run, &item);
    }
    while (set == &no_set && cli_next_word(&shapes, ',', word, sizeof word) == 1) {
        gemm_case_parse_shape(word, &item);
        run_case(run, &item);
    }
}

/* Runs every combination of the packings and layouts. */
static void run_ways(gemm_run *run, const gemm_set *set, gemm_case item) {
    const gemm_options *const options = run->options;
    const char *packings = options->packings != NULL ? options->packings : set->packings;
    char word[MAX_WORD];
    while (cli_next_word(&packings, ',', word, sizeof word) == 1) {
        const char *layouts = options->layouts != NULL ? options->layouts : set->layouts;
        item.prepacked = strcmp(word, "prepacked") == 0;
        while (cli_next_word(&layouts, ',', word, sizeof word) == 1) {
            item.transpose_a = word[0] == 't';
            item.transpose_b = word[1] == 't';
            run_shapes(run, set, item);
        }
    }
}

static void run_set(gemm_run *run, const gemm_set *set) {
    const char *dtypes = run->options->dtypes;
    char word[MAX_WORD];
    gemm_set taken = *set;
    gemm_case item = {.rotate = run->options->rotate,
                      .epilogue = run->epilogue,
                      .seed = (uint64_t)run->options->settings.seed};
    if (run->options->rows != NULL)
        gemm_set_take_rows(&taken, run->options->rows);
    while (cli_next_word(&dtypes, ',', word, sizeof word) == 1) {
        item.types = gemm_types_find(word);
        if (run->options->epilogue != NULL)
            item.types = gemm_types_with_requantized(item.types);
        run_ways(run, run->options->rows != NULL ? &taken : set, item);
    }
}

static void run_all(gemm_run *run) {
    const char *sets = run->options->sets;
    char word[MAX_WORD];
    if (sets == NULL)
        run_set(run, &no_set);
    if (cli_list_has(sets, "all")) {
        for (int i = 0; i < gemm_set_count; i++)
            run_set(run, &gemm_sets[i]);
        return;
    }
    while (cli_next_word(&sets, ',', word, sizeof word) == 1)
        run_set(run, gemm_set_find(word));
}

static int run_on_device(const gemm_options *options) {
    static gemm_run run;
    run = (gemm_run){.options = options,
                     .suite = {.command = options->command, .settings = &options->settings},
                     .oracle = GEMM_ORACLE_INIT};
    bench_roofs_choose(&run.roofs, options->roofs, options->settings.quick);
    if (options->epilogue != NULL && parse_epilogue(options->epilogue, &run.epilogue) != 0)
        return cli_refuse(options->command, "--epilogue takes one activation, not '%s'",
                          options->epilogue);
    const int code =
        bench_suite_open(&run.suite, by_bytes(options) ? "GB/s" : "GFLOP/s", &run.roofs);
    if (code != CLI_EXIT_OK)
        return code;
    if (options->rotate > 0)
        results_add_environment_number(run.suite.report.document, "rotate_bytes",
                                       (double)options->rotate);
    create_contenders(&run);
    run_all(&run);
    gemm_oracle_release(&run.oracle);
    gemm_oracle_release(&run.f32.oracle);
    return bench_suite_close(&run.suite, run.contenders, run.count + run.roofs.count);
}

static int parse_and_run(gemm_options *given, const cli_command *command, int argc, char **argv) {
    const cli_outcome outcome = cli_parse(command, argc, argv, NULL);
    if (outcome != CLI_RUN)
        return cli_exit_code(outcome);
    if (given->sets == NULL && given->shapes == NULL) {
        if (by_bytes(given))
            given->sets = "gemv";
        else
            given->shapes = "512x512x512,1024x1024x1024,2048x2048x2048";
    }
    int code = check_shapes(given);
    if (code == CLI_EXIT_OK)
        code = check_variant(given);
    return code == CLI_EXIT_OK ? run_on_device(given) : code;
}

enum {
    MAX_OPTIONS = 24
};

/*
 * Adds the options that both commands share after a command's own `count` options. Returns the
 * total.
 */
static size_t add_shared_options(cli_option *options, size_t count, gemm_options *given) {
    const cli_option shared[] = {
        {"dtype", CLI_CHOICES, &given->dtypes, "LIST", "types of A, B and, if different, D",
         gemm_types_choices, 0, 0},
        {"packing", CLI_CHOICES, &given->packings, "LIST",
         "pack B in every call (inside) or once in advance (prepacked)", "inside|prepacked", 0, 0},
        {"vs", CLI_CHOICES, &given->peers, "LIST",
         "libraries to compare with; tandem-f32 is Tandem's own f32 GEMM",
         BENCH_GEMM_PEERS "|tandem-f32", 0, 0},
        {"roof", CLI_CHOICES, &given->roofs, "LIST", BENCH_ROOF_HELP, BENCH_ROOF_CHOICES, 0, 0},
        {"epilogue", CLI_CHOICES, &given->epilogue, "LIST",
         "operations fused into the store of D; sums of s8 and u8s8 are requantized to bytes",
         "bias|residual|relu|gelu|gelu_tanh|silu", 0, 0},
        {"rotate", CLI_BYTES, &given->rotate, "BYTES",
         "use another copy of B in every call, with BYTES of copies in total", NULL, 1, 1e12},
        {"variant", CLI_TEXT, &given->variant, "NAME[:...]", "force this kernel variant of Tandem",
         NULL, 0, 0},
        BENCH_SETTINGS_OPTIONS(&given->settings),
    };
    memcpy(options + count, shared, sizeof shared);
    return count + sizeof shared / sizeof shared[0];
}

#define GEMM_NOTES                                                                                 \
    "'tandem is 1.20x' means that Tandem is 1.20 times as fast as that row. --roof limits have\n"  \
    "rows of their own: multiply-adds (compute) and reading as many bytes as B has (memory).\n"    \
    "Types: w8 and w4 are 8-bit and 4-bit weights; f16 in front of them is the type of A and D;\n" \
    "a8 means that the call quantizes rows of A to s8. docs/benchmarks.md lists all types."

int bench_gemm_command(int argc, char **argv) {
    static char notes[4096];
    gemm_options given = {
        .command = "tandem bench gemm",
        .suite = "gemm",
        .dtypes = "f32",
        .roofs = "compute",
        .settings = BENCH_SETTINGS_INIT,
    };
    cli_option options[MAX_OPTIONS] = {
        {"set", CLI_CHOICES, &given.sets, "LIST", "shapes, layout and packing of a workload",
         gemm_set_choices, 0, 0},
        {"m", CLI_TEXT, &given.rows, "LIST", "values of M to use instead of the set's", NULL, 0, 0},
        {"shapes", CLI_TEXT, &given.shapes, "[BATCH*]MxNxK,...",
         "problem sizes, D is MxN; 512, 1024 and 2048 cubed by default", NULL, 0, 0},
        {"layout", CLI_CHOICES, &given.layouts, "LIST",
         "A and B as stored (n) or transposed (t); nn, or the set's layout, by default",
         "nn|nt|tn|tt", 0, 0},
    };
    const cli_command command = {
        .name = given.command,
        .summary = "speed of matrix multiplication, verified and compared with other libraries",
        .options = options,
        .option_count = add_shared_options(options, 4, &given),
        .notes = notes,
    };
    snprintf(notes, sizeof notes, "%s\n\n%s", gemm_set_help, GEMM_NOTES);
    return parse_and_run(&given, &command, argc, argv);
}

int bench_gemv_command(int argc, char **argv) {
    gemm_options given = {
        .command = "tandem bench gemv",
        .suite = "gemv",
        .dtypes = "f32",
        .layouts = "nt",
        .roofs = "memory",
        .settings = BENCH_SETTINGS_INIT,
    };
    cli_option options[MAX_OPTIONS] = {
        {"shapes", CLI_TEXT, &given.shapes, "1xNxK,...",
         "problem sizes; NxK is 4096x4096, 11008x4096 and the layers of Llama 8B by default", NULL,
         0, 0},
        {"layout", CLI_CHOICES, &given.layouts, "LIST",
         "weights stored as KxN (nn) or NxK (nt, the default)", "nn|nt", 0, 0},
    };
    const cli_command command = {
        .name = given.command,
        .summary = "speed of a vector times weights, verified and compared with other libraries",
        .options = options,
        .option_count = add_shared_options(options, 2, &given),
        .notes = GEMM_NOTES,
    };
    return parse_and_run(&given, &command, argc, argv);
}
