/* What the writers of model files share: a header, then tensors whose bytes are put piece by piece. */
#ifndef TANDEM_FORMATS_TENSOR_WRITER_H
#define TANDEM_FORMATS_TENSOR_WRITER_H

#include <stddef.h>
#include <stdint.h>

#include "formats/file_error.h"

/* Where the bytes of a tensor lie in the file. */
typedef struct tensor_place {
    uint64_t begin;
    uint64_t size;
} tensor_place;

typedef struct tensor_writer tensor_writer;

/*
 * Begin a file of `end` bytes, which is complete under `path` after _finish and not there before. `places` is copied. Every function
 * gives 0, or -1 with the reason in *error. _finish and _abandon destroy the writer.
 */
int tensor_writer_open(const char *path, const void *header, size_t header_bytes,
                       const tensor_place *places, size_t count, uint64_t end,
                       tensor_writer **writer, file_error *error);

/* Bytes of tensor `index`, from its byte `offset` on; in any order, every byte once. */
int tensor_writer_put(tensor_writer *writer, size_t index, uint64_t offset, const void *bytes,
                      size_t size, file_error *error);
int tensor_writer_finish(tensor_writer *writer, file_error *error);
void tensor_writer_abandon(tensor_writer *writer); /* NULL is accepted */

/* No text of a list stands twice; the list is sorted then. `what` begins the sentence, e.g. "name". */
int tensor_writer_check_unique(const char **texts, size_t count, const char *what,
                               file_error *error);

#endif
