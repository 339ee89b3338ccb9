#include "bench/compare/compare_table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

/* ---- columns --------------------------------------------------------------------------------------- */

const char *compare_device_name(const report_device *column) {
    const char *const name = results_device_name(&column->file->devices[column->device]);
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

const compare_fact *compare_fact_at(size_t index) {
    static const compare_fact facts[] = {
        {"library", "version", 1},
        {"environment", "data_pattern", 1},
        {"library", "commit", 0},
        {"library", "compiler", 0},
        {"library", "flags", 0},
        {"host", "cpu", 0},
        {"host", "os", 0},
        {"device", "driver", 0},
        {"environment", "data_seed", 0},
        {"environment", "sampling", 0},
        {"environment", "kernel", 0},
        {"environment", "governor", 0},
        {"environment", "microcode", 0},
        {"environment", "threads", 0},
        {"environment", "cpu_quota", 0},
        {"environment", "driver", 0},
        {"environment", "power_limit_w", 0},
        {"environment", "rotate_bytes", 0},
    };
    return index < sizeof facts / sizeof *facts ? &facts[index] : NULL;
}

const char *compare_fact_text(const report_device *column, const compare_fact *fact) {
    const results_file *const file = column->file;
    const results_facts *facts = &file->environment;
    if (strcmp(fact->place, "library") == 0)
        facts = &file->library;
    else if (strcmp(fact->place, "host") == 0)
        facts = &file->host;
    else if (strcmp(fact->place, "device") == 0)
        facts = &file->devices[column->device];
    return results_fact_text(facts, fact->key);
}

int compare_fact_differs(const compare_table *table, size_t column, const compare_fact *fact) {
    const char *const base = compare_fact_text(&table->columns[0], fact);
    const char *const other = compare_fact_text(&table->columns[column], fact);
    return !same_text(base, other) && !(fact->refuses && (base == NULL || other == NULL));
}

/* ---- cases ----------------------------------------------------------------------------------------- */

/* Index of the first figure from `from` on that tells cases apart: a setting does not. */
static size_t next_figure(const results_figures *figures, size_t from, compare_setting setting) {
    static const char *const settings[] = {"width", "unroll", "items", "ahead", "occupancy"};
    while (from < figures->count && setting != SETTING_ONLY &&
           is_listed(settings, sizeof settings / sizeof *settings, figures->items[from].key))
        from++;
    return from;
}

static int same_shape(const results_figures *left, const results_figures *right,
                      compare_setting setting) {
    size_t l = next_figure(left, 0, setting);
    size_t r = next_figure(right, 0, setting);
    while (l < left->count && r < right->count) {
        const results_figure *const a = &left->items[l];
        const results_figure *const b = &right->items[r];
        if (strcmp(a->key, b->key) != 0 ||
            !(a->value == b->value || (isnan(a->value) && isnan(b->value))))
            return 0;
        l = next_figure(left, l + 1, setting);
        r = next_figure(right, r + 1, setting);
    }
    return l == left->count && r == right->count;
}

static int is_of_case(const compare_case *item, const results_row *row, compare_setting setting) {
    return item->setting == setting && same_text(item->row->case_name, row->case_name) &&
           same_text(item->row->suite, row->suite) && same_text(item->row->impl, row->impl) &&
           same_text(item->row->dtype, row->dtype) && same_text(item->row->mode, row->mode) &&
           same_text(item->row->packing, row->packing) &&
           same_shape(&item->row->shape, &row->shape, setting);
}

/* The case of a row, added where there is none yet; NULL when memory is short. */
static compare_case *find_case(compare_table *table, const results_row *row,
                               compare_setting setting) {
    for (size_t i = 0; i < table->case_count; i++)
        if (is_of_case(&table->cases[i], row, setting))
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
    *item = (compare_case){.row = row, .setting = setting};
    for (size_t c = 0; c < COMPARE_MAX_COLUMNS; c++)
        item->cells[c] =
            (compare_cell){.median_s = NAN, .share = NAN, .ratio = {NAN, NAN, NAN, VERDICT_NONE}};
    return item;
}

static int add_row(compare_table *table, size_t column, const results_row *row,
                   compare_setting setting) {
    compare_case *const item = find_case(table, row, setting);
    if (item == NULL)
        return -1;
    compare_cell *const cell = &item->cells[column];
    if (cell->row == NULL || (cell->repeats == 0 && row->status == RESULT_OK))
        cell->row = row;
    if (row->status != RESULT_OK)
        return 0;
    double *const samples =
        realloc(cell->samples, (cell->sample_count + row->samples + 1) * sizeof *samples);
    if (samples == NULL)
        return -1;
    memcpy(samples + cell->sample_count, row->raw_s, row->samples * sizeof *samples);
    cell->samples = samples;
    cell->sample_count += row->samples;
    cell->repeats++;
    return 0;
}

static int add_rows(compare_table *table, size_t column) {
    const results_file *const file = table->columns[column].file;
    for (size_t i = 0; i < file->row_count; i++) {
        const results_row *const row = &file->rows[i];
        const int is_default = results_figure_value(&row->metrics, "setting_default") > 0;
        const int is_best = results_figure_value(&row->metrics, "setting_best") > 0;
        if (row->device != table->columns[column].device || strcmp(row->impl, "tandem-again") == 0)
            continue;
        if ((is_default || !is_best) &&
            add_row(table, column, row, is_default ? SETTING_DEFAULT : SETTING_ONLY) != 0)
            return -1;
        if (is_best && add_row(table, column, row, SETTING_BEST) != 0)
            return -1;
    }
    return 0;
}

/* ---- ratios ---------------------------------------------------------------------------------------- */

static int works_differ(double left, double right) {
    return fabs(left - right) > 1e-6 * fabs(left); /* NaN: not known, not different */
}

/* Whether a row is of a loop as long as suits its device, of which nothing but the rate counts. */
static int is_of_any_length(const results_row *row) {
    static const char *const suites[] = {"memory", "compute", "sustained"};
    return is_listed(suites, sizeof suites / sizeof *suites, row->suite);
}

/* How much of the base's work a row does, 1 for as much; NaN: another kind of work. */
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

/* Products of several types have little in common, so each type has its mean. */
static const char *dtype_of_mean(const results_row *row) {
    static const char *const suites[] = {"gemm", "gemv", "outofcore"};
    return is_listed(suites, sizeof suites / sizeof *suites, row->suite) ? row->dtype : NULL;
}

/* The mean that a case belongs to in a column, added where there is none yet; NULL when memory is short. */
static compare_mean *find_mean(compare_table *table, const results_row *row, size_t column) {
    for (size_t i = 0; i < table->mean_count; i++) {
        compare_mean *const mean = &table->means[i];
        if (mean->column == column && strcmp(mean->suite, row->suite) == 0 &&
            strcmp(mean->impl, row->impl) == 0 && same_text(mean->dtype, dtype_of_mean(row)))
            return mean;
    }
    compare_mean *const means =
        realloc(table->means, (table->mean_count + 1) * sizeof *table->means);
    double *const logs = calloc(RATIO_RESAMPLES, sizeof *logs);
    table->means = means == NULL ? table->means : means;
    if (means == NULL || logs == NULL) {
        free(logs);
        return NULL;
    }
    compare_mean *const mean = &means[table->mean_count++];
    *mean = (compare_mean){.suite = row->suite,
                           .impl = row->impl,
                           .dtype = dtype_of_mean(row),
                           .column = column,
                           .logs = logs};
    return mean;
}

/* Loops of any length have no mean: caches and main memory have little in common. */
static int find_ratio(compare_table *table, size_t index, size_t column, double margin) {
    const compare_case *const item = &table->cases[index];
    const compare_cell *const base = &item->cells[0];
    compare_cell *const cell = &table->cases[index].cells[column];
    if (base->repeats == 0 || cell->repeats == 0)
        return 0;
    const double share = work_share(base->row, cell->row);
    cell->other_work = isnan(share);
    if (cell->other_work)
        return 0;
    for (size_t i = 0; i < cell->sample_count && share != 1; i++)
        cell->samples[i] /= share;
    compare_mean *const mean =
        is_of_any_length(item->row) ? NULL : find_mean(table, item->row, column);
    if (mean == NULL && !is_of_any_length(item->row))
        return -1;
    if (speed_ratio_find((sample_list){base->samples, base->sample_count},
                         (sample_list){cell->samples, cell->sample_count}, margin, index,
                         mean == NULL ? NULL : mean->logs, &cell->ratio) != 0)
        return -1;
    if (mean != NULL && !isnan(cell->ratio.ratio)) {
        mean->cases++;
        mean->sum += log(cell->ratio.ratio);
    }
    return 0;
}

static int fill_case(compare_table *table, size_t index, double margin) {
    compare_case *const item = &table->cases[index];
    int have = 0;
    for (size_t c = 0; c < table->column_count; c++) {
        compare_cell *const cell = &item->cells[c];
        if (cell->repeats == 0)
            continue;
        have++;
        cell->median_s = summarize_samples(cell->samples, cell->sample_count).median;
        cell->share = report_share(&table->columns[c], cell->row, cell->median_s);
        if (c > 0 && find_ratio(table, index, c, margin) != 0)
            return -1;
    }
    table->matched += have > 1;
    return 0;
}

int compare_match(compare_table *table, double margin) {
    for (size_t c = 0; c < table->column_count; c++)
        if (add_rows(table, c) != 0)
            return -1;
    for (size_t i = 0; i < table->case_count; i++)
        if (fill_case(table, i, margin) != 0)
            return -1;
    for (size_t i = 0; i < table->mean_count; i++) {
        compare_mean *const mean = &table->means[i];
        mean->mean = speed_ratio_mean(mean->sum, mean->logs, mean->cases, margin);
    }
    return 0;
}

void compare_release(compare_table *table) {
    for (size_t i = 0; i < table->case_count; i++)
        for (size_t c = 0; c < COMPARE_MAX_COLUMNS; c++)
            free(table->cases[i].cells[c].samples);
    for (size_t i = 0; i < table->mean_count; i++)
        free(table->means[i].logs);
    free(table->cases);
    free(table->means);
    table->cases = NULL;
    table->means = NULL;
    table->case_count = table->mean_count = 0;
}
