/* Ratios of `tandem compare`: verdicts and intervals of samples whose truth is known. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bench/compare/compare_table.h"
#include "bench/record/bench_statistics.h"
#include "tests/support/bench/drawn_samples.h"

static speed_ratio compared(double base_s, double other_s, double spread, size_t count,
                            uint64_t seed) {
    double base[64];
    double other[64];
    speed_ratio ratio;
    drawn_samples(base, count, base_s, spread, 2 * seed);
    drawn_samples(other, count, other_s, spread, 2 * seed + 1);
    assert_int_equal(speed_ratio_find((sample_list){base, count}, (sample_list){other, count},
                                      RATIO_MARGIN, seed, NULL, &ratio),
                     0);
    return ratio;
}

static void a_planted_shift_is_found_and_its_absence_too(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        assert_int_equal(compared(1.05e-3, 1e-3, 0.005, 20, seed).verdict, VERDICT_FASTER);
        assert_int_equal(compared(1e-3, 1.05e-3, 0.005, 20, seed).verdict, VERDICT_SLOWER);
        assert_int_equal(compared(1e-3, 1e-3, 0.005, 20, seed).verdict, VERDICT_SAME);
        assert_int_equal(compared(1e-3, 1.01e-3, 0.005, 20, seed).verdict, VERDICT_SAME);
        assert_int_equal(compared(1e-3, 1e-3, 0.2, 10, seed).verdict, VERDICT_AMBIGUOUS);
    }
    const speed_ratio ratio = compared(2e-3, 1e-3, 0.001, 20, 7);
    assert_true(fabs(ratio.ratio - 2) < 0.01 && ratio.low > 1.99 && ratio.high < 2.01);
}

static void the_interval_covers_the_truth(void **state) {
    (void)state;
    static const size_t counts[] = {9, 10, 25, 40};
    for (size_t c = 0; c < 4; c++) {
        int covered = 0;
        double width = 0;
        for (uint64_t seed = 0; seed < 300; seed++) {
            const speed_ratio ratio = compared(1.3, 1, 0.05, counts[c], 1000 + seed);
            covered += ratio.low <= 1.3 && ratio.high >= 1.3;
            width += (ratio.high - ratio.low) / 300;
        }
        print_message("%zu samples: %d of 300 intervals cover, %.3f wide\n", counts[c], covered,
                      width);
        assert_true(covered >= 273 && covered <= 299); /* 95 % is 285 */
        assert_true(width < 0.25);
    }
}

static void few_samples_and_the_same_samples(void **state) {
    (void)state;
    const double base[] = {1.0, 1.1, 0.9};
    const double other[] = {2.0, 2.1, 1.9};
    speed_ratio ratio;
    assert_int_equal(
        speed_ratio_find((sample_list){base, 3}, (sample_list){other, 3}, 0.03, 0, NULL, &ratio),
        0);
    assert_true(fabs(ratio.ratio - 0.5) < 1e-12);
    assert_true(fabs(ratio.low - 0.9 / 2.1) < 1e-12 && fabs(ratio.high - 1.1 / 1.9) < 1e-12);
    assert_int_equal(ratio.verdict, VERDICT_AMBIGUOUS);
    assert_int_equal(
        speed_ratio_find((sample_list){base, 3}, (sample_list){base, 3}, 0.03, 0, NULL, &ratio), 0);
    assert_int_equal(ratio.verdict, VERDICT_SAME);
    assert_true(ratio.ratio == 1 && ratio.low == 1 && ratio.high == 1);
    assert_int_equal(
        speed_ratio_find((sample_list){base, 3}, (sample_list){NULL, 0}, 0.03, 0, NULL, &ratio), 0);
    assert_int_equal(ratio.verdict, VERDICT_NONE);
    assert_true(isnan(ratio.ratio));
}

static void one_short_side_decides_nothing(void **state) {
    double many[20];
    const double few[] = {2.0, 2.0, 2.0, 2.0};
    speed_ratio ratio;
    (void)state;
    drawn_samples(many, 20, 1, 0.001, 1);
    speed_ratio_find((sample_list){few, 4}, (sample_list){many, 20}, 0.03, 0, NULL, &ratio);
    assert_int_equal(ratio.verdict, VERDICT_AMBIGUOUS);
    speed_ratio_find((sample_list){many, 20}, (sample_list){few, 4}, 0.03, 0, NULL, &ratio);
    assert_int_equal(ratio.verdict, VERDICT_AMBIGUOUS);
}

/* Ten samples of which five were drawn low and five high have their median between the two. */
static void an_even_number_has_its_median_in_the_middle(void **state) {
    static double logs[RATIO_RESAMPLES];
    const double base[] = {1, 3, 1, 3, 1, 3, 1, 3, 1, 3};
    const double other[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    speed_ratio ratio;
    int between = 0;
    (void)state;
    speed_ratio_find((sample_list){base, 10}, (sample_list){other, 10}, 0.03, 0, logs, &ratio);
    for (size_t i = 0; i < RATIO_RESAMPLES; i++)
        between += fabs(logs[i] - log(2)) < 1e-12;
    assert_true(between > 400 && between < 600); /* 252 of 1024 are 492 */
    assert_true(ratio.low == 1 && ratio.high == 3 && ratio.ratio == 2);
}

/* 0.5 to 2.5 times as fast: of one such case a mean knows no more. */
static void a_mean_of_few_samples_decides_nothing(void **state) {
    static double logs[RATIO_RESAMPLES];
    const double base[] = {2.0, 2.4, 2.5};
    const double other[] = {1.0, 2.0, 4.0};
    speed_ratio ratio;
    (void)state;
    assert_int_equal(
        speed_ratio_find((sample_list){base, 3}, (sample_list){other, 3}, 0.03, 0, logs, &ratio),
        0);
    const speed_ratio mean = speed_ratio_mean(log(ratio.ratio), logs, 1, 0.03);
    assert_true(fabs(mean.ratio - 1.2) < 1e-12);
    assert_true(fabs(mean.low - 0.5) < 1e-12 && fabs(mean.high - 2.5) < 1e-12);
    assert_int_equal(mean.verdict, VERDICT_AMBIGUOUS);
}

static void the_mean_is_geometric_and_surer_than_its_cases(void **state) {
    (void)state;
    static double logs[RATIO_RESAMPLES];
    double sum = 0;
    for (uint64_t i = 0; i < 8; i++) {
        double base[20];
        double other[20];
        speed_ratio ratio;
        drawn_samples(base, 20, i % 2 == 0 ? 2 : 0.5, 0.03, 2 * i);
        drawn_samples(other, 20, 1, 0.03, 2 * i + 1);
        speed_ratio_find((sample_list){base, 20}, (sample_list){other, 20}, 0.03, i, logs, &ratio);
        sum += log(ratio.ratio);
    }
    const speed_ratio mean = speed_ratio_mean(sum, logs, 8, RATIO_MARGIN);
    assert_true(fabs(mean.ratio - 1) < 0.02);
    assert_true(mean.low < mean.ratio && mean.high > mean.ratio && mean.high - mean.low < 0.04);
    assert_int_equal(mean.verdict, VERDICT_SAME);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_planted_shift_is_found_and_its_absence_too),
        cmocka_unit_test(the_interval_covers_the_truth),
        cmocka_unit_test(few_samples_and_the_same_samples),
        cmocka_unit_test(one_short_side_decides_nothing),
        cmocka_unit_test(an_even_number_has_its_median_in_the_middle),
        cmocka_unit_test(a_mean_of_few_samples_decides_nothing),
        cmocka_unit_test(the_mean_is_geometric_and_surer_than_its_cases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
