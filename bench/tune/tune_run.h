/* Tuning one problem after the other: search, comparison with the library's own choice, the row of the tuning file. */
#ifndef TANDEM_BENCH_TUNE_TUNE_RUN_H
#define TANDEM_BENCH_TUNE_TUNE_RUN_H

#include <stdio.h>

#include "bench/protocol/worker_process.h"
#include "bench/tune/tune_file.h"
#include "bench/tune/tune_shapes.h"
#include "bench/tune/tune_space.h"

/*
 * A choice is measured in a worker process, which may crash, hang or compute nonsense. Nothing is timed before its result was
 * right.
 */
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
    int samples;           /* of a choice in the search, and of each turn of the comparison */

    worker_process *worker;        /* started when needed, and again after it died */
    worker_text reason;            /* why the last choice was refused or failed */
    char variant[TDM_CHOICE_TEXT]; /* that the worker named last */
} tune_bench;

/*
 * Measure a choice; NULL is what the library takes by itself. *seconds is the median time of one run. One that takes longer than
 * `limit` in its first runs is not sampled further. bench->reason says why there is no time.
 */
tune_verdict tune_bench_measure(tune_bench *bench, const tdm_choice *choice, double limit,
                                double *seconds);

enum {
    TUNE_TURNS = 3
};

typedef struct tune_comparison {
    double own_s, tuned_s;             /* medians of one run */
    char own_variant[TDM_CHOICE_TEXT]; /* what the library took */
} tune_comparison;

/*
 * The library's own choice against `best`, in turn, TUNE_TURNS of each. Returns 0, or -1 with bench->reason set.
 */
int tune_bench_compare(tune_bench *bench, const tdm_choice *best, tune_comparison *comparison);

/* Let the worker go. */
void tune_bench_close(tune_bench *bench);

typedef enum tune_status {
    TUNE_DONE,
    TUNE_SKIPPED, /* the file has it, it does not fit into memory, or the time was over */
    TUNE_BROKEN   /* the library's own choice fails, or nothing could be measured */
} tune_status;

/* What came of one problem. */
typedef struct tune_outcome {
    tune_status status;
    gemm_case item;
    tune_comparison comparison;
    char choice[TDM_CHOICE_TEXT]; /* what the file now has */
    int trials, failures;
    char reason[256]; /* of a problem that is not done */
} tune_outcome;

typedef struct tune_run {
    const char *command;
    const char *device;          /* text for the rows */
    const tdm_device_info *info; /* limits for the choices */
    const char *device_fields;   /* of the worker's request */
    tune_bench bench;            /* all but request, verify and user */
    gemm_oracle oracle;          /* starts as GEMM_ORACLE_INIT; released by the caller */
    tune_file *file;
    double deadline;   /* of tune_clock */
    int number, total; /* of the problem, for the progress line; 0: not known */
    int again;         /* tune what the file has, too */
    FILE *notes;       /* choices that failed */
} tune_run;

double tune_clock(void);

/*
 * Tune a problem within its share of the time: what is left, divided by the `left` problems that are still to come, this one
 * included. Returns 0, or -1 when the file cannot be written (the reason stands on stderr).
 */
int tune_run_case(tune_run *run, const gemm_case *item, int left, tune_outcome *outcome);

#endif
