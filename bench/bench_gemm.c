/* `tandem bench gemm`: GEMM speed, side by side with the libraries people would use otherwise. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tandem/tandem.h>

#include "bench/bench_commands.h"
#include "bench/bench_peers.h"
#include "bench/bench_settings.h"
#include "bench/gemm_case.h"
#include "kernels/kernel_index.h"

static const char command_name[] = "tandem bench gemm";

enum {
    MAX_GEMM_DIMENSION = 1 << 20,
    MAX_WORD = 64
};

/* One operand in double must fit: the check needs it. */
static const double max_elements = 1e9;

typedef struct gemm_options {
    const char *dtypes;
    const char *shapes;
    const char *layouts;
    const char *modes;
    const char *packings;
    const char *peers;
    const char *variant;
    bench_settings settings;
} gemm_options;

typedef struct gemm_run {
    const gemm_options *options;
    bench_entrant *entrants;
    int entrant_count;
    bench_device device;
    bench_report report;
} gemm_run;

/* "MxNxK" in full; -1 when it is something else. */
static int parse_shape(const char *word, gemm_case *item) {
    int64_t sizes[3];
    const char *rest = word;
    for (int i = 0; i < 3; i++) {
        char number[16];
        char *end = NULL;
        if (cli_next_word(&rest, 'x', number, sizeof number) != 1)
            return -1;
        if (number[0] < '0' || number[0] > '9')
            return -1;
        sizes[i] = strtoll(number, &end, 10);
        if (*end != '\0' || sizes[i] < 1 || sizes[i] > MAX_GEMM_DIMENSION)
            return -1;
    }
    item->m = sizes[0];
    item->n = sizes[1];
    item->k = sizes[2];
    const double m = (double)sizes[0];
    const double n = (double)sizes[1];
    const double k = (double)sizes[2];
    return rest == NULL && m * n <= max_elements && m * k <= max_elements && n * k <= max_elements
               ? 0
               : -1;
}

static int check_shapes(const char *list) {
    char word[MAX_WORD];
    gemm_case item;
    int found;
    while ((found = cli_next_word(&list, ',', word, sizeof word)) != 0) {
        if (found < 0 || parse_shape(word, &item) != 0)
            return cli_refuse(command_name,
                              "--shapes does not take '%s': give MxNxK,... with sizes from 1 to %d "
                              "and at most 10^9 elements in a matrix",
                              found < 0 ? "" : word, MAX_GEMM_DIMENSION);
    }
    return CLI_EXIT_OK;
}

static int check_variant(const char *variant) {
    const tdm_variant *const row = variant == NULL ? NULL : tdm_variant_find(variant);
    if (variant == NULL || (row != NULL && row->op == TDM_OP_GEMM))
        return CLI_EXIT_OK;
    cli_refuse(command_name, "--variant does not take '%s': choose one of", variant);
    for (int i = 0; i < tdm_variant_count; i++) {
        if (tdm_variants[i].op == TDM_OP_GEMM)
            fprintf(stderr, "  %s\n", tdm_variants[i].name);
    }
    return CLI_EXIT_USAGE;
}

static void create_entrants(gemm_run *run) {
    const char *peers = run->options->peers;
    char peer[MAX_WORD];
    bench_entrant_self(&run->entrants[0], "tandem", "gemm");
    bench_entrant_self(&run->entrants[1], BENCH_TWIN_NAME, "gemm");
    run->entrant_count = 2;
    while (cli_next_word(&peers, ',', peer, sizeof peer) == 1) {
        static char names[MAX_ENTRANTS][MAX_WORD]; /* entrants keep pointers to their names */
        char *const name = names[run->entrant_count];
        snprintf(name, MAX_WORD, "%s", peer);
        bench_entrant *const entrant = &run->entrants[run->entrant_count++];
        if (strcmp(name, "openblas-best") == 0)
            bench_entrant_openblas_best(entrant);
        else
            bench_entrant_peer(entrant, name);
    }
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

static void run_case(gemm_run *run, const gemm_case *item) {
    char name[96];
    worker_text request = {.length = 0};
    gemm_case_name(item, name, sizeof name);
    write_request(run, item, &request);
    bench_plan plan = bench_settings_plan(&run->options->settings);
    plan.task.request = request.text;
    plan.task.waited = item->waited;
    plan.task.verify = gemm_case_check;
    plan.task.user = item;
    plan.label = name;
    bench_run_case(&plan, run->entrants, run->entrant_count);
    const op_gemm_case operation = gemm_case_operation(item);
    const bench_result row = {
        .suite = "gemm",
        .case_name = name,
        .dtype = tdm_dtype_name(item->dtype),
        .shape = {{"m", (double)item->m},
                  {"n", (double)item->n},
                  {"k", (double)item->k},
                  {"transpose_a", item->transpose_a},
                  {"transpose_b", item->transpose_b}},
        .mode = item->waited ? "waited" : "pipelined",
        .packing = item->prepacked ? "prepacked" : "inside",
        .flops = op_gemm_flops(&operation),
        .bytes = (double)(gemm_case_bytes(item, OP_GEMM_A) + gemm_case_bytes(item, OP_GEMM_B) +
                          gemm_case_bytes(item, OP_GEMM_D)),
    };
    bench_report_case(&run->report, &row, run->entrants, run->entrant_count);
}

/* Every combination of the lists that say how a shape is run. */
static void run_shape(gemm_run *run, gemm_case item) {
    const char *modes = run->options->modes;
    char mode[MAX_WORD];
    while (cli_next_word(&modes, ',', mode, sizeof mode) == 1) {
        const char *packings = run->options->packings;
        char packing[MAX_WORD];
        while (cli_next_word(&packings, ',', packing, sizeof packing) == 1) {
            item.waited = strcmp(mode, "waited") == 0;
            item.prepacked = strcmp(packing, "prepacked") == 0;
            run_case(run, &item);
        }
    }
}

static void run_all(gemm_run *run) {
    const char *dtypes = run->options->dtypes;
    char word[MAX_WORD];
    gemm_case item = {.seed = (uint64_t)run->options->settings.seed};
    while (cli_next_word(&dtypes, ',', word, sizeof word) == 1) {
        const char *layouts = run->options->layouts;
        item.dtype = tdm_dtype_from_name(word);
        while (cli_next_word(&layouts, ',', word, sizeof word) == 1) {
            const char *shapes = run->options->shapes;
            item.transpose_a = word[0] == 't';
            item.transpose_b = word[1] == 't';
            while (cli_next_word(&shapes, ',', word, sizeof word) == 1) {
                parse_shape(word, &item);
                run_shape(run, item);
            }
        }
    }
}

static int run_on_device(const gemm_options *options) {
    static bench_entrant entrants[MAX_ENTRANTS];
    gemm_run run = {.options = options, .entrants = entrants};
    const int code =
        bench_settings_open(command_name, &options->settings, "GFLOP/s", NULL, &run.device, &run.report);
    if (code != CLI_EXIT_OK)
        return code;
    create_entrants(&run);
    run_all(&run);
    bench_entrants_release(run.entrants, run.entrant_count);
    return bench_report_close(&run.report, command_name, options->settings.json);
}

int bench_gemm_command(int argc, char **argv) {
    gemm_options given = {
        .dtypes = "f32",
        .shapes = "512x512x512,1024x1024x1024,2048x2048x2048",
        .layouts = "nn",
        .modes = "pipelined",
        .packings = "inside",
        .settings = BENCH_SETTINGS_INIT,
    };
    const cli_option options[] = {
        {"dtype", CLI_CHOICES, &given.dtypes, "LIST", "storage of A, B and D; sums are f32",
         "f32|f16|bf16", 0, 0},
        {"shapes", CLI_TEXT, &given.shapes, "MxNxK,...",
         "D is MxN; 512, 1024 and 2048 cubed by default", NULL, 0, 0},
        {"layout", CLI_CHOICES, &given.layouts, "LIST", "A and B as they are or transposed",
         "nn|nt|tn|tt", 0, 0},
        {"mode", CLI_CHOICES, &given.modes, "LIST", "many calls and one wait, or a wait after each",
         "pipelined|waited", 0, 0},
        {"packing", CLI_CHOICES, &given.packings, "LIST", "B packed in every call, or once before",
         "inside|prepacked", 0, 0},
        {"vs", CLI_CHOICES, &given.peers, "LIST", "libraries to compare with", BENCH_GEMM_PEERS, 0,
         0},
        {"variant", CLI_TEXT, &given.variant, "NAME", "force this kernel variant of Tandem", NULL,
         0, 0},
        BENCH_SETTINGS_OPTIONS(&given.settings),
    };
    const cli_command command = {
        .name = command_name,
        .summary = "speed of matrix multiplication, verified, side by side",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .notes = "Every implementation runs in a process of its own, in turn with the others, on "
                 "the same data.\n"
                 "'tandem is 1.20x' means 1.20 times as fast as that row. tandem-again is a second "
                 "run of Tandem\n"
                 "itself: where it differs by more than 3 %, the machine was too noisy to compare.",
    };
    const cli_outcome outcome = cli_parse(&command, argc, argv, NULL);
    if (outcome != CLI_RUN)
        return cli_exit_code(outcome);
    int code = check_shapes(given.shapes);
    if (code == CLI_EXIT_OK)
        code = check_variant(given.variant);
    return code == CLI_EXIT_OK ? run_on_device(&given) : code;
}
