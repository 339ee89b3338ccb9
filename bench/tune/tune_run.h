/* Tuning one problem after the other: search, comparison with the library's own choice, the row of the tuning file. */
#ifndef TANDEM_BENCH_TUNE_TUNE_RUN_H
#define TANDEM_BENCH_TUNE_TUNE_RUN_H

#include <stdio.h>

#include "bench/tune/tune_file.h"
#include "bench/tune/tune_measure.h"
#include "bench/tune/tune_shapes.h"

typedef enum tune_status {
    TUNE_DONE,
    TUNE_SKIPPED,     /* the file has it already */
    TUNE_TOO_LARGE,   /* it does not fit into memory */
    TUNE_NOT_REACHED, /* the time was over */
    TUNE_BROKEN       /* the library's own choice fails, or nothing could be measured */
} tune_status;

/* What came of one problem. */
typedef struct tune_outcome {
    tune_status status;
    gemm_case item;
    tune_comparison comparison;
    char choice[TDM_CHOICE_TEXT]; /* what the file now has */
    int trials, failures;
    char reason[256];
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
    uint64_t seed;
    int again;   /* tune what the file has, too */
    FILE *notes; /* choices that failed; NULL: nobody listens */
} tune_run;

double tune_clock(void);

/*
 * Tune a problem within its share of the time: what is left, divided by the `left` problems that are still to come, this one
 * included. Returns 0, or -1 when the file cannot be written (the reason stands on stderr).
 */
int tune_run_case(tune_run *run, const gemm_case *item, int left, tune_outcome *outcome);

#endif
