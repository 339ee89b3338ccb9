/*
 * `tandem bench pool` measures the cost of an allocation and a free against the number of live
 * blocks. It also measures the memory that the pool reserves for traces of programs.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench_commands.h"
#include "bench/cases/pool_case.h"
#include "bench/harness/bench_peers.h"
#include "bench/harness/bench_settings.h"

/* The contenders, in the order of their rows. */
static const struct {
    const char *name;
    pool_way way;
} contenders_known[] = {
    {"tandem", POOL_TANDEM},
    {"malloc", POOL_MALLOC},
    {"native", POOL_NATIVE},
};

enum {
    POOL_CONTENDERS = sizeof contenders_known / sizeof contenders_known[0],
    CALL_PAIRS = 32768, /* allocations, each with a free, per thread */
    QUICK_PAIRS = 64
};

typedef struct pool_options {
    const char *orders, *live, *threads, *traces;
    bench_settings settings;
} pool_options;

typedef struct pool_run {
    const pool_options *options;
    bench_suite suite;
    bench_contender contenders[POOL_CONTENDERS];
} pool_run;

/* The data for checking a worker's output; `found` receives a copy of the output. */
typedef struct pool_check {
    pool_case item;
    pool_output *found;
} pool_check;

/* Checks an output. It has no counters if the allocator is not the pool. */
static int check(const void *user, const void *bytes, size_t size, double *max_error,
                 worker_text *reason) {
    const pool_check *const own = user;
    pool_output *const found = own->found;
    *max_error = 0;
    if (size != sizeof *found) {
        worker_text_set(reason, "the output has %zu bytes, not %zu", size, sizeof *found);
        return -1;
    }
    memcpy(found, bytes, sizeof *found);
    const int right = own->item.way == POOL_TANDEM   ? found->live == (uint64_t)own->item.live
                      : own->item.way == POOL_REPLAY ? found->peak_reserved >= found->lower_bound
                                                     : 1;
    if (right && found->failures == 0)
        return 0;
    worker_text_set(reason,
                    "the pool holds %llu blocks of %lld, refused %llu, reserved %llu of %llu",
                    (unsigned long long)found->live, (long long)own->item.live,
                    (unsigned long long)found->failures, (unsigned long long)found->peak_reserved,
                    (unsigned long long)found->lower_bound);
    return -1;
}

/* Divides the samples by the operations of a call, so that rows show the time of one operation. */
static void per_operation(bench_contender *contender, uint64_t operations) {
    for (size_t i = 0; operations > 0 && i < contender->series.count; i++)
        contender->series.values[i] /= (double)operations;
}

/* Measures contender i with the case checks[i].item, for each i below `count`. */
static void measure(pool_run *run, const pool_check *checks, int count, const char *name) {
    static worker_text requests[POOL_CONTENDERS];
    bench_task tasks[POOL_CONTENDERS] = {{.request = NULL}};
    for (int i = 0; i < count; i++) {
        requests[i].length = 0;
        pool_case_write(&checks[i].item, &requests[i]);
        bench_device_write(&run->suite.device, &requests[i]);
        tasks[i] = (bench_task){.request = requests[i].text, .verify = check, .user = &checks[i]};
        run->contenders[i].task = &tasks[i];
    }
    bench_suite_run(&run->suite, &tasks[0], name, run->contenders, count);
    for (int i = 0; i < count; i++)
        run->contenders[i].task = NULL;
}

static void run_case(pool_run *run, pool_order order, int64_t live, int64_t threads) {
    pool_check checks[POOL_CONTENDERS];
    pool_output outputs[POOL_CONTENDERS] = {{.operations = 0}};
    char name[64];
    const bench_settings *const settings = &run->options->settings;
    pool_case item = {.order = order, .live = live, .threads = threads};
    item.pairs = settings->quick ? QUICK_PAIRS / threads : CALL_PAIRS;
    item.seed = (uint64_t)settings->seed;
    if (!settings->quick && item.pairs < live / threads)
        item.pairs = live / threads;
    pool_case_name(&item, name, sizeof name);
    for (int i = 0; i < POOL_CONTENDERS; i++) {
        checks[i] = (pool_check){.item = item, .found = &outputs[i]};
        checks[i].item.way = contenders_known[i].way;
    }
    measure(run, checks, POOL_CONTENDERS, name);
    for (int i = 0; i < POOL_CONTENDERS; i++)
        per_operation(&run->contenders[i], pool_case_operations(&checks[i].item));
    const pool_output *const found = &outputs[0];
    const double counted = found->counted > 0 ? (double)found->counted : NAN;
    const bench_result row = {
        .suite = "pool",
        .case_name = name,
        .shape = {{"live", (double)live}, {"threads", (double)threads}},
        .metrics = {{"visited_per_operation", (double)found->visited / counted},
                    {"visited_most", found->counted > 0 ? (double)found->visited_most : NAN}},
        .mode = "pipelined",
        .packing = "none",
    };
    bench_report_case(&run->suite.report, &row, run->contenders, POOL_CONTENDERS);
}

static void run_trace(pool_run *run, const char *trace) {
    const bench_settings *const settings = &run->options->settings;
    char name[64];
    pool_output output = {.operations = 0};
    const pool_output *const found = &output;
    pool_check own = {.item = {.way = POOL_REPLAY, .live = 1, .threads = 1, .pairs = 1},
                      .found = &output};
    own.item.seed = (uint64_t)settings->seed;
    own.item.small = settings->quick;
    snprintf(own.item.trace, sizeof own.item.trace, "%s", trace);
    pool_case_name(&own.item, name, sizeof name);
    measure(run, &own, 1, name);
    per_operation(&run->contenders[0], found->operations);
    const double bound = found->lower_bound > 0 ? (double)found->lower_bound : NAN;
    const bench_result row = {
        .suite = "pool",
        .case_name = name,
        .shape = {{"events", (double)found->operations}},
        .metrics = {{"peak_reserved", (double)found->peak_reserved},
                    {"lower_bound", (double)found->lower_bound},
                    {"reserved_over_bound", (double)found->peak_reserved / bound}},
        .mode = "pipelined",
        .packing = "none",
    };
    bench_report_case(&run->suite.report, &row, run->contenders, 1);
}

/* ---- the command ----------------------------------------------------------------------------- */

/*
 * Reads the next integer of a list, within [1, most]. Returns 0 at the end of the list, and -1 for
 * an invalid word.
 */
static int next_number(const char **list, int64_t most, int64_t *number) {
    char word[24];
    char *end;
    const int found = cli_next_word(list, ',', word, sizeof word);
    if (found != 1)
        return found;
    *number = strtoll(word, &end, 10);
    return word[0] >= '0' && word[0] <= '9' && *end == '\0' && *number >= 1 && *number <= most ? 1
                                                                                               : -1;
}

static int is_number_list(const char *list, int64_t most) {
    int64_t number;
    int found;
    while ((found = next_number(&list, most, &number)) == 1) {
    }
    return found == 0;
}

static void run_orders(pool_run *run) {
    const char *orders = run->options->orders;
    char word[24];
    while (cli_next_word(&orders, ',', word, sizeof word) == 1) {
        pool_order order = POOL_LIFO;
        const char *numbers = run->options->live;
        int64_t live;
        if (pool_order_parse(word, &order) != 0)
            continue;
        while (next_number(&numbers, POOL_MAX_LIVE, &live) == 1) {
            const char *counts = run->options->threads;
            int64_t threads;
            while (next_number(&counts, POOL_MAX_THREADS, &threads) == 1)
                if (threads <= live)
                    run_case(run, order, live, threads);
        }
    }
}

static int run_on_device(const char *command, const pool_options *options) {
    static pool_run run;
    const char *traces = options->traces;
    char word[24];
    run = (pool_run){.options = options,
                     .suite = {.command = command, .settings = &options->settings}};
    const int code = bench_suite_open(&run.suite, "ops/s", NULL);
    if (code != CLI_EXIT_OK)
        return code;
    for (int i = 0; i < POOL_CONTENDERS; i++)
        bench_contender_self(&run.contenders[i], contenders_known[i].name, "pool");
    run_orders(&run);
    while (cli_next_word(&traces, ',', word, sizeof word) == 1)
        if (strcmp(word, "none") != 0)
            run_trace(&run, word);
    return bench_suite_close(&run.suite, run.contenders, POOL_CONTENDERS);
}

int bench_pool_command(int argc, char **argv) {
    pool_options given = {
        .orders = "lifo,random,handover",
        .live = "100,1000,10000,100000",
        .threads = "1,2",
        .traces = "inference,bare-inference",
        .settings = BENCH_SETTINGS_INIT,
    };
    char trace_choices[64];
    snprintf(trace_choices, sizeof trace_choices, "%s|none", pool_trace_names);
    char order_choices[48];
    snprintf(order_choices, sizeof order_choices, "%s|none", pool_order_names);
    const cli_option options[] = {
        {"order", CLI_CHOICES, &given.orders, "LIST", "order in which blocks are freed",
         order_choices, 0, 0},
        {"live", CLI_TEXT, &given.live, "LIST", "numbers of live blocks", NULL, 0, 0},
        {"threads", CLI_TEXT, &given.threads, "LIST", "numbers of threads that share the pool",
         NULL, 0, 0},
        {"trace", CLI_CHOICES, &given.traces, "LIST", "allocation traces of programs to replay",
         trace_choices, 0, 0},
        BENCH_SETTINGS_OPTIONS(&given.settings),
    };
    const cli_command command = {
        .name = "tandem bench pool",
        .summary = "cost of allocations, and memory that the pool reserves for traces of programs",
        CLI_OPTIONS(options),
        .notes = "A row's time is that of one allocation or free of 256 bytes to 64 KiB, compared "
                 "with malloc and\n"
                 "the driver.",
    };
    const cli_outcome outcome = cli_parse(&command, argc, argv, NULL);
    if (outcome != CLI_RUN)
        return cli_exit_code(outcome);
    if (!is_number_list(given.live, POOL_MAX_LIVE))
        return cli_refuse(command.name, "--live does not take '%s': give whole numbers up to %d",
                          given.live, POOL_MAX_LIVE);
    if (!is_number_list(given.threads, POOL_MAX_THREADS))
        return cli_refuse(command.name, "--threads does not take '%s': give whole numbers up to %d",
                          given.threads, POOL_MAX_THREADS);
    return run_on_device(command.name, &given);
}
