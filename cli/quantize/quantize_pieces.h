/*
 * Codes of a matrix to their place in the output, a piece of a row at a time, whatever the order. Pieces of s4 that begin
 * or end within a byte leave a half of it, which is kept until the other half comes.
 */
#ifndef TANDEM_CLI_QUANTIZE_QUANTIZE_PIECES_H
#define TANDEM_CLI_QUANTIZE_QUANTIZE_PIECES_H

#include <stddef.h>
#include <stdint.h>

#include <tandem/dtype.h>

#include "formats/file_error.h"

typedef struct quantize_target quantize_target;
typedef struct quantize_pieces quantize_pieces;

/* For pieces of up to `longest` codes, of which up to `halves` leave half a byte at one time. NULL when memory is short. */
quantize_pieces *quantize_pieces_create(const quantize_target *target, tdm_dtype dtype,
                                        int64_t longest, size_t halves);

/* Codes `first` … first + count − 1 of the tensor, which are those from `at` on of `codes`. 0, or -1 with the reason. */
int quantize_pieces_put(quantize_pieces *pieces, int64_t first, int64_t count, const void *codes,
                        int64_t at, file_error *error);

/* The half that has no other: the last of an odd number of codes. 0, or -1 with the reason. */
int quantize_pieces_finish(quantize_pieces *pieces, file_error *error);

void quantize_pieces_destroy(quantize_pieces *pieces); /* NULL is accepted */

#endif
