/* Tests the statistics and the stopping rule of the benchmarks, and text tables. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/record/bench_statistics.h"
#include "common/table_print.h"
#include "tests/support/test_case.h"

static void close_to(double got, double expected) {
    if (!(fabs(got - expected) <= 1e-12 * (1 + fabs(expected))))
        fail_msg("got %.17g, expected %.17g", got, expected);
}

TEST(percentiles_interpolate_between_sorted_samples) {
    double samples[21];
    for (int i = 0; i <= 20; i++)
        samples[(i * 8) % 21] = i; /* out of order */
    const sample_summary summary = summarize_samples(samples, 21);
    close_to(summary.median, 10);
    close_to(summary.minimum, 0);
    close_to(summary.p5, 1);
    close_to(summary.p95, 19);
    close_to(summary.middle, 1);
    close_to(samples[8], 1); /* the input is not changed */
}

TEST(an_even_count_takes_the_middle_of_two) {
    const double samples[] = {4, 1, 3, 2};
    const sample_summary summary = summarize_samples(samples, 4);
    close_to(summary.median, 2.5);
    close_to(summary.p5, 1.15);
    close_to(summary.p95, 3.85);
}

TEST(few_samples) {
    const double one = 3;
    assert_true(isnan(summarize_samples(NULL, 0).median));
    close_to(summarize_samples(&one, 1).median, 3);
    close_to(summarize_samples(&one, 1).p95, 3);
}

TEST(a_series_ends_by_its_samples_or_its_time) {
    static const struct {
        double seconds; /* of a sample */
        size_t samples;
    } rows[] = {{0.01, 10}, {0.5, 6}, {7, 1}};
    static const stopping_rule rule = {.samples = 10, .seconds = 3};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sample_series series = {0};
        while (!series_done(&series, &rule) && series.count < 1000)
            assert_int_equal(series_add(&series, 1, rows[i].seconds), 0);
        assert_int_equal(series.count, rows[i].samples);
        series_release(&series);
        assert_null(series.values);
    }
}

static void expect(const text_table *table, const char *expected) {
    char *text = NULL;
    size_t size = 0;
    FILE *const file = open_memstream(&text, &size);
    assert_non_null(file);
    table_print(table, file);
    fclose(file);
    assert_string_equal(text, expected);
    free(text);
}

TEST(columns_are_as_wide_as_their_widest_cell) {
    text_table *const table = table_create("name|>rate|note");
    table_cell(table, "a long name");
    table_cell(table, "%d", 7);
    table_end_row(table);
    table_cell(table, "µ·√"); /* three columns, seven bytes */
    table_cell(table, "1234567");
    table_cell(table, "here");
    table_cell(table, "cut off: a row that is not full is not printed");
    expect(table, "name            rate  note\n"
                  "a long name        7  \n"
                  "µ·√          1234567  here\n");
    table_destroy(table);
}

TEST(numbers_and_times_keep_three_digits) {
    static const double numbers[] = {1234.4, 99.96, 5.555, 0.0126, 0.00012, 0, NAN, 1e300, -1e300};
    static const double times[] = {12.5, 1, 0.0048811, 2.5e-5, 9.7e-10, 0, INFINITY, 1e-300, 1e300};
    text_table *const table = table_create(">number|>time");
    for (int i = 0; i < 9; i++) {
        table_number(table, numbers[i]);
        table_duration(table, times[i]);
    }
    expect(table, "   number      time\n"
                  "     1234    12.5 s\n"
                  "    100.0    1.00 s\n"
                  "     5.55   4.88 ms\n"
                  "    0.013   25.0 us\n"
                  "  1.2e-04   0.97 ns\n"
                  "    0.000    0.00 s\n"
                  "        -         -\n"
                  " 1.0e+300  1.0e-300\n"
                  "-1.0e+300  1.0e+300\n");
    table_destroy(table);
}

TEST_MAIN(NULL, NULL)
