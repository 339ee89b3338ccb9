/*
 * This is a histogram of real numbers whose range grows by powers of two. Observers that use more
 * than the extremes use it.
 *
 * There are 1024 bins of equal width on either side of 0:
 *     m = floor(|x| * 2^(10 - exponent)),    |x| < 2^exponent
 *     bin 1024 + m for x > 0, bin 1023 - m for x < 0
 * Zeros are counted separately, since a zero costs no error. A number beyond the range doubles the
 * range, which joins bins in pairs. Binning is exact: the product is exact in f32, or so small that
 * m is 0. The histogram of a set of numbers therefore does not depend on order, batches, merges or
 * the device that counted.
 *
 * The functions are not thread-safe. Use one histogram per thread, and merge them.
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
    uint64_t zeros; /* not in any bin */
    uint64_t counts[TDM_QUANT_BINS];
} tdm_quant_histogram;

/* Empties the histogram. */
void tdm_quant_histogram_clear(tdm_quant_histogram *histogram);

/* Returns the exponent of the smallest range that holds magnitudes up to amax (finite, >= 0):
 * 2^exponent > amax, at least TDM_QUANT_EXPONENT_MIN. */
int tdm_quant_histogram_exponent(float amax);

/* Doubles the range until it has at least this exponent (at most TDM_QUANT_EXPONENT_MAX). */
void tdm_quant_histogram_grow(tdm_quant_histogram *histogram, int exponent);

/* Counts finite numbers. */
void tdm_quant_histogram_add(tdm_quant_histogram *histogram, const float *data, size_t count);

/* Adds the counts of `from`, exactly. */
void tdm_quant_histogram_merge(tdm_quant_histogram *into, const tdm_quant_histogram *from);

/* Returns how many numbers were counted, zeros included. */
uint64_t tdm_quant_histogram_total(const tdm_quant_histogram *histogram);

/*
 * These choose bounds from a histogram. `seen` holds the smallest and the largest number that was
 * counted; the result never exceeds it. An empty histogram, or one of zeros alone, gives `seen`
 * widened to 0.
 *
 * percentile: percent in (0, 100]. Symmetric: the smallest bin edge t > 0 with at least `percent` %
 *   of the numbers, zeros included, in (-t, t). Asymmetric: up to (100 - percent) / 2 % are cut off
 *   on either side, in whole bins. At least one bin stays on a side that has any.
 * mse: the least sum of squared errors of the quantized numbers, assumed to be spread evenly within
 *   each bin. It is integrated exactly, so a step may be finer than a bin. Symmetric: thresholds
 *   amax * 2^(-i/16), i = 0 ... 127. Asymmetric: both ends times these factors, then each end on
 *   its own, twice.
 * kl: the least Kullback-Leibler divergence between two histograms. The first is the histogram
 *   clipped to a threshold, with the counts beyond added to its edge bins. The second is the
 *   histogram spread evenly over high - low + 1 levels. Up to 256 equidistant thresholds are tried,
 *   from the outermost bin inwards. TensorRT and MXNet use this method. Here the bins are signed,
 *   so that it also serves asymmetric schemes: the window is [max(seen minimum, -t), min(seen
 *   maximum, t)]. Zeros are left out. The result is `seen` if the histogram has no more bins than
 *   levels.
 */
tdm_quant_bounds tdm_quant_bounds_percentile(const tdm_quant_histogram *histogram,
                                             tdm_quant_bounds seen, tdm_quant_symmetry symmetry,
                                             double percent);
tdm_quant_bounds tdm_quant_bounds_mse(const tdm_quant_histogram *histogram, tdm_quant_bounds seen,
                                      tdm_quant_symmetry symmetry, tdm_quant_range range);
tdm_quant_bounds tdm_quant_bounds_kl(const tdm_quant_histogram *histogram, tdm_quant_bounds seen,
                                     tdm_quant_symmetry symmetry, tdm_quant_range range);

#endif
