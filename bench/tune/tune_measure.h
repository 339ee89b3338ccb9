/*
 * How `tandem tune` measures a choice: in a worker process, which may crash, hang or compute nonsense. Nothing is timed before its
 * result was right.
 */
#ifndef TANDEM_BENCH_TUNE_TUNE_MEASURE_H
#define TANDEM_BENCH_TUNE_TUNE_MEASURE_H

#include "bench/protocol/worker_process.h"
#include "bench/tune/tune_search.h"

typedef struct tune_bench {
    /* Set by the caller. */
    const char *program;          /* the worker, with these arguments and variables */
    const char *const *arguments; /* NULL-terminated */
    const char *const *variables; /* "NAME=value", NULL-terminated */
    const char *request;          /* fields of `describe` but the variant */
    int (*verify)(const void *user, const void *bytes, size_t size, double *max_error,
                  worker_text *reason);
    const void *user;      /* for verify */
    double timeout_s;      /* for an answer; preparing a case may take several times as long */
    double sample_seconds; /* about so long is a sample */
    int samples;           /* of a choice in the search */
    int final_samples;     /* of each in the comparison at the end */

    worker_process *worker; /* started when needed, and again after it died */
    worker_text reason;     /* why the last choice was refused or failed */
} tune_bench;

/*
 * Measure a choice; NULL is what the library takes by itself. *seconds is the median time of one run. One that takes longer than
 * `limit` in its first runs is not sampled further. bench->reason says why there is no time.
 */
tune_verdict tune_bench_measure(tune_bench *bench, const tdm_choice *choice, double limit,
                                double *seconds);

typedef struct tune_comparison {
    double own_s, tuned_s;             /* medians of one run */
    char own_variant[TDM_CHOICE_TEXT]; /* what the library took */
} tune_comparison;

/*
 * The library's own choice against `best`, each in its own process, in turn: final_samples of each. Returns 0, or -1 with
 * bench->reason set.
 */
int tune_bench_compare(tune_bench *bench, const tdm_choice *best, tune_comparison *comparison);

/* Let the worker go. */
void tune_bench_close(tune_bench *bench);

#endif
