/* Statistics over timing samples, and the rule that says when there are enough of them. */
#ifndef TANDEM_BENCH_RECORD_BENCH_STATISTICS_H
#define TANDEM_BENCH_RECORD_BENCH_STATISTICS_H

#include <stddef.h>

typedef struct sample_summary {
    double median;
    double minimum;
    double p5;
    double p95;
    double middle; /* how wide the middle half of the samples is: (p75 - p25) / median */
} sample_summary;

/*
 * Summary of `count` samples. Percentiles interpolate linearly between order statistics. All NaN
 * when count is 0 or memory is short.
 */
sample_summary summarize_samples(const double *samples, size_t count);

/* A row of so many samples is marked as noisy whose middle half is wider than this share of its median. */
extern const double noisy_middle;

enum {
    NOISY_LEAST_SAMPLES = 10
};

/* When to stop: after so many samples, or so much time, which keeps slow peers from holding up a run. */
typedef struct stopping_rule {
    size_t samples;
    double seconds;
} stopping_rule;

/* The growing samples of one implementation. */
typedef struct sample_series {
    double *values;
    size_t count;
    size_t capacity;
    double seconds; /* time spent, all calls of all samples */
} sample_series;

/* 0, or -1 when memory is short (the series keeps what it has). */
int series_add(sample_series *series, double sample, double seconds_spent);

/* Whether the series is complete. */
int series_done(const sample_series *series, const stopping_rule *rule);

void series_release(sample_series *series);

#endif
