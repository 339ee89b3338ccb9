#include "models/mlp/mlp_network.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tandem/tandem.h>

#include "quant/number_formats.h"

#define TRY(expression)                                                                            \
    do {                                                                                           \
        const tdm_status try_status = (expression);                                                \
        if (try_status != TDM_OK)                                                                  \
            return try_status;                                                                     \
    } while (0)

typedef struct network_layer {
    tdm_gemm_plan *plan;
    tdm_packed *weight;
    tdm_tensor *bias; /* NULL if the layer has none */
    tdm_tensor *output;
} network_layer;

struct mlp_network {
    tdm_device *device; /* owned by the caller, like the stream */
    tdm_stream *stream;
    const mlp_precision *precision;
    const mlp_quantized *quantized; /* only while the network is built; NULL: not quantized */
    tdm_dtype dtype;                /* of inputs and logits */
    size_t element_bytes;
    int64_t batch;
    int64_t inputs;
    int64_t outputs;
    tdm_tensor *input;
    tdm_tensor *codes;     /* the quantized input; NULL unless it is calibrated */
    tdm_buffer *workspace; /* the largest that a layer needs */
    size_t workspace_bytes;
    int layer_count;
    network_layer layers[MLP_MAX_LAYERS];
    void *staged; /* [batch][inputs] in the dtype */
    void *read;   /* [batch][outputs] in the dtype */
    float *logits;
    uint64_t weight_bytes;
    char variants[256];
};

/*
 * Fills a tensor with these bytes and waits for the copy. A quantized tensor returns its scales and
 * zero points as const tensors, but they can be written.
 */
static tdm_status copy_bytes(const mlp_network *network, const tdm_tensor *tensor,
                             const void *bytes) {
    tdm_tensor *const target = (tdm_tensor *)(uintptr_t)tensor;
    size_t count = 0;
    TRY(tdm_dtype_bytes(tdm_tensor_dtype(tensor), tdm_tensor_elements(tensor), &count));
    return tdm_tensor_write(network->stream, bytes, count, NULL, target);
}

/* Fills a tensor of floats with these values, rounded to its dtype, and waits for the copy. */
static tdm_status copy_values(const mlp_network *network, const tdm_tensor *tensor,
                              const float *values) {
    const tdm_dtype dtype = tdm_tensor_dtype(tensor);
    const size_t count = (size_t)tdm_tensor_elements(tensor);
    if (dtype == TDM_F32)
        return copy_bytes(network, tensor, values);
    uint16_t *const halves = malloc(count * sizeof *halves);
    if (!halves)
        return TDM_OUT_OF_HOST_MEMORY;
    for (size_t i = 0; i < count; i++)
        tdm_number_set(dtype, halves, i, (double)values[i]);
    const tdm_status status = copy_bytes(network, tensor, halves);
    free(halves);
    return status;
}

/* Creates a layer's calibrated inputs, [batch][width] with parameters for the whole tensor. */
static tdm_status create_codes(const mlp_network *network, int64_t width,
                               const mlp_quantized_layer *layer, tdm_tensor **codes) {
    const int64_t shape[2] = {network->batch, width};
    tdm_quantization parameters = TDM_QUANTIZATION_INIT;
    TRY(tdm_tensor_create_quantized(network->device, layer->input_dtype, 2, shape, NULL, TDM_F32,
                                    TDM_S32, codes));
    TRY(tdm_tensor_quantization(*codes, &parameters));
    TRY(copy_bytes(network, parameters.scale, &layer->input.scale));
    return copy_bytes(network, parameters.zero_point, &layer->input.zero_point);
}

/* Creates s8 or s4 weights [outputs][inputs] with scales and zero points. */
static tdm_status create_quantized(const mlp_network *network, const mlp_quantized_layer *source,
                                   tdm_tensor **weight) {
    const tdm_quant_spec *const spec = &source->spec;
    tdm_quantization parameters = TDM_QUANTIZATION_INIT;
    TRY(tdm_tensor_create_quantized(network->device, spec->dtype, 2, spec->shape, spec->blocks,
                                    source->scale_dtype,
                                    source->zero_points ? TDM_S8 : TDM_DTYPE_NONE, weight));
    TRY(tdm_tensor_quantization(*weight, &parameters));
    TRY(copy_bytes(network, *weight, source->codes));
    TRY(copy_values(network, parameters.scale, source->scales));
    return source->zero_points ? copy_bytes(network, parameters.zero_point, source->zero_points)
                               : TDM_OK;
}

/* ---- building ---- */

static int is_calibrated(const mlp_network *network) {
    return network->precision->inputs == MLP_INPUTS_CALIBRATED;
}

/*
 * Returns 1 if a layer's weights are quantized. In a model with stored integers, some layers may be
 * floats.
 */
static int has_codes(const mlp_network *network, int index) {
    return network->quantized && network->quantized->layers[index].codes;
}

/* Creates a float tensor of these values. */
static tdm_status create_floats(const mlp_network *network, int rank, const int64_t *shape,
                                const float *values, tdm_tensor **tensor) {
    TRY(tdm_tensor_create(network->device, network->dtype, rank, shape, tensor));
    return copy_values(network, *tensor, values);
}

static tdm_status create_weight(const mlp_network *network, const mlp_layer *source, int index,
                                tdm_tensor **weight) {
    const int64_t shape[2] = {source->outputs, source->inputs};
    return has_codes(network, index)
               ? create_quantized(network, &network->quantized->layers[index], weight)
               : create_floats(network, 2, shape, source->weight, weight);
}

/* Creates a layer's output and bias: integers in calibrated layers, except in the last one. */
static tdm_status create_rest(const mlp_network *network, const mlp_layer *source, int index,
                              int last, network_layer *layer) {
    const int64_t shape[2] = {network->batch, source->outputs};
    if (!is_calibrated(network) || last) {
        TRY(tdm_tensor_create(network->device, network->dtype, 2, shape, &layer->output));
        return source->bias
                   ? create_floats(network, 1, &source->outputs, source->bias, &layer->bias)
                   : TDM_OK;
    }
    const mlp_quantized_layer *const own = &network->quantized->layers[index];
    TRY(create_codes(network, source->outputs, own + 1, &layer->output));
    if (!source->bias)
        return TDM_OK;
    TRY(tdm_tensor_create(network->device, TDM_S32, 1, &source->outputs, &layer->bias));
    return copy_bytes(network, layer->bias, own->bias);
}

static tdm_status plan_layer(mlp_network *network, int index, const tdm_tensor *input,
                             const tdm_tensor *weight, tdm_activation activation,
                             network_layer *layer) {
    tdm_gemm_desc desc = TDM_GEMM_DESC_INIT;
    TRY(tdm_tensor_layout(input, &desc.a));
    TRY(tdm_tensor_layout(weight, &desc.b));
    TRY(tdm_tensor_layout(layer->output, &desc.d));
    TRY(tdm_tensor_quant_layout(input, &desc.a_quant));
    TRY(tdm_tensor_quant_layout(weight, &desc.b_quant));
    TRY(tdm_tensor_quant_layout(layer->output, &desc.d_quant));
    if (layer->bias)
        TRY(tdm_tensor_layout(layer->bias, &desc.bias));
    desc.transpose_b = 1;
    desc.activation = activation;
    desc.quantize_a = network->precision->inputs == MLP_INPUTS_BY_ROW && has_codes(network, index);
    desc.packed_b = 1;
    TRY(tdm_gemm_plan_create(network->device, &desc, &layer->plan));
    size_t workspace;
    TRY(tdm_gemm_plan_workspace_size(layer->plan, &workspace));
    if (workspace > network->workspace_bytes)
        network->workspace_bytes = workspace;
    return TDM_OK;
}

static tdm_status load_layer(mlp_network *network, const mlp_model *model, int index,
                             const tdm_tensor *input, network_layer *layer) {
    const mlp_layer *const source = &model->layers[index];
    const int last = index + 1 == model->layer_count;
    tdm_tensor *weight = NULL;
    TRY(create_rest(network, source, index, last, layer));
    tdm_status status = create_weight(network, source, index, &weight);
    if (status == TDM_OK)
        status = plan_layer(network, index, input, weight, last ? TDM_ACT_NONE : model->activation,
                            layer);
    if (status == TDM_OK)
        status = tdm_gemm_pack_b(layer->plan, network->stream, weight, &layer->weight);
    tdm_tensor_destroy(weight); /* returns to the pool once the packing is done */
    TRY(status);
    network->weight_bytes += tdm_packed_bytes(layer->weight);
    if (layer->bias) {
        size_t bytes;
        TRY(tdm_dtype_bytes(tdm_tensor_dtype(layer->bias), source->outputs, &bytes));
        network->weight_bytes += bytes;
    }
    return TDM_OK;
}

static void note_variant(mlp_network *network, const char *name) {
    const size_t length = strlen(network->variants);
    if (strstr(network->variants, name))
        return;
    snprintf(network->variants + length, sizeof network->variants - length, "%s%s",
             length > 0 ? "+" : "", name);
}

static tdm_status build(mlp_network *network, const mlp_model *model) {
    const int64_t shape[2] = {network->batch, network->inputs};
    TRY(tdm_tensor_create(network->device, network->dtype, 2, shape, &network->input));
    const tdm_tensor *input = network->input;
    if (is_calibrated(network)) {
        TRY(create_codes(network, network->inputs, &network->quantized->layers[0],
                         &network->codes));
        input = network->codes;
    }
    for (int i = 0; i < model->layer_count; i++) {
        network_layer *const layer = &network->layers[network->layer_count++];
        TRY(load_layer(network, model, i, input, layer));
        note_variant(network, tdm_gemm_plan_variant(layer->plan));
        input = layer->output;
    }
    if (network->workspace_bytes > 0)
        TRY(tdm_buffer_create(network->device, network->workspace_bytes, &network->workspace));
    return tdm_stream_synchronize(network->stream);
}

static tdm_status allocate_host(mlp_network *network) {
    const size_t batch = (size_t)network->batch;
    network->staged = calloc(batch * (size_t)network->inputs, network->element_bytes);
    network->read = calloc(batch * (size_t)network->outputs, network->element_bytes);
    network->logits = calloc(batch * (size_t)network->outputs, sizeof *network->logits);
    return network->staged && network->read && network->logits ? TDM_OK : TDM_OUT_OF_HOST_MEMORY;
}

tdm_status mlp_network_create(tdm_device *device, tdm_stream *stream, const mlp_model *model,
                              const mlp_precision *precision, const mlp_quantized *quantized,
                              int64_t batch, mlp_network **network) {
    *network = NULL;
    mlp_network *const made = calloc(1, sizeof *made);
    if (!made)
        return TDM_OUT_OF_HOST_MEMORY;
    made->device = device;
    made->stream = stream;
    made->precision = precision;
    made->quantized = quantized;
    made->dtype = precision->dtype;
    made->element_bytes = made->dtype == TDM_F32 ? sizeof(float) : sizeof(uint16_t);
    made->batch = batch;
    made->inputs = mlp_model_inputs(model);
    made->outputs = mlp_model_outputs(model);
    tdm_status status = allocate_host(made);
    if (status == TDM_OK)
        status = build(made, model);
    made->quantized = NULL;
    if (status != TDM_OK) {
        mlp_network_destroy(made);
        return status;
    }
    *network = made;
    return TDM_OK;
}

void mlp_network_destroy(mlp_network *network) {
    if (!network)
        return;
    /* After a failure, copies may still be reading memory that is freed below. */
    tdm_stream_synchronize(network->stream);
    for (int i = 0; i < network->layer_count; i++) {
        tdm_tensor_destroy(network->layers[i].output);
        tdm_tensor_destroy(network->layers[i].bias);
        tdm_packed_destroy(network->layers[i].weight);
        tdm_gemm_plan_destroy(network->layers[i].plan);
    }
    tdm_buffer_destroy(network->workspace);
    tdm_tensor_destroy(network->codes);
    tdm_tensor_destroy(network->input);
    free(network->staged);
    free(network->read);
    free(network->logits);
    free(network);
}

/* ---- running ---- */

void mlp_network_stage(mlp_network *network, const float *inputs, int64_t rows) {
    const size_t count = (size_t)(rows * network->inputs);
    const size_t all = (size_t)(network->batch * network->inputs);
    for (size_t i = 0; i < count; i++)
        tdm_number_set(network->dtype, network->staged, i, (double)inputs[i]);
    memset((char *)network->staged + count * network->element_bytes, 0,
           (all - count) * network->element_bytes);
}

tdm_status mlp_network_upload(mlp_network *network) {
    const size_t bytes = (size_t)(network->batch * network->inputs) * network->element_bytes;
    return tdm_tensor_write_async(network->stream, network->staged, bytes, NULL, network->input);
}

tdm_status mlp_network_forward(mlp_network *network) {
    const tdm_tensor *x = network->input;
    if (network->codes) {
        TRY(tdm_tensor_quantize(network->stream, network->input, network->codes));
        x = network->codes;
    }
    for (int i = 0; i < network->layer_count; i++) {
        const network_layer *const layer = &network->layers[i];
        tdm_gemm_args args = TDM_GEMM_ARGS_INIT;
        args.a = x;
        args.packed_b = layer->weight;
        args.bias = layer->bias;
        args.d = layer->output;
        args.workspace = network->workspace;
        TRY(tdm_gemm_plan_run(layer->plan, network->stream, &args));
        x = layer->output;
    }
    return TDM_OK;
}

tdm_status mlp_network_read(mlp_network *network) {
    const size_t bytes = (size_t)(network->batch * network->outputs) * network->element_bytes;
    return tdm_tensor_read(network->stream, network->layers[network->layer_count - 1].output,
                           network->read, bytes, NULL);
}

const float *mlp_network_logits(mlp_network *network) {
    const size_t count = (size_t)(network->batch * network->outputs);
    for (size_t i = 0; i < count; i++)
        network->logits[i] = (float)tdm_number_get(network->dtype, network->read, i);
    return network->logits;
}

uint64_t mlp_network_weight_bytes(const mlp_network *network) {
    return network->weight_bytes;
}

const char *mlp_network_variants(const mlp_network *network) {
    return network->variants;
}
