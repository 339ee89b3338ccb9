/*
 * A report visits its suites several times, minutes apart: what disturbs one visit of a row, another guest of the machine or the pages that
 * a process happened to get, need not disturb the next.
 *
 * The samples of all visits are dealt out as batches are within a visit (sample_deal.h): those behind the first ten go to the first ten in turn,
 * and the shorter time stays. Nothing of a visit is lost: its median stands in the row's "visits", and the metric `apart` says by
 * what share the slowest visit's is above the fastest one's.
 */
#ifndef BENCH_REPORT_VISITS_H
#define BENCH_REPORT_VISITS_H

struct cJSON;

/*
 * Take the rows of a suite's later visit, which are used up, into those of the visits before. A row that only one of them has stays as it is.
 * Figures that compare a row with its neighbours are those of its fastest visit. Returns the share of the visit's rows whose median it
 * made shorter by more than a hundredth.
 */
double report_visits_merge(struct cJSON *rows, struct cJSON *visit);

/* After the last visit: which of a case's settings is the fastest. */
void report_visits_finish(struct cJSON *rows);

/* --form of `tandem bench memory` for a later visit of these rows: "read=ROW:4:3:8192,…"; "" where there is nothing to be given. */
void report_visits_forms(struct cJSON *rows, char *text, unsigned long size);

/*
 * GB/s of a row's first and last visit where it is of reading by the loops of STREAM; else -1. That of one visit is both.
 */
int report_visits_reference(const struct cJSON *row, double *first, double *last);

#endif
