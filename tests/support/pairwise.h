/*
 * Pairwise sampling chooses rows of factor levels from a seed. The rows cover every pair of levels
 * of two factors.
 */
#ifndef TANDEM_TESTS_SUPPORT_PAIRWISE_H
#define TANDEM_TESTS_SUPPORT_PAIRWISE_H

#include <stdint.h>

#define PAIRWISE_MAX_FACTORS 24
#define PAIRWISE_MAX_LEVELS 32

typedef struct pairwise {
    int factors;
    int levels[PAIRWISE_MAX_FACTORS]; /* each ≥ 1 */
    uint64_t state;
    int open; /* pairs that no row has contained yet */
    unsigned char seen[PAIRWISE_MAX_FACTORS][PAIRWISE_MAX_FACTORS][PAIRWISE_MAX_LEVELS]
                      [PAIRWISE_MAX_LEVELS];
} pairwise;

void pairwise_start(pairwise *p, int factors, const int *levels, uint64_t seed);

/* The next row; false when every pair has occurred. */
int pairwise_next(pairwise *p, int row[PAIRWISE_MAX_FACTORS]);

#endif
