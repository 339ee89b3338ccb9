/* Figures as the tables of report and compare have them. */
#ifndef TANDEM_BENCH_REPORT_PAGE_TEXTS_H
#define TANDEM_BENCH_REPORT_PAGE_TEXTS_H

#include <stddef.h>

/* "743 W", "4.55 pJ", "82.6 TFLOP/s": three digits; "1.25e+299 W", "4.00e-04 W". */
void page_amount_text(double value, const char *unit, char *text, size_t size);

/* The same with the share of a datasheet, and ! where that is above 1: "45.5 GB/s (91 %)"; NaN: "-", or no share. */
void page_share_text(double value, const char *unit, double share, char *text, size_t size);

/* "1.05", "0.054", "4.30e-03": so many digits behind the point, one more below 0.1. */
void page_times_text(double ratio, int digits, char *text, size_t size);

#endif
