/* The results of calibration observers equal the definition, however the data is divided into
 * pieces. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "quant/number_formats.h"
#include "quant/observer.h"
#include "quant/quant_reference.h"
#include "tests/support/test_case.h"
#include "tests/support/test_data.h"

enum {
    COUNT = 30000
};

static const tdm_quant_range s8_range = {-127, 127};
static float data[COUNT];

/* Creates an observer in memory that is filled with garbage first. */
static tdm_quant_observer *make(tdm_quant_observer_kind kind, int64_t channels, int64_t inner,
                                double percent, double momentum) {
    const tdm_quant_observer_options options = {kind, channels, inner, percent, momentum};
    const size_t bytes = tdm_quant_observer_bytes(&options);
    void *const memory = malloc(bytes);
    tdm_quant_observer *observer;
    assert_non_null(memory);
    memset(memory, 0xa5, bytes);
    assert_int_equal(tdm_quant_observer_init(&options, memory, bytes, &observer, NULL), TDM_OK);
    return observer;
}

static void see(tdm_quant_observer *observer, const float *x, int64_t count) {
    assert_int_equal(tdm_quant_observe(observer, TDM_F32, x, count, NULL), TDM_OK);
}

/* Returns an observer that has seen these numbers as one channel. */
static tdm_quant_observer *observe(tdm_quant_observer_kind kind, double percent, const float *x,
                                   int64_t count) {
    tdm_quant_observer *const observer = make(kind, 1, 1, percent, 0);
    see(observer, x, count);
    return observer;
}

static tdm_quant_bounds bounds_of(const tdm_quant_observer *observer, tdm_quant_symmetry symmetry) {
    return tdm_quant_observer_bounds(observer, 0, symmetry, s8_range);
}

static void expect_same(tdm_quant_bounds a, tdm_quant_bounds b) {
    if (a.minimum != b.minimum || a.maximum != b.maximum)
        fail_msg("[%a, %a] is not [%a, %a]", (double)a.minimum, (double)a.maximum,
                 (double)b.minimum, (double)b.maximum);
}

static void expect_equal(const tdm_quant_observer *a, const tdm_quant_observer *b) {
    expect_same(bounds_of(a, TDM_QUANT_SYMMETRIC), bounds_of(b, TDM_QUANT_SYMMETRIC));
    expect_same(bounds_of(a, TDM_QUANT_ASYMMETRIC), bounds_of(b, TDM_QUANT_ASYMMETRIC));
}

static double gaussian(test_random *random) {
    const double u = 1.0 - test_random_uniform(random, 0.0, 1.0);
    const double v = test_random_uniform(random, 0.0, 1.0);
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v);
}

static int fill_gaussian(void **state) {
    (void)state;
    test_random random = {7};
    for (int i = 0; i < COUNT; i++)
        data[i] = (float)gaussian(&random);
    return 0;
}

TEST(test_minmax) {
    tdm_quant_observer *const observer = make(TDM_QUANT_OBSERVE_MINMAX, 1, 1, 0, 0);
    const float x[] = {2.0f, NAN, 5.0f, HUGE_VALF, -HUGE_VALF, 3.0f};
    expect_same(bounds_of(observer, TDM_QUANT_SYMMETRIC), (tdm_quant_bounds){0.0f, 0.0f});
    see(observer, x, 6);
    expect_same(bounds_of(observer, TDM_QUANT_SYMMETRIC), (tdm_quant_bounds){2.0f, 5.0f});
    const tdm_quant_seen seen = tdm_quant_observer_seen(observer);
    assert_true(seen.numbers == 3 && seen.nans == 1 && seen.infinities == 2);
    const tdm_quant_parameters p = tdm_quant_observer_parameters(observer, 0, TDM_QUANT_ASYMMETRIC,
                                                                 (tdm_quant_range){-128, 127});
    assert_true(p.scale == 5.0f / 255.0f && p.zero_point == -128);
    free(observer);
}

TEST(test_moving_average) {
    const double momentum = 0.25;
    tdm_quant_observer *const observer = make(TDM_QUANT_OBSERVE_MOVING_AVERAGE, 1, 1, 0, momentum);
    double low = 0, high = 0;
    for (int batch = 0; batch < 9; batch++) {
        const float x[3] = {(float)-batch - 1.0f, batch == 4 ? NAN : 0.0f, (float)(batch * batch)};
        see(observer, x, 3);
        low = batch == 0 ? -1.0 : low + (-batch - 1.0 - low) * momentum;
        high = batch == 0 ? 0.0 : high + (batch * batch - high) * momentum;
        const float nan = NAN;
        see(observer, &nan, 1); /* a batch without numbers */
    }
    expect_same(bounds_of(observer, TDM_QUANT_SYMMETRIC),
                (tdm_quant_bounds){(float)low, (float)high});
    free(observer);
}

/*
 * Merging gives the same result as one observer that sees the batches of the first and then those
 * of the second.
 */
TEST(test_moving_averages_merge) {
    for (int split = 0; split <= 30; split++) {
        tdm_quant_observer *const whole = make(TDM_QUANT_OBSERVE_MOVING_AVERAGE, 1, 1, 0, 0);
        tdm_quant_observer *const first = make(TDM_QUANT_OBSERVE_MOVING_AVERAGE, 1, 1, 0, 0);
        tdm_quant_observer *const second = make(TDM_QUANT_OBSERVE_MOVING_AVERAGE, 1, 1, 0, 0);
        for (int batch = 0; batch < 30; batch++) {
            see(whole, data + batch * 1000, 1000);
            see(batch < split ? first : second, data + batch * 1000, 1000);
        }
        assert_int_equal(tdm_quant_observer_merge(first, second, NULL), TDM_OK);
        const tdm_quant_bounds a = bounds_of(whole, TDM_QUANT_SYMMETRIC);
        const tdm_quant_bounds b = bounds_of(first, TDM_QUANT_SYMMETRIC);
        assert_true(fabsf(a.minimum - b.minimum) <= 1e-6f * fabsf(a.minimum));
        assert_true(fabsf(a.maximum - b.maximum) <= 1e-6f * fabsf(a.maximum));
        free(whole);
        free(first);
        free(second);
    }
}

/*
 * Values from 2^-40 to 2^40 make the histograms grow while they observe, differently in every
 * piece.
 */
static void fill_growing(float *x, int count) {
    test_random random = {11};
    for (int i = 0; i < count; i++) {
        const int exponent = (int)test_random_int(&random, -40, i % 97 == 0 ? 40 : 3);
        x[i] = i % 31 == 0 ? 0.0f : ldexpf((float)gaussian(&random), exponent);
        x[i] = i % 113 == 0 ? NAN : i % 211 == 0 ? HUGE_VALF : x[i];
    }
}

TEST(test_results_do_not_depend_on_the_split) {
    static float x[COUNT];
    static const tdm_quant_observer_kind kinds[] = {TDM_QUANT_OBSERVE_MINMAX,
                                                    TDM_QUANT_OBSERVE_PERCENTILE,
                                                    TDM_QUANT_OBSERVE_MSE, TDM_QUANT_OBSERVE_KL};
    fill_growing(x, COUNT);
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        tdm_quant_observer *const whole = make(kinds[k], 1, 1, 99.0, 0);
        tdm_quant_observer *const parts[2] = {make(kinds[k], 1, 1, 99.0, 0),
                                              make(kinds[k], 1, 1, 99.0, 0)};
        test_random random = {13};
        see(whole, x, COUNT);
        for (int64_t first = 0; first < COUNT;) {
            const int64_t wanted = test_random_int(&random, 0, 700);
            const int64_t count = wanted < COUNT - first ? wanted : COUNT - first;
            see(parts[test_random_int(&random, 0, 1)], x + first, count);
            first += count;
        }
        assert_int_equal(tdm_quant_observer_merge(parts[1], parts[0], NULL), TDM_OK);
        const tdm_quant_seen a = tdm_quant_observer_seen(whole);
        const tdm_quant_seen b = tdm_quant_observer_seen(parts[1]);
        assert_true(a.numbers == b.numbers && a.nans == b.nans && a.infinities == b.infinities);
        assert_true(a.numbers + a.nans + a.infinities == COUNT);
        expect_equal(whole, parts[1]);
        free(whole);
        free(parts[0]);
        free(parts[1]);
    }
}

/* Observes one batch in parts with arbitrary boundaries. Each part goes to a copy of the observer
 * that saw the parts before. */
static tdm_quant_observer *observe_in_parts(const tdm_quant_observer_options *options,
                                            int64_t inner, const float *x) {
    const size_t bytes = tdm_quant_observer_bytes(options);
    test_random random = {17};
    tdm_quant_observer *parts = make(options->kind, options->channels, 1, 99.0, 0);
    for (int64_t first = 0; first < COUNT;) {
        const int64_t wanted = test_random_int(&random, 0, 9);
        const int64_t count = wanted < COUNT - first ? wanted : COUNT - first;
        tdm_quant_observer *copy, *const before = parts;
        assert_int_equal(tdm_quant_observer_copy(before, malloc(bytes), bytes, &copy, NULL),
                         TDM_OK);
        free(before);
        parts = copy;
        tdm_quant_observe_part(parts, inner, first, TDM_F32, x + first, count);
        first += count;
    }
    tdm_quant_observe_end(parts);
    return parts;
}

TEST(test_parts_of_a_batch_are_the_batch) {
    static float x[COUNT];
    fill_growing(x, COUNT);
    for (tdm_quant_observer_kind kind = TDM_QUANT_OBSERVE_MINMAX; kind <= TDM_QUANT_OBSERVE_KL;
         kind++) {
        const tdm_quant_observer_options options = {kind, 4, 5, 99.0, 0};
        tdm_quant_observer *const whole = make(kind, 4, 5, 99.0, 0);
        tdm_quant_observer *const parts = observe_in_parts(&options, 5, x);
        see(whole, x, COUNT);
        for (int64_t c = 0; c < 4; c++)
            expect_same(tdm_quant_observer_bounds(whole, c, TDM_QUANT_ASYMMETRIC, s8_range),
                        tdm_quant_observer_bounds(parts, c, TDM_QUANT_ASYMMETRIC, s8_range));
        free(whole);
        free(parts);
    }
}

TEST(test_histogram_bins) {
    static tdm_quant_histogram histogram, other;
    const float edges[] = {0.0f, -0.0f, 1.0f, -1.0f, 0.999f, 0x1p-9f, -0x1p-9f, 0x1.8p-10f, 1e-44f};
    tdm_quant_histogram_clear(&histogram);
    tdm_quant_histogram_add(&histogram, edges, 9);
    assert_int_equal(histogram.exponent, 1); /* 1 lies beyond 2^0, so bins have a width of 2^-9 */
    assert_int_equal(histogram.zeros, 2);
    assert_int_equal(histogram.counts[1024 + 512], 1);
    assert_int_equal(histogram.counts[1023 - 512], 1);
    assert_int_equal(histogram.counts[1024 + 511], 1);
    assert_int_equal(histogram.counts[1024 + 1], 1);
    assert_int_equal(histogram.counts[1023 - 1], 1);
    assert_int_equal(histogram.counts[1024], 2);
    assert_int_equal(tdm_quant_histogram_total(&histogram), 9);
    const float large[] = {FLT_MAX, -FLT_MAX};
    tdm_quant_histogram_clear(&other);
    tdm_quant_histogram_add(&other, large, 2);
    assert_int_equal(other.exponent, TDM_QUANT_EXPONENT_MAX);
    assert_true(other.counts[2047] == 1 && other.counts[0] == 1);
    tdm_quant_histogram_merge(&histogram, &other);
    assert_true(histogram.counts[1024] == 5 && histogram.counts[1023] == 2);
    tdm_quant_histogram_merge(&other, &histogram);
    assert_int_equal(tdm_quant_histogram_total(&other), 13);
    assert_int_equal(tdm_quant_histogram_exponent(0.0f), TDM_QUANT_EXPONENT_MIN);
    assert_int_equal(tdm_quant_histogram_exponent(1.0f), 1);
    assert_int_equal(tdm_quant_histogram_exponent(0.99f), 0);
}

static int compare_floats(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

TEST(test_percentiles_of_sorted_data) {
    static float sorted[COUNT], magnitudes[COUNT];
    for (int i = 0; i < COUNT; i++) {
        sorted[i] = data[i];
        magnitudes[i] = fabsf(data[i]);
    }
    qsort(sorted, COUNT, sizeof sorted[0], compare_floats);
    qsort(magnitudes, COUNT, sizeof magnitudes[0], compare_floats);
    static const double percents[] = {100, 99.9, 99, 90, 50};
    const float bin = 0x1p-7f; /* the largest number lies between 4 and 8 */
    for (size_t i = 0; i < sizeof percents / sizeof percents[0]; i++) {
        tdm_quant_observer *const observer =
            observe(TDM_QUANT_OBSERVE_PERCENTILE, percents[i], data, COUNT);
        const tdm_quant_bounds both = bounds_of(observer, TDM_QUANT_SYMMETRIC);
        const float t = magnitudes[(int)(COUNT * percents[i] / 100 - 0.5)];
        const float reach = fmaxf(-both.minimum, both.maximum);
        assert_true(reach >= t && reach <= t + bin);
        const tdm_quant_bounds ends = bounds_of(observer, TDM_QUANT_ASYMMETRIC);
        const int cut = (int)(COUNT * (100 - percents[i]) / 200 + 0.5);
        const float highest = sorted[COUNT - 1 - cut], lowest = sorted[cut];
        assert_true(ends.maximum >= highest && ends.maximum <= highest + bin);
        assert_true(ends.minimum <= lowest && ends.minimum >= lowest - bin);
        free(observer);
    }
}

/* Half of the numbers are 0, so the 75th percentile of all numbers is the median of the others. */
TEST(test_percentile_counts_zeros) {
    static const float zeros[COUNT];
    tdm_quant_observer *const with = observe(TDM_QUANT_OBSERVE_PERCENTILE, 75.0, data, COUNT);
    tdm_quant_observer *const without = observe(TDM_QUANT_OBSERVE_PERCENTILE, 50.0, data, COUNT);
    see(with, zeros, COUNT);
    expect_same(bounds_of(with, TDM_QUANT_SYMMETRIC), bounds_of(without, TDM_QUANT_SYMMETRIC));
    free(with);
    free(without);
}

TEST(test_percentile_keeps_a_bin_among_zeros) {
    static float x[COUNT];
    tdm_quant_observer *const observer = make(TDM_QUANT_OBSERVE_PERCENTILE, 1, 1, 99.0, 0);
    memset(x, 0, sizeof x);
    see(observer, x, COUNT);
    expect_same(bounds_of(observer, TDM_QUANT_SYMMETRIC), (tdm_quant_bounds){0.0f, 0.0f});
    x[0] = 3.0f;
    see(observer, x, COUNT);
    assert_true(bounds_of(observer, TDM_QUANT_SYMMETRIC).maximum > 0.0f);
    assert_true(bounds_of(observer, TDM_QUANT_ASYMMETRIC).maximum > 0.0f);
    free(observer);
}

/* ---- the searching observers -------------------------------------------------------------- */

static double squared_error(const float *x, int count, tdm_quant_bounds bounds,
                            tdm_quant_symmetry symmetry, tdm_quant_range range) {
    const tdm_quant_parameters p = tdm_quant_derive(symmetry, bounds, range);
    double sum = 0.0;
    for (int i = 0; i < count; i++) {
        const double q = rint((double)x[i] / (double)p.scale);
        const double low = range.low - p.zero_point, high = range.high - p.zero_point;
        const double error = (double)x[i] - (double)p.scale * fmin(fmax(q, low), high);
        sum += error * error;
    }
    return sum;
}

/* Checks that the result is within 3 % of the best of 400 ranges, both for the observer and for the
 * search of the data. The ranges go from the whole range down to 1/256 of it. They are tried on the
 * data itself. */
static void expect_nearly_least(const float *x, tdm_quant_symmetry symmetry,
                                tdm_quant_range range) {
    tdm_quant_observer *const observer = observe(TDM_QUANT_OBSERVE_MSE, 0, x, COUNT);
    tdm_quant_observer *const widest = observe(TDM_QUANT_OBSERVE_MINMAX, 0, x, COUNT);
    const tdm_quant_bounds found[2] = {tdm_quant_observer_bounds(observer, 0, symmetry, range),
                                       tdm_quant_search_mse(symmetry, x, COUNT, range)};
    const tdm_quant_bounds all = bounds_of(widest, symmetry);
    double least = HUGE_VAL;
    for (int i = 0; i < 400; i++) {
        const float f = exp2f(-8.0f * (float)i / 400);
        const tdm_quant_bounds tried = {all.minimum * f, all.maximum * f};
        least = fmin(least, squared_error(x, COUNT, tried, symmetry, range));
    }
    for (int i = 0; i < 2; i++) {
        const double error = squared_error(x, COUNT, found[i], symmetry, range);
        if (!(error <= 1.03 * least))
            fail_msg("way %d: error %g in [%g, %g], the least is %g", i, error,
                     (double)found[i].minimum, (double)found[i].maximum, least);
    }
    free(observer);
    free(widest);
}

TEST(test_mse_finds_the_least_error) {
    static float sets[5][COUNT]; /* Gaussian, skewed, uniform, and with an outlier. */
    test_random random = {3};
    for (int i = 0; i < COUNT; i++) {
        sets[0][i] = data[i];
        sets[1][i] = (float)exp(gaussian(&random)) - 0.5f;
        sets[2][i] = (float)i / COUNT * 2 - 1;
        sets[3][i] = i == 77 ? 40.0f : data[i];
        sets[4][i] = i == 77 ? 1000.0f : data[i];
    }
    static const tdm_quant_range ranges[] = {{-7, 7}, {-127, 127}, {-8, 7}, {0, 255}};
    for (int i = 0; i < 4 * 5; i++)
        expect_nearly_least(sets[i / 4], i % 4 < 2 ? TDM_QUANT_SYMMETRIC : TDM_QUANT_ASYMMETRIC,
                            ranges[i % 4]);
}

TEST(test_searches_on_little_data) {
    static const float values[] = {0.0f, 3.0f, -3.0f, 1e-44f, FLT_MAX, -FLT_MAX};
    for (tdm_quant_observer_kind kind = TDM_QUANT_OBSERVE_PERCENTILE; kind <= TDM_QUANT_OBSERVE_KL;
         kind++) {
        for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
            tdm_quant_observer *const observer = observe(kind, 0, &values[i], 1);
            for (int s = TDM_QUANT_SYMMETRIC; s <= TDM_QUANT_ASYMMETRIC; s++) {
                const tdm_quant_bounds b = bounds_of(observer, (tdm_quant_symmetry)s);
                assert_true(b.minimum == fminf(values[i], 0.0f));
                assert_true(b.maximum == fmaxf(values[i], 0.0f));
            }
            free(observer);
        }
    }
}

/* ---- the threshold of least divergence, compared with fully written-out distributions ---- */

enum {
    SIDE = TDM_QUANT_SIDE_BINS,
    BINS = TDM_QUANT_BINS
};

static tdm_quant_histogram histogram;
static tdm_quant_bounds ends;

/* The window consists of the bins from `from` up to, but not including, `to`. P holds their counts,
 * with everything beyond added to the outermost ones. Q spreads the counts of each level over the
 * bins of that level that P fills. Both are divided by their sums. */
static double divergence_of(int from, int to, int levels) {
    static double p[BINS], q[BINS];
    double all = 0.0, inside = 0.0, sum = 0.0;
    memset(p, 0, sizeof p);
    memset(q, 0, sizeof q);
    for (int i = 0; i < BINS; i++) {
        const int bin = i < from ? from : i >= to ? to - 1 : i;
        p[bin] += (double)histogram.counts[i];
        all += (double)histogram.counts[i];
        inside += i >= from && i < to ? (double)histogram.counts[i] : 0.0;
    }
    for (int level = 0; level < levels; level++) {
        const int first = from + (int)((int64_t)level * (to - from) / levels);
        const int end = from + (int)((int64_t)(level + 1) * (to - from) / levels);
        double held = 0.0, filled = 0.0;
        for (int i = first; i < end; i++) {
            held += (double)histogram.counts[i];
            filled += p[i] > 0;
        }
        for (int i = first; i < end; i++)
            q[i] = p[i] > 0 ? fmax(held, 1e-6) / filled / inside : 0.0;
    }
    for (int i = from; i < to; i++)
        sum += p[i] > 0 ? p[i] / all * log(p[i] / all / q[i]) : 0.0;
    return sum;
}

static int outermost(int sign) {
    int m = SIDE;
    while (m > 0 && histogram.counts[sign > 0 ? SIDE + m - 1 : SIDE - m] == 0)
        m--;
    return m;
}

/* Returns the divergence at the threshold of m bins. It is infinite for a window of fewer bins than
 * levels. */
static double divergence_at(int m, tdm_quant_symmetry symmetry, int levels) {
    const bool both = symmetry == TDM_QUANT_SYMMETRIC;
    const int above = outermost(1), below = outermost(-1);
    const int from = SIDE - (both || m < below ? m : below);
    const int to = SIDE + (both || m < above ? m : above);
    return to - from >= levels ? divergence_of(from, to, levels) : HUGE_VAL;
}

static int farthest_bin(void) {
    return outermost(1) > outermost(-1) ? outermost(1) : outermost(-1);
}

static double least_divergence(tdm_quant_symmetry symmetry, int levels) {
    const int farthest = farthest_bin();
    double least = HUGE_VAL;
    for (int m = farthest; m > 0; m -= farthest / 256 + 1)
        least = fmin(least, divergence_at(m, symmetry, levels));
    return least;
}

static void expect_least(const char *what) {
    static const tdm_quant_range ranges[] = {{-127, 127}, {-128, 127}, {-7, 7}, {-8, 7}};
    const float bin = ldexpf(1.0f, histogram.exponent - 10);
    for (size_t r = 0; r < sizeof ranges / sizeof ranges[0]; r++) {
        for (int s = TDM_QUANT_SYMMETRIC; s <= TDM_QUANT_ASYMMETRIC; s++) {
            const tdm_quant_symmetry symmetry = (tdm_quant_symmetry)s;
            const int levels = ranges[r].high - ranges[r].low + 1;
            const tdm_quant_bounds found =
                tdm_quant_bounds_kl(&histogram, ends, symmetry, ranges[r]);
            const float reach = fmaxf(-found.minimum, found.maximum);
            assert_true(found.minimum == fmaxf(fminf(ends.minimum, 0.0f), -reach));
            assert_true(found.maximum == fminf(fmaxf(ends.maximum, 0.0f), reach));
            const bool all = reach == fmaxf(-ends.minimum, ends.maximum);
            const int m = all ? farthest_bin() : (int)ceilf(reach / bin);
            const double least = least_divergence(symmetry, levels);
            const double actual = divergence_at(m, symmetry, levels);
            /* The values are equal except for rounding, because log differs between C libraries. */
            if (!(actual == least || actual <= least + 1e-9))
                fail_msg("%s, %d levels, symmetry %d: divergence %g at %g, the least is %g", what,
                         levels, s, actual, (double)reach, least);
        }
    }
}

static void count_numbers(const float *x, size_t count) {
    tdm_quant_histogram_clear(&histogram);
    tdm_quant_histogram_add(&histogram, x, count);
    ends = (tdm_quant_bounds){x[0], x[0]};
    for (size_t i = 0; i < count; i++) {
        ends.minimum = fminf(ends.minimum, x[i]);
        ends.maximum = fmaxf(ends.maximum, x[i]);
    }
}

TEST(test_threshold_of_least_divergence) {
    static float x[COUNT];
    test_random random = {8};
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)gaussian(&random);
    count_numbers(x, COUNT);
    expect_least("gaussian");
    x[5] = 30.0f;
    count_numbers(x, COUNT);
    expect_least("gaussian with an outlier above");
    x[5] = -12.0f;
    count_numbers(x, COUNT);
    expect_least("gaussian with an outlier below");
    count_numbers(x, 40);
    expect_least("few numbers");
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)exp(1.5 * gaussian(&random));
    count_numbers(x, COUNT);
    expect_least("log-normal");
    for (int i = 0; i < COUNT; i++)
        x[i] = i % 3 == 0 ? -x[i] * x[i] : x[i];
    count_numbers(x, COUNT);
    expect_least("lopsided");
}

/* ---- channels, dtypes, summaries ---------------------------------------------------------- */

TEST(test_channels_are_as_observers_of_their_own) {
    static const tdm_quant_observer_kind kinds[] = {TDM_QUANT_OBSERVE_MINMAX, TDM_QUANT_OBSERVE_KL};
    for (int k = 0; k < 2; k++) {
        tdm_quant_observer *const all = make(kinds[k], 3, 1000, 0, 0);
        see(all, data, COUNT);
        for (int c = 0; c < 3; c++) {
            tdm_quant_observer *const one = make(kinds[k], 1, 1, 0, 0);
            for (int first = c * 1000; first < COUNT; first += 3000)
                see(one, data + first, 1000);
            expect_same(tdm_quant_observer_bounds(all, c, TDM_QUANT_ASYMMETRIC, s8_range),
                        bounds_of(one, TDM_QUANT_ASYMMETRIC));
            free(one);
        }
        free(all);
    }
}

TEST(test_narrow_dtypes) {
    static const tdm_dtype dtypes[] = {TDM_F16, TDM_BF16};
    static uint16_t narrow[COUNT];
    static float wide[COUNT];
    for (int d = 0; d < 2; d++) {
        for (size_t i = 0; i < COUNT; i++) {
            tdm_number_set(dtypes[d], narrow, i, (double)data[i]);
            wide[i] = (float)tdm_number_get(dtypes[d], narrow, i);
        }
        tdm_quant_observer *const a = make(TDM_QUANT_OBSERVE_MSE, 1, 1, 0, 0);
        tdm_quant_observer *const b = make(TDM_QUANT_OBSERVE_MSE, 1, 1, 0, 0);
        assert_int_equal(tdm_quant_observe(a, dtypes[d], narrow, COUNT, NULL), TDM_OK);
        see(b, wide, COUNT);
        expect_same(bounds_of(a, TDM_QUANT_SYMMETRIC), bounds_of(b, TDM_QUANT_SYMMETRIC));
        free(a);
        free(b);
    }
}

/* The summary is one that a device kernel would return, with a larger exponent than necessary. */
TEST(test_summaries) {
    static uint32_t counts[TDM_QUANT_BINS];
    const int exponent = 4;
    tdm_quant_summary summary = {.numbers = COUNT,
                                 .nans = 2,
                                 .infinities = 1,
                                 .seen = {HUGE_VALF, -HUGE_VALF},
                                 .exponent = exponent,
                                 .counts = counts};
    memset(counts, 0, sizeof counts);
    for (int i = 0; i < COUNT; i++) {
        const int m = (int)(fabsf(data[i]) * 64.0f); /* 2^(10 - 4) */
        counts[data[i] < 0 ? 1023 - m : 1024 + m]++;
        summary.seen.minimum = fminf(summary.seen.minimum, data[i]);
        summary.seen.maximum = fmaxf(summary.seen.maximum, data[i]);
    }
    static const float far[1] = {9.0f}; /* brings the other observer to the same exponent */
    for (tdm_quant_observer_kind kind = TDM_QUANT_OBSERVE_MINMAX; kind <= TDM_QUANT_OBSERVE_KL;
         kind++) {
        tdm_quant_observer *const a = make(kind, 1, 1, 99.0, 0);
        tdm_quant_observer *const b = make(kind, 1, 1, 99.0, 0);
        assert_int_equal(tdm_quant_observe_summary(a, 0, &summary, NULL), TDM_OK);
        see(a, far, 1);
        see(b, data, COUNT);
        see(b, far, 1);
        expect_equal(a, b);
        const tdm_quant_seen seen = tdm_quant_observer_seen(a);
        assert_true(seen.numbers == COUNT + 1 && seen.nans == 2 && seen.infinities == 1);
        free(a);
        free(b);
    }
}

TEST(test_bad_summaries_are_refused) {
    static uint32_t counts[TDM_QUANT_BINS];
    static const struct {
        int64_t channel;
        tdm_quant_summary summary;
        const char *word;
    } rows[] = {
        {2, {5, 2, 0, 0, {-1, 1}, 1, counts}, "channel is 2"},
        {-1, {5, 2, 0, 0, {-1, 1}, 1, counts}, "channel is -1"},
        {0, {6, 2, 0, 0, {-1, 1}, 1, counts}, "numbers is 6"},
        {0, {5, 6, 0, 0, {-1, 1}, 1, counts}, "zeros is 6"},
        {0, {5, 2, 0, 0, {-1, 1}, 0, counts}, "exponent is 0"},
        {0, {5, 2, 0, 0, {-1, 1}, 129, counts}, "exponent is 129"},
        {0, {5, 2, 0, 0, {-1, 1}, 1, NULL}, "counts is NULL"},
        {0, {5, 2, 0, 0, {-1, HUGE_VALF}, 1, counts}, "bounds are"},
        {0, {5, 2, 0, 0, {1, -1}, 1, counts}, "bounds are"},
        {1, {5, 2, 0, 0, {-1, 1}, 1, counts}, NULL},
    };
    tdm_quant_observer *const observer = make(TDM_QUANT_OBSERVE_MSE, 2, 1, 0, 0);
    counts[1500] = 3;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tdm_quant_reason reason;
        const tdm_status status =
            tdm_quant_observe_summary(observer, rows[i].channel, &rows[i].summary, &reason);
        assert_int_equal(status, rows[i].word ? TDM_BAD_ARGUMENT : TDM_OK);
        if (rows[i].word && !strstr(reason.text, rows[i].word))
            fail_msg("the reason is \"%s\", without \"%s\"", reason.text, rows[i].word);
        assert_int_equal(tdm_quant_observer_seen(observer).numbers, rows[i].word ? 0 : 5);
    }
    free(observer);
}

TEST(test_kind_names) {
    for (int k = TDM_QUANT_OBSERVE_MINMAX; k <= TDM_QUANT_OBSERVE_KL; k++) {
        const tdm_quant_observer_kind kind = (tdm_quant_observer_kind)k;
        assert_int_equal(tdm_quant_observer_kind_from_name(tdm_quant_observer_kind_name(kind)),
                         kind);
    }
    assert_null(tdm_quant_observer_kind_name((tdm_quant_observer_kind)0));
    assert_int_equal(tdm_quant_observer_kind_from_name("average"), 0);
    assert_int_equal(tdm_quant_observer_kind_from_name(NULL), 0);
}

TEST_MAIN(fill_gaussian, NULL)
