/* A file of recorded activations, and which of its tensors go into which layer. */
#ifndef TANDEM_CLI_QUANTIZE_QUANTIZE_ACTIVATIONS_H
#define TANDEM_CLI_QUANTIZE_QUANTIZE_ACTIVATIONS_H

#include "formats/checkpoint/quantize_source.h"

/* A tensor as a batch of what goes into a layer whose name is the first `length` bytes of its own. */
typedef struct quantize_batch {
    const quantize_tensor *tensor;
    size_t length;
} quantize_batch;

/* All zero: no file. */
typedef struct quantize_activations {
    quantize_source source;
    quantize_batch *batches; /* by layer, those of a layer in the order of their numbers */
    size_t count;
} quantize_activations;

/* 0, or -1 with *activations empty and the reason in *error. */
int quantize_activations_open(const char *path, quantize_activations *activations,
                              file_error *error);

void quantize_activations_close(quantize_activations *activations);

/*
 * The batches of a layer: the tensors that have the layer's name, or "<layer>.input", or "<layer>.input.<number>". *count is how
 * many they are, 0 where there is none.
 */
const quantize_batch *quantize_activations_of(const quantize_activations *activations,
                                              const char *layer, size_t *count);

#endif
