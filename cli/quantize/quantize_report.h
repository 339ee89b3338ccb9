/* The output of `tandem quantize`: a table, or JSON of the schema tandem-quantize/1. */
#ifndef TANDEM_CLI_QUANTIZE_QUANTIZE_REPORT_H
#define TANDEM_CLI_QUANTIZE_QUANTIZE_REPORT_H

#include "cli/quantize/quantize_pass.h"
#include "cli/quantize/quantize_settings.h"

typedef struct quantize_report quantize_report;

/* The result of one tensor. */
typedef struct quantize_result {
    const quantize_item *item;
    quantize_outcome outcome;   /* for an item with a scheme */
    uint64_t bytes_after;       /* includes scales and zero points */
    tdm_quant_parameters input; /* for a calibrated layer */
} quantize_result;

/* Returns NULL if memory is short. The settings must outlive the report. */
quantize_report *quantize_report_create(const quantize_settings *settings);

void quantize_report_add(quantize_report *report, const quantize_result *result);

/*
 * Prints the table and writes the requested JSON, once all tensors are added. `left_out` is the
 * number of GGUF header values that were not written. Returns 0, or -1 with the reason on stderr.
 */
int quantize_report_write(const quantize_report *report, size_t left_out);

void quantize_report_destroy(quantize_report *report);

#endif
