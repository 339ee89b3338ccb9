/* The fastest setting of a kernel of the memory suite: every row that the device can run, in all its settings. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "bench/workers/stream_run.h"

enum {
    TRIES = 3, /* the first pays for what is warmed up */
    FINALISTS = 4,
    FINAL_TRIES = 8,
    PREFETCH_AHEAD = 8192,
    PREFETCH_PLACES = 512 /* of gather, in bytes of its places */
};

/* By so much another setting must be faster than the default one to be taken for it. */
static const double least_gain = 0.02;

/* On a slow device the search ends with what it has tried: settings for so long, and finals for so long. */
static const double search_s = 3;
static const double final_s = 1.5;

/* A setting so many times slower than the slowest finalist is not tried again, be its first call one of warming up or not. */
static const double hopeless_first = 3;
static const double hopeless = 1.3;

typedef struct candidate {
    memory_setting setting;
    double seconds; /* of its shortest call */
} candidate;

/* The fastest so far, the default one at [0] whatever its time is. */
typedef struct field {
    tdm_device *device;
    tdm_stream *stream;
    const memory_case *item;
    stream_run *run;
    double end_s; /* of now_seconds: then nothing else is tried */
    candidate best[1 + FINALISTS];
} field;

static double now_seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/*
 * Seconds of the shortest of some calls, infinite where it cannot run; the first of more than one is not looked at, unless it takes
 * so long beside `bar` that the others would not help.
 */
static double time_setting(const field *all, const memory_setting *setting, int tries, double bar) {
    double shortest = INFINITY;
    if (stream_run_set(all->device, all->item, setting, all->run) != TDM_OK)
        return INFINITY;
    for (int attempt = 0; attempt < tries; attempt++) {
        const double start = now_seconds();
        if (stream_run_enqueue(all->run, all->item, all->stream) != TDM_OK ||
            tdm_stream_synchronize(all->stream) != TDM_OK)
            return INFINITY;
        const double seconds = now_seconds() - start;
        if ((attempt > 0 || tries == 1) && seconds < shortest)
            shortest = seconds;
        if (seconds > (attempt == 0 ? hopeless_first : hopeless) * bar)
            return fmin(shortest, seconds);
    }
    return shortest;
}

/* Take the place of the slowest finalist. */
static void enter(field *all, const memory_setting *setting) {
    candidate *slowest = &all->best[1];
    for (int i = 2; i <= FINALISTS; i++)
        if (all->best[i].seconds > slowest->seconds)
            slowest = &all->best[i];
    const double seconds = time_setting(all, setting, TRIES, slowest->seconds);
    if (seconds < slowest->seconds)
        *slowest = (candidate){*setting, seconds};
}

/* All settings of a row. */
static void enter_row(field *all, const tdm_variant *row) {
    static const int unrolls[] = {1, 4, 8};
    const int ahead = all->item->operation == MEMORY_GATHER ? PREFETCH_PLACES : PREFETCH_AHEAD;
    const int most_ahead = row->parameters[STREAM_P_PREFETCH] ? ahead : 0;
    const size_t unroll_count = row->parameters[STREAM_P_EIGHT] ? 3 : 2;
    memory_setting setting = {.unroll = 0};
    snprintf(setting.row, sizeof setting.row, "%s", row->name);
    for (size_t u = 0; u < unroll_count; u++)
        for (setting.occupancy = 1; setting.occupancy <= 3; setting.occupancy++)
            for (setting.ahead = 0; setting.ahead <= most_ahead; setting.ahead += ahead) {
                setting.unroll = unrolls[u];
                if (now_seconds() < all->end_s)
                    enter(all, &setting);
            }
}

/* In turn, so that a slower moment of the machine meets all of them. */
static void run_final(field *all) {
    for (int i = 0; i <= FINALISTS; i++)
        if (isfinite(all->best[i].seconds))
            all->best[i].seconds = time_setting(all, &all->best[i].setting, TRIES, INFINITY);
    for (int round = 0; round < FINAL_TRIES && now_seconds() < all->end_s; round++)
        for (int i = 0; i <= FINALISTS; i++) {
            candidate *const each = &all->best[i];
            if (isfinite(each->seconds))
                each->seconds = fmin(each->seconds, time_setting(all, &each->setting, 1, INFINITY));
        }
}

tdm_status stream_run_find(tdm_device *device, tdm_stream *stream, const memory_case *item,
                           memory_setting *best, stream_run *run) {
    field all = {.device = device, .stream = stream, .item = item, .run = run};
    all.end_s = now_seconds() + search_s;
    int winner = 0;
    for (int i = 1; i <= FINALISTS; i++)
        all.best[i].seconds = INFINITY;
    for (int i = 0; i < tdm_variant_count; i++) {
        const tdm_variant *const row = &tdm_variants[i];
        if (stream_row_does(row, item->operation) &&
            (row->requires & ~device->info.capabilities) == 0)
            enter_row(&all, row);
    }
    all.end_s = now_seconds() + final_s;
    run_final(&all);
    for (int i = 1; i <= FINALISTS; i++)
        if (all.best[i].seconds < (1 - least_gain) * all.best[0].seconds &&
            all.best[i].seconds < all.best[winner].seconds)
            winner = i;
    *best = all.best[winner].setting;
    return stream_run_set(device, item, best, run);
}
