/* Tandem's own worker for the quant suite. */
#include <stdlib.h>

#include "bench/cases/quant_case.h"
#include "bench/workers/mix_run.h"
#include "bench/workers/worker_tandem.h"
#include "common/random_fill.h"

typedef struct quant_state {
    worker_device device; /* first, for worker_tandem.h */
    quant_case item;
    tdm_tensor *source;
    tdm_tensor *target;
    tdm_tensor *like; /* of fake_quantize */
    tdm_tensor *mask; /* of fake_quantize, where it writes one */
    mix_run mix;      /* of the traffic alone */
} quant_state;

static void release(void *state) {
    quant_state *const own = state;
    if (own->device.stream != NULL)
        tdm_stream_synchronize(own->device.stream);
    tdm_tensor_destroy(own->source);
    tdm_tensor_destroy(own->target);
    tdm_tensor_destroy(own->like);
    tdm_tensor_destroy(own->mask);
    mix_run_release(&own->mix);
    *own = (quant_state){.device = own->device};
}

/* A tensor with this content (NULL: zeros, so that its pages are there before anything is timed). */
static tdm_status create_plain(const quant_state *own, tdm_dtype dtype, int rank,
                               const int64_t *shape, const void *content, size_t bytes,
                               tdm_tensor **tensor) {
    tdm_status status = tdm_tensor_create(own->device.device, dtype, rank, shape, tensor);
    void *const zeros = content == NULL ? calloc(1, bytes) : NULL;
    if (status == TDM_OK && content == NULL && zeros == NULL)
        status = TDM_OUT_OF_HOST_MEMORY;
    if (status == TDM_OK)
        status =
            tdm_tensor_write(own->device.stream, content ? content : zeros, bytes, NULL, *tensor);
    free(zeros);
    return status;
}

/* Parameters of the case, as tensors. */
static tdm_status create_parameters(const quant_state *own, tdm_tensor **scale, tdm_tensor **zero) {
    const tdm_quant_spec spec = quant_case_spec(&own->item);
    int64_t shape[TDM_QUANT_MAX_RANK];
    float *const scales = quant_case_scales(&own->item);
    tdm_status status = scales == NULL ? TDM_OUT_OF_HOST_MEMORY : TDM_OK;
    tdm_quant_scale_shape(&spec, shape);
    if (status == TDM_OK)
        status = create_plain(own, TDM_F32, spec.rank, shape, scales,
                              (size_t)tdm_quant_scale_count(&spec) * sizeof *scales, scale);
    free(scales);
    if (status != TDM_OK || !quant_case_has_zero(&own->item))
        return status;
    int32_t *const zeros = quant_case_zeros(&own->item);
    status = zeros == NULL ? TDM_OUT_OF_HOST_MEMORY
                           : tdm_tensor_create(own->device.device, TDM_U8, spec.rank, shape, zero);
    if (status == TDM_OK)
        status = tdm_tensor_fill(own->device.stream, (double)zeros[0], *zero);
    free(zeros);
    return status;
}

static tdm_status carry(const quant_state *own, tdm_tensor **codes) {
    const tdm_quant_spec spec = quant_case_spec(&own->item);
    tdm_quantization quantization = TDM_QUANTIZATION_INIT;
    tdm_tensor *scale = NULL, *zero = NULL, *carrier = NULL;
    tdm_status status = create_parameters(own, &scale, &zero);
    quantization.block[0] = spec.blocks[0];
    quantization.block[1] = spec.blocks[1];
    quantization.scale = scale;
    quantization.zero_point = zero;
    if (status == TDM_OK)
        status = tdm_tensor_quantized(*codes, &quantization, &carrier);
    tdm_tensor_destroy(scale);
    tdm_tensor_destroy(zero);
    if (status != TDM_OK)
        return status;
    tdm_tensor_destroy(*codes);
    *codes = carrier;
    return TDM_OK;
}

static tdm_status create_copy(quant_state *own) {
    const size_t bytes = quant_case_output_bytes(&own->item);
    const int64_t shape[] = {(int64_t)(bytes / sizeof(float))};
    unsigned char *const content = malloc(bytes);
    if (content == NULL)
        return TDM_OUT_OF_HOST_MEMORY;
    random_fill_bytes(own->item.seed, content, bytes);
    tdm_status status = create_plain(own, TDM_F32, 1, shape, content, bytes, &own->source);
    free(content);
    if (status == TDM_OK)
        status = create_plain(own, TDM_F32, 1, shape, NULL, bytes, &own->target);
    return status;
}

/* Sums with one scale, and codes for them. */
static tdm_status create_sums(quant_state *own) {
    const int64_t shape[] = {own->item.rows, own->item.columns}, one[] = {1, 1};
    const size_t bytes = quant_case_real_bytes(&own->item);
    tdm_quantization quantization = TDM_QUANTIZATION_INIT;
    tdm_tensor *scale = NULL, *sums = NULL;
    int32_t *const content = quant_case_sums(&own->item);
    tdm_status status = content == NULL ? TDM_OUT_OF_HOST_MEMORY : TDM_OK;
    if (status == TDM_OK)
        status = create_plain(own, TDM_S32, 2, shape, content, bytes, &sums);
    free(content);
    if (status == TDM_OK)
        status = tdm_tensor_create(own->device.device, TDM_F32, 2, one, &scale);
    if (status == TDM_OK)
        status = tdm_tensor_fill(own->device.stream, (double)QUANT_CASE_SUM_SCALE, scale);
    quantization.scale = scale;
    if (status == TDM_OK)
        status = tdm_tensor_quantized(sums, &quantization, &own->source);
    tdm_tensor_destroy(scale);
    tdm_tensor_destroy(sums);
    if (status == TDM_OK)
        status = create_plain(own, own->item.codes, 2, shape, NULL,
                              quant_case_code_bytes(&own->item), &own->target);
    return status == TDM_OK ? carry(own, &own->target) : status;
}

/* Reals, room for others and a mask, and codes whose parameters count. */
static tdm_status create_fake(quant_state *own) {
    const int64_t shape[] = {own->item.rows, own->item.columns};
    const size_t bytes = quant_case_real_bytes(&own->item);
    void *const reals = quant_case_reals(&own->item);
    tdm_status status = reals == NULL ? TDM_OUT_OF_HOST_MEMORY : TDM_OK;
    if (status == TDM_OK)
        status = create_plain(own, own->item.real, 2, shape, reals, bytes, &own->source);
    free(reals);
    if (status == TDM_OK)
        status = create_plain(own, own->item.real, 2, shape, NULL, bytes, &own->target);
    if (status == TDM_OK && own->item.operation == QUANT_MASK)
        status = create_plain(own, TDM_U8, 2, shape, NULL, quant_case_mask_bytes(&own->item),
                              &own->mask);
    if (status == TDM_OK)
        status = tdm_tensor_create(own->device.device, own->item.codes, 2, shape, &own->like);
    return status == TDM_OK ? carry(own, &own->like) : status;
}

static tdm_status create_case(quant_state *own) {
    if (own->item.operation == QUANT_COPY)
        return create_copy(own);
    if (own->item.operation == QUANT_STREAM)
        return mix_run_create(own->device.device, own->device.stream, &own->item, &own->mix);
    if (own->item.operation == QUANT_REQUANTIZE)
        return create_sums(own);
    if (own->item.operation == QUANT_FAKE || own->item.operation == QUANT_MASK)
        return create_fake(own);
    const quant_case *const item = &own->item;
    const int64_t shape[] = {item->rows, item->columns};
    const int to_reals = item->operation == QUANT_DEQUANTIZE || item->operation == QUANT_WIDEN ||
                         item->operation == QUANT_UNPACK;
    void *const reals = to_reals ? NULL : quant_case_reals(item);
    void *const codes = to_reals ? quant_case_codes(item) : NULL;
    tdm_tensor **const real = to_reals ? &own->target : &own->source;
    tdm_tensor **const code = to_reals ? &own->source : &own->target;
    tdm_status status = reals == NULL && codes == NULL ? TDM_OUT_OF_HOST_MEMORY : TDM_OK;
    if (status == TDM_OK)
        status = create_plain(own, item->real, 2, shape, reals, quant_case_real_bytes(item), real);
    if (status == TDM_OK)
        status = create_plain(own, item->codes, 2, shape, codes, quant_case_code_bytes(item), code);
    if (status == TDM_OK && quant_case_has_blocks(item))
        status = carry(own, code);
    free(reals);
    free(codes);
    return status;
}

static worker_answer describe(void *state, const char *request, worker_text *reply) {
    quant_state *const own = state;
    if (quant_case_from_line(request, &own->item) != 0) {
        worker_text_set(reply, "the case cannot be read");
        return WORKER_FAIL;
    }
    const worker_answer answer = worker_device_open(&own->device, request, reply);
    if (answer != WORKER_OK)
        return answer;
    return worker_library_answer("tensors", create_case(own), reply);
}

static tdm_status enqueue_operation(const quant_state *own) {
    tdm_stream *const stream = own->device.stream;
    switch (own->item.operation) {
    case QUANT_COPY:
        return tdm_tensor_copy(stream, own->source, own->target);
    case QUANT_QUANTIZE:
        return tdm_tensor_quantize(stream, own->source, own->target);
    case QUANT_DYNAMIC:
        return tdm_tensor_quantize_minmax(stream, own->source, own->target);
    case QUANT_DEQUANTIZE:
        return tdm_tensor_dequantize(stream, own->source, own->target);
    case QUANT_CONVERT:
    case QUANT_WIDEN:
    case QUANT_PACK:
    case QUANT_UNPACK:
        return tdm_tensor_convert(stream, own->source, own->target);
    case QUANT_FAKE:
    case QUANT_MASK:
        return tdm_tensor_fake_quantize(stream, own->source, own->like, own->target, own->mask);
    case QUANT_REQUANTIZE:
        return tdm_tensor_requantize(stream, own->source, own->target);
    case QUANT_STREAM:
        return mix_run_enqueue(&own->mix, stream);
    }
    return TDM_INTERNAL;
}

static worker_answer enqueue(void *state, worker_text *reply) {
    return worker_library_answer("run", enqueue_operation(state), reply);
}

static size_t bytes_of(const tdm_tensor *tensor) {
    return tensor != NULL ? tdm_buffer_size(tdm_tensor_buffer(tensor)) : 0;
}

static size_t output_bytes(void *state) {
    const quant_state *const own = state;
    return own->item.operation == QUANT_STREAM ? mix_run_output_bytes(&own->mix)
                                               : bytes_of(own->target) + bytes_of(own->mask);
}

static worker_answer output(void *state, void *bytes, worker_text *reply) {
    const quant_state *const own = state;
    const size_t target_bytes = bytes_of(own->target);
    if (own->item.operation == QUANT_STREAM)
        return worker_library_answer("read", mix_run_output(&own->mix, own->device.stream, bytes),
                                     reply);
    tdm_status status = tdm_tensor_read(own->device.stream, own->target, bytes, target_bytes, NULL);
    if (status == TDM_OK && own->mask != NULL)
        status = tdm_tensor_read(own->device.stream, own->mask,
                                 (unsigned char *)bytes + target_bytes, bytes_of(own->mask), NULL);
    return worker_library_answer("read", status, reply);
}

int worker_tandem_quant(void) {
    static const worker_implementation tandem = {
        .name = "tandem",
        .describe = describe,
        .enqueue = enqueue,
        .wait = worker_device_wait,
        .output_bytes = output_bytes,
        .output = output,
        .release = release,
    };
    quant_state state = {.source = NULL};
    return worker_device_serve(&tandem, &state);
}
