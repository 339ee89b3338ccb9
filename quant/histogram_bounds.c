/* These functions use a histogram to choose the range of real numbers that is quantized. */
#include <math.h>

#include "quant/histogram.h"

enum {
    SIDE = TDM_QUANT_SIDE_BINS,
    MSE_STEPS = 128,
    MSE_ROUNDS = 2,
    KL_THRESHOLDS = 256
};

/* Returns the lower edge of a bin. */
static double edge_of(const tdm_quant_histogram *histogram, int bin) {
    return ldexp(bin - SIDE, histogram->exponent - TDM_QUANT_SIDE_BINS_LOG2);
}

static float larger(float a, float b) {
    return a > b ? a : b;
}

static float smaller(float a, float b) {
    return a < b ? a : b;
}

/* Returns the part of `seen` between two edges, widened to include 0. */
static tdm_quant_bounds clip(tdm_quant_bounds seen, double low, double high) {
    return (tdm_quant_bounds){smaller(larger(seen.minimum, (float)low), 0.0f),
                              larger(smaller(seen.maximum, (float)high), 0.0f)};
}

static tdm_quant_bounds widen(tdm_quant_bounds seen) {
    return (tdm_quant_bounds){smaller(seen.minimum, 0.0f), larger(seen.maximum, 0.0f)};
}

/* These return the number of bins of a side up to the last that is not empty. */
static int bins_above(const tdm_quant_histogram *histogram) {
    int m = SIDE;
    while (m > 0 && histogram->counts[SIDE + m - 1] == 0) {
        m--;
    }
    return m;
}

static int bins_below(const tdm_quant_histogram *histogram) {
    int m = SIDE;
    while (m > 0 && histogram->counts[SIDE - m] == 0) {
        m--;
    }
    return m;
}

/* ---- percentile --------------------------------------------------------------------------- */

/* Returns how many bins of a side stay if up to `cut` numbers may be cut off. `first` and `step`
 * describe the side as in join_pairs. */
static int bins_kept(const uint64_t *first, int step, int bins, double cut) {
    uint64_t removed = 0;
    while (bins > 1 && (double)(removed + first[(bins - 1) * step]) <= cut) {
        bins--;
        removed += first[bins * step];
    }
    return bins;
}

/* Returns how many bins of either side hold `wanted` numbers, together with the zeros. */
static int bins_holding(const tdm_quant_histogram *histogram, double wanted) {
    uint64_t held = histogram->zeros;
    for (int m = 0; m < SIDE; m++) {
        held += histogram->counts[SIDE + m] + histogram->counts[SIDE - 1 - m];
        if ((double)held >= wanted) {
            return m + 1;
        }
    }
    return SIDE;
}

tdm_quant_bounds tdm_quant_bounds_percentile(const tdm_quant_histogram *histogram,
                                             tdm_quant_bounds seen, tdm_quant_symmetry symmetry,
                                             double percent) {
    const double total = (double)tdm_quant_histogram_total(histogram);
    int above, below;
    if (symmetry == TDM_QUANT_SYMMETRIC) {
        above = bins_holding(histogram, total * percent / 100.0);
        below = above;
    } else {
        const double cut = total * (100.0 - percent) / 200.0;
        above = bins_kept(histogram->counts + SIDE, 1, bins_above(histogram), cut);
        below = bins_kept(histogram->counts + SIDE - 1, -1, bins_below(histogram), cut);
    }
    return clip(seen, edge_of(histogram, SIDE - below), edge_of(histogram, SIDE + above));
}

/* ---- least squared error ------------------------------------------------------------------ */

/* These are the limits where numbers saturate, in steps, and the integrals up to there. */
typedef struct error_limits {
    double low, high;
    double integral_low, integral_high;
} error_limits;

/* Returns the integer nearest to a number below 2^51, without calling rint. */
static double nearest(double u) {
    return (u + 0x1.8p52) - 0x1.8p52;
}

/* Returns the integral of the squared rounding error from 0 to u, in steps. */
static double rounding_integral(double u) {
    const double q = nearest(u);
    const double rest = u - q;
    return q / 12 + rest * rest * rest / 3;
}

static error_limits limits_of(tdm_quant_range range, int32_t zero_point) {
    const double low = range.low - zero_point, high = range.high - zero_point;
    return (error_limits){low, high, rounding_integral(low - 0.5), rounding_integral(high + 0.5)};
}

/* Returns the integral of the squared error from 0 to u, with saturation. Below `low - 1/2` and
 * above `high + 1/2` the error grows. */
static double error_integral(double u, const error_limits *limits) {
    if (u > limits->high + 0.5) {
        const double beyond = u - limits->high;
        return limits->integral_high + (beyond * beyond * beyond - 0.125) / 3;
    }
    if (u < limits->low - 0.5) {
        const double beyond = limits->low - u;
        return limits->integral_low - (beyond * beyond * beyond - 0.125) / 3;
    }
    return rounding_integral(u);
}

static double point_error(double u, const error_limits *limits) {
    const double inside = u < limits->low ? limits->low : u > limits->high ? limits->high : u;
    const double error = u - nearest(inside);
    return error * error;
}

/* Returns the mean squared error, in steps, of numbers spread evenly over [a, b] (in steps too).
 * For very short intervals the difference of the integrals is inaccurate, so the error of the
 * midpoint is used. */
static double spread_error(double a, double b, const error_limits *limits) {
    if (b - a < 0x1p-12) {
        return point_error((a + b) / 2, limits);
    }
    return (error_integral(b, limits) - error_integral(a, limits)) / (b - a);
}

/* Returns the sum of squared errors with the parameters of some bounds; infinity if their scale is
 * 0. */
static double histogram_error(const tdm_quant_histogram *histogram, tdm_quant_bounds seen,
                              tdm_quant_bounds bounds, tdm_quant_symmetry symmetry,
                              tdm_quant_range range) {
    const tdm_quant_parameters p = tdm_quant_derive(symmetry, bounds, range);
    if (p.scale == 0.0f) {
        return HUGE_VAL;
    }
    const error_limits limits = limits_of(range, p.zero_point);
    const double scale = (double)p.scale;
    const double width = edge_of(histogram, SIDE + 1);
    double sum = 0.0;
    for (int i = 0; i < TDM_QUANT_BINS; i++) {
        if (histogram->counts[i] > 0) {
            const double a = fmax((i - SIDE) * width, (double)seen.minimum);
            const double b = fmin((i + 1 - SIDE) * width, (double)seen.maximum);
            sum += (double)histogram->counts[i] * spread_error(a / scale, b / scale, &limits);
        }
    }
    return sum * scale * scale;
}

/* These are the ends of the bounds that a search moves. In asymmetric schemes, an end becomes a
 * fraction of its widest value. Symmetric schemes have a threshold, which is a fraction of the
 * largest magnitude. */
typedef enum moved_ends {
    MOVE_LOW = 1,
    MOVE_HIGH = 2,
    MOVE_BOTH = 3,
    MOVE_THRESHOLD = 4
} moved_ends;

static tdm_quant_bounds moved(tdm_quant_bounds start, tdm_quant_bounds widest, moved_ends ends,
                              float factor) {
    if (ends == MOVE_THRESHOLD) {
        const float threshold = larger(-widest.minimum, widest.maximum) * factor;
        return clip(widest, -(double)threshold, (double)threshold);
    }
    return (tdm_quant_bounds){ends & MOVE_LOW ? widest.minimum * factor : start.minimum,
                              ends & MOVE_HIGH ? widest.maximum * factor : start.maximum};
}

static tdm_quant_bounds best_of_steps(const tdm_quant_histogram *histogram, tdm_quant_bounds seen,
                                      tdm_quant_bounds start, moved_ends ends,
                                      tdm_quant_symmetry symmetry, tdm_quant_range range) {
    const tdm_quant_bounds widest = widen(seen);
    tdm_quant_bounds best = start;
    double least = histogram_error(histogram, seen, start, symmetry, range);
    float factor = 1.0f;
    for (int step = 0; step < MSE_STEPS; step++) {
        const tdm_quant_bounds bounds = moved(start, widest, ends, factor);
        const double error = histogram_error(histogram, seen, bounds, symmetry, range);
        if (error < least) {
            least = error;
            best = bounds;
        }
        factor *= 0x1.ea4afap-1f; /* 2^(-1/16) */
    }
    return best;
}

tdm_quant_bounds tdm_quant_bounds_mse(const tdm_quant_histogram *histogram, tdm_quant_bounds seen,
                                      tdm_quant_symmetry symmetry, tdm_quant_range range) {
    const moved_ends ends = symmetry == TDM_QUANT_SYMMETRIC ? MOVE_THRESHOLD : MOVE_BOTH;
    tdm_quant_bounds best = best_of_steps(histogram, seen, widen(seen), ends, symmetry, range);
    for (int round = 0; symmetry == TDM_QUANT_ASYMMETRIC && round < MSE_ROUNDS; round++) {
        best = best_of_steps(histogram, seen, best, MOVE_HIGH, symmetry, range);
        best = best_of_steps(histogram, seen, best, MOVE_LOW, symmetry, range);
    }
    return best;
}

/* ---- least divergence --------------------------------------------------------------------- */

/* This is a window of `bins` bins. The numbers beyond it are added to the counts of its two
 * outermost bins. */
typedef struct kl_window {
    const uint64_t *counts;
    int bins;
    double below, above; /* numbers beyond the window */
} kl_window;

static double clipped_count(const kl_window *window, int i) {
    return (double)window->counts[i] + (i == 0 ? window->below : 0.0) +
           (i == window->bins - 1 ? window->above : 0.0);
}

/* Returns one level's part of the sum of P log(P / Q), for its bins `from` ... `to` - 1. `inside`
 * is the count of numbers in the window. `all` also counts those beyond it. */
static double level_divergence(const kl_window *window, int from, int to, double inside,
                               double all) {
    double sum = 0.0, divergence = 0.0;
    int filled = 0;
    for (int i = from; i < to; i++) {
        sum += (double)window->counts[i];
        filled += clipped_count(window, i) > 0 ? 1 : 0;
    }
    if (filled == 0) {
        return 0.0;
    }
    /* Counts from beyond the window may fill a level that is otherwise empty. Such a level is
     * allowed, but costs much. */
    const double q = fmax(sum, 1e-6) / filled / inside;
    for (int i = from; i < to; i++) {
        const double p = clipped_count(window, i) / all;
        if (p > 0) {
            divergence += p * log(p / q);
        }
    }
    return divergence;
}

static double window_divergence(const kl_window *window, int levels) {
    double inside = 0.0, divergence = 0.0;
    for (int i = 0; i < window->bins; i++) {
        inside += (double)window->counts[i];
    }
    if (inside == 0.0) {
        return HUGE_VAL;
    }
    const double all = inside + window->below + window->above;
    for (int level = 0; level < levels; level++) {
        const int from = (int)((int64_t)level * window->bins / levels);
        const int to = (int)((int64_t)(level + 1) * window->bins / levels);
        divergence += level_divergence(window, from, to, inside, all);
    }
    return divergence;
}

static double count_between(const tdm_quant_histogram *histogram, int from, int to) {
    double sum = 0.0;
    for (int i = from; i < to; i++) {
        sum += (double)histogram->counts[i];
    }
    return sum;
}

/* Returns the window of `m` bins on either side. It ends where the data ends if the scheme may be
 * asymmetric. */
static kl_window window_of(const tdm_quant_histogram *histogram, int m, int below, int above) {
    const int from = SIDE - (m < below ? m : below);
    const int to = SIDE + (m < above ? m : above);
    return (kl_window){.counts = histogram->counts + from,
                       .bins = to - from,
                       .below = count_between(histogram, 0, from),
                       .above = count_between(histogram, to, TDM_QUANT_BINS)};
}

tdm_quant_bounds tdm_quant_bounds_kl(const tdm_quant_histogram *histogram, tdm_quant_bounds seen,
                                     tdm_quant_symmetry symmetry, tdm_quant_range range) {
    const int levels = range.high - range.low + 1;
    int below = bins_below(histogram), above = bins_above(histogram);
    const int farthest = below > above ? below : above;
    if (symmetry == TDM_QUANT_SYMMETRIC) {
        below = farthest;
        above = farthest;
    }
    const int stride = farthest / KL_THRESHOLDS + 1;
    int best = farthest;
    double least = HUGE_VAL;
    for (int m = farthest; m > 0; m -= stride) {
        const kl_window window = window_of(histogram, m, below, above);
        if (window.bins < levels) {
            break;
        }
        const double divergence = window_divergence(&window, levels);
        if (divergence < least) {
            least = divergence;
            best = m;
        }
    }
    return clip(seen, edge_of(histogram, SIDE - best), edge_of(histogram, SIDE + best));
}
