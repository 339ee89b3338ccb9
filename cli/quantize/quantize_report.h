/* What `tandem quantize` says of its work: a table, and JSON of the schema tandem-quantize/1. */
#ifndef TANDEM_CLI_QUANTIZE_QUANTIZE_REPORT_H
#define TANDEM_CLI_QUANTIZE_QUANTIZE_REPORT_H

#include "cli/quantize/quantize_calibrate.h"
#include "cli/quantize/quantize_pass.h"
#include "cli/quantize/quantize_plan.h"

typedef struct quantize_report quantize_report;

/* What the whole run was about; texts must outlive the report. */
typedef struct quantize_run {
    const char *input;
    const char *output;
    const quantize_choice *choice;
    int64_t group;           /* 0: none */
    const char *scales;      /* type of the scales of codes; NULL: there are none */
    const char *calibration; /* NULL: none */
    const char *observer;
    const char
        *unused_activation; /* the first tensor of the calibration that no layer takes, or NULL */
    size_t unused_activations; /* how many these are */
    int is_dry;                /* no output is written */
} quantize_run;

/* One tensor. */
typedef struct quantize_result {
    const quantize_item *item;
    const quantize_outcome *outcome; /* NULL: copied, or not done */
    uint64_t bytes_after;            /* with scales and zero points */
    const quantize_input *input;     /* NULL: not calibrated */
} quantize_result;

/* NULL when memory is short. */
quantize_report *quantize_report_create(const quantize_run *run);

void quantize_report_add(quantize_report *report, const quantize_result *result);

/* All tensors are added: write the JSON, if it goes into a file (path NULL: there is none). `left_out` values of the header went
 * nowhere. 0, or -1 with the reason on stderr. */
int quantize_report_write(quantize_report *report, const char *command, const char *path,
                          size_t left_out);

/* Behind that, to standard output: the table, or the JSON where `path` is "-". 0, or -1 with the reason on stderr. */
int quantize_report_print(const quantize_report *report, const char *command, const char *path);

void quantize_report_destroy(quantize_report *report);

#endif
