/* The page of `tandem compare --html`: one HTML file that loads nothing from elsewhere, with rooflines of all devices. */
#ifndef TANDEM_BENCH_COMPARE_COMPARE_PAGE_H
#define TANDEM_BENCH_COMPARE_COMPARE_PAGE_H

#include <stdio.h>

#include "bench/compare/compare_report.h"

/* Failures of writing stand in the stream (ferror). 0, or -1 when memory is short. */
int compare_page_write(FILE *file, const compare_report *report);

#endif
