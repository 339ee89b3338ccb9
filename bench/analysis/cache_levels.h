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
    int number; /* 2: L2; 0: memory */
    int first;  /* point of the curve that it begins with */
    double bytes;
    double rate; /* the median of its points' rates; 0: the curve ends before it */
} cache_level;

/* What is known of a device's caches. */
typedef struct cache_hints {
    double bytes[CACHE_MAX_LEVELS - 1]; /* of all compute units together, the smallest first */
    int count;
    int first; /* number of the first: 1 for L1 */
} cache_hints;

/*
 * The levels of a curve, the fastest first: the known caches, of which each has the rate of the points well within it, and memory where
 * the curve has points of at least MAIN_MEMORY_SETS times the largest of them. Returns their number; 0 where no cache is known.
 * Points whose rate is not a positive number count for nothing.
 */
int cache_levels_find(const cache_point *points, int count, const cache_hints *hints,
                      cache_level levels[CACHE_MAX_LEVELS]);

/* Index of the level of a point. */
int cache_level_of(const cache_level *levels, int count, int point);

/* "L1 64 KiB 810 GB/s, L2 2 MiB 200 GB/s, memory 45.1 GB/s" of rates in GB/s, without what the curve does not reach. */
void cache_levels_describe(const cache_level *levels, int count, char *text, size_t size);

#endif
