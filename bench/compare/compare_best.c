#include "bench/compare/compare_best.h"

#include <math.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "bench/analysis/main_memory.h"
#include "bench/compare/compare_report.h"
#include "bench/compare/compare_rooflines.h"
#include "bench/record/results_json.h"
#include "common/html_text.h"
#include "common/table_print.h"

/* ---- what there is to tell ------------------------------------------------------------------------- */

static int begins(const char *text, const char *start) {
    return strncmp(text, start, strlen(start)) == 0;
}

static int is_of(const compare_column *column, const results_row *row, const char *suite) {
    return row->status == RESULT_OK && row->device == column->device &&
           strcmp(row->impl, "tandem") == 0 && strcmp(row->suite, suite) == 0;
}

static double most_arithmetic(const compare_column *column, const char *suite, const char *dtype) {
    double most = NAN;
    for (size_t i = 0; i < column->file->row_count; i++) {
        const results_row *const row = &column->file->rows[i];
        if (is_of(column, row, suite) && row->dtype != NULL && strcmp(row->dtype, dtype) == 0 &&
            row->gflops > 0)
            most = fmax(most, row->gflops);
    }
    return most;
}

/* Nanoseconds of a load from the largest list, which the last cache holds least of; where a cache may hold all of it there is none. */
static double memory_latency(const compare_column *column) {
    double largest = 0;
    double latency = NAN;
    for (size_t i = 0; i < column->file->row_count; i++) {
        const results_row *const row = &column->file->rows[i];
        const double bytes = results_figure_value(&row->shape, "bytes");
        const double own = results_figure_value(&row->metrics, "latency_ns");
        if (!is_of(column, row, "memory") || !begins(row->case_name, "chase ") || !(own > 0) ||
            !(bytes > largest))
            continue;
        largest = bytes;
        latency = own;
    }
    return largest >= main_memory_from(column->file, column->device) ? latency : NAN;
}

static double least_launch(const compare_column *column) {
    double least = NAN;
    for (size_t i = 0; i < column->file->row_count; i++) {
        const results_row *const row = &column->file->rows[i];
        if (is_of(column, row, "launch") && strcmp(row->case_name, "kernel") == 0 &&
            row->mode != NULL && strcmp(row->mode, "pipelined") == 0)
            least = fmin(least, row->median_s * 1e6);
    }
    return least;
}

static double host_link(const compare_column *column) {
    double most = NAN;
    for (size_t i = 0; i < column->file->row_count; i++) {
        const results_row *const row = &column->file->rows[i];
        if (is_of(column, row, "memory") && begins(row->case_name, "upload ") &&
            strstr(row->case_name, "pinned") != NULL)
            most = fmax(most, row->gbs);
    }
    return most;
}

static double positive(double value) {
    return value > 0 ? value : NAN;
}

static double sheet_value(const compare_column *column, datasheet_field field) {
    return column->sheet == NULL ? NAN : column->sheet->values[field].value;
}

static best_line *begin_line(best_line *lines, const size_t *count, const char *what,
                             const char *dtype, const char *unit) {
    best_line *const line = &lines[*count];
    *line = (best_line){.unit = unit};
    snprintf(line->what, sizeof line->what, "%s%s%s", what, dtype == NULL ? "" : ", ",
             dtype == NULL ? "" : dtype);
    for (size_t c = 0; c < COMPARE_MAX_COLUMNS; c++)
        line->values[c] = line->of_sheet[c] = NAN;
    return line;
}

/* Keep the line if some column has a value. */
static void end_line(const compare_table *table, const best_line *line, size_t *count) {
    for (size_t c = 0; c < table->column_count; c++) {
        if (!isnan(line->values[c])) {
            (*count)++;
            return;
        }
    }
}

static void add_memory(const compare_table *table, best_line *lines, size_t *count) {
    static const struct {
        const char *what;
        const char *cases;
    } rows[] = {{"main memory, reading", NULL},
                {"main memory, writing", "write "},
                {"main memory, triad", "triad "}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        best_line *const line = begin_line(lines, count, rows[i].what, NULL, "GB/s");
        for (size_t c = 0; c < table->column_count; c++) {
            const compare_column *const column = &table->columns[c];
            line->values[c] = positive(compare_memory_speed(column, rows[i].cases));
            line->of_sheet[c] = line->values[c] / sheet_value(column, DATASHEET_DRAM_GBS);
        }
        end_line(table, line, count);
    }
}

static void add_arithmetic(const compare_table *table, const char *suite, const char *what,
                           best_line *lines, size_t *count) {
    static const struct {
        const char *dtype;
        const char *unit;
    } types[] = {{"f32", "GFLOP/s"}, {"f16", "GFLOP/s"}, {"bf16", "GFLOP/s"}, {"s8", "GOP/s"}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        best_line *const line = begin_line(lines, count, what, types[i].dtype, types[i].unit);
        for (size_t c = 0; c < table->column_count; c++) {
            const compare_column *const column = &table->columns[c];
            line->values[c] = most_arithmetic(column, suite, types[i].dtype);
            line->of_sheet[c] =
                line->values[c] / datasheet_peak_gflops(column->sheet, types[i].dtype);
        }
        end_line(table, line, count);
    }
}

static void add_figure(const compare_table *table, const char *what, const char *unit,
                       int less_is_better, double (*find)(const compare_column *column),
                       best_line *lines, size_t *count) {
    best_line *const line = begin_line(lines, count, what, NULL, unit);
    line->less_is_better = less_is_better;
    for (size_t c = 0; c < table->column_count; c++)
        line->values[c] = find(&table->columns[c]);
    end_line(table, line, count);
}

size_t compare_best_find(const compare_table *table, best_line lines[COMPARE_BEST_LINES]) {
    size_t count = 0;
    add_memory(table, lines, &count);
    add_figure(table, "main memory, latency", "ns", 1, memory_latency, lines, &count);
    add_arithmetic(table, "compute", "arithmetic", lines, &count);
    add_arithmetic(table, "gemm", "products", lines, &count);
    add_figure(table, "launch, pipelined", "us", 1, least_launch, lines, &count);
    add_figure(table, "from the host, pinned", "GB/s", 0, host_link, lines, &count);
    return count;
}

double compare_best_ratio(const best_line *line, size_t column) {
    const double ratio = line->values[column] / line->values[0];
    return line->less_is_better ? 1 / ratio : ratio;
}

/* ---- for people ------------------------------------------------------------------------------------ */

static void value_text(const best_line *line, size_t column, char *text, size_t size) {
    char amount[40];
    char share[24] = "";
    if (isnan(line->values[column])) {
        snprintf(text, size, "-");
        return;
    }
    if (!isnan(line->of_sheet[column]))
        snprintf(share, sizeof share, " (%.0f %%%s)", 100 * line->of_sheet[column],
                 line->of_sheet[column] > 1 ? "!" : "");
    compare_amount_text(line->values[column], line->unit, amount, sizeof amount);
    snprintf(text, size, "%s%s", amount, share);
}

static void ratio_text(const best_line *line, size_t column, char *text, size_t size) {
    const double ratio = compare_best_ratio(line, column);
    char times[32] = "-";
    if (!isnan(ratio))
        compare_times_text(ratio, 2, times, sizeof times);
    snprintf(text, size, "%s%s", times, isnan(ratio) ? "" : "x");
}

void compare_best_print(const compare_table *table, FILE *file) {
    best_line lines[COMPARE_BEST_LINES];
    char text[80] = "at best";
    const size_t count = compare_best_find(table, lines);
    char headings[256] = "at best";
    for (size_t c = 0; c < table->column_count; c++) {
        const size_t used = strlen(headings);
        snprintf(headings + used, sizeof headings - used, c == 0 ? "|>%c" : "|>%c|>%c is",
                 table->columns[c].label, table->columns[c].label);
    }
    text_table *const printed = count == 0 ? NULL : table_create(headings);
    for (size_t i = 0; i < count; i++) {
        table_cell(printed, "%s", lines[i].what);
        for (size_t c = 0; c < table->column_count; c++) {
            value_text(&lines[i], c, text, sizeof text);
            table_cell(printed, "%s", text);
            if (c == 0)
                continue;
            ratio_text(&lines[i], c, text, sizeof text);
            table_cell(printed, "%s", text);
        }
    }
    if (count > 0)
        table_print(printed, file);
    table_destroy(printed);
}

static void write_line(FILE *file, const compare_table *table, const best_line *line) {
    char text[80];
    fputs("<tr><td>", file);
    html_text(file, line->what);
    fputs("</td>", file);
    for (size_t c = 0; c < table->column_count; c++) {
        value_text(line, c, text, sizeof text);
        fputs("<td class=\"number\">", file);
        html_text(file, text);
        fputs("</td>", file);
        if (c == 0)
            continue;
        ratio_text(line, c, text, sizeof text);
        fputs("<td class=\"number\">", file);
        html_text(file, text);
        fputs("</td>", file);
    }
    fputs("</tr>\n", file);
}

void compare_best_write(FILE *file, const compare_table *table) {
    best_line lines[COMPARE_BEST_LINES];
    const size_t count = compare_best_find(table, lines);
    if (count == 0)
        return;
    fputs(
        "<h2>At best</h2>\n<div class=\"wide\">\n<table class=\"best\">\n<thead><tr><th>what</th>",
        file);
    for (size_t c = 0; c < table->column_count; c++)
        fprintf(file,
                c == 0 ? "<th class=\"number\">%c</th>"
                       : "<th class=\"number\">%c</th><th class=\"number\">to A</th>",
                table->columns[c].label);
    fputs("</tr></thead>\n<tbody>\n", file);
    for (size_t i = 0; i < count; i++)
        write_line(file, table, &lines[i]);
    fputs("</tbody></table>\n</div>\n", file);
}

/* ---- for programs ---------------------------------------------------------------------------------- */

static void add_number(cJSON *list, double value) {
    cJSON_AddItemToArray(list, isfinite(value) ? cJSON_CreateNumber(value) : cJSON_CreateNull());
}

cJSON *compare_best_json(const compare_table *table) {
    best_line lines[COMPARE_BEST_LINES];
    cJSON *const list = cJSON_CreateArray();
    const size_t count = compare_best_find(table, lines);
    for (size_t i = 0; i < count; i++) {
        cJSON *const item = cJSON_CreateObject();
        results_put_text(item, "what", lines[i].what);
        results_put_text(item, "unit", lines[i].unit);
        cJSON *const values = cJSON_AddArrayToObject(item, "values");
        cJSON *const shares = cJSON_AddArrayToObject(item, "of_sheet");
        cJSON *const ratios = cJSON_AddArrayToObject(item, "ratios");
        for (size_t c = 0; c < table->column_count; c++) {
            add_number(values, lines[i].values[c]);
            add_number(shares, lines[i].of_sheet[c]);
            add_number(ratios, compare_best_ratio(&lines[i], c));
        }
        cJSON_AddItemToArray(list, item);
    }
    return list;
}
