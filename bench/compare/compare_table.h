/*
 * Results of several devices side by side: rows that measure the same (suite, case, implementation, dtype, shape, mode, packing)
 * become one case with a cell for each device.
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

typedef struct compare_case {
    const results_row *row; /* for the names */
    compare_cell cells[COMPARE_MAX_COLUMNS];
} compare_case;

typedef struct compare_table {
    report_device columns[COMPARE_MAX_COLUMNS];
    size_t column_count;
    compare_case *cases;
    size_t case_count;
    size_t case_room;
    size_t matched; /* cases that at least two columns have */
    double margin;  /* speeds that differ by no more are the same: 0.03 */
} compare_table;

/* 0, or -1 when there are too many. */
int compare_add_columns(compare_table *table, const results_file *file);

/*
 * Match the rows of all columns. Second runs of Tandem, which older files have, are left out. 0, or -1 when memory is short; release
 * either way. The files must stay.
 */
int compare_match(compare_table *table);

void compare_release(compare_table *table);

typedef struct compare_mean {
    const char *dtype; /* NULL: any */
    double ratio;
    size_t cases;
} compare_mean;

/*
 * The geometric mean of a column's ratios in all cases of this one's suite, implementation and, of products, dtype. No cases where an
 * earlier case has that mean, and of loops of any length: caches and main memory have little in common.
 */
compare_mean compare_mean_at(const compare_table *table, size_t index, size_t column);

/* Name of the column's device, never NULL. */
const char *compare_device_name(const report_device *column);

/* ---- where files differ in a fact that figures depend on ------------------------------------------- */

enum {
    COMPARE_FACT_TEXT = 400
};

/* Begin with zeros. */
typedef struct compare_difference {
    size_t next;
    size_t column;     /* that differs from the first one */
    const char *place; /* "library", "environment" */
    const char *key;
    char base[COMPARE_FACT_TEXT];
    char other[COMPARE_FACT_TEXT];
} compare_difference;

/* Go on to the next fact that a column has otherwise than the first one and without which their figures mean the same; 0 behind the last. */
int compare_next_difference(const compare_table *table, compare_difference *item);

/* ---- the report: tables as text or as a page, and the schema tandem-compare/1 for programs ------------ */

void compare_print(const compare_table *table, FILE *file);

/* The same tables as an HTML page, with the rooflines of all devices. `data` is a compare_table. 0, or -1 when memory is short. */
int compare_page_write(FILE *file, const void *data);

/* NULL when memory is short. */
struct cJSON *compare_json(const compare_table *table);

enum {
    COMPARE_RATIO_TEXT = 128
};

/* "1.05x [1.02x, 1.07x] FASTER"; "-" for none. */
void compare_ratio_text(const speed_ratio *ratio, char *text, size_t size);

#endif
