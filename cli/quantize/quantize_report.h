/* What `tandem quantize` says of its work: a table, or JSON of the schema tandem-quantize/1. */
#ifndef TANDEM_CLI_QUANTIZE_QUANTIZE_REPORT_H
#define TANDEM_CLI_QUANTIZE_QUANTIZE_REPORT_H

#include "cli/quantize/quantize_pass.h"
#include "cli/quantize/quantize_settings.h"

typedef struct quantize_report quantize_report;

/* One tensor. */
typedef struct quantize_result {
    const quantize_item *item;
    quantize_outcome outcome;   /* of an item with a scheme */
    uint64_t bytes_after;       /* with scales and zero points */
    tdm_quant_parameters input; /* of a calibrated layer */
} quantize_result;

/* NULL when memory is short. The settings must outlive the report. */
quantize_report *quantize_report_create(const quantize_settings *settings);

void quantize_report_add(quantize_report *report, const quantize_result *result);

/* All tensors are added: print the table and write the JSON that was asked for. `left_out` values of the header went nowhere. 0, or -1
 * with the reason on stderr. */
int quantize_report_write(const quantize_report *report, size_t left_out);

void quantize_report_destroy(quantize_report *report);

#endif
