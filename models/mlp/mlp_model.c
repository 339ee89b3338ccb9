#include "models/mlp/mlp_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/random_fill.h"

void mlp_model_release(mlp_model *model) {
    for (int i = 0; i < model->layer_count; i++) {
        free(model->layers[i].weight);
        free(model->layers[i].bias);
        free(model->layers[i].stored.codes);
        free(model->layers[i].stored.scales);
        free(model->layers[i].stored.zero_points);
    }
    memset(model, 0, sizeof *model);
}

void mlp_samples_release(mlp_samples *samples) {
    free(samples->inputs);
    free(samples->labels);
    memset(samples, 0, sizeof *samples);
}

int64_t mlp_model_inputs(const mlp_model *model) {
    return model->layers[0].inputs;
}

int64_t mlp_model_outputs(const mlp_model *model) {
    return model->layers[model->layer_count - 1].outputs;
}

int64_t mlp_model_parameters(const mlp_model *model) {
    int64_t count = 0;
    for (int i = 0; i < model->layer_count; i++) {
        const mlp_layer *const layer = &model->layers[i];
        count += layer->inputs * layer->outputs + (layer->bias ? layer->outputs : 0);
    }
    return count;
}

tdm_quant_parameters mlp_weight_parameters(const mlp_quantized_layer *layer, int64_t n, int64_t k) {
    const int64_t inputs = layer->spec.shape[1];
    const int64_t group = layer->spec.blocks[1] > 0 ? layer->spec.blocks[1] : inputs;
    const int64_t row = layer->spec.blocks[0] == 0 ? 0 : n;
    const int64_t place = row * ((inputs + group - 1) / group) + k / group;
    return (tdm_quant_parameters){layer->scales[place],
                                  layer->zero_points ? layer->zero_points[place] : 0};
}

/* Uniform in [-bound, bound). */
static void fill_uniform(float *values, int64_t count, float bound, uint64_t seed) {
    for (int64_t i = 0; i < count; i++)
        values[i] = bound * random_number(seed, (uint64_t)i);
}

int mlp_model_synthetic(const char *name, const int64_t *widths, int count, uint64_t seed,
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

int mlp_samples_synthetic(int64_t count, int64_t width, uint64_t seed, mlp_samples *samples,
                          file_error *error) {
    memset(samples, 0, sizeof *samples);
    samples->inputs = malloc((size_t)(count * width) * sizeof *samples->inputs);
    if (!samples->inputs)
        return file_fail(error, "out of memory for %lld samples", (long long)count);
    samples->count = count;
    samples->width = width;
    random_fill_numbers(TDM_F32, seed, samples->inputs, (size_t)(count * width));
    return 0;
}
