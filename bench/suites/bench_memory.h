/* Shared by the files of `tandem bench memory`. */
#ifndef TANDEM_BENCH_SUITES_BENCH_MEMORY_H
#define TANDEM_BENCH_SUITES_BENCH_MEMORY_H

#include "bench/cases/memory_case.h"
#include "bench/harness/bench_settings.h"

enum {
    MEMORY_ENTRANTS = 2
};

typedef struct memory_options {
    const char *operations;
    const char *modes;
    const char *places;
    int64_t bytes; /* 0: chosen by the caches */
    bench_settings settings;
} memory_options;

typedef struct memory_run {
    const memory_options *options;
    bench_entrant entrants[MEMORY_ENTRANTS]; /* the first is Tandem */
    bench_suite suite;
    int64_t bytes;
    int threads;
} memory_run;

/* A case's task; `request` and `item` must outlive it. */
void memory_task(const memory_run *run, const memory_case *item, int waited, worker_text *request,
                 bench_task *task);

/* What the rows of a case have in common. */
bench_result memory_row(const memory_case *item, int waited, char name[MEMORY_MAX_NAME]);

/* Reading working sets from a few KiB to the case's bytes; finds and names the caches. */
void memory_sweep(memory_run *run, const memory_case *item, int waited);

#endif
