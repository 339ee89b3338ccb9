/* `tandem choices`: which kernel a GPU's products get and what the model says of its time, where there is no such GPU. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <tandem/tandem.h>

#include "bench/bench_commands.h"
#include "bench/cases/gemm_sets.h"
#include "bench/tune/paper_device.h"
#include "common/command/cli_options.h"
#include "common/table_print.h"

static const char command_name[] = "tandem choices";

typedef struct choices_options {
    const char *device;
    const char *sets;
    const char *shapes;
    const char *rows; /* NULL: as the set says */
    const char *dtypes;
    const char *layouts; /* NULL: as the set says, nt for --shapes */
    const char *packing; /* NULL: as the set says, inside for --shapes */
} choices_options;

typedef struct choices_run {
    paper_device *device;
    text_table *table;
    int failed;
} choices_run;

static void count_cell(text_table *table, int64_t count) {
    if (count == 0)
        table_cell(table, "%s", "-");
    else
        table_cell(table, "%lld", (long long)count);
}

static void add_case(choices_run *run, const gemm_case *item) {
    const op_gemm_case operation = gemm_case_operation(item);
    paper_choice choice;
    char name[96];
    gemm_case_name(item, name, sizeof name);
    table_cell(run->table, "%s", name);
    if (paper_device_choose(run->device, item, &choice) != 0) {
        table_cell(run->table, "no plan: %s", tdm_last_detail());
        table_end_row(run->table);
        run->failed = 1;
        return;
    }
    table_cell(run->table, "%s", choice.variant);
    table_cell(run->table, "%lld", (long long)choice.parts);
    if (isnan(choice.seconds)) {
        table_end_row(run->table);
        return;
    }
    count_cell(run->table, choice.waves);
    count_cell(run->table, choice.resident);
    table_cell(run->table, "%s", choice.memory_bound ? "memory" : "units");
    table_duration(run->table, choice.seconds);
    table_number(run->table, op_gemm_flops(&operation) / choice.seconds * 1e-12);
}

/* Shapes of a set, or those of --shapes. */
static void add_shapes(choices_run *run, const gemm_set *set, const char *shapes, gemm_case item) {
    char word[64];
    for (int i = 0; set != NULL && i < gemm_set_size(set); i++) {
        gemm_set_shape(set, i, &item);
        add_case(run, &item);
    }
    while (set == NULL && cli_next_word(&shapes, ',', word, sizeof word) == 1) {
        gemm_case_parse_shape(word, &item);
        add_case(run, &item);
    }
}

static void add_set(choices_run *run, const choices_options *options, const gemm_set *set) {
    const char *dtypes = options->dtypes;
    const char *const packing = options->packing != NULL ? options->packing
                                : set != NULL            ? set->packings
                                                         : "inside";
    char type[32], layout[8];
    gemm_set taken = set != NULL ? *set : (gemm_set){.name = ""};
    if (options->rows != NULL)
        gemm_set_take_rows(&taken, options->rows);
    while (cli_next_word(&dtypes, ',', type, sizeof type) == 1) {
        const char *layouts = options->layouts != NULL ? options->layouts
                              : set != NULL            ? set->layouts
                                                       : "nt";
        while (cli_next_word(&layouts, ',', layout, sizeof layout) == 1) {
            const gemm_case item = {.types = gemm_types_find(type),
                                    .transpose_a = layout[0] == 't',
                                    .transpose_b = layout[1] == 't',
                                    .prepacked = strcmp(packing, "prepacked") == 0};
            add_shapes(run, set != NULL ? &taken : NULL, options->shapes, item);
        }
    }
}

static void add_all(choices_run *run, const choices_options *options) {
    const char *sets = options->sets;
    char word[64];
    if (options->shapes != NULL) {
        add_set(run, options, NULL);
        return;
    }
    for (int i = 0; cli_list_has(sets, "all") && i < gemm_set_count; i++)
        add_set(run, options, &gemm_sets[i]);
    while (!cli_list_has(options->sets, "all") && cli_next_word(&sets, ',', word, sizeof word) == 1)
        add_set(run, options, gemm_set_find(word));
}

static int check_shapes(const char *shapes, const char *rows) {
    gemm_set any = {.name = ""};
    gemm_case item = {.types = GEMM_F32};
    if (rows != NULL && gemm_set_take_rows(&any, rows) != 0)
        return cli_refuse(command_name, "--m does not take '%s': numbers of rows, 11 at most",
                          rows);
    char word[64];
    int found;
    while ((found = cli_next_word(&shapes, ',', word, sizeof word)) != 0) {
        if (found < 0 || gemm_case_parse_shape(word, &item) != 0)
            return cli_refuse(command_name, "--shapes does not take '%s': %s",
                              found < 0 ? "" : word, gemm_case_shape_rule);
    }
    return CLI_EXIT_OK;
}

static int print_choices(const choices_options *options) {
    choices_run run = {.device = paper_device_create(options->device),
                       .table = table_create("case|kernel|>parts|>waves|>resident|bound by|"
                                             ">predicted|>T/s")};
    if (run.device == NULL) {
        table_destroy(run.table);
        return cli_refuse(command_name, "--device does not take '%s'; there are %s",
                          options->device, paper_device_names);
    }
    const tdm_device_info *const info = paper_device_info(run.device);
    printf("%s: %u units at %u MHz; model, not measured\n\n", info->name, info->compute_units,
           info->clock_mhz);
    add_all(&run, options);
    table_print(run.table, stdout);
    table_destroy(run.table);
    paper_device_destroy(run.device);
    return run.failed ? CLI_EXIT_FAILED : CLI_EXIT_OK;
}

int choices_command(int argc, char **argv) {
    static char notes[3072];
    choices_options given = {.device = "H200", .dtypes = "f16"};
    const cli_option options[] = {
        {"device", CLI_TEXT, &given.device, "NAME", "a GPU of NVIDIA by its name; H200 by default",
         NULL, 0, 0},
        {"set", CLI_CHOICES, &given.sets, "LIST", "shapes and layout of a workload",
         gemm_set_choices, 0, 0},
        {"m", CLI_TEXT, &given.rows, "LIST", "these M in place of those that a set has", NULL, 0,
         0},
        {"shapes", CLI_TEXT, &given.shapes, "[BATCH*]MxNxK,...", "these in place of a set", NULL, 0,
         0},
        {"dtype", CLI_CHOICES, &given.dtypes, "LIST", "storage of A, B and, where it differs, D",
         gemm_types_choices, 0, 0},
        {"layout", CLI_CHOICES, &given.layouts, "LIST",
         "A and B as they are or transposed; the set's, or nt, by default", "nn|nt|tn|tt", 0, 0},
        {"packing", CLI_CHOICE, &given.packing, "HOW",
         "B packed before, or as it is; as the set says, or inside, by default", "inside|prepacked",
         0, 0},
    };
    const cli_command command = {
        .name = command_name,
        .summary =
            "which kernels a GPU's products get, by the library's own rules, without that GPU",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .notes = notes,
    };
    snprintf(notes, sizeof notes,
             "Devices: %s.\nTimes are those of the model in docs/decisions/"
             "occupancy-and-waves.md; rows that it does not know have none. TANDEM_TUNING_FILE\n"
             "counts as everywhere.\n\n%s",
             paper_device_names, gemm_set_help);
    const cli_outcome outcome = cli_parse(&command, argc, argv, NULL);
    if (outcome != CLI_RUN)
        return cli_exit_code(outcome);
    if (given.sets != NULL && given.shapes != NULL)
        return cli_refuse(command_name, "give --set or --shapes, not both");
    if (given.rows != NULL && given.shapes != NULL)
        return cli_refuse(command_name, "--m is for the shapes of a set");
    if (given.sets == NULL && given.shapes == NULL)
        given.sets = "llama8b";
    const int code = check_shapes(given.shapes, given.rows);
    return code == CLI_EXIT_OK ? print_choices(&given) : code;
}
