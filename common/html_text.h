/* Text in HTML and SVG. */
#ifndef TANDEM_COMMON_HTML_TEXT_H
#define TANDEM_COMMON_HTML_TEXT_H

#include <stdio.h>

/*
 * Write text with what HTML would read as markup replaced; NULL is written as "–". Bytes that are no UTF-8 and control
 * characters become U+FFFD, so that whatever a driver or a file says is a valid page.
 */
void html_text(FILE *file, const char *text);

/* The same of a formatted text, of at most 1023 bytes. */
void html_format(FILE *file, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
