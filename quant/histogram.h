/*
 * A histogram of real numbers whose range grows by powers of two, the base of the observers that
 * look at more than the extremes.
 *
 * There are 1024 bins of equal width on either side of 0:
 *     m = floor(|x| * 2^(10 - exponent)),    |x| < 2^exponent
 *     bin 1024 + m for x > 0, bin 1023 - m for x < 0
 * and zeros are counted apart, since a zero costs no error. A number beyond the range doubles the
 * range, which joins bins in pairs. Binning is exact, so the histogram of a set of numbers is the
 * same in whatever order, batches and merges they came, or on whichever device they were counted:
 * the product is exact in f32, or so small that m is 0.
 *
 * Not thread-safe: one histogram per thread, then merge.
 */
#ifndef TANDEM_QUANT_HISTOGRAM_H
#define TANDEM_QUANT_HISTOGRAM_H

#include "quant/quant_parameters.h"

enum {
    TDM_QUANT_BINS = 2048,
    TDM_QUANT_SIDE_BINS = TDM_QUANT_BINS / 2,
    TDM_QUANT_SIDE_BINS_LOG2 = 10,
    TDM_QUANT_EXPONENT_MIN = -100, /* smaller numbers are in the bins next to 0 */
    TDM_QUANT_EXPONENT_MAX = 128
};

typedef struct tdm_quant_histogram {
    int exponent;
    uint64_t zeros; /* neither in a bin */
    uint64_t counts[TDM_QUANT_BINS];
} tdm_quant_histogram;

/* Make it empty. */
void tdm_quant_histogram_clear(tdm_quant_histogram *histogram);

/* Exponent of the smallest range that holds magnitudes up to amax (finite, >= 0): 2^exponent > amax,
 * at least TDM_QUANT_EXPONENT_MIN. */
int tdm_quant_histogram_exponent(float amax);

/* Double the range until it has at least this exponent (at most TDM_QUANT_EXPONENT_MAX). */
void tdm_quant_histogram_grow(tdm_quant_histogram *histogram, int exponent);

/* Count finite numbers. */
void tdm_quant_histogram_add(tdm_quant_histogram *histogram, const float *data, size_t count);

/* Add the counts of `from`, exactly. */
void tdm_quant_histogram_merge(tdm_quant_histogram *into, const tdm_quant_histogram *from);

/* Numbers counted, zeros included. */
uint64_t tdm_quant_histogram_total(const tdm_quant_histogram *histogram);

/*
 * Bounds chosen from a histogram. `seen`: the least and greatest number that went in, which the
 * result never exceeds. An empty histogram, or one of zeros alone, gives `seen` widened to 0.
 *
 * percentile: percent in (0, 100]. Symmetric: the least bin edge t > 0 with at least `percent` % of
 *   the numbers, zeros included, in (-t, t). Asymmetric: up to (100 - percent) / 2 % are cut off on
 *   either side, in whole bins, but at least one bin stays on a side that has any.
 * mse: the least sum of squared errors of the quantized numbers, taken as spread evenly within each
 *   bin (integrated exactly, so a step finer than a bin is no trouble). Symmetric: thresholds amax *
 *   2^(-i/16), i = 0 ... 127. Asymmetric: both ends times these factors, then each end on its own,
 *   twice.
 * kl: the least Kullback-Leibler divergence between the histogram clipped to a threshold, what is
 *   beyond added to its edge bins, and the same histogram spread evenly over high - low + 1 levels,
 *   over up to 256 equidistant thresholds, from the outermost bin in (the method known from TensorRT and MXNet, on signed bins, so that it
 *   serves asymmetric schemes too: the window is [max(seen minimum, -t), min(seen maximum, t)]).
 *   Zeros are left out. `seen` where the histogram has no more bins than there are levels.
 */
tdm_quant_bounds tdm_quant_bounds_percentile(const tdm_quant_histogram *histogram,
                                             tdm_quant_bounds seen, tdm_quant_symmetry symmetry,
                                             double percent);
tdm_quant_bounds tdm_quant_bounds_mse(const tdm_quant_histogram *histogram, tdm_quant_bounds seen,
                                      tdm_quant_symmetry symmetry, tdm_quant_range range);
tdm_quant_bounds tdm_quant_bounds_kl(const tdm_quant_histogram *histogram, tdm_quant_bounds seen,
                                     tdm_quant_symmetry symmetry, tdm_quant_range range);

#endif
