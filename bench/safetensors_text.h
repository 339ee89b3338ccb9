/* What the safetensors reader and writer share: the error sentence, and the checks of the header's text
 * that a JSON parser does not make. */
#ifndef BENCH_SAFETENSORS_TEXT_H
#define BENCH_SAFETENSORS_TEXT_H

#include "bench/safetensors.h"

/* Write the sentence. */
void safetensors_set_error(safetensors_error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Write the sentence and give -1 to return; a macro, so that compilers see the value. */
#define safetensors_fail(error, ...) (safetensors_set_error(error, __VA_ARGS__), -1)

typedef struct safetensors_name {
    char text[68];
} safetensors_name;

/* A name from a file, cut to fit and with unprintable bytes replaced, for an error sentence. */
safetensors_name safetensors_printable(const char *name);

/*
 * Check the text of a header before it is parsed: begins with '{', is UTF-8, nests no deeper than header, tensor,
 * shape, and has no control character or NUL (also not as \u0000), at which names would end early. 0 or -1.
 */
int safetensors_check_text(const char *text, size_t length, safetensors_error *error);

#endif
