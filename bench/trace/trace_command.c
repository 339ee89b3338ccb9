/* `tandem trace` summarizes a recorded trace, and replays it on the pool. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/bench_commands.h"
#include "bench/trace/trace_replay.h"
#include "common/command/cli_options.h"
#include "common/table_print.h"

static const char command_name[] = "tandem trace";

static int fail(const char *reason) {
    fprintf(stderr, "%s: %s\n", command_name, reason);
    return CLI_EXIT_FAILED;
}

static void print_count(const char *name, uint64_t count) {
    printf("  %-30s %" PRIu64 "\n", name, count);
}

static void print_bytes(const char *name, uint64_t bytes) {
    printf("  %-30s %.1f KiB\n", name, (double)bytes / 1024);
}

static void print_trace(const trace_data *trace, const trace_figures *figures) {
    if (trace->comment[0] != '\0')
        puts(trace->comment);
    print_count("events", trace->event_count);
    print_count("allocations", figures->allocs);
    print_count("never freed", figures->live_at_end);
    print_count("streams", trace->streams);
    printf("  %-30s %.10g s\n", "time", figures->seconds);
    print_count("peak live blocks", figures->live_peak);
    print_bytes("peak requested", figures->requested_peak);
    print_bytes("lower bound", figures->lower_bound);
}

typedef struct tag_use {
    const char *name;
    size_t allocs;
    uint64_t live, at_peak; /* bytes: now, and when the sum of all tags was largest */
} tag_use;

static int by_bytes(const void *a, const void *b) {
    const uint64_t left = ((const tag_use *)a)->at_peak;
    const uint64_t right = ((const tag_use *)b)->at_peak;
    return left < right ? 1 : left > right ? -1 : 0;
}

/* Prints the tags that allocated, largest at the peak first. Returns -1 if memory is short. */
static int print_tags(const trace_data *trace, uint64_t peak) {
    const size_t count = trace->tag_count + 1;
    tag_use *const tags = calloc(count, sizeof *tags);
    uint64_t sum = 0;
    if (tags == NULL)
        return -1;
    for (size_t i = 0; i < count; i++)
        tags[i].name = i == 0 ? "(no tag)" : trace->tags[i - 1];
    for (size_t i = 0; i < trace->event_count; i++) {
        const trace_event *const event = &trace->events[i];
        const trace_block *const block = &trace->blocks[event->block];
        if (event->kind == TRACE_USE)
            continue;
        const uint64_t change = event->kind == TRACE_ALLOC ? block->bytes : 0 - block->bytes;
        tags[block->tag].allocs += event->kind == TRACE_ALLOC;
        tags[block->tag].live += change;
        sum += change;
        for (size_t tag = 0; sum == peak && tag < count; tag++)
            tags[tag].at_peak = tags[tag].live;
    }
    qsort(tags, count, sizeof *tags, by_bytes);
    text_table *const table = table_create("tag|>allocations|>KiB at the overall peak");
    for (size_t i = 0; i < count; i++) {
        if (tags[i].allocs == 0)
            continue;
        table_cell(table, "%s", file_printable(tags[i].name).text);
        table_cell(table, "%zu", tags[i].allocs);
        table_cell(table, "%.1f", (double)tags[i].at_peak / 1024);
    }
    table_print(table, stdout);
    table_destroy(table);
    free(tags);
    return 0;
}

static void print_replay(const replay_result *result) {
    print_bytes("peak reserved", result->peak_reserved);
    if (result->lower_bound > 0)
        printf("  %-30s %.10g\n", "reserved / lower bound", replay_ratio(result));
    print_count("native allocations", result->native_allocations);
    print_count("refused", result->failures);
    if (result->first_failure > 0)
        print_count("first refused event", result->first_failure);
    print_count("host waits", result->waits);
    print_count("stream waits for another stream", result->orders);
    printf("  %-30s %.10g s\n", "host wait time", result->idle_seconds);
    printf("  %-30s %016" PRIx64 "\n", "decisions", replay_hash(result));
}

static int replay(const trace_data *trace, const replay_settings *settings) {
    const trace_figures figures = trace_summarize(trace);
    replay_result result = {.decisions = NULL};
    file_error error;
    int code = CLI_EXIT_OK;
    print_trace(trace, &figures);
    if (print_tags(trace, figures.requested_peak) != 0)
        code = fail("out of memory");
    else if (replay_run(trace, settings, &result, &error) != 0)
        code = fail(error.text);
    else
        print_replay(&result);
    if (result.failures > 0)
        code = CLI_EXIT_FAILED;
    replay_release(&result);
    return code;
}

int trace_command(int argc, char **argv) {
    replay_settings settings = REPLAY_SETTINGS_INIT;
    double command_us = 1e-3 * (double)settings.command_ns;
    int64_t budget = 0;
    int64_t throttle = 0;
    int unfinished = 0;
    int first = 0;
    const cli_option options[] = {
        {"budget", CLI_BYTES, &budget, "BYTES",
         "memory budget of the pool, e.g. 2G; none by default", NULL, 1, 1e15},
        {"command-time", CLI_NUMBER, &command_us, "MICROSECONDS",
         "simulated time that each use keeps its stream busy; 3 by default", NULL, 0, 1e9},
        {"throttle", CLI_COUNT, &throttle, "SHARE",
         "wait for streams while freed blocks in use exceed 1/SHARE of the live bytes, e.g. 16 for "
         "a sixteenth",
         NULL, 1, 1000},
        {"unfinished", CLI_FLAG, &unfinished, NULL,
         "accept a file without its end line, e.g. from a program that crashed", NULL, 0, 0},
    };
    const cli_command command = {
        .name = command_name,
        .summary = "replay a memory trace on the pool: memory needed, tags, fragmentation, time",
        .arguments = "FILE",
        .min_arguments = 1,
        .max_arguments = 1,
        CLI_OPTIONS(options),
        .notes = "No device and no device memory is needed. Streams follow a simulated clock, so "
                 "two replays make\n"
                 "the same decisions. Exit code 1: the budget refused an allocation.",
    };
    trace_data trace;
    file_error error;
    const cli_outcome outcome = cli_parse(&command, argc, argv, &first);
    if (outcome != CLI_RUN)
        return cli_exit_code(outcome);
    if (trace_load(argv[first], unfinished, &trace, &error) != 0)
        return fail(error.text);
    settings.budget = (uint64_t)budget;
    settings.command_ns = (uint64_t)(1000 * command_us);
    settings.throttle = (uint32_t)throttle;
    const int code = replay(&trace, &settings);
    trace_release(&trace);
    return code;
}
