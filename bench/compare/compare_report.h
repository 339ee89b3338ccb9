/* The report of `tandem compare`: tables for people, and the schema tandem-compare/1 for programs. */
#ifndef TANDEM_BENCH_COMPARE_COMPARE_REPORT_H
#define TANDEM_BENCH_COMPARE_COMPARE_REPORT_H

#include <stdio.h>

#include "bench/compare/compare_environment.h"
#include "bench/compare/compare_table.h"
#include "bench/report/best_lines.h"

struct cJSON;

typedef struct compare_report {
    const compare_table *table;
    const compare_differences *differences;
    double margin;
} compare_report;

/* The devices, what is unlike, the cases, the best lines, the means. */
void compare_print(const compare_report *report, FILE *file);

/* NULL when memory is short. */
struct cJSON *compare_json(const compare_report *report);

/* ---- texts of both tables and page ----------------------------------------------------------------- */

enum {
    COMPARE_RATIO_TEXT = 128
};

/* "1.05x [1.02, 1.07] FASTER"; "-" for none. */
void compare_ratio_text(const speed_ratio *ratio, int digits, char *text, size_t size);

/* The same of a best line, which has no interval: "1.05x". */
void compare_best_ratio_text(const best_line *line, size_t column, char *text, size_t size);

/* "743 GFLOP/s (90 %)", "661 TOP/s", "45.5 GB/s", "3.68 us" or "3.27 ns", whatever is the speed of a cell's case. */
void compare_rate_text(const compare_cell *cell, char *text, size_t size);

/* Why a cell that is not ok has no figure, or what one should know of one that is; "" for nothing. */
void compare_note_text(const compare_cell *cell, char *text, size_t size);

/* The notes of all cells of a case: "A: noisy; B: no such row". */
void compare_notes_text(const compare_table *table, const compare_case *item, char *notes,
                        size_t size);

/* How a case was measured: "pipelined prepacked". */
void compare_how_text(const results_row *row, char *text, size_t size);

/* "0.85x" of the first column's energy, "-" where it is not known; and whether any cell has one. */
void compare_energy_text(const compare_cell *cell, char *text, size_t size);
int compare_has_energy(const compare_table *table);

/* A line each for a device, a difference of environments, and a mean. */
void compare_column_text(const compare_column *column, char *text, size_t size);
void compare_difference_text(const compare_report *report, const compare_difference *item,
                             char *text, size_t size);
void compare_mean_text(const compare_report *report, const compare_mean *mean, char *text,
                       size_t size);

/* Whether some device has a figure of a case, or failed. */
int compare_was_tried(const compare_case *item);

#endif
