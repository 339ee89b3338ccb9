/* `tandem quantize`: a checkpoint with its weights in fewer bits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench_commands.h"
#include "bench/record/results_json.h"
#include "cli/quantize/quantize_calibrate.h"
#include "cli/quantize/quantize_pass.h"
#include "cli/quantize/quantize_settings.h"
#include "cli/quantize/quantize_sink.h"
#include "common/command/cli_options.h"
#include "common/command/progress.h"
#include "formats/output_file.h"

/* All that a run holds; zero is empty. */
typedef struct quantize_state {
    quantize_settings settings;
    quantize_source source;
    quantize_activations activations;
    quantize_plan plan;
    quantize_sink *sink;
    quantize_report *report;
} quantize_state;

/* ---- one tensor ------------------------------------------------------------------------------------ */

/* The end of a name, in which names differ, as long as a line of progress has room for. */
static file_name end_of_name(const char *name) {
    enum {
        MOST = 30
    };
    const size_t length = strlen(name);
    return file_printable(name + (length > MOST ? length - MOST : 0));
}

/* To the sink: a function of quantize_target. */
static int put(void *user, size_t entry, uint64_t offset, const void *bytes, size_t size,
               file_error *error) {
    quantize_state *const state = user;
    return quantize_sink_put(state->sink, entry, offset, bytes, size, error);
}

static int put_input(quantize_state *state, const quantize_item *item, const quantize_input *input,
                     file_error *error) {
    const unsigned char zero_point = (unsigned char)input->parameters.zero_point;
    return put(state, (size_t)item->input_scale, 0, &input->parameters.scale,
               sizeof input->parameters.scale, error) ||
                   put(state, (size_t)item->input_zero_point, 0, &zero_point, 1, error)
               ? -1
               : 0;
}

static uint64_t bytes_after(const quantize_plan *plan, const quantize_item *item) {
    const int entries[] = {item->data, item->scale, item->zero_point};
    uint64_t bytes = 0;
    for (int i = 0; i < 3; i++)
        bytes += entries[i] != QUANTIZE_NO_ENTRY ? plan->entries[entries[i]].bytes : 0;
    return bytes;
}

/* The tensor with nothing but its own numbers. */
static int quantize_alone(quantize_state *state, const quantize_item *item,
                          quantize_outcome *outcome, file_error *error) {
    const quantize_pass pass = {
        .tensor = item->tensor,
        .scheme = item->scheme,
        .spec = item->spec,
        .matrices = item->matrices,
        .target = {put, state, (size_t)item->data, (size_t)item->scale, (size_t)item->zero_point},
    };
    if (item->scheme == NULL)
        return quantize_copy(item->tensor, &pass.target, error);
    return quantize_pass_run(&pass, outcome, error);
}

static int quantize_calibrated(quantize_state *state, const quantize_item *item,
                               const quantize_result *alone, quantize_outcome *outcome,
                               file_error *error) {
    quantize_result result = *alone;
    quantize_input input;
    const quantize_layer layer = {item->layer, item->tensor, state->settings.choice.axis};
    if (quantize_input_observe(&state->activations, &layer, &state->settings.observer,
                               state->settings.choice.activation_dtype, &input, error) ||
        put_input(state, item, &input, error) || quantize_alone(state, item, outcome, error))
        return -1;
    result.input = &input;
    quantize_report_add(state->report, &result);
    return 0;
}

static int quantize_item_run(quantize_state *state, const quantize_item *item, file_error *error) {
    quantize_outcome outcome;
    quantize_result result = {
        .item = item,
        .outcome = item->scheme != NULL ? &outcome : NULL,
        .bytes_after = bytes_after(&state->plan, item),
    };
    if (item->input_scale != QUANTIZE_NO_ENTRY)
        return quantize_calibrated(state, item, &result, &outcome, error);
    if (quantize_alone(state, item, &outcome, error))
        return -1;
    quantize_report_add(state->report, &result);
    return 0;
}

/* ---- the run --------------------------------------------------------------------------------------- */

static int quantize_items(quantize_state *state, file_error *error) {
    const int count = (int)state->plan.item_count;
    for (int i = 0; i < count; i++) {
        const quantize_item *const item = &state->plan.items[i];
        progress_show(i, count, "%s", end_of_name(item->tensor->name).text);
        if (quantize_item_run(state, item, error))
            return -1;
    }
    return 0;
}

/*
 * Activations that do not fit their layer are refused before a number is read. Those that go into no weight are told of, as those of a
 * checkpoint's other shards are; where none goes into any, their names are a mistake.
 */
static int check_activations(quantize_state *state, file_error *error) {
    const quantize_source *const source = &state->activations.source;
    unsigned char *const used = calloc(source->count + 1, 1);
    if (used == NULL)
        return file_fail(error, "out of memory for %zu activations", source->count);
    for (size_t i = 0; i < state->plan.item_count; i++) {
        const quantize_item *const item = &state->plan.items[i];
        const quantize_layer layer = {item->layer, item->tensor, state->settings.choice.axis};
        size_t count = 0;
        if (item->input_scale == QUANTIZE_NO_ENTRY)
            continue;
        if (quantize_input_check(&state->activations, &layer, error)) {
            free(used);
            return -1;
        }
        const quantize_batch *const batches =
            quantize_activations_of(&state->activations, item->layer, &count);
        for (size_t j = 0; j < count; j++)
            used[batches[j].tensor - source->tensors] = 1;
    }
    for (size_t i = source->count; i-- > 0;)
        if (!used[i]) {
            state->settings.run.unused_activation = source->tensors[i].name;
            state->settings.run.unused_activations++;
        }
    free(used);
    if (source->count == 0 || state->settings.run.unused_activations < source->count)
        return 0;
    return file_fail(error,
                     "activations \"%s\" belong to no layer that is quantized, as do all of %s",
                     file_printable(state->settings.run.unused_activation).text,
                     state->settings.run.calibration);
}

/* A run that would only copy is a mistake; the first tensor that was asked for says why, if there is one. */
static int refuse_empty_plan(const quantize_settings *settings, const quantize_state *state,
                             file_error *error) {
    const char *const scheme = settings->choice.scheme->name;
    const char *const others =
        settings->choice.exception_count > 0 ? ", or another scheme of the run," : "";
    for (size_t i = 0; i < state->plan.item_count; i++) {
        const quantize_item *const item = &state->plan.items[i];
        if (item->note != NULL)
            return file_fail(error, "no tensor of %s is one that %s%s takes; \"%s\": %s",
                             settings->input, scheme, others,
                             file_printable(item->tensor->name).text, item->note);
    }
    return file_fail(error, "no tensor of %s is one that %s%s takes%s", settings->input, scheme,
                     others,
                     settings->choice.only != NULL || settings->choice.skip != NULL
                         ? " and that --only and --skip leave"
                         : "");
}

/* ---- files that must not take each other's place ---- */

/* How many shards the output has beside its index. */
static size_t written_shards(const quantize_settings *settings, const quantize_source *source) {
    return quantize_is_index(settings->output) ? source->shard_count : 0;
}

/* Not a file that is read, which `is` something, e.g. "has activations". */
static int check_read(const quantize_settings *settings, const quantize_source *source,
                      const char *path, const char *is, file_error *error) {
    if (output_would_be(path, settings->output))
        return file_fail(error, "the output '%s' %s: name another file", settings->output, is);
    if (settings->json != NULL && output_would_be(path, settings->json))
        return file_fail(error, "--json does not take '%s': it %s", settings->json, is);
    int result = 0;
    for (size_t i = 0; result == 0 && i < written_shards(settings, source); i++) {
        char *const own =
            quantize_path_beside(settings->output, quantize_index_shard(source->index, i));
        if (own == NULL)
            result = file_fail(error, "out of memory for a name");
        else if (output_would_be(path, own))
            result = file_fail(error, "the output '%s' %s: name another folder", own, is);
        else if (settings->json != NULL && output_would_be(own, settings->json))
            result = file_fail(error, "--json does not take '%s': it is a file of the checkpoint",
                               settings->json);
        free(own);
    }
    return result;
}

static int check_files(const quantize_settings *settings, const quantize_source *source,
                       const quantize_source *read, const char *is, file_error *error) {
    for (size_t i = 0; i < read->parts.count; i++)
        if (check_read(settings, source, read->parts.paths[i], is, error))
            return -1;
    for (size_t i = 0; i < read->shard_count; i++)
        if (check_read(settings, source, read->shard_paths[i], is, error))
            return -1;
    return 0;
}

static int prepare(const quantize_settings *settings, quantize_state *state, file_error *error) {
    if (quantize_source_open(settings->input, &state->source, error) ||
        check_files(settings, &state->source, &state->source, "is a file of the input", error))
        return -1;
    if (settings->calibrate != NULL) {
        if (quantize_activations_open(settings->calibrate, &state->activations, error))
            return -1;
        if (check_files(settings, &state->source, &state->activations.source, "has activations",
                        error))
            return -1;
        state->settings.choice.activations = &state->activations;
    }
    if (quantize_plan_make(&state->source, &state->settings.choice, &state->plan, error))
        return -1;
    if (state->plan.quantized == 0 && (state->settings.choice.scheme->kind != QUANTIZE_KEEP ||
                                       state->settings.choice.exception_count > 0))
        return refuse_empty_plan(settings, state, error);
    return check_activations(state, error);
}

/* What would be written, down to the headers, which are where some things are refused; the output has no name before its end, and
 * gets none. */
static int report_plan(const quantize_settings *settings, quantize_state *state) {
    const size_t left_out = quantize_sink_left_out(state->sink);
    quantize_sink_abandon(state->sink);
    for (size_t i = 0; i < state->plan.item_count; i++) {
        const quantize_item *const item = &state->plan.items[i];
        const quantize_result result = {.item = item,
                                        .bytes_after = bytes_after(&state->plan, item)};
        quantize_report_add(state->report, &result);
    }
    return quantize_report_write(state->report, quantize_command_name, settings->json, left_out) ||
                   quantize_report_print(state->report, quantize_command_name, settings->json)
               ? -1
               : 0;
}

/* The report is written before the output has its name, which it gets only where nothing has failed. */
static int write_all(const quantize_settings *settings, quantize_state *state, file_error *error) {
    if (quantize_items(state, error))
        return -1;
    progress_show(0, 0, "writing %s to the disk", settings->output);
    if (quantize_sink_settle(state->sink, error))
        return -1;
    progress_clear();
    error->text[0] = '\0'; /* what goes wrong with the report is told there */
    return quantize_report_write(state->report, quantize_command_name, settings->json,
                                 quantize_sink_left_out(state->sink));
}

static int run(const quantize_settings *settings, quantize_state *state, file_error *error) {
    state->report = quantize_report_create(&state->settings.run);
    if (state->report == NULL)
        return file_fail(error, "out of memory for the report");
    if (prepare(settings, state, error) ||
        quantize_sink_open(settings->output, &state->source, &state->plan, &state->sink, error))
        return -1;
    error->text[0] = '\0';
    if (settings->is_dry)
        return report_plan(settings, state);
    if (write_all(settings, state, error)) {
        quantize_sink_abandon(state->sink);
        return -1;
    }
    if (quantize_sink_finish(state->sink, error))
        return -1;
    error->text[0] = '\0';
    return quantize_report_print(state->report, quantize_command_name, settings->json);
}

static void release(quantize_state *state) {
    quantize_plan_release(&state->plan);
    quantize_source_close(&state->source);
    quantize_activations_close(&state->activations);
    quantize_report_destroy(state->report);
    quantize_settings_release(&state->settings);
}

int quantize_command(int argc, char **argv) {
    quantize_state state;
    file_error error = {""};
    memset(&state, 0, sizeof state);
    const cli_outcome outcome = quantize_settings_read(argc, argv, &state.settings);
    const quantize_settings *const settings = &state.settings;
    int code = cli_exit_code(outcome);
    if (outcome == CLI_RUN && results_check_path(quantize_command_name, settings->json) != 0)
        code = CLI_EXIT_FAILED;
    else if (outcome == CLI_RUN && run(settings, &state, &error) != 0) {
        progress_clear();
        if (error.text[0] != '\0')
            fprintf(stderr, "%s: %s\n", quantize_command_name, error.text);
        code = CLI_EXIT_FAILED;
    }
    release(&state);
    return code;
}
