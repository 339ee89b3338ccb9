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
