/* Text in HTML and SVG. */
#ifndef TANDEM_COMMON_HTML_TEXT_H
#define TANDEM_COMMON_HTML_TEXT_H

#include <stdio.h>

/*
 * Writes text with HTML's special characters escaped. NULL is written as "–". Invalid UTF-8 and
 * control characters become U+FFFD, so that any text from a driver or a file gives a valid page.
 */
void html_text(FILE *file, const char *text);

/* Formats at most 1023 bytes of text and writes them like html_text. */
void html_format(FILE *file, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
