/* `tandem infer` runs a classifier from a model file on every device, checks it, then times it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/bench_commands.h"
#include "cli/infer/infer_measure.h"
#include "common/command/cli_options.h"
#include "common/command/device_pick.h"
#include "common/command/standard_streams.h"

enum {
    MAX_BATCHES = 8,
    LARGEST_BATCH = 1 << 16,
    CALIBRATION_PART = 5 /* calibration uses the first 1/5 of the held-out images */
};

static const char command_name[] = "tandem infer";
static const char float_precisions[] = "f32,f16,int8,int8-dynamic,w8,w4";
static const char stored_precisions[] = "f32,stored,stored-dynamic,stored-int8";
static const uint64_t sample_seed = 20261121;

/* "|f32|f16|..." */
static const char precision_names[] =
#define INFER_PRECISION_NAME(name, ...) "|" name
    MLP_PRECISION_LIST(INFER_PRECISION_NAME);
#undef INFER_PRECISION_NAME

typedef struct infer_options {
    const char *directory;
    const char *heldout; /* NULL: the one in the directory */
    const char *selector;
    const char *precisions; /* NULL: those that suit the model */
    const char *batches;
    const char *json;
    int64_t images;
    double seconds;
    /* parsed from the strings above */
    const mlp_precision *precision[MLP_PRECISIONS];
    int precision_count;
    int64_t batch[MAX_BATCHES];
    int batch_count;
} infer_options;

/* One precision of the model, with the oracle's reference for it. */
typedef struct infer_setup {
    mlp_quantized quantized; /* all zero if the precision does not quantize */
    mlp_reference reference;
    file_error unsuited; /* why the model cannot run in this precision, or "" */
} infer_setup;

/* A model with its samples. */
typedef struct infer_model {
    mlp_model model;
    mlp_samples samples;
    /* The first held-out samples, borrowed; or owned samples made from a seed. */
    mlp_samples calibration;
    int owns_calibration;
    int all_samples;
    /* The unquantized model's reference; only for labelled samples. */
    mlp_reference exact;
    infer_setup setups[MLP_PRECISIONS];
} infer_model;

typedef struct infer_run {
    infer_options options;
    infer_model made;
    results_document *document;
    int done; /* measurements so far */
    int total;
    int failures;
} infer_run;

/* ---- options ---- */

/* Parses "1,256" into batch sizes. */
static int parse_batches(infer_options *options) {
    const char *list = options->batches;
    char word[24];
    int found;
    while ((found = cli_next_word(&list, ',', word, sizeof word)) != 0) {
        char *end = word;
        const long long value = found > 0 ? strtoll(word, &end, 10) : 0;
        if (end == word || *end || value < 1 || value > LARGEST_BATCH ||
            options->batch_count == MAX_BATCHES)
            return cli_refuse(command_name, "--batch takes up to %d numbers from 1 to %d, not '%s'",
                              MAX_BATCHES, LARGEST_BATCH, options->batches);
        options->batch[options->batch_count++] = value;
    }
    return CLI_EXIT_OK;
}

/* Fills in the precisions. By default they depend on the model: stored integers run as they are. */
static void settle(infer_options *options, const mlp_model *model) {
    char word[24];
    file_error unsuited;
    const int stored = model->scheme[0] != '\0';
    const char *list = options->precisions ? options->precisions
                       : stored            ? stored_precisions
                                           : float_precisions;
    while (cli_next_word(&list, ',', word, sizeof word) > 0) {
        const mlp_precision *const precision = mlp_precision_from_name(word);
        if (options->precisions || !stored || !mlp_precision_check(precision, model, &unsuited))
            options->precision[options->precision_count++] = precision;
    }
}

static cli_outcome parse(infer_options *options, int argc, char **argv) {
    const cli_option rows[] = {
        CLI_DEVICE_OPTION(&options->selector),
        {"precision", CLI_CHOICES, &options->precisions, "NAMES",
         "precisions to run; by default all but bf16 that the model's weights allow",
         precision_names + 1, 0, 0},
        {"batch", CLI_TEXT, &options->batches, "SIZES", "batch sizes to run; 1,256 by default",
         NULL, 0, 0},
        {"heldout", CLI_TEXT, &options->heldout, "FILE",
         "held-out images with their labels (heldout.safetensors of the folder)", NULL, 0, 0},
        {"images", CLI_COUNT, &options->images, "N",
         "only the first N held-out images; their accuracy is then not checked", NULL, 1, 1e9},
        {"seconds", CLI_NUMBER, &options->seconds, "S", "duration of each timing; 0.3 by default",
         NULL, 0, 60},
        CLI_JSON_OPTION(&options->json),
    };
    const cli_command command = {
        .name = command_name,
        .summary = "run a classifier on every device, check it, then time it",
        .arguments = "MODEL",
        .min_arguments = 1,
        .max_arguments = 1,
        CLI_OPTIONS(rows),
        .notes =
            "MODEL is a folder with model.safetensors or model.gguf and, for the accuracy,\n"
            "heldout.safetensors, whose first fifth calibrates int8.\n"
            "int8 has u8 inputs in calibrated ranges; int8-dynamic quantizes each row in the "
            "call;\n"
            "both and w8 have s8 weights with a scale for each output, w4 has s4 in groups of 32.\n"
            "stored, stored-dynamic and stored-int8 run weights that tandem quantize wrote.\n"
            "images/s: batches enqueued back to back. latency: one batch from upload to logits.\n"
            "error/tolerance: the largest error of a logit relative to its rounding bound.\n"
            "Exit code 1: a device failed, a tolerance is exceeded, or too much accuracy is lost.\n"
            "3: no device.\n",
    };
    int first = 0;
    const cli_outcome outcome = cli_parse(&command, argc, argv, &first);
    if (outcome == CLI_RUN)
        options->directory = argv[first];
    return outcome;
}

/* ---- models ---- */

static int has_file(const char *directory, const char *name) {
    char path[4096];
    return snprintf(path, sizeof path, "%s/%s", directory, name) < (int)sizeof path &&
           access(path, F_OK) == 0;
}

static int make_setup(infer_model *made, const mlp_precision *precision, int64_t rows,
                      infer_setup *setup, file_error *error) {
    if (mlp_precision_check(precision, &made->model, &setup->unsuited))
        return 0;
    const int is_quantized = precision->scheme || precision->stored;
    if (is_quantized &&
        mlp_quantized_make(&made->model, precision, &made->calibration, &setup->quantized, error))
        return -1;
    return mlp_reference_make(&made->model, is_quantized ? &setup->quantized : NULL, &made->samples,
                              precision->dtype, rows, &setup->reference, error);
}

static int make_setups(const infer_options *options, infer_model *made, int64_t rows,
                       file_error *error) {
    for (int i = 0; i < options->precision_count; i++)
        if (make_setup(made, options->precision[i], rows, &made->setups[i], error))
            return -1;
    return made->samples.labels ? mlp_reference_make(&made->model, NULL, &made->samples, TDM_F32,
                                                     made->samples.count, &made->exact, error)
                                : 0;
}

/*
 * Takes the first held-out samples, without their labels, for calibration. Stored integers need
 * none: they were calibrated with other samples.
 */
static void take_calibration(infer_model *made) {
    const int64_t part = made->samples.count / CALIBRATION_PART;
    if (made->model.scheme[0])
        return;
    made->calibration = made->samples;
    made->calibration.labels = NULL;
    made->calibration.count = part > 0 ? part : 1;
}

/*
 * Loads the model and its samples. Without held-out images, the logits are compared on synthetic
 * samples from the seed.
 */
static int load_model(infer_options *options, infer_model *made, file_error *error) {
    char path[4096];
    const int has_heldout = options->heldout || has_file(options->directory, "heldout.safetensors");
    if (mlp_model_load(options->directory, &made->model, error))
        return -1;
    settle(options, &made->model);
    snprintf(path, sizeof path, "%s/heldout.safetensors", options->directory);
    if (!has_heldout) {
        fprintf(stderr, "%s: %s has no heldout.safetensors: the accuracy is not measured\n",
                command_name, options->directory);
        made->owns_calibration = 1;
        if (mlp_samples_synthetic(64, mlp_model_inputs(&made->model), sample_seed, &made->samples,
                                  error) ||
            mlp_samples_synthetic(64, mlp_model_inputs(&made->model), sample_seed + 1,
                                  &made->calibration, error))
            return -1;
    } else {
        if (mlp_samples_load(options->heldout ? options->heldout : path, &made->model,
                             &made->samples, error))
            return -1;
        take_calibration(made);
    }
    made->all_samples = options->images >= made->samples.count;
    if (!made->all_samples)
        made->samples.count = options->images;
    return make_setups(options, made, made->samples.count, error);
}

static int make_model(infer_run *run) {
    infer_options *const options = &run->options;
    file_error error;
    if (!has_file(options->directory, "model.safetensors") &&
        !has_file(options->directory, "model.gguf"))
        return cli_refuse(command_name,
                          "'%s' is not a folder with a model.safetensors or model.gguf",
                          options->directory);
    progress_show(0, 0, "reading %s", options->directory);
    if (load_model(options, &run->made, &error)) {
        fprintf(stderr, "%s: %s\n", command_name, error.text);
        return CLI_EXIT_FAILED;
    }
    return CLI_EXIT_OK;
}

static void release_model(infer_model *made) {
    for (int i = 0; i < MLP_PRECISIONS; i++) {
        mlp_reference_release(&made->setups[i].reference);
        mlp_quantized_release(&made->setups[i].quantized);
    }
    mlp_reference_release(&made->exact);
    if (made->owns_calibration)
        mlp_samples_release(&made->calibration);
    mlp_samples_release(&made->samples);
    mlp_model_release(&made->model);
}

/* ---- devices ---- */

/* Returns the device's status, so that the caller can stop using a device that is lost. */
static tdm_status run_case(infer_run *run, tdm_device *device, const tdm_device_info *info,
                           const infer_case *given, const file_error *unsuited, text_table *table) {
    char name[128], verdict[600];
    infer_result result;
    infer_case_name(given, name, sizeof name);
    progress_show(run->done++, run->total, "%s: %s", info->selector, name);
    if (unsuited->text[0])
        infer_skip(&result, unsuited->text);
    else
        infer_measure(device, given, &result);
    infer_table_add(table, given, &result);
    infer_results_add(run->document, info, given, &result);
    infer_verdict(given, &result, verdict, sizeof verdict);
    if (verdict[0]) {
        progress_clear();
        fprintf(stderr, "%s: %s: %s: %s\n", command_name, info->selector, name, verdict);
        run->failures += !result.skipped;
    }
    const tdm_status status = result.status;
    infer_result_release(&result);
    return status;
}

static infer_case case_of(const infer_run *run, int precision, int64_t batch) {
    const infer_model *const made = &run->made;
    const infer_setup *const setup = &made->setups[precision];
    return (infer_case){
        .model = &made->model,
        .samples = &made->samples,
        .precision = run->options.precision[precision],
        .quantized = setup->quantized.precision ? &setup->quantized : NULL,
        .reference = &setup->reference,
        .exact = made->samples.labels ? &made->exact : NULL,
        .calibration = made->owns_calibration ? 0 : made->calibration.count,
        .batch = batch,
        .all_samples = made->all_samples,
        .seconds = run->options.seconds,
    };
}

static void run_cases(infer_run *run, tdm_device *device, const tdm_device_info *info,
                      text_table *table) {
    const infer_options *const options = &run->options;
    for (int p = 0; p < options->precision_count; p++)
        for (int b = 0; b < options->batch_count; b++) {
            const infer_case given = case_of(run, p, options->batch[b]);
            if (run_case(run, device, info, &given, &run->made.setups[p].unsuited, table) ==
                TDM_DEVICE_LOST)
                return;
        }
}

static void run_device(infer_run *run, tdm_context *context, int index,
                       const tdm_device_info *info) {
    tdm_device *device = NULL;
    const tdm_status status = tdm_device_get(context, index, &device);
    results_add_device(run->document, info);
    if (status != TDM_OK) {
        progress_clear();
        device_report_failure(command_name, info->selector, status);
        infer_results_add_failure(run->document, info, tdm_last_detail());
        run->failures++;
        return;
    }
    text_table *const table = infer_table_create();
    run_cases(run, device, info, table);
    progress_clear();
    FILE *const out = run->options.json && !strcmp(run->options.json, "-") ? stderr : stdout;
    fprintf(out, "%d  %s\n", index, info->selector);
    table_print(table, out);
    fputc('\n', out);
    table_destroy(table);
    tdm_device_release(device);
}

static int run_devices(infer_run *run) {
    const infer_options *const options = &run->options;
    tdm_context *context = NULL;
    tdm_device_info info = {.struct_size = sizeof info};
    const tdm_status status = tdm_context_create(NULL, &context);
    if (status != TDM_OK)
        return device_report_failure(command_name, "the library cannot be initialised", status);
    int index = device_next(context, options->selector, 0, &info);
    if (index < 0) {
        progress_clear();
        device_refuse(command_name, options->selector, context);
        tdm_context_destroy(context);
        return CLI_EXIT_NO_DEVICE;
    }
    int devices = 0;
    for (int i = index; i >= 0; i = device_next(context, options->selector, i + 1, NULL))
        devices++;
    run->total = devices * options->precision_count * options->batch_count;
    for (; index >= 0; index = device_next(context, options->selector, index + 1, &info))
        run_device(run, context, index, &info);
    tdm_context_destroy(context);
    return run->failures > 0 ? CLI_EXIT_FAILED : CLI_EXIT_OK;
}

int infer_command(int argc, char **argv) {
    infer_run run = {.options = {.batches = "1,256", .images = INT64_MAX, .seconds = 0.3}};
    const cli_outcome outcome = parse(&run.options, argc, argv);
    if (outcome != CLI_RUN)
        return cli_exit_code(outcome);
    int code = parse_batches(&run.options);
    if (code == CLI_EXIT_OK && results_check_path(command_name, run.options.json) != 0)
        code = CLI_EXIT_FAILED;
    if (code != CLI_EXIT_OK)
        return code;
    code = make_model(&run);
    run.document = results_create();
    if (code == CLI_EXIT_OK)
        code = run.document ? run_devices(&run) : CLI_EXIT_FAILED;
    progress_clear();
    const int ran = code == CLI_EXIT_OK || run.failures > 0;
    if (ran && run.options.json && results_write(run.document, command_name, run.options.json))
        code = CLI_EXIT_FAILED;
    results_destroy(run.document);
    release_model(&run.made);
    return code;
}
