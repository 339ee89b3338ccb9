/* What `tandem compare` tells: tables for people, and the schema tandem-compare/1 for programs. */
#ifndef TANDEM_BENCH_COMPARE_COMPARE_REPORT_H
#define TANDEM_BENCH_COMPARE_COMPARE_REPORT_H

#include <stdio.h>

#include "bench/compare/compare_environment.h"
#include "bench/compare/compare_table.h"

struct cJSON;

typedef struct compare_report {
    const compare_table *table;
    const compare_differences *differences;
    double margin;
} compare_report;

/* The devices, what is unlike, the cases, the means. */
void compare_print(const compare_report *report, FILE *file);

/* NULL when memory is short. */
struct cJSON *compare_json(const compare_report *report);

/* "743 W", "4.55 pJ", "82.6 TFLOP/s": three digits; "1.25e+299 W", "4.00e-04 W". */
void compare_amount_text(double value, const char *unit, char *text, size_t size);

enum {
    COMPARE_RATIO_TEXT = 112
};

/* "1.05", "0.054", "4.30e-03": so many digits behind the point, one more below 0.1. */
void compare_times_text(double ratio, int digits, char *text, size_t size);

/* "1.05x [1.02, 1.07]" */
void compare_ratio_text(const speed_ratio *ratio, int digits, char *text, size_t size);

/* "743 GFLOP/s", "661 TOP/s", "45.5 GB/s", "3.68 us" or "3.27 ns", whatever tells the speed of a cell's case. */
void compare_rate_text(const compare_cell *cell, char *text, size_t size);

/*
 * Why a cell that is not ok has no figure, or what one should know of one that is; of one without the margin whether what ran beside
 * it moved, too. "" for nothing.
 */
void compare_note_text(const compare_report *report, size_t index, size_t column, char *note,
                       size_t size);

/* Whether some device has a figure of a case, or failed. */
int compare_was_tried(const compare_case *item);

/* How many cases nobody tried; "" for none. They stand in the file alone. */
void compare_left_out_text(const compare_table *table, char *text, size_t size);

/* How a case was measured: "pipelined prepacked". */
void compare_how_text(const results_row *row, char *text, size_t size);

/* Takes a line without its end. */
typedef void compare_line(void *user, const char *text);

/*
 * Of each column how noisy it is, how far it agrees with the first, and whether it had a chance to: where the processors were, how fast the
 * clock was, whether the machine was quiet and repeated itself, as far as that is known.
 */
void compare_tell_agreement(const compare_report *report, compare_line *tell, void *user);

/* The same, for programs: members of a column's object. */
void compare_add_agreement(struct cJSON *item, const compare_report *report, size_t column);

#endif
