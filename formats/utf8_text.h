/* UTF-8 in names that come from files. */
#ifndef TANDEM_FORMATS_UTF8_TEXT_H
#define TANDEM_FORMATS_UTF8_TEXT_H

#include <stddef.h>

/* Length of the UTF-8 sequence at `text`, 0 when it is none (RFC 3629: no overlong form, no surrogate).
 * `left` is at least 1. */
size_t utf8_sequence(const unsigned char *text, size_t left);

/* Whether a text is UTF-8 without control characters and NUL. */
int utf8_is_plain(const char *text, size_t length);

/* Copy a text with U+FFFD in place of every byte that belongs to no UTF-8 sequence. The caller
 * frees it. NULL when memory is short. */
char *utf8_replace_invalid(const char *text);

/* Remove a sequence that a buffer had no room for the end of. */
void utf8_trim(char *text);

#endif
