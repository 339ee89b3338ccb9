/* The page of `tandem report` from the text of a results file. */
#ifndef TANDEM_TESTS_SUPPORT_BENCH_REPORT_PAGE_OF_H
#define TANDEM_TESTS_SUPPORT_BENCH_REPORT_PAGE_OF_H

#include <stddef.h>

/* Of the file's device of that number. Fails the test where the text is refused or the page is not valid; the caller frees it. */
char *report_page_of(const char *text, size_t device);

#endif
