#include "bench/cases/gemm_sets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/command/cli_options.h"

#define SET_ROW(name, about, layouts, packings, rows, shapes)                                      \
    {name, layouts, packings, rows, shapes},
#define SET_CHOICE(name, about, layouts, packings, rows, shapes) name "|"
#define SET_HELP(name, about, layouts, packings, rows, shapes) "\n  " name ": " about

const gemm_set gemm_sets[] = {GEMM_SET_LIST(SET_ROW)};
const int gemm_set_count = (int)(sizeof gemm_sets / sizeof gemm_sets[0]);
const char gemm_set_choices[] = GEMM_SET_LIST(SET_CHOICE) "all";
const char gemm_set_help[] = "shape sets of --set:" GEMM_SET_LIST(SET_HELP);

const gemm_set *gemm_set_find(const char *name) {
    for (int i = 0; i < gemm_set_count; i++) {
        if (strcmp(gemm_sets[i].name, name) == 0)
            return &gemm_sets[i];
    }
    return NULL;
}

/* Counts the words of a comma-separated list. */
static int count_words(const char *list) {
    int count = list != NULL && list[0] != '\0';
    for (; list != NULL && *list != '\0'; list++)
        count += *list == ',';
    return count;
}

static void take_word(const char *list, int number, char *word, size_t size) {
    do
        cli_next_word(&list, ',', word, size);
    while (number-- > 0);
}

int gemm_set_size(const gemm_set *set) {
    const int rows = count_words(set->rows);
    return count_words(set->shapes) * (rows > 0 ? rows : 1);
}

int gemm_set_take_rows(gemm_set *set, const char *list) {
    const char *rest = list;
    char word[24];
    int found;
    while ((found = cli_next_word(&rest, ',', word, sizeof word)) != 0) {
        char *end = word;
        const long long value = found > 0 ? strtoll(word, &end, 10) : 0;
        if (value < 1 || value > INT32_MAX || *end != '\0')
            return -1;
    }
    if (count_words(set->rows) > 0)
        set->rows = list;
    return 0;
}

void gemm_set_shape(const gemm_set *set, int index, gemm_case *item) {
    char shape[64], row[24];
    const int rows = count_words(set->rows);
    if (rows == 0) {
        take_word(set->shapes, index, shape, sizeof shape);
    } else {
        take_word(set->rows, index % rows, row, sizeof row);
        const int length = snprintf(shape, sizeof shape, "%sx", row);
        take_word(set->shapes, index / rows, shape + length, sizeof shape - (size_t)length);
    }
    gemm_case_parse_shape(shape, item);
}
