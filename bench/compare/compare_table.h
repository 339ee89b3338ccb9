/*
 * Results of several devices side by side. Rows that measure the same thing (suite, case,
 * implementation, dtype, shape, mode, packing) become one case with a cell for each device.
 */
#ifndef TANDEM_BENCH_COMPARE_COMPARE_TABLE_H
#define TANDEM_BENCH_COMPARE_COMPARE_TABLE_H

#include "bench/compare/compare_ratio.h"
#include "bench/report/report_parts.h"

enum {
    COMPARE_MAX_COLUMNS = REPORT_MAX_DEVICES
};

typedef struct compare_cell {
    const results_row *row; /* the first ok row, else the first; NULL: the column has none */
    size_t repeats;         /* number of ok rows; their samples are combined */
    double *samples;        /* seconds, scaled to the first column's work */
    size_t sample_count;
    double median_s; /* per call; NaN: no row is ok */
    /* Fraction of the datasheet's bandwidth or arithmetic rate, the larger one. NaN: unknown. */
    double share;
    int other_work;    /* 1: its work differs from the first column's, so it has no ratio */
    speed_ratio ratio; /* to the first column; of the rates if loop lengths differ */
} compare_cell;

typedef struct compare_case {
    const results_row *row; /* its names identify the case */
    compare_cell cells[COMPARE_MAX_COLUMNS];
} compare_case;

typedef struct compare_table {
    report_device columns[COMPARE_MAX_COLUMNS];
    size_t column_count;
    compare_case *cases;
    size_t case_count;
    size_t case_room;
    size_t matched; /* number of cases that at least two columns have */
    double margin;  /* speeds within this fraction are the same, e.g. 0.03 */
} compare_table;

/* Returns 0, or -1 if there are too many columns. */
int compare_add_columns(compare_table *table, const results_file *file);

/*
 * Matches the rows of all columns. Older files contain second runs of Tandem (impl "tandem-again"),
 * which are left out. Returns 0, or -1 if memory is short; release the table in either case. The
 * files must stay open.
 */
int compare_match(compare_table *table);

void compare_release(compare_table *table);

typedef struct compare_mean {
    const char *dtype; /* NULL: any */
    double ratio;
    size_t cases;
} compare_mean;

/*
 * Returns the geometric mean of a column's ratios over all cases with the same suite,
 * implementation and (for GEMMs) dtype as this case. The mean has no cases if an earlier case
 * already has the same mean. It also has none for the memory and compute suites, because caches and
 * main memory have little in common.
 */
compare_mean compare_mean_at(const compare_table *table, size_t index, size_t column);

/* Returns the name of the column's device, never NULL. */
const char *compare_device_name(const report_device *column);

/* ---- facts on which figures depend ----------------------------------------------------------- */

enum {
    COMPARE_FACT_TEXT = 400
};

/* The caller starts with all members zero. */
typedef struct compare_difference {
    size_t next;
    size_t column;     /* the column that differs from the first one */
    const char *place; /* "library", "environment" */
    const char *key;
    char base[COMPARE_FACT_TEXT];
    char other[COMPARE_FACT_TEXT];
} compare_difference;

/*
 * Finds the next fact that differs between a column and the first one, and makes their figures
 * incomparable. Returns 0 after the last.
 */
int compare_next_difference(const compare_table *table, compare_difference *item);

/* ---- the report ------------------------------------------------------------------------------ */

void compare_print(const compare_table *table, FILE *file);

/*
 * Writes the tables as an HTML page, with the rooflines of all devices. `data` is a compare_table.
 * Returns 0, or -1 if memory is short.
 */
int compare_page_write(FILE *file, const void *data);

/* Makes JSON of the schema tandem-compare/1. Returns NULL if memory is short. */
struct cJSON *compare_json(const compare_table *table);

enum {
    COMPARE_RATIO_TEXT = 128
};

/* Writes a text such as "1.05x [1.02x, 1.07x] FASTER", or "-" if there is no ratio. */
void compare_ratio_text(const speed_ratio *ratio, char *text, size_t size);

#endif
