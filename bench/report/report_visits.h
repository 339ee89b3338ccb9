/*
 * A report visits its suites several times, minutes apart: what disturbs one visit of a row, another guest of the machine or the pages that
 * a process happened to get, need not disturb the next.
 *
 * The samples of all visits are dealt out as batches are within a visit (sample_deal.h): those behind the first ten go to the first ten in turn,
 * and the shorter time stays. Nothing of a visit is lost: its median stands in the row's "visits", and the metric `apart` says by
 * what share the slowest visit's is above the fastest one's.
 *
 * Only samples of one placement of the processors are taken together; those of others stay beside the row, in "elsewhere".
 */
#ifndef TANDEM_BENCH_REPORT_REPORT_VISITS_H
#define TANDEM_BENCH_REPORT_REPORT_VISITS_H

#include "bench/analysis/cache_levels.h"
#include "bench/analysis/row_placement.h"
#include "bench/record/bench_statistics.h"

struct cJSON;

/*
 * Take the rows of a suite's later visit, which are used up, into those of the visits before. A row that only one of them has stays as it is.
 * Figures that compare a row with its neighbours are those of its fastest visit. Returns the share of the visit's rows whose median it
 * made shorter by more than a hundredth.
 */
double report_visits_merge(struct cJSON *rows, struct cJSON *visit);

/*
 * The levels of memory, as cache_levels_describe writes them, by what all visits read of each working set; the rows of the sweep are given
 * theirs. "" where there is no sweep.
 */
void report_visits_levels(struct cJSON *rows, const cache_hints *hints, char *text, size_t size);

/*
 * Where the processors were (processor_probe.h) when rows were measured: both figures once for each visit of a row, added to the series. Their
 * medians are where most rows were: the report's placement.
 */
void report_visits_placements(const struct cJSON *rows, sample_series *handovers,
                              sample_series *works);

/* The share of the rows that were never measured in the report's placement. */
double report_visits_misplaced(const struct cJSON *rows, processor_state placement);

/* How fast the clock was and how crowded a core (chain_ns and crowding of processor_probe.h), once for each visit of a row, added to the series. */
void report_visits_paces(const struct cJSON *rows, sample_series *chains, sample_series *crowds);

/* The best of a report. NaN: not known. */
typedef struct report_pace {
    double chain_ns;
    double crowding;
} report_pace;

/* The share of the rows of which each visit had a slow clock or a shared core beside that. */
double report_visits_slowed(const struct cJSON *rows, report_pace best);

/* After the last visit: each row is what was measured in the report's placement, as far as it was met there. */
void report_visits_place(struct cJSON *rows, processor_state placement);

/* After that: which of a case's settings is the fastest, and which rung the top of its ladder. */
void report_visits_finish(struct cJSON *rows);

/* --form of `tandem bench memory` for a later visit of these rows: "read=ROW:4:3:8192,…"; "" where there is nothing to be given. */
void report_visits_forms(struct cJSON *rows, char *text, unsigned long size);

/*
 * GB/s of a row's first and last visit where it is of reading by the loops of STREAM; else -1. That of one visit is both.
 */
int report_visits_reference(const struct cJSON *row, double *first, double *last);

#endif
