#include "bench/compare/compare_energy.h"

#include <math.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "bench/compare/compare_bound.h"
#include "bench/compare/compare_page.h"
#include "bench/compare/compare_report.h"
#include "bench/record/results_json.h"
#include "common/html_text.h"
#include "common/table_print.h"

static const char *const keys[ENERGY_FIGURES] = {"power_w", "pj_per_byte", "pj_per_flop"};

double compare_energy_of(const compare_cell *cell, energy_figure figure) {
    if (cell->row == NULL || cell->repeats == 0)
        return NAN;
    const double value = results_figure_value(&cell->row->metrics, keys[figure]);
    return value > 0 && isfinite(value) ? value : NAN;
}

double compare_energy_ratio(const compare_case *item, size_t column) {
    const compare_cell *const base = &item->cells[0];
    const compare_cell *const other = &item->cells[column];
    if (column == 0 || other->other_work)
        return NAN;
    const double bytes =
        compare_energy_of(other, ENERGY_BYTE) / compare_energy_of(base, ENERGY_BYTE);
    const double ratio =
        isnan(bytes) ? compare_energy_of(other, ENERGY_FLOP) / compare_energy_of(base, ENERGY_FLOP)
                     : bytes;
    return ratio > 0 && isfinite(ratio) ? ratio : NAN;
}

/* Whether two columns tell the same of a case. */
static int is_compared(const compare_table *table, const compare_case *item) {
    int most = 0;
    for (int figure = 0; figure < ENERGY_FIGURES; figure++) {
        int have = 0;
        for (size_t c = 0; c < table->column_count; c++)
            have += !isnan(compare_energy_of(&item->cells[c], (energy_figure)figure));
        most = have > most ? have : most;
    }
    return most > 1;
}

static size_t count_compared(const compare_table *table) {
    size_t count = 0;
    for (size_t i = 0; i < table->case_count; i++)
        count += (size_t)is_compared(table, &table->cases[i]);
    return count;
}

/* ---- means ----------------------------------------------------------------------------------------- */

typedef struct energy_mean {
    double ratio; /* NaN: no case has one */
    size_t cases;
} energy_mean;

/* Of the cases of a suite and an implementation, as the table's mean has them. */
static energy_mean find_mean(const compare_table *table, const compare_mean *of) {
    energy_mean mean = {NAN, 0};
    double sum = 0;
    for (size_t i = 0; i < table->case_count; i++) {
        const compare_case *const item = &table->cases[i];
        const double ratio = compare_energy_ratio(item, of->column);
        if (!compare_is_of_mean(table, of, item) || isnan(ratio))
            continue;
        mean.cases++;
        sum += log(ratio);
    }
    if (mean.cases > 0)
        mean.ratio = exp(sum / (double)mean.cases);
    return mean;
}

/* "" where there is none. */
static void write_mean(const compare_table *table, size_t index, char *text, size_t size) {
    const compare_mean *const of = &table->means[index];
    const energy_mean mean = find_mean(table, of);
    char times[32];
    char name[COMPARE_MEAN_NAME];
    text[0] = '\0';
    if (mean.cases == 0)
        return;
    compare_times_text(mean.ratio, 2, times, sizeof times);
    compare_mean_name(of, name, sizeof name);
    snprintf(text, size,
             "%s: %c takes %s times the energy of A for the same work, geometric mean of "
             "%zu case%s",
             name, table->columns[of->column].label, times, mean.cases, mean.cases == 1 ? "" : "s");
}

/* ---- for people ------------------------------------------------------------------------------------ */

static void add_cells(text_table *text, const compare_case *item, size_t column) {
    for (int figure = 0; figure < ENERGY_FIGURES; figure++)
        table_number(text, compare_energy_of(&item->cells[column], (energy_figure)figure));
    const double ratio = compare_energy_ratio(item, column);
    char times[32];
    compare_times_text(ratio, 2, times, sizeof times);
    if (column > 0)
        table_cell(text, "%s%s", isnan(ratio) ? "-" : times, isnan(ratio) ? "" : "x");
}

static text_table *create_table(const compare_table *table) {
    char headings[512] = "suite|case|impl|how";
    for (size_t c = 0; c < table->column_count; c++) {
        const char label = table->columns[c].label;
        const size_t used = strlen(headings);
        snprintf(headings + used, sizeof headings - used, "|>%c W|>pJ/byte|>pJ/FLOP", label);
        const size_t more = strlen(headings);
        if (c > 0)
            snprintf(headings + more, sizeof headings - more, "|>%c takes", label);
    }
    return table_create(headings);
}

void compare_energy_print(const compare_table *table, FILE *file) {
    if (count_compared(table) == 0)
        return;
    text_table *const text = create_table(table);
    for (size_t i = 0; i < table->case_count; i++) {
        const compare_case *const item = &table->cases[i];
        char how[64];
        if (!is_compared(table, item))
            continue;
        table_cell(text, "%s", item->row->suite);
        table_cell(text, "%s%s", compare_case_name(item), compare_setting_text(item->setting));
        table_cell(text, "%s", item->row->impl);
        compare_how_text(item->row, how, sizeof how);
        table_cell(text, "%s", how);
        for (size_t c = 0; c < table->column_count; c++)
            add_cells(text, item, c);
    }
    fputs("energy: of a GPU's board, of a CPU's packages\n", file);
    table_print(text, file);
    table_destroy(text);
    for (size_t i = 0; i < table->mean_count; i++) {
        char mean[COMPARE_MEAN_NAME + 128];
        write_mean(table, i, mean, sizeof mean);
        if (mean[0] != '\0')
            fprintf(file, "%s\n", mean);
    }
}

/* ---- the page -------------------------------------------------------------------------------------- */

static void write_amount(FILE *file, double value, const char *unit) {
    char text[32];
    compare_amount_text(value, unit, text, sizeof text);
    fprintf(file, "<td class=\"number\">%s</td>", isnan(value) ? "–" : text);
}

static void write_times(FILE *file, double ratio) {
    char text[32];
    compare_times_text(ratio, 2, text, sizeof text);
    fprintf(file, "<td class=\"number\">%s%s</td>", isnan(ratio) ? "–" : text,
            isnan(ratio) ? "" : "x");
}

static void write_table_head(FILE *file, const compare_table *table) {
    fputs("<div class=\"wide\">\n<table>\n<thead><tr><th>case</th><th>impl</th><th>how</th>", file);
    for (size_t c = 0; c < table->column_count; c++) {
        fprintf(file,
                "<th class=\"number\">%c: power</th><th class=\"number\">a byte</th>"
                "<th class=\"number\">an operation</th>",
                table->columns[c].label);
        if (c > 0)
            fputs("<th class=\"number\">energy to A</th>", file);
    }
    fputs("</tr></thead>\n<tbody>\n", file);
}

static void write_row(FILE *file, const compare_table *table, const compare_case *item) {
    static const char *const units[ENERGY_FIGURES] = {"W", "pJ", "pJ"};
    fputs("<tr>", file);
    compare_page_case(file, item);
    for (size_t c = 0; c < table->column_count; c++) {
        for (int figure = 0; figure < ENERGY_FIGURES; figure++)
            write_amount(file, compare_energy_of(&item->cells[c], (energy_figure)figure),
                         units[figure]);
        if (c > 0)
            write_times(file, compare_energy_ratio(item, c));
    }
    fputs("</tr>\n", file);
}

static void write_means(FILE *file, const compare_table *table) {
    int written = 0;
    for (size_t i = 0; i < table->mean_count; i++) {
        char mean[COMPARE_MEAN_NAME + 128];
        write_mean(table, i, mean, sizeof mean);
        if (mean[0] == '\0')
            continue;
        fputs(written++ == 0 ? "<ul>\n<li>" : "<li>", file);
        html_text(file, mean);
        fputs("</li>\n", file);
    }
    if (written > 0)
        fputs("</ul>\n", file);
}

void compare_energy_write(FILE *file, const compare_table *table) {
    if (count_compared(table) == 0)
        return;
    fputs("<h2>Energy</h2>\n<p>Power and energy of a GPU's board, of a CPU's packages, while the "
          "case ran; one figure each, so without an interval.</p>\n",
          file);
    write_means(file, table);
    write_table_head(file, table);
    for (size_t i = 0; i < table->case_count; i++) {
        if (is_compared(table, &table->cases[i]))
            write_row(file, table, &table->cases[i]);
    }
    fputs("</tbody></table>\n</div>\n", file);
}

/* ---- for programs ---------------------------------------------------------------------------------- */

cJSON *compare_energy_json(const compare_case *item, size_t column) {
    const compare_cell *const cell = &item->cells[column];
    cJSON *const json = cJSON_CreateObject();
    int known = 0;
    for (int figure = 0; figure < ENERGY_FIGURES; figure++) {
        const double value = compare_energy_of(cell, (energy_figure)figure);
        results_put_number(json, keys[figure], value);
        known |= !isnan(value);
    }
    results_put_number(json, "ratio", compare_energy_ratio(item, column));
    if (known)
        return json;
    cJSON_Delete(json);
    return cJSON_CreateNull();
}

cJSON *compare_energy_means_json(const compare_table *table) {
    cJSON *const list = cJSON_CreateArray();
    for (size_t i = 0; i < table->mean_count; i++) {
        const compare_mean *const of = &table->means[i];
        const char label[] = {table->columns[of->column].label, '\0'};
        const energy_mean mean = find_mean(table, of);
        if (mean.cases == 0)
            continue;
        cJSON *const item = cJSON_CreateObject();
        results_put_text(item, "suite", of->suite);
        results_put_text(item, "impl", of->impl);
        compare_bound_json(item, of);
        results_put_text(item, "label", label);
        cJSON_AddNumberToObject(item, "cases", (double)mean.cases);
        results_put_number(item, "ratio", mean.ratio);
        cJSON_AddItemToArray(list, item);
    }
    return list;
}
