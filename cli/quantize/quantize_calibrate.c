#include "cli/quantize/quantize_calibrate.h"

#include <stdlib.h>
#include <string.h>

#include "quant/quant_reference.h"

enum {
    SLAB_ELEMENTS = 1 << 19
};

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Rows of a matrix's inputs; what goes into other weights need only have a dimension. */
static int check_width(const quantize_tensor *batch, const quantize_layer *layer,
                       file_error *error) {
    const file_name name = file_printable(batch->name);
    const quantize_tensor *const weight = layer->weight;
    if (batch->rank == 0)
        return file_fail(error,
                         "activations \"%s\" are a scalar, no rows of inputs of layer \"%s\"",
                         name.text, file_printable(layer->name).text);
    const int64_t width = batch->shape[batch->rank - 1];
    if (weight->rank == 2 && width != weight->shape[1 - layer->axis])
        return file_fail(error,
                         "activations \"%s\" have rows of %lld, but layer \"%s\" has %lld inputs",
                         name.text, (long long)width, file_printable(layer->name).text,
                         (long long)weight->shape[1 - layer->axis]);
    return 0;
}

int quantize_input_check(const quantize_activations *activations, const quantize_layer *layer,
                         file_error *error) {
    size_t count;
    const quantize_batch *const batches = quantize_activations_of(activations, layer->name, &count);
    for (size_t i = 0; i < count; i++) {
        const quantize_tensor *const tensor = batches[i].tensor;
        const tdm_dtype dtype = quantize_float_dtype(tensor);
        if (tensor->storage != QUANTIZE_PLAIN || dtype == TDM_DTYPE_NONE || dtype == TDM_F64)
            return file_fail(error, "activations \"%s\" are of type %s, not F32, F16 or BF16",
                             file_printable(tensor->name).text, quantize_storage_name(tensor));
        if (check_width(tensor, layer, error))
            return -1;
    }
    return 0;
}

/* In parts, of which each leaves memory before the next; a moving average is one of whole batches all the same. */
static int observe_batch(tdm_quant_observer *observer, const quantize_tensor *batch,
                         file_error *error) {
    const int64_t total = quantize_element_count(batch);
    for (int64_t first = 0; first < total; first += SLAB_ELEMENTS) {
        const int64_t count = least(SLAB_ELEMENTS, total - first);
        const unsigned char *const data =
            (const unsigned char *)batch->data + quantize_storage_bytes(batch, first);
        tdm_quant_observe_part(observer, 1, first, quantize_float_dtype(batch), data, count);
        quantize_release(batch, first, count);
    }
    tdm_quant_observe_end(observer);
    const tdm_quant_seen seen = tdm_quant_observer_seen(observer);
    if (seen.nans + seen.infinities > 0)
        return file_fail(error, "activations \"%s\" have %llu numbers that are not finite",
                         file_printable(batch->name).text,
                         (unsigned long long)(seen.nans + seen.infinities));
    return 0;
}

static int check_seen(const tdm_quant_observer *observer, const quantize_layer *layer,
                      file_error *error) {
    if (tdm_quant_observer_seen(observer).numbers > 0)
        return 0;
    return file_fail(error, "the activations of layer \"%s\" hold no number",
                     file_printable(layer->name).text);
}

int quantize_input_observe(const quantize_activations *activations, const quantize_layer *layer,
                           const tdm_quant_observer_options *options, tdm_dtype dtype,
                           quantize_input *input, file_error *error) {
    const tdm_quant_scheme *const rules =
        tdm_quant_scheme_info(dtype == TDM_U8 ? TDM_QUANT_U8_ACTIVATION : TDM_QUANT_S8_ACTIVATION);
    tdm_quant_reason reason;
    tdm_quant_observer *observer;
    memset(input, 0, sizeof *input);
    const quantize_batch *const batches =
        quantize_activations_of(activations, layer->name, &input->batch_count);
    const size_t bytes = tdm_quant_observer_bytes(options);
    void *const memory = malloc(bytes + 1);
    if (!memory)
        return file_fail(error, "out of memory for an observer of %zu bytes", bytes);
    int result = 0;
    if (tdm_quant_observer_init(options, memory, bytes, &observer, &reason))
        result = file_fail(error, "%s", reason.text);
    for (size_t i = 0; result == 0 && i < input->batch_count; i++)
        result = observe_batch(observer, batches[i].tensor, error);
    if (result == 0)
        result = check_seen(observer, layer, error);
    if (result == 0)
        input->parameters =
            tdm_quant_observer_parameters(observer, 0, rules->symmetry, rules->range);
    free(memory);
    return result;
}
