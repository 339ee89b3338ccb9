#include "tests/support/test_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/random_fill.h"

/* Fills with values that are uniform in [-bound, bound). */
static void fill_uniform(float *values, int64_t count, float bound, uint64_t seed) {
    for (int64_t i = 0; i < count; i++)
        values[i] = bound * random_number(seed, (uint64_t)i);
}

int test_model_make(const char *name, const int64_t *widths, int count, uint64_t seed,
                    mlp_model *model, file_error *error) {
    memset(model, 0, sizeof *model);
    if (count < 2 || count - 1 > MLP_MAX_LAYERS)
        return file_fail(error, "%d widths give no model", count);
    snprintf(model->name, sizeof model->name, "%s", name);
    model->activation = TDM_ACT_RELU;
    model->input_scale = 1.0;
    model->recorded_accuracy = NAN;
    for (int i = 0; i + 1 < count; i++) {
        mlp_layer *const layer = &model->layers[model->layer_count++];
        layer->inputs = widths[i];
        layer->outputs = widths[i + 1];
        const int64_t weights = layer->inputs * layer->outputs;
        layer->weight = malloc((size_t)weights * sizeof *layer->weight);
        layer->bias = malloc((size_t)layer->outputs * sizeof *layer->bias);
        if (!layer->weight || !layer->bias)
            return file_fail(error, "out of memory for %lld weights", (long long)weights);
        fill_uniform(layer->weight, weights, sqrtf(6.0f / (float)layer->inputs),
                     seed + 2 * (uint64_t)i);
        fill_uniform(layer->bias, layer->outputs, 0.1f, seed + 2 * (uint64_t)i + 1);
    }
    return 0;
}

int test_safetensors_write(const char *path, const safetensors_tensor *tensors, size_t count,
                           const safetensors_pair *metadata, size_t metadata_count,
                           safetensors_error *error) {
    tensor_writer *writer;
    if (safetensors_writer_open(path, tensors, count, metadata, metadata_count, &writer, error))
        return -1;
    for (size_t i = 0; i < count; i++)
        if (tensor_writer_put(writer, i, 0, tensors[i].data, tensors[i].bytes, error)) {
            tensor_writer_abandon(writer);
            return -1;
        }
    return tensor_writer_finish(writer, error);
}
