#include "cli/quantize/quantize_settings.h"

#include <stdlib.h>
#include <string.h>

const char quantize_command_name[] = "tandem quantize";

typedef struct quantize_options {
    const char *scheme;
    cli_texts exceptions;
    const char *group; /* NULL: the scheme's own */
    const char *only;
    const char *skip;
} quantize_options;

/* ---- parsing --------------------------------------------------------------------------------- */

static cli_outcome parse(int argc, char **argv, quantize_options *options,
                         quantize_settings *settings) {
    const cli_option table[] = {
        {"scheme", CLI_CHOICE, &options->scheme, "NAME",
         "format of the quantized weights; keep changes only the container",
         quantize_scheme_names(), 0, 0},
        {"except", CLI_TEXTS, &options->exceptions, "REGEX=NAME",
         "another scheme for the tensors whose names match; may be repeated, the first match "
         "counts",
         NULL, 0, 0},
        {"group", CLI_CHOICE, &options->group, "N",
         "number of weights that share a scale, for group schemes", "32|64|128", 0, 0},
        {"only", CLI_TEXT, &options->only, "REGEX",
         "quantize the tensors whose names match, whatever their size", NULL, 0, 0},
        {"skip", CLI_TEXT, &options->skip, "REGEX", "copy the tensors whose names match unchanged",
         NULL, 0, 0},
        {"calibrate", CLI_TEXT, &settings->calibrate, "FILE",
         "recorded activations of each layer, from which input scales are computed", NULL, 0, 0},
        {"observer", CLI_CHOICE, &settings->observer, "NAME",
         "how ranges are computed from activations; minmax by default",
         "minmax|moving-average|percentile|mse|kl", 0, 0},
        CLI_JSON_OPTION(&settings->json),
    };
    const cli_command command = {
        .name = quantize_command_name,
        .summary = "write a checkpoint with quantized weights",
        .arguments = "INPUT OUTPUT",
        .min_arguments = 2,
        .max_arguments = 2,
        CLI_OPTIONS(table),
        .notes =
            "INPUT and OUTPUT are safetensors files, or GGUF files if their names end in .gguf;\n"
            "INPUT may be the index of a sharded checkpoint (model.safetensors.index.json).\n"
            "GGUF supports the schemes keep, f32, f16, bf16, q8_0 and q4_0. Weights are tensors\n"
            "of floats with two dimensions or more and 1024 elements or more; all others are\n"
            "copied. REGEX is a POSIX extended regular expression that matches anywhere in a name.",
    };
    int first = 0;
    const cli_outcome outcome = cli_parse(&command, argc, argv, &first);
    if (outcome == CLI_RUN) {
        settings->input = argv[first];
        settings->output = argv[first + 1];
    }
    return outcome;
}

static int compile(const char *option, const char *text, regex_t *expression) {
    char reason[128];
    const int code = regcomp(expression, text, REG_EXTENDED | REG_NOSUB);
    if (code == 0)
        return CLI_EXIT_OK;
    regerror(code, expression, reason, sizeof reason);
    return cli_refuse(quantize_command_name, "--%s does not take '%s': %s", option, text, reason);
}

/* Parses REGEX=NAME, split at the last '='. */
static int take_exception(const char *text, quantize_settings *settings) {
    quantize_exception *const made = &settings->exceptions[settings->choice.exception_count];
    const char *const equals = strrchr(text, '=');
    made->scheme = equals ? quantize_scheme_find(equals + 1) : NULL;
    if (!made->scheme || equals == text)
        return cli_refuse(quantize_command_name,
                          "--except does not take '%s': give REGEX=NAME, with a NAME of %s", text,
                          quantize_scheme_names());
    char *const names = strndup(text, (size_t)(equals - text));
    const int code = names ? compile("except", names, &made->names) : CLI_EXIT_FAILED;
    free(names);
    settings->choice.exception_count += code == CLI_EXIT_OK;
    return code;
}

static int take_names(const quantize_options *options, quantize_settings *settings) {
    quantize_choice *const choice = &settings->choice;
    choice->exceptions = settings->exceptions;
    for (size_t i = 0; i < options->exceptions.count; i++)
        if (take_exception(options->exceptions.items[i], settings))
            return CLI_EXIT_USAGE;
    if (options->only) {
        if (compile("only", options->only, &settings->only))
            return CLI_EXIT_USAGE;
        choice->only = &settings->only;
    }
    if (options->skip) {
        if (compile("skip", options->skip, &settings->skip))
            return CLI_EXIT_USAGE;
        choice->skip = &settings->skip;
    }
    return CLI_EXIT_OK;
}

/* ---- options that contradict each other ---- */

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

/* Returns the first scheme of the run that has a property, or NULL. */
static const quantize_scheme *first_with(const quantize_choice *choice,
                                         int (*has)(const quantize_scheme *)) {
    if (has(choice->scheme))
        return choice->scheme;
    for (size_t i = 0; i < choice->exception_count; i++)
        if (has(choice->exceptions[i].scheme))
            return choice->exceptions[i].scheme;
    return NULL;
}

static int check(const quantize_settings *settings) {
    const quantize_choice *const choice = &settings->choice;
    const quantize_scheme *const codes = first_with(choice, has_codes);
    if (choice->group && !first_with(choice, has_groups))
        return cli_refuse(quantize_command_name, "--group is for group schemes, not for %s",
                          choice->scheme->name);
    if (codes && choice->to_gguf)
        return cli_refuse(quantize_command_name,
                          "GGUF files have no %s; choose one of keep, f32, f16, bf16, q8_0, q4_0",
                          codes->name);
    if (quantize_is_index(settings->output))
        return cli_refuse(quantize_command_name, "'%s' is an index: the output is one file",
                          settings->output);
    if (!settings->calibrate)
        return settings->observer
                   ? cli_refuse(quantize_command_name, "--observer needs --calibrate")
                   : CLI_EXIT_OK;
    if (!first_with(choice, has_integers))
        return cli_refuse(quantize_command_name, "--calibrate is for integer schemes, not for %s",
                          choice->scheme->name);
    return choice->to_gguf ? cli_refuse(quantize_command_name,
                                        "GGUF files cannot store the input scales of --calibrate")
                           : CLI_EXIT_OK;
}

cli_outcome quantize_settings_read(int argc, char **argv, quantize_settings *settings) {
    quantize_options options = {.scheme = NULL};
    quantize_choice *const choice = &settings->choice;
    memset(settings, 0, sizeof *settings);
    const cli_outcome outcome = parse(argc, argv, &options, settings);
    if (outcome != CLI_RUN)
        return outcome;
    if (!options.scheme) {
        cli_refuse(quantize_command_name, "--scheme is missing: choose one of %s",
                   quantize_scheme_names());
        return CLI_REFUSED;
    }
    choice->scheme = quantize_scheme_find(options.scheme);
    choice->group = options.group ? strtol(options.group, NULL, 10) : 0;
    choice->to_gguf = quantize_is_gguf(settings->output);
    return take_names(&options, settings) || check(settings) ? CLI_REFUSED : CLI_RUN;
}

void quantize_settings_release(quantize_settings *settings) {
    for (size_t i = 0; i < settings->choice.exception_count; i++)
        regfree(&settings->exceptions[i].names);
    if (settings->choice.only)
        regfree(&settings->only);
    if (settings->choice.skip)
        regfree(&settings->skip);
    memset(settings, 0, sizeof *settings);
}
