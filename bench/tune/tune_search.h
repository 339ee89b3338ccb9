/*
 * The search of `tandem tune`: every row as its plan would run it, then choices by chance, then steps from the best ones,
 * the best first, until they lead nowhere new. It knows nothing of how a choice is measured.
 */
#ifndef TANDEM_BENCH_TUNE_TUNE_SEARCH_H
#define TANDEM_BENCH_TUNE_TUNE_SEARCH_H

#include "bench/tune/tune_space.h"

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
    uint64_t seed;
    /* Called after every trial; may be NULL. */
    void (*progress)(void *user, const struct tune_search *search);

    /* What came out. */
    tdm_choice tried[TUNE_MAX_TRIALS];
    double seconds[TUNE_MAX_TRIALS]; /* NaN where it was not measured */
    int trials;
    int failures;
    int best; /* its place, -1 while there is none */
} tune_search;

void tune_search_run(tune_search *search);

#endif
