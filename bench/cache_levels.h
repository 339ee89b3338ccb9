/* The levels of memory that a curve of speed over working sets shows. */
#ifndef BENCH_CACHE_LEVELS_H
#define BENCH_CACHE_LEVELS_H

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
    int first;    /* point of the curve that it begins with */
    double bytes; /* the largest working set that shows its rate */
    double rate;  /* the median of its points' rates */
} cache_level;

/*
 * Cut the curve into levels of about one rate each, the fastest first; returns their number. Points whose rate is not a
 * positive number count for nothing. A level has three points at least but the first, which has one. Points on the way down
 * from one level to the next belong to the next.
 */
int cache_levels_find(const cache_point *points, int count, cache_level levels[CACHE_MAX_LEVELS]);

/* Number of the level of a point, 0 for the first. */
int cache_level_of(const cache_level *levels, int count, int point);

/*
 * "L1 64 KiB 810 GB/s, L2 2 MiB 300 GB/s, memory 45.1 GB/s" of rates in GB/s; `memory`: whether the last level is the device's
 * memory.
 */
void cache_levels_describe(const cache_level *levels, int count, int memory, char *text,
                           size_t size);

#endif
