/* The part that all writers of model files share: it writes a header, and tensors in pieces. */
#ifndef TANDEM_FORMATS_TENSOR_WRITER_H
#define TANDEM_FORMATS_TENSOR_WRITER_H

#include <stddef.h>
#include <stdint.h>

#include "formats/file_error.h"

/* The position of a tensor's bytes in the file. */
typedef struct tensor_place {
    uint64_t begin;
    uint64_t size;
} tensor_place;

typedef struct tensor_writer tensor_writer;

/*
 * Begins a file of `end` bytes, which appears under `path` once tensor_writer_finish succeeds.
 * `places` is copied. Every function returns 0, or -1 and the reason in *error. _finish and
 * _abandon destroy the writer.
 */
int tensor_writer_open(const char *path, const void *header, size_t header_bytes,
                       const tensor_place *places, size_t count, uint64_t end,
                       tensor_writer **writer, file_error *error);

/* Writes bytes of tensor `index` from its byte `offset` on: in any order, every byte once. */
int tensor_writer_put(tensor_writer *writer, size_t index, uint64_t offset, const void *bytes,
                      size_t size, file_error *error);
int tensor_writer_finish(tensor_writer *writer, file_error *error);
void tensor_writer_abandon(tensor_writer *writer); /* NULL is accepted */

/* Sorts a list of strings and refuses duplicates. `what` is used in the message, e.g. "name". */
int tensor_writer_check_unique(const char **texts, size_t count, const char *what,
                               file_error *error);

#endif
