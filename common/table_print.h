/* Tables for people. Columns are as wide as their widest cell, and numbers are aligned right. */
#ifndef TANDEM_COMMON_TABLE_PRINT_H
#define TANDEM_COMMON_TABLE_PRINT_H

#include <stdio.h>

typedef struct text_table text_table;

/*
 * Creates a table. Headings are separated by '|', and a heading that starts with '>' aligns its
 * column right, e.g. "device|>GFLOP/s|>ratio". Returns NULL if memory is short; every function
 * accepts NULL.
 */
text_table *table_create(const char *headings);

/* Adds the next cell, row by row. After a full row, the next one begins. */
void table_cell(text_table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Adds the next cell as a number with at most three decimals, or an exponent if it is very small or
 * large. NaN and infinity are "-".
 */
void table_number(text_table *table, double value);

/* Adds the next cell as a time with its unit, e.g. "4.88 ms", or "-" for NaN and infinity. */
void table_duration(text_table *table, double seconds);

/* Writes the text of such a cell. */
void table_duration_text(double seconds, char *text, size_t size);

/* Writes bytes with a suitable unit, e.g. "32 MiB". */
void table_bytes_text(double bytes, char *text, size_t size);

/* Appends as much as fits to a text, after a separator if the text is not empty. */
void text_append(char *text, size_t size, const char *separator, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Fills the rest of the current row with empty cells. */
void table_end_row(text_table *table);

/* Returns the number of complete rows. */
size_t table_row_count(const text_table *table);

void table_print(const text_table *table, FILE *file);

/* Writes the table as HTML. */
void table_write_html(const text_table *table, FILE *file);

void table_destroy(text_table *table);

#endif
