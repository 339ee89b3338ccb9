/* `tandem quantize` writes a checkpoint with its weights in fewer bits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench_commands.h"
#include "bench/record/results_json.h"
#include "cli/quantize/quantize_report.h"
#include "cli/quantize/quantize_sink.h"
#include "common/command/standard_streams.h"
#include "formats/output_file.h"

/* Everything that a run holds. All zero means empty. */
typedef struct quantize_state {
    quantize_settings settings;
    quantize_source source;
    quantize_source activations;
    quantize_plan plan;
    quantize_sink *sink;
    quantize_report *report;
} quantize_state;

/* ---- one tensor ------------------------------------------------------------------------------ */

static uint64_t bytes_after(const quantize_plan *plan, const quantize_item *item) {
    const int entries[] = {item->data, item->scale, item->zero_point};
    uint64_t bytes = 0;
    for (int i = 0; i < 3; i++)
        bytes += entries[i] != QUANTIZE_NO_ENTRY ? plan->entries[entries[i]].bytes : 0;
    return bytes;
}

static int calibrate(quantize_state *state, const quantize_item *item, tdm_quant_parameters *input,
                     file_error *error) {
    const char *const observer = state->settings.observer ? state->settings.observer : "minmax";
    if (quantize_input_observe(&state->activations, item->layer, item->tensor,
                               tdm_quant_observer_kind_from_name(observer), input, error))
        return -1;
    const unsigned char zero_point = (unsigned char)input->zero_point;
    return quantize_sink_put(state->sink, (size_t)item->input_scale, 0, &input->scale,
                             sizeof input->scale, error) ||
                   quantize_sink_put(state->sink, (size_t)item->input_zero_point, 0, &zero_point, 1,
                                     error)
               ? -1
               : 0;
}

static int run_item(quantize_state *state, const quantize_item *item, file_error *error) {
    const quantize_pass pass = {
        .tensor = item->tensor,
        .scheme = item->scheme,
        .spec = item->spec,
        .target = {quantize_sink_put, state->sink, (size_t)item->data, (size_t)item->scale,
                   (size_t)item->zero_point},
    };
    quantize_result result = {.item = item, .bytes_after = bytes_after(&state->plan, item)};
    if (item->input_scale != QUANTIZE_NO_ENTRY && calibrate(state, item, &result.input, error))
        return -1;
    if (item->scheme ? quantize_pass_run(&pass, &result.outcome, error)
                     : quantize_copy(item->tensor, &pass.target, error))
        return -1;
    quantize_report_add(state->report, &result);
    return 0;
}

/* ---- the run --------------------------------------------------------------------------------- */

/* Refuses outputs that would replace an input file. */
static int check_files(const quantize_settings *settings, const quantize_source *read,
                       file_error *error) {
    for (size_t i = 0; i < read->path_count; i++) {
        const char *const path = read->paths[i];
        if (output_would_be(path, settings->output))
            return file_fail(error, "the output '%s' is a file of the input: name another",
                             settings->output);
        if (settings->json && results_would_replace(settings->json, path))
            return file_fail(error, "--json does not take '%s': it is a file of the input",
                             settings->json);
    }
    return 0;
}

/* Refuses a run that would only copy. The first requested tensor with a note gives the reason. */
static int refuse_empty_plan(const quantize_state *state, file_error *error) {
    const quantize_settings *const settings = &state->settings;
    const char *const scheme = settings->choice.scheme->name;
    for (size_t i = 0; i < state->plan.item_count; i++) {
        const quantize_item *const item = &state->plan.items[i];
        if (item->note)
            return file_fail(error, "no tensor of %s can be converted to %s; \"%s\": %s",
                             settings->input, scheme, file_printable(item->tensor->name).text,
                             item->note);
    }
    return file_fail(error, "no tensor of %s can be converted to %s", settings->input, scheme);
}

/* Refuses a plan that quantizes nothing, unless the user asked for a copy. Also refuses
 * activations that belong to no quantized layer. */
static int check_plan(const quantize_state *state, file_error *error) {
    const quantize_settings *const settings = &state->settings;
    const quantize_choice *const choice = &settings->choice;
    if (state->plan.quantized == 0 &&
        (choice->scheme->kind != QUANTIZE_KEEP || choice->exception_count > 0))
        return refuse_empty_plan(state, error);
    for (size_t i = 0; i < state->plan.item_count; i++)
        if (state->plan.items[i].input_scale != QUANTIZE_NO_ENTRY)
            return 0;
    return settings->calibrate
               ? file_fail(error, "the activations of %s belong to no quantized layer",
                           settings->calibrate)
               : 0;
}

static int prepare(quantize_state *state, file_error *error) {
    quantize_settings *const settings = &state->settings;
    if (quantize_source_open(settings->input, &state->source, error) ||
        check_files(settings, &state->source, error))
        return -1;
    if (settings->calibrate) {
        if (quantize_source_open(settings->calibrate, &state->activations, error) ||
            check_files(settings, &state->activations, error))
            return -1;
        settings->choice.activations = &state->activations;
    }
    if (quantize_plan_make(&state->source, &settings->choice, &state->plan, error) ||
        check_plan(state, error))
        return -1;
    state->report = quantize_report_create(settings);
    return state->report ? quantize_sink_open(settings->output, &state->source, &state->plan,
                                              &settings->choice, &state->sink, error)
                         : file_fail(error, "out of memory for the report");
}

static int run(quantize_state *state, file_error *error) {
    if (prepare(state, error))
        return -1;
    const int count = (int)state->plan.item_count;
    for (int i = 0; i < count; i++) {
        const quantize_item *const item = &state->plan.items[i];
        progress_show(i, count, "%s", file_printable(item->tensor->name).text);
        if (run_item(state, item, error))
            return -1;
    }
    progress_show(0, 0, "writing %s to the disk", state->settings.output);
    const size_t left_out = quantize_sink_left_out(state->sink);
    quantize_sink *const sink = state->sink;
    state->sink = NULL;
    if (quantize_sink_finish(sink, error))
        return -1;
    progress_clear();
    error->text[0] = '\0'; /* the report prints its own errors */
    return quantize_report_write(state->report, left_out);
}

static void release(quantize_state *state) {
    quantize_sink_abandon(state->sink);
    quantize_plan_release(&state->plan);
    quantize_source_close(&state->source);
    quantize_source_close(&state->activations);
    quantize_report_destroy(state->report);
    quantize_settings_release(&state->settings);
}

int quantize_command(int argc, char **argv) {
    quantize_state state;
    file_error error = {""};
    memset(&state, 0, sizeof state);
    const cli_outcome outcome = quantize_settings_read(argc, argv, &state.settings);
    const char *const json = state.settings.json;
    int code = cli_exit_code(outcome);
    if (outcome == CLI_RUN && json && results_would_replace(json, state.settings.output))
        code =
            cli_refuse(quantize_command_name, "--json does not take '%s': it is the output", json);
    else if (outcome == CLI_RUN && results_check_path(quantize_command_name, json) != 0)
        code = CLI_EXIT_FAILED;
    else if (outcome == CLI_RUN && run(&state, &error) != 0) {
        progress_clear();
        if (error.text[0] != '\0')
            fprintf(stderr, "%s: %s\n", quantize_command_name, error.text);
        code = CLI_EXIT_FAILED;
    }
    release(&state);
    return code;
}
