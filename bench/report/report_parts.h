/* Parts of the pages and tables of report and compare: devices, texts of rows, a page's head. */
#ifndef TANDEM_BENCH_REPORT_REPORT_PARTS_H
#define TANDEM_BENCH_REPORT_REPORT_PARTS_H

#include <stdio.h>

#include "bench/record/device_database.h"
#include "bench/record/results_read.h"
#include "common/table_print.h"

enum {
    REPORT_MAX_DEVICES = 10 /* shown side by side */
};

/* A device of a results file. */
typedef struct report_device {
    char label; /* 'A', 'B', …; 0: shown alone */
    const results_file *file;
    size_t device;          /* index in the file */
    const datasheet *sheet; /* NULL: unknown */
} report_device;

/* Returns 1 if a row is an accepted measurement of Tandem itself on this device. */
int report_row_counts(const report_device *device, const results_row *row);

/*
 * Returns the fraction of the datasheet's bandwidth or arithmetic rate that a row reaches with this
 * median, whichever is larger, or NaN if unknown.
 */
double report_share(const report_device *device, const results_row *row, double median_s);

/* ---- texts ----------------------------------------------------------------------------------- */

/*
 * Writes an amount such as "743 W", "82.6 TFLOP/s (91 %)" or "4.00e-04 W". It has three digits, and
 * the share if that is known. A "!" marks a share above 1. Writes "-" for NaN.
 */
void report_amount_text(double value, const char *unit, double share, char *text, size_t size);

/* Writes "1.05x", "0.054x" or "4.30e-03x": two decimals, three below 0.1. Writes "-" for NaN. */
void report_times_text(double ratio, char *text, size_t size);

/*
 * Writes the speed of a row with this median, such as "743 GFLOP/s (90 %)" or "45.5 GB/s". It is
 * "80.0 ns" for a load latency. Rows without a rate get the time of a call.
 */
void report_rate_text(const results_row *row, double median_s, double share, char *text,
                      size_t size);

/* Writes the row's case with a readable number of bytes: "copy 1 GiB" for "copy 1073741824". */
void report_case_text(const results_row *row, char *text, size_t size);

/* Writes the row's note, and whether it is noisy or above the datasheet. */
void report_note_text(const results_row *row, double share, char *text, size_t size);

/* ---- each device's best values: memory, arithmetic, GEMM, launch, upload --------------------- */

enum {
    BEST_MAX_LINES = 24
};

typedef struct best_line {
    const char *what;
    const char *unit;
    int less_is_better;
    double values[REPORT_MAX_DEVICES];   /* per device; NaN: not measured */
    double of_sheet[REPORT_MAX_DEVICES]; /* fraction of the datasheet; NaN: unknown */
} best_line;

/* Finds the lines for which some device has a value. Returns how many. */
size_t best_lines_find(const report_device *devices, size_t count, best_line lines[BEST_MAX_LINES]);

/*
 * Returns how many times as fast as the first device this one is. Returns NaN if one of them was
 * not measured.
 */
double best_line_ratio(const best_line *line, size_t device);

/* Makes a table of the lines, which the caller destroys. */
text_table *best_lines_table(const report_device *devices, size_t count);

/* ---- tables and pages ------------------------------------------------------------------------ */

/* Makes a table with a column for each device, and the ratios of speeds to the first one's. */
text_table *report_table_create(const char *first, const report_device *devices, size_t count,
                                const char *last);

/* Writes everything up to <body>. The caller ends the page with </body></html>. */
void report_write_head(FILE *file, const char *title);

/*
 * Checks, before any work, that the results and the page can be written. Either may be NULL.
 * Neither may replace the other or an input. Returns the exit code, after the reason on stderr.
 */
int report_check_outputs(const char *command, const char *json, const char *html,
                         const char *const *inputs, size_t count);

/*
 * Saves the page that `write` makes from `data`, completely or not at all. Returns the exit code,
 * after the reason on stderr.
 */
int report_save_page(const char *command, const char *path,
                     int (*write)(FILE *file, const void *data), const void *data);

/*
 * Writes the page of `tandem report`: HTML that loads nothing from elsewhere. `data` is a
 * report_device. Returns 0, or -1 if memory is short.
 */
int report_page_write(FILE *file, const void *data);

/* Draws the speed of a device by working set. Returns 0, or -1 if memory is short. */
int charts_write_memory(FILE *file, const report_device *device);

/*
 * Draws rooflines: the limits of arithmetic and memory at each intensity, with the measured GEMMs.
 * There is a chart for each precision that was measured. Returns 0, or -1 if memory is short.
 */
int charts_write_rooflines(FILE *file, const report_device *devices, size_t count);

#endif
