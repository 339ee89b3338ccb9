/* Rooflines of all compared devices: a chart for each precision that was measured, and one in shares of the datasheets. */
#ifndef TANDEM_BENCH_COMPARE_COMPARE_ROOFLINES_H
#define TANDEM_BENCH_COMPARE_COMPARE_ROOFLINES_H

#include <stdio.h>

#include "bench/compare/compare_table.h"

/* GB/s of the row that main_memory_fastest() finds; 0: there is none. */
double compare_memory_speed(const compare_column *column, const char *cases);

/* Failures of writing stand in the stream (ferror). 0, or -1 when memory is short. */
int compare_rooflines_write(FILE *file, const compare_table *table);

#endif
