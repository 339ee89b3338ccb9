/*
 * What each device gave at best, in a few lines: main memory, arithmetic, products, a launch, the way from the host. For who chooses
 * between devices; the cases have the intervals.
 */
#ifndef TANDEM_BENCH_COMPARE_COMPARE_BEST_H
#define TANDEM_BENCH_COMPARE_COMPARE_BEST_H

#include <stdio.h>

#include "bench/compare/compare_table.h"

struct cJSON;

typedef struct best_line {
    char what[48];
    const char *unit;
    int less_is_better;
    double values[COMPARE_MAX_COLUMNS];   /* of each column; NaN: not measured */
    double of_sheet[COMPARE_MAX_COLUMNS]; /* share of the datasheet; NaN: not known */
} best_line;

enum {
    COMPARE_BEST_LINES = 16
};

/* The lines of which some column has a value; returns how many. */
size_t compare_best_find(const compare_table *table, best_line lines[COMPARE_BEST_LINES]);

/* How many times as fast as the first column; NaN where one was not measured. */
double compare_best_ratio(const best_line *line, size_t column);

/* A table; nothing where there are no lines. */
void compare_best_print(const compare_table *table, FILE *file);

/* The same for the page. */
void compare_best_write(FILE *file, const compare_table *table);

/* For programs: the list of lines. */
struct cJSON *compare_best_json(const compare_table *table);

#endif
