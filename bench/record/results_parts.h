/* Parts of the reader of results files: lists of names and values. For results_read.c. */
#ifndef TANDEM_BENCH_RECORD_RESULTS_PARTS_H
#define TANDEM_BENCH_RECORD_RESULTS_PARTS_H

#include "bench/record/results_read.h"
#include "formats/json_file.h"

/* An object of texts, numbers, and objects of such; null is an empty list. 0, or -1 with the reason and nothing to release. */
int results_facts_read(const struct cJSON *object, const json_place *place, results_facts *facts,
                       file_error *error);
void results_facts_release(results_facts *facts);

/* An object of numbers; absent is empty. 0, or -1 with the reason; figures->items is to be freed either way. */
int results_figures_read(const struct cJSON *row, const char *key, const json_place *place,
                         results_figures *figures, file_error *error);

#endif
