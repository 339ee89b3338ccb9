#include <math.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "bench/compare/compare_table.h"
#include "bench/record/environment_record.h"
#include "bench/record/results_json.h"
#include "common/html_text.h"

/* ---- tables ---------------------------------------------------------------------------------- */

void compare_ratio_text(const speed_ratio *ratio, char *text, size_t size) {
    char times[3][32];
    report_times_text(ratio->ratio, times[0], sizeof times[0]);
    report_times_text(ratio->low, times[1], sizeof times[1]);
    report_times_text(ratio->high, times[2], sizeof times[2]);
    if (isnan(ratio->ratio))
        snprintf(text, size, "-");
    else
        snprintf(text, size, "%s [%s, %s] %s", times[0], times[1], times[2],
                 ratio_verdict_name(ratio->verdict));
}

static const char *known(const char *text) {
    return text == NULL ? "unknown" : text;
}

static text_table *devices_table(const compare_table *all) {
    text_table *const table =
        table_create("|device|measured|version|file|datasheet|CPU used by others");
    for (size_t c = 0; c < all->column_count; c++) {
        const report_device *const column = &all->columns[c];
        const double others = results_get_number(column->file->environment, "others_of_run");
        char busy[32];
        table_cell(table, "%c", column->label);
        table_cell(table, "%s", compare_device_name(column));
        table_cell(table, "%s", known(column->file->created));
        table_cell(table, "%s", known(results_get_text(column->file->library, "version")));
        table_cell(table, "%s", column->file->name);
        if (column->sheet != NULL)
            table_cell(table, "%s, %s, %.4g GB/s", column->sheet->name, column->sheet->memory_type,
                       column->sheet->values[DATASHEET_DRAM_GBS]);
        else
            table_cell(table, "-");
        report_amount_text(100 * others, "%", NAN, busy, sizeof busy);
        table_cell(table, "%s", others > machine_busy_much ? busy : "");
    }
    return table;
}

static text_table *facts_table(const compare_table *all) {
    text_table *const table = table_create("differs from A (--force)||A|");
    compare_difference item = {.next = 0};
    while (compare_next_difference(all, &item)) {
        table_cell(table, "%c", all->columns[item.column].label);
        table_cell(table, "%s %s", item.place, item.key);
        table_cell(table, "%s", item.base);
        table_cell(table, "%s", item.other);
    }
    return table;
}

/* Writes why a cell has no figure, or a remark on its figure, or "". */
static void note_text(const compare_cell *cell, char *text, size_t size) {
    text[0] = '\0';
    if (cell->row == NULL)
        snprintf(text, size, "not measured");
    else if (cell->repeats == 0)
        snprintf(text, size, "%s: %s", cell->row->status == RESULT_FAILED ? "failed" : "skipped",
                 known(cell->row->reason));
    else if (cell->other_work)
        snprintf(text, size, "different amount of work");
    else
        report_note_text(cell->row, cell->share, text, size);
}

/* Returns 1 if some device has a figure for a case, or failed. */
static int was_tried(const compare_case *item) {
    for (size_t c = 0; c < COMPARE_MAX_COLUMNS; c++) {
        const compare_cell *const cell = &item->cells[c];
        if (cell->repeats > 0 || (cell->row != NULL && cell->row->status == RESULT_FAILED))
            return 1;
    }
    return 0;
}

static void add_case(text_table *table, const compare_table *all, const compare_case *item) {
    char text[256];
    char notes[512] = "";
    report_case_text(item->row, text, sizeof text);
    table_cell(table, "%s", item->row->suite);
    table_cell(table, "%s", text);
    table_cell(table, "%s", item->row->impl);
    table_cell(table, "%s %s", item->row->mode == NULL ? "" : item->row->mode,
               item->row->packing == NULL || strcmp(item->row->packing, "none") == 0
                   ? ""
                   : item->row->packing);
    for (size_t c = 0; c < all->column_count; c++) {
        const compare_cell *const cell = &item->cells[c];
        note_text(cell, text, sizeof text);
        if (text[0] != '\0')
            text_append(notes, sizeof notes, "; ", "%c: %s", all->columns[c].label, text);
        snprintf(text, sizeof text, "-");
        if (cell->repeats > 0)
            report_rate_text(cell->row, cell->median_s, cell->share, text, sizeof text);
        table_cell(table, "%s", text);
        if (c == 0)
            continue;
        compare_ratio_text(&cell->ratio, text, sizeof text);
        table_cell(table, "%s", text);
    }
    table_cell(table, "%s", notes);
}

static text_table *cases_table(const compare_table *all) {
    text_table *const table =
        report_table_create("suite|case|impl|how", all->columns, all->column_count, "|note");
    for (size_t i = 0; i < all->case_count; i++)
        if (was_tried(&all->cases[i]))
            add_case(table, all, &all->cases[i]);
    return table;
}

static text_table *best_table(const compare_table *all) {
    return best_lines_table(all->columns, all->column_count);
}

static text_table *means_table(const compare_table *all) {
    text_table *const table = table_create("geometric mean|dtype|impl||>as fast as A|>cases");
    for (size_t i = 0; i < all->case_count; i++)
        for (size_t c = 1; c < all->column_count; c++) {
            const compare_mean mean = compare_mean_at(all, i, c);
            if (mean.cases == 0)
                continue;
            table_cell(table, "%s", all->cases[i].row->suite);
            table_cell(table, "%s", mean.dtype == NULL ? "" : mean.dtype);
            table_cell(table, "%s", all->cases[i].row->impl);
            table_cell(table, "%c", all->columns[c].label);
            table_cell(table, "%.3fx", mean.ratio);
            table_cell(table, "%zu", mean.cases);
        }
    return table;
}

/* ---- for people ------------------------------------------------------------------------------ */

static void write_tables(const compare_table *all, int is_page, FILE *file) {
    text_table *(*const tables[])(const compare_table *) = {devices_table, facts_table, best_table,
                                                            cases_table, means_table};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        text_table *const table = tables[i](all);
        if (table_row_count(table) > 0)
            (is_page ? table_write_html : table_print)(table, file);
        table_destroy(table);
    }
    fprintf(file,
            "%sRatios are ratios of medians with a 95 %% interval from %d bootstrap resamples; "
            "speeds within %.3g %% count as the same.\n",
            is_page ? "<p>" : "", RATIO_RESAMPLES, 100 * all->margin);
}

void compare_print(const compare_table *table, FILE *file) {
    write_tables(table, 0, file);
}

int compare_page_write(FILE *file, const void *data) {
    const compare_table *const table = data;
    report_write_head(file, "Tandem: devices compared");
    fputs("<h1>Devices compared</h1>\n", file);
    const int status = charts_write_rooflines(file, table->columns, table->column_count);
    write_tables(table, 1, file);
    fputs("</p>\n</body>\n</html>\n", file);
    return status;
}

/* ---- for programs ---------------------------------------------------------------------------- */

static void put_label(cJSON *item, const report_device *column) {
    const char label[] = {column->label, '\0'};
    results_put_text(item, "label", label);
}

static cJSON *add_object(cJSON *list) {
    cJSON *const item = cJSON_CreateObject();
    cJSON_AddItemToArray(list, item);
    return item;
}

static void add_columns_json(cJSON *root, const compare_table *table) {
    cJSON *const devices = cJSON_AddArrayToObject(root, "devices");
    for (size_t c = 0; c < table->column_count; c++) {
        const report_device *const column = &table->columns[c];
        cJSON *const device = add_object(devices);
        put_label(device, column);
        results_put_text(device, "name", compare_device_name(column));
        results_put_text(device, "file", column->file->name);
        results_put_text(device, "schema", column->file->schema);
        results_put_text(device, "datasheet", column->sheet == NULL ? NULL : column->sheet->name);
    }
}

static void put_ratio(cJSON *item, const speed_ratio *ratio) {
    if (isnan(ratio->ratio)) {
        cJSON_AddNullToObject(item, "ratio");
        return;
    }
    cJSON *const json = cJSON_AddObjectToObject(item, "ratio");
    results_put_number(json, "value", ratio->ratio);
    results_put_number(json, "low", ratio->low);
    results_put_number(json, "high", ratio->high);
    results_put_text(json, "verdict", ratio_verdict_name(ratio->verdict));
}

static void add_cases_json(cJSON *root, const compare_table *table) {
    cJSON *const list = cJSON_AddArrayToObject(root, "cases");
    for (size_t i = 0; i < table->case_count; i++) {
        const compare_case *const source = &table->cases[i];
        cJSON *const item = add_object(list);
        results_put_text(item, "suite", source->row->suite);
        results_put_text(item, "case", source->row->case_name);
        results_put_text(item, "impl", source->row->impl);
        results_put_text(item, "dtype", source->row->dtype);
        results_put_text(item, "mode", source->row->mode);
        results_put_text(item, "packing", source->row->packing);
        cJSON *const cells = cJSON_AddArrayToObject(item, "cells");
        for (size_t c = 0; c < table->column_count; c++) {
            const compare_cell *const cell = &source->cells[c];
            char note[256];
            cJSON *const json = add_object(cells);
            note_text(cell, note, sizeof note);
            cJSON_AddNumberToObject(json, "rows", (double)cell->repeats);
            cJSON_AddNumberToObject(json, "samples", (double)cell->sample_count);
            results_put_number(json, "median_s", cell->median_s);
            results_put_number(json, "of_sheet", cell->share);
            results_put_text(json, "note", note);
            put_ratio(json, &cell->ratio);
        }
    }
}

static void add_means_json(cJSON *root, const compare_table *table) {
    cJSON *const list = cJSON_AddArrayToObject(root, "geometric_means");
    for (size_t i = 0; i < table->case_count; i++)
        for (size_t c = 1; c < table->column_count; c++) {
            const compare_mean mean = compare_mean_at(table, i, c);
            if (mean.cases == 0)
                continue;
            cJSON *const item = add_object(list);
            results_put_text(item, "suite", table->cases[i].row->suite);
            results_put_text(item, "impl", table->cases[i].row->impl);
            results_put_text(item, "dtype", mean.dtype);
            put_label(item, &table->columns[c]);
            cJSON_AddNumberToObject(item, "cases", (double)mean.cases);
            cJSON_AddNumberToObject(item, "mean", mean.ratio);
        }
}

cJSON *compare_json(const compare_table *table) {
    cJSON *const root = cJSON_CreateObject();
    results_put_text(root, "schema", "tandem-compare/1");
    cJSON_AddItemToObject(root, "library", results_library_json());
    cJSON_AddNumberToObject(root, "margin", table->margin);
    cJSON_AddNumberToObject(root, "resamples", RATIO_RESAMPLES);
    add_columns_json(root, table);
    add_cases_json(root, table);
    add_means_json(root, table);
    return root;
}
