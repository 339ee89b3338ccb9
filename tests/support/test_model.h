/* Models and checkpoints that tests make. */
#ifndef TANDEM_TESTS_SUPPORT_TEST_MODEL_H
#define TANDEM_TESTS_SUPPORT_TEST_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "formats/safetensors.h"
#include "models/mlp/mlp_model.h"

/*
 * Makes a ReLU model with the given widths (count - 1 layers). Its weights are uniform with He's
 * variance, so that values keep their size from layer to layer. The same seed gives the same
 * numbers on every machine. Returns 0, or -1 with the reason. Release the model with
 * mlp_model_release in both cases.
 */
int test_model_make(const char *name, const int64_t *widths, int count, uint64_t seed,
                    mlp_model *model, file_error *error);

/* Writes a whole file of tensors whose `data` lies in memory. Returns 0, or -1 with the reason. */
int test_safetensors_write(const char *path, const safetensors_tensor *tensors, size_t count,
                           const safetensors_pair *metadata, size_t metadata_count,
                           safetensors_error *error);

#endif
