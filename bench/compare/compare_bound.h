/*
 * What bounds a case on two devices, by what it does and by its set: only cases of one bound have a mean. The speeds of a cache, of main
 * memory, of a chain of loads and of arithmetic have little to do with each other.
 */
#ifndef TANDEM_BENCH_COMPARE_COMPARE_BOUND_H
#define TANDEM_BENCH_COMPARE_COMPARE_BOUND_H

#include "bench/compare/compare_table.h"

struct cJSON;

/*
 * Of the first column's and this one's cells. A set that is twice the largest cache of its device is main memory's, one no larger than
 * the cache is the cache's. What lies between, or in a cache of one device alone, has no bound, nor a step of a ladder from memory to arithmetic.
 */
compare_bound compare_bound_of(const compare_table *table, const compare_case *item, size_t column);

/* What else cases of one mean have in common: the dtype of arithmetic, the mode of a launch; NULL: nothing. */
const char *compare_bound_detail(const compare_case *item, compare_bound bound);

/* Whether a case is of a mean. */
int compare_is_of_mean(const compare_table *table, const compare_mean *mean,
                       const compare_case *item);

/* "main memory" …; NULL where the suite tells, and of none. */
const char *compare_bound_name(compare_bound bound);

/* Members of a mean's object: "bound", "dtype" of arithmetic, "mode" of launches; null where they tell nothing. */
void compare_bound_json(struct cJSON *json, const compare_mean *mean);

enum {
    COMPARE_MEAN_NAME = 192
};

/* "gemm (arithmetic, f32), tandem" */
void compare_mean_name(const compare_mean *mean, char *text, size_t size);

/* "12 cases are in no mean: …"; "" where all cases with a ratio are in one. */
void compare_unbound_text(const compare_table *table, char *text, size_t size);

#endif
