#include "bench/compare_table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench_statistics.h"
#include "bench/sheet_share.h"

const char *compare_device_name(const compare_column *column) {
    const char *const name = results_device_name(&column->file->devices[column->device]);
    return name == NULL ? "unnamed device" : name;
}

const char *compare_setting_text(compare_setting setting) {
    static const char *const texts[] = {"", " (default setting)", " (best setting)"};
    return texts[setting];
}

int compare_add_columns(compare_table *table, const results_file *file) {
    for (size_t device = 0; device < file->device_count; device++) {
        if (table->column_count == COMPARE_MAX_COLUMNS)
            return -1;
        compare_column *const column = &table->columns[table->column_count];
        *column = (compare_column){
            .label = (char)('A' + (int)table->column_count), .file = file, .device = device};
        column->sheet = sheet_of(file, device);
        table->column_count++;
    }
    return 0;
}

/* ---- which rows are the same ----------------------------------------------------------------------- */

typedef struct placed_row {
    const results_row *row;
    compare_setting setting;
    size_t column;
    size_t place; /* column by column, as the files have them */
} placed_row;

static int order_texts(const char *left, const char *right) {
    if (left == NULL || right == NULL)
        return (left != NULL) - (right != NULL);
    return strcmp(left, right);
}

/* Index of the first figure from `from` on that tells cases apart: a setting does not. */
static size_t next_figure(const results_figures *figures, size_t from, compare_setting setting) {
    static const char *const settings[] = {"width", "unroll", "items", "ahead", "occupancy"};
    const size_t count = sizeof settings / sizeof *settings;
    for (; from < figures->count && setting != SETTING_ONLY; from++) {
        size_t i = 0;
        while (i < count && strcmp(figures->items[from].key, settings[i]) != 0)
            i++;
        if (i == count)
            break;
    }
    return from;
}

static int order_figures(const results_figure *left, const results_figure *right) {
    const int keys = strcmp(left->key, right->key);
    const double a = left->value;
    const double b = right->value;
    if (keys != 0)
        return keys;
    if (isnan(a) || isnan(b))
        return !isnan(a) - !isnan(b);
    return (a > b) - (a < b);
}

static int order_shapes(const results_figures *left, const results_figures *right,
                        compare_setting setting) {
    size_t l = next_figure(left, 0, setting);
    size_t r = next_figure(right, 0, setting);
    while (l < left->count && r < right->count) {
        const int order = order_figures(&left->items[l], &right->items[r]);
        if (order != 0)
            return order;
        l = next_figure(left, l + 1, setting);
        r = next_figure(right, r + 1, setting);
    }
    return (l < left->count) - (r < right->count);
}

static int order_identities(const placed_row *left, const placed_row *right) {
    const results_row *const a = left->row;
    const results_row *const b = right->row;
    const char *const texts[][2] = {
        {a->suite, b->suite}, {a->case_name, b->case_name}, {a->impl, b->impl},
        {a->dtype, b->dtype}, {a->mode, b->mode},           {a->packing, b->packing},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const int order = order_texts(texts[i][0], texts[i][1]);
        if (order != 0)
            return order;
    }
    if (left->setting != right->setting)
        return left->setting < right->setting ? -1 : 1;
    return order_shapes(&a->shape, &b->shape, left->setting);
}

static int order_rows(const void *left, const void *right) {
    const placed_row *const a = left;
    const placed_row *const b = right;
    const int order = order_identities(a, b);
    return order != 0 ? order : (a->place > b->place) - (a->place < b->place);
}

static void place_row(placed_row *rows, size_t *count, const results_row *row, size_t column) {
    const int is_default = results_figure_value(&row->metrics, "setting_default") > 0;
    const int is_best = results_figure_value(&row->metrics, "setting_best") > 0;
    if (strcmp(row->impl, "tandem-again") == 0)
        return;
    if (is_default || !is_best) {
        rows[*count] =
            (placed_row){row, is_default ? SETTING_DEFAULT : SETTING_ONLY, column, *count};
        (*count)++;
    }
    if (is_best) {
        rows[*count] = (placed_row){row, SETTING_BEST, column, *count};
        (*count)++;
    }
}

static placed_row *place_rows(const compare_table *table, size_t *count) {
    size_t all = 0;
    for (size_t c = 0; c < table->column_count; c++)
        all += 2 * table->columns[c].file->row_count;
    placed_row *const rows = malloc((all + 1) * sizeof *rows);
    *count = 0;
    for (size_t c = 0; rows != NULL && c < table->column_count; c++) {
        const results_file *const file = table->columns[c].file;
        for (size_t i = 0; i < file->row_count; i++) {
            if (file->rows[i].device == table->columns[c].device)
                place_row(rows, count, &file->rows[i], c);
        }
    }
    if (rows != NULL)
        qsort(rows, *count, sizeof *rows, order_rows);
    return rows;
}

/* ---- cells ----------------------------------------------------------------------------------------- */

static int pool_samples(compare_cell *cell, const placed_row *rows, size_t count) {
    size_t samples = 0;
    for (size_t i = 0; i < count; i++)
        samples += rows[i].row->samples;
    if (cell->repeats < 2) {
        cell->samples = (sample_list){cell->row->raw_s, cell->row->samples};
        return 0;
    }
    cell->pooled = malloc((samples + 1) * sizeof *cell->pooled);
    if (cell->pooled == NULL)
        return -1;
    samples = 0;
    for (size_t i = 0; i < count; i++) {
        for (size_t s = 0; s < rows[i].row->samples; s++)
            cell->pooled[samples++] = rows[i].row->raw_s[s];
    }
    cell->samples = (sample_list){cell->pooled, samples};
    return 0;
}

static void find_shares(compare_cell *cell, const datasheet *sheet) {
    const sheet_share share = sheet_share_find(cell->row, cell->gflops, cell->gbs, sheet);
    cell->of_bandwidth = share.of_bandwidth;
    cell->of_peak = share.of_peak;
    cell->above_memory = share.above_memory;
    cell->cache_mb = share.cache_mb;
}

double compare_share(const compare_cell *cell) {
    return fmax(cell->of_bandwidth, cell->of_peak);
}

int compare_above_sheet(const compare_cell *cell) {
    return cell->of_bandwidth > 1 || cell->of_peak > 1;
}

static int fill_cell(compare_cell *cell, const compare_column *column, const placed_row *rows,
                     size_t count) {
    cell->row = rows[0].row;
    for (size_t i = 0; i < count; i++) {
        if (rows[i].row->status != RESULT_OK)
            continue;
        if (cell->repeats++ == 0)
            cell->row = rows[i].row;
    }
    if (cell->repeats == 0)
        return 0;
    if (pool_samples(cell, rows, count) != 0)
        return -1;
    const sample_summary summary = summarize_samples(cell->samples.seconds, cell->samples.count);
    cell->median_s = summary.median;
    cell->p5_s = summary.p5;
    cell->p95_s = summary.p95;
    cell->gflops = cell->row->flops / summary.median * 1e-9;
    cell->gbs = cell->row->bytes / summary.median * 1e-9;
    find_shares(cell, column->sheet);
    return 0;
}

static void clear_cell(compare_cell *cell) {
    *cell = (compare_cell){.median_s = NAN, .p5_s = NAN, .p95_s = NAN};
    cell->gflops = cell->gbs = cell->of_bandwidth = cell->of_peak = NAN;
    cell->ratio = (speed_ratio){NAN, NAN, NAN, VERDICT_NONE};
}

/* ---- cases ----------------------------------------------------------------------------------------- */

static int fill_case(compare_table *table, compare_case *item, const placed_row *rows,
                     size_t count) {
    int have = 0;
    item->row = rows[0].row;
    item->setting = rows[0].setting;
    for (size_t c = 0; c < COMPARE_MAX_COLUMNS; c++)
        clear_cell(&item->cells[c]);
    for (size_t begin = 0; begin < count;) {
        size_t end = begin + 1;
        while (end < count && rows[end].column == rows[begin].column)
            end++;
        const size_t column = rows[begin].column;
        if (fill_cell(&item->cells[column], &table->columns[column], rows + begin, end - begin))
            return -1;
        have += item->cells[column].repeats > 0;
        begin = end;
    }
    table->matched += have > 1;
    return 0;
}

typedef struct case_place {
    size_t first; /* of the case's rows */
    size_t count;
    size_t place; /* of its first row */
} case_place;

static int order_cases(const void *left, const void *right) {
    const case_place *const a = left;
    const case_place *const b = right;
    return (a->place > b->place) - (a->place < b->place);
}

/* Cases in the order in which the files have them. */
static int fill_cases(compare_table *table, const placed_row *rows, size_t count) {
    case_place *const places = malloc((count + 1) * sizeof *places);
    size_t cases = 0;
    for (size_t begin = 0; places != NULL && begin < count; cases++) {
        size_t end = begin + 1;
        while (end < count && order_identities(&rows[begin], &rows[end]) == 0)
            end++;
        places[cases] = (case_place){begin, end - begin, rows[begin].place};
        begin = end;
    }
    table->cases = calloc(cases + 1, sizeof *table->cases);
    int status = places == NULL || table->cases == NULL ? -1 : 0;
    if (status == 0)
        qsort(places, cases, sizeof *places, order_cases);
    for (size_t i = 0; status == 0 && i < cases; i++)
        status = fill_case(table, &table->cases[table->case_count++], rows + places[i].first,
                           places[i].count);
    free(places);
    return status;
}

/* ---- ratios ---------------------------------------------------------------------------------------- */

static int works_differ(double left, double right) {
    return fabs(left - right) > 1e-6 * fabs(left); /* NaN: not known, not different */
}

static int compare_cells(const compare_cell *base, compare_cell *other, double margin, size_t place,
                         double *logs) {
    if (base->repeats == 0 || other->repeats == 0)
        return 0;
    other->other_work = works_differ(base->row->flops, other->row->flops) ||
                        works_differ(base->row->bytes, other->row->bytes);
    if (other->other_work)
        return 0;
    return speed_ratio_find(base->samples, other->samples, margin, place, logs, &other->ratio);
}

/* Ratios of a column's cells of one suite and implementation, and their mean. */
static int fill_mean(compare_table *table, compare_mean *mean, double margin) {
    double *const logs = calloc(RATIO_RESAMPLES, sizeof *logs);
    int status = logs == NULL ? -1 : 0;
    double sum = 0;
    for (size_t i = 0; status == 0 && i < table->case_count; i++) {
        compare_case *const item = &table->cases[i];
        compare_cell *const cell = &item->cells[mean->column];
        if (strcmp(item->row->suite, mean->suite) != 0 || strcmp(item->row->impl, mean->impl) != 0)
            continue;
        status = compare_cells(&item->cells[0], cell, margin, i, logs);
        mean->verdicts[cell->ratio.verdict]++;
        if (isnan(cell->ratio.ratio))
            continue;
        mean->cases++;
        sum += log(cell->ratio.ratio);
    }
    if (status == 0)
        mean->mean = speed_ratio_mean(sum, logs, mean->cases, margin);
    free(logs);
    return status;
}

static int has_mean(const compare_table *table, const results_row *row) {
    for (size_t i = 0; i < table->mean_count; i++) {
        if (strcmp(table->means[i].suite, row->suite) == 0 &&
            strcmp(table->means[i].impl, row->impl) == 0)
            return 1;
    }
    return 0;
}

static int fill_means(compare_table *table, double margin) {
    for (size_t i = 0; i < table->case_count; i++) {
        const results_row *const row = table->cases[i].row;
        if (row == NULL || table->column_count < 2 || has_mean(table, row))
            continue;
        const size_t more = table->mean_count + table->column_count - 1;
        compare_mean *const means = realloc(table->means, more * sizeof *means);
        if (means == NULL)
            return -1;
        table->means = means;
        for (size_t c = 1; c < table->column_count; c++) {
            compare_mean *const mean = &means[table->mean_count++];
            *mean = (compare_mean){.suite = row->suite, .impl = row->impl, .column = c};
            if (fill_mean(table, mean, margin) != 0)
                return -1;
        }
    }
    return 0;
}

int compare_match(compare_table *table, double margin) {
    size_t count = 0;
    placed_row *const rows = place_rows(table, &count);
    int status = rows == NULL ? -1 : fill_cases(table, rows, count);
    free(rows);
    if (status == 0)
        status = fill_means(table, margin);
    return status;
}

void compare_release(compare_table *table) {
    for (size_t i = 0; i < table->case_count; i++) {
        for (size_t c = 0; c < COMPARE_MAX_COLUMNS; c++)
            free(table->cases[i].cells[c].pooled);
    }
    free(table->cases);
    free(table->means);
    table->cases = NULL;
    table->means = NULL;
    table->case_count = table->mean_count = 0;
}
