/* The levels that bench/analysis/cache_levels.h finds in curves whose levels are known. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bench/analysis/cache_levels.h"
#include "common/random_fill.h"

typedef struct planted {
    double bytes; /* up to which it gives its rate */
    double rate;
} planted;

enum {
    MOST = 5,
    POINTS = 32
};

static const struct {
    const char *name;
    planted levels[MOST];
    double noise;     /* each point is off by up to this share */
    int outlier;      /* this point is at half its rate; -1: none */
    int way_down;     /* points between two levels */
    int first_octave; /* log2 of the first point's bytes */
} curves[] = {
    {"three caches", {{65536, 300}, {2 << 20, 170}, {16 << 20, 120}, {INFINITY, 40}}, 0, -1, 0, 13},
    {"noise", {{65536, 300}, {2 << 20, 170}, {16 << 20, 120}, {INFINITY, 40}}, 0.03, -1, 0, 13},
    {"slopes", {{65536, 300}, {1 << 20, 150}, {16 << 20, 60}, {INFINITY, 15}}, 0.02, -1, 2, 13},
    {"an outlier", {{65536, 300}, {4 << 20, 170}, {32 << 20, 120}, {INFINITY, 40}}, 0.02, 8, 0, 13},
    {"steps of a seventh", {{131072, 200}, {4 << 20, 172}, {INFINITY, 148}}, 0.01, -1, 0, 13},
    {"one cache", {{50e6, 5000}, {INFINITY, 3000}}, 0.03, -1, 1, 16},
    {"no cache", {{INFINITY, 25}}, 0.04, -1, 0, 13},
};

static const cache_hints nothing_told = {{0}, 0, 0};

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

static int level_of(const planted *levels, double bytes) {
    int level = 0;
    while (bytes > levels[level].bytes)
        level++;
    return level;
}

static void plant(size_t c, cache_point *points) {
    int before = 0;
    int since = 0;
    for (int i = 0; i < POINTS; i++) {
        const double bytes = bytes_of(curves[c].first_octave, i);
        const int level = level_of(curves[c].levels, bytes);
        double rate = curves[c].levels[level].rate;
        since = level == before ? since + 1 : 1;
        before = level;
        if (level > 0 && since <= curves[c].way_down) {
            const double faster = curves[c].levels[level - 1].rate;
            rate = faster * pow(rate / faster, since / (curves[c].way_down + 1.0));
        }
        rate *= 1 + curves[c].noise * (double)random_number(c + 1, (uint64_t)i);
        points[i] = (cache_point){bytes, i == curves[c].outlier ? rate / 2 : rate};
    }
}

static int planted_count(const planted *levels) {
    int count = 1;
    while (isfinite(levels[count - 1].bytes))
        count++;
    return count;
}

static void levels_are_found(void **state) {
    (void)state;
    for (size_t c = 0; c < sizeof curves / sizeof curves[0]; c++) {
        cache_point points[POINTS];
        cache_level levels[CACHE_MAX_LEVELS];
        const int expected = planted_count(curves[c].levels);
        plant(c, points);
        const double last = expected > 1 ? curves[c].levels[expected - 2].bytes : 0;
        const cache_hints hints = {{last}, expected > 1, 0};
        const int found = cache_levels_find(points, POINTS, &hints, levels);
        if (found != expected)
            fail_msg("%s: %d levels, not %d", curves[c].name, found, expected);
        assert_int_equal(levels[found - 1].is_memory, expected > 1);
        for (int l = 0; l < found; l++) {
            const planted *const right = &curves[c].levels[l];
            if (fabs(levels[l].rate / right->rate - 1) > 0.05)
                fail_msg("%s: level %d at %g, not %g", curves[c].name, l, levels[l].rate,
                         right->rate);
            if (isfinite(right->bytes) &&
                (levels[l].bytes > right->bytes || levels[l].bytes < right->bytes / 1.6))
                fail_msg("%s: level %d to %g bytes, not %g", curves[c].name, l, levels[l].bytes,
                         right->bytes);
        }
        for (int i = 0; i < POINTS; i++)
            if (i != curves[c].outlier &&
                cache_level_of(levels, found, i) != level_of(curves[c].levels, points[i].bytes))
                fail_msg("%s: point %d is of level %d", curves[c].name, i,
                         cache_level_of(levels, found, i));
    }
}

/* Half a dozen points on the way down are three or more at about one rate nowhere. */
static void a_slope_is_no_level(void **state) {
    (void)state;
    cache_point points[POINTS];
    cache_level levels[CACHE_MAX_LEVELS];
    for (int i = 0; i < POINTS; i++) {
        const int down = i < 10 ? 0 : i > 16 ? 6 : i - 10;
        points[i] = (cache_point){bytes_of(13, i), 300 * exp2(-0.25 * down)};
    }
    assert_int_equal(cache_levels_find(points, POINTS, &nothing_told, levels), 2);
    assert_true(fabs(levels[0].rate - 300) < 15);
    assert_true(fabs(levels[1].rate - 300 * exp2(-1.5)) < 5);
}

static void points_without_a_rate_count_for_nothing(void **state) {
    (void)state;
    cache_level levels[CACHE_MAX_LEVELS];
    const cache_point gaps[] = {{1024, NAN}, {2048, 100}, {4096, 0},   {8192, 101},
                                {16384, 99}, {32768, 50}, {65536, 50}, {131072, 50}};
    assert_int_equal(cache_levels_find(gaps, 8, &nothing_told, levels), 2);
    assert_int_equal(levels[0].first, 0);
    assert_int_equal(levels[1].first, 5);
    assert_true(levels[0].bytes == 16384);
    assert_int_equal(cache_levels_find(gaps, 1, &nothing_told, levels), 0);
    assert_int_equal(cache_levels_find(NULL, 0, &nothing_told, levels), 0);
    assert_int_equal(cache_levels_find(gaps + 1, 1, &nothing_told, levels), 1);
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
    find_measured(1, 12, &nothing_told,
                  "L1 64 KiB 348 GB/s, L2 384 KiB 215 GB/s, memory not reached");
}

static void a_device_s_last_cache_bounds_its_memory(void **state) {
    (void)state;
    cache_point points[MEASURED];
    cache_level levels[CACHE_MAX_LEVELS];
    const cache_hints told = {{32 << 20}, 1, 0};
    for (int i = 0; i < MEASURED; i++)
        points[i] = (cache_point){bytes_of(13, i), measured[0][i]};
    const int found = cache_levels_find(points, MEASURED, &told, levels);
    assert_int_equal(found, 4);
    assert_true(levels[3].is_memory);
    assert_int_equal(levels[3].first, 25);
    assert_int_equal(cache_level_of(levels, found, 24), 2);
    assert_int_equal(cache_levels_find(points, 26, &told, levels), 3);
    assert_false(levels[2].is_memory);
}

static void levels_are_named(void **state) {
    (void)state;
    char text[128];
    cache_level levels[] = {{0, 65536, 300, 0}, {9, 1.5 * 1048576, 98.76, 0}, {20, 3e8, 24, 1}};
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
        cmocka_unit_test(levels_are_found),
        cmocka_unit_test(a_slope_is_no_level),
        cmocka_unit_test(points_without_a_rate_count_for_nothing),
        cmocka_unit_test(caches_that_are_told_of_are_named),
        cmocka_unit_test(a_cut_curve_has_no_memory),
        cmocka_unit_test(a_device_s_last_cache_bounds_its_memory),
        cmocka_unit_test(levels_are_named),
    };
    return cmocka_run_group_tests_name("cache levels", tests, NULL, NULL);
}
