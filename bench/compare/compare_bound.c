#include "bench/compare/compare_bound.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "bench/analysis/cache_served.h"
#include "bench/record/results_json.h"
#include "formats/utf8_text.h"

static int begins(const char *text, const char *start) {
    return strncmp(text, start, strlen(start)) == 0;
}

static int is_one_of(const char *suite, const char *const *suites, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(suite, suites[i]) == 0)
            return 1;
    return 0;
}

/* Bytes that are touched before they are touched again; NaN: not known. */
static double set_of(const results_row *row) {
    const double array = results_figure_value(&row->shape, "bytes");
    const double copies = results_figure_value(&row->shape, "copies_of_b");
    return array > 0 ? array : row->bytes * (copies > 1 ? copies : 1);
}

/* What serves a cell's set. */
static compare_bound place_of(const compare_column *column, const compare_cell *cell) {
    const double known = cache_served_by(column->file, column->device);
    const double cache = isnan(known) ? CACHE_LARGEST : known;
    const double set = set_of(cell->row);
    if (set >= CACHE_OUTGROWN * cache)
        return BOUND_MAIN_MEMORY;
    return set <= known ? BOUND_CACHES : BOUND_NONE;
}

static compare_bound common_place(const compare_table *table, const compare_case *item,
                                  size_t column) {
    const compare_bound base = place_of(&table->columns[0], &item->cells[0]);
    const compare_bound other = place_of(&table->columns[column], &item->cells[column]);
    return base == other ? base : BOUND_NONE;
}

static int computes(const results_row *row) {
    static const char *const suites[] = {"compute", "gemm", "outofcore"};
    return is_one_of(row->suite, suites, sizeof suites / sizeof *suites) ||
           (strcmp(row->suite, "sustained") == 0 && row->flops > 0);
}

static int moves_bytes(const results_row *row) {
    static const char *const suites[] = {"memory", "gemv", "quant", "elementwise", "sustained"};
    return is_one_of(row->suite, suites, sizeof suites / sizeof *suites);
}

static int crosses_link(const results_row *row) {
    return strcmp(row->suite, "memory") == 0 &&
           (begins(row->case_name, "upload ") || begins(row->case_name, "download "));
}

compare_bound compare_bound_of(const compare_table *table, const compare_case *item,
                               size_t column) {
    const results_row *const row = item->row;
    if (item->cells[0].repeats == 0 || item->cells[column].repeats == 0 ||
        results_figure_value(&row->shape, "intensity") > 0)
        return BOUND_NONE;
    if (crosses_link(row))
        return BOUND_LINK;
    if (computes(row))
        return BOUND_ARITHMETIC;
    if (!moves_bytes(row))
        return BOUND_CALLS;
    const compare_bound place = common_place(table, item, column);
    if (place == BOUND_NONE || !begins(row->case_name, "chase "))
        return place;
    return place == BOUND_CACHES ? BOUND_CACHE_LATENCY : BOUND_MEMORY_LATENCY;
}

const char *compare_bound_detail(const compare_case *item, compare_bound bound) {
    if (bound == BOUND_ARITHMETIC)
        return item->row->dtype;
    return bound == BOUND_CALLS && strcmp(item->row->suite, "launch") == 0 ? item->row->mode : NULL;
}

static int are_same(const char *left, const char *right) {
    return left == NULL || right == NULL ? left == right : strcmp(left, right) == 0;
}

int compare_is_of_mean(const compare_table *table, const compare_mean *mean,
                       const compare_case *item) {
    return strcmp(item->row->suite, mean->suite) == 0 && strcmp(item->row->impl, mean->impl) == 0 &&
           compare_bound_of(table, item, mean->column) == mean->bound &&
           are_same(compare_bound_detail(item, mean->bound), mean->detail);
}

const char *compare_bound_name(compare_bound bound) {
    static const char *const names[] = {
        [BOUND_NONE] = NULL,
        [BOUND_MAIN_MEMORY] = "main memory",
        [BOUND_CACHES] = "caches",
        [BOUND_MEMORY_LATENCY] = "latency of main memory",
        [BOUND_CACHE_LATENCY] = "latency of caches",
        [BOUND_LINK] = "to and from the host",
        [BOUND_ARITHMETIC] = "arithmetic",
        [BOUND_CALLS] = NULL,
    };
    return names[bound];
}

void compare_bound_json(cJSON *json, const compare_mean *mean) {
    results_put_text(json, "bound", compare_bound_name(mean->bound));
    results_put_text(json, "dtype", mean->bound == BOUND_ARITHMETIC ? mean->detail : NULL);
    results_put_text(json, "mode", mean->bound == BOUND_CALLS ? mean->detail : NULL);
}

void compare_mean_name(const compare_mean *mean, char *text, size_t size) {
    const char *const words[] = {compare_bound_name(mean->bound), mean->detail};
    size_t used = (size_t)snprintf(text, size, "%s", mean->suite);
    int count = 0;
    for (size_t i = 0; i < 2; i++)
        if (words[i] != NULL && used < size)
            used += (size_t)snprintf(text + used, size - used, "%s%s", count++ == 0 ? " (" : ", ",
                                     words[i]);
    if (used < size)
        snprintf(text + used, size - used, "%s, %s", count > 0 ? ")" : "", mean->impl);
    utf8_trim(text);
}

void compare_unbound_text(const compare_table *table, char *text, size_t size) {
    size_t count = 0;
    for (size_t i = 0; i < table->case_count; i++)
        for (size_t c = 1; c < table->column_count; c++)
            count += !isnan(table->cases[i].cells[c].ratio.ratio) &&
                     compare_bound_of(table, &table->cases[i], c) == BOUND_NONE;
    text[0] = '\0';
    if (count > 0)
        snprintf(text, size,
                 "%zu ratio%s in no mean: of sets that a cache serves in part or on one device "
                 "alone, or of steps from memory to arithmetic",
                 count, count == 1 ? " is" : "s are");
}
