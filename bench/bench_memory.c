/* `tandem bench memory`: speed of the copies of tandem/memory.h beside a plain memcpy. */
#include <stdio.h>
#include <string.h>

#include <tandem/tandem.h>

#include "bench/bench_commands.h"
#include "bench/bench_peers.h"
#include "bench/bench_settings.h"
#include "bench/environment_record.h"
#include "bench/memory_case.h"

static const char command_name[] = "tandem bench memory";

enum {
    MEMORY_ENTRANTS = 3
};

static const int64_t mebibyte = 1 << 20;

typedef struct memory_options {
    const char *operations;
    const char *modes;
    int64_t bytes; /* 0: chosen by the caches */
    bench_settings settings;
} memory_options;

typedef struct memory_run {
    const memory_options *options;
    bench_entrant *entrants;
    bench_device device;
    int64_t bytes;
    int threads;
    bench_report report;
} memory_run;

/* Each block four times the largest cache in question, within an eighth of the device's memory. */
static int64_t choose_bytes(const memory_run *run) {
    const int64_t host_cache = environment_cache_bytes();
    const int64_t device_cache = (int64_t)run->device.info.cache_bytes;
    const int64_t cache = host_cache > device_cache ? host_cache : device_cache;
    const int64_t largest = (int64_t)(run->device.info.global_bytes / 8);
    int64_t bytes = 4 * cache < 64 * mebibyte ? 64 * mebibyte : 4 * cache;
    if (run->options->bytes > 0)
        return run->options->bytes;
    if (run->options->settings.quick)
        bytes = mebibyte;
    if (largest > 0 && bytes > largest)
        bytes = largest;
    return bytes;
}

static int choose_threads(const memory_run *run) {
    const int processors = environment_processors();
    const int units = (int)run->device.info.compute_units;
    return run->device.info.type == TDM_DEVICE_CPU && units > 0 && units < processors ? units
                                                                                      : processors;
}

static void run_case(memory_run *run, const memory_case *item, int waited) {
    char name[64];
    worker_text request = {.length = 0};
    snprintf(name, sizeof name, "%s %zu", memory_operation_name(item->operation), item->bytes);
    memory_case_write(item, &request);
    bench_device_write(&run->device, &request);
    bench_plan plan = bench_settings_plan(&run->options->settings);
    plan.task.request = request.text;
    plan.task.waited = waited;
    plan.task.verify = memory_case_check;
    plan.task.user = item;
    plan.label = name;
    bench_run_case(&plan, run->entrants, MEMORY_ENTRANTS);
    const bench_result row = {
        .suite = "memory",
        .case_name = name,
        .shape = {{"bytes", (double)item->bytes}, {"threads", item->threads}},
        .mode = waited ? "waited" : "pipelined",
        .packing = "none",
        .bytes = memory_case_traffic(item),
    };
    bench_report_case(&run->report, &row, run->entrants, MEMORY_ENTRANTS);
}

static void run_all(memory_run *run) {
    const char *operations = run->options->operations;
    char word[32];
    memory_case item = {
        .bytes = (size_t)run->bytes,
        .seed = (uint64_t)run->options->settings.seed,
        .threads = run->threads,
    };
    while (cli_next_word(&operations, ',', word, sizeof word) == 1) {
        const char *modes = run->options->modes;
        memory_operation_parse(word, &item.operation);
        while (cli_next_word(&modes, ',', word, sizeof word) == 1)
            run_case(run, &item, strcmp(word, "waited") == 0);
    }
}

static int run_on_device(const memory_options *options) {
    static bench_entrant entrants[MEMORY_ENTRANTS];
    memory_run run = {.options = options, .entrants = entrants};
    const int code = bench_settings_open(command_name, &options->settings, "GB/s", NULL,
                                         &run.device, &run.report);
    if (code != CLI_EXIT_OK)
        return code;
    run.bytes = choose_bytes(&run);
    run.threads = choose_threads(&run);
    bench_entrant_self(&entrants[0], "tandem", "memory");
    bench_entrant_self(&entrants[1], BENCH_TWIN_NAME, "memory");
    bench_entrant_self(&entrants[2], "memcpy", "memcpy");
    run_all(&run);
    bench_entrants_release(entrants, MEMORY_ENTRANTS);
    return bench_report_close(&run.report, command_name, options->settings.json);
}

int bench_memory_command(int argc, char **argv) {
    memory_options given = {
        .operations = "copy,write,read",
        .modes = "pipelined",
        .settings = BENCH_SETTINGS_INIT,
    };
    const cli_option options[] = {
        {"operation", CLI_CHOICES, &given.operations, "LIST",
         "within the device, host to device, device to host", "copy|write|read", 0, 0},
        {"bytes", CLI_BYTES, &given.bytes, "N",
         "size of a block, e.g. 256M; four times the largest cache by default", NULL, 1, 1e12},
        {"mode", CLI_CHOICES, &given.modes, "LIST", "many calls and one wait, or a wait after each",
         "pipelined|waited", 0, 0},
        BENCH_SETTINGS_OPTIONS(&given.settings),
    };
    const cli_command command = {
        .name = command_name,
        .summary = "speed of copies within a device and to and from it, verified",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .notes =
            "A copy counts as one read and one write, a write to or a read from the device once.\n"
            "The peer is memcpy between two blocks of host memory, on as many threads as a CPU\n"
            "device has compute units.",
    };
    const cli_outcome outcome = cli_parse(&command, argc, argv, NULL);
    return outcome == CLI_RUN ? run_on_device(&given) : cli_exit_code(outcome);
}
