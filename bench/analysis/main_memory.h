/*
 * Decides which rows of a results file measure a device's main memory, and what share of its
 * datasheet a row reaches.
 *
 * One rule serves report, compare and predict. A working set of at least MAIN_MEMORY_SETS times the
 * last-level cache is in main memory; a smaller one may be in a cache.
 */
#ifndef TANDEM_BENCH_ANALYSIS_MAIN_MEMORY_H
#define TANDEM_BENCH_ANALYSIS_MAIN_MEMORY_H

#include <tandem/device.h>

#include "bench/record/device_database.h"
#include "bench/record/results_read.h"

#define MAIN_MEMORY_SETS 4.0

/* The assumed cache size of a device whose size is unknown; larger caches are rare. */
#define MAIN_MEMORY_UNKNOWN_CACHE 256e6

/* Returns the datasheet of a file's device, or NULL if it is unknown. */
const datasheet *main_memory_sheet(const results_file *file, size_t device);

/*
 * Returns the bytes of the last-level cache of a file's device: the largest that the driver, the
 * system and the datasheet give.
 */
double main_memory_cache(const results_file *file, size_t device);

/* Returns the bytes of the last-level cache of a device of this machine, or NaN if unknown. */
double main_memory_cache_here(const tdm_device_info *info);

/* Returns the smallest working set, in bytes, that is in the main memory of the file's device. */
double main_memory_from(const results_file *file, size_t device);

/* Returns the bytes that a row touches before it touches any of them again, or NaN if unknown. */
double main_memory_set(const results_row *row);

/*
 * Returns Tandem's fastest row of suite memory in main memory whose case begins with `cases`, e.g.
 * "write ". With NULL for `cases`, only rows that just read count. Returns NULL if there is none.
 */
const results_row *main_memory_fastest(const results_file *file, size_t device, const char *cases);

/*
 * Returns the share of the datasheet's bandwidth or arithmetic that a row of this median reaches,
 * whichever is greater; NaN if unknown. Bandwidth counts only if the working set is at least `from`
 * bytes; `from` comes from main_memory_from.
 */
double sheet_share(const results_row *row, double median_s, const datasheet *sheet, double from);

#endif
