/*
 * `tandem bench gemm` and `tandem bench gemv`: speed of matrix products, side by side with the libraries
 * people would use otherwise.
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
#include "bench/suites/gemm_beside.h"
#include "bench/suites/gemm_summary.h"
#include "kernels/kernel_index.h"

enum {
    MAX_WORD = 64
};

typedef struct gemm_options {
    const char *command; /* "tandem bench gemm" */
    const char *suite;   /* "gemm" */
    const char *dtypes;
    const char *sets;
    const char *shapes;
    const char *rows;     /* M of the sets' shapes; NULL: as the set says */
    const char *layouts;  /* NULL: as the set says */
    const char *packings; /* NULL: as the set says */
    const char *modes;
    const char *peers;
    const char *roofs;
    const char *variant;
    const char *epilogue; /* NULL: none */
    int64_t rotate;       /* bytes */
    bench_settings settings;
} gemm_options;

typedef struct gemm_run {
    const gemm_options *options;
    bench_entrant *entrants; /* Tandem, the peers, the roofs' workers */
    int entrant_count;       /* without the roofs' */
    bench_device device;
    bench_roofs roofs;
    bench_report report;
    gemm_oracle oracle;
    gemm_beside beside; /* f32 */
    gemm_beside fused;  /* with the epilogue */
    gemm_case_epilogue epilogue;
    gemm_summary summary;
    FILE *summaries;             /* what stands under the table */
    double base_s[MAX_ENTRANTS]; /* time per operation in a set's first shape, NaN: none */
} gemm_run;

/* Shapes that --shapes lists are a set without a name. */
static const gemm_set no_set = {.name = "", .layouts = "nn", .packings = "inside"};

/* Products of one row are a matter of reading B. */
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
        return cli_refuse(options->command, "--m is for the shapes of --set");
    gemm_set any = {.name = ""};
    if (options->rows != NULL && gemm_set_take_rows(&any, options->rows) != 0)
        return cli_refuse(options->command, "--m does not take '%s': numbers of rows, 11 at most",
                          options->rows);
    return CLI_EXIT_OK;
}

static int is_gemm(const tdm_variant *variant) {
    return variant->op == TDM_OP_GEMM || variant->op == TDM_OP_GEMM_INT ||
           variant->op == TDM_OP_GEMM_WEIGHTS;
}

/* A row's name, with launch-time parameters where they follow. */
static int check_variant(const gemm_options *options) {
    tdm_choice choice;
    char reason[TDM_TUNING_REASON] = "it is of another operation";
    if (options->variant == NULL ||
        (tdm_choice_read(options->variant, &choice, reason) == TDM_TUNING_OK &&
         is_gemm(choice.variant)))
        return CLI_EXIT_OK;
    cli_refuse(options->command, "--variant does not take '%s': %s; choose one of",
               options->variant, reason);
    for (int i = 0; i < tdm_variant_count; i++) {
        if (is_gemm(&tdm_variants[i]))
            fprintf(stderr, "  %s\n", tdm_variants[i].name);
    }
    return CLI_EXIT_USAGE;
}

static void create_entrants(gemm_run *run) {
    const char *peers = run->options->peers;
    char peer[MAX_WORD];
    bench_entrant_self(&run->entrants[0], "tandem", "gemm");
    run->entrant_count = 1;
    while (cli_next_word(&peers, ',', peer, sizeof peer) == 1) {
        static char names[MAX_ENTRANTS][MAX_WORD]; /* entrants keep pointers to their names */
        char *const name = names[run->entrant_count];
        snprintf(name, MAX_WORD, "%s", peer);
        bench_entrant *const entrant = &run->entrants[run->entrant_count++];
        if (strcmp(name, GEMM_BESIDE_NAME) == 0)
            gemm_beside_enter(&run->beside, name, entrant);
        else
            bench_entrant_peer(entrant, name);
    }
    if (run->options->epilogue != NULL && run->entrant_count + run->roofs.count < MAX_ENTRANTS)
        gemm_beside_enter(&run->fused, GEMM_FUSED_NAME, &run->entrants[run->entrant_count++]);
    bench_roofs_enter(&run->roofs, run->entrants + run->entrant_count);
}

/* Tandem needs the device's index and a forced variant, a peer on OpenCL the device's name. */
static void write_request(const gemm_run *run, const gemm_case *item, worker_text *request) {
    gemm_case_write(item, request);
    bench_device_write(&run->device, request);
    if (run->options->variant != NULL)
        worker_field_add(request, "variant", run->options->variant);
    worker_field_add(request, "device", run->device.info.name);
    worker_field_add(request, "driver", run->device.info.driver_version);
}

/* The entrants and the oracle; otherwise the reason is set, and why every row of it is skipped. */
static int fits(const gemm_run *run, const gemm_case *item, worker_text *reason) {
    /* f32 is the largest type: its entrant and oracle leave the others room enough. */
    return gemm_case_fits(item, run->entrant_count + 1, &run->device.info, reason) &&
           (run->beside.entrant == NULL ||
            gemm_case_fits(&run->beside.item, run->entrant_count + 1, &run->device.info, reason)) &&
           (run->fused.entrant == NULL ||
            gemm_case_fits(&run->fused.item, run->entrant_count + 1, &run->device.info, reason));
}

/* -1 when memory is short. */
static int prepare_beside(gemm_run *run, const gemm_case *item) {
    const gemm_case f32 = gemm_beside_f32(item), fused = gemm_beside_fused(item, &run->epilogue);
    const char *const suite = run->options->suite;
    worker_text fields = {.length = 0};
    bench_device_write(&run->device, &fields);
    if (run->beside.entrant != NULL &&
        gemm_beside_prepare(&run->beside, suite, &f32, gemm_beside_f32_missing(item), &fields) != 0)
        return -1;
    if (run->fused.entrant == NULL)
        return 0;
    if (run->options->variant != NULL)
        worker_field_add(&fields, "variant", run->options->variant);
    return gemm_beside_prepare(&run->fused, suite, &fused, gemm_beside_fused_missing(&fused),
                               &fields);
}

/* The data of a case, and of what stands beside it. Otherwise the reason is set. */
static int take_case(gemm_run *run, const gemm_case *item, worker_text *reason) {
    if (gemm_oracle_set(&run->oracle, item) != 0 || prepare_beside(run, item) != 0) {
        worker_text_set(reason, "out of host memory");
        return 0;
    }
    return fits(run, item, reason);
}

static double median_of(const bench_entrant *entrant) {
    return entrant->status == RESULT_OK
               ? summarize_samples(entrant->series.values, entrant->series.count).median
               : NAN;
}

/* The first shape of a set is what the others' speed is a share of. */
static void compare_with_base(gemm_run *run, double flops, int first) {
    for (int i = 0; i < run->entrant_count; i++) {
        const double per_flop = median_of(&run->entrants[i]) / flops;
        if (first)
            run->base_s[i] = per_flop;
        else
            run->entrants[i].of_base = run->base_s[i] / per_flop;
    }
}

/* Arithmetic that a product of the case's types may be made of. */
static tdm_dtype roof_arithmetic(const gemm_case *item, const tdm_device_info *device) {
    const int pairs = gemm_types_dtype(item->types, OP_GEMM_A) == TDM_BF16 &&
                      gemm_types_dtype(item->types, OP_GEMM_B) == TDM_BF16 &&
                      (device->capabilities & TDM_CAP_HOST_BF16) != 0;
    return gemm_types_integer(item->types) ? TDM_S8 : pairs ? TDM_BF16 : TDM_F32;
}

static void measure(gemm_run *run, const gemm_case *item, const char *name) {
    worker_text request = {.length = 0};
    worker_text fields = {.length = 0};
    const int count = run->entrant_count + run->roofs.count;
    write_request(run, item, &request);
    bench_device_write(&run->device, &fields);
    bench_roofs_prepare(
        &run->roofs, run->entrants + run->entrant_count, roof_arithmetic(item, &run->device.info),
        (int64_t)gemm_case_bytes(item, OP_GEMM_B) * gemm_case_copies(item), &fields);
    bench_plan plan = bench_settings_plan(&run->options->settings);
    plan.task = (bench_task){
        .request = request.text,
        .verify = gemm_oracle_check,
        .user = &run->oracle,
        .waited = item->waited,
    };
    plan.label = name;
    bench_run_case(&plan, run->entrants, count);
}

/* Rows that say why nothing was measured. */
static void skip(gemm_run *run, const char *reason) {
    const char *missing[MAX_ENTRANTS];
    bench_plan plan = bench_settings_plan(&run->options->settings);
    plan.label = "skipped";
    const int count = run->entrant_count + run->roofs.count;
    for (int i = 0; i < count; i++) {
        missing[i] = run->entrants[i].missing;
        run->entrants[i].missing = reason;
    }
    bench_run_case(&plan, run->entrants, count);
    for (int i = 0; i < count; i++)
        run->entrants[i].missing = missing[i];
}

/* A line under the table too. */
static void tell_cost(gemm_run *run) {
    if (run->fused.entrant == NULL)
        return;
    const double cost = gemm_beside_note_cost(&run->fused, &run->entrants[0]);
    if (isfinite(cost) && run->summaries != NULL)
        fprintf(run->summaries, "%s: the epilogue costs %.1f %% of the product\n", run->fused.name,
                100 * cost);
}

/* Case `number` of a set, in one of the ways it is run. */
static void run_case(gemm_run *run, const gemm_set *set, int number, const gemm_case *item) {
    char name[MAX_GEMM_CASE_NAME];
    char group[MAX_SUMMARY_NAME];
    worker_text reason = {.length = 0};
    const bench_result row = gemm_case_row(item, run->options->suite, name);
    if (take_case(run, item, &reason))
        measure(run, item, name);
    else
        skip(run, reason.text);
    tell_cost(run);
    if (set->first_is_base)
        compare_with_base(run, row.flops, number == 0);
    snprintf(group, sizeof group, "%s%s%s %c%c %s %s", set->name, set->name[0] == '\0' ? "" : " ",
             row.dtype, item->transpose_a ? 't' : 'n', item->transpose_b ? 't' : 'n', row.mode,
             row.packing);
    gemm_summary_add(&run->summary, group, name, run->entrants, run->entrant_count, run->summaries);
    bench_report_case(&run->report, &row, run->entrants, run->entrant_count);
}

/* The shapes of a set, or those of --shapes, one after the other. */
static void run_shapes(gemm_run *run, const gemm_set *set, gemm_case item) {
    const char *shapes = run->options->shapes;
    char word[MAX_WORD];
    for (int i = 0; i < gemm_set_size(set); i++) {
        gemm_set_shape(set, i, &item);
        run_case(run, set, i, &item);
    }
    for (int i = 0; set == &no_set && cli_next_word(&shapes, ',', word, sizeof word) == 1; i++) {
        gemm_case_parse_shape(word, &item);
        run_case(run, set, i, &item);
    }
}

/* Every combination of the lists that say how shapes are run. */
static void run_ways(gemm_run *run, const gemm_set *set, gemm_case item) {
    const gemm_options *const options = run->options;
    const char *modes = options->modes;
    char word[MAX_WORD];
    while (cli_next_word(&modes, ',', word, sizeof word) == 1) {
        const char *packings = options->packings != NULL ? options->packings : set->packings;
        item.waited = strcmp(word, "waited") == 0;
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
}

static void run_set(gemm_run *run, const gemm_set *set) {
    const char *dtypes = run->options->dtypes;
    char word[MAX_WORD];
    gemm_set taken = *set;
    gemm_case item = {.rotate = run->options->rotate,
                      .seed = (uint64_t)run->options->settings.seed};
    if (run->options->rows != NULL)
        gemm_set_take_rows(&taken, run->options->rows);
    while (cli_next_word(&dtypes, ',', word, sizeof word) == 1) {
        item.types = gemm_types_find(word);
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

/* Close the report; the summaries stand under its table, unless results take its place. */
static int finish(gemm_run *run, char **summaries) {
    const char *const json = run->options->settings.json;
    const int code = bench_report_close(&run->report, run->options->command, json);
    gemm_summary_print(&run->summary, run->summaries);
    if (run->summaries != NULL && fclose(run->summaries) == 0 &&
        (json == NULL || strcmp(json, "-") != 0))
        fputs(*summaries, stdout);
    free(*summaries); /* it is what closing the stream left */
    return code;
}

static int run_on_device(const gemm_options *options) {
    static bench_entrant entrants[MAX_ENTRANTS];
    static gemm_run run;
    char *summaries = NULL;
    size_t summaries_size = 0;
    run = (gemm_run){.options = options, .entrants = entrants, .oracle = GEMM_ORACLE_INIT};
    bench_roofs_choose(&run.roofs, options->roofs, options->settings.quick);
    if (options->epilogue != NULL && gemm_epilogue_parse(options->epilogue, &run.epilogue) != 0)
        return cli_refuse(options->command, "--epilogue takes one activation, not '%s'",
                          options->epilogue);
    const int code = bench_settings_open(options->command, &options->settings,
                                         by_bytes(options) ? "GB/s" : "GFLOP/s", &run.roofs,
                                         &run.device, &run.report);
    if (code != CLI_EXIT_OK)
        return code;
    if (options->rotate > 0)
        results_add_environment_number(run.report.document, "rotate_bytes",
                                       (double)options->rotate);
    run.summaries = open_memstream(&summaries, &summaries_size);
    create_entrants(&run);
    run_all(&run);
    bench_entrants_release(run.entrants, run.entrant_count + run.roofs.count);
    gemm_oracle_release(&run.oracle);
    gemm_beside_release(&run.beside);
    gemm_beside_release(&run.fused);
    return finish(&run, &summaries);
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

/* Behind a command's own `count` options, those that both have. Returns how many there are. */
static size_t add_shared_options(cli_option *options, size_t count, gemm_options *given) {
    const cli_option shared[] = {
        {"dtype", CLI_CHOICES, &given->dtypes, "LIST",
         "types of A, B and, where it differs, D, as listed below", gemm_types_choices, 0, 0},
        {"mode", CLI_CHOICES, &given->modes, "LIST",
         "many calls and one wait, or a wait after each", "pipelined|waited", 0, 0},
        {"packing", CLI_CHOICES, &given->packings, "LIST", "B packed in every call, or once before",
         "inside|prepacked", 0, 0},
        {"vs", CLI_CHOICES, &given->peers, "LIST", "libraries to compare with, Tandem's own f32",
         BENCH_GEMM_PEERS "|" GEMM_BESIDE_NAME, 0, 0},
        {"roof", CLI_CHOICES, &given->roofs, "LIST", BENCH_ROOF_HELP, BENCH_ROOF_CHOICES, 0, 0},
        {"epilogue", CLI_CHOICES, &given->epilogue, "LIST",
         "beside each product the same with its store doing this; sums of s8 and u8s8 become bytes",
         gemm_epilogue_choices, 0, 0},
        {"rotate", CLI_BYTES, &given->rotate, "BYTES",
         "call after call another copy of B, so many bytes of copies", NULL, 1, 1e12},
        {"variant", CLI_TEXT, &given->variant, "NAME[:...]", "force this kernel variant of Tandem",
         NULL, 0, 0},
        BENCH_SETTINGS_OPTIONS(&given->settings),
    };
    memcpy(options + count, shared, sizeof shared);
    return count + sizeof shared / sizeof shared[0];
}

#define GEMM_NOTES                                                                                 \
    "Every implementation runs in a process of its own, in turn with the others, on the same "     \
    "data.\n"                                                                                      \
    "'tandem is 1.20x' means 1.20 times as fast as that row.\n"                                    \
    "--roof compute gives the share of the multiply-adds the device can do, --roof memory the\n"   \
    "share of the speed at which it reads as many bytes as B has; both are rows of their own.\n"   \
    "--epilogue bias,residual,gelu adds rows of tandem-fused, whose metric epilogue_cost is "      \
    "what\n"                                                                                       \
    "that costs as a share of the plain product's time."

int bench_gemm_command(int argc, char **argv) {
    static char notes[4096];
    gemm_options given = {
        .command = "tandem bench gemm",
        .suite = "gemm",
        .dtypes = "f32",
        .modes = "pipelined",
        .roofs = "compute",
        .settings = BENCH_SETTINGS_INIT,
    };
    cli_option options[MAX_OPTIONS] = {
        {"set", CLI_CHOICES, &given.sets, "LIST", "shapes, layout and packing of a workload",
         gemm_set_choices, 0, 0},
        {"m", CLI_TEXT, &given.rows, "LIST", "these M in place of those that a set has", NULL, 0,
         0},
        {"shapes", CLI_TEXT, &given.shapes, "[BATCH*]MxNxK,...",
         "D is MxN; 512, 1024 and 2048 cubed by default", NULL, 0, 0},
        {"layout", CLI_CHOICES, &given.layouts, "LIST",
         "A and B as they are or transposed; nn, or the set's, by default", "nn|nt|tn|tt", 0, 0},
    };
    const cli_command command = {
        .name = given.command,
        .summary = "speed of matrix multiplication, verified, side by side",
        .options = options,
        .option_count = add_shared_options(options, 4, &given),
        .notes = notes,
    };
    snprintf(notes, sizeof notes, "%s\n\n%s\n\n%s", gemm_set_help, gemm_types_help, GEMM_NOTES);
    return parse_and_run(&given, &command, argc, argv);
}

int bench_gemv_command(int argc, char **argv) {
    static char notes[4096];
    gemm_options given = {
        .command = "tandem bench gemv",
        .suite = "gemv",
        .dtypes = "f32",
        .layouts = "nt",
        .modes = "pipelined",
        .roofs = "memory",
        .settings = BENCH_SETTINGS_INIT,
    };
    cli_option options[MAX_OPTIONS] = {
        {"shapes", CLI_TEXT, &given.shapes, "1xNxK,...",
         "NxK 4096x4096, 11008x4096 and the layers of Llama 8B by default", NULL, 0, 0},
        {"layout", CLI_CHOICES, &given.layouts, "LIST", "weights as KxN or as NxK (the default)",
         "nn|nt", 0, 0},
    };
    const cli_command command = {
        .name = given.command,
        .summary = "speed of a vector times weights, verified, side by side",
        .options = options,
        .option_count = add_shared_options(options, 2, &given),
        .notes = notes,
    };
    snprintf(notes, sizeof notes, "%s\n\n%s", gemm_types_help, GEMM_NOTES);
    return parse_and_run(&given, &command, argc, argv);
}
