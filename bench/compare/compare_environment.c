#include "bench/compare/compare_environment.h"

#include <stdlib.h>
#include <string.h>

/* Facts by "place.key"; a star stands for any end. */
static const char *const refusing[] = {"library.version", "environment.data_pattern"};
static const char *const passing[] = {
    "environment.load_average",  "environment.temperature*", "environment.*_start",
    "environment.*_end",         "environment.power_w",      "environment.stolen*",
    "environment.others_of_run", "environment.cache_levels", /* measured, as rows are */
    "device.selector",           "device.pci_address"};

static int matches(const char *pattern, const char *place, const char *key) {
    const size_t length = strlen(place);
    if (strncmp(pattern, place, length) != 0 || pattern[length] != '.')
        return 0;
    pattern += length + 1;
    const char *const star = strchr(pattern, '*');
    if (star == NULL)
        return strcmp(pattern, key) == 0;
    const size_t head = (size_t)(star - pattern);
    const size_t tail = strlen(star + 1);
    const size_t all = strlen(key);
    return all >= head + tail && strncmp(pattern, key, head) == 0 &&
           strcmp(key + all - tail, star + 1) == 0;
}

static int is_listed(const char *const *patterns, size_t count, const char *place,
                     const char *key) {
    for (size_t i = 0; i < count; i++) {
        if (matches(patterns[i], place, key))
            return 1;
    }
    return 0;
}

static int add(compare_differences *differences, const compare_difference *difference) {
    compare_difference *const items =
        realloc(differences->items, (differences->count + 1) * sizeof *items);
    if (items == NULL)
        return -1;
    differences->items = items;
    items[differences->count++] = *difference;
    differences->refused += difference->refused != 0;
    return 0;
}

static int look_at(compare_differences *differences, size_t column, const char *place,
                   const char *key, const char *base, const char *other) {
    const int same = base == NULL || other == NULL ? base == other : strcmp(base, other) == 0;
    if (same || is_listed(passing, sizeof passing / sizeof *passing, place, key))
        return 0;
    const compare_difference found = {
        .column = column,
        .place = place,
        .key = key,
        .base = base,
        .other = other,
        .refused = base != NULL && other != NULL &&
                   is_listed(refusing, sizeof refusing / sizeof *refusing, place, key),
    };
    return add(differences, &found);
}

static int has_key(const results_facts *facts, const char *key) {
    for (size_t i = 0; i < facts->count; i++) {
        if (strcmp(facts->items[i].key, key) == 0)
            return 1;
    }
    return 0;
}

static int look_at_facts(compare_differences *differences, size_t column, const char *place,
                         const results_facts *base, const results_facts *other) {
    for (size_t i = 0; i < base->count; i++) {
        const results_fact *const fact = &base->items[i];
        if (look_at(differences, column, place, fact->key, fact->text,
                    results_fact_text(other, fact->key)) != 0)
            return -1;
    }
    for (size_t i = 0; i < other->count; i++) {
        const results_fact *const fact = &other->items[i];
        if (!has_key(base, fact->key) &&
            look_at(differences, column, place, fact->key, NULL, fact->text) != 0)
            return -1;
    }
    return 0;
}

static int same_device(const compare_column *left, const compare_column *right) {
    return strcmp(compare_device_name(left), compare_device_name(right)) == 0;
}

int compare_environments(const compare_table *table, compare_differences *differences) {
    *differences = (compare_differences){NULL, 0, 0};
    const compare_column *const base = &table->columns[0];
    for (size_t c = 1; c < table->column_count; c++) {
        const compare_column *const other = &table->columns[c];
        const results_file *const a = base->file;
        const results_file *const b = other->file;
        if (look_at_facts(differences, c, "library", &a->library, &b->library) != 0 ||
            look_at_facts(differences, c, "host", &a->host, &b->host) != 0 ||
            look_at_facts(differences, c, "environment", &a->environment, &b->environment) != 0)
            return -1;
        if (same_device(base, other) &&
            look_at_facts(differences, c, "device", &a->devices[base->device],
                          &b->devices[other->device]) != 0)
            return -1;
    }
    return 0;
}

void compare_differences_release(compare_differences *differences) {
    free(differences->items);
    *differences = (compare_differences){NULL, 0, 0};
}
