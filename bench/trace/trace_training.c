/* Training a transformer: a layer's activations are recomputed in its backward pass. */
#include <stdlib.h>

#include "bench/trace/trace_layers.h"

static key_values keep_for_backward(transformer *model, int64_t layer, uint32_t keys,
                                    uint32_t values, kept_blocks *kept) {
    (void)layer;
    if (kept != NULL) {
        transformer_done_with(model, keys, kept);
        transformer_done_with(model, values, kept);
    }
    return (key_values){keys, values, (uint64_t)model->settings->sequence};
}

/* The forward pass of a layer without anything kept: its keys and values are freed by a second walk. */
static uint32_t forward(transformer *model, int64_t layer, uint32_t input) {
    const uint32_t first = (uint32_t)model->trace->block_count;
    const uint32_t output =
        transformer_layer(model, layer, input, model->tokens, keep_for_backward, NULL, 1);
    for (uint32_t block = first; block < (uint32_t)model->trace->block_count; block++)
        if (block != output && model->trace->blocks[block].live)
            transformer_release(model, block);
    return output;
}

/* The gradient of one op: of its kept operand, in as many bytes, which replaces the gradient of its result. */
static uint32_t step_back(transformer *model, uint32_t gradient, uint32_t operand,
                          uint32_t weight) {
    const uint32_t output =
        transformer_allocate(model, model->trace->blocks[operand].bytes, model->compute);
    transformer_run(model, gradient, operand, output);
    transformer_touch(model, weight, model->compute);
    transformer_release(model, gradient);
    transformer_release(model, operand);
    return output;
}

/* Recompute the layer from its kept input, then go back through it; returns the gradient of the input. */
static uint32_t backward(transformer *model, int64_t layer, uint32_t input, uint32_t gradient,
                         const uint32_t *weight_gradients) {
    kept_blocks kept = {.count = 0};
    model->tag = trace_tag(model->trace, "recomputed");
    const uint32_t output =
        transformer_layer(model, layer, input, model->tokens, keep_for_backward, &kept, 1);
    transformer_release(model, output);
    model->tag = trace_tag(model->trace, "backward");
    for (int i = kept.count - 1; i >= 0; i--) {
        const int which = i % LAYER_WEIGHTS;
        gradient =
            step_back(model, gradient, kept.blocks[i], transformer_weight(model, layer, which));
        transformer_touch(model, weight_gradients[layer * LAYER_WEIGHTS + which], model->compute);
    }
    for (int which = 0; which < LAYER_WEIGHTS; which++)
        transformer_reduce(model, weight_gradients[layer * LAYER_WEIGHTS + which]);
    return step_back(model, gradient, input, NO_BLOCK);
}

/* The probabilities of all tokens in f32, a part of them at a time, and the gradient of the last state. */
static uint32_t loss(transformer *model, uint32_t state) {
    const uint64_t parts = 8;
    const uint64_t rows = model->tokens / parts + 1;
    const uint64_t vocabulary = (uint64_t)model->settings->vocabulary;
    const uint32_t gradient =
        transformer_tensor(model, model->tokens * (uint64_t)model->settings->hidden);
    model->tag = trace_tag(model->trace, "loss");
    for (uint64_t part = 0; part < parts; part++) {
        const uint32_t scores = transformer_tensor(model, rows * vocabulary);
        transformer_run(model, state, scores, NO_BLOCK);
        const uint32_t exact = transformer_allocate(model, 4 * rows * vocabulary, model->compute);
        transformer_run(model, scores, exact, NO_BLOCK);
        transformer_run(model, exact, gradient, scores);
        transformer_release(model, exact);
        transformer_release(model, scores);
    }
    transformer_release(model, state);
    return gradient;
}

static void train_step(transformer *model, uint32_t *inputs, const uint32_t *gradients) {
    const trace_settings *const s = model->settings;
    model->tag = trace_tag(model->trace, "forward");
    uint32_t state = transformer_embed(model, model->tokens);
    for (int64_t layer = 0; layer < s->layers; layer++) {
        inputs[layer] = state;
        state = forward(model, layer, state);
    }
    uint32_t gradient = loss(model, state);
    for (int64_t layer = s->layers - 1; layer >= 0; layer--)
        gradient = backward(model, layer, inputs[layer], gradient, gradients);
    transformer_release(model, gradient);
}

/* Two moments in f32 for every weight; the update takes scratch memory of the weight's size in f32. */
static void update_weights(transformer *model, uint32_t *moments, const uint32_t *gradients) {
    const int64_t count = model->settings->layers * LAYER_WEIGHTS;
    model->tag = trace_tag(model->trace, "optimizer");
    for (int64_t i = 0; i < count; i++) {
        const int which = (int)(i % LAYER_WEIGHTS);
        const uint64_t bytes = 4 * transformer_weight_elements(model, which);
        for (int64_t each = 2 * i; each < 2 * i + 2; each++)
            if (moments[each] == NO_BLOCK)
                moments[each] = transformer_allocate(model, bytes, model->compute);
        const uint32_t scratch = transformer_allocate(model, bytes, model->compute);
        transformer_run(model, gradients[i], moments[2 * i], scratch);
        transformer_run(model, moments[2 * i + 1], scratch,
                        transformer_weight(model, i / LAYER_WEIGHTS, which));
        transformer_release(model, scratch);
    }
}

void trace_build_training(const trace_settings *settings, trace_data *trace) {
    transformer model = transformer_begin(settings, trace);
    const size_t layers = (size_t)settings->layers;
    const size_t weights = layers * LAYER_WEIGHTS;
    uint32_t *const blocks = malloc((layers + 3 * weights) * sizeof *blocks);
    if (blocks == NULL) {
        trace->short_of_memory = 1;
        transformer_finish(&model);
        return;
    }
    uint32_t *const gradients = blocks + layers;
    uint32_t *const moments = gradients + weights;
    model.tag = trace_tag(trace, "gradients");
    for (size_t i = 0; i < weights; i++)
        gradients[i] =
            settings->no_weights
                ? NO_BLOCK
                : transformer_tensor(&model,
                                     transformer_weight_elements(&model, (int)(i % LAYER_WEIGHTS)));
    for (size_t i = 0; i < 2 * weights; i++)
        moments[i] = NO_BLOCK;
    for (int64_t step = 0; step < settings->steps && !trace->short_of_memory; step++) {
        train_step(&model, blocks, gradients);
        if (!settings->no_weights)
            update_weights(&model, moments, gradients);
    }
    free(blocks);
    transformer_finish(&model);
}
