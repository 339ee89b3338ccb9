#include "bench/compare/compare_report.h"

#include <math.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "bench/record/machine_busy.h"
#include "bench/record/results_json.h"
#include "bench/report/page_texts.h"
#include "common/table_print.h"
#include "formats/utf8_text.h"

/* ---- texts ----------------------------------------------------------------------------------------- */

void compare_ratio_text(const speed_ratio *ratio, int digits, char *text, size_t size) {
    const double values[] = {ratio->ratio, ratio->low, ratio->high};
    char texts[3][32];
    if (isnan(ratio->ratio)) {
        snprintf(text, size, "-");
        return;
    }
    for (int i = 0; i < 3; i++)
        page_times_text(values[i], digits, texts[i], sizeof texts[i]);
    snprintf(text, size, "%sx [%s, %s] %s", texts[0], texts[1], texts[2],
             ratio_verdict_name(ratio->verdict));
}

static int computes_integers(const results_row *row) {
    return row->dtype != NULL &&
           (strstr(row->dtype, "s8") != NULL || strstr(row->dtype, "a8") != NULL);
}

void compare_rate_text(const compare_cell *cell, char *text, size_t size) {
    if (cell->repeats == 0) {
        snprintf(text, size, "-");
        return;
    }
    const int streams = strcmp(cell->row->suite, "gemv") == 0;
    const double latency = results_figure_value(&cell->row->metrics, "latency_ns");
    const double rate =
        isnan(cell->gflops) || (streams && !isnan(cell->gbs)) ? cell->gbs : cell->gflops;
    const char *const work = computes_integers(cell->row) ? "GOP/s" : "GFLOP/s";
    const char *const unit = rate == cell->gflops ? work : "GB/s";
    const int is_short = cell->median_s < 1e-6;
    if (latency > 0) /* a chase is for that: a rate of its bytes says nothing */
        page_amount_text(latency * cell->median_s / cell->row->median_s, "ns", text, size);
    else if (isnan(rate))
        page_amount_text(cell->median_s * (is_short ? 1e9 : 1e6), is_short ? "ns" : "us", text,
                         size);
    else
        page_share_text(rate, unit, cell->share, text, size);
}

void compare_note_text(const compare_cell *cell, char *text, size_t size) {
    text[0] = '\0';
    if (cell->row == NULL)
        snprintf(text, size, "no such row");
    else if (cell->repeats == 0)
        snprintf(text, size, "%s%s%s", cell->row->status == RESULT_FAILED ? "failed" : "skipped",
                 cell->row->reason == NULL ? "" : ": ",
                 cell->row->reason == NULL ? "" : cell->row->reason);
    else if (cell->share > 1)
        snprintf(text, size, "above its datasheet");
    else if (cell->other_work)
        snprintf(text, size, "counts other work");
    else if (cell->samples.count < RATIO_MIN_SAMPLES)
        snprintf(text, size, "too few samples");
    else if (cell->row->note != NULL)
        snprintf(text, size, "%s", cell->row->note);
    utf8_trim(text);
    const size_t used = strlen(text);
    if (cell->repeats > 0 && results_row_is_noisy(cell->row) && strstr(text, "noisy") == NULL)
        snprintf(text + used, size - used, "%snoisy", used == 0 ? "" : ", ");
}

void compare_how_text(const results_row *row, char *text, size_t size) {
    const int packs = row->packing != NULL && strcmp(row->packing, "none") != 0;
    snprintf(text, size, "%s%s%s", row->mode == NULL ? "" : row->mode, packs ? " " : "",
             packs ? row->packing : "");
    utf8_trim(text);
}

/* "-" of NaN. */
static void multiple_text(double ratio, char *text, size_t size) {
    char times[32];
    page_times_text(ratio, 2, times, sizeof times);
    snprintf(text, size, "%s%s", isnan(ratio) ? "-" : times, isnan(ratio) ? "" : "x");
}

void compare_energy_text(const compare_cell *cell, char *text, size_t size) {
    multiple_text(cell->energy, text, size);
}

void compare_best_ratio_text(const best_line *line, size_t column, char *text, size_t size) {
    multiple_text(best_line_ratio(line, column), text, size);
}

int compare_has_energy(const compare_table *table) {
    for (size_t i = 0; i < table->case_count; i++)
        for (size_t c = 0; c < table->column_count; c++)
            if (!isnan(table->cases[i].cells[c].energy))
                return 1;
    return 0;
}

void compare_mean_text(const compare_report *report, const compare_mean *mean, char *text,
                       size_t size) {
    char ratio[COMPARE_RATIO_TEXT];
    compare_ratio_text(&mean->mean, 3, ratio, sizeof ratio);
    snprintf(text, size,
             "%s%s%s, %s: %c is %s as fast as A, geometric mean of %zu case%s "
             "(%zu faster, %zu slower, %zu the same, %zu ambiguous)",
             mean->suite, mean->dtype == NULL ? "" : " ", mean->dtype == NULL ? "" : mean->dtype,
             mean->impl, report->table->columns[mean->column].label, ratio, mean->cases,
             mean->cases == 1 ? "" : "s", mean->verdicts[VERDICT_FASTER],
             mean->verdicts[VERDICT_SLOWER], mean->verdicts[VERDICT_SAME],
             mean->verdicts[VERDICT_AMBIGUOUS]);
    utf8_trim(text);
}

int compare_was_tried(const compare_case *item) {
    for (size_t c = 0; c < COMPARE_MAX_COLUMNS; c++) {
        const compare_cell *const cell = &item->cells[c];
        if (cell->repeats > 0 || (cell->row != NULL && cell->row->status == RESULT_FAILED))
            return 1;
    }
    return 0;
}

static const char *known(const char *text) {
    return text == NULL ? "unknown" : text;
}

void compare_column_text(const compare_column *column, char *text, size_t size) {
    char sheet[160] = "";
    char busy[80] = "";
    const double others = results_fact_number(&column->file->environment, "others_of_run");
    if (column->sheet != NULL)
        snprintf(sheet, sizeof sheet, "; datasheet: %s, %s, %.4g GB/s", column->sheet->name,
                 column->sheet->memory_type, column->sheet->values[DATASHEET_DRAM_GBS]);
    if (others > machine_busy_much)
        snprintf(busy, sizeof busy, "; the machine was busy: others took %.0f %%", 100 * others);
    snprintf(text, size, "%c = %s, measured %s by %s (%s)%s%s", column->label,
             compare_device_name(column), known(column->file->created),
             known(results_fact_text(&column->file->library, "version")), column->file->name, sheet,
             busy);
    utf8_trim(text);
}

void compare_difference_text(const compare_report *report, const compare_difference *item,
                             char *text, size_t size) {
    snprintf(text, size, "unlike%s: %s %s: A %s, %c %s", item->refused ? " (forced)" : "",
             item->place, item->key, known(item->base), report->table->columns[item->column].label,
             known(item->other));
    utf8_trim(text);
}

/* ---- for people ------------------------------------------------------------------------------------ */

/* A column of each device, and of all but the first one what it is beside that. */
static text_table *create_table(const compare_table *all, const char *first, int has_energy,
                                const char *last) {
    char headings[512];
    snprintf(headings, sizeof headings, "%s", first);
    for (size_t c = 0; c < all->column_count; c++) {
        const char label = all->columns[c].label;
        const size_t used = strlen(headings);
        if (c == 0)
            snprintf(headings + used, sizeof headings - used, "|>%c", label);
        else
            snprintf(headings + used, sizeof headings - used, "|>%c|>%c is%s", label, label,
                     has_energy ? "|>energy" : "");
    }
    const size_t used = strlen(headings);
    snprintf(headings + used, sizeof headings - used, "%s", last);
    return table_create(headings);
}

static void print_best(const compare_table *all, FILE *file) {
    best_line lines[BEST_MAX_LINES];
    const size_t count = best_lines_find(all->columns, all->column_count, lines);
    text_table *const table = count == 0 ? NULL : create_table(all, "at best", 0, "");
    char text[80];
    for (size_t i = 0; i < count; i++) {
        table_cell(table, "%s", lines[i].what);
        for (size_t c = 0; c < all->column_count; c++) {
            page_share_text(lines[i].values[c], lines[i].unit, lines[i].of_sheet[c], text,
                            sizeof text);
            table_cell(table, "%s", text);
            if (c == 0)
                continue;
            compare_best_ratio_text(&lines[i], c, text, sizeof text);
            table_cell(table, "%s", text);
        }
    }
    if (count > 0)
        table_print(table, file);
    table_destroy(table);
}

void compare_notes_text(const compare_table *table, const compare_case *item, char *notes,
                        size_t size) {
    notes[0] = '\0';
    for (size_t c = 0; c < table->column_count; c++) {
        char note[128];
        compare_note_text(&item->cells[c], note, sizeof note);
        const size_t used = strlen(notes);
        if (note[0] != '\0')
            snprintf(notes + used, size - used, "%s%c: %s", used == 0 ? "" : "; ",
                     table->columns[c].label, note);
    }
    utf8_trim(notes);
}

static void print_cases(const compare_table *all, FILE *file) {
    const int has_energy = compare_has_energy(all);
    text_table *const table = create_table(all, "suite|case|impl|how", has_energy, "|note");
    char text[256];
    for (size_t i = 0; i < all->case_count; i++) {
        const compare_case *const item = &all->cases[i];
        if (!compare_was_tried(item))
            continue;
        table_cell(table, "%s", item->row->suite);
        table_cell(table, "%s%s", item->row->case_name, compare_setting_text(item->setting));
        table_cell(table, "%s", item->row->impl);
        compare_how_text(item->row, text, 64);
        table_cell(table, "%s", text);
        for (size_t c = 0; c < all->column_count; c++) {
            compare_rate_text(&item->cells[c], text, sizeof text);
            table_cell(table, "%s", text);
            if (c == 0)
                continue;
            compare_ratio_text(&item->cells[c].ratio, 2, text, sizeof text);
            table_cell(table, "%s", text);
            compare_energy_text(&item->cells[c], text, sizeof text);
            if (has_energy)
                table_cell(table, "%s", text);
        }
        compare_notes_text(all, item, text, sizeof text);
        table_cell(table, "%s", text);
    }
    table_print(table, file);
    table_destroy(table);
}

void compare_print(const compare_report *report, FILE *file) {
    const compare_table *const table = report->table;
    char text[1024];
    for (size_t c = 0; c < table->column_count; c++) {
        compare_column_text(&table->columns[c], text, sizeof text);
        fprintf(file, "%s\n", text);
    }
    for (size_t i = 0; i < report->differences->count; i++) {
        compare_difference_text(report, &report->differences->items[i], text, sizeof text);
        fprintf(file, "%s\n", text);
    }
    print_cases(table, file);
    print_best(table, file);
    for (size_t i = 0; i < table->mean_count; i++) {
        if (table->means[i].cases == 0)
            continue;
        compare_mean_text(report, &table->means[i], text, sizeof text);
        fprintf(file, "%s\n", text);
    }
    fprintf(file,
            "ratios: median over median, 95 %% interval of %d bootstrap resamples; speeds "
            "within %.3g %% are the same\n",
            RATIO_RESAMPLES, 100 * report->margin);
}

/* ---- for programs ---------------------------------------------------------------------------------- */

static cJSON *sheet_json(const datasheet *sheet) {
    if (sheet == NULL)
        return cJSON_CreateNull();
    cJSON *const json = cJSON_CreateObject();
    results_put_text(json, "name", sheet->name);
    results_put_text(json, "memory_type", sheet->memory_type);
    results_put_text(json, "source", sheet->source);
    for (int field = 0; field < DATASHEET_FIELDS; field++)
        results_put_number(json, datasheet_field_name((datasheet_field)field),
                           sheet->values[field]);
    return json;
}

static void add_columns_json(cJSON *root, const compare_report *report) {
    const compare_table *const table = report->table;
    cJSON *const list = cJSON_AddArrayToObject(root, "devices");
    for (size_t c = 0; c < table->column_count; c++) {
        const compare_column *const column = &table->columns[c];
        const char label[] = {column->label, '\0'};
        cJSON *const item = cJSON_CreateObject();
        results_put_text(item, "label", label);
        results_put_text(item, "name", compare_device_name(column));
        results_put_text(item, "file", column->file->name);
        results_put_text(item, "schema", column->file->schema);
        results_put_text(item, "created", column->file->created);
        results_put_text(item, "version", results_fact_text(&column->file->library, "version"));
        cJSON_AddItemToObject(item, "datasheet", sheet_json(column->sheet));
        cJSON_AddItemToArray(list, item);
    }
}

static void add_differences_json(cJSON *root, const compare_report *report) {
    cJSON *const list = cJSON_AddArrayToObject(root, "unlike");
    for (size_t i = 0; i < report->differences->count; i++) {
        const compare_difference *const difference = &report->differences->items[i];
        const char label[] = {report->table->columns[difference->column].label, '\0'};
        cJSON *const item = cJSON_CreateObject();
        results_put_text(item, "label", label);
        results_put_text(item, "place", difference->place);
        results_put_text(item, "key", difference->key);
        results_put_text(item, "base", difference->base);
        results_put_text(item, "other", difference->other);
        cJSON_AddBoolToObject(item, "refused", difference->refused);
        cJSON_AddItemToArray(list, item);
    }
}

static cJSON *ratio_json(const speed_ratio *ratio) {
    if (isnan(ratio->ratio))
        return cJSON_CreateNull();
    cJSON *const json = cJSON_CreateObject();
    results_put_number(json, "value", ratio->ratio);
    results_put_number(json, "low", ratio->low);
    results_put_number(json, "high", ratio->high);
    results_put_text(json, "verdict", ratio_verdict_name(ratio->verdict));
    return json;
}

static cJSON *cell_json(const compare_cell *cell) {
    static const char *const energy[] = {"power_w", "pj_per_byte", "pj_per_flop"};
    char note[256];
    if (cell->row == NULL)
        return cJSON_CreateNull();
    cJSON *const json = cJSON_CreateObject();
    compare_note_text(cell, note, sizeof note);
    cJSON_AddNumberToObject(json, "rows", (double)cell->repeats);
    cJSON_AddNumberToObject(json, "samples", (double)cell->samples.count);
    results_put_text(json, "variant", cell->row->variant);
    results_put_number(json, "median_s", cell->median_s);
    results_put_number(json, "p5_s", cell->p5_s);
    results_put_number(json, "p95_s", cell->p95_s);
    results_put_number(json, "gflops", cell->gflops);
    results_put_number(json, "gbs", cell->gbs);
    results_put_number(json, "of_sheet", cell->share);
    for (size_t i = 0; i < sizeof energy / sizeof *energy; i++)
        results_put_number(json, energy[i], results_figure_value(&cell->row->metrics, energy[i]));
    results_put_number(json, "energy_ratio", cell->energy);
    results_put_text(json, "note", note);
    cJSON_AddItemToObject(json, "ratio", ratio_json(&cell->ratio));
    return json;
}

static void add_cases_json(cJSON *root, const compare_table *table) {
    cJSON *const list = cJSON_AddArrayToObject(root, "cases");
    for (size_t i = 0; i < table->case_count; i++) {
        const compare_case *const source = &table->cases[i];
        cJSON *const item = cJSON_CreateObject();
        results_put_text(item, "suite", source->row->suite);
        static const char *const settings[] = {NULL, "default", "best"};
        results_put_text(item, "case", source->row->case_name);
        results_put_text(item, "setting", settings[source->setting]);
        results_put_text(item, "impl", source->row->impl);
        results_put_text(item, "dtype", source->row->dtype);
        results_put_text(item, "mode", source->row->mode);
        results_put_text(item, "packing", source->row->packing);
        cJSON *const shape = cJSON_AddObjectToObject(item, "shape");
        for (size_t s = 0; s < source->row->shape.count; s++)
            results_put_number(shape, source->row->shape.items[s].key,
                               source->row->shape.items[s].value);
        cJSON *const cells = cJSON_AddArrayToObject(item, "cells");
        for (size_t c = 0; c < table->column_count; c++)
            cJSON_AddItemToArray(cells, cell_json(&source->cells[c]));
        cJSON_AddItemToArray(list, item);
    }
}

static void add_number(cJSON *list, double value) {
    cJSON_AddItemToArray(list, isfinite(value) ? cJSON_CreateNumber(value) : cJSON_CreateNull());
}

static void add_best_json(cJSON *root, const compare_table *table) {
    best_line lines[BEST_MAX_LINES];
    cJSON *const list = cJSON_AddArrayToObject(root, "at_best");
    const size_t count = best_lines_find(table->columns, table->column_count, lines);
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
            add_number(ratios, best_line_ratio(&lines[i], c));
        }
        cJSON_AddItemToArray(list, item);
    }
}

static void add_means_json(cJSON *root, const compare_table *table) {
    cJSON *const list = cJSON_AddArrayToObject(root, "geometric_means");
    for (size_t i = 0; i < table->mean_count; i++) {
        const compare_mean *const mean = &table->means[i];
        const char label[] = {table->columns[mean->column].label, '\0'};
        cJSON *const item = cJSON_CreateObject();
        results_put_text(item, "suite", mean->suite);
        results_put_text(item, "impl", mean->impl);
        results_put_text(item, "dtype", mean->dtype);
        results_put_text(item, "label", label);
        cJSON_AddNumberToObject(item, "cases", (double)mean->cases);
        cJSON_AddItemToObject(item, "ratio", ratio_json(&mean->mean));
        cJSON_AddNumberToObject(item, "faster", (double)mean->verdicts[VERDICT_FASTER]);
        cJSON_AddNumberToObject(item, "slower", (double)mean->verdicts[VERDICT_SLOWER]);
        cJSON_AddNumberToObject(item, "same", (double)mean->verdicts[VERDICT_SAME]);
        cJSON_AddNumberToObject(item, "ambiguous", (double)mean->verdicts[VERDICT_AMBIGUOUS]);
        cJSON_AddItemToArray(list, item);
    }
}

cJSON *compare_json(const compare_report *report) {
    cJSON *const root = cJSON_CreateObject();
    results_put_text(root, "schema", "tandem-compare/1");
    cJSON_AddItemToObject(root, "library", results_library_json());
    cJSON_AddNumberToObject(root, "margin", report->margin);
    cJSON_AddNumberToObject(root, "confidence", 0.95);
    cJSON_AddNumberToObject(root, "resamples", RATIO_RESAMPLES);
    cJSON_AddNumberToObject(root, "seed", RATIO_SEED);
    add_columns_json(root, report);
    add_differences_json(root, report);
    add_best_json(root, report->table);
    add_cases_json(root, report->table);
    add_means_json(root, report->table);
    return root;
}
