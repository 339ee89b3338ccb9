/* `tandem choices` shows the kernels and modelled times of a GPU's GEMMs, without that GPU. */
#include <math.h>
#include <stdio.h>

#include <tandem/tandem.h>

#include "bench/bench_commands.h"
#include "bench/cases/gemm_sets.h"
#include "bench/tune/device_model.h"
#include "bench/tune/tune_run.h"
#include "common/command/cli_options.h"
#include "common/table_print.h"

static const char command_name[] = "tandem choices";

/* Returns 0, or -1 if there is no plan. */
static int add_case(text_table *table, device_model *device, const gemm_case *item) {
    const op_gemm_case operation = gemm_case_operation(item);
    modelled_choice choice;
    char name[96];
    gemm_case_name(item, name, sizeof name);
    table_cell(table, "%s", name);
    if (device_model_choose(device, item, &choice) != 0) {
        table_cell(table, "no plan: %s", tdm_last_detail());
        table_end_row(table);
        return -1;
    }
    table_cell(table, "%s", choice.variant);
    table_cell(table, "%lld", (long long)choice.parts);
    table_cell(table, "%lld", (long long)choice.waves);
    if (isnan(choice.seconds)) {
        table_end_row(table);
        return 0;
    }
    table_duration(table, choice.seconds);
    table_number(table, op_gemm_flops(&operation) / choice.seconds * 1e-12);
    return 0;
}

static int print_choices(const char *name, const tune_cases *cases) {
    device_model *const device = device_model_create(name);
    int failed = 0;
    if (device == NULL)
        return cli_refuse(command_name, "--device does not take '%s'; choose one of %s", name,
                          device_model_names);
    text_table *const table = table_create("case|kernel|>parts|>waves|>predicted|>T/s");
    const tdm_device_info *const info = device_model_info(device);
    printf("%s: %u compute units at %u MHz; predicted by a model, not measured\n\n", info->name,
           info->compute_units, info->clock_mhz);
    for (int i = 0; i < cases->count; i++)
        failed |= add_case(table, device, &cases->items[i]);
    table_print(table, stdout);
    table_destroy(table);
    device_model_destroy(device);
    return failed ? CLI_EXIT_FAILED : CLI_EXIT_OK;
}

int choices_command(int argc, char **argv) {
    const char *device = "H200", *dtypes = "f16", *sets = NULL, *shapes = NULL, *layouts = NULL;
    tune_cases cases = {.items = NULL};
    const cli_option options[] = {
        {"device", CLI_TEXT, &device, "NAME", "name of an NVIDIA GPU; H200 by default", NULL, 0, 0},
        {"set", CLI_CHOICES, &sets, "LIST", "shapes and layout of a workload; llama8b by default",
         gemm_set_choices, 0, 0},
        {"shapes", CLI_TEXT, &shapes, "[BATCH*]MxNxK,...", "shapes to use instead of a set", NULL,
         0, 0},
        {"dtype", CLI_CHOICES, &dtypes, "LIST", "storage of A and B", tune_dtype_choices, 0, 0},
        {"layout", CLI_CHOICES, &layouts, "LIST",
         "A and B as stored (n) or transposed (t); the set's layout, or nn, by default",
         "nn|nt|tn|tt", 0, 0},
    };
    const cli_command command = {
        .name = command_name,
        .summary = "show the kernels that the library chooses for GEMM on a GPU, without that GPU",
        CLI_OPTIONS(options),
        .notes = "Times are predicted by the model in docs/decisions/occupancy-and-waves.md; rows "
                 "that it does not\n"
                 "cover have no time.",
    };
    const cli_outcome outcome = cli_parse(&command, argc, argv, NULL);
    if (outcome != CLI_RUN)
        return cli_exit_code(outcome);
    if (sets != NULL && shapes != NULL)
        return cli_refuse(command_name, "give --set or --shapes, not both");
    if (sets == NULL && shapes == NULL)
        sets = "llama8b";
    int code = tune_cases_add(command_name, sets, shapes, dtypes, layouts, &cases);
    if (code == CLI_EXIT_OK)
        code = print_choices(device, &cases);
    tune_cases_release(&cases);
    return code;
}
