/*
 * Results of several devices side by side: rows that measure the same (suite, case, implementation, dtype, shape, mode, packing)
 * become one case with a cell for each device; compare_rows.h says what else does.
 */
#ifndef TANDEM_BENCH_COMPARE_COMPARE_TABLE_H
#define TANDEM_BENCH_COMPARE_COMPARE_TABLE_H

#include "bench/compare/compare_ratio.h"
#include "bench/record/device_database.h"
#include "bench/record/results_read.h"

enum {
    COMPARE_MAX_COLUMNS = 10
};

/* A device of a file. */
typedef struct compare_column {
    char label; /* 'A', 'B', … */
    const results_file *file;
    size_t device;          /* of the file */
    const datasheet *sheet; /* NULL: not known */
} compare_column;

typedef struct compare_cell {
    const results_row *row; /* the first that is ok, else the first; NULL: the column has none */
    size_t repeats;         /* rows that are ok; their samples are taken together */
    double *pooled;         /* where there are several */
    sample_list samples;
    double median_s;
    double p5_s;
    double p95_s;
    double gflops;
    double gbs;
    double
        of_bandwidth; /* share of the sheet's memory bandwidth; NaN: not known, or a cache may have served it */
    double of_peak;   /* share of the sheet's arithmetic */
    int above_memory; /* faster than the sheet's memory, with a set that a cache may have served */
    double cache_mb;  /* of the sheet; NaN: not known */
    int other_work;   /* it counts other work than the first column: no ratio */
    double set_bytes; /* of a case of arrays of any size; NaN of others */
    speed_ratio
        ratio; /* to the first column: of the rates where loops of any length differ in it */
} compare_cell;

/* Rows of kernels that were measured with several settings name the default and the fastest one, which differ between devices. */
typedef enum compare_setting {
    SETTING_ONLY,
    SETTING_DEFAULT,
    SETTING_BEST
} compare_setting;

typedef struct compare_case {
    const results_row *row; /* for the names */
    char *name;             /* "read beyond caches", of arrays of any size; NULL: that of the row */
    compare_setting setting;
    compare_cell cells[COMPARE_MAX_COLUMNS];
} compare_case;

/* What bounds a case on two devices (compare_bound.h). */
typedef enum compare_bound {
    BOUND_NONE, /* nothing that its neighbours share */
    BOUND_MAIN_MEMORY,
    BOUND_CACHES,
    BOUND_MEMORY_LATENCY,
    BOUND_CACHE_LATENCY,
    BOUND_LINK, /* to and from the host */
    BOUND_ARITHMETIC,
    BOUND_CALLS /* the time of a call, as of launches and the pool */
} compare_bound;

/* The geometric mean of a suite's ratios of one implementation, of what has one bound. */
typedef struct compare_mean {
    const char *suite;
    const char *impl;
    compare_bound bound;
    const char *detail; /* what else they share (compare_bound_detail) */
    size_t column;
    speed_ratio mean;
    size_t cases;
    size_t verdicts[VERDICT_AMBIGUOUS + 1];
} compare_mean;

typedef struct compare_table {
    compare_column columns[COMPARE_MAX_COLUMNS];
    size_t column_count;
    compare_case *cases;
    size_t case_count;
    compare_mean *means;
    size_t mean_count;
    size_t matched; /* cases that at least two columns have */
} compare_table;

/* 0, or -1 when there are too many. */
int compare_add_columns(compare_table *table, const results_file *file);

/*
 * Match the rows of all columns. Runs of tandem-again, which stand beside Tandem's to show how noisy the machine was, are left out.
 * 0, or -1 when memory is short; release either way. The files must stay.
 */
int compare_match(compare_table *table, double margin);

void compare_release(compare_table *table);

const char *compare_case_name(const compare_case *item);

/* Whether a row is of a loop as long as suits its device, of which nothing but the rate counts. */
int compare_is_of_any_length(const results_row *row);

/* Whether a cell reaches more than its datasheet promises. */
int compare_above_sheet(const compare_cell *cell);

/* The greater of its shares, NaN where there is none. */
double compare_share(const compare_cell *cell);

/* "" or " (best setting)" …, to stand behind the case's name. */
const char *compare_setting_text(compare_setting setting);

/* Name of the column's device, never NULL. */
const char *compare_device_name(const compare_column *column);

#endif
