/* This is the worker of the quant suite that runs the cases with Tandem. */
#include <stdlib.h>

#include "bench/cases/quant_case.h"
#include "bench/workers/mix_run.h"
#include "bench/workers/worker_tandem.h"

typedef struct quant_state {
    worker_device device; /* the first member, which worker_tandem.h expects */
    quant_case item;
    tdm_tensor *source;
    tdm_tensor *target;
    tdm_tensor *like; /* dtype, blocks and parameters for fake_quantize */
    tdm_tensor *mask; /* the mask of fake_quantize, if it writes one */
    mix_run mix;      /* QUANT_STREAM only */
} quant_state;

static int read_case(void *state, const char *request) {
    return quant_case_from_line(request, &((quant_state *)state)->item);
}

static void release(void *state) {
    quant_state *const own = state;
    tdm_tensor_destroy(own->source);
    tdm_tensor_destroy(own->target);
    tdm_tensor_destroy(own->like);
    tdm_tensor_destroy(own->mask);
    mix_run_release(&own->mix);
}

/* Replaces a stored tensor by a quantized tensor with the parameters of the case. */
static tdm_status add_parameters(const quant_state *own, tdm_tensor **codes) {
    const tdm_quant_spec spec = quant_case_spec(&own->item);
    tdm_quantization parameters = TDM_QUANTIZATION_INIT;
    tdm_tensor *scale = NULL, *zero = NULL;
    int64_t shape[TDM_QUANT_MAX_RANK];
    float *const scales = quant_case_scales(&own->item);
    if (scales == NULL)
        return TDM_OUT_OF_HOST_MEMORY;
    tdm_quant_scale_shape(&spec, shape);
    parameters.block[0] = spec.blocks[0];
    parameters.block[1] = spec.blocks[1];
    tdm_status status =
        worker_tensor_create(&own->device, TDM_F32, spec.rank, shape, scales,
                             (size_t)tdm_quant_scale_count(&spec) * sizeof *scales, &scale);
    free(scales);
    if (status == TDM_OK && quant_case_has_zero(&own->item)) {
        status = tdm_tensor_create(own->device.device, TDM_U8, spec.rank, shape, &zero);
        if (status == TDM_OK)
            status = tdm_tensor_fill(own->device.stream, QUANT_ZERO_POINT, zero);
    }
    if (status == TDM_OK)
        return worker_tensor_quantize(&parameters, scale, zero, codes);
    tdm_tensor_destroy(scale);
    tdm_tensor_destroy(zero);
    return status;
}

/* Replaces the tensor of s32 sums by a quantized tensor with one scale for all sums. */
static tdm_status add_sum_scale(const quant_state *own, tdm_tensor **sums) {
    const int64_t one[] = {1, 1};
    const float value = QUANT_CASE_SUM_SCALE;
    tdm_quantization parameters = TDM_QUANTIZATION_INIT;
    tdm_tensor *scale = NULL;
    const tdm_status status =
        worker_tensor_create(&own->device, TDM_F32, 2, one, &value, sizeof value, &scale);
    if (status == TDM_OK)
        return worker_tensor_quantize(&parameters, scale, NULL, sums);
    tdm_tensor_destroy(scale);
    return status;
}

static tdm_status create_source(quant_state *own, const int64_t *shape) {
    void *const content = quant_case_source(&own->item);
    if (content == NULL)
        return TDM_OUT_OF_HOST_MEMORY;
    const tdm_status status =
        worker_tensor_create(&own->device, quant_case_source_dtype(&own->item), 2, shape, content,
                             quant_case_source_bytes(&own->item), &own->source);
    free(content);
    return status;
}

static tdm_status prepare(void *state, const char *request, worker_text *reply) {
    quant_state *const own = state;
    const quant_case *const item = &own->item;
    const int fakes = item->operation == QUANT_FAKE || item->operation == QUANT_MASK;
    const int64_t shape[] = {item->rows, item->columns};
    (void)request;
    (void)reply;
    if (item->operation == QUANT_STREAM)
        return mix_run_create(own->device.device, own->device.stream, item, &own->mix);
    TDM_TRY(create_source(own, shape));
    TDM_TRY(worker_tensor_create(&own->device, quant_case_target_dtype(item), 2, shape, NULL,
                                 quant_case_target_bytes(item), &own->target));
    if (item->operation == QUANT_MASK)
        TDM_TRY(worker_tensor_create(&own->device, TDM_U8, 2, shape, NULL,
                                     quant_case_mask_bytes(item), &own->mask));
    if (fakes)
        TDM_TRY(tdm_tensor_create(own->device.device, item->codes, 2, shape, &own->like));
    if (item->operation == QUANT_REQUANTIZE)
        TDM_TRY(add_sum_scale(own, &own->source));
    if (!quant_case_has_blocks(item))
        return TDM_OK;
    return add_parameters(own, fakes                                 ? &own->like
                               : item->operation == QUANT_DEQUANTIZE ? &own->source
                                                                     : &own->target);
}

static tdm_status enqueue(void *state) {
    const quant_state *const own = state;
    tdm_stream *const stream = own->device.stream;
    switch (own->item.operation) {
    case QUANT_QUANTIZE:
        return tdm_tensor_quantize(stream, own->source, own->target);
    case QUANT_DYNAMIC:
        return tdm_tensor_quantize_minmax(stream, own->source, own->target);
    case QUANT_DEQUANTIZE:
        return tdm_tensor_dequantize(stream, own->source, own->target);
    case QUANT_FAKE:
    case QUANT_MASK:
        return tdm_tensor_fake_quantize(stream, own->source, own->like, own->target, own->mask);
    case QUANT_REQUANTIZE:
        return tdm_tensor_requantize(stream, own->source, own->target);
    case QUANT_STREAM:
        return mix_run_enqueue(&own->mix, stream);
    default:
        return tdm_tensor_convert(stream, own->source, own->target);
    }
}

static size_t output_bytes(const void *state) {
    const quant_state *const own = state;
    return own->item.operation == QUANT_STREAM
               ? mix_run_output_bytes(&own->mix)
               : quant_case_target_bytes(&own->item) + quant_case_mask_bytes(&own->item);
}

static tdm_status output(void *state, void *bytes) {
    const quant_state *const own = state;
    const size_t target = quant_case_target_bytes(&own->item);
    if (own->item.operation == QUANT_STREAM)
        return mix_run_output(&own->mix, own->device.stream, bytes);
    TDM_TRY(tdm_tensor_read(own->device.stream, own->target, bytes, target, NULL));
    return own->mask == NULL
               ? TDM_OK
               : tdm_tensor_read(own->device.stream, own->mask, (unsigned char *)bytes + target,
                                 quant_case_mask_bytes(&own->item), NULL);
}

const tandem_worker worker_quant = {"tandem", sizeof(quant_state), read_case, prepare, enqueue,
                                    NULL,     output_bytes,        output,    release, NULL};
