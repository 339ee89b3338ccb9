/*
 * `tandem bench outofcore` measures GEMMs on operands in host memory, with a budget of device
 * memory given as a multiple of their bytes. The same GEMM with operands on the device is the
 * baseline.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench_commands.h"
#include "bench/cases/gemm_case.h"
#include "bench/harness/bench_peers.h"
#include "bench/harness/bench_settings.h"

enum {
    OUTOFCORE_CONTENDERS = 2,
    CORE = 1 /* the in-core contender */
};

typedef struct outofcore_options {
    const char *shapes, *types, *shares;
    bench_settings settings;
} outofcore_options;

typedef struct outofcore_run {
    const outofcore_options *options;
    bench_suite suite;
    bench_contender contenders[OUTOFCORE_CONTENDERS];
    gemm_oracle oracle;
} outofcore_run;

/*
 * The data for checking an output. D is checked like that of any GEMM, and the plan's description
 * and measured times are stored in `found`.
 */
typedef struct outofcore_check {
    const gemm_oracle *oracle;
    outofcore_output *found;
} outofcore_check;

static int check(const void *user, const void *bytes, size_t size, double *max_error,
                 worker_text *reason) {
    const outofcore_check *const own = user;
    outofcore_output head;
    if (size < sizeof head) {
        worker_text_set(reason, "the output has %zu bytes only", size);
        return -1;
    }
    memcpy(&head, bytes, sizeof head);
    *own->found = head;
    return gemm_oracle_check(own->oracle, (const char *)bytes + sizeof head, size - sizeof head,
                             max_error, reason);
}

static void report_case(outofcore_run *run, const gemm_case *item, const char *name,
                        const outofcore_output *found) {
    const tdm_outofcore_info *const info = &found->info;
    const op_gemm_case operation = gemm_case_operation(item);
    const double took = bench_contender_median(&run->contenders[0]);
    const bench_result row = {
        .suite = "outofcore",
        .case_name = name,
        .dtype = gemm_types_name(item->types),
        .shape = {{"m", (double)item->m},
                  {"n", (double)item->n},
                  {"k", (double)item->k},
                  {"budget", (double)item->budget}},
        .metrics = {{"of_core", bench_contender_median(&run->contenders[CORE]) / took},
                    {"predicted_s", info->predicted.total_s},
                    {"predicted_over_measured", info->predicted.total_s / took},
                    {"predicted_overlap", info->predicted.overlap},
                    {"in_s", found->measured.in_s},
                    {"compute_s", found->measured.compute_s},
                    {"out_s", found->measured.out_s},
                    {"overlap", found->measured.overlap},
                    {"tile_rows", (double)info->tile_rows},
                    {"tile_columns", (double)info->tile_columns},
                    {"k_steps", (double)info->k_steps},
                    {"tiles", (double)info->tiles},
                    {"device_bytes", (double)info->device_bytes},
                    {"bytes_in", (double)info->bytes_in},
                    {"bytes_out", (double)info->bytes_out}},
        .mode = "pipelined",
        .packing = "inside",
        .flops = op_gemm_flops(&operation),
    };
    bench_report_case(&run->suite.report, &row, run->contenders, OUTOFCORE_CONTENDERS);
}

static void run_case(outofcore_run *run, gemm_case item, double share) {
    worker_text requests[OUTOFCORE_CONTENDERS];
    bench_task tasks[OUTOFCORE_CONTENDERS];
    char gemm[96], name[128];
    outofcore_output found;
    memset(&found, 0, sizeof found);
    if (gemm_oracle_set(&run->oracle, &item) != 0)
        return;
    item.budget = (int64_t)(share * gemm_case_operand_bytes(&item));
    const outofcore_check first = {&run->oracle, &found};
    for (int i = 0; i < OUTOFCORE_CONTENDERS; i++) {
        requests[i].length = 0;
        gemm_case_write(&item, &requests[i]);
        bench_device_write(&run->suite.device, &requests[i]);
        tasks[i] = (bench_task){.request = requests[i].text,
                                .verify = i == 0 ? check : gemm_oracle_check,
                                .user = i == 0 ? (const void *)&first : &run->oracle};
        run->contenders[i].task = &tasks[i];
    }
    gemm_case_name(&item, gemm, sizeof gemm);
    snprintf(name, sizeof name, "%s in %.3g", gemm, share);
    bench_suite_run(&run->suite, &tasks[0], name, run->contenders, OUTOFCORE_CONTENDERS);
    report_case(run, &item, name, &found);
    for (int i = 0; i < OUTOFCORE_CONTENDERS; i++)
        run->contenders[i].task = NULL;
}

/* ---- the command ----------------------------------------------------------------------------- */

static int next_share(const char **list, double *share) {
    char word[24];
    char *end;
    const int found = cli_next_word(list, ',', word, sizeof word);
    if (found != 1)
        return found;
    *share = strtod(word, &end);
    return end != word && *end == '\0' && *share > 0 && *share <= 100 ? 1 : -1;
}

static int next_shape(const char **list, gemm_case *item) {
    char word[64];
    const int found = cli_next_word(list, ',', word, sizeof word);
    return found != 1 ? found : gemm_case_parse_shape(word, item) == 0 ? 1 : -1;
}

/* Returns what is wrong with the lists, or NULL. */
static const char *check_lists(const outofcore_options *options) {
    const char *shapes = options->shapes, *shares = options->shares;
    gemm_case item = {.types = GEMM_F32};
    double share;
    int found;
    while ((found = next_shape(&shapes, &item)) == 1) {
    }
    if (found != 0)
        return gemm_case_shape_rule;
    while ((found = next_share(&shares, &share)) == 1) {
    }
    return found == 0 ? NULL : "a budget must be above 0 and at most 100";
}

static void run_all(outofcore_run *run) {
    const char *types = run->options->types;
    char word[24];
    while (cli_next_word(&types, ',', word, sizeof word) == 1) {
        const char *shapes = run->options->shapes;
        gemm_case item = {.types = gemm_types_find(word),
                          .seed = (uint64_t)run->options->settings.seed};
        while (next_shape(&shapes, &item) == 1) {
            const char *shares = run->options->shares;
            double share;
            while (next_share(&shares, &share) == 1)
                run_case(run, item, share);
        }
    }
}

static int run_on_device(const char *command, const outofcore_options *options) {
    static const char *const names[OUTOFCORE_CONTENDERS] = {"tandem", "in-core"};
    static outofcore_run run;
    run = (outofcore_run){.options = options,
                          .suite = {.command = command, .settings = &options->settings},
                          .oracle = GEMM_ORACLE_INIT};
    const int code = bench_suite_open(&run.suite, "GFLOP/s", NULL);
    if (code != CLI_EXIT_OK)
        return code;
    for (int i = 0; i < OUTOFCORE_CONTENDERS; i++)
        bench_contender_self(&run.contenders[i], names[i], i == 0 ? "outofcore" : "gemm");
    run_all(&run);
    gemm_oracle_release(&run.oracle);
    return bench_suite_close(&run.suite, run.contenders, OUTOFCORE_CONTENDERS);
}

int bench_outofcore_command(int argc, char **argv) {
    outofcore_options given = {
        .shapes = "4096x4096x4096,3000x5000x4096",
        .types = "f32",
        .shares = "0.25",
        .settings = BENCH_SETTINGS_INIT,
    };
    const cli_option options[] = {
        {"shapes", CLI_TEXT, &given.shapes, "[BATCH*]MxNxK,...", "problem sizes, D is MxN", NULL, 0,
         0},
        {"dtype", CLI_CHOICES, &given.types, "LIST", "storage of A, B and D",
         "f32|f16|bf16|s8|u8s8", 0, 0},
        {"budget", CLI_TEXT, &given.shares, "LIST",
         "device memory as a multiple of the operands' bytes; 0.25 by default", NULL, 0, 0},
        BENCH_SETTINGS_OPTIONS(&given.settings),
    };
    const cli_command command = {
        .name = "tandem bench outofcore",
        .summary = "GEMM with operands in host memory within a device memory budget, verified",
        CLI_OPTIONS(options),
        .notes = "in-core: the operands are on the device.\n"
                 "metrics: the planner's tiles and times, and the share of copy time that was "
                 "hidden (overlap).",
    };
    const cli_outcome outcome = cli_parse(&command, argc, argv, NULL);
    if (outcome != CLI_RUN)
        return cli_exit_code(outcome);
    const char *const wrong = check_lists(&given);
    if (wrong != NULL)
        return cli_refuse(command.name, "%s", wrong);
    return run_on_device(command.name, &given);
}
