/* The parts of `tandem tune`: problems, search space of a problem, tuning file, and the run. */
#ifndef TANDEM_BENCH_TUNE_TUNE_RUN_H
#define TANDEM_BENCH_TUNE_TUNE_RUN_H

#include <stdio.h>

#include "api/tuning/tuning.h"
#include "bench/cases/gemm_case.h"
#include "bench/protocol/worker_process.h"

/* The problems of `tandem tune` and `tandem choices`, from sets or from a list. */

enum {
    TUNE_MAX_CASES = 1024
};

typedef struct tune_cases {
    gemm_case *items;
    int count;
} tune_cases;

/* The default shapes: squares, tails, transformer layers, few rows, a batch. */
extern const char tune_default_shapes[];

/* Lists the types that tuning data distinguishes for the option table, separated by '|'. */
extern const char tune_dtype_choices[];

/*
 * Adds the shapes of the sets "squares,bert" or "all", or, if `sets` is NULL, of
 * "MxNxK,BATCH*MxNxK,...". They are added in every dtype of "f32,..." and every layout of "nn,...".
 * If `layouts` is NULL, the layouts are the set's own, or nn for a list of shapes. Returns 0, or
 * the exit code after a refusal.
 */
int tune_cases_add(const char *command, const char *sets, const char *shapes, const char *dtypes,
                   const char *layouts, tune_cases *cases);

void tune_cases_release(tune_cases *cases);

/* The search space of a problem on a device, and the search. The caller measures the choices. */

enum {
    TUNE_MAX_ROWS = 64,
    TUNE_MAX_VALUES = 28 /* of a parameter, including 0 ("left to the plan") */
};

/* A kernel variant that suits the device and problem, and the values to try, ascending from 0. */
typedef struct tune_row {
    const tdm_variant *variant;
    int32_t values[TDM_TUNE_PARAMETERS][TUNE_MAX_VALUES];
    int value_count[TDM_TUNE_PARAMETERS]; /* 1: the variant does not have the parameter */
} tune_row;

typedef struct tune_space {
    tune_row rows[TUNE_MAX_ROWS];
    int row_count;
} tune_space;

/*
 * Fills in the variants in the table's order, the reference last. For quantized weights, variants
 * that multiply them directly come first. Variants for the unpacked weights follow.
 */
void tune_space_fill(tune_space *space, const tdm_device_info *device, const gemm_case *item);

int tune_choice_equal(const tdm_choice *a, const tdm_choice *b);

/* ---- the search ---- */

enum {
    TUNE_MAX_TRIALS = 512
};

typedef enum tune_verdict {
    TUNE_MEASURED,
    TUNE_REFUSED, /* the library does not accept it; not reported */
    TUNE_FAILED   /* wrong result, crash or hang; reported */
} tune_verdict;

/* Measures a choice. It may stop early if slower than `limit`. On success *seconds is set. */
typedef tune_verdict (*tune_measure)(void *user, const tdm_choice *choice, double limit,
                                     double *seconds);

typedef struct tune_search {
    const tune_space *space;
    tune_measure measure;
    void *user;
    double (*seconds_left)(void *user); /* the search ends when it is not above 0 */
    /* Called after every trial; may be NULL. */
    void (*progress)(void *user, const struct tune_search *search);

    /* The results of the search. */
    tdm_choice tried[TUNE_MAX_TRIALS];
    double seconds[TUNE_MAX_TRIALS]; /* NaN: not measured */
    int trials;
    int failures;
    int best; /* index of the best choice, or -1 */
} tune_search;

/*
 * Tries every variant with its plan's own parameters. Then it changes one parameter or the variant
 * of the best choices, the best first, until there is nothing new.
 */
void tune_search_run(tune_search *search);

/* The user's tuning file. `tandem tune` adds or replaces rows, and keeps everything else. */

typedef struct tune_file tune_file;

/*
 * Opens a file for adding rows; it need not exist. Returns NULL and prints the reason on stderr if
 * the library would not read the file, or if its folder cannot be written to.
 */
tune_file *tune_file_open(const char *command, const char *path);

/* Returns 1 if the file has a measured row with this row's device, operation, types and shape. */
int tune_file_has(const tune_file *file, const tdm_tuning_row *row);

/*
 * Adds the row in place of those it repeats, and writes the whole file. It is written to a
 * temporary file, which is renamed once it is on disk. Rows that another process wrote meanwhile
 * are kept. Returns 0, or -1 with the reason on stderr.
 */
int tune_file_put(tune_file *file, const tdm_tuning_row *row);

void tune_file_close(tune_file *file);

/*
 * Tunes one problem after the other: search, comparison with the library's own choice, and the row
 * of the tuning file.
 */

/*
 * A choice is measured in a worker process, because it may crash, hang or give wrong results. It is
 * timed only after its result was correct.
 */
typedef struct tune_bench {
    /* Set by the caller: */
    const char *program;          /* the worker */
    const char *const *arguments; /* of the worker, NULL-terminated */
    const char *request;          /* fields of `describe` except the variant */
    int (*verify)(const void *user, const void *bytes, size_t size, double *max_error,
                  worker_text *reason);
    const void *user;      /* argument of verify */
    double timeout_s;      /* for an answer; preparing a case may take several times as long */
    double sample_seconds; /* approximate duration of a sample */
    int samples;           /* per choice in the search, and per turn of the comparison */

    worker_process *worker;        /* started when needed, and again after it died */
    worker_text reason;            /* why the last choice was refused or failed */
    char variant[TDM_CHOICE_TEXT]; /* the last variant that the worker named */
} tune_bench;

/*
 * Measures a choice; NULL is the library's own. *seconds is the median time of one run. A choice
 * that takes longer than `limit` in its first runs is not sampled further. If the choice could not
 * be measured, bench->reason has the reason.
 */
tune_verdict tune_bench_measure(tune_bench *bench, const tdm_choice *choice, double limit,
                                double *seconds);

enum {
    TUNE_TURNS = 3
};

typedef struct tune_comparison {
    double own_s, tuned_s;             /* medians of one run */
    char own_variant[TDM_CHOICE_TEXT]; /* the library's own choice */
} tune_comparison;

/*
 * Compares the library's own choice with `best`, alternating, TUNE_TURNS of each. Returns 0, or -1
 * with bench->reason set.
 */
int tune_bench_compare(tune_bench *bench, const tdm_choice *best, tune_comparison *comparison);

/* Stops the worker. */
void tune_bench_close(tune_bench *bench);

typedef enum tune_status {
    TUNE_DONE,
    TUNE_SKIPPED, /* the file has it, it does not fit into memory, or no time was left */
    TUNE_BROKEN   /* the library's own choice fails, or nothing could be measured */
} tune_status;

/* The result of one problem. */
typedef struct tune_outcome {
    tune_status status;
    gemm_case item;
    tune_comparison comparison;
    char choice[TDM_CHOICE_TEXT]; /* the choice that the file now has */
    int trials, failures;
    char reason[256]; /* if the problem is not TUNE_DONE */
} tune_outcome;

typedef struct tune_run {
    const char *command;
    const char *device;          /* text for the rows */
    const tdm_device_info *info; /* limits for the choices */
    const char *device_fields;   /* for the worker's request */
    tune_bench bench;            /* all except request, verify and user */
    gemm_oracle oracle;          /* starts as GEMM_ORACLE_INIT; released by the caller */
    tune_file *file;
    double deadline;   /* in terms of tune_clock */
    int number, total; /* number of the problem, for the progress line; 0: unknown */
    int again;         /* 1: also tune what the file already has */
    FILE *notes;       /* receives the choices that failed */
} tune_run;

double tune_clock(void);

/*
 * Tunes a problem within its share of the time: the remaining time divided by `left`, the number of
 * problems to come including this one. Returns 0, or -1 with the reason on stderr if the file
 * cannot be written.
 */
int tune_run_case(tune_run *run, const gemm_case *item, int left, tune_outcome *outcome);

#endif
