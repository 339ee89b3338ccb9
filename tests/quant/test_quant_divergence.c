/* The threshold of least divergence against one found with distributions written out in full. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "quant/histogram.h"
#include "tests/support/test_data.h"

enum {
    SIDE = TDM_QUANT_SIDE_BINS,
    BINS = TDM_QUANT_BINS,
    COUNT = 20000
};

static tdm_quant_histogram histogram;
static tdm_quant_bounds seen;

/* P: the window's counts with what lies beyond in its outermost bins; Q: the window's counts, spread
 * within each level over the bins that P fills; both divided by their sums. */
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
        for (int i = first; i < end; i++) {
            q[i] = p[i] > 0 ? fmax(held, 1e-6) / filled / inside : 0.0;
        }
    }
    for (int i = from; i < to; i++) {
        sum += p[i] > 0 ? p[i] / all * log(p[i] / all / q[i]) : 0.0;
    }
    return sum;
}

static int outermost(int sign) {
    int m = SIDE;
    while (m > 0 && histogram.counts[sign > 0 ? SIDE + m - 1 : SIDE - m] == 0) {
        m--;
    }
    return m;
}

/* Divergence at the threshold of m bins; infinite for a window of fewer bins than levels. */
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
    for (int m = farthest; m > 0; m -= farthest / 256 + 1) {
        least = fmin(least, divergence_at(m, symmetry, levels));
    }
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
                tdm_quant_bounds_kl(&histogram, seen, symmetry, ranges[r]);
            const float reach = fmaxf(-found.minimum, found.maximum);
            assert_true(found.minimum == fmaxf(fminf(seen.minimum, 0.0f), -reach));
            assert_true(found.maximum == fminf(fmaxf(seen.maximum, 0.0f), reach));
            const bool all = reach == fmaxf(-seen.minimum, seen.maximum);
            const int m = all ? farthest_bin() : (int)ceilf(reach / bin);
            const double least = least_divergence(symmetry, levels);
            const double actual = divergence_at(m, symmetry, levels);
            /* Equal but for rounding: log is not the same in every C library. */
            if (!(actual == least || actual <= least + 1e-9)) {
                fail_msg("%s, %d levels, symmetry %d: divergence %g at %g, the least is %g", what,
                         levels, s, actual, (double)reach, least);
            }
        }
    }
}

static double gaussian(test_random *random) {
    const double u = 1.0 - test_random_uniform(random, 0.0, 1.0);
    const double v = test_random_uniform(random, 0.0, 1.0);
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v);
}

static void count_numbers(const float *x, size_t count) {
    tdm_quant_histogram_clear(&histogram);
    tdm_quant_histogram_add(&histogram, x, count);
    seen = (tdm_quant_bounds){x[0], x[0]};
    for (size_t i = 0; i < count; i++) {
        seen.minimum = fminf(seen.minimum, x[i]);
        seen.maximum = fmaxf(seen.maximum, x[i]);
    }
}

static void test_threshold_of_least_divergence(void **state) {
    (void)state;
    static float x[COUNT];
    test_random random = {8};
    for (int i = 0; i < COUNT; i++) {
        x[i] = (float)gaussian(&random);
    }
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
    for (int i = 0; i < COUNT; i++) {
        x[i] = (float)exp(1.5 * gaussian(&random));
    }
    count_numbers(x, COUNT);
    expect_least("log-normal");
    for (int i = 0; i < COUNT; i++) {
        x[i] = i % 3 == 0 ? -x[i] * x[i] : x[i];
    }
    count_numbers(x, COUNT);
    expect_least("lopsided");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threshold_of_least_divergence),
    };
    return cmocka_run_group_tests_name("least divergence", tests, NULL, NULL);
}
