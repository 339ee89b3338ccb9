/* The page of `tandem report`: one HTML file that loads nothing from elsewhere, for screens, telephones and paper. */
#ifndef TANDEM_BENCH_REPORT_REPORT_PAGE_H
#define TANDEM_BENCH_REPORT_REPORT_PAGE_H

#include <stdio.h>

#include "bench/record/results_read.h"

/* Write the page of the first device of a results_file. 0, or -1 when memory is short. */
int report_page_write(FILE *file, const void *results);

#endif
