#include "bench/compare/compare_rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the order of rows ----------------------------------------------------------------------------- */

static int order_texts(const char *left, const char *right) {
    if (left == NULL || right == NULL)
        return (left != NULL) - (right != NULL);
    return strcmp(left, right);
}

static int order_numbers(size_t left, size_t right) {
    return (left > right) - (left < right);
}

/* Index of the first figure from `from` on that tells cases apart: a setting does not. */
static size_t next_figure(const results_figures *figures, size_t from, compare_setting setting) {
    static const char *const settings[] = {"width", "unroll", "items", "ahead", "occupancy"};
    const size_t count = sizeof settings / sizeof *settings;
    for (; from < figures->count; from++) {
        const char *const key = figures->items[from].key;
        size_t i = setting == SETTING_ONLY ? count : 0;
        while (i < count && strcmp(key, settings[i]) != 0)
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

int compare_order_cases(const placed_row *left, const placed_row *right) {
    const results_row *const a = left->row;
    const results_row *const b = right->row;
    const char *const texts[][2] = {{a->case_name, b->case_name}, {a->suite, b->suite},
                                    {a->impl, b->impl},           {a->dtype, b->dtype},
                                    {a->mode, b->mode},           {a->packing, b->packing}};
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
    const int order = compare_order_cases(a, b);
    return order != 0 ? order : order_numbers(a->place, b->place);
}

/* ---- rows of all files ----------------------------------------------------------------------------- */

static void place_row(placed_row *rows, size_t *count, const results_row *row, size_t column) {
    const int is_default = results_figure_value(&row->metrics, "setting_default") > 0;
    const int is_best = results_figure_value(&row->metrics, "setting_best") > 0;
    placed_row placed = {.row = row, .column = column};
    if (strcmp(row->impl, "tandem-again") == 0)
        return;
    if (is_default || !is_best) {
        placed.setting = is_default ? SETTING_DEFAULT : SETTING_ONLY;
        placed.place = *count;
        rows[(*count)++] = placed;
    }
    if (is_best) {
        placed.setting = SETTING_BEST;
        placed.place = *count;
        rows[(*count)++] = placed;
    }
}

placed_row *compare_place_rows(const compare_table *table, size_t *count) {
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
