/* Statistics and the stopping rule of the benchmarks. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bench/record/bench_statistics.h"

static void close_to(double got, double expected) {
    if (!(fabs(got - expected) <= 1e-12 * (1 + fabs(expected))))
        fail_msg("got %.17g, expected %.17g", got, expected);
}

static void percentiles_interpolate_between_sorted_samples(void **state) {
    (void)state;
    double samples[21];
    for (int i = 0; i <= 20; i++)
        samples[(i * 8) % 21] = i; /* out of order */
    const sample_summary summary = summarize_samples(samples, 21);
    close_to(summary.median, 10);
    close_to(summary.minimum, 0);
    close_to(summary.p5, 1);
    close_to(summary.p95, 19);
    close_to(summary.spread, 1.8);
    close_to(samples[8], 1); /* the input is left alone */
}

static void an_even_count_takes_the_middle_of_two(void **state) {
    (void)state;
    const double samples[] = {4, 1, 3, 2};
    const sample_summary summary = summarize_samples(samples, 4);
    close_to(summary.median, 2.5);
    close_to(summary.p5, 1.15);
    close_to(summary.p95, 3.85);
}

static void few_samples(void **state) {
    (void)state;
    const double one = 3;
    assert_true(isnan(summarize_samples(NULL, 0).median));
    assert_true(isnan(summarize_samples(NULL, 0).spread));
    close_to(summarize_samples(&one, 1).median, 3);
    close_to(summarize_samples(&one, 1).p95, 3);
    close_to(summarize_samples(&one, 1).spread, 0);
}

static const stopping_rule rule = {
    .minimum_samples = 10,
    .maximum_samples = 100,
    .minimum_seconds = 0.5,
    .maximum_seconds = 3,
    .small_spread = 0.005,
};

/* How many equal samples, each of `seconds`, it takes until the series is done. */
static size_t samples_until_done(double seconds, double (*sample)(size_t index)) {
    sample_series series = {0};
    size_t count = 0;
    while (!series_done(&series, &rule) && count < 1000) {
        assert_int_equal(series_add(&series, sample(count), seconds), 0);
        count++;
    }
    assert_int_equal(series.count, count);
    series_release(&series);
    assert_null(series.values);
    return count;
}

static double steady(size_t index) {
    (void)index;
    return 1;
}

/* Its spread keeps growing, so neither reason to stop early holds. */
static double ever_wilder(size_t index) {
    return pow(1.2, (double)index) * (index % 2 == 0 ? 1 : 3);
}

static double noisy_but_settled(size_t index) {
    return index % 4 == 0 ? 1.5 : 1;
}

static void the_rule_stops_when_each_of_its_conditions_holds(void **state) {
    (void)state;
    /* enough samples only after the time; enough time only after the samples */
    assert_int_equal(samples_until_done(0.25, steady), 10);
    assert_int_equal(samples_until_done(1.0 / 64, steady), 32);
    /* the caps */
    assert_int_equal(samples_until_done(0.5, ever_wilder), 6);
    assert_int_equal(samples_until_done(0.001, ever_wilder), 100);
    /* wide but not changing: the second look stops it */
    assert_int_equal(samples_until_done(0.125, noisy_but_settled), 11);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(percentiles_interpolate_between_sorted_samples),
        cmocka_unit_test(an_even_count_takes_the_middle_of_two),
        cmocka_unit_test(few_samples),
        cmocka_unit_test(the_rule_stops_when_each_of_its_conditions_holds),
    };
    return cmocka_run_group_tests_name("bench statistics", tests, NULL, NULL);
}
