/* `tandem tune`: its problems, what it may try for one, the file that it keeps, the run. */
#ifndef TANDEM_BENCH_TUNE_TUNE_RUN_H
#define TANDEM_BENCH_TUNE_TUNE_RUN_H

#include <stdio.h>

#include "api/tuning/tuning.h"
#include "bench/cases/gemm_case.h"
#include "bench/protocol/worker_process.h"

/* The problems of `tandem tune` and `tandem choices`: of sets, of a list. */

enum {
    TUNE_MAX_CASES = 1024
};

typedef struct tune_cases {
    gemm_case *items;
    int count;
} tune_cases;

/* What is tuned where nobody says: squares, tails, transformer layers, few rows, a batch. */
extern const char tune_default_shapes[];

/* For the option table: combinations that tuning data tells apart, separated by '|'. */
extern const char tune_dtype_choices[];

/*
 * The shapes of the sets "squares,bert" or "all", or where `sets` is NULL of "MxNxK,BATCH*MxNxK,...", in every dtype of
 * "f32,..." and every layout of "nn,...". `layouts` NULL: a set's own, nn for others. 0, or the exit code after a refusal.
 */
int tune_cases_add(const char *command, const char *sets, const char *shapes, const char *dtypes,
                   const char *layouts, tune_cases *cases);

void tune_cases_release(tune_cases *cases);

/* What `tandem tune` may try for a problem on a device, and how it searches; how a choice is measured is the caller's. */

enum {
    TUNE_MAX_ROWS = 64,
    TUNE_MAX_VALUES = 28 /* of a parameter, "left to the plan" included */
};

/* A row that the device and the problem do not rule out, and the values worth trying, ascending from 0. */
typedef struct tune_row {
    const tdm_variant *variant;
    int32_t values[TDM_TUNE_PARAMETERS][TUNE_MAX_VALUES];
    int value_count[TDM_TUNE_PARAMETERS]; /* 1 where the row does not take the parameter */
} tune_row;

typedef struct tune_space {
    tune_row rows[TUNE_MAX_ROWS];
    int row_count;
} tune_space;

/*
 * Rows in the table's order, the reference last. Of quantized weights first those that multiply them in place, then those for
 * what they become when they are unpacked.
 */
void tune_space_fill(tune_space *space, const tdm_device_info *device, const gemm_case *item);

int tune_choice_equal(const tdm_choice *a, const tdm_choice *b);

/* ---- the search ---- */

enum {
    TUNE_MAX_TRIALS = 512
};

typedef enum tune_verdict {
    TUNE_MEASURED,
    TUNE_REFUSED, /* the library does not take it: no news */
    TUNE_FAILED   /* wrong, crashed, hung: worth telling */
} tune_verdict;

/* Measure a choice. `limit`: slower than this it may stop early. On success *seconds is set. */
typedef tune_verdict (*tune_measure)(void *user, const tdm_choice *choice, double limit,
                                     double *seconds);

typedef struct tune_search {
    const tune_space *space;
    tune_measure measure;
    void *user;
    double (*seconds_left)(void *user); /* the search ends when it is not above 0 */
    /* Called after every trial; may be NULL. */
    void (*progress)(void *user, const struct tune_search *search);

    /* What came out. */
    tdm_choice tried[TUNE_MAX_TRIALS];
    double seconds[TUNE_MAX_TRIALS]; /* NaN where it was not measured */
    int trials;
    int failures;
    int best; /* its place, -1 while there is none */
} tune_search;

/* Every row as its plan would run it, then changes of one thing from the best ones, the best first, until they lead nowhere new. */
void tune_search_run(tune_search *search);

/* The user's tuning file as `tandem tune` keeps it: rows are added or replaced, everything else in it stays. */

typedef struct tune_file tune_file;

/*
 * Open a file for adding rows; it need not exist. NULL with the reason on stderr when it exists and is not what the library
 * would read, or cannot be written beside it.
 */
tune_file *tune_file_open(const char *command, const char *path);

/* Does it have a measured row with the device, operation, types and shape of this one? */
int tune_file_has(const tune_file *file, const tdm_tuning_row *row);

/*
 * Add the row in place of the ones it repeats, and write the file: whole, to a temporary file that takes its name once it is
 * on disk. What another process wrote meanwhile is kept. 0, or -1 with the reason on stderr.
 */
int tune_file_put(tune_file *file, const tdm_tuning_row *row);

void tune_file_close(tune_file *file);

/* Tuning one problem after the other: search, comparison with the library's own choice, the row of the tuning file. */

/*
 * A choice is measured in a worker process, which may crash, hang or compute nonsense. Nothing is timed before its result was
 * right.
 */
typedef struct tune_bench {
    /* Set by the caller. */
    const char *program;          /* the worker, with these arguments */
    const char *const *arguments; /* NULL-terminated */
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
