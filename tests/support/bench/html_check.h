/* Whether a page is valid: every element is closed, nothing comes from elsewhere. Each fails the test at what is not. */
#ifndef TANDEM_TESTS_SUPPORT_BENCH_HTML_CHECK_H
#define TANDEM_TESTS_SUPPORT_BENCH_HTML_CHECK_H

#include <stddef.h>

/* Follow the tags of a page or a part of one. Returns the number of elements. */
size_t html_check_elements(const char *page);

/* A whole page: its elements, no address of anything, no control characters. */
void html_check_page(const char *page);

/* Whether a text stands in a page, or a part of one. */
void must_have(const char *page, const char *text);
void must_not_have(const char *page, const char *text);

#endif
