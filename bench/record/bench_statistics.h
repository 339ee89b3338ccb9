/* Statistics over timing samples, and the rule that says when there are enough of them. */
#ifndef TANDEM_BENCH_RECORD_BENCH_STATISTICS_H
#define TANDEM_BENCH_RECORD_BENCH_STATISTICS_H

#include <stddef.h>

typedef struct sample_summary {
    double median;
    double minimum;
    double p5;
    double p95;
    double spread; /* (p95 - p5) / median */
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

/*
 * When to stop: at least minimum_samples and minimum_seconds, and then as soon as the spread is
 * below small_spread or no longer changes by more than a twentieth; in any case at maximum_seconds
 * or maximum_samples. (nvbench's rule; the cap keeps slow peers from holding up a run.)
 */
typedef struct stopping_rule {
    size_t minimum_samples;
    size_t maximum_samples;
    double minimum_seconds;
    double maximum_seconds;
    double small_spread;
} stopping_rule;

/* The growing samples of one implementation. */
typedef struct sample_series {
    double *values;
    size_t count;
    size_t capacity;
    double seconds;     /* time spent, all calls of all samples */
    double last_spread; /* at the previous check; 0 before the first */
} sample_series;

/* 0, or -1 when memory is short (the series keeps what it has). */
int series_add(sample_series *series, double sample, double seconds_spent);

/* Whether the series is complete; remembers the spread for the next question. */
int series_done(sample_series *series, const stopping_rule *rule);

void series_release(sample_series *series);

#endif
