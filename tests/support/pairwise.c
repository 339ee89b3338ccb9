#include "tests/support/pairwise.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test_data.h"

/*
 * This is the number of random rows that compete for each row of the sample. The one with the most
 * new pairs is taken.
 */
enum {
    CANDIDATES = 40
};

void pairwise_start(pairwise *p, int factors, const int *levels, uint64_t seed) {
    memset(p, 0, sizeof *p);
    p->factors = factors;
    p->state = seed;
    for (int f = 0; f < factors; f++) {
        if (factors > PAIRWISE_MAX_FACTORS || levels[f] < 1 || levels[f] > PAIRWISE_MAX_LEVELS) {
            fprintf(stderr, "pairwise: factor %d of %d has %d levels\n", f, factors, levels[f]);
            abort();
        }
        p->levels[f] = levels[f];
    }
    for (int f = 0; f < factors; f++)
        for (int g = f + 1; g < factors; g++)
            p->open += levels[f] * levels[g];
}

static int new_pairs(const pairwise *p, const int *row) {
    int count = 0;
    for (int f = 0; f < p->factors; f++)
        for (int g = f + 1; g < p->factors; g++)
            count += !p->seen[f][g][row[f]][row[g]];
    return count;
}

/* Makes a random row that holds the first pair not yet seen, so that every row makes progress. */
static void propose(pairwise *p, int *row) {
    test_random random = {p->state};
    for (int f = 0; f < p->factors; f++)
        row[f] = (int)test_random_int(&random, 0, p->levels[f] - 1);
    p->state = random.state;
    for (int f = 0; f < p->factors; f++)
        for (int g = f + 1; g < p->factors; g++)
            for (int i = 0; i < p->levels[f]; i++)
                for (int j = 0; j < p->levels[g]; j++)
                    if (!p->seen[f][g][i][j]) {
                        row[f] = i;
                        row[g] = j;
                        return;
                    }
}

int pairwise_next(pairwise *p, int row[PAIRWISE_MAX_FACTORS]) {
    if (p->open == 0)
        return 0;
    int best = -1;
    for (int c = 0; c < CANDIDATES; c++) {
        int candidate[PAIRWISE_MAX_FACTORS] = {0};
        propose(p, candidate);
        const int fresh = new_pairs(p, candidate);
        if (fresh > best) {
            best = fresh;
            memcpy(row, candidate, sizeof candidate);
        }
    }
    for (int f = 0; f < p->factors; f++)
        for (int g = f + 1; g < p->factors; g++)
            p->seen[f][g][row[f]][row[g]] = 1;
    p->open -= best;
    return 1;
}
