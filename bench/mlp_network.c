#include "bench/mlp_network.h"

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
    tdm_tensor *bias; /* NULL when the layer has none */
    tdm_tensor *output;
} network_layer;

struct mlp_network {
    tdm_device *device; /* owned by the caller, as the stream is */
    tdm_stream *stream;
    tdm_dtype dtype;
    size_t element_bytes;
    int64_t batch;
    int64_t inputs;
    int64_t outputs;
    tdm_tensor *input;
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

/* f32 values in the dtype; the values themselves where that is f32. *owned is to be freed. */
static const void *in_dtype(tdm_dtype dtype, const float *values, size_t count, void **owned) {
    *owned = NULL;
    if (dtype == TDM_F32)
        return values;
    uint16_t *const halves = malloc(count * sizeof *halves);
    *owned = halves;
    for (size_t i = 0; halves && i < count; i++)
        halves[i] = dtype == TDM_F16 ? tdm_f16_from_f32(values[i]) : tdm_bf16_from_f32(values[i]);
    return halves;
}

/* A tensor on the device with these values; waits for the copy. */
static tdm_status upload_values(const mlp_network *network, int rank, const int64_t *shape,
                                const float *values, tdm_tensor **tensor) {
    TRY(tdm_tensor_create(network->device, network->dtype, rank, shape, tensor));
    const size_t count = (size_t)tdm_tensor_elements(*tensor);
    void *owned;
    const void *const stored = in_dtype(network->dtype, values, count, &owned);
    const tdm_status status = stored ? tdm_copy_from_host(network->stream, *tensor, stored,
                                                          count * network->element_bytes, NULL)
                                     : TDM_OUT_OF_HOST_MEMORY;
    free(owned);
    return status;
}

/* ---- building ---- */

static tdm_status plan_layer(mlp_network *network, const mlp_layer *source,
                             tdm_activation activation, network_layer *layer) {
    const tdm_dtype dtype = network->dtype;
    const int64_t a[2] = {network->batch, source->inputs};
    const int64_t b[2] = {source->outputs, source->inputs};
    const int64_t d[2] = {network->batch, source->outputs};
    tdm_gemm_desc desc = TDM_GEMM_DESC_INIT;
    TRY(tdm_layout_contiguous(dtype, 2, a, &desc.a));
    TRY(tdm_layout_contiguous(dtype, 2, b, &desc.b));
    TRY(tdm_layout_contiguous(dtype, 2, d, &desc.d));
    if (source->bias)
        TRY(tdm_layout_contiguous(dtype, 1, &source->outputs, &desc.bias));
    desc.transpose_b = 1;
    desc.activation = activation;
    desc.packed_b = 1;
    TRY(tdm_gemm_plan_create(network->device, &desc, &layer->plan));
    TRY(tdm_tensor_create(network->device, dtype, 2, d, &layer->output));
    size_t workspace;
    TRY(tdm_gemm_plan_workspace_size(layer->plan, &workspace));
    if (workspace > network->workspace_bytes)
        network->workspace_bytes = workspace;
    return TDM_OK;
}

static tdm_status load_layer(mlp_network *network, const mlp_layer *source, network_layer *layer) {
    const int64_t shape[2] = {source->outputs, source->inputs};
    tdm_tensor *weight = NULL;
    tdm_status status = upload_values(network, 2, shape, source->weight, &weight);
    if (status == TDM_OK)
        status = tdm_gemm_pack_b(layer->plan, network->stream, weight, &layer->weight);
    tdm_tensor_destroy(weight); /* goes back to the pool when the packing is done */
    TRY(status);
    network->weight_bytes += tdm_packed_bytes(layer->weight);
    if (!source->bias)
        return TDM_OK;
    network->weight_bytes += (uint64_t)source->outputs * network->element_bytes;
    return upload_values(network, 1, &source->outputs, source->bias, &layer->bias);
}

static void note_variant(mlp_network *network, const char *name) {
    const size_t length = strlen(network->variants);
    if (strstr(network->variants, name))
        return;
    snprintf(network->variants + length, sizeof network->variants - length, "%s%s",
             length > 0 ? "+" : "", name);
}

static tdm_status build(mlp_network *network, const mlp_model *model) {
    const int64_t input[2] = {network->batch, network->inputs};
    TRY(tdm_tensor_create(network->device, network->dtype, 2, input, &network->input));
    for (int i = 0; i < model->layer_count; i++) {
        network_layer *const layer = &network->layers[network->layer_count++];
        const int last = i + 1 == model->layer_count;
        TRY(plan_layer(network, &model->layers[i], last ? TDM_ACT_NONE : model->activation, layer));
        TRY(load_layer(network, &model->layers[i], layer));
        note_variant(network, tdm_gemm_plan_variant(layer->plan));
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
                              tdm_dtype dtype, int64_t batch, mlp_network **network) {
    *network = NULL;
    mlp_network *const made = calloc(1, sizeof *made);
    if (!made)
        return TDM_OUT_OF_HOST_MEMORY;
    made->device = device;
    made->stream = stream;
    made->dtype = dtype;
    made->element_bytes = dtype == TDM_F32 ? sizeof(float) : sizeof(uint16_t);
    made->batch = batch;
    made->inputs = mlp_model_inputs(model);
    made->outputs = mlp_model_outputs(model);
    tdm_status status = allocate_host(made);
    if (status == TDM_OK)
        status = build(made, model);
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
    for (int i = 0; i < network->layer_count; i++) {
        tdm_tensor_destroy(network->layers[i].output);
        tdm_tensor_destroy(network->layers[i].bias);
        tdm_packed_destroy(network->layers[i].weight);
        tdm_gemm_plan_destroy(network->layers[i].plan);
    }
    tdm_buffer_destroy(network->workspace);
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
    return tdm_copy_from_host_async(network->stream, network->input, network->staged, bytes, NULL);
}

tdm_status mlp_network_forward(mlp_network *network) {
    const tdm_tensor *x = network->input;
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
    return tdm_copy_to_host(network->stream, network->layers[network->layer_count - 1].output,
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
