/* Parts of the pages and tables of report and compare: a device, the texts of its rows, the head of a page. */
#ifndef TANDEM_BENCH_REPORT_REPORT_PARTS_H
#define TANDEM_BENCH_REPORT_REPORT_PARTS_H

#include <stdio.h>

#include "bench/record/device_database.h"
#include "bench/record/results_read.h"
#include "common/table_print.h"

enum {
    REPORT_MAX_DEVICES = 10 /* side by side */
};

/* A device of a results file. */
typedef struct report_device {
    char label; /* 'A', 'B', …; 0: it is shown alone */
    const results_file *file;
    size_t device;          /* of the file */
    const datasheet *sheet; /* NULL: not known */
} report_device;

/* Whether a row is an accepted measurement of Tandem itself on this device. */
int report_row_counts(const report_device *device, const results_row *row);

/* The share of the datasheet's bandwidth or arithmetic that a row reaches with this median, the greater one; NaN: not known. */
double report_share(const report_device *device, const results_row *row, double median_s);

/* ---- texts ----------------------------------------------------------------------------------------- */

/* "743 W", "82.6 TFLOP/s (91 %)", "4.00e-04 W": three digits, a share that is known, and ! where that is above 1; "-" of NaN. */
void report_amount_text(double value, const char *unit, double share, char *text, size_t size);

/* "1.05x", "0.054x", "4.30e-03x": two digits behind the point, three below 0.1; "-" of NaN. */
void report_times_text(double ratio, char *text, size_t size);

/* The speed of a row with this median: "743 GFLOP/s (90 %)", "45.5 GB/s", "80.0 ns" of a load, else the time of a call. */
void report_rate_text(const results_row *row, double median_s, double share, char *text,
                      size_t size);

/* The row's case, a number of bytes in it as one reads it: "copy 1 GiB" of "copy 1073741824". */
void report_case_text(const results_row *row, char *text, size_t size);

/* The row's note, and whether it is noisy or above the datasheet. */
void report_note_text(const results_row *row, double share, char *text, size_t size);

/* ---- the best that each device gave: memory, arithmetic, products, a launch, the way from the host ---- */

enum {
    BEST_MAX_LINES = 24
};

typedef struct best_line {
    const char *what;
    const char *unit;
    int less_is_better;
    double values[REPORT_MAX_DEVICES];   /* of each device; NaN: not measured */
    double of_sheet[REPORT_MAX_DEVICES]; /* share of the datasheet; NaN: not known */
} best_line;

/* The lines of which some device has a value; returns how many. */
size_t best_lines_find(const report_device *devices, size_t count, best_line lines[BEST_MAX_LINES]);

/* How many times as fast as the first device; NaN where one was not measured. */
double best_line_ratio(const best_line *line, size_t device);

/* The lines as a table, which the caller destroys. */
text_table *best_lines_table(const report_device *devices, size_t count);

/* ---- tables and pages ------------------------------------------------------------------------------ */

/* A table with a column for each device, and how many times the first one's speed the others have. */
text_table *report_table_create(const char *first, const report_device *devices, size_t count,
                                const char *last);

/* All up to <body>, which the caller ends with </body></html>. */
void report_write_head(FILE *file, const char *title);

/*
 * Before any work: whether the results and the page can be written, either of which may be NULL, and neither takes the place of the
 * other or of an input. The exit code of the command, after the reason on stderr.
 */
int report_check_outputs(const char *command, const char *json, const char *html,
                         const char *const *inputs, size_t count);

/* Save the page that `write` makes of `data`, whole or not at all. The exit code of the command, after the reason on stderr. */
int report_save_page(const char *command, const char *path,
                     int (*write)(FILE *file, const void *data), const void *data);

/* The page of `tandem report`: HTML that loads nothing from elsewhere. `data` is a report_device. 0, or -1 when memory is short. */
int report_page_write(FILE *file, const void *data);

/* The speed of a device by working set. 0, or -1 when memory is short. */
int charts_write_memory(FILE *file, const report_device *device);

/*
 * Rooflines: what arithmetic and memory allow at each intensity, with the measured products. A chart for each precision that was
 * measured. A device alone has slopes for its caches, too. 0, or -1 when memory is short.
 */
int charts_write_rooflines(FILE *file, const report_device *devices, size_t count);

#endif
