/* `tandem quantize`: a checkpoint with its weights in fewer bits. */
#include <math.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench_commands.h"
#include "bench/bench_runner.h"
#include "bench/cli_options.h"
#include "bench/output_file.h"
#include "bench/progress.h"
#include "bench/quantize_calibrate.h"
#include "bench/quantize_pass.h"
#include "bench/quantize_plan.h"
#include "bench/quantize_report.h"
#include "bench/quantize_sink.h"
#include "bench/results_json.h"

static const char command_name[] = "tandem quantize";

static const double redraw_s = 0.1; /* a terminal may be slower than the work that it shows */
static const double settled_s = 1;  /* before that nobody can say how long it will take */

typedef struct quantize_options {
    const char *input;
    const char *output;
    const char *scheme;
    const char *group; /* NULL: the scheme's own */
    int64_t axis;
    const char *channels; /* NULL: by the shape */
    const char *scales;   /* NULL: f32 */
    const char *only;
    const char *skip;
    const char *calibrate;
    const char *observer; /* NULL: the default */
    double percentile;    /* 0: the default */
    const char *activations;
    const char *weights_observer; /* NULL: the default */
    double weights_percentile;    /* 0: the default */
    const char *json;
} quantize_options;

/* All that a run holds; zero is empty. */
typedef struct quantize_state {
    quantize_choice choice;
    regex_t only;
    regex_t skip;
    quantize_source source;
    quantize_activations activations;
    quantize_plan plan;
    quantize_sink *sink;
    quantize_run run;
    quantize_report *report;
    tdm_quant_observer_options observer;
    size_t item; /* the one that is worked at */
    uint64_t bytes_done;
    uint64_t bytes_total; /* of the output's tensors */
    double begun_s;       /* of bench_now, as the next */
    double shown_s;       /* when the bar was drawn; 0: not yet */
} quantize_state;

/* ---- options --------------------------------------------------------------------------------------- */

static cli_outcome parse(int argc, char **argv, quantize_options *options) {
    const cli_option table[] = {
        {"scheme", CLI_CHOICE, &options->scheme, "NAME",
         "what weights become; keep changes the container alone", quantize_scheme_names(), 0, 0},
        {"group", CLI_CHOICE, &options->group, "N", "weights that share a scale, of group schemes",
         "32|64|128", 0, 0},
        {"axis", CLI_COUNT, &options->axis, "0|1",
         "dimension of the outputs: 0 as PyTorch's linear layers have it, 1 for matrices K x N",
         NULL, 0, 1},
        {"channels", CLI_CHOICE, &options->channels, "N",
         "leading dimensions that channels are of; by default 2 of stacked matrices (experts), "
         "else "
         "1",
         "1|2|3", 0, 0},
        {"scales", CLI_CHOICE, &options->scales, "TYPE",
         "type that scales of codes are kept in, f32 by default", "f32|f16|bf16", 0, 0},
        {"only", CLI_TEXT, &options->only, "REGEX",
         "quantize the tensors whose names match, whatever their size", NULL, 0, 0},
        {"skip", CLI_TEXT, &options->skip, "REGEX", "leave the tensors whose names match", NULL, 0,
         0},
        {"weights-observer", CLI_CHOICE, &options->weights_observer, "NAME",
         "how a range is made of the weights that share a scale, minmax by default",
         "minmax|percentile|mse|kl", 0, 0},
        {"weights-percentile", CLI_NUMBER, &options->weights_percentile, "P",
         "of the weights' observer percentile, 99.99 by default", NULL, 50, 100},
        {"calibrate", CLI_TEXT, &options->calibrate, "FILE",
         "activations recorded by layer: scales for inputs, errors of outputs", NULL, 0, 0},
        {"observer", CLI_CHOICE, &options->observer, "NAME",
         "how a range is made of activations, minmax by default",
         "minmax|moving-average|percentile|mse|kl", 0, 0},
        {"percentile", CLI_NUMBER, &options->percentile, "P",
         "of the observer percentile, 99.99 by default", NULL, 50, 100},
        {"activations", CLI_CHOICE, &options->activations, "TYPE",
         "type that inputs are to be quantized to, u8 by default", "u8|s8", 0, 0},
        CLI_JSON_OPTION(&options->json),
    };
    const cli_command command = {
        .name = command_name,
        .summary = "write a checkpoint with its weights in fewer bits",
        .arguments = "INPUT OUTPUT",
        .min_arguments = 2,
        .max_arguments = 2,
        .options = table,
        .option_count = sizeof table / sizeof table[0],
        .notes =
            "INPUT and OUTPUT are safetensors files, or GGUF files where they end in .gguf;\n"
            "INPUT may be the index of a checkpoint in shards (model.safetensors.index.json),\n"
            "OUTPUT an index then, which is written with shards of the same names, or one file.\n"
            "GGUF takes the schemes keep, f32, f16, bf16, q8_0 and q4_0. Weights are tensors\n"
            "of floats with two dimensions or more and 1024 elements or more; all others are\n"
            "copied. REGEX is a POSIX extended regular expression, found anywhere in a name.",
    };
    int first = 0;
    const cli_outcome outcome = cli_parse(&command, argc, argv, &first);
    if (outcome == CLI_RUN) {
        options->input = argv[first];
        options->output = argv[first + 1];
    }
    return outcome;
}

static int check_files(const quantize_options *options) {
    if (quantize_is_index(options->output) && !quantize_is_index(options->input))
        return cli_refuse(command_name, "'%s' is an index, so the input has to be one, too",
                          options->output);
    const char *const inputs[] = {options->input, options->calibrate};
    for (int i = 0; i < 2; i++) {
        if (inputs[i] == NULL)
            continue;
        if (output_would_be(inputs[i], options->output))
            return cli_refuse(command_name, "the output '%s' is the input: name another file",
                              options->output);
        if (options->json != NULL && output_would_be(inputs[i], options->json))
            return cli_refuse(command_name, "--json does not take '%s': it is an input",
                              options->json);
    }
    if (options->json != NULL && output_would_be(options->output, options->json))
        return cli_refuse(command_name, "--json does not take '%s': it is the output",
                          options->json);
    return CLI_EXIT_OK;
}

/* Histograms need more numbers than a group has. */
static int check_weights_observer(const quantize_options *options, const quantize_scheme *scheme) {
    const char *const observer = options->weights_observer;
    if (options->weights_percentile > 0 &&
        (observer == NULL || strcmp(observer, "percentile") != 0))
        return cli_refuse(command_name, "--weights-percentile needs --weights-observer percentile");
    if (observer == NULL)
        return CLI_EXIT_OK;
    if (scheme->kind != QUANTIZE_CODES)
        return cli_refuse(command_name,
                          "--weights-observer is for codes with scales beside them, not for %s",
                          scheme->name);
    const int has_histogram = strcmp(observer, "percentile") == 0 || strcmp(observer, "kl") == 0;
    if (has_histogram && tdm_quant_scheme_info(scheme->rules)->granularity == TDM_QUANT_PER_GROUP)
        return cli_refuse(
            command_name,
            "--weights-observer %s is for scales of tensors and channels, not for %s: "
            "a group has too few weights for a histogram; mse takes groups",
            observer, scheme->name);
    return CLI_EXIT_OK;
}

/* Options that contradict each other. */
static int check_options(const quantize_options *options, const quantize_scheme *scheme) {
    const tdm_quant_scheme *const rules = tdm_quant_scheme_info(scheme->rules);
    const int codes = scheme->kind == QUANTIZE_CODES;
    if (options->group != NULL && (!codes || rules->granularity != TDM_QUANT_PER_GROUP))
        return cli_refuse(command_name, "--group is for schemes of groups, not for %s",
                          scheme->name);
    if (options->axis != 0 && (!codes || rules->granularity == TDM_QUANT_PER_TENSOR))
        return cli_refuse(command_name, "--axis is for schemes of channels and groups, not for %s",
                          scheme->name);
    if (options->channels != NULL && (!codes || rules->granularity == TDM_QUANT_PER_TENSOR))
        return cli_refuse(command_name,
                          "--channels is for schemes of channels and groups, not for %s",
                          scheme->name);
    if (options->channels != NULL && options->axis != 0)
        return cli_refuse(command_name, "--channels is of --axis 0");
    if (options->scales != NULL && !codes)
        return cli_refuse(command_name, "--scales is for codes with scales beside them, not for %s",
                          scheme->name);
    if (codes && quantize_is_gguf(options->output))
        return cli_refuse(command_name,
                          "GGUF files have no %s; choose one of keep, f32, f16, bf16, q8_0, q4_0",
                          scheme->name);
    if (options->calibrate == NULL &&
        (options->observer != NULL || options->activations != NULL || options->percentile > 0))
        return cli_refuse(command_name,
                          "--observer, --percentile and --activations need --calibrate");
    if (options->calibrate != NULL && !codes && scheme->kind != QUANTIZE_BLOCKS)
        return cli_refuse(command_name, "--calibrate is for integers, not for %s", scheme->name);
    if (options->calibrate != NULL && quantize_is_gguf(options->output))
        return cli_refuse(command_name, "GGUF files have no place for what --calibrate finds");
    if (options->percentile > 0 &&
        (options->observer == NULL || strcmp(options->observer, "percentile") != 0))
        return cli_refuse(command_name, "--percentile needs --observer percentile");
    const int refused = check_weights_observer(options, scheme);
    return refused != CLI_EXIT_OK ? refused : check_files(options);
}

static int compile(const char *option, const char *text, regex_t *expression,
                   const regex_t **target) {
    char reason[128];
    if (text == NULL)
        return CLI_EXIT_OK;
    const int code = regcomp(expression, text, REG_EXTENDED | REG_NOSUB);
    if (code != 0) {
        regerror(code, expression, reason, sizeof reason);
        return cli_refuse(command_name, "--%s does not take '%s': %s", option, text, reason);
    }
    *target = expression;
    return CLI_EXIT_OK;
}

/* Fill the choice; the exit code where something is refused. */
static int take_options(const quantize_options *options, quantize_state *state) {
    if (options->scheme == NULL)
        return cli_refuse(command_name, "--scheme is missing: choose one of %s",
                          quantize_scheme_names());
    const quantize_scheme *const scheme = quantize_scheme_find(options->scheme);
    const char *const observer = options->observer != NULL ? options->observer : "minmax";
    const int refused = check_options(options, scheme);
    if (refused != CLI_EXIT_OK)
        return refused;
    state->choice.scheme = scheme;
    state->choice.group = options->group != NULL ? strtol(options->group, NULL, 10) : 0;
    state->choice.axis = (int)options->axis;
    state->choice.channels =
        options->channels != NULL ? (int)strtol(options->channels, NULL, 10) : 0;
    state->choice.scale_dtype =
        options->scales != NULL ? tdm_dtype_from_name(options->scales) : TDM_F32;
    state->choice.to_gguf = quantize_is_gguf(options->output);
    state->choice.activation_dtype =
        options->activations != NULL ? tdm_dtype_from_name(options->activations) : TDM_U8;
    state->observer = (tdm_quant_observer_options){
        .kind = tdm_quant_observer_kind_from_name(observer),
        .channels = 1,
        .inner = 1,
        .percent = options->percentile,
    };
    if (scheme->kind == QUANTIZE_CODES)
        state->choice.observer = options->weights_observer != NULL
                                     ? tdm_quant_observer_kind_from_name(options->weights_observer)
                                     : TDM_QUANT_OBSERVE_MINMAX;
    if (state->choice.observer == TDM_QUANT_OBSERVE_PERCENTILE)
        state->choice.percent =
            options->weights_percentile > 0 ? options->weights_percentile : 99.99;
    const tdm_quant_scheme *const rules = tdm_quant_scheme_info(scheme->rules);
    state->run = (quantize_run){
        .input = options->input,
        .output = options->output,
        .scheme = scheme,
        .group = state->choice.group > 0 ? state->choice.group
                 : rules != NULL         ? rules->group
                                         : 0,
        .axis = state->choice.axis,
        .channels = state->choice.channels,
        .scales = scheme->kind == QUANTIZE_CODES ? tdm_dtype_name(state->choice.scale_dtype) : NULL,
        .calibration = options->calibrate,
        .observer = observer,
        .weights_observer = tdm_quant_observer_kind_name(state->choice.observer),
        .weights_percentile = state->choice.percent,
    };
    const int bad_only = compile("only", options->only, &state->only, &state->choice.only);
    return bad_only != CLI_EXIT_OK
               ? bad_only
               : compile("skip", options->skip, &state->skip, &state->choice.skip);
}

/* ---- one tensor ------------------------------------------------------------------------------------ */

/* The end of a name, in which names differ, as long as a bar has room for. */
static file_name end_of_name(const char *name) {
    enum {
        MOST = 30
    };
    const size_t length = strlen(name);
    return file_printable(name + (length > MOST ? length - MOST : 0));
}

/* At a bounded rate, however small the pieces are. */
static void show_progress(quantize_state *state) {
    const double now = bench_now();
    const double taken = now - state->begun_s;
    if (state->item == state->plan.item_count ||
        (state->shown_s > 0 && now < state->shown_s + redraw_s))
        return;
    state->shown_s = now;
    const uint64_t total = state->bytes_total > 0 ? state->bytes_total : 1;
    const double share = (double)state->bytes_done / (double)total;
    const double left = taken >= settled_s && share > 0 ? taken * (1 - share) / share : (double)NAN;
    progress_bar(share, left, end_of_name(state->plan.items[state->item].tensor->name).text);
}

/* To the sink, with the bar of progress: a function of quantize_target. */
static int put(void *user, size_t entry, uint64_t offset, const void *bytes, size_t size,
               file_error *error) {
    quantize_state *const state = user;
    state->bytes_done += size;
    show_progress(state);
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
static int quantize_alone(quantize_state *state, const quantize_item *item, quantize_product *seen,
                          quantize_outcome *outcome, file_error *error) {
    const quantize_pass pass = {
        .tensor = item->tensor,
        .scheme = item->scheme,
        .spec = item->spec,
        .observer = state->choice.observer,
        .percent = state->choice.percent,
        .target = {put, state, (size_t)item->data, (size_t)item->scale, (size_t)item->zero_point},
        .witness = {seen != NULL ? quantize_product_see : NULL, seen},
    };
    if (item->scheme == NULL)
        return quantize_copy(item->tensor, &pass.target, error);
    return quantize_pass_run(&pass, outcome, error);
}

static int quantize_calibrated(quantize_state *state, const quantize_item *item,
                               const quantize_result *alone, quantize_outcome *outcome,
                               file_error *error) {
    quantize_result result = *alone;
    tdm_quant_error errors;
    quantize_input input;
    quantize_product *product = NULL;
    const quantize_layer layer = {item->layer, item->tensor, state->choice.axis};
    int code = quantize_input_observe(&state->activations, &layer, &state->observer,
                                      state->choice.activation_dtype, &input, error);
    if (code == 0) {
        product = quantize_product_create(&layer, &input, error);
        code = product == NULL && error->text[0] != '\0' ? -1 : 0;
    }
    if (code == 0)
        code = put_input(state, item, &input, error);
    if (code == 0)
        code = quantize_alone(state, item, product, outcome, error);
    if (code == 0) {
        result.input = &input;
        if (product != NULL) {
            errors = quantize_product_error(product);
            result.product = &errors;
        }
        quantize_report_add(state->report, &result);
    }
    quantize_product_destroy(product);
    return code;
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
    if (quantize_alone(state, item, NULL, &outcome, error))
        return -1;
    quantize_report_add(state->report, &result);
    return 0;
}

/* ---- the run --------------------------------------------------------------------------------------- */

static int quantize_items(quantize_state *state, file_error *error) {
    for (size_t i = 0; i < state->plan.entry_count; i++)
        state->bytes_total += state->plan.entries[i].bytes;
    state->begun_s = bench_now();
    for (; state->item < state->plan.item_count; state->item++) {
        show_progress(state);
        if (quantize_item_run(state, &state->plan.items[state->item], error))
            return -1;
    }
    return 0;
}

/*
 * Activations that go into no weight are told of, as those of a checkpoint's other shards are; where none goes into any, their names are a
 * mistake.
 */
static int check_activations(quantize_state *state, file_error *error) {
    const quantize_source *const source = &state->activations.source;
    unsigned char *const used = calloc(source->count + 1, 1);
    if (used == NULL)
        return file_fail(error, "out of memory for %zu activations", source->count);
    for (size_t i = 0; i < state->plan.item_count; i++) {
        const quantize_item *const item = &state->plan.items[i];
        size_t count = 0;
        if (item->scheme == NULL)
            continue;
        const quantize_batch *const batches =
            quantize_activations_of(&state->activations, item->layer, &count);
        for (size_t j = 0; j < count; j++)
            used[batches[j].tensor - source->tensors] = 1;
    }
    for (size_t i = source->count; i-- > 0;)
        if (!used[i]) {
            state->run.unused_activation = source->tensors[i].name;
            state->run.unused_activations++;
        }
    free(used);
    if (source->count == 0 || state->run.unused_activations < source->count)
        return 0;
    return file_fail(error,
                     "activations \"%s\" belong to no layer that is quantized, as do all of %s",
                     file_printable(state->run.unused_activation).text, state->run.calibration);
}

/* A run that would only copy is a mistake; the first tensor that was asked for says why, if there is one. */
static int refuse_empty_plan(const quantize_options *options, const quantize_state *state,
                             file_error *error) {
    const char *const scheme = state->choice.scheme->name;
    for (size_t i = 0; i < state->plan.item_count; i++) {
        const quantize_item *const item = &state->plan.items[i];
        if (item->note != NULL)
            return file_fail(error, "no tensor of %s is one that %s takes; \"%s\": %s",
                             options->input, scheme, file_printable(item->tensor->name).text,
                             item->note);
    }
    return file_fail(
        error, "no tensor of %s is one that %s takes%s", options->input, scheme,
        options->only != NULL || options->skip != NULL ? " and that --only and --skip leave" : "");
}

/* An output must not take the place of a shard that is read, nor the JSON that of one that is read or written. */
static int check_shard(const quantize_options *options, const quantize_source *source, size_t shard,
                       file_error *error) {
    const char *const input = source->shard_paths[shard];
    const char *const name = quantize_index_shard(source->index, shard);
    char *const own =
        quantize_is_index(options->output) ? quantize_path_beside(options->output, name) : NULL;
    int result = 0;
    if (output_would_be(input, options->output) || (own != NULL && output_would_be(input, own)))
        result = file_fail(error, "the output '%s' is a file of the input: name another folder",
                           own != NULL ? own : options->output);
    else if (options->json != NULL && (output_would_be(input, options->json) ||
                                       (own != NULL && output_would_be(own, options->json))))
        result = file_fail(error, "--json does not take '%s': it is a file of the %s",
                           options->json, own != NULL ? "checkpoint" : "input");
    free(own);
    return result;
}

static int check_shards(const quantize_options *options, const quantize_source *source,
                        file_error *error) {
    for (size_t i = 0; source->index != NULL && i < source->shard_count; i++)
        if (check_shard(options, source, i, error))
            return -1;
    return 0;
}

/* Nor must they take that of a file of activations, whatever the shards of the checkpoint are called. */
static int check_activation_file(const quantize_options *options, const quantize_source *checkpoint,
                                 const char *path, file_error *error) {
    const size_t written = quantize_is_index(options->output) ? checkpoint->shard_count : 0;
    if (output_would_be(path, options->output))
        return file_fail(error, "the output '%s' has activations: name another file",
                         options->output);
    if (options->json != NULL && output_would_be(path, options->json))
        return file_fail(error, "--json does not take '%s': it has activations", options->json);
    for (size_t i = 0; i < written; i++) {
        const char *const name = quantize_index_shard(checkpoint->index, i);
        char *const own = quantize_path_beside(options->output, name);
        const int result =
            own == NULL ? file_fail(error, "out of memory for a name")
            : output_would_be(path, own)
                ? file_fail(error, "the output '%s' has activations: name another folder", own)
                : 0;
        free(own);
        if (result != 0)
            return -1;
    }
    return 0;
}

static int check_activation_files(const quantize_options *options, const quantize_state *state,
                                  file_error *error) {
    const quantize_source *const activations = &state->activations.source;
    for (size_t i = 0; i < activations->shard_count; i++)
        if (check_activation_file(options, &state->source, activations->shard_paths[i], error))
            return -1;
    return 0;
}

static int prepare(const quantize_options *options, quantize_state *state, file_error *error) {
    if (quantize_source_open(options->input, &state->source, error) ||
        check_shards(options, &state->source, error))
        return -1;
    if (options->calibrate != NULL) {
        if (quantize_activations_open(options->calibrate, &state->activations, error))
            return -1;
        if (check_activation_files(options, state, error))
            return -1;
        state->choice.activations = &state->activations;
    }
    if (quantize_plan_make(&state->source, &state->choice, &state->plan, error))
        return -1;
    if (state->plan.quantized == 0 && state->choice.scheme->kind != QUANTIZE_KEEP)
        return refuse_empty_plan(options, state, error);
    return check_activations(state, error);
}

/* The report is written before the output has its name, which it gets only where nothing has failed. */
static int write_all(const quantize_options *options, quantize_state *state, file_error *error) {
    if (quantize_items(state, error))
        return -1;
    progress_show(0, 0, "writing %s to the disk", options->output);
    if (quantize_sink_settle(state->sink, error))
        return -1;
    progress_clear();
    error->text[0] = '\0'; /* what goes wrong with the report is told there */
    return quantize_report_write(state->report, command_name, options->json,
                                 quantize_sink_left_out(state->sink));
}

static int run(const quantize_options *options, quantize_state *state, file_error *error) {
    state->report = quantize_report_create(&state->run);
    if (state->report == NULL)
        return file_fail(error, "out of memory for the report");
    if (prepare(options, state, error) ||
        quantize_sink_open(options->output, &state->source, &state->plan, &state->sink, error))
        return -1;
    if (write_all(options, state, error)) {
        quantize_sink_abandon(state->sink);
        return -1;
    }
    if (quantize_sink_finish(state->sink, error))
        return -1;
    error->text[0] = '\0';
    return quantize_report_print(state->report, command_name, options->json);
}

static void release(quantize_state *state) {
    quantize_plan_release(&state->plan);
    quantize_source_close(&state->source);
    quantize_activations_close(&state->activations);
    quantize_report_destroy(state->report);
    if (state->choice.only != NULL)
        regfree(&state->only);
    if (state->choice.skip != NULL)
        regfree(&state->skip);
}

int quantize_command(int argc, char **argv) {
    quantize_options options = {.input = NULL};
    quantize_state state;
    file_error error = {""};
    const cli_outcome outcome = parse(argc, argv, &options);
    if (outcome != CLI_RUN)
        return cli_exit_code(outcome);
    memset(&state, 0, sizeof state);
    int code = take_options(&options, &state);
    if (code == CLI_EXIT_OK && results_check_path(command_name, options.json) != 0)
        code = CLI_EXIT_FAILED;
    if (code == CLI_EXIT_OK && run(&options, &state, &error) != 0) {
        progress_clear();
        if (error.text[0] != '\0')
            fprintf(stderr, "%s: %s\n", command_name, error.text);
        code = CLI_EXIT_FAILED;
    }
    release(&state);
    return code;
}
