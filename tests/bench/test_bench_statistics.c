/* Statistics and the stopping rule of the benchmarks, the levels of memory that curves show, and tables for people. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/analysis/cache_levels.h"
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
    close_to(samples[8], 1); /* the input is left alone */
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

/* Two cores with 32 KiB and 1 MiB each and 32 MiB together. */
static const cache_hints two_cores = {{65536, 2 << 20, 32 << 20}, 3, 1};

/* Sweeps of one machine, four minutes apart, from 8 KiB to 128 MiB: other guests use the last cache and the memory, too. */
enum {
    MEASURED = 29
};

static const double measured[][MEASURED] = {
    {346.6, 351.7, 356.0, 362.8, 349.3, 345.0, 359.9, 210.0, 215.2, 212.3,
     211.0, 210.5, 210.2, 202.0, 187.6, 182.1, 179.4, 174.5, 180.3, 177.9,
     177.0, 167.7, 143.7, 125.5, 108.9, 66.1,  50.4,  42.6,  34.5},
    {348.4, 360.2, 354.7, 345.4, 349.8, 342.1, 344.7, 203.5, 214.3, 214.8,
     215.0, 214.7, 213.1, 187.4, 200.5, 195.0, 181.2, 179.6, 182.1, 178.5,
     173.8, 164.5, 141.0, 103.5, 74.8,  61.3,  48.6,  36.7,  34.0},
};

static double bytes_of(int octave, int i) {
    return ldexp(i % 2 == 0 ? 1 : 1.5, octave + i / 2);
}

TEST(points_without_a_rate_count_for_nothing) {
    cache_level levels[CACHE_MAX_LEVELS];
    const cache_hints one = {{16384}, 1, 2}, none = {{0}, 0, 1};
    const cache_point gaps[] = {{1024, NAN}, {2048, 100}, {4096, 0},   {8192, 101},
                                {16384, 99}, {32768, 50}, {65536, 50}, {131072, 50}};
    assert_int_equal(cache_levels_find(gaps, 8, &one, levels), 2);
    assert_int_equal(levels[0].number, 2);
    assert_int_equal(levels[0].first, 0);
    assert_true(levels[0].rate == 100.5);
    assert_int_equal(levels[1].number, 0);
    assert_int_equal(levels[1].first, 5);
    assert_int_equal(cache_level_of(levels, 2, 4), 0);
    assert_int_equal(cache_level_of(levels, 2, 5), 1);
    assert_int_equal(cache_levels_find(gaps, 1, &one, levels), 0);
    assert_int_equal(cache_levels_find(NULL, 0, &one, levels), 0);
    assert_int_equal(cache_levels_find(gaps, 8, &none, levels), 0);
}

static void find_measured(size_t which, int count, const cache_hints *hints, const char *expected) {
    cache_point points[MEASURED];
    cache_level levels[CACHE_MAX_LEVELS];
    char text[256];
    for (int i = 0; i < count; i++)
        points[i] = (cache_point){bytes_of(13, i), measured[which][i]};
    cache_levels_describe(levels, cache_levels_find(points, count, hints, levels), text,
                          sizeof text);
    assert_string_equal(text, expected);
}

/* The first finder called 181 GB/s of the third cache the memory of the second curve. */
TEST(caches_that_are_told_of_are_named) {
    find_measured(0, MEASURED, &two_cores,
                  "L1 64 KiB 350 GB/s, L2 2 MiB 210 GB/s, L3 32 MiB 174 GB/s, memory 34.5 GB/s");
    find_measured(1, MEASURED, &two_cores,
                  "L1 64 KiB 349 GB/s, L2 2 MiB 213 GB/s, L3 32 MiB 174 GB/s, memory 34 GB/s");
}

TEST(a_cut_curve_has_no_memory) {
    find_measured(1, 22, &two_cores, "L1 64 KiB 349 GB/s, L2 2 MiB 213 GB/s, L3 32 MiB 178 GB/s");
    find_measured(1, 16, &two_cores, "L1 64 KiB 349 GB/s, L2 2 MiB 213 GB/s");
    find_measured(1, 26, &two_cores, "L1 64 KiB 349 GB/s, L2 2 MiB 213 GB/s, L3 32 MiB 174 GB/s");
}

TEST(levels_are_named) {
    char text[128];
    cache_level levels[] = {{1, 0, 65536, 300}, {2, 9, 1.5 * 1048576, 98.76}, {0, 20, 3e8, 24}};
    cache_levels_describe(levels, 3, text, sizeof text);
    assert_string_equal(text, "L1 64 KiB 300 GB/s, L2 1.5 MiB 98.8 GB/s, memory 24 GB/s");
    cache_levels_describe(levels, 2, text, sizeof text);
    assert_string_equal(text, "L1 64 KiB 300 GB/s, L2 1.5 MiB 98.8 GB/s");
    cache_levels_describe(levels, 0, text, sizeof text);
    assert_string_equal(text, "");
    char little[12];
    cache_levels_describe(levels, 3, little, sizeof little);
    assert_string_equal(little, "L1 64 KiB 3");
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
