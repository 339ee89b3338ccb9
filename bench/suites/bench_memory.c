/* `tandem bench memory`: what memory gives and takes: kernels of the device, and copies to it and from it. */
#include "bench/suites/bench_memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <tandem/tandem.h>

#include "bench/analysis/main_memory.h"
#include "bench/bench_commands.h"
#include "bench/harness/bench_peers.h"
#include "bench/record/environment_record.h"

enum {
    BEST = 0,
    PEER = 1,
    PLAIN = 2, /* the default setting, where it is another one */
    LEAST_CHASE = 16 << 10,
    QUICK_CHASE = 1024 /* steps */
};

static const int64_t mebibyte = 1 << 20;

static const memory_setting plain_setting = {.unroll = 0}, best_setting = {.row = "best"};

/* Each block four times the largest cache in question, within an eighth of the device's memory. */
static int64_t choose_bytes(const memory_run *run) {
    const int64_t cache = (int64_t)fmax((double)environment_cache_bytes(),
                                        main_memory_cache_here(&run->suite.device.info));
    const int64_t largest = (int64_t)(run->suite.device.info.global_bytes / 8);
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
    const int units = (int)run->suite.device.info.compute_units;
    return run->suite.device.info.type == TDM_DEVICE_CPU && units > 0 && units < processors
               ? units
               : processors;
}

/* A case of copies, beside memcpy. */
static void run_copy(memory_run *run, const memory_case *item, int waited) {
    char name[MEMORY_MAX_NAME];
    worker_text request = {.length = 0};
    bench_task task;
    bench_result row = memory_row(item, waited, name);
    const int count = item->operation == MEMORY_BOTH ? 1 : 2;
    row.shape[1] = (result_number){"threads", item->threads};
    memory_task(run, item, waited, &request, &task);
    bench_entrant_self(&run->entrants[PEER], "memcpy", "memcpy");
    bench_suite_run(&run->suite, &task, name, run->entrants, count);
    bench_report_case(&run->suite.report, &row, run->entrants, count);
    bench_entrants_release(&run->entrants[PEER], 1);
}

/* A setting as the worker tells it, and what its rows say of it. */
typedef struct found_setting {
    memory_case item;
    worker_text request;
    bench_task task;
    bench_result row;
} found_setting;

/* 0, or -1 with the reason. */
static int find_setting(memory_run *run, const memory_case *item, const memory_setting *which,
                        int waited, const bench_plan *plan, found_setting *found,
                        worker_text *reply) {
    bench_task task;
    found->item = *item;
    found->item.setting = *which;
    memory_task(run, &found->item, waited, &found->request, &task);
    if (bench_entrant_prepare(plan, &run->entrants[BEST], found->request.text, reply) != WORKER_OK)
        return -1;
    memory_setting *const setting = &found->item.setting;
    worker_field(reply->text, "row", setting->row, sizeof setting->row);
    setting->unroll = (int)worker_field_integer(reply->text, "unroll", 0);
    setting->occupancy = (int)worker_field_integer(reply->text, "occupancy", 0);
    setting->ahead = (int)worker_field_integer(reply->text, "ahead", 0);
    memory_task(run, &found->item, waited, &found->request, &found->task);
    found->row.shape[1] =
        (result_number){"width", (double)worker_field_integer(reply->text, "width", 0)};
    found->row.shape[2] = (result_number){"unroll", setting->unroll};
    found->row.shape[3] =
        (result_number){"items", (double)worker_field_integer(reply->text, "items", 0)};
    found->row.shape[4] = (result_number){"occupancy", setting->occupancy};
    found->row.shape[5] = (result_number){"ahead", setting->ahead};
    if (item->operation == MEMORY_STRIDED)
        found->row.shape[6] = (result_number){"stride", item->stride};
    return 0;
}

/* What a row counts, which of sums depends on how the setting rounds up. */
static void count_bytes(bench_result *row, const bench_entrant *entrant) {
    if (row->bytes == 0)
        row->bytes = entrant->work;
}

static int same_setting(const memory_setting *a, const memory_setting *b) {
    return strcmp(a->row, b->row) == 0 && a->unroll == b->unroll && a->occupancy == b->occupancy &&
           a->ahead == b->ahead;
}

/* Which row is of the fastest setting, and which of the default one: what was found first may have been mere chance. */
static void mark_settings(const bench_entrant *entrants, int same, bench_result *best,
                          bench_result *plain) {
    static const result_number is_best = {"setting_best", 1};
    static const result_number is_default = {"setting_default", 1};
    plain->metrics[0] = is_default;
    if (same)
        best->metrics[1] = is_default;
    if (!same && bench_entrant_median(&entrants[PLAIN]) < bench_entrant_median(&entrants[BEST]))
        plain->metrics[1] = is_best;
    else
        best->metrics[0] = is_best;
}

/*
 * A kernel's fastest setting and the default one, beside the loops of OpenMP on a CPU; with --setting default that one alone, as it is
 * without looking for anything faster.
 */
static void run_settings(memory_run *run, const memory_case *item, int waited) {
    static found_setting best, plain;
    char name[MEMORY_MAX_NAME];
    worker_text reply = {.length = 0};
    const int searches = strcmp(run->options->setting, "best") == 0;
    bench_plan plan = bench_settings_plan(&run->options->settings);
    bench_result row = memory_row(item, waited, name);
    plan.label = name;
    best = plain = (found_setting){.row = row};
    if (find_setting(run, item, &plain_setting, waited, &plan, &plain, &reply) != 0 ||
        find_setting(run, item, searches ? &best_setting : &plain_setting, waited, &plan, &best,
                     &reply) != 0) {
        row.impl = "tandem";
        row.status = run->entrants[BEST].status;
        row.reason = reply.text;
        row.max_error = NAN;
        bench_report_row(&run->suite.report, &row);
        return;
    }
    const int same = same_setting(&best.item.setting, &plain.item.setting);
    bench_entrant *const entrants = run->entrants;
    bench_entrant_peer(&entrants[PEER], "stream");
    bench_entrant_self(&entrants[PLAIN], "tandem", "memory");
    entrants[BEST].row = &best.row;
    entrants[PLAIN].row = &plain.row;
    entrants[PLAIN].task = &plain.task;
    plan.task = best.task;
    const int count = !searches ? 1 : same ? 2 : 3;
    bench_run_case(&plan, entrants, count);
    count_bytes(&best.row, &entrants[BEST]);
    count_bytes(&plain.row, &entrants[same ? BEST : PLAIN]);
    count_bytes(&row, &entrants[PEER]);
    if (searches)
        mark_settings(entrants, same, &best.row, &plain.row);
    else
        best.row.metrics[0] = (result_number){"setting_default", 1};
    bench_report_case(&run->suite.report, &row, entrants, count);
    entrants[BEST].row = NULL;
    bench_entrants_release(&entrants[PEER], 2);
}

static void run_chase(memory_run *run, const memory_case *item, int waited) {
    char name[MEMORY_MAX_NAME];
    worker_text request = {.length = 0};
    bench_task task;
    bench_result row = memory_row(item, waited, name);
    memory_task(run, item, waited, &request, &task);
    bench_suite_run(&run->suite, &task, name, run->entrants, 1);
    row.bytes = run->entrants[BEST].work;
    row.metrics[0] = (result_number){"latency_ns", bench_entrant_median(&run->entrants[BEST]) /
                                                       memory_chase_steps(item) * 1e9};
    bench_report_case(&run->suite.report, &row, run->entrants, 1);
}

static void run_strides(memory_run *run, memory_case item, int waited) {
    for (item.stride = 2; item.stride <= 32; item.stride *= 4)
        run_settings(run, &item, waited);
}

/* From what a first cache holds to all of it, by factors of four. */
static void run_chases(memory_run *run, memory_case item, int waited) {
    const size_t largest = item.bytes;
    item.amount = run->options->settings.quick ? QUICK_CHASE : 0;
    for (item.bytes = LEAST_CHASE; item.bytes < largest; item.bytes *= 4)
        run_chase(run, &item, waited);
    item.bytes = largest;
    run_chase(run, &item, waited);
}

static void run_places(memory_run *run, memory_case item, int waited) {
    const char *places = run->options->places;
    char word[16];
    while (cli_next_word(&places, ',', word, sizeof word) == 1) {
        item.pinned = strcmp(word, "pinned") == 0;
        run_copy(run, &item, waited);
    }
}

static void run_case(memory_run *run, const memory_case *item, int waited) {
    switch (item->operation) {
    case MEMORY_STRIDED:
        run_strides(run, *item, waited);
        break;
    case MEMORY_CHASE:
        run_chases(run, *item, waited);
        break;
    case MEMORY_SWEEP:
        memory_sweep(run, item, waited);
        break;
    case MEMORY_BUFFER:
        run_copy(run, item, waited);
        break;
    case MEMORY_UPLOAD:
    case MEMORY_DOWNLOAD:
    case MEMORY_BOTH:
        run_places(run, *item, waited);
        break;
    default:
        run_settings(run, item, waited);
    }
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

static int run_on_device(const char *command, const memory_options *options) {
    static memory_run run;
    run = (memory_run){.options = options,
                       .suite = {.command = command, .settings = &options->settings}};
    const int code = bench_suite_open(&run.suite, "GB/s", NULL);
    if (code != CLI_EXIT_OK)
        return code;
    run.bytes = choose_bytes(&run);
    run.threads = choose_threads(&run);
    bench_entrant_self(&run.entrants[BEST], "tandem", "memory");
    run_all(&run);
    return bench_suite_close(&run.suite, run.entrants, 1);
}

int bench_memory_command(int argc, char **argv) {
    memory_options given = {
        .operations = "copy,scale,add,triad,read,write,strided,gather,chase,sweep,buffer,upload,"
                      "download,both",
        .modes = "pipelined",
        .places = "pinned,pageable",
        .setting = "best",
        .settings = BENCH_SETTINGS_INIT,
    };
    const cli_option options[] = {
        {"operation", CLI_CHOICES, &given.operations, "LIST",
         "kernels of the device, copies within it, to it, from it, and both ways; all by default",
         MEMORY_OPERATION_CHOICES, 0, 0},
        {"bytes", CLI_BYTES, &given.bytes, "N",
         "size of an array, e.g. 256M; four times the largest cache by default", NULL, 1, 1e12},
        {"host", CLI_CHOICES, &given.places, "LIST", "the host's memory of copies",
         "pinned|pageable", 0, 0},
        {"setting", CLI_CHOICE, &given.setting, "WORD",
         "of copy to gather: the best beside the default, or the default alone", "best|default", 0,
         0},
        {"mode", CLI_CHOICES, &given.modes, "LIST", "many calls and one wait, or a wait after each",
         "pipelined|waited", 0, 0},
        BENCH_SETTINGS_OPTIONS(&given.settings),
    };
    const cli_command command = {
        .name = "tandem bench memory",
        .summary = "what memory and the caches give and take, verified",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .notes =
            "Copy to gather stand in two rows where another setting (vector width, vectors at a\n"
            "time, work-items, prefetch) is faster than the default one. Peers: the same loops\n"
            "by OpenMP on the host's cores (impl stream), and memcpy.",
    };
    const cli_outcome outcome = cli_parse(&command, argc, argv, NULL);
    return outcome == CLI_RUN ? run_on_device(command.name, &given) : cli_exit_code(outcome);
}
