/*
 * Times of batches as results files keep them: whole numbers of four significant digits and the seconds that one of them
 * stands for, six bytes for each batch.
 */
#ifndef TANDEM_BENCH_REPORT_BATCH_TIMES_H
#define TANDEM_BENCH_REPORT_BATCH_TIMES_H

#include <stddef.h>

struct cJSON;

/* Adds "batches" and "batch_unit_s" to an object; nothing where there are none, or where one is not positive and finite. */
void batch_times_put(struct cJSON *object, const double *seconds, size_t count);

#endif
