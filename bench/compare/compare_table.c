#include "bench/compare/compare_table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/analysis/main_memory.h"
#include "bench/compare/compare_rows.h"
#include "bench/record/bench_statistics.h"

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
        column->sheet = main_memory_sheet(file, device);
        table->column_count++;
    }
    return 0;
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

static void find_share(compare_cell *cell, const compare_column *column) {
    const sheet_share share = sheet_share_find(cell->row, cell->gflops, cell->gbs, column->sheet,
                                               main_memory_from(column->file, column->device));
    cell->share = fmax(share.of_bandwidth, share.of_peak);
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
    find_share(cell, column);
    return 0;
}

static void clear_cell(compare_cell *cell) {
    *cell = (compare_cell){.median_s = NAN, .p5_s = NAN, .p95_s = NAN};
    cell->gflops = cell->gbs = cell->share = cell->energy = NAN;
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
        while (end < count && compare_order_cases(&rows[begin], &rows[end]) == 0)
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

/* Whether a row is of a loop as long as suits its device, of which nothing but the rate counts. */
static int is_of_any_length(const results_row *row) {
    static const char *const suites[] = {"memory", "compute", "sustained"};
    for (size_t i = 0; i < sizeof suites / sizeof *suites; i++)
        if (strcmp(row->suite, suites[i]) == 0)
            return 1;
    return 0;
}

/* How much of the base's work a row does, 1 for as much; NaN: another kind of work. */
static double work_share(const results_row *base, const results_row *other) {
    const int bytes = works_differ(base->bytes, other->bytes);
    const int flops = works_differ(base->flops, other->flops);
    if (!bytes && !flops)
        return 1;
    const double of_bytes = other->bytes / base->bytes;
    const double of_flops = other->flops / base->flops;
    const double share = isnan(of_bytes) ? of_flops : of_bytes;
    if (!is_of_any_length(base) || !(share > 0 && isfinite(share)))
        return NAN;
    return works_differ(share, of_flops) ? NAN : share;
}

/* The ratio of both rates: that of the times which the same work would take. */
static int compare_rates(const compare_cell *base, const compare_cell *other, double share,
                         double margin, size_t place, double *logs, speed_ratio *ratio) {
    double *const seconds = malloc((other->samples.count + 1) * sizeof *seconds);
    if (seconds == NULL)
        return -1;
    for (size_t i = 0; i < other->samples.count; i++)
        seconds[i] = other->samples.seconds[i] / share;
    const sample_list samples = {seconds, other->samples.count};
    const int status = speed_ratio_find(base->samples, samples, margin, place, logs, ratio);
    free(seconds);
    return status;
}

static int compare_cells(const compare_cell *base, compare_cell *other, double margin, size_t place,
                         double *logs) {
    if (base->repeats == 0 || other->repeats == 0)
        return 0;
    const double share = work_share(base->row, other->row);
    other->other_work = isnan(share);
    if (other->other_work)
        return 0;
    return compare_rates(base, other, share, margin, place, logs, &other->ratio);
}

/* How many times the first column's energy the same work takes, by its bytes or by its operations. */
static double energy_ratio(const compare_cell *base, const compare_cell *other) {
    static const char *const keys[] = {"pj_per_byte", "pj_per_flop"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const double ratio = results_figure_value(&other->row->metrics, keys[i]) /
                             results_figure_value(&base->row->metrics, keys[i]);
        if (ratio > 0 && isfinite(ratio))
            return ratio;
    }
    return NAN;
}

/* ---- means ----------------------------------------------------------------------------------------- */

/* Memory and arithmetic by themselves have a line each among the best, and no mean: caches and main memory have little in common. */
static int has_mean(const compare_case *item) {
    return !is_of_any_length(item->row);
}

/* Products of several types have little in common, too. */
static const char *dtype_of_mean(const results_row *row) {
    static const char *const suites[] = {"gemm", "gemv", "outofcore"};
    for (size_t i = 0; i < sizeof suites / sizeof *suites; i++)
        if (strcmp(row->suite, suites[i]) == 0)
            return row->dtype;
    return NULL;
}

static int same_text(const char *left, const char *right) {
    return left == NULL || right == NULL ? left == right : strcmp(left, right) == 0;
}

/* Does a case of that row belong to the mean? */
static int is_of_mean(const compare_mean *mean, const results_row *row, size_t column) {
    return mean->column == column && strcmp(mean->suite, row->suite) == 0 &&
           strcmp(mean->impl, row->impl) == 0 && same_text(mean->dtype, dtype_of_mean(row));
}

/* The mean that a case belongs to in a column, added where there is none yet; NULL when memory is short. */
static compare_mean *find_mean(compare_table *table, const results_row *row, size_t column) {
    for (size_t i = 0; i < table->mean_count; i++) {
        if (is_of_mean(&table->means[i], row, column))
            return &table->means[i];
    }
    compare_mean *const means =
        realloc(table->means, (table->mean_count + 1) * sizeof *table->means);
    if (means == NULL)
        return NULL;
    table->means = means;
    compare_mean *const mean = &means[table->mean_count++];
    *mean = (compare_mean){
        .suite = row->suite, .impl = row->impl, .dtype = dtype_of_mean(row), .column = column};
    return mean;
}

/* Ratios of the cases that have no mean, and a mean for those that have one. */
static int place_case(compare_table *table, size_t index, size_t column, double margin) {
    compare_case *const item = &table->cases[index];
    compare_cell *const cell = &item->cells[column];
    if (cell->repeats == 0 || item->cells[0].repeats == 0)
        return 0;
    const int status = has_mean(item) ? (find_mean(table, item->row, column) == NULL ? -1 : 0)
                                      : compare_cells(&item->cells[0], cell, margin, index, NULL);
    cell->energy = cell->other_work ? NAN : energy_ratio(&item->cells[0], cell);
    return status;
}

/* Ratios of a column's cells of one mean, and the mean. */
static int fill_mean(compare_table *table, size_t index, double margin) {
    double *const logs = calloc(RATIO_RESAMPLES, sizeof *logs);
    compare_mean *const mean = &table->means[index];
    int status = logs == NULL ? -1 : 0;
    double sum = 0;
    for (size_t i = 0; status == 0 && i < table->case_count; i++) {
        compare_case *const item = &table->cases[i];
        compare_cell *const cell = &item->cells[mean->column];
        if (cell->repeats == 0 || item->cells[0].repeats == 0 || !has_mean(item) ||
            !is_of_mean(mean, item->row, mean->column))
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

static int fill_means(compare_table *table, double margin) {
    for (size_t i = 0; i < table->case_count; i++)
        for (size_t c = 1; c < table->column_count; c++)
            if (place_case(table, i, c, margin) != 0)
                return -1;
    for (size_t i = 0; i < table->mean_count; i++)
        if (fill_mean(table, i, margin) != 0)
            return -1;
    return 0;
}

int compare_match(compare_table *table, double margin) {
    size_t count = 0;
    placed_row *const rows = compare_place_rows(table, &count);
    int status = rows == NULL ? -1 : fill_cases(table, rows, count);
    free(rows);
    if (status == 0)
        status = fill_means(table, margin);
    return status;
}

void compare_release(compare_table *table) {
    for (size_t i = 0; i < table->case_count; i++)
        for (size_t c = 0; c < COMPARE_MAX_COLUMNS; c++)
            free(table->cases[i].cells[c].pooled);
    free(table->cases);
    free(table->means);
    table->cases = NULL;
    table->means = NULL;
    table->case_count = table->mean_count = 0;
}
