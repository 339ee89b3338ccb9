/* `tandem predict`: the time of a workload from a device's own results, or the bound of its datasheet. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "bench/bench_commands.h"
#include "bench/predict/predict_run.h"
#include "bench/record/results_json.h"
#include "common/command/cli_options.h"

enum {
    MAX_PROFILES = 10,
    MAX_NAME = 1024
};

static const char command_name[] = "tandem predict";
static const char sheet_mark[] = "sheet:";

typedef struct predict_options {
    const char *workload;
    const char *profiles;
    const char *weights;
    const char *json;
    int64_t batch;
    int64_t context;
    double scale;
    double launch; /* us, of datasheets */
} predict_options;

typedef struct predict_state {
    predict_workload workload;
    char names[MAX_PROFILES][MAX_NAME]; /* of the files, which point to them */
    results_file files[MAX_PROFILES];
    predict_profile profiles[MAX_PROFILES];
    predict_run runs[MAX_PROFILES];
    size_t count;
} predict_state;

static int fail(const char *reason) {
    fprintf(stderr, "%s: %s\n", command_name, reason);
    return CLI_EXIT_FAILED;
}

/* Whether the JSON would take the place of a file that is read; no file has the name of a datasheet. */
static int is_input(const predict_options *options, const char *name) {
    return options->json != NULL && results_would_replace(options->json, name);
}

/* ---- profiles -------------------------------------------------------------------------------------- */

static int refuse_sheet(const char *name) {
    fprintf(stderr, "%s: there is no datasheet of '%s'; there are those of", command_name, name);
    for (size_t i = 0; datasheet_at(i) != NULL; i++)
        fprintf(stderr, "%s %s", i == 0 ? "" : ",", datasheet_at(i)->name);
    fprintf(stderr, "\n");
    return CLI_EXIT_FAILED;
}

static int add_sheet(predict_profile *profile, const char *name, double launch_us) {
    const datasheet *const sheet = datasheet_find(name);
    if (sheet == NULL)
        return refuse_sheet(name);
    predict_profile_from_sheet(sheet, profile);
    profile->launch_s = 1e-6 * launch_us;
    return CLI_EXIT_OK;
}

static int add_profile(predict_state *state, const predict_options *options) {
    file_error error;
    const char *const name = state->names[state->count];
    predict_profile *const profile = &state->profiles[state->count];
    results_file *const file = &state->files[state->count];
    if (strncmp(name, sheet_mark, sizeof sheet_mark - 1) == 0) {
        const int code = add_sheet(profile, name + sizeof sheet_mark - 1, options->launch);
        if (code != CLI_EXIT_OK)
            return code;
        state->count++;
    } else {
        if (results_read(name, file, &error) != 0)
            return fail(error.text);
        state->count++;
        if (file->device_count > 1)
            return fail("a profile of several devices is none: give a file of one device");
        if (predict_profile_read(file, profile, &error) != 0)
            return fail(error.text);
    }
    profile->bandwidth_scale = options->scale;
    return CLI_EXIT_OK;
}

static int add_profiles(predict_state *state, const predict_options *options) {
    const char *rest = options->profiles;
    while (rest != NULL) {
        if (state->count == MAX_PROFILES)
            return cli_refuse(command_name, "--profiles takes at most %d", MAX_PROFILES);
        if (cli_next_word(&rest, ',', state->names[state->count], MAX_NAME) < 0)
            return cli_refuse(command_name, "--profiles has an empty or too long name");
        if (is_input(options, state->names[state->count]))
            return cli_refuse(command_name, "--json does not take '%s': it is an input",
                              options->json);
        const int code = add_profile(state, options);
        if (code != CLI_EXIT_OK)
            return code;
    }
    return CLI_EXIT_OK;
}

/* ---- the command ----------------------------------------------------------------------------------- */

static int write_report(const predict_state *state, const predict_options *options) {
    int code = CLI_EXIT_OK;
    if (options->json != NULL) {
        cJSON *const json = predict_json(state->runs, state->count);
        if (results_write_json(json, command_name, options->json) != 0)
            code = CLI_EXIT_FAILED;
        cJSON_Delete(json);
    }
    if (options->json == NULL || strcmp(options->json, "-") != 0)
        predict_print(state->runs, state->count, stdout);
    for (size_t i = 0; i < state->count; i++) {
        if (state->runs[i].refused > 0)
            code = CLI_EXIT_FAILED;
    }
    return code;
}

static int run_with(predict_state *state, const predict_options *options) {
    file_error error;
    const workload_settings settings = {(double)options->batch, (double)options->context,
                                        options->weights};
    if (options->workload == NULL || options->profiles == NULL)
        return cli_refuse(command_name, "--workload and --profiles are needed");
    if (is_input(options, options->workload))
        return cli_refuse(command_name, "--json does not take '%s': it is an input", options->json);
    if (results_check_path(command_name, options->json) != 0)
        return CLI_EXIT_FAILED;
    if (predict_workload_read(options->workload, &settings, &state->workload, &error) != 0)
        return fail(error.text);
    const int code = add_profiles(state, options);
    if (code != CLI_EXIT_OK)
        return code;
    for (size_t i = 0; i < state->count; i++)
        predict_run_fill(&state->runs[i], &state->profiles[i], &state->workload);
    return write_report(state, options);
}

static cli_outcome parse(int argc, char **argv, predict_options *given) {
    const cli_option options[] = {
        {"workload", CLI_TEXT, &given->workload, "FILE",
         "llama-3-8b-decode, llama-3-8b-prefill, bert-base, digits, or a file", NULL, 0, 0},
        {"profiles", CLI_TEXT, &given->profiles, "LIST",
         "results files, and datasheets as sheet:NAME, e.g. a.json,sheet:RTX-4090", NULL, 0, 0},
        {"weights", CLI_TEXT, &given->weights, "DTYPE",
         "type of the products with weights, as tandem bench gemm has it", NULL, 0, 0},
        {"batch", CLI_COUNT, &given->batch, "N", "sequences at once", NULL, 1, 1e6},
        {"context", CLI_COUNT, &given->context, "N", "tokens of a sequence", NULL, 1, 1e7},
        {"scale-bandwidth", CLI_NUMBER, &given->scale, "K",
         "what if main memory were so many times as fast", NULL, 0.001, 1000},
        {"launch", CLI_NUMBER, &given->launch, "US",
         "what a launch costs on a device of a datasheet, which tells none; 0 by default", NULL, 0,
         100000},
        CLI_JSON_OPTION(&given->json),
    };
    const cli_command command = {
        .name = command_name,
        .summary = "predict the time of a workload and what limits it",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .notes =
            "A results file is what tandem report writes; its error is that of its rows, "
            "each predicted from others. What was not\n"
            "measured is refused (exit code 1). A datasheet gives a bound and no error. The model "
            "stands in docs/predict.md.",
    };
    return cli_parse(&command, argc, argv, NULL);
}

int predict_command(int argc, char **argv) {
    predict_options given = {.scale = 1};
    const cli_outcome outcome = parse(argc, argv, &given);
    if (outcome != CLI_RUN)
        return cli_exit_code(outcome);
    predict_state *const state = calloc(1, sizeof *state);
    if (state == NULL)
        return fail("out of memory");
    const int code = run_with(state, &given);
    for (size_t i = 0; i < state->count; i++) {
        predict_profile_release(&state->profiles[i]);
        results_file_release(&state->files[i]);
    }
    free(state);
    return code;
}
