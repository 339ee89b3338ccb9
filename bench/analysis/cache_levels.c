#include "bench/analysis/cache_levels.h"

#include <math.h>
#include <stdio.h>

#include "bench/analysis/main_memory.h"
#include "bench/record/bench_statistics.h"
#include "common/table_print.h"

/* A working set well within a cache and well beyond the one before shows the cache's rate. */
static const double within_cache = 0.8;
static const double beyond_cache = 1.4;

/* Sizes that are computed may be off by the last bit. */
static const double rounding = 0.999;

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

int cache_levels_find(const cache_point *points, int count, const cache_hints *hints,
                      cache_level levels[CACHE_MAX_LEVELS]) {
    double low = 0;
    if (hints->count == 0 || rate_within(points, count, 0, INFINITY) <= 0)
        return 0;
    for (int l = 0; l < hints->count; l++) {
        const double high = hints->bytes[l];
        double rate = rate_within(points, count, beyond_cache * low, within_cache * high);
        if (rate <= 0)
            rate = rate_within(points, count, low, high);
        levels[l] = (cache_level){.number = hints->first + l,
                                  .first = first_above(points, count, low),
                                  .bytes = high,
                                  .rate = rate};
        low = high;
    }
    const double memory = rate_within(points, count, rounding * MAIN_MEMORY_SETS * low, INFINITY);
    if (memory <= 0)
        return hints->count;
    levels[hints->count] = (cache_level){
        .first = first_above(points, count, low), .bytes = points[count - 1].bytes, .rate = memory};
    return hints->count + 1;
}

int cache_level_of(const cache_level *levels, int count, int point) {
    int level = 0;
    while (level + 1 < count && levels[level + 1].first <= point)
        level++;
    return level;
}

void cache_levels_describe(const cache_level *levels, int count, char *text, size_t size) {
    text[0] = '\0';
    for (int l = 0; l < count; l++) {
        char name[48] = "memory";
        char bytes[32];
        table_bytes_text(levels[l].bytes, bytes, sizeof bytes);
        if (levels[l].number > 0)
            snprintf(name, sizeof name, "L%d %s", levels[l].number, bytes);
        if (levels[l].rate > 0)
            text_append(text, size, ", ", "%s %.3g GB/s", name, levels[l].rate);
    }
}
