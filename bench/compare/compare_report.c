#include "bench/compare/compare_report.h"

#include <math.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "bench/compare/compare_agree.h"
#include "bench/compare/compare_best.h"
#include "bench/compare/compare_bound.h"
#include "bench/compare/compare_energy.h"
#include "bench/record/results_json.h"
#include "bench/report/report_parts.h"
#include "common/table_print.h"
#include "formats/utf8_text.h"

/* ---- texts ----------------------------------------------------------------------------------------- */

/* Whether a number would be a row of zeros, or of digits that no machine's has: those have an exponent. */
static int needs_exponent(double value) {
    return value >= 1e9 || (value > 0 && value < 0.005);
}

/* What GPUs compute is told in T: "330 TOP/s" of 330500 GOP/s. */
static int is_of_tera(double value, const char *unit) {
    return value >= 1e4 && (strcmp(unit, "GFLOP/s") == 0 || strcmp(unit, "GOP/s") == 0);
}

void compare_amount_text(double value, const char *unit, char *text, size_t size) {
    if (is_of_tera(value, unit) && !needs_exponent(value)) {
        snprintf(text, size, "%.*f T%s", value >= 1e5 ? 0 : 1, value / 1000, unit + 1);
        return;
    }
    if (needs_exponent(value))
        snprintf(text, size, "%.2e %s", value, unit);
    else
        snprintf(text, size, "%.*f %s", value >= 100 ? 0 : value >= 10 ? 1 : 2, value, unit);
}

void compare_times_text(double ratio, int digits, char *text, size_t size) {
    const int more = ratio < 0.1; /* as many that count as those of 0.1 and more have */
    if (needs_exponent(ratio))
        snprintf(text, size, "%.*e", digits, ratio);
    else
        snprintf(text, size, "%.*f", digits + more, ratio);
}

void compare_ratio_text(const speed_ratio *ratio, int digits, char *text, size_t size) {
    const double values[] = {ratio->ratio, ratio->low, ratio->high};
    char texts[3][32];
    for (int i = 0; i < 3; i++)
        compare_times_text(values[i], digits, texts[i], sizeof texts[i]);
    snprintf(text, size, "%sx [%s, %s]", texts[0], texts[1], texts[2]);
}

static int computes_integers(const results_row *row) {
    return row->dtype != NULL &&
           (strstr(row->dtype, "s8") != NULL || strstr(row->dtype, "a8") != NULL);
}

void compare_rate_text(const compare_cell *cell, char *text, size_t size) {
    const int streams = strcmp(cell->row->suite, "gemv") == 0;
    const double latency = results_figure_value(&cell->row->metrics, "latency_ns");
    if (latency > 0) { /* what a chase is for: a rate of its bytes says nothing */
        compare_amount_text(latency * cell->median_s / cell->row->median_s, "ns", text, size);
        return;
    }
    const double rate =
        isnan(cell->gflops) || (streams && !isnan(cell->gbs)) ? cell->gbs : cell->gflops;
    const char *const work = computes_integers(cell->row) ? "GOP/s" : "GFLOP/s";
    const char *const unit = rate == cell->gflops ? work : "GB/s";
    const int is_short = cell->median_s < 1e-6;
    if (isnan(rate))
        compare_amount_text(cell->median_s * (is_short ? 1e9 : 1e6), is_short ? "ns" : "us", text,
                            size);
    else
        compare_amount_text(rate, unit, text, size);
}

/* Put ", " and more behind a text. */
static void add_text(char *text, size_t size, const char *more) {
    const size_t used = strlen(text);
    snprintf(text + used, size - used, "%s%s", used == 0 ? "" : ", ", more);
    utf8_trim(text);
}

static void add_cache_note(const compare_cell *cell, char *text, size_t size) {
    char note[80];
    if (!cell->above_memory)
        return;
    if (isnan(cell->cache_mb))
        snprintf(note, sizeof note, "above its sheet's memory: a cache may serve some of it");
    else
        snprintf(note, sizeof note,
                 "above its sheet's memory: a cache of %.0f MB may serve some of it",
                 cell->cache_mb);
    add_text(text, size, note);
}

static void add_set_note(const compare_cell *cell, char *text, size_t size) {
    char note[32];
    if (isnan(cell->set_bytes))
        return;
    report_print_size(note, sizeof note, cell->set_bytes);
    add_text(text, size, note);
}

static void write_cell_note(const compare_cell *cell, char *text, size_t size) {
    text[0] = '\0';
    if (cell->row == NULL)
        snprintf(text, size, "no such row");
    else if (cell->repeats == 0)
        snprintf(text, size, "%s%s%s", cell->row->status == RESULT_FAILED ? "failed" : "skipped",
                 cell->row->reason == NULL ? "" : ": ",
                 cell->row->reason == NULL ? "" : cell->row->reason);
    else if (compare_above_sheet(cell))
        snprintf(text, size, "above its datasheet");
    else if (cell->other_work)
        snprintf(text, size, "counts other work");
    else if (cell->samples.count < RATIO_MIN_SAMPLES)
        snprintf(text, size, "too few samples");
    else if (cell->row->note != NULL)
        snprintf(text, size, "%s", cell->row->note);
    utf8_trim(text);
    const double noisy = cell->repeats > 0 ? results_figure_value(&cell->row->metrics, "noisy") : 0;
    if (noisy > 0 && strstr(text, "noisy") == NULL) {
        char note[48];
        snprintf(note, sizeof note, "noisy: %.1f %%", 100 * noisy);
        add_text(text, size, note);
    }
    add_cache_note(cell, text, size);
    add_set_note(cell, text, size);
}

static const char *known(const char *text) {
    return text == NULL ? "unknown" : text;
}

/* ---- for people ------------------------------------------------------------------------------------ */

static void print_columns(const compare_report *report, FILE *file) {
    for (size_t c = 0; c < report->table->column_count; c++) {
        const compare_column *const column = &report->table->columns[c];
        fprintf(file, "%c = %s, measured %s by %s (%s)\n", column->label,
                compare_device_name(column), known(column->file->created),
                known(results_fact_text(&column->file->library, "version")), column->file->name);
        if (column->sheet != NULL)
            fprintf(file, "    datasheet: %s, %s, %.4g GB/s (%s, %s, confidence %c)\n",
                    column->sheet->name, column->sheet->memory_type,
                    column->sheet->values[DATASHEET_DRAM_GBS].value,
                    column->sheet->values[DATASHEET_DRAM_GBS].source->title,
                    column->sheet->values[DATASHEET_DRAM_GBS].source->date,
                    column->sheet->values[DATASHEET_DRAM_GBS].confidence);
    }
}

static void print_differences(const compare_report *report, FILE *file) {
    for (size_t i = 0; i < report->differences->count; i++) {
        const compare_difference *const item = &report->differences->items[i];
        fprintf(file, "unlike%s: %s %s: A %s, %c %s\n", item->refused ? " (forced)" : "",
                item->place, item->key, known(item->base),
                report->table->columns[item->column].label, known(item->other));
    }
}

static void add_cell(text_table *table, const compare_cell *cell, int is_base) {
    char rate[32] = "-";
    char share[24] = "";
    char ratio[COMPARE_RATIO_TEXT];
    const double reached = compare_share(cell);
    if (cell->repeats > 0)
        compare_rate_text(cell, rate, sizeof rate);
    if (!isnan(reached))
        snprintf(share, sizeof share, " (%.0f %%%s)", 100 * reached,
                 compare_above_sheet(cell) ? "!" : "");
    table_cell(table, "%s%s", rate, share);
    if (is_base)
        return;
    compare_ratio_text(&cell->ratio, 2, ratio, sizeof ratio);
    if (isnan(cell->ratio.ratio))
        table_cell(table, "-");
    else
        table_cell(table, "%s %s", ratio, ratio_verdict_name(cell->ratio.verdict));
}

void compare_note_text(const compare_report *report, size_t index, size_t column, char *note,
                       size_t size) {
    int others = 0;
    const char *const with =
        compare_moved_with(report->table, index, column, report->margin, &others);
    write_cell_note(&report->table->cases[index].cells[column], note, size);
    char moved[64];
    snprintf(moved, sizeof moved, "%s moved alike", with == NULL ? "" : with);
    if ((with != NULL || others) && compare_is_same_device(report->table, column))
        add_text(note, size, with != NULL ? moved : "moved alone");
}

void compare_how_text(const results_row *row, char *text, size_t size) {
    const int packs = row->packing != NULL && strcmp(row->packing, "none") != 0;
    snprintf(text, size, "%s%s%s", row->mode == NULL ? "" : row->mode, packs ? " " : "",
             packs ? row->packing : "");
    utf8_trim(text);
}

static void add_notes(text_table *table, const compare_report *report, size_t index) {
    const compare_table *const all = report->table;
    char notes[256] = "";
    for (size_t c = 0; c < all->column_count; c++) {
        char note[128];
        compare_note_text(report, index, c, note, sizeof note);
        const size_t used = strlen(notes);
        if (note[0] != '\0')
            snprintf(notes + used, sizeof notes - used, "%s%c: %s", used == 0 ? "" : "; ",
                     all->columns[c].label, note);
    }
    utf8_trim(notes);
    table_cell(table, "%s", notes);
}

static text_table *case_table(const compare_table *all) {
    char headings[512] = "suite|case|impl|how";
    for (size_t c = 0; c < all->column_count; c++) {
        const size_t used = strlen(headings);
        snprintf(headings + used, sizeof headings - used, c == 0 ? "|>%c" : "|>%c|>%c is",
                 all->columns[c].label, all->columns[c].label);
    }
    const size_t used = strlen(headings);
    snprintf(headings + used, sizeof headings - used, "|note");
    return table_create(headings);
}

int compare_was_tried(const compare_case *item) {
    for (size_t c = 0; c < COMPARE_MAX_COLUMNS; c++) {
        const compare_cell *const cell = &item->cells[c];
        if (cell->repeats > 0 || (cell->row != NULL && cell->row->status == RESULT_FAILED))
            return 1;
    }
    return 0;
}

void compare_left_out_text(const compare_table *table, char *text, size_t size) {
    size_t count = 0;
    for (size_t i = 0; i < table->case_count; i++)
        count += !compare_was_tried(&table->cases[i]);
    text[0] = '\0';
    if (count > 0)
        snprintf(text, size, "%zu case%s that every device skipped or has not", count,
                 count == 1 ? "" : "s");
}

static void print_cases(const compare_report *report, FILE *file) {
    const compare_table *const all = report->table;
    text_table *const table = case_table(all);
    char left_out[80];
    for (size_t i = 0; i < all->case_count; i++) {
        const compare_case *const item = &all->cases[i];
        char how[64];
        if (!compare_was_tried(item))
            continue;
        table_cell(table, "%s", item->row->suite);
        table_cell(table, "%s%s", compare_case_name(item), compare_setting_text(item->setting));
        table_cell(table, "%s", item->row->impl);
        compare_how_text(item->row, how, sizeof how);
        table_cell(table, "%s", how);
        for (size_t c = 0; c < all->column_count; c++)
            add_cell(table, &item->cells[c], c == 0);
        add_notes(table, report, i);
    }
    table_print(table, file);
    table_destroy(table);
    compare_left_out_text(all, left_out, sizeof left_out);
    if (left_out[0] != '\0')
        fprintf(file, "left out: %s\n", left_out);
}

static void print_means(const compare_report *report, FILE *file) {
    char unbound[COMPARE_MEAN_NAME];
    for (size_t i = 0; i < report->table->mean_count; i++) {
        const compare_mean *const mean = &report->table->means[i];
        char ratio[COMPARE_RATIO_TEXT];
        char name[COMPARE_MEAN_NAME];
        if (mean->cases == 0)
            continue;
        compare_mean_name(mean, name, sizeof name);
        compare_ratio_text(&mean->mean, 3, ratio, sizeof ratio);
        fprintf(file,
                "%s: %c is %s as fast as A, geometric mean of %zu case%s: %s "
                "(%zu faster, %zu slower, %zu the same, %zu ambiguous)\n",
                name, report->table->columns[mean->column].label, ratio, mean->cases,
                mean->cases == 1 ? "" : "s", ratio_verdict_name(mean->mean.verdict),
                mean->verdicts[VERDICT_FASTER], mean->verdicts[VERDICT_SLOWER],
                mean->verdicts[VERDICT_SAME], mean->verdicts[VERDICT_AMBIGUOUS]);
    }
    compare_unbound_text(report->table, unbound, sizeof unbound);
    if (unbound[0] != '\0')
        fprintf(file, "%s\n", unbound);
    fprintf(file,
            "ratios: median over median, 95 %% interval of %d bootstrap resamples; speeds "
            "within %.3g %% are the same\n",
            RATIO_RESAMPLES, 100 * report->margin);
}

static void print_line(void *user, const char *text) {
    FILE *const file = user;
    fprintf(file, "%s\n", text);
}

void compare_print(const compare_report *report, FILE *file) {
    print_columns(report, file);
    print_differences(report, file);
    print_cases(report, file);
    compare_best_print(report->table, file);
    print_means(report, file);
    compare_energy_print(report->table, file);
    compare_tell_agreement(report, print_line, file);
}

/* ---- for programs ---------------------------------------------------------------------------------- */

static cJSON *sheet_json(const datasheet *sheet) {
    if (sheet == NULL)
        return cJSON_CreateNull();
    cJSON *const json = cJSON_CreateObject();
    results_put_text(json, "name", sheet->name);
    results_put_text(json, "memory_type", sheet->memory_type);
    for (int field = 0; field < DATASHEET_FIELDS; field++) {
        static const char *const math[] = {NULL, "dense", "sparse"};
        const datasheet_value *const value = &sheet->values[field];
        if (value->source == NULL)
            continue;
        const char letter[] = {value->confidence, '\0'};
        cJSON *const item = cJSON_AddObjectToObject(json, datasheet_field_name(field));
        results_put_number(item, "value", value->value);
        results_put_text(item, "unit", datasheet_field_unit(field));
        results_put_text(item, "source", value->source->title);
        results_put_text(item, "address", value->source->address);
        results_put_text(item, "date", value->source->date);
        results_put_text(item, "confidence", letter);
        results_put_text(item, "math", math[value->math]);
        results_put_text(item, "accumulator", value->accumulator);
    }
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
        compare_add_agreement(item, report, c);
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
    char note[256];
    if (cell->row == NULL)
        return cJSON_CreateNull();
    cJSON *const json = cJSON_CreateObject();
    write_cell_note(cell, note, sizeof note);
    cJSON_AddNumberToObject(json, "rows", (double)cell->repeats);
    cJSON_AddNumberToObject(json, "samples", (double)cell->samples.count);
    results_put_text(json, "variant", cell->row->variant);
    results_put_number(json, "median_s", cell->median_s);
    results_put_number(json, "p5_s", cell->p5_s);
    results_put_number(json, "p95_s", cell->p95_s);
    results_put_number(json, "gflops", cell->gflops);
    results_put_number(json, "gbs", cell->gbs);
    results_put_number(json, "set_bytes", cell->set_bytes);
    results_put_number(json, "of_sheet_bandwidth", cell->of_bandwidth);
    results_put_number(json, "of_sheet_peak", cell->of_peak);
    cJSON_AddBoolToObject(json, "above_sheet", compare_above_sheet(cell));
    results_put_text(json, "note", note);
    cJSON_AddItemToObject(json, "ratio", ratio_json(&cell->ratio));
    return json;
}

/* A case of arrays of any size has none: its cells do. */
static void add_figure_json(cJSON *shape, const results_figure *figure, int any_size) {
    if (!any_size || strcmp(figure->key, "bytes") != 0)
        results_put_number(shape, figure->key, figure->value);
}

static void add_cases_json(cJSON *root, const compare_table *table) {
    cJSON *const list = cJSON_AddArrayToObject(root, "cases");
    for (size_t i = 0; i < table->case_count; i++) {
        const compare_case *const source = &table->cases[i];
        cJSON *const item = cJSON_CreateObject();
        results_put_text(item, "suite", source->row->suite);
        static const char *const settings[] = {NULL, "default", "best"};
        results_put_text(item, "case", compare_case_name(source));
        results_put_text(item, "setting", settings[source->setting]);
        results_put_text(item, "impl", source->row->impl);
        results_put_text(item, "dtype", source->row->dtype);
        results_put_text(item, "mode", source->row->mode);
        results_put_text(item, "packing", source->row->packing);
        cJSON *const shape = cJSON_AddObjectToObject(item, "shape");
        for (size_t s = 0; s < source->row->shape.count; s++)
            add_figure_json(shape, &source->row->shape.items[s], source->name != NULL);
        cJSON *const cells = cJSON_AddArrayToObject(item, "cells");
        for (size_t c = 0; c < table->column_count; c++) {
            cJSON *const cell = cell_json(&source->cells[c]);
            if (source->cells[c].row != NULL)
                cJSON_AddItemToObject(cell, "energy", compare_energy_json(source, c));
            cJSON_AddItemToArray(cells, cell);
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
        compare_bound_json(item, mean);
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
    cJSON_AddItemToObject(root, "at_best", compare_best_json(report->table));
    add_cases_json(root, report->table);
    add_means_json(root, report->table);
    cJSON_AddItemToObject(root, "energy_means", compare_energy_means_json(report->table));
    return root;
}
