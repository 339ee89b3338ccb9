/* The head of a page: the styles that the pages of report and compare share, for screens, telephones and paper. */
#ifndef TANDEM_BENCH_REPORT_PAGE_HEAD_H
#define TANDEM_BENCH_REPORT_PAGE_HEAD_H

#include <stdio.h>

/* All up to <body>, which the caller ends with </body></html>. */
void page_write_head(FILE *file, const char *title);

#endif
