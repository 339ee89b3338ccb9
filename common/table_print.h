/* Tables for people: columns as wide as their widest cell, numbers to the right. */
#ifndef TANDEM_COMMON_TABLE_PRINT_H
#define TANDEM_COMMON_TABLE_PRINT_H

#include <stdio.h>

typedef struct text_table text_table;

/*
 * Headings separated by '|'; a heading that starts with '>' is a column set to the right.
 * E.g. "device|>GFLOP/s|>ratio". NULL when memory is short; every function accepts NULL.
 */
text_table *table_create(const char *headings);

/* Add the next cell, row by row. A row that is full is followed by the next one. */
void table_cell(text_table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Add the next cell as a number with three significant digits or more, "-" for NaN and infinity.
 */
void table_number(text_table *table, double value);

/* Add the next cell as a time with its unit, e.g. "4.88 ms"; "-" for NaN and infinity. */
void table_duration(text_table *table, double seconds);

/* The text of such a cell. */
void table_duration_text(double seconds, char *text, size_t size);

/* "32 MiB": bytes with the unit that suits them. */
void table_bytes_text(double bytes, char *text, size_t size);

/* Add to a text as far as it has room, behind a separator where it is not empty. */
void text_append(char *text, size_t size, const char *separator, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Fill the rest of the current row with empty cells. */
void table_end_row(text_table *table);

/* Rows that are complete. */
size_t table_row_count(const text_table *table);

void table_print(const text_table *table, FILE *file);

/* The same as an HTML table. */
void table_write_html(const text_table *table, FILE *file);

void table_destroy(text_table *table);

#endif
