/* Weights of a layer that a file has as integers: what `tandem quantize` wrote, and blocks of GGUF files. */
#ifndef TANDEM_MODELS_MLP_MLP_STORED_H
#define TANDEM_MODELS_MLP_MLP_STORED_H

#include "formats/checkpoint/quantize_source.h"
#include "models/mlp/mlp_model.h"

/*
 * Fill in the layer's widths, its stored integers and the floats that those stand for. u8 becomes s8, less 128, as does its zero
 * point. *tensors grows by those that belong to the weight, itself included. 1; 0 where the weight is none of integers; -1 with the
 * reason.
 */
int mlp_stored_read(const quantize_source *source, const quantize_tensor *weight, mlp_layer *layer,
                    size_t *tensors, file_error *error);

#endif
