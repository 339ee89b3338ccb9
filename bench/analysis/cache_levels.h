/* The levels of memory that a curve of speed over working sets shows. */
#ifndef TANDEM_BENCH_ANALYSIS_CACHE_LEVELS_H
#define TANDEM_BENCH_ANALYSIS_CACHE_LEVELS_H

#include <stddef.h>

enum {
    CACHE_MAX_LEVELS = 6,
    CACHE_MAX_POINTS = 96
};

/* One point of the curve; points stand in order of their bytes. */
typedef struct cache_point {
    double bytes;
    double rate;
} cache_point;

typedef struct cache_level {
    int first; /* point of the curve that it begins with */
    /* The size of a known cache, else the largest working set that shows its rate. */
    double bytes;
    double rate; /* the median of its points' rates; 0: the curve ends before it */
    int is_memory;
} cache_level;

/* What is known of a device's caches. */
typedef struct cache_hints {
    double bytes[CACHE_MAX_LEVELS - 1]; /* of all compute units together, the smallest first */
    int count;
    int complete; /* there are no others */
} cache_hints;

/*
 * The levels of a curve, the fastest first; returns their number. Points whose rate is not a positive number count for nothing.
 *
 * Where all caches are known, each is a level, whose rate is that of the points well within it. Otherwise a level begins where the curve
 * falls, and needs three points of about one rate; points on the way down belong to the level that they lead to. Memory is a level only
 * where the curve has points of at least MAIN_MEMORY_SETS times the largest known cache.
 */
int cache_levels_find(const cache_point *points, int count, const cache_hints *hints,
                      cache_level levels[CACHE_MAX_LEVELS]);

/* Number of the level of a point, 0 for the first. */
int cache_level_of(const cache_level *levels, int count, int point);

/* "L1 64 KiB 810 GB/s, L2 2 MiB not reached, memory 45.1 GB/s" of rates in GB/s; "memory not reached" where no level is memory. */
void cache_levels_describe(const cache_level *levels, int count, char *text, size_t size);

#endif
