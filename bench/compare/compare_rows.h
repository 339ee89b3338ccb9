/*
 * Which rows of several files are the same case: those with the same suite, case, implementation, dtype, shape, mode and packing.
 *
 * Of kernels with settings the default one is the same as the default one, and the best as the best, whatever they are.
 */
#ifndef TANDEM_BENCH_COMPARE_COMPARE_ROWS_H
#define TANDEM_BENCH_COMPARE_COMPARE_ROWS_H

#include "bench/compare/compare_table.h"

typedef struct placed_row {
    const results_row *row;
    compare_setting setting;
    size_t column;
    size_t place; /* column by column, as the files have them */
} placed_row;

/* Rows of all columns in the order of their cases; NULL when memory is short. */
placed_row *compare_place_rows(const compare_table *table, size_t *count);

/* 0: both are of one case. */
int compare_order_cases(const placed_row *left, const placed_row *right);

#endif
