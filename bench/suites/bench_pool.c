/*
 * `tandem bench pool`: what an allocation and a free cost, against the number of live blocks, and how much memory traces of
 * programs make the pool reserve.
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench_commands.h"
#include "bench/cases/pool_case.h"
#include "bench/harness/bench_peers.h"
#include "bench/harness/bench_settings.h"

static const char command_name[] = "tandem bench pool";

/* In the order of their rows. */
static const struct {
    const char *name;
    pool_way way;
} entrants_known[] = {
    {"tandem", POOL_TANDEM}, {"malloc", POOL_MALLOC}, {"native", POOL_NATIVE},
    {"touch", POOL_TOUCH},   {"alone", POOL_TANDEM}, /* the pool worked by one thread, beside several */
};

enum {
    POOL_ENTRANTS = sizeof entrants_known / sizeof entrants_known[0],
    TOUCH = 3,          /* the entrant */
    CALL_PAIRS = 32768, /* of a thread */
    QUICK_PAIRS = 64
};

typedef struct pool_options {
    const char *orders, *live, *threads, *traces;
    bench_settings settings;
} pool_options;

typedef struct pool_run {
    const pool_options *options;
    bench_entrant *entrants;
    pool_way ways[POOL_ENTRANTS]; /* theirs */
    int count;                    /* of them; the last is the one alone */
    bench_device device;
    bench_report report;
    FILE *summary; /* lines for under the table */
} pool_run;

/* What a worker's output is checked against, and what it said of the pool. */
typedef struct pool_check {
    const pool_case *item;
    uint64_t
        requested; /* bytes of the live blocks, where they can be told beforehand; 0: they cannot */
    pool_output *found; /* of the first entrant that was checked with it */
} pool_check;

/* ---- checking ------------------------------------------------------------------------------------------ */

/* After the first call a thread has the blocks of all its sizes but those that the order took. */
static uint64_t requested_bytes(const pool_case *item) {
    uint64_t sum = 0;
    for (int64_t thread = 0; thread < item->threads; thread++) {
        const int64_t live = pool_case_live(item, thread);
        const int64_t row = pool_case_row(item, live);
        const int64_t taken = live + row * ((item->pairs + row - 1) / row);
        if (item->order == POOL_RANDOM || item->order == POOL_HANDOVER)
            return 0;
        /* Of LIFO, the old part and the last row; of FIFO, the last `live`. */
        const int64_t old = item->order == POOL_LIFO ? live - row : 0;
        for (int64_t i = 0; i < old; i++)
            sum += pool_case_size(item, thread, (uint64_t)i % 4096);
        for (int64_t i = taken - (live - old); i < taken; i++)
            sum += pool_case_size(item, thread, (uint64_t)i % 4096);
    }
    return sum;
}

static int check(const void *user, const void *bytes, size_t size, double *max_error,
                 worker_text *reason) {
    const pool_check *const own = user;
    pool_output output;
    *max_error = 0;
    if (size != sizeof output) {
        worker_text_set(reason, "the output has %zu bytes, not %zu", size, sizeof output);
        return -1;
    }
    memcpy(&output, bytes, sizeof output);
    *own->found = output;
    if (output.failures > 0) {
        worker_text_set(reason, "%llu allocations were refused",
                        (unsigned long long)output.failures);
        return -1;
    }
    if (own->item->way == POOL_REPLAY && output.peak_reserved >= output.lower_bound)
        return 0;
    if (own->item->way == POOL_TANDEM && output.live == (uint64_t)own->item->live &&
        (own->requested == 0 || output.requested == own->requested))
        return 0;
    worker_text_set(reason,
                    "the pool holds %llu blocks of %llu bytes, %lld of %llu are right; it reserved "
                    "%llu for %llu",
                    (unsigned long long)output.live, (unsigned long long)output.requested,
                    (long long)own->item->live, (unsigned long long)own->requested,
                    (unsigned long long)output.peak_reserved,
                    (unsigned long long)output.lower_bound);
    return -1;
}

/* What is measured beside the pool has nothing to check but that it answered. */
static int check_nothing(const void *user, const void *bytes, size_t size, double *max_error,
                         worker_text *reason) {
    (void)user;
    (void)bytes;
    *max_error = 0;
    if (size == sizeof(pool_output))
        return 0;
    worker_text_set(reason, "the output has %zu bytes, not %zu", size, sizeof(pool_output));
    return -1;
}

/* ---- cases ---------------------------------------------------------------------------------------------- */

static void write_request(const pool_run *run, const pool_case *item, worker_text *request) {
    pool_case_write(item, request);
    bench_device_write(&run->device, request);
}

/* Calls do many operations: rows tell the time of one. */
static void per_operation(bench_entrant *entrant, uint64_t operations) {
    for (size_t i = 0; operations > 0 && i < entrant->series.count; i++)
        entrant->series.values[i] /= (double)operations;
}

static double median_of(const bench_entrant *entrant) {
    return entrant->status == RESULT_OK
               ? summarize_samples(entrant->series.values, entrant->series.count).median
               : NAN;
}

static void report_case(pool_run *run, const pool_case *item, int count, const pool_output *found) {
    const double visited =
        found->counted > 0 ? (double)found->visited / (double)found->counted : NAN;
    const double touch = median_of(&run->entrants[TOUCH]);
    const bool has_alone = count == run->count;
    const double alone = has_alone ? median_of(&run->entrants[count - 1]) : NAN;
    char name[64], beside[64] = "";
    pool_case_name(item, name, sizeof name);
    const bench_result row = {
        .suite = "pool",
        .case_name = name,
        .shape = {{"live", (double)item->live}, {"threads", (double)item->threads}},
        .metrics = {{"visited_per_operation", visited},
                    {"visited_most", found->counted > 0 ? (double)found->visited_most : NAN},
                    {"touch_s", touch},
                    {has_alone ? "alone_s" : NULL, alone}},
        .mode = "pipelined",
        .packing = "none",
    };
    bench_report_case(&run->report, &row, run->entrants, count);
    if (has_alone)
        snprintf(beside, sizeof beside, " (one thread alone: %.0f ns)", 1e9 * alone);
    fprintf(run->summary,
            "%s: %.0f ns%s, %.2f ranges visited (at most %llu), a dependent touch takes %.0f ns\n",
            name, 1e9 * median_of(&run->entrants[0]), beside, visited,
            (unsigned long long)found->visited_most, 1e9 * touch);
}

/* What the entrant does in the case. */
static pool_case case_of(const pool_run *run, const pool_case *item, int entrant) {
    pool_case each = *item;
    each.way = run->ways[entrant];
    if (entrant == run->count - 1) {
        each.threads = 1;
        each.pairs *= item->threads;
    }
    return each;
}

static bool is_checked(pool_way way) {
    return way == POOL_TANDEM;
}

static void run_case(pool_run *run, pool_order order, int64_t live, int64_t threads) {
    static worker_text requests[POOL_ENTRANTS];
    bench_task tasks[POOL_ENTRANTS];
    pool_case items[POOL_ENTRANTS];
    pool_check checks[POOL_ENTRANTS];
    pool_output found[POOL_ENTRANTS] = {{.operations = 0}};
    char name[64];
    const int count = threads > 1 ? run->count : run->count - 1;
    const bench_settings *const settings = &run->options->settings;
    pool_case item = {.order = order, .live = live, .threads = threads};
    item.pairs = settings->quick ? QUICK_PAIRS / threads : CALL_PAIRS;
    item.seed = (uint64_t)settings->seed;
    if (!settings->quick && item.pairs < live / threads)
        item.pairs = live / threads;
    for (int i = 0; i < count; i++) {
        items[i] = case_of(run, &item, i);
        checks[i] = (pool_check){
            .item = &items[i], .requested = requested_bytes(&items[i]), .found = &found[i]};
        requests[i] = (worker_text){.length = 0};
        write_request(run, &items[i], &requests[i]);
        tasks[i] = (bench_task){.request = requests[i].text,
                                .verify = is_checked(items[i].way) ? check : check_nothing,
                                .user = &checks[i]};
        run->entrants[i].task = &tasks[i];
    }
    pool_case_name(&item, name, sizeof name);
    bench_plan plan = bench_settings_plan(settings);
    plan.task = tasks[0];
    plan.label = name;
    bench_run_case(&plan, run->entrants, count);
    for (int i = 0; i < count; i++)
        per_operation(&run->entrants[i], pool_case_operations(&items[i]));
    report_case(run, &item, count, &found[0]);
    for (int i = 0; i < count; i++)
        run->entrants[i].task = NULL;
}

static void report_trace(pool_run *run, const char *name, const pool_output *found) {
    const double ratio =
        found->lower_bound > 0 ? (double)found->peak_reserved / (double)found->lower_bound : NAN;
    const bench_result row = {
        .suite = "pool",
        .case_name = name,
        .shape = {{"events", (double)found->operations}},
        .metrics = {{"peak_reserved", (double)found->peak_reserved},
                    {"lower_bound", (double)found->lower_bound},
                    {"reserved_over_bound", ratio}},
        .mode = "pipelined",
        .packing = "none",
    };
    bench_report_case(&run->report, &row, run->entrants, 1);
    fprintf(run->summary, "%s: %.1f MiB reserved at most, %.3f of the lower bound (goal %.2f)\n",
            name, (double)found->peak_reserved / (1 << 20), ratio, POOL_TRACE_BAR);
}

static void run_trace(pool_run *run, const char *trace) {
    worker_text request = {.length = 0};
    char name[64];
    pool_output found = {.operations = 0};
    const bench_settings *const settings = &run->options->settings;
    pool_case item = {.way = POOL_REPLAY, .live = 1, .threads = 1, .pairs = 1};
    item.seed = (uint64_t)settings->seed;
    item.small = settings->quick;
    snprintf(item.trace, sizeof item.trace, "%s", trace);
    const pool_check expected = {.item = &item, .found = &found};
    write_request(run, &item, &request);
    pool_case_name(&item, name, sizeof name);
    bench_plan plan = bench_settings_plan(settings);
    plan.task = (bench_task){.request = request.text, .verify = check, .user = &expected};
    plan.label = name;
    bench_run_case(&plan, run->entrants, 1);
    per_operation(&run->entrants[0], found.operations);
    report_trace(run, name, &found);
}

/* ---- the command ---------------------------------------------------------------------------------------- */

/* The next number of a list of whole numbers within [1, most]; 0 at its end, -1 where a word is none. */
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

static void name_entrants(pool_run *run) {
    for (int i = 0; i < POOL_ENTRANTS; i++) {
        bench_entrant_self(&run->entrants[run->count], entrants_known[i].name, "pool");
        run->ways[run->count++] = entrants_known[i].way;
    }
}

static int run_on_device(const pool_options *options) {
    static bench_entrant entrants[POOL_ENTRANTS];
    static pool_run run;
    char *summary = NULL;
    size_t summary_bytes = 0;
    run = (pool_run){.options = options, .entrants = entrants};
    const int code = bench_settings_open(command_name, &options->settings, "ops/s", NULL,
                                         &run.device, &run.report);
    if (code != CLI_EXIT_OK)
        return code;
    run.summary = open_memstream(&summary, &summary_bytes);
    if (run.summary == NULL) {
        fprintf(stderr, "%s: out of memory\n", command_name);
        return CLI_EXIT_FAILED;
    }
    name_entrants(&run);
    run_orders(&run);
    const char *traces = options->traces;
    char word[24];
    while (cli_next_word(&traces, ',', word, sizeof word) == 1)
        if (strcmp(word, "none") != 0)
            run_trace(&run, word);
    bench_entrants_release(entrants, run.count);
    const int closed = bench_report_close(&run.report, command_name, options->settings.json);
    fclose(run.summary);
    if (options->settings.json == NULL || strcmp(options->settings.json, "-") != 0)
        fputs(summary, stdout);
    free(summary);
    return closed;
}

int bench_pool_command(int argc, char **argv) {
    pool_options given = {
        .orders = "lifo,fifo,random,handover",
        .live = "100,1000,10000,100000",
        .threads = "1,2",
        .traces = "inference,training,bare-inference,bare-training",
        .settings = BENCH_SETTINGS_INIT,
    };
    char trace_choices[64];
    snprintf(trace_choices, sizeof trace_choices, "%s|none", pool_trace_names);
    char order_choices[48];
    snprintf(order_choices, sizeof order_choices, "%s|none", pool_order_names);
    const cli_option options[] = {
        {"order", CLI_CHOICES, &given.orders, "LIST", "in which blocks are freed", order_choices, 0,
         0},
        {"live", CLI_TEXT, &given.live, "LIST", "numbers of live blocks", NULL, 0, 0},
        {"threads", CLI_TEXT, &given.threads, "LIST", "numbers of threads that share the pool",
         NULL, 0, 0},
        {"trace", CLI_CHOICES, &given.traces, "LIST", "what programs allocate, replayed",
         trace_choices, 0, 0},
        BENCH_SETTINGS_OPTIONS(&given.settings),
    };
    const cli_command command = {
        .name = command_name,
        .summary = "what allocating costs, and what traces of programs make the pool reserve",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .notes =
            "A row's time is that of one operation, an allocation or a free, of 256 bytes to 64 "
            "KiB. Beside\n"
            "the pool, over memory that is only counted: malloc, the driver (each block a native\n"
            "allocation of the device), and one load that waits for the one before from as many "
            "headers.\n"
            "Beside several threads `alone` is one thread on as many blocks.",
    };
    const cli_outcome outcome = cli_parse(&command, argc, argv, NULL);
    if (outcome != CLI_RUN)
        return cli_exit_code(outcome);
    if (!is_number_list(given.live, POOL_MAX_LIVE))
        return cli_refuse(command_name, "--live does not take '%s': give whole numbers up to %d",
                          given.live, POOL_MAX_LIVE);
    if (!is_number_list(given.threads, POOL_MAX_THREADS))
        return cli_refuse(command_name, "--threads does not take '%s': give whole numbers up to %d",
                          given.threads, POOL_MAX_THREADS);
    return run_on_device(&given);
}
