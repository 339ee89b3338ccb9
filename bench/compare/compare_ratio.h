/*
 * How many times as fast one list of samples is as another, how sure that is, and what to make of it.
 *
 * The ratio is median over median. Its interval is a percentile bootstrap: both lists are drawn anew RATIO_RESAMPLES times with
 * replacement, from a fixed seed, and the middle 95 % of the ratios are kept.
 *
 * With a margin m (0.03: speeds within 3 % are the same for all practical purposes), and the interval [low, high]:
 *   FASTER     low > 1 + m
 *   SLOWER     high < 1 / (1 + m)
 *   SAME       1 / (1 + m) <= low and high <= 1 + m
 *   AMBIGUOUS  otherwise, and without an interval where a side has fewer than RATIO_MIN_SAMPLES samples
 * The same samples on both sides are one measurement: ratio 1, SAME.
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

/* Samples are seconds, positive. */
typedef struct sample_list {
    const double *seconds;
    size_t count;
} sample_list;

/* Compare `other` with `base`. 0, or -1 when memory is short. */
int speed_ratio_find(sample_list base, sample_list other, double margin, speed_ratio *ratio);

/* "FASTER"; "-" for VERDICT_NONE. */
const char *ratio_verdict_name(ratio_verdict verdict);

#endif
