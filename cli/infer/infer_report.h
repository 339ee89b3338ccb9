/* What `tandem infer` shows: a table per device for people, rows of the results file for scripts. */
#ifndef TANDEM_CLI_INFER_INFER_REPORT_H
#define TANDEM_CLI_INFER_INFER_REPORT_H

#include "bench/record/results_json.h"
#include "cli/infer/infer_measure.h"
#include "common/table_print.h"

text_table *infer_table_create(void);

/* Add the line of one measurement. */
void infer_table_add(text_table *table, const infer_case *given, const infer_result *result);

/* Add its rows: pipelined and waited where they were timed; one when it failed, was wrong or was skipped. */
void infer_results_add(results_document *document, const tdm_device_info *info,
                       const infer_case *given, const infer_result *result);

/* A device that could not even be opened. */
void infer_results_add_failure(results_document *document, const tdm_device_info *info,
                               const char *reason);

/* One sentence about what is wrong, or why it was skipped; "" when the measurement is good. */
void infer_verdict(const infer_case *given, const infer_result *result, char *text, size_t size);

#endif
