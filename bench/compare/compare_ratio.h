/*
 * How many times as fast one list of samples is as another, how sure that is, and what to make of it.
 *
 * The ratio is median over median. Its interval is a percentile bootstrap: both lists are drawn anew RATIO_RESAMPLES times with
 * replacement, from a fixed seed, and the middle 95 % of the ratios are kept. Fewer than RATIO_MIN_SAMPLES samples on either side
 * have no such interval: theirs spans the extremes, they decide nothing, and a mean over cases has one end of it or the other.
 *
 * With a margin m (0.03: speeds within 3 % are the same for all practical purposes), and the interval [low, high]:
 *   FASTER     low > 1 + m
 *   SLOWER     high < 1 / (1 + m)
 *   SAME       1 / (1 + m) <= low and high <= 1 + m
 *   AMBIGUOUS  otherwise: the samples do not tell
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
    double low;
    double high;
    ratio_verdict verdict;
} speed_ratio;

/* Samples are seconds, positive. */
typedef struct sample_list {
    const double *seconds;
    size_t count;
} sample_list;

/*
 * Compare `other` with `base`. The logarithm of each resampled ratio is added to logs[RATIO_RESAMPLES], for means over cases; NULL:
 * not wanted. The cases of one mean need a `stream` of random numbers each: drawn alike, they would err alike. 0, or -1 when memory
 * is short.
 */
int speed_ratio_find(sample_list base, sample_list other, double margin, uint64_t stream,
                     double *logs, speed_ratio *ratio);

/* The geometric mean of `count` ratios whose logarithms sum to `sum`, with the sums that speed_ratio_find made; these get sorted. */
speed_ratio speed_ratio_mean(double sum, double *logs, size_t count, double margin);

/* "FASTER" …, "-" for none. */
const char *ratio_verdict_name(ratio_verdict verdict);

#endif
