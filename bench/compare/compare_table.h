/*
 * Results of several devices side by side: rows that measure the same (suite, case, implementation, dtype, shape, mode, packing)
 * become one case with a cell for each device. Of kernels with settings the default one is compared with the default one, and the best
 * with the best, whatever they are.
 */
#ifndef TANDEM_BENCH_COMPARE_COMPARE_TABLE_H
#define TANDEM_BENCH_COMPARE_COMPARE_TABLE_H

#include "bench/compare/compare_ratio.h"
#include "bench/report/report_parts.h"

enum {
    COMPARE_MAX_COLUMNS = REPORT_MAX_DEVICES
};

typedef struct compare_cell {
    const results_row *row; /* the first that is ok, else the first; NULL: the column has none */
    size_t repeats;         /* rows that are ok; their samples are taken together */
    double *samples;        /* seconds, in proportion to the first column's work */
    size_t sample_count;
    double median_s;   /* of one call; NaN: none is ok */
    double share;      /* of the datasheet's bandwidth or arithmetic, the greater; NaN: not known */
    int other_work;    /* it counts other work than the first column: no ratio */
    speed_ratio ratio; /* to the first column: of the rates where loops of any length differ */
} compare_cell;

typedef enum compare_setting {
    SETTING_ONLY,
    SETTING_DEFAULT,
    SETTING_BEST
} compare_setting;

typedef struct compare_case {
    const results_row *row; /* for the names */
    compare_setting setting;
    compare_cell cells[COMPARE_MAX_COLUMNS];
} compare_case;

/* The geometric mean of a suite's ratios of one implementation, and of one dtype where products are computed. */
typedef struct compare_mean {
    const char *suite;
    const char *impl;
    const char *dtype; /* NULL: any */
    size_t column;
    size_t cases;
    double sum;   /* of the logarithms of the ratios */
    double *logs; /* RATIO_RESAMPLES sums of those that were resampled */
    speed_ratio mean;
} compare_mean;

typedef struct compare_table {
    report_device columns[COMPARE_MAX_COLUMNS];
    size_t column_count;
    compare_case *cases;
    size_t case_count;
    size_t case_room;
    compare_mean *means;
    size_t mean_count;
    size_t matched; /* cases that at least two columns have */
} compare_table;

/* 0, or -1 when there are too many. */
int compare_add_columns(compare_table *table, const results_file *file);

/*
 * Match the rows of all columns. Second runs of Tandem, which older files have, are left out. 0, or -1 when memory is short; release
 * either way. The files must stay.
 */
int compare_match(compare_table *table, double margin);

void compare_release(compare_table *table);

/* Name of the column's device, never NULL. */
const char *compare_device_name(const report_device *column);

/* ---- where the machines, or what ran on them, differ ----------------------------------------------- */

typedef struct compare_fact {
    const char *place; /* "library", "host", "device", "environment" */
    const char *key;
    int refuses; /* Figures of two files that differ in it mean different things. */
} compare_fact;

/* The facts that are compared; NULL behind the last. */
const compare_fact *compare_fact_at(size_t index);

/* What a column has, or NULL. */
const char *compare_fact_text(const report_device *column, const compare_fact *fact);

/* Whether a column has another value than the first one. */
int compare_fact_differs(const compare_table *table, size_t column, const compare_fact *fact);

#endif
