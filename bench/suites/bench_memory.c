/*
 * `tandem bench memory` measures the bandwidth and latency of memory, with kernels on the device
 * and copies to and from it.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <tandem/tandem.h>

#include "bench/analysis/main_memory.h"
#include "bench/bench_commands.h"
#include "bench/cases/memory_case.h"
#include "bench/harness/bench_peers.h"
#include "bench/harness/bench_settings.h"
#include "bench/record/environment_record.h"

enum {
    SELF = 0,
    PEER = 1,
    MIN_CHASE = 16 << 10,    /* bytes */
    QUICK_CHASE = 1024,      /* steps */
    MIN_OF_UNIT = 4 << 10,   /* sweep: least bytes per compute unit */
    CALL_OF_UNIT = 32 << 20, /* sweep: bytes that a call reads per compute unit */
    MIN_CALL = 256 << 20,    /* sweep: least bytes that a call reads */
    QUICK_SHARE = 256        /* sweep: divisor of those bytes in a quick run */
};

static const int64_t mebibyte = 1 << 20;

typedef struct memory_options {
    const char *operations;
    const char *places;
    int64_t bytes; /* 0: chosen by the caches */
    bench_settings settings;
} memory_options;

typedef struct memory_run {
    const memory_options *options;
    bench_contender contenders[2]; /* the first is Tandem */
    bench_suite suite;
    int64_t bytes;
    int threads;
} memory_run;

/*
 * Returns the size of each array: four times the largest cache of host and device, but at most an
 * eighth of the device's memory.
 */
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

/* Sets up the task; `request` and `item` must outlive it. */
static void memory_task(const memory_run *run, const memory_case *item, worker_text *request,
                        bench_task *task) {
    worker_text_set(request, "%s", "");
    memory_case_write(item, request);
    bench_device_write(&run->suite.device, request);
    *task = (bench_task){
        .request = request->text,
        .verify = memory_case_check,
        .user = item,
    };
}

/* Returns the fields that all rows of a case share. */
static bench_result memory_row(const memory_case *item, char name[MEMORY_MAX_NAME]) {
    memory_case_name(item, name);
    return (bench_result){
        .suite = "memory",
        .case_name = name,
        .dtype = memory_operation_is_kernel(item->operation) ? "f32" : NULL,
        .shape = {{"bytes", (double)item->bytes}},
        .mode = "pipelined",
        .packing = "none",
        .bytes = memory_case_traffic(item),
    };
}

/*
 * Measures a kernel against OpenMP loops on the CPU, or a copy against memcpy. The bytes that a
 * summing kernel reads depend on how its grid rounds up.
 */
static void run_with_peer(memory_run *run, const memory_case *item) {
    char name[MEMORY_MAX_NAME];
    worker_text request = {.length = 0};
    bench_task task;
    bench_contender *const contenders = run->contenders;
    bench_result row = memory_row(item, name), of_peer;
    memory_task(run, item, &request, &task);
    if (memory_operation_is_kernel(item->operation)) {
        bench_contender_peer(&contenders[PEER], "stream");
    } else {
        bench_contender_self(&contenders[PEER], "memcpy", "memcpy");
        row.shape[1] = (result_number){"threads", item->threads};
    }
    of_peer = row;
    contenders[PEER].row = &of_peer;
    bench_suite_run(&run->suite, &task, name, contenders, 2);
    if (memory_operation_sums(item->operation)) {
        row.bytes = contenders[SELF].work;
        of_peer.bytes = contenders[PEER].work;
    }
    bench_report_case(&run->suite.report, &row, contenders, 2);
    bench_contenders_release(&contenders[PEER], 1);
    contenders[PEER].row = NULL;
}

/* Measures a chase, or a point of the sweep. */
static void run_working_set(memory_run *run, const memory_case *item) {
    char name[MEMORY_MAX_NAME];
    worker_text request = {.length = 0};
    bench_task task;
    bench_result row = memory_row(item, name);
    memory_task(run, item, &request, &task);
    bench_suite_run(&run->suite, &task, name, run->contenders, 1);
    row.bytes = run->contenders[SELF].work;
    if (item->operation == MEMORY_CHASE)
        row.metrics[0] =
            (result_number){"latency_ns", bench_contender_median(&run->contenders[SELF]) /
                                              memory_chase_steps(item) * 1e9};
    bench_report_case(&run->suite.report, &row, run->contenders, 1);
}

/* Runs chases from the size of a first-level cache to all bytes, by factors of four. */
static void run_chases(memory_run *run, memory_case item) {
    const size_t largest = item.bytes;
    item.amount = run->options->settings.quick ? QUICK_CHASE : 0;
    for (item.bytes = MIN_CHASE; item.bytes < largest; item.bytes *= 4)
        run_working_set(run, &item);
    item.bytes = largest;
    run_working_set(run, &item);
}

/*
 * Reads working sets from a few KiB to all bytes, two per octave: powers of two, and one and a half
 * times those.
 */
static void run_sweep(memory_run *run, memory_case item) {
    const uint32_t known = run->suite.device.info.compute_units;
    const double units = known > 0 ? known : 1;
    const size_t largest = item.bytes;
    size_t power = 4096;
    item.amount = (int64_t)fmax(CALL_OF_UNIT * units, MIN_CALL) /
                  (run->options->settings.quick ? QUICK_SHARE : 1);
    while ((double)power < MIN_OF_UNIT * units)
        power *= 2;
    for (; power < largest; power *= 2) {
        item.bytes = power;
        run_working_set(run, &item);
        item.bytes = power + power / 2;
        if (item.bytes < largest)
            run_working_set(run, &item);
    }
    item.bytes = largest;
    run_working_set(run, &item);
}

static void run_places(memory_run *run, memory_case item) {
    const char *places = run->options->places;
    char word[16];
    while (cli_next_word(&places, ',', word, sizeof word) == 1) {
        item.pinned = strcmp(word, "pinned") == 0;
        run_with_peer(run, &item);
    }
}

static void run_case(memory_run *run, const memory_case *item) {
    switch (item->operation) {
    case MEMORY_CHASE:
        run_chases(run, *item);
        break;
    case MEMORY_SWEEP:
        run_sweep(run, *item);
        break;
    case MEMORY_UPLOAD:
    case MEMORY_DOWNLOAD:
        run_places(run, *item);
        break;
    default:
        run_with_peer(run, item);
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
        memory_operation_parse(word, &item.operation);
        run_case(run, &item);
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
    bench_contender_self(&run.contenders[SELF], "tandem", "memory");
    run_all(&run);
    return bench_suite_close(&run.suite, run.contenders, 1);
}

int bench_memory_command(int argc, char **argv) {
    memory_options given = {
        .operations = "copy,scale,add,triad,read,write,gather,chase,sweep,buffer,upload,"
                      "download",
        .places = "pinned,pageable",
        .settings = BENCH_SETTINGS_INIT,
    };
    const cli_option options[] = {
        {"operation", CLI_CHOICES, &given.operations, "LIST",
         "memory kernels, and copies within, to and from the device; all by default",
         MEMORY_OPERATION_CHOICES, 0, 0},
        {"bytes", CLI_BYTES, &given.bytes, "N",
         "size of an array, e.g. 256M; four times the largest cache by default", NULL, 1, 1e12},
        {"host", CLI_CHOICES, &given.places, "LIST", "kind of host memory for copies",
         "pinned|pageable", 0, 0},
        BENCH_SETTINGS_OPTIONS(&given.settings),
    };
    const cli_command command = {
        .name = "tandem bench memory",
        .summary = "bandwidth and latency of memory and caches, verified",
        CLI_OPTIONS(options),
        .notes = "Compared with: the same loops with OpenMP on the host's cores (impl stream), and "
                 "memcpy.",
    };
    const cli_outcome outcome = cli_parse(&command, argc, argv, NULL);
    return outcome == CLI_RUN ? run_on_device(command.name, &given) : cli_exit_code(outcome);
}
