/* The levels that bench/analysis/cache_levels.h finds in curves whose levels are known. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bench/analysis/cache_levels.h"

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

static void points_without_a_rate_count_for_nothing(void **state) {
    (void)state;
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
static void caches_that_are_told_of_are_named(void **state) {
    (void)state;
    find_measured(0, MEASURED, &two_cores,
                  "L1 64 KiB 350 GB/s, L2 2 MiB 210 GB/s, L3 32 MiB 174 GB/s, memory 34.5 GB/s");
    find_measured(1, MEASURED, &two_cores,
                  "L1 64 KiB 349 GB/s, L2 2 MiB 213 GB/s, L3 32 MiB 174 GB/s, memory 34 GB/s");
}

static void a_cut_curve_has_no_memory(void **state) {
    (void)state;
    find_measured(1, 22, &two_cores,
                  "L1 64 KiB 349 GB/s, L2 2 MiB 213 GB/s, L3 32 MiB 178 GB/s, memory not reached");
    find_measured(1, 16, &two_cores,
                  "L1 64 KiB 349 GB/s, L2 2 MiB 213 GB/s, L3 32 MiB not reached, memory not "
                  "reached");
    find_measured(1, 26, &two_cores,
                  "L1 64 KiB 349 GB/s, L2 2 MiB 213 GB/s, L3 32 MiB 174 GB/s, memory not reached");
}

static void levels_are_named(void **state) {
    (void)state;
    char text[128];
    cache_level levels[] = {{1, 0, 65536, 300}, {2, 9, 1.5 * 1048576, 98.76}, {0, 20, 3e8, 24}};
    cache_levels_describe(levels, 3, text, sizeof text);
    assert_string_equal(text, "L1 64 KiB 300 GB/s, L2 1.5 MiB 98.8 GB/s, memory 24 GB/s");
    cache_levels_describe(levels, 2, text, sizeof text);
    assert_string_equal(text, "L1 64 KiB 300 GB/s, L2 1.5 MiB 98.8 GB/s, memory not reached");
    cache_levels_describe(levels, 0, text, sizeof text);
    assert_string_equal(text, "");
    char little[12];
    cache_levels_describe(levels, 3, little, sizeof little);
    assert_string_equal(little, "L1 64 KiB 3");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(points_without_a_rate_count_for_nothing),
        cmocka_unit_test(caches_that_are_told_of_are_named),
        cmocka_unit_test(a_cut_curve_has_no_memory),
        cmocka_unit_test(levels_are_named),
    };
    return cmocka_run_group_tests_name("cache levels", tests, NULL, NULL);
}
