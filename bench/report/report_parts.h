/* The parts of the report's page. Each writes a <section>, or nothing when no row belongs there. */
#ifndef TANDEM_BENCH_REPORT_REPORT_PARTS_H
#define TANDEM_BENCH_REPORT_REPORT_PARTS_H

#include <stdio.h>

#include "bench/report/report_device.h"

/* What the device is, and the best that was measured of it, beside its datasheet. */
void report_write_card(FILE *file, const report_device *device);

/* The chart of speed by working set. 0, or -1 when memory is short. */
int report_write_memory(FILE *file, const results_file *results);

/* A table for each suite. */
void report_write_tables(FILE *file, const results_file *results);

/* What the figures were taken under. */
void report_write_environment(FILE *file, const results_file *results);

/* Whether a row is a measurement of Tandem itself that counts. */
int report_row_counts(const results_row *row);

/* The row's case, a number of bytes in it as one reads it: "copy 1 GiB" of "copy 1073741824". */
void report_write_case(FILE *file, const results_row *row);

/* The row's note, whether its samples are far apart, and whether it is above its device's datasheet. */
void report_write_note(FILE *file, const results_file *results, const results_row *row);

/* Bytes with the unit that suits them, e.g. "32 MiB". */
void report_print_size(char *text, size_t size, double bytes);

/* Whether the row's case begins with the word, e.g. "read" of "read 65536". */
int report_case_begins(const results_row *row, const char *word);

#endif
