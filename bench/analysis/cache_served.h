/* Rows that a cache may have served: what they tell of the memory behind it is an upper bound at most. */
#ifndef TANDEM_BENCH_ANALYSIS_CACHE_SERVED_H
#define TANDEM_BENCH_ANALYSIS_CACHE_SERVED_H

#include <tandem/device.h>

#include "bench/record/results_read.h"

/* A set that is this many times a cache cannot be served from it. */
#define CACHE_OUTGROWN 2.0

/* Bytes of the largest cache there is, where a file and its datasheet do not tell. */
#define CACHE_LARGEST 256e6

/* Bytes of the largest cache between a file's first device and its memory, as far as that or its datasheet tells; NaN: not known. */
double cache_served_bytes(const results_file *results);

/* The same of the file's device at this index. */
double cache_served_by(const results_file *results, size_t index);

/* The same of a device of this machine. */
double cache_served_here(const tdm_device_info *info);

/* "a cache of 32 MiB may serve it", or "": of kernels of suite memory at sizes of their own, not of sweeps and chases, which look for caches. */
void cache_served_note(const results_file *results, const results_row *row, char *text,
                       size_t size);

/* The same words for an array of so many bytes and a cache of so many. */
void cache_served_words(double bytes, double cache, char *text, size_t size);

#endif
