/*
 * Decides which rows of a results file measure a device's main memory, and how close a row comes to
 * the figures of the device's datasheet.
 *
 * The commands report, compare and predict share one rule. A working set counts as in main memory
 * if it is at least MAIN_MEMORY_SETS times as large as the last-level cache. A smaller one may be
 * in a cache.
 */
#ifndef TANDEM_BENCH_ANALYSIS_MAIN_MEMORY_H
#define TANDEM_BENCH_ANALYSIS_MAIN_MEMORY_H

#include <tandem/device.h>

#include "bench/record/device_database.h"
#include "bench/record/results_read.h"

#define MAIN_MEMORY_SETS 4.0

/*
 * The assumed size, in bytes, of a last-level cache whose size is unknown. Larger caches are rare.
 */
#define MAIN_MEMORY_UNKNOWN_CACHE 256e6

/* Returns the datasheet of a device of the file, or NULL if there is none. */
const datasheet *main_memory_sheet(const results_file *file, size_t device);

/*
 * Returns the size, in bytes, of the last-level cache of a device of the file. It is the largest
 * size that the driver, the datasheet and, for a CPU, the system give. MAIN_MEMORY_UNKNOWN_CACHE
 * replaces an unknown size.
 */
double main_memory_cache(const results_file *file, size_t device);

/*
 * Returns the size, in bytes, of the last-level cache of a device of this machine, or NaN.
 */
double main_memory_cache_here(const tdm_device_info *info);

/* Returns the smallest working set, in bytes, that counts as in main memory of the device. */
double main_memory_from(const results_file *file, size_t device);

/*
 * Returns the working set of a row: the bytes that it accesses before it accesses any of them
 * again. NaN if unknown.
 */
double main_memory_set(const results_row *row);

/*
 * Returns the fastest row of Tandem in suite "memory" whose working set is in main memory. The name
 * of its case begins with `cases`, such as "write ". If `cases` is NULL, the row only reads.
 * Returns NULL if there is no such row.
 */
const results_row *main_memory_fastest(const results_file *file, size_t device, const char *cases);

/*
 * Returns the row's bandwidth or arithmetic rate at this median time, as a fraction of the
 * datasheet's peak. It is the greater of the two fractions, or NaN if both are unknown.
 * Bandwidth counts only if the working set has at least `from` bytes (main_memory_from).
 */
double sheet_share(const results_row *row, double median_s, const datasheet *sheet, double from);

#endif
