/* Which rows of a results file tell how fast a device's main memory is: one rule for a report's slope and those of compared devices. */
#ifndef TANDEM_BENCH_ANALYSIS_MAIN_MEMORY_H
#define TANDEM_BENCH_ANALYSIS_MAIN_MEMORY_H

#include "bench/record/results_read.h"

/*
 * Bytes of an array from which on it counts as in main memory: four times the last cache, as one serves much of smaller ones, or twice where nothing
 * that was read is as large. Where no cache is known half of the largest that was read; infinity where nothing was.
 */
double main_memory_from(const results_file *file, size_t device);

/*
 * The fastest of Tandem's rows of such arrays whose case begins so (NULL: of those that only read), without those beside which the
 * processors stood elsewhere, unless there are no others. NULL: there is none.
 */
const results_row *main_memory_fastest(const results_file *file, size_t device, const char *cases);

#endif
