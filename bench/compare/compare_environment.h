/* Where the machines, or what ran on them, differ: differences that may explain a ratio. */
#ifndef TANDEM_BENCH_COMPARE_COMPARE_ENVIRONMENT_H
#define TANDEM_BENCH_COMPARE_COMPARE_ENVIRONMENT_H

#include "bench/compare/compare_table.h"

typedef struct compare_difference {
    size_t column;
    const char *place; /* "library", "host", "device", "environment" */
    const char *key;
    const char *base;  /* what the first column has; NULL: nothing */
    const char *other; /* what this one has */
    int refused;       /* figures of the two mean different things */
} compare_difference;

typedef struct compare_differences {
    compare_difference *items;
    size_t count;
    size_t refused;
} compare_differences;

/*
 * Compare each column's facts with the first's. Refused are another version of the library and another pattern of the data, where
 * both are known; all else is marked. What differs between any two runs (the load, temperatures, rates of the caches) is passed over, and so are the
 * facts of devices that are not the same device. 0, or -1 when memory is short.
 */
int compare_environments(const compare_table *table, compare_differences *differences);

void compare_differences_release(compare_differences *differences);

#endif
