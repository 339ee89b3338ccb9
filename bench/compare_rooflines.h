/* Rooflines of all compared devices: a chart for each precision that was measured, and one in shares of the datasheets. */
#ifndef BENCH_COMPARE_ROOFLINES_H
#define BENCH_COMPARE_ROOFLINES_H

#include <stdio.h>

#include "bench/compare_table.h"

/* Failures of writing stand in the stream (ferror). 0, or -1 when memory is short. */
int compare_rooflines_write(FILE *file, const compare_table *table);

#endif
