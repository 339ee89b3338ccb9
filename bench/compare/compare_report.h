/* The report of `tandem compare`: tables as text or as a page, and the schema tandem-compare/1 for programs. */
#ifndef TANDEM_BENCH_COMPARE_COMPARE_REPORT_H
#define TANDEM_BENCH_COMPARE_COMPARE_REPORT_H

#include <stdio.h>

#include "bench/compare/compare_table.h"

struct cJSON;

typedef struct compare_report {
    const compare_table *table;
    double margin;
} compare_report;

void compare_print(const compare_report *report, FILE *file);

/* The same tables as an HTML page, with the rooflines of all devices. `report` is a compare_report. 0, or -1 when memory is short. */
int compare_page_write(FILE *file, const void *report);

/* NULL when memory is short. */
struct cJSON *compare_json(const compare_report *report);

enum {
    COMPARE_RATIO_TEXT = 128
};

/* "1.05x [1.02, 1.07] FASTER"; "-" for none. */
void compare_ratio_text(const speed_ratio *ratio, int digits, char *text, size_t size);

#endif
