#include "cli/quantize/quantize_plan.h"

#include <stdio.h>
#include <stdlib.h>

#include "quant/quant_reference.h"

enum {
    SLAB_ELEMENTS = 1 << 19,
    MAX_NAME = 2048
};

/* Returns the next of LAYER, LAYER.input, LAYER.input.0, LAYER.input.1, …, or NULL at the end. */
static const quantize_tensor *next_batch(const quantize_source *activations, const char *layer,
                                         int *position) {
    const quantize_tensor *found = NULL;
    while (!found) {
        char name[MAX_NAME];
        const int number = (*position)++ - 2;
        if (number < 0)
            snprintf(name, sizeof name, "%s%s", layer, number == -2 ? "" : ".input");
        else
            snprintf(name, sizeof name, "%s.input.%d", layer, number);
        found = quantize_source_find(activations, name);
        if (!found && number >= 0)
            break;
    }
    return found;
}

int quantize_input_exists(const quantize_source *activations, const char *layer) {
    int position = 0;
    return next_batch(activations, layer, &position) != NULL;
}

/*
 * Checks the dtype and shape of a batch. Batches for a matrix have rows of its input width; other
 * batches need at least one dimension.
 */
static int check_batch(const quantize_tensor *batch, const quantize_tensor *weight,
                       file_error *error) {
    const file_name name = file_printable(batch->name);
    const tdm_dtype dtype = quantize_float_dtype(batch);
    if (batch->storage != QUANTIZE_PLAIN || dtype == TDM_DTYPE_NONE || dtype == TDM_F64)
        return file_fail(error, "activations \"%s\" are of type %s, not F32, F16 or BF16",
                         name.text, quantize_storage_name(batch));
    const int64_t width = batch->rank > 0 ? batch->shape[batch->rank - 1] : 0;
    if (batch->rank == 0 || (weight->rank == 2 && width != weight->shape[1]))
        return file_fail(error, "activations \"%s\" have rows of %lld, but \"%s\" has %lld inputs",
                         name.text, (long long)width, file_printable(weight->name).text,
                         (long long)weight->shape[weight->rank - 1]);
    return 0;
}

/*
 * Observes a batch in parts, and releases each part from memory before the next. A moving average
 * still counts whole batches.
 */
static int observe_batch(tdm_quant_observer *observer, const quantize_tensor *batch,
                         file_error *error) {
    const int64_t total = quantize_element_count(batch);
    for (int64_t first = 0; first < total; first += SLAB_ELEMENTS) {
        const int64_t count = total - first < SLAB_ELEMENTS ? total - first : SLAB_ELEMENTS;
        const unsigned char *const data =
            (const unsigned char *)batch->data + quantize_storage_bytes(batch, first);
        tdm_quant_observe_part(observer, 1, first, quantize_float_dtype(batch), data, count);
        quantize_release(batch, first, count);
    }
    tdm_quant_observe_end(observer);
    const tdm_quant_seen seen = tdm_quant_observer_seen(observer);
    if (seen.nans + seen.infinities > 0)
        return file_fail(error, "activations \"%s\" have %llu values that are not finite",
                         file_printable(batch->name).text,
                         (unsigned long long)(seen.nans + seen.infinities));
    return 0;
}

int quantize_input_observe(const quantize_source *activations, const char *layer,
                           const quantize_tensor *weight, tdm_quant_observer_kind kind,
                           tdm_quant_parameters *parameters, file_error *error) {
    const tdm_quant_scheme *const rules = tdm_quant_scheme_info(TDM_QUANT_U8_ACTIVATION);
    const tdm_quant_observer_options options = {.kind = kind, .channels = 1, .inner = 1};
    tdm_quant_reason reason;
    tdm_quant_observer *observer;
    int position = 0;
    int result = 0;
    const size_t bytes = tdm_quant_observer_bytes(&options);
    void *const memory = malloc(bytes + 1);
    if (!memory)
        return file_fail(error, "out of memory for an observer of %zu bytes", bytes);
    if (tdm_quant_observer_init(&options, memory, bytes, &observer, &reason))
        result = file_fail(error, "%s", reason.text);
    for (const quantize_tensor *batch; result == 0;) {
        batch = next_batch(activations, layer, &position);
        if (!batch)
            break;
        result =
            check_batch(batch, weight, error) || observe_batch(observer, batch, error) ? -1 : 0;
    }
    if (result == 0 && tdm_quant_observer_seen(observer).numbers == 0)
        result = file_fail(error, "the activations of layer \"%s\" contain no values",
                           file_printable(layer).text);
    if (result == 0)
        *parameters = tdm_quant_observer_parameters(observer, 0, rules->symmetry, rules->range);
    free(memory);
    return result;
}
