/* The parts of the report's page. Each writes a <section>, or nothing when no row belongs there. */
#ifndef TANDEM_BENCH_REPORT_REPORT_PARTS_H
#define TANDEM_BENCH_REPORT_REPORT_PARTS_H

#include <stdio.h>

#include "bench/record/results_read.h"

/* What the device is, what was measured of it at best, and its datasheet. */
void report_write_card(FILE *file, const results_file *results);

/* What the memory does: by working set, by kernel, to the host and back. 0, or -1 when memory is short. */
int report_write_memory(FILE *file, const results_file *results);

/* Rooflines, for floating point and for integers. As above. */
int report_write_rooflines(FILE *file, const results_file *results);

/* Matrix products, quantization, pool, launches, energy: a table of each. */
void report_write_tables(FILE *file, const results_file *results);

/* What the figures were taken under. */
void report_write_environment(FILE *file, const results_file *results);

/* Whether a row is a measurement of Tandem itself that counts. */
int report_row_counts(const results_row *row);

/* The row's case, a number of bytes in it as one reads it: "copy 1 GiB" of "copy 1073741824". */
void report_write_case(FILE *file, const results_row *row);

/* The row's note, whether a cache may have served it, and whether it is above its device's datasheet. */
void report_write_note(FILE *file, const results_file *results, const results_row *row);

/* Bytes with the unit that suits them, e.g. "32 MiB". */
void report_print_size(char *text, size_t size, double bytes);

/* Whether the row's case begins with the word, e.g. "read" of "read 65536". */
int report_case_begins(const results_row *row, const char *word);

#endif
