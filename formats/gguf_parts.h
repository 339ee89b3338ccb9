/*
 * A GGUF model in one file or in several, its parts, as llama.cpp splits large models:
 * NAME-00001-of-00003.gguf and so on, all in one folder. The values of the model are in the first
 * part; split.no, split.count and split.tensors.count of every part say how they belong together.
 *
 * Refused, with a sentence that says what is wrong: a part that is not there; parts whose values
 * disagree with each other or with their names; a tensor that is in two parts.
 */
#ifndef TANDEM_FORMATS_GGUF_PARTS_H
#define TANDEM_FORMATS_GGUF_PARTS_H

#include "formats/gguf.h"

typedef struct gguf_parts {
    gguf_file **files; /* by their numbers */
    char **paths;
    size_t count;
} gguf_parts;

/* Open a file, and where it is a part of a model, whichever, all others. 0, or -1 with *parts
 * empty and the reason in *error. */
int gguf_parts_open(const char *path, gguf_parts *parts, file_error *error);

void gguf_parts_close(gguf_parts *parts); /* empty parts are accepted */

/* Return 1 for the key of a value that describes how a model is split. */
int gguf_parts_is_key(const char *key);

#endif
