/* What share of its device's datasheet a row reaches: nothing real is above it. */
#ifndef TANDEM_BENCH_ANALYSIS_SHEET_SHARE_H
#define TANDEM_BENCH_ANALYSIS_SHEET_SHARE_H

#include "bench/record/device_database.h"
#include "bench/record/results_read.h"

typedef struct sheet_share {
    double of_bandwidth; /* of the sheet's memory; NaN: not known, or a cache may have served it */
    double of_peak;      /* of the sheet's arithmetic; NaN: not known */
    int above_memory; /* faster than the sheet's memory, with a set that a cache may have served */
    double cache_mb;  /* of the sheet; NaN: not known */
} sheet_share;

/* Of a row at these rates; a sheet of NULL gives NaN. */
sheet_share sheet_share_find(const results_row *row, double gflops, double gbs,
                             const datasheet *sheet);

/* Whether it is more than the sheet promises: then the sheet, the clock or the measurement is wrong. */
int sheet_share_is_above(const sheet_share *share);

/* The sheet of a file's device; NULL: it is not known. */
const datasheet *sheet_of(const results_file *file, size_t device);

/* Rows of a file's device (ok, whoever ran) that are above its sheet; 0 for a device that is not known. */
size_t sheet_share_count(const results_file *file, size_t device);

#endif
