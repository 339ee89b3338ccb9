/* Statistics over timing samples, and the rule for when there are enough of them. */
#ifndef TANDEM_BENCH_RECORD_BENCH_STATISTICS_H
#define TANDEM_BENCH_RECORD_BENCH_STATISTICS_H

#include <stddef.h>

typedef struct sample_summary {
    double median;
    double minimum;
    double p5;
    double p95;
    double middle; /* relative width of the middle half: (p75 - p25) / median */
} sample_summary;

/*
 * Summarizes `count` samples. Percentiles interpolate linearly between order statistics. All values
 * are NaN if count is 0 or memory is short.
 */
sample_summary summarize_samples(const double *samples, size_t count);

/* A row with NOISY_MIN_SAMPLES samples or more is noisy if its `middle` is above this. */
extern const double noisy_middle;

enum {
    NOISY_MIN_SAMPLES = 10
};

/* Stops after this many samples, or this much time, so that slow peers do not delay a run. */
typedef struct stopping_rule {
    size_t samples;
    double seconds;
} stopping_rule;

/* The growing list of samples of one implementation. */
typedef struct sample_series {
    double *values;
    size_t count;
    size_t capacity;
    double seconds; /* time spent in all calls of all samples */
} sample_series;

/* Returns 0, or -1 if memory is short (the series keeps its samples). */
int series_add(sample_series *series, double sample, double seconds_spent);

/* Returns 1 if the series is complete. */
int series_done(const sample_series *series, const stopping_rule *rule);

void series_release(sample_series *series);

#endif
