/* UTF-8 checks for names that come from files. */
#ifndef TANDEM_FORMATS_UTF8_TEXT_H
#define TANDEM_FORMATS_UTF8_TEXT_H

#include <stddef.h>

/*
 * Returns the length of the UTF-8 sequence at `text`, or 0 if it is invalid (RFC 3629: no overlong
 * form, no surrogate). `left` is at least 1.
 */
size_t utf8_sequence(const unsigned char *text, size_t left);

/* Returns 1 if a text is UTF-8 without control characters and NUL. */
int utf8_is_plain(const char *text, size_t length);

/*
 * Returns a copy of a text in which U+FFFD replaces every byte that belongs to no UTF-8 sequence.
 * The caller frees it. Returns NULL if memory is short.
 */
char *utf8_replace_invalid(const char *text);

/* Removes the last sequence if it is incomplete, for example because a buffer was too small. */
void utf8_trim(char *text);

#endif
