#include "bench/analysis/cache_levels.h"

#include <math.h>
#include <stdio.h>

#include "bench/analysis/main_memory.h"
#include "bench/record/bench_statistics.h"

enum {
    LEAST_POINTS = 3 /* of a level that no known cache explains */
};

/* A working set well within a cache and well beyond the one before shows the cache's rate. */
static const double within_cache = 0.8;
static const double beyond_cache = 1.4;

/* Sizes that are computed may be off by the last bit. */
static const double rounding = 0.999;

/* In octaves: how far the curve falls to another level, and how flat three of its points are. */
static const double least_step = 0.13;
static const double flat = 0.12;

static int is_known(const cache_point *point) {
    return point->rate > 0 && isfinite(point->rate);
}

/* Median rate of the points above `low` and up to `high` bytes; 0 where there is none. */
static double rate_within(const cache_point *points, int count, double low, double high) {
    double rates[CACHE_MAX_POINTS];
    size_t known = 0;
    for (int i = 0; i < count && known < CACHE_MAX_POINTS; i++)
        if (is_known(&points[i]) && points[i].bytes > low && points[i].bytes <= high)
            rates[known++] = points[i].rate;
    return known == 0 ? 0 : summarize_samples(rates, known).median;
}

/* First point of more than so many bytes; `count` where there is none. */
static int first_above(const cache_point *points, int count, double bytes) {
    int first = 0;
    while (first < count && points[first].bytes <= bytes)
        first++;
    return first;
}

/* A level for each known cache. */
static int take_hints(const cache_point *points, int count, const cache_hints *hints,
                      cache_level *levels) {
    double low = 0;
    for (int l = 0; l < hints->count; l++) {
        const double high = hints->bytes[l];
        double rate = rate_within(points, count, beyond_cache * low, within_cache * high);
        if (rate <= 0)
            rate = rate_within(points, count, low, high);
        levels[l] =
            (cache_level){.first = first_above(points, count, low), .bytes = high, .rate = rate};
        low = high;
    }
    return hints->count;
}

/* The points that have a rate. */
typedef struct known_curve {
    double octaves[CACHE_MAX_POINTS];
    int place[CACHE_MAX_POINTS]; /* in the whole curve */
    int count;
} known_curve;

static double median_octave(const known_curve *curve, int first, int end) {
    return summarize_samples(curve->octaves + first, (size_t)(end - first)).median;
}

/* The end of the level that is flat from `settled` on: the first of two points in turn that lie below it. */
static int end_of_level(const known_curve *curve, int settled) {
    for (int i = settled + 1; i + 1 < curve->count; i++) {
        const double bound = median_octave(curve, settled, i) - least_step;
        if (curve->octaves[i] < bound && curve->octaves[i + 1] < bound)
            return i;
    }
    return curve->count;
}

/* The first of three points of about one rate; the curve's end where there are none. */
static int settle(const known_curve *curve, int from) {
    for (int i = from; i + LEAST_POINTS <= curve->count; i++)
        if (fabs(curve->octaves[i] - curve->octaves[i + LEAST_POINTS - 1]) <= flat)
            return i;
    return curve->count;
}

/* The levels that the curve itself shows. */
static int find_by_rate(const cache_point *points, int count, cache_level *levels) {
    known_curve curve = {.count = 0};
    int found = 0;
    int first = 0;
    int settled = 0;
    for (int i = 0; i < count && curve.count < CACHE_MAX_POINTS; i++) {
        if (!is_known(&points[i]))
            continue;
        curve.octaves[curve.count] = log2(points[i].rate);
        curve.place[curve.count++] = i;
    }
    while (found < CACHE_MAX_LEVELS && settled < curve.count) {
        int end = end_of_level(&curve, settled);
        const double rate = exp2(median_octave(&curve, settled, end));
        const int next = settle(&curve, end);
        if (next == curve.count || found + 1 == CACHE_MAX_LEVELS)
            end = curve.count; /* what follows is no level of its own */
        levels[found] = (cache_level){.first = found == 0 ? 0 : curve.place[first],
                                      .bytes = points[curve.place[end - 1]].bytes,
                                      .rate = rate};
        found++;
        first = end;
        settled = next;
    }
    return found;
}

int cache_levels_find(const cache_point *points, int count, const cache_hints *hints,
                      cache_level levels[CACHE_MAX_LEVELS]) {
    const double largest = hints->count > 0 ? hints->bytes[hints->count - 1] : INFINITY;
    const double memory =
        rate_within(points, count, rounding * MAIN_MEMORY_SETS * largest, INFINITY);
    const int cached = memory > 0 ? first_above(points, count, largest) : count;
    if (rate_within(points, count, 0, INFINITY) <= 0)
        return 0;
    int found = hints->complete && hints->count > 0 ? take_hints(points, count, hints, levels)
                                                    : find_by_rate(points, cached, levels);
    found = found < CACHE_MAX_LEVELS ? found : CACHE_MAX_LEVELS - 1;
    if (memory > 0)
        levels[found++] = (cache_level){
            .first = cached, .bytes = points[count - 1].bytes, .rate = memory, .is_memory = 1};
    return found;
}

int cache_level_of(const cache_level *levels, int count, int point) {
    int level = 0;
    while (level + 1 < count && levels[level + 1].first <= point)
        level++;
    return level;
}

/* "L2 2 MiB 200 GB/s" */
static int write_level(const cache_level *level, int number, char *text, size_t size) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double bytes = level->bytes;
    int unit = 0;
    if (level->is_memory)
        return snprintf(text, size, "memory %.3g GB/s", level->rate);
    while (bytes >= 1024 && unit < 4) {
        bytes /= 1024;
        unit++;
    }
    if (level->rate <= 0)
        return snprintf(text, size, "L%d %.4g %s not reached", number, bytes, units[unit]);
    return snprintf(text, size, "L%d %.4g %s %.3g GB/s", number, bytes, units[unit], level->rate);
}

void cache_levels_describe(const cache_level *levels, int count, char *text, size_t size) {
    size_t used = 0;
    text[0] = '\0';
    for (int l = 0; l < count && used < size; l++) {
        char level[160];
        write_level(&levels[l], l + 1, level, sizeof level);
        const int wrote = snprintf(text + used, size - used, "%s%s", l == 0 ? "" : ", ", level);
        used += wrote > 0 ? (size_t)wrote : 0;
    }
    if (count > 0 && !levels[count - 1].is_memory && used < size)
        snprintf(text + used, size - used, ", memory not reached");
}
