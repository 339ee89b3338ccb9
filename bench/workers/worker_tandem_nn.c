/* This is the worker of the nn suite that runs the cases with Tandem. */
#include <stdlib.h>

#include "api/base/base.h"
#include "bench/cases/nn_case.h"
#include "bench/workers/worker_tandem.h"

typedef struct nn_state {
    worker_device device; /* the first member, which worker_tandem.h expects */
    nn_case item;
    tdm_tensor *tensors[NN_MAX_TENSORS]; /* inputs, and then the output */
    tdm_tensor *output;                  /* the last of them */
    size_t output_bytes;
} nn_state;

static int read_case(void *state, const char *request) {
    return nn_case_read(request, &((nn_state *)state)->item);
}

static void release(void *state) {
    nn_state *const own = state;
    for (int i = 0; i < NN_MAX_TENSORS; i++)
        tdm_tensor_destroy(own->tensors[i]);
}

/* Replaces a tensor of s8 by a quantized one. */
static tdm_status add_scales(const nn_state *own, const nn_tensor *of, tdm_tensor **tensor) {
    tdm_quantization parameters = TDM_QUANTIZATION_INIT;
    nn_tensor shape = *of;
    tdm_tensor *scale = NULL;
    float *const scales = nn_case_scales(of);
    if (scales == NULL)
        return TDM_OUT_OF_HOST_MEMORY;
    for (int i = 0; i < of->rank; i++)
        parameters.block[i] = i == of->rank - 1 ? NN_GROUP : 1;
    shape.dtype = TDM_F32;
    shape.shape[of->rank - 1] /= NN_GROUP;
    const tdm_status status = worker_tensor_create(&own->device, TDM_F32, shape.rank, shape.shape,
                                                   scales, nn_tensor_bytes(&shape), &scale);
    free(scales);
    if (status == TDM_OK)
        return worker_tensor_quantize(&parameters, scale, NULL, tensor);
    tdm_tensor_destroy(scale);
    return status;
}

static tdm_status create(nn_state *own, const nn_tensor *of, int number) {
    void *const content = nn_case_content(&own->item, number);
    if (content == NULL)
        return TDM_OUT_OF_HOST_MEMORY;
    const tdm_status status =
        worker_tensor_create(&own->device, of->dtype, of->rank, of->shape, content,
                             nn_tensor_bytes(of), &own->tensors[number]);
    free(content);
    return status == TDM_OK && of->dtype == TDM_S8 ? add_scales(own, of, &own->tensors[number])
                                                   : status;
}

static tdm_status prepare(void *state, const char *request, worker_text *reply) {
    nn_state *const own = state;
    nn_tensor tensors[NN_MAX_TENSORS];
    const int count = nn_case_tensors(&own->item, tensors);
    const tdm_rope_desc rope = TDM_ROPE_DESC_INIT;
    (void)request;
    (void)reply;
    for (int i = 0; i < count; i++)
        TDM_TRY(create(own, &tensors[i], i));
    own->output = own->tensors[count - 1];
    own->output_bytes = nn_tensor_bytes(&tensors[count - 1]);
    return own->item.operation == NN_ROPE
               ? tdm_rope_frequencies(own->device.stream, &rope, own->tensors[2])
               : TDM_OK;
}

static tdm_status normalize(const nn_state *own, tdm_norm_kind kind) {
    tdm_norm_operands operands = TDM_NORM_OPERANDS_INIT;
    operands.scale = own->tensors[1];
    return tdm_norm(own->device.stream, kind, own->tensors[0], 1e-5f, &operands, own->output);
}

static tdm_status enqueue(void *state) {
    const nn_state *const own = state;
    tdm_stream *const stream = own->device.stream;
    tdm_tensor *const *const in = own->tensors;
    tdm_attention_options causal = TDM_ATTENTION_OPTIONS_INIT;
    switch (own->item.operation) {
    case NN_PREFILL:
        causal.causal = 1;
        return tdm_attention(stream, in[0], in[1], in[2], &causal, own->output);
    case NN_DECODE:
        return tdm_attention(stream, in[0], in[1], in[2], NULL, own->output);
    case NN_RMS:
        return normalize(own, TDM_NORM_RMS);
    case NN_LAYER:
        return normalize(own, TDM_NORM_LAYER);
    case NN_GATHER:
    case NN_EMBED:
        return tdm_gather(stream, in[0], 0, in[1], own->output);
    case NN_SCATTER:
        return tdm_scatter(stream, in[0], 0, in[1], own->output);
    case NN_ROPE:
        return tdm_rope(stream, TDM_ROPE_HALVES, in[0], in[1], in[2], own->output);
    case NN_SOFTMAX:
        return tdm_softmax(stream, in[0], 1, own->output);
    case NN_WHERE:
        return tdm_where(stream, in[0], in[1], in[2], own->output);
    case NN_COMPARE:
        return tdm_compare(stream, TDM_LESS, in[0], in[1], own->output);
    default:
        return tdm_concat(stream, (const tdm_tensor *const *)in, 2, 1, own->output);
    }
}

static size_t output_bytes(const void *state) {
    return ((const nn_state *)state)->output_bytes;
}

static tdm_status output(void *state, void *bytes) {
    const nn_state *const own = state;
    return tdm_tensor_read(own->device.stream, own->output, bytes, own->output_bytes, NULL);
}

const tandem_worker worker_nn = {"tandem", sizeof(nn_state), read_case, prepare, enqueue,
                                 NULL,     output_bytes,     output,    release, NULL};
