/* Finds the word that somebody most likely meant. */
#ifndef TANDEM_COMMON_COMMAND_NEAREST_WORD_H
#define TANDEM_COMMON_COMMAND_NEAREST_WORD_H

#include <stddef.h>

typedef struct nearest_word {
    const char *given;
    const char *best; /* NULL until a word is near enough */
    size_t distance;  /* of `best` */
} nearest_word;

/* Takes `word` as the best one if fewer letters differ than before, and at most two. */
void nearest_word_try(nearest_word *nearest, const char *word);

#endif
