#include "bench/compare/compare_rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/analysis/cache_served.h"

/* ---- the order of rows ----------------------------------------------------------------------------- */

static int order_texts(const char *left, const char *right) {
    if (left == NULL || right == NULL)
        return (left != NULL) - (right != NULL);
    return strcmp(left, right);
}

static int order_numbers(size_t left, size_t right) {
    return (left > right) - (left < right);
}

/* Index of the first figure from `from` on that tells cases apart: a setting does not, nor the size of an array that may have any. */
static size_t next_figure(const results_figures *figures, size_t from, compare_setting setting,
                          int any_size) {
    static const char *const settings[] = {"width", "unroll", "items", "ahead", "occupancy"};
    const size_t count = sizeof settings / sizeof *settings;
    for (; from < figures->count; from++) {
        const char *const key = figures->items[from].key;
        size_t i = setting == SETTING_ONLY ? count : 0;
        while (i < count && strcmp(key, settings[i]) != 0)
            i++;
        if (i == count && !(any_size && strcmp(key, "bytes") == 0))
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
                        compare_setting setting, int any_size) {
    size_t l = next_figure(left, 0, setting, any_size);
    size_t r = next_figure(right, 0, setting, any_size);
    while (l < left->count && r < right->count) {
        const int order = order_figures(&left->items[l], &right->items[r]);
        if (order != 0)
            return order;
        l = next_figure(left, l + 1, setting, any_size);
        r = next_figure(right, r + 1, setting, any_size);
    }
    return (l < left->count) - (r < right->count);
}

/* Names without the size that they have. */
static int order_sizeless(const placed_row *left, const placed_row *right) {
    if (left->prefix != right->prefix)
        return order_numbers(left->prefix, right->prefix);
    const int order = strncmp(left->row->case_name, right->row->case_name, left->prefix);
    return order != 0
               ? order
               : strcmp(left->row->case_name + left->suffix, right->row->case_name + right->suffix);
}

static int order_but_names(const placed_row *left, const placed_row *right, int any_size) {
    const results_row *const a = left->row;
    const results_row *const b = right->row;
    const char *const texts[][2] = {{a->suite, b->suite},
                                    {a->impl, b->impl},
                                    {a->dtype, b->dtype},
                                    {a->mode, b->mode},
                                    {a->packing, b->packing}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const int order = order_texts(texts[i][0], texts[i][1]);
        if (order != 0)
            return order;
    }
    if (left->setting != right->setting)
        return left->setting < right->setting ? -1 : 1;
    return order_shapes(&a->shape, &b->shape, left->setting, any_size);
}

/* Of rows that name a size: what is the same but for that. */
static int order_families(const placed_row *left, const placed_row *right) {
    const int order = order_sizeless(left, right);
    return order != 0 ? order : order_but_names(left, right, 1);
}

int compare_order_cases(const placed_row *left, const placed_row *right) {
    if (left->is_beyond != right->is_beyond)
        return left->is_beyond - right->is_beyond;
    if (left->is_beyond)
        return order_families(left, right);
    const int order = order_texts(left->row->case_name, right->row->case_name);
    return order != 0 ? order : order_but_names(left, right, 0);
}

static int order_rows(const void *left, const void *right) {
    const placed_row *const a = left;
    const placed_row *const b = right;
    const int order = compare_order_cases(a, b);
    return order != 0 ? order : order_numbers(a->place, b->place);
}

/* ---- arrays beyond all caches ---------------------------------------------------------------------- */

static double size_of(const placed_row *row) {
    return results_figure_value(&row->row->shape, "bytes");
}

static int order_sizes(const void *left, const void *right) {
    const placed_row *const a = *(placed_row *const *)left;
    const placed_row *const b = *(placed_row *const *)right;
    const double sizes[] = {size_of(a), size_of(b)};
    const int order = order_families(a, b);
    if (order != 0)
        return order;
    if (a->column != b->column)
        return order_numbers(a->column, b->column);
    return (sizes[0] > sizes[1]) - (sizes[0] < sizes[1]);
}

static int is_beyond_caches(const compare_table *table, const placed_row *row) {
    const compare_column *const column = &table->columns[row->column];
    const double known = cache_served_by(column->file, column->device);
    return size_of(row) >= CACHE_OUTGROWN * (isnan(known) ? CACHE_LARGEST : known);
}

/* A family's rows of one file, from its smallest size to its largest. */
typedef struct size_list {
    placed_row **rows;
    size_t count;
} size_list;

static double largest_of(const size_list *list) {
    return size_of(list->rows[list->count - 1]);
}

static int has_size(const compare_table *table, const size_list *list, double size) {
    for (size_t i = 0; i < list->count; i++)
        if (size_of(list->rows[i]) == size)
            return is_beyond_caches(table, list->rows[i]);
    return 0;
}

/* Whether a size beyond the caches of all is in all. */
static int have_common_size(const compare_table *table, const size_list *lists, size_t count) {
    for (size_t i = 0; i < lists[0].count; i++) {
        const double size = size_of(lists[0].rows[i]);
        size_t have = 0;
        while (have < count && has_size(table, &lists[have], size))
            have++;
        if (have == count)
            return 1;
    }
    return 0;
}

/* The files' lists of one family; those whose largest size a cache may hold have none. */
static void mark_family(const compare_table *table, placed_row **rows, size_t count) {
    size_list lists[COMPARE_MAX_COLUMNS];
    size_t files = 0;
    for (size_t begin = 0; begin < count;) {
        size_t end = begin + 1;
        while (end < count && rows[end]->column == rows[begin]->column)
            end++;
        if (is_beyond_caches(table, rows[end - 1]))
            lists[files++] = (size_list){rows + begin, end - begin};
        begin = end;
    }
    if (files < 2 || have_common_size(table, lists, files))
        return;
    for (size_t i = 0; i < files; i++) {
        const double size = largest_of(&lists[i]);
        for (size_t r = lists[i].count; r-- > 0 && size_of(lists[i].rows[r]) == size;)
            lists[i].rows[r]->is_beyond = 1;
    }
}

/* Rows of arrays of a size of their own. */
static int names_size(const placed_row *row) {
    return row->suffix > 0 && row->row->status == RESULT_OK;
}

static int mark_beyond(const compare_table *table, placed_row *rows, size_t count) {
    placed_row **const sized = malloc((count + 1) * sizeof *sized);
    size_t found = 0;
    if (sized == NULL)
        return -1;
    for (size_t i = 0; i < count; i++)
        if (names_size(&rows[i]))
            sized[found++] = &rows[i];
    qsort(sized, found, sizeof *sized, order_sizes);
    for (size_t begin = 0; begin < found;) {
        size_t end = begin + 1;
        while (end < found && order_families(sized[begin], sized[end]) == 0)
            end++;
        mark_family(table, sized + begin, end - begin);
        begin = end;
    }
    free(sized);
    return 0;
}

char *compare_name_beyond(const placed_row *row) {
    static const char words[] = "beyond caches";
    const char *const name = row->row->case_name;
    const size_t size = strlen(name) + sizeof words;
    char *const text = malloc(size);
    if (text != NULL)
        snprintf(text, size, "%.*s%s%s", (int)row->prefix, name, words, name + row->suffix);
    return text;
}

/* ---- rows of all files ----------------------------------------------------------------------------- */

/* Where a row of suite memory, or what is like it, names the size of its array. */
static void find_size(placed_row *placed) {
    static const char unit[] = " bytes";
    char digits[32];
    const results_row *const row = placed->row;
    const double bytes = results_figure_value(&row->shape, "bytes");
    if (!compare_is_of_any_length(row) || !(bytes >= 1024 && bytes < 1e15))
        return;
    snprintf(digits, sizeof digits, "%.0f", bytes);
    const char *const at = strstr(row->case_name, digits);
    if (at == NULL)
        return;
    placed->prefix = (size_t)(at - row->case_name);
    placed->suffix = placed->prefix + strlen(digits);
    if (strncmp(row->case_name + placed->suffix, unit, strlen(unit)) == 0)
        placed->suffix += strlen(unit);
}

static void place_row(placed_row *rows, size_t *count, const results_row *row, size_t column) {
    const int is_default = results_figure_value(&row->metrics, "setting_default") > 0;
    const int is_best = results_figure_value(&row->metrics, "setting_best") > 0;
    placed_row placed = {.row = row, .column = column};
    if (strcmp(row->impl, "tandem-again") == 0)
        return;
    find_size(&placed);
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
    if (rows == NULL || mark_beyond(table, rows, *count) != 0) {
        free(rows);
        return NULL;
    }
    qsort(rows, *count, sizeof *rows, order_rows);
    return rows;
}
