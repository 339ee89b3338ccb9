/*
 * Which rows of a results file are measurements of a device's main memory, and what share of its datasheet a row reaches.
 *
 * One rule decides for report, compare and predict: a working set of at least MAIN_MEMORY_SETS times the last cache is in main memory,
 * any smaller one may be in a cache.
 */
#ifndef TANDEM_BENCH_ANALYSIS_MAIN_MEMORY_H
#define TANDEM_BENCH_ANALYSIS_MAIN_MEMORY_H

#include <tandem/device.h>

#include "bench/record/device_database.h"
#include "bench/record/results_read.h"

#define MAIN_MEMORY_SETS 4.0

/* The cache of a device of which no size is known: larger ones are rare. */
#define MAIN_MEMORY_UNKNOWN_CACHE 256e6

/* The datasheet of a file's device; NULL: it is not known. */
const datasheet *main_memory_sheet(const results_file *file, size_t device);

/* Bytes of the last cache of a file's device, the largest that the driver, the system and the datasheet give. */
double main_memory_cache(const results_file *file, size_t device);

/* The same of a device of this machine; NaN: not known. */
double main_memory_cache_here(const tdm_device_info *info);

/* Bytes of the working set from which on it is in the main memory of the file's device. */
double main_memory_from(const results_file *file, size_t device);

/* The bytes that a row touches before it touches them again; NaN: not known. */
double main_memory_set(const results_row *row);

/*
 * The fastest of Tandem's rows of suite memory in main memory whose case begins with these words, e.g. "write "; NULL: of those that only
 * read. NULL: there is none.
 */
const results_row *main_memory_fastest(const results_file *file, size_t device, const char *cases);

/*
 * The share of a datasheet's bandwidth or arithmetic that a row of this median reaches, the greater one; NaN: not known. Of bandwidth
 * only where the set is at least `from` bytes, that of main_memory_from.
 */
double sheet_share(const results_row *row, double median_s, const datasheet *sheet, double from);

#endif
