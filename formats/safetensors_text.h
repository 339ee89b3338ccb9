/* The checks of the text of a safetensors header that a JSON parser does not make. */
#ifndef TANDEM_FORMATS_SAFETENSORS_TEXT_H
#define TANDEM_FORMATS_SAFETENSORS_TEXT_H

#include "formats/safetensors.h"

/* Check the text of a header, or of `what` else, before it is parsed: it begins with '{',
 * perhaps after JSON whitespace, is UTF-8, nests no deeper than 127 levels, and has no control
 * character or NUL (also not as \u0000), at which names would end early. 0 or -1. */
int safetensors_check_text(const char *text, size_t length, const char *what,
                           safetensors_error *error);

#endif
