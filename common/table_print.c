#include "common/table_print.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common/html_text.h"
#include "formats/utf8_text.h"

enum {
    MAX_COLUMNS = 24,
    MAX_CELL = 512
};

struct text_table {
    char *headings[MAX_COLUMNS];
    int right[MAX_COLUMNS];
    int columns;
    char **cells; /* row by row; NULL if memory was short */
    size_t count;
    size_t capacity;
};

static char *copy_text(const char *text, size_t length) {
    char *const copy = malloc(length + 1);
    if (copy != NULL) {
        memcpy(copy, text, length);
        copy[length] = '\0';
    }
    return copy;
}

text_table *table_create(const char *headings) {
    text_table *const table = calloc(1, sizeof *table);
    while (table != NULL && headings != NULL && table->columns < MAX_COLUMNS) {
        const char *const end = strchr(headings, '|');
        const size_t length = end == NULL ? strlen(headings) : (size_t)(end - headings);
        const int right = headings[0] == '>';
        table->right[table->columns] = right;
        table->headings[table->columns++] = copy_text(headings + right, length - (size_t)right);
        headings = end == NULL ? NULL : end + 1;
    }
    return table;
}

static int grow(text_table *table) {
    const size_t capacity = table->capacity == 0 ? 64 : 2 * table->capacity;
    char **const cells = realloc(table->cells, capacity * sizeof *cells);
    if (cells == NULL)
        return -1;
    table->cells = cells;
    table->capacity = capacity;
    return 0;
}

void table_cell(text_table *table, const char *format, ...) {
    char text[MAX_CELL];
    if (table == NULL || (table->count == table->capacity && grow(table) != 0))
        return;
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    utf8_trim(text);
    table->cells[table->count++] = copy_text(text, strlen(text));
}

static void number_text(double value, char *text, size_t size) {
    const double magnitude = fabs(value);
    if (!isfinite(value))
        snprintf(text, size, "-");
    else if (magnitude != 0 && (magnitude < 0.001 || magnitude >= 1e9))
        snprintf(text, size, "%.1e", value);
    else
        snprintf(text, size, "%.*f",
                 magnitude >= 100  ? 0
                 : magnitude >= 10 ? 1
                 : magnitude >= 1  ? 2
                                   : 3,
                 value);
}

void table_number(text_table *table, double value) {
    char text[32];
    number_text(value, text, sizeof text);
    table_cell(table, "%s", text);
}

void table_duration_text(double seconds, char *text, size_t size) {
    static const char *const units[] = {"s", "ms", "us", "ns"};
    double value = seconds;
    int unit = 0;
    for (; unit < 3 && value != 0 && fabs(value) < 1; unit++)
        value *= 1000;
    if (seconds != 0 && (fabs(seconds) < 1e-12 || fabs(seconds) >= 1e9))
        number_text(seconds, text, size); /* uses an exponent and no unit prefix */
    else if (isfinite(seconds))
        snprintf(text, size, "%.*f %s", value >= 100 ? 0 : value >= 10 ? 1 : 2, value, units[unit]);
    else
        snprintf(text, size, "-");
}

void table_duration(text_table *table, double seconds) {
    char text[48];
    table_duration_text(seconds, text, sizeof text);
    table_cell(table, "%s", text);
}

void table_bytes_text(double bytes, char *text, size_t size) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;
    for (; bytes >= 1024 && unit + 1 < sizeof units / sizeof *units; unit++)
        bytes /= 1024;
    snprintf(text, size, "%.4g %s", bytes, units[unit]);
}

void text_append(char *text, size_t size, const char *separator, const char *format, ...) {
    size_t used = strlen(text);
    va_list values;
    used += (size_t)snprintf(text + used, size - used, "%s", used == 0 ? "" : separator);
    va_start(values, format);
    if (used < size)
        vsnprintf(text + used, size - used, format, values);
    va_end(values);
}

void table_end_row(text_table *table) {
    while (table != NULL && table->count % (size_t)table->columns != 0) {
        const size_t before = table->count;
        table_cell(table, "%s", "");
        if (table->count == before)
            return; /* memory is short */
    }
}

size_t table_row_count(const text_table *table) {
    return table == NULL ? 0 : table->count / (size_t)table->columns;
}

/* Returns the terminal columns of a text. UTF-8 continuation bytes take none. */
static int display_width(const char *text) {
    int width = 0;
    for (; text != NULL && *text != '\0'; text++)
        width += ((unsigned char)*text & 0xC0) != 0x80;
    return width;
}

static void print_row(const text_table *table, char *const *cells, const int *widths, FILE *file) {
    for (int column = 0; column < table->columns; column++) {
        const char *const text = cells[column] == NULL ? "" : cells[column];
        const int padding = widths[column] - display_width(text);
        const int last = column + 1 == table->columns;
        if (table->right[column])
            fprintf(file, "%*s%s", padding, "", text);
        else
            fprintf(file, "%s%*s", text, last ? 0 : padding, "");
        fputs(last ? "\n" : "  ", file);
    }
}

void table_print(const text_table *table, FILE *file) {
    int widths[MAX_COLUMNS] = {0};
    if (table == NULL)
        return;
    const size_t columns = (size_t)table->columns;
    const size_t complete = table_row_count(table) * columns;
    for (size_t column = 0; column < columns; column++) {
        widths[column] = display_width(table->headings[column]);
        for (size_t cell = column; cell < complete; cell += columns) {
            const int width = display_width(table->cells[cell]);
            widths[column] = width > widths[column] ? width : widths[column];
        }
    }
    print_row(table, table->headings, widths, file);
    for (size_t cell = 0; cell < complete; cell += columns)
        print_row(table, table->cells + cell, widths, file);
}

static void write_html_row(const text_table *table, char *const *cells, const char *element,
                           FILE *file) {
    fputs("<tr>", file);
    for (int column = 0; column < table->columns; column++) {
        fprintf(file, "<%s%s>", element, table->right[column] ? " class=\"number\"" : "");
        html_text(file, cells[column] == NULL ? "" : cells[column]);
        fprintf(file, "</%s>", element);
    }
    fputs("</tr>\n", file);
}

void table_write_html(const text_table *table, FILE *file) {
    if (table == NULL)
        return;
    const size_t columns = (size_t)table->columns;
    fputs("<div class=\"wide\"><table>\n<thead>", file);
    write_html_row(table, table->headings, "th", file);
    fputs("</thead>\n<tbody>\n", file);
    for (size_t cell = 0; cell + columns <= table->count; cell += columns)
        write_html_row(table, table->cells + cell, "td", file);
    fputs("</tbody></table></div>\n", file);
}

void table_destroy(text_table *table) {
    if (table == NULL)
        return;
    for (int column = 0; column < table->columns; column++)
        free(table->headings[column]);
    for (size_t cell = 0; cell < table->count; cell++)
        free(table->cells[cell]);
    free(table->cells);
    free(table);
}
