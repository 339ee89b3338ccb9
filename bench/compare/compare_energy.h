/*
 * Power and energy of several devices side by side, of cases where at least two of them tell any: watts, and picojoules for each byte
 * and for each operation. What is told has no samples, so its ratios have no intervals.
 */
#ifndef TANDEM_BENCH_COMPARE_COMPARE_ENERGY_H
#define TANDEM_BENCH_COMPARE_COMPARE_ENERGY_H

#include <stdio.h>

#include "bench/compare/compare_table.h"

struct cJSON;

typedef enum energy_figure {
    ENERGY_POWER, /* W */
    ENERGY_BYTE,  /* pJ */
    ENERGY_FLOP,  /* pJ */
    ENERGY_FIGURES
} energy_figure;

/* Positive, or NaN where it is not told. */
double compare_energy_of(const compare_cell *cell, energy_figure figure);

/* How many times the first column's energy the same work takes; NaN where one does not tell, and of other work. */
double compare_energy_ratio(const compare_case *item, size_t column);

/* Table and geometric means; nothing where no case has two. */
void compare_energy_print(const compare_table *table, FILE *file);

/* The same for the page. */
void compare_energy_write(FILE *file, const compare_table *table);

/* For programs: of a cell, and the list of means. */
struct cJSON *compare_energy_json(const compare_case *item, size_t column);
struct cJSON *compare_energy_means_json(const compare_table *table);

#endif
