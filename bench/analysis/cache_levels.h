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
    double
        bytes; /* of a cache that is told of: its size; else the largest working set that shows its rate */
    double rate; /* the median of its points' rates; 0: the curve ends before it */
    double
        until; /* the largest working set nearer to its rate than to the next one's; 0: not known */
    int is_memory;
    int is_cut; /* the curve may have ended before it did */
} cache_level;

/* What is told of a device's caches. */
typedef struct cache_hints {
    double bytes[CACHE_MAX_LEVELS - 1]; /* of all compute units together, the smallest first */
    int count;
    int complete; /* there are no others */
} cache_hints;

/*
 * The levels of a curve, the fastest first; returns their number. Points whose rate is not a positive number count for nothing.
 *
 * Where all caches are told of, each is a level, whose rate is that of the points well within it. Else the curve is cut into
 * levels of about one rate each: of three points at least but the first, which has one. Points on the way down from one level to
 * the next belong to the next. The memory is a level only where the curve has points of at least twice the largest cache that is
 * told of: the last rate of a shorter one is a cache's, or may be.
 */
int cache_levels_find(const cache_point *points, int count, const cache_hints *hints,
                      cache_level levels[CACHE_MAX_LEVELS]);

/* Number of the level of a point, 0 for the first. */
int cache_level_of(const cache_level *levels, int count, int point);

/*
 * "L1 64 KiB 810 GB/s, L2 2 MiB 300 GB/s, memory 45.1 GB/s" of rates in GB/s. A cache that gives its rate to much less than its
 * size says to how much, and what the curve does not reach is told: "L3 32 MiB not reached, memory not reached".
 */
void cache_levels_describe(const cache_level *levels, int count, char *text, size_t size);

#endif
