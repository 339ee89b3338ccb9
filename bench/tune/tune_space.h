/* What `tandem tune` may try for a problem on a device, and how it searches; how a choice is measured is the caller's. */
#ifndef TANDEM_BENCH_TUNE_TUNE_SPACE_H
#define TANDEM_BENCH_TUNE_TUNE_SPACE_H

#include "api/tuning/tuning.h"
#include "bench/cases/gemm_case.h"

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

#endif
