/*
 * Computes how many times as fast one list of samples is as another, with a confidence interval and
 * a verdict.
 *
 * The ratio is median over median. Its interval is a percentile bootstrap: both lists are resampled
 * RATIO_RESAMPLES times with replacement, from a fixed seed. The middle 95 % of the ratios are
 * kept.
 *
 * The verdict depends on the interval [low, high] and a margin m. With m = 0.03, speeds within 3 %
 * are the same for all practical purposes.
 *   FASTER     low > 1 + m
 *   SLOWER     high < 1 / (1 + m)
 *   SAME       1 / (1 + m) <= low and high <= 1 + m
 *   AMBIGUOUS  otherwise, or if a side has fewer than RATIO_MIN_SAMPLES samples (no interval)
 * Identical samples on both sides are one measurement: the ratio is 1, and the verdict SAME.
 */
#ifndef TANDEM_BENCH_COMPARE_COMPARE_RATIO_H
#define TANDEM_BENCH_COMPARE_COMPARE_RATIO_H

#include <stddef.h>
#include <stdint.h>

enum {
    RATIO_RESAMPLES = 2000,
    RATIO_MIN_SAMPLES = 5,
    RATIO_SEED = 1
};

#define RATIO_MARGIN 0.03

typedef enum ratio_verdict {
    VERDICT_NONE, /* nothing to compare */
    VERDICT_SAME,
    VERDICT_FASTER,
    VERDICT_SLOWER,
    VERDICT_AMBIGUOUS
} ratio_verdict;

typedef struct speed_ratio {
    double ratio; /* above 1: faster than the base; NaN: nothing to compare */
    double low;   /* NaN: too few samples */
    double high;
    ratio_verdict verdict;
} speed_ratio;

/* The samples are in seconds and positive. */
typedef struct sample_list {
    const double *seconds;
    size_t count;
} sample_list;

/* Compares `other` with `base`. Returns 0, or -1 if memory is short. */
int speed_ratio_find(sample_list base, sample_list other, double margin, speed_ratio *ratio);

/* Returns a name such as "FASTER", or "-" for VERDICT_NONE. */
const char *ratio_verdict_name(ratio_verdict verdict);

#endif
