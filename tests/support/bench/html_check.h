/*
 * Checks that a page is valid: every element is closed, and nothing is loaded from elsewhere. Each
 * function fails the test on an error.
 */
#ifndef TANDEM_TESTS_SUPPORT_BENCH_HTML_CHECK_H
#define TANDEM_TESTS_SUPPORT_BENCH_HTML_CHECK_H

#include <stddef.h>

/* Checks the tags of a page or a part of one. Returns the number of elements. */
size_t html_check_elements(const char *page);

/* Checks a whole page: its elements, no URLs, no control characters. */
void html_check_page(const char *page);

/* Check that a text is, or is not, in a page or a part of one. */
void must_have(const char *page, const char *text);
void must_not_have(const char *page, const char *text);

#endif
