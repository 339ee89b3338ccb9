/*
 * Results of several devices side by side: rows that measure the same (suite, case, implementation, dtype, shape, mode, packing)
 * become one case with a cell for each device.
 */
#ifndef TANDEM_BENCH_COMPARE_COMPARE_TABLE_H
#define TANDEM_BENCH_COMPARE_COMPARE_TABLE_H

#include "bench/compare/compare_ratio.h"
#include "bench/report/report_device.h"

enum {
    COMPARE_MAX_COLUMNS = REPORT_MAX_DEVICES
};

typedef report_device compare_column;

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
    double share;      /* of the datasheet's bandwidth or arithmetic, the greater; NaN: not known */
    int other_work;    /* it counts other work than the first column: no ratio */
    speed_ratio ratio; /* to the first column: of the rates where loops of any length differ */
    double energy;     /* times the first column's energy for the same work; NaN: not known */
} compare_cell;

/* Rows of kernels that were measured with several settings name the default and the fastest one, which differ between devices. */
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
 * Match the rows of all columns. Second runs of Tandem, which older files have, are left out. 0, or -1 when memory is short; release
 * either way. The files must stay.
 */
int compare_match(compare_table *table, double margin);

void compare_release(compare_table *table);

/* "" or " (best setting)" …, to stand behind the case's name. */
const char *compare_setting_text(compare_setting setting);

/* Name of the column's device, never NULL. */
const char *compare_device_name(const compare_column *column);

#endif
