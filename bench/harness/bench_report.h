/* The rows of a finished case: into the results file and into the table for people. */
#ifndef TANDEM_BENCH_HARNESS_BENCH_REPORT_H
#define TANDEM_BENCH_HARNESS_BENCH_REPORT_H

#include "bench/harness/bench_roof.h"
#include "bench/harness/bench_runner.h"
#include "bench/record/environment_record.h"
#include "common/table_print.h"

typedef struct bench_report {
    results_document *document;
    text_table *table;
    const char *rate_name; /* "GFLOP/s", "GB/s" or "calls/s" */
    const bench_roofs *roofs;
    int tandem_rows;  /* rows of Tandem that are ok */
    machine_use used; /* when it was opened */
} bench_report;

/*
 * 0, or -1 when memory is short. `roofs` is kept; NULL: none. Each roof adds a column to the table and two
 * figures to a row's metrics: its own rate, and the share of it that the row reaches.
 */
int bench_report_open(bench_report *report, const char *rate_name, const bench_roofs *roofs,
                      const tdm_device_info *device);

/*
 * Add one row per entrant. `row` has what the case gives (suite, case name, dtype, shape, mode,
 * packing, flops or bytes); entrants[0] is Tandem, which the others are compared with. The
 * roofs' entrants stand behind the `count` others and get rows of their own.
 */
void bench_report_case(bench_report *report, const bench_result *row, bench_entrant *entrants,
                       int count);

/* Median of an entrant's samples; NaN where it has no result. */
double bench_entrant_median(const bench_entrant *entrant);

/*
 * Write the results file (path NULL: none), and the table unless the file goes to stdout. Returns
 * the exit code: failed when a row failed, or when no row of Tandem is ok.
 */
int bench_report_close(bench_report *report, const char *command, const char *path);

#endif
