/* The shape sets of `tandem bench gemm` and `gemv`. The table in gemm_sets.c is all there is to a set. */
#ifndef TANDEM_BENCH_CASES_GEMM_SETS_H
#define TANDEM_BENCH_CASES_GEMM_SETS_H

#include "bench/cases/gemm_case.h"

enum {
    GEMM_SET_MAX_SHAPES = 12,
    GEMM_SET_MAX_ROWS = 12
};

/* Every row count with every shape. */
typedef struct gemm_set {
    const char *name;
    const char *about;
    const char *layouts;             /* where --layout names none */
    const char *packings;            /* where --packing names none */
    int first_is_base;               /* rows say what share of the first shape's speed they reach */
    int64_t rows[GEMM_SET_MAX_ROWS]; /* M, ended by 0 */
    const char *shapes[GEMM_SET_MAX_SHAPES]; /* "MxNxK"; "NxK" where rows are given */
} gemm_set;

/* For the option table: names separated by '|', "all" last. */
extern const char gemm_set_choices[];
/* Lines for the help: a set, what it is and what it holds. */
extern const char gemm_set_help[];

extern const gemm_set gemm_sets[];
extern const int gemm_set_count;

/* NULL when there is none of that name. */
const gemm_set *gemm_set_find(const char *name);

/* These row counts ("1,16,512") in place of a set's own, where it has any; -1: it is no such list, and nothing changed. */
int gemm_set_take_rows(gemm_set *set, const char *list);

/* Shapes of a set; shape `index` into the case's batch, m, n and k. */
int gemm_set_size(const gemm_set *set);
void gemm_set_shape(const gemm_set *set, int index, gemm_case *item);

#endif
