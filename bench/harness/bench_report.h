/* Adds the rows of a finished case to the results file and to the printed table. */
#ifndef TANDEM_BENCH_HARNESS_BENCH_REPORT_H
#define TANDEM_BENCH_HARNESS_BENCH_REPORT_H

#include "bench/harness/bench_roof.h"
#include "bench/harness/bench_runner.h"
#include "bench/record/environment_record.h"
#include "common/table_print.h"

typedef struct bench_report {
    results_document *document;
    text_table *table;
    const char *rate_name; /* "GFLOP/s", "GB/s", "calls/s" or "ops/s" */
    const bench_roofs *roofs;
    int tandem_rows;  /* rows of Tandem that are ok */
    machine_use used; /* when the report was opened */
} bench_report;

/*
 * Returns 0, or -1 if memory is short. The report keeps the pointer `roofs`, which may be NULL.
 * Each roof adds a column to the table and two figures to a row's metrics: its own rate, and the
 * row's share of it.
 */
int bench_report_open(bench_report *report, const char *rate_name, const bench_roofs *roofs,
                      const tdm_device_info *device);

/*
 * Adds one row per contender. `row` has the fields of the case (suite, case name, dtype, shape,
 * mode, packing, flops or bytes). contenders[0] is Tandem, to which the others are compared. The
 * contenders of the roofs follow the `count` others in the array, and get rows of their own.
 */
void bench_report_case(bench_report *report, const bench_result *row, bench_contender *contenders,
                       int count);

/* Returns the median of a contender's samples, or NaN if it has no result. */
double bench_contender_median(const bench_contender *contender);

/*
 * Writes the results file (path NULL: none), and prints the table unless the file goes to stdout.
 * Returns the exit code: failed if a row failed, or if no row of Tandem is ok.
 */
int bench_report_close(bench_report *report, const char *command, const char *path);

#endif
