#include "bench/compare/compare_table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "bench/analysis/main_memory.h"
#include "bench/record/bench_statistics.h"

static int same_text(const char *left, const char *right) {
    return left == NULL || right == NULL ? left == right : strcmp(left, right) == 0;
}

static int is_listed(const char *const *list, size_t count, const char *word) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i], word) == 0)
            return 1;
    return 0;
}

/* ---- columns --------------------------------------------------------------------------------- */

const char *compare_device_name(const report_device *column) {
    const char *const name = results_device_name(column->file->devices[column->device]);
    return name == NULL ? "unnamed device" : name;
}

int compare_add_columns(compare_table *table, const results_file *file) {
    for (size_t device = 0; device < file->device_count; device++) {
        if (table->column_count == COMPARE_MAX_COLUMNS)
            return -1;
        const size_t column = table->column_count++;
        table->columns[column] = (report_device){.label = (char)('A' + (int)column),
                                                 .file = file,
                                                 .device = device,
                                                 .sheet = main_memory_sheet(file, device)};
    }
    return 0;
}

/* ---- facts on which figures depend ----------------------------------------------------------- */

/* Figures of two files that differ in these facts are not comparable. */
static const struct fact {
    const char *place;
    const char *key;
} facts[] = {{"library", "version"}, {"environment", "data_pattern"}};

static void fact_text(const report_device *column, const struct fact *fact,
                      char text[COMPARE_FACT_TEXT]) {
    const cJSON *const place = cJSON_GetObjectItemCaseSensitive(column->file->json, fact->place);
    results_value_text(cJSON_GetObjectItemCaseSensitive(place, fact->key), text, COMPARE_FACT_TEXT);
}

int compare_next_difference(const compare_table *table, compare_difference *item) {
    const size_t count = sizeof facts / sizeof *facts;
    while (item->next < count * table->column_count) {
        const struct fact *const fact = &facts[item->next % count];
        item->column = item->next++ / count;
        fact_text(&table->columns[0], fact, item->base);
        fact_text(&table->columns[item->column], fact, item->other);
        if (strcmp(item->base, item->other) == 0 || item->base[0] == '\0' || item->other[0] == '\0')
            continue;
        item->place = fact->place;
        item->key = fact->key;
        return 1;
    }
    return 0;
}

/* ---- cases ----------------------------------------------------------------------------------- */

static int is_of_case(const results_row *item, const results_row *row) {
    return same_text(item->case_name, row->case_name) && same_text(item->suite, row->suite) &&
           same_text(item->impl, row->impl) && same_text(item->dtype, row->dtype) &&
           same_text(item->mode, row->mode) && same_text(item->packing, row->packing) &&
           (item->shape == row->shape || cJSON_Compare(item->shape, row->shape, 1));
}

/* Returns the case of a row, which is added if it is new. Returns NULL if memory is short. */
static compare_case *find_case(compare_table *table, const results_row *row) {
    for (size_t i = 0; i < table->case_count; i++)
        if (is_of_case(table->cases[i].row, row))
            return &table->cases[i];
    if (table->case_count == table->case_room) {
        const size_t room = 2 * table->case_room + 64;
        compare_case *const cases = realloc(table->cases, room * sizeof *cases);
        if (cases == NULL)
            return NULL;
        table->cases = cases;
        table->case_room = room;
    }
    compare_case *const item = &table->cases[table->case_count++];
    *item = (compare_case){.row = row};
    for (size_t c = 0; c < COMPARE_MAX_COLUMNS; c++)
        item->cells[c] =
            (compare_cell){.median_s = NAN, .share = NAN, .ratio = {NAN, NAN, NAN, VERDICT_NONE}};
    return item;
}

static int add_row(compare_table *table, size_t column, const results_row *row) {
    compare_case *const item = find_case(table, row);
    if (item == NULL)
        return -1;
    compare_cell *const cell = &item->cells[column];
    if (cell->row == NULL || (cell->repeats == 0 && row->status == RESULT_OK))
        cell->row = row;
    if (row->status != RESULT_OK)
        return 0;
    double *const samples =
        realloc(cell->samples, (cell->sample_count + row->samples) * sizeof *samples);
    if (samples == NULL)
        return -1;
    memcpy(samples + cell->sample_count, row->raw_s, row->samples * sizeof *samples);
    cell->samples = samples;
    cell->sample_count += row->samples;
    cell->repeats++;
    return 0;
}

/* ---- ratios ---------------------------------------------------------------------------------- */

static int works_differ(double left, double right) {
    return fabs(left - right) > 1e-6 * fabs(left); /* NaN: unknown, not different */
}

/* Returns 1 if the row's loop length depends on the device. Only its rate is then comparable. */
static int is_of_any_length(const results_row *row) {
    static const char *const suites[] = {"memory", "compute"};
    return is_listed(suites, sizeof suites / sizeof *suites, row->suite);
}

/* Returns the work of `other` relative to that of `base`, or NaN if the two do different work. */
static double work_share(const results_row *base, const results_row *other) {
    if (!works_differ(base->bytes, other->bytes) && !works_differ(base->flops, other->flops))
        return 1;
    const double of_bytes = other->bytes / base->bytes;
    const double of_flops = other->flops / base->flops;
    const double share = isnan(of_bytes) ? of_flops : of_bytes;
    if (!is_of_any_length(base) || !(share > 0 && isfinite(share)))
        return NAN;
    return works_differ(share, of_flops) ? NAN : share;
}

static int find_ratio(const compare_cell *base, compare_cell *cell, double margin) {
    const double share = work_share(base->row, cell->row);
    cell->other_work = isnan(share);
    if (cell->other_work)
        return 0;
    for (size_t i = 0; i < cell->sample_count && share != 1; i++)
        cell->samples[i] /= share;
    return speed_ratio_find((sample_list){base->samples, base->sample_count},
                            (sample_list){cell->samples, cell->sample_count}, margin, &cell->ratio);
}

static int fill_case(compare_table *table, compare_case *item) {
    int have = 0;
    for (size_t c = 0; c < table->column_count; c++) {
        compare_cell *const cell = &item->cells[c];
        if (cell->repeats == 0)
            continue;
        have++;
        cell->median_s = summarize_samples(cell->samples, cell->sample_count).median;
        cell->share = report_share(&table->columns[c], cell->row, cell->median_s);
        if (c > 0 && item->cells[0].repeats > 0 &&
            find_ratio(&item->cells[0], cell, table->margin) != 0)
            return -1;
    }
    table->matched += have > 1;
    return 0;
}

int compare_match(compare_table *table) {
    for (size_t c = 0; c < table->column_count; c++) {
        const report_device *const column = &table->columns[c];
        for (size_t i = 0; i < column->file->row_count; i++) {
            const results_row *const row = &column->file->rows[i];
            if (row->device == column->device && strcmp(row->impl, "tandem-again") != 0 &&
                add_row(table, c, row) != 0)
                return -1;
        }
    }
    for (size_t i = 0; i < table->case_count; i++)
        if (fill_case(table, &table->cases[i]) != 0)
            return -1;
    return 0;
}

/* GEMMs of different types have little in common, so each type has its own mean. */
static const char *dtype_of_mean(const results_row *row) {
    static const char *const suites[] = {"gemm", "gemv", "outofcore"};
    return is_listed(suites, sizeof suites / sizeof *suites, row->suite) ? row->dtype : NULL;
}

compare_mean compare_mean_at(const compare_table *table, size_t index, size_t column) {
    const results_row *const row = table->cases[index].row;
    compare_mean mean = {.dtype = dtype_of_mean(row)};
    double sum = 0;
    for (size_t i = 0; i < table->case_count && !is_of_any_length(row); i++) {
        const results_row *const other = table->cases[i].row;
        const double ratio = table->cases[i].cells[column].ratio.ratio;
        if (strcmp(other->suite, row->suite) != 0 || strcmp(other->impl, row->impl) != 0 ||
            !same_text(dtype_of_mean(other), mean.dtype))
            continue;
        if (i < index)
            return mean;
        sum += isnan(ratio) ? 0 : log(ratio);
        mean.cases += !isnan(ratio);
    }
    mean.ratio = exp(sum / (double)mean.cases);
    return mean;
}

void compare_release(compare_table *table) {
    for (size_t i = 0; i < table->case_count; i++)
        for (size_t c = 0; c < COMPARE_MAX_COLUMNS; c++)
            free(table->cases[i].cells[c].samples);
    free(table->cases);
    table->cases = NULL;
    table->case_count = 0;
}
