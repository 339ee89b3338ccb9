/*
 * `tandem predict` predicts a workload's time from a device's results, or bounds it from a
 * datasheet.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "bench/bench_commands.h"
#include "bench/cases/gemm_types.h"
#include "bench/predict/predict_run.h"
#include "bench/record/results_json.h"
#include "common/command/cli_options.h"

enum {
    MAX_PROFILES = 10,
    MAX_NAME = 1024
};

static const char command_name[] = "tandem predict";

typedef struct predict_state {
    /* Options: */
    const char *workload_name;
    const char *list; /* the list of profiles */
    const char *json;
    workload_settings settings;
    double scale;
    double launch_us; /* for datasheets */

    predict_workload workload;
    char names[MAX_PROFILES][MAX_NAME]; /* file names, to which `files` keeps pointers */
    results_file files[MAX_PROFILES];
    predict_profile profiles[MAX_PROFILES];
    predict_run runs[MAX_PROFILES];
    size_t count;
} predict_state;

static int fail(const char *reason) {
    fprintf(stderr, "%s: %s\n", command_name, reason);
    return CLI_EXIT_FAILED;
}

/* Refuses an input that the JSON output would replace. */
static int check_input(const predict_state *state, const char *name) {
    if (state->json == NULL || !results_would_replace(state->json, name))
        return CLI_EXIT_OK;
    return cli_refuse(command_name, "--json does not take '%s': it is an input", state->json);
}

/* ---- profiles -------------------------------------------------------------------------------- */

static int refuse_sheet(const char *name) {
    fprintf(stderr, "%s: there is no datasheet of '%s'; choose one of", command_name, name);
    for (size_t i = 0; datasheet_at(i) != NULL; i++)
        fprintf(stderr, "%s %s", i == 0 ? "" : ",", datasheet_at(i)->name);
    fprintf(stderr, "\n");
    return CLI_EXIT_FAILED;
}

static int add_sheet(predict_state *state, const char *name) {
    predict_profile *const profile = &state->profiles[state->count];
    const datasheet *const sheet = datasheet_find(name);
    if (sheet == NULL)
        return refuse_sheet(name);
    predict_profile_from_sheet(sheet, profile);
    profile->launch_s = 1e-6 * state->launch_us;
    state->count++;
    return CLI_EXIT_OK;
}

static int add_file(predict_state *state, const char *name) {
    file_error error;
    results_file *const file = &state->files[state->count];
    predict_profile *const profile = &state->profiles[state->count];
    const int code = check_input(state, name);
    if (code != CLI_EXIT_OK)
        return code;
    if (results_read(name, file, &error) != 0)
        return fail(error.text);
    state->count++;
    if (file->device_count > 1)
        return fail("the file describes several devices, but a profile needs a file of one device");
    return predict_profile_read(file, profile, &error) == 0 ? CLI_EXIT_OK : fail(error.text);
}

static int add_profiles(predict_state *state) {
    static const char mark[] = "datasheet:";
    const char *rest = state->list;
    int code = CLI_EXIT_OK;
    while (rest != NULL && code == CLI_EXIT_OK) {
        const size_t index = state->count;
        if (index == MAX_PROFILES)
            return cli_refuse(command_name, "--profiles takes at most %d names", MAX_PROFILES);
        char *const name = state->names[index];
        if (cli_next_word(&rest, ',', name, MAX_NAME) < 0)
            return cli_refuse(command_name, "--profiles contains an empty or too long name");
        code = strncmp(name, mark, sizeof mark - 1) == 0 ? add_sheet(state, name + sizeof mark - 1)
                                                         : add_file(state, name);
        state->profiles[index].bandwidth_scale = state->scale;
    }
    return code;
}

/* ---- the command ----------------------------------------------------------------------------- */

static int run_with(predict_state *state) {
    file_error error;
    if (state->workload_name == NULL || state->list == NULL)
        return cli_refuse(command_name, "--workload and --profiles are needed");
    if (results_check_path(command_name, state->json) != 0)
        return CLI_EXIT_FAILED;
    if (predict_workload_make(state->workload_name, &state->settings, &state->workload, &error) !=
        0)
        return fail(error.text);
    int code = add_profiles(state);
    if (code != CLI_EXIT_OK)
        return code;
    for (size_t i = 0; i < state->count; i++) {
        predict_run_fill(&state->runs[i], &state->profiles[i], &state->workload);
        if (state->runs[i].refused > 0)
            code = CLI_EXIT_FAILED;
    }
    if (state->json != NULL) {
        cJSON *const json = predict_json(state->runs, state->count);
        if (results_write_json(json, command_name, state->json) != 0)
            code = CLI_EXIT_FAILED;
        cJSON_Delete(json);
    }
    if (state->json == NULL || strcmp(state->json, "-") != 0)
        predict_print(state->runs, state->count, stdout);
    return code;
}

static cli_outcome parse(int argc, char **argv, predict_state *given) {
    const cli_option options[] = {
        {"workload", CLI_CHOICE, &given->workload_name, "NAME", "workload to predict",
         "llama-3-8b-decode|llama-3-8b-prefill|bert-base|digits", 0, 0},
        {"profiles", CLI_TEXT, &given->list, "LIST",
         "results files, or datasheets as datasheet:NAME, e.g. a.json,datasheet:RTX-4090", NULL, 0,
         0},
        {"weights", CLI_CHOICE, &given->settings.weights, "DTYPE",
         "data type of the GEMMs with weights, as in tandem bench gemm", gemm_types_choices, 0, 0},
        {"batch", CLI_COUNT, &given->settings.batch, "N", "sequences in a batch", NULL, 1, 1e6},
        {"context", CLI_COUNT, &given->settings.context, "N", "tokens per sequence", NULL, 1, 1e7},
        {"scale-bandwidth", CLI_NUMBER, &given->scale, "K",
         "predict for main memory that is K times as fast", NULL, 0.001, 1000},
        {"launch", CLI_NUMBER, &given->launch_us, "US",
         "time of a launch on datasheet devices, as datasheets do not state it; 0 by default", NULL,
         0, 100000},
        CLI_JSON_OPTION(&given->json),
    };
    const cli_command command = {
        .name = command_name,
        .summary = "predict the time of a workload and what limits it",
        CLI_OPTIONS(options),
        .notes = "Operations unlike the measured ones are refused (exit code 1). A datasheet gives "
                 "only a lower\n"
                 "bound of the time, without an error. See docs/predict.md.",
    };
    return cli_parse(&command, argc, argv, NULL);
}

int predict_command(int argc, char **argv) {
    predict_state *const state = calloc(1, sizeof *state);
    if (state == NULL)
        return fail("out of memory");
    state->scale = 1;
    const cli_outcome outcome = parse(argc, argv, state);
    const int code = outcome == CLI_RUN ? run_with(state) : cli_exit_code(outcome);
    for (size_t i = 0; i < state->count; i++) {
        predict_profile_release(&state->profiles[i]);
        results_file_release(&state->files[i]);
    }
    free(state);
    return code;
}
