/* `tandem trace`: traces of what a program allocates, made, shown and replayed. */
#include <stdio.h>
#include <string.h>

#include "bench/bench_commands.h"
#include "bench/record/results_json.h"
#include "bench/trace/trace_file.h"
#include "bench/trace/trace_generate.h"
#include "bench/trace/trace_replay.h"
#include "bench/trace/trace_report.h"
#include "common/command/cli_options.h"
#include "common/command/progress.h"

static const char generate_name[] = "tandem trace generate";
static const char show_name[] = "tandem trace show";
static const char replay_name[] = "tandem trace replay";

static int fail(const char *command, const file_error *error) {
    fprintf(stderr, "%s: %s\n", command, error->text);
    return CLI_EXIT_FAILED;
}

/* ---- generate ------------------------------------------------------------------------------------------ */

static int64_t element_bytes(const char *dtype) {
    if (strcmp(dtype, "f32") == 0)
        return 4;
    return strcmp(dtype, "s8") == 0 ? 1 : 2;
}

static int generate(const trace_model *model, const trace_settings *settings, const char *path) {
    trace_data trace;
    file_error error;
    if (trace_generate(model, settings, &trace) != 0) {
        file_error_set(&error, "out of memory");
        return fail(generate_name, &error);
    }
    int failed = trace_save(&trace, path, &error);
    if (failed)
        fail(generate_name, &error);
    else
        printf("%s: %zu events, %zu blocks, %.1f MiB at most\n", path, trace.event_count,
               trace.block_count, (double)trace_summarize(&trace).requested_peak / (1 << 20));
    trace_release(&trace);
    return failed ? CLI_EXIT_FAILED : CLI_EXIT_OK;
}

static int generate_command(int argc, char **argv) {
    trace_settings given = TRACE_SETTINGS_INIT;
    const char *dtype = "f16";
    int first = 0;
    const cli_option options[] = {
        {"layers", CLI_COUNT, &given.layers, "N", "of the transformer", NULL, 1, 10000},
        {"hidden", CLI_COUNT, &given.hidden, "N", "size of a token's state", NULL, 1, 1 << 20},
        {"heads", CLI_COUNT, &given.heads, "N", "of attention", NULL, 1, 1024},
        {"kv-heads", CLI_COUNT, &given.kv_heads, "N", "of keys and values", NULL, 1, 1024},
        {"inner", CLI_COUNT, &given.inner, "N", "size within the feed-forward part", NULL, 1,
         1 << 22},
        {"vocabulary", CLI_COUNT, &given.vocabulary, "N", "tokens there are", NULL, 1, 1 << 22},
        {"batch", CLI_COUNT, &given.batch, "N", "sequences at a time", NULL, 1, 1 << 20},
        {"sequence", CLI_COUNT, &given.sequence, "N", "tokens of a sequence, or of its prompt",
         NULL, 1, 1 << 24},
        {"steps", CLI_COUNT, &given.steps, "N", "tokens after the prompt, or steps of training",
         NULL, 1, 1 << 20},
        {"dtype", CLI_CHOICE, &dtype, "TYPE", "of tensors", "f32|f16|bf16|s8", 0, 0},
        {"no-weights", CLI_FLAG, &given.no_weights, NULL, "only what comes and goes", NULL, 0, 0},
        {"streams", CLI_COUNT, &given.streams, "N",
         "2: one for what devices tell each other, 3: one for copies too", NULL, 1, 3},
    };
    const cli_command command = {
        .name = generate_name,
        .summary = "write a trace of what a transformer allocates",
        .arguments = "KIND FILE",
        .min_arguments = 2,
        .max_arguments = 2,
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .notes = "KIND is one of\n"
                 "  inference  prompts, then tokens one by one with a cache that grows\n"
                 "  training   steps that recompute a layer's activations in its backward pass",
    };
    const cli_outcome outcome = cli_parse(&command, argc, argv, &first);
    if (outcome != CLI_RUN)
        return cli_exit_code(outcome);
    const trace_model *const model = trace_model_find(argv[first]);
    given.element_bytes = element_bytes(dtype);
    if (model == NULL)
        return cli_refuse(generate_name, "unknown kind '%s'; choose inference or training",
                          argv[first]);
    const char *const fault = trace_settings_fault(&given);
    if (fault != NULL)
        return cli_refuse(generate_name, "%s", fault);
    return generate(model, &given, argv[first + 1]);
}

/* ---- show ------------------------------------------------------------------------------------------------ */

#define UNFINISHED_OPTION(target)                                                                  \
    {                                                                                              \
        "unfinished", CLI_FLAG, target, NULL,                                                      \
            "take a file without its end, of a program that died", NULL, 0, 0                      \
    }

/* The JSON must not take the place of the trace, which may be the only one of its kind. */
static int check_json(const char *command, const char *json, const char *trace) {
    if (json != NULL && results_would_replace(json, trace))
        return cli_refuse(command, "--json does not take '%s': it is the trace", json);
    return results_check_path(command, json) != 0 ? CLI_EXIT_FAILED : CLI_EXIT_OK;
}

static int show_command(int argc, char **argv) {
    int unfinished = 0;
    const char *json = NULL;
    int first = 0;
    const cli_option options[] = {UNFINISHED_OPTION(&unfinished), CLI_JSON_OPTION(&json)};
    const cli_command command = {
        .name = show_name,
        .summary = "what a trace has: sizes, tags, the least memory it needs",
        .arguments = "FILE",
        .min_arguments = 1,
        .max_arguments = 1,
        .options = options,
        .option_count = sizeof options / sizeof options[0],
    };
    trace_data trace;
    file_error error;
    const cli_outcome outcome = cli_parse(&command, argc, argv, &first);
    if (outcome != CLI_RUN)
        return cli_exit_code(outcome);
    const int refused = check_json(show_name, json, argv[first]);
    if (refused != CLI_EXIT_OK)
        return refused;
    if (trace_load(argv[first], unfinished, &trace, &error) != 0)
        return fail(show_name, &error);
    const int code = trace_report(show_name, &trace, NULL, json);
    trace_release(&trace);
    return code;
}

/* ---- replay ------------------------------------------------------------------------------------------------ */

static void show_progress(size_t done, size_t total) {
    progress_show((int)(100 * done / total), 100, "%s", "replaying");
}

static int replay(const trace_data *trace, const replay_settings *settings, const char *json) {
    replay_result result = {.decisions = NULL};
    file_error error;
    const int failed = replay_run(trace, settings, &result, &error);
    progress_clear();
    int code = failed ? fail(replay_name, &error) : trace_report(replay_name, trace, &result, json);
    if (code == CLI_EXIT_OK && result.failures > 0)
        code = CLI_EXIT_FAILED;
    replay_release(&result);
    return code;
}

static int replay_command(int argc, char **argv) {
    replay_settings settings = REPLAY_SETTINGS_INIT;
    double command_us = 1e-3 * (double)settings.command_ns;
    int64_t budget = 0;
    int64_t throttle = 0;
    int unfinished = 0;
    const char *json = NULL;
    int first = 0;
    const cli_option options[] = {
        {"budget", CLI_BYTES, &budget, "BYTES", "bound of the pool, e.g. 2G; none by default", NULL,
         1, 1e15},
        {"command-time", CLI_NUMBER, &command_us, "MICROSECONDS",
         "virtual time for which a stream is busy with a use; 3 by default", NULL, 0, 1e9},
        {"throttle", CLI_COUNT, &throttle, "SHARE",
         "wait for streams while more than this share of the live bytes, 16 a sixteenth, waits for "
         "them",
         NULL, 1, 1000},
        UNFINISHED_OPTION(&unfinished),
        CLI_JSON_OPTION(&json),
    };
    const cli_command command = {
        .name = replay_name,
        .summary = "run the pool over a trace: memory needed, fragmentation, time",
        .arguments = "FILE",
        .min_arguments = 1,
        .max_arguments = 1,
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .notes = "No memory and no device is needed, and two replays decide alike: streams follow "
                 "a virtual\n"
                 "clock. Exits with 1 where the budget refused an allocation.",
    };
    trace_data trace;
    file_error error;
    const cli_outcome outcome = cli_parse(&command, argc, argv, &first);
    if (outcome != CLI_RUN)
        return cli_exit_code(outcome);
    const int refused = check_json(replay_name, json, argv[first]);
    if (refused != CLI_EXIT_OK)
        return refused;
    if (trace_load(argv[first], unfinished, &trace, &error) != 0)
        return fail(replay_name, &error);
    settings.budget = (uint64_t)budget;
    settings.command_ns = (uint64_t)(1000 * command_us);
    settings.throttle = (uint32_t)throttle;
    settings.progress = show_progress;
    const int code = replay(&trace, &settings, json);
    trace_release(&trace);
    return code;
}

int trace_command(int argc, char **argv) {
    static const cli_entry commands[] = {
        {"generate", "write a trace of what a transformer allocates", generate_command},
        {"show", "what a trace has: sizes, tags, the least memory it needs", show_command},
        {"replay", "run the pool over a trace: memory needed, fragmentation, time", replay_command},
    };
    return cli_dispatch("tandem trace", "traces of what a program allocates", commands,
                        sizeof commands / sizeof commands[0], argc, argv);
}
