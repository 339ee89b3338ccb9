#include "common/command/cli_options.h"

#include <string.h>

enum {
    LONGEST_WORD = 63,
    LARGEST_DISTANCE = 2
};

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

/*
 * Returns the number of letters to insert, delete or replace (the Levenshtein distance). row[j] is
 * the distance between the letters of `a` so far and b[0, j).
 */
static size_t edit_distance(const char *a, const char *b) {
    size_t row[LONGEST_WORD + 1];
    const size_t length = strlen(b);
    for (size_t j = 0; j <= length; j++)
        row[j] = j;
    for (size_t i = 0; a[i] != '\0'; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < length; j++) {
            const size_t replaced = diagonal + (a[i] != b[j]);
            diagonal = row[j + 1];
            row[j + 1] = smaller(replaced, smaller(diagonal, row[j]) + 1);
        }
    }
    return row[length];
}

/* A match must keep at least one letter of the given word. */
void nearest_word_try(nearest_word *nearest, const char *word) {
    const size_t length = strlen(nearest->given);
    if (length > LONGEST_WORD || strlen(word) > LONGEST_WORD)
        return;
    const size_t distance = edit_distance(nearest->given, word);
    if (distance > LARGEST_DISTANCE || distance >= length)
        return;
    if (nearest->best == NULL || distance < nearest->distance) {
        nearest->best = word;
        nearest->distance = distance;
    }
}
