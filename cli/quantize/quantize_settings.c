#include "cli/quantize/quantize_settings.h"

#include <stdlib.h>
#include <string.h>

#include "formats/output_file.h"

const char quantize_command_name[] = "tandem quantize";

typedef struct quantize_options {
    const char *input;
    const char *output;
    const char *scheme;
    cli_texts exceptions;
    const char *group; /* NULL: the scheme's own */
    int64_t axis;
    const char *scales; /* NULL: f32 */
    const char *only;
    const char *skip;
    const char *calibrate;
    const char *observer; /* NULL: the default */
    double percentile;    /* 0: the default */
    const char *activations;
    const char *json;
    int is_dry;
} quantize_options;

/* ---- words ---- */

static cli_outcome parse(int argc, char **argv, quantize_options *options) {
    const cli_option table[] = {
        {"scheme", CLI_CHOICE, &options->scheme, "NAME",
         "what weights become; keep changes the container alone", quantize_scheme_names(), 0, 0},
        {"except", CLI_TEXTS, &options->exceptions, "REGEX=NAME",
         "another scheme for the tensors whose names match; given several times, the first that "
         "matches counts",
         NULL, 0, 0},
        {"group", CLI_CHOICE, &options->group, "N", "weights that share a scale, of group schemes",
         "32|64|128", 0, 0},
        {"axis", CLI_COUNT, &options->axis, "0|1",
         "dimension of the outputs: 0 as PyTorch's linear layers have it, 1 for matrices K x N, "
         "also of stacks of them (experts)",
         NULL, 0, 1},
        {"scales", CLI_CHOICE, &options->scales, "TYPE",
         "type that scales of codes are kept in, f32 by default", "f32|f16|bf16", 0, 0},
        {"only", CLI_TEXT, &options->only, "REGEX",
         "quantize the tensors whose names match, whatever their size", NULL, 0, 0},
        {"skip", CLI_TEXT, &options->skip, "REGEX", "leave the tensors whose names match", NULL, 0,
         0},
        {"calibrate", CLI_TEXT, &options->calibrate, "FILE",
         "activations recorded by layer, which scales for inputs are made of", NULL, 0, 0},
        {"observer", CLI_CHOICE, &options->observer, "NAME",
         "how a range is made of activations, minmax by default",
         "minmax|moving-average|percentile|mse|kl", 0, 0},
        {"percentile", CLI_NUMBER, &options->percentile, "P",
         "of the observer percentile, 99.99 by default", NULL, 50, 100},
        {"activations", CLI_CHOICE, &options->activations, "TYPE",
         "type that inputs are to be quantized to, u8 by default", "u8|s8", 0, 0},
        {"dry-run", CLI_FLAG, &options->is_dry, NULL,
         "say what would become of which tensor, and how many bytes; write no output", NULL, 0, 0},
        CLI_JSON_OPTION(&options->json),
    };
    const cli_command command = {
        .name = quantize_command_name,
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
            "Of a GGUF model in parts (NAME-00001-of-00003.gguf) INPUT is any of them, and the\n"
            "others lie in its folder; OUTPUT is one file.\n"
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

static int compile(const char *option, const char *text, regex_t *expression,
                   const regex_t **target) {
    char reason[128];
    if (!text)
        return CLI_EXIT_OK;
    const int code = regcomp(expression, text, REG_EXTENDED | REG_NOSUB);
    if (code != 0) {
        regerror(code, expression, reason, sizeof reason);
        return cli_refuse(quantize_command_name, "--%s does not take '%s': %s", option, text,
                          reason);
    }
    *target = expression;
    return CLI_EXIT_OK;
}

/* REGEX=NAME, at the last '='. */
static int take_exception(const char *text, quantize_settings *settings) {
    quantize_exception *const made = &settings->exceptions[settings->choice.exception_count];
    const char *const equals = strrchr(text, '=');
    const regex_t *compiled;
    made->scheme = equals ? quantize_scheme_find(equals + 1) : NULL;
    if (!made->scheme || equals == text)
        return cli_refuse(quantize_command_name,
                          "--except does not take '%s': give REGEX=NAME, with a NAME of %s", text,
                          quantize_scheme_names());
    made->text = strndup(text, (size_t)(equals - text));
    if (!made->text)
        return cli_refuse(quantize_command_name, "out of memory for '%s'", text);
    if (compile("except", made->text, &made->names, &compiled)) {
        free(made->text);
        return CLI_EXIT_USAGE;
    }
    settings->choice.exception_count++;
    return CLI_EXIT_OK;
}

static int take_names(const quantize_options *options, quantize_settings *settings) {
    quantize_choice *const choice = &settings->choice;
    choice->exceptions = settings->exceptions;
    for (size_t i = 0; i < options->exceptions.count; i++)
        if (take_exception(options->exceptions.items[i], settings))
            return CLI_EXIT_USAGE;
    return compile("only", options->only, &settings->only, &choice->only) ||
                   compile("skip", options->skip, &settings->skip, &choice->skip)
               ? CLI_EXIT_USAGE
               : CLI_EXIT_OK;
}

/* ---- the schemes of a run ---- */

static int has_codes(const quantize_scheme *scheme) {
    return scheme->kind == QUANTIZE_CODES;
}

static int has_integers(const quantize_scheme *scheme) {
    return has_codes(scheme) || scheme->kind == QUANTIZE_BLOCKS;
}

static int has_groups(const quantize_scheme *scheme) {
    return has_codes(scheme) &&
           tdm_quant_scheme_info(scheme->rules)->granularity == TDM_QUANT_PER_GROUP;
}

static int has_channels(const quantize_scheme *scheme) {
    return has_codes(scheme) &&
           tdm_quant_scheme_info(scheme->rules)->granularity != TDM_QUANT_PER_TENSOR;
}

/* The first scheme of the run that has a property, or NULL. */
static const quantize_scheme *first_with(const quantize_choice *choice,
                                         int (*has)(const quantize_scheme *)) {
    if (has(choice->scheme))
        return choice->scheme;
    for (size_t i = 0; i < choice->exception_count; i++)
        if (has(choice->exceptions[i].scheme))
            return choice->exceptions[i].scheme;
    return NULL;
}

/* ---- options that contradict each other ---- */

static int check_files(const quantize_options *options) {
    if (quantize_is_index(options->output) && !quantize_is_index(options->input))
        return cli_refuse(quantize_command_name,
                          "'%s' is an index, so the input has to be one, too", options->output);
    const char *const inputs[] = {options->input, options->calibrate};
    for (int i = 0; i < 2; i++) {
        if (inputs[i] == NULL)
            continue;
        if (output_would_be(inputs[i], options->output))
            return cli_refuse(quantize_command_name,
                              "the output '%s' is the input: name another file", options->output);
        if (options->json != NULL && output_would_be(inputs[i], options->json))
            return cli_refuse(quantize_command_name, "--json does not take '%s': it is an input",
                              options->json);
    }
    if (options->json != NULL && output_would_be(options->output, options->json))
        return cli_refuse(quantize_command_name, "--json does not take '%s': it is the output",
                          options->json);
    return CLI_EXIT_OK;
}

/* Options of schemes that the run does not have. */
static int check_schemes(const quantize_options *options, const quantize_choice *choice) {
    const char *const name = choice->scheme->name;
    const quantize_scheme *const codes = first_with(choice, has_codes);
    if (options->group && !first_with(choice, has_groups))
        return cli_refuse(quantize_command_name, "--group is for schemes of groups, not for %s",
                          name);
    if (options->axis != 0 && !first_with(choice, has_channels))
        return cli_refuse(quantize_command_name,
                          "--axis is for schemes of channels and groups, not for %s", name);
    if (options->scales && !codes)
        return cli_refuse(quantize_command_name,
                          "--scales is for codes with scales beside them, not for %s", name);
    if (codes && quantize_is_gguf(options->output))
        return cli_refuse(quantize_command_name,
                          "GGUF files have no %s; choose one of keep, f32, f16, bf16, q8_0, q4_0",
                          codes->name);
    return CLI_EXIT_OK;
}

static int check_calibration(const quantize_options *options, const quantize_choice *choice) {
    if (!options->calibrate &&
        (options->observer || options->activations || options->percentile > 0))
        return cli_refuse(quantize_command_name,
                          "--observer, --percentile and --activations need --calibrate");
    if (options->calibrate && !first_with(choice, has_integers))
        return cli_refuse(quantize_command_name, "--calibrate is for integers, not for %s",
                          choice->scheme->name);
    if (options->calibrate && quantize_is_gguf(options->output))
        return cli_refuse(quantize_command_name,
                          "GGUF files have no place for what --calibrate finds");
    if (options->percentile > 0 &&
        (!options->observer || strcmp(options->observer, "percentile") != 0))
        return cli_refuse(quantize_command_name, "--percentile needs --observer percentile");
    return CLI_EXIT_OK;
}

static int check(const quantize_options *options, const quantize_choice *choice) {
    return check_schemes(options, choice) || check_calibration(options, choice) ||
                   check_files(options)
               ? CLI_EXIT_USAGE
               : CLI_EXIT_OK;
}

/* ---- settings ---- */

static void take_choice(const quantize_options *options, quantize_choice *choice) {
    choice->group = options->group ? strtol(options->group, NULL, 10) : 0;
    choice->axis = (int)options->axis;
    choice->scale_dtype = options->scales ? tdm_dtype_from_name(options->scales) : TDM_F32;
    choice->to_gguf = quantize_is_gguf(options->output);
    choice->activation_dtype =
        options->activations ? tdm_dtype_from_name(options->activations) : TDM_U8;
}

static void take_run(const quantize_options *options, quantize_settings *settings) {
    const quantize_choice *const choice = &settings->choice;
    const quantize_scheme *const grouped = first_with(choice, has_groups);
    const tdm_quant_scheme *const rules =
        tdm_quant_scheme_info((grouped ? grouped : choice->scheme)->rules);
    settings->run = (quantize_run){
        .input = options->input,
        .output = options->output,
        .choice = choice,
        .group = choice->group > 0 ? choice->group
                 : rules           ? rules->group
                                   : 0,
        .scales = first_with(choice, has_codes) ? tdm_dtype_name(choice->scale_dtype) : NULL,
        .calibration = options->calibrate,
        .observer = options->observer ? options->observer : "minmax",
        .is_dry = options->is_dry,
    };
}

cli_outcome quantize_settings_read(int argc, char **argv, quantize_settings *settings) {
    quantize_options options = {.input = NULL};
    memset(settings, 0, sizeof *settings);
    const cli_outcome outcome = parse(argc, argv, &options);
    if (outcome != CLI_RUN)
        return outcome;
    if (!options.scheme) {
        cli_refuse(quantize_command_name, "--scheme is missing: choose one of %s",
                   quantize_scheme_names());
        return CLI_REFUSED;
    }
    settings->input = options.input;
    settings->output = options.output;
    settings->calibrate = options.calibrate;
    settings->json = options.json;
    settings->is_dry = options.is_dry;
    settings->choice.scheme = quantize_scheme_find(options.scheme);
    if (take_names(&options, settings) || check(&options, &settings->choice))
        return CLI_REFUSED;
    take_choice(&options, &settings->choice);
    take_run(&options, settings);
    settings->observer = (tdm_quant_observer_options){
        .kind = tdm_quant_observer_kind_from_name(settings->run.observer),
        .channels = 1,
        .inner = 1,
        .percent = options.percentile,
    };
    return CLI_RUN;
}

void quantize_settings_release(quantize_settings *settings) {
    for (size_t i = 0; i < settings->choice.exception_count; i++) {
        regfree(&settings->exceptions[i].names);
        free(settings->exceptions[i].text);
    }
    if (settings->choice.only)
        regfree(&settings->only);
    if (settings->choice.skip)
        regfree(&settings->skip);
    memset(settings, 0, sizeof *settings);
}
