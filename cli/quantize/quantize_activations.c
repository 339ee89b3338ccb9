#include "cli/quantize/quantize_activations.h"

#include <stdlib.h>
#include <string.h>

/* Length of the name of the layer that a tensor "<layer>.input" or "<layer>.input.<number>" goes into; 0 when it is none. */
static size_t layer_length(const char *name) {
    static const char input[] = ".input";
    const size_t tail = sizeof input - 1;
    size_t length = strlen(name);
    const char *const dot = strrchr(name, '.');
    if (dot && dot[1] != '\0' && strspn(dot + 1, "0123456789") == strlen(dot + 1))
        length = (size_t)(dot - name);
    return length > tail && !strncmp(name + length - tail, input, tail) ? length - tail : 0;
}

static int compare_layers(const char *a, size_t a_length, const char *b, size_t b_length) {
    const int order = memcmp(a, b, a_length < b_length ? a_length : b_length);
    return order != 0 ? order : (a_length > b_length) - (a_length < b_length);
}

static int compare_batches(const void *left, const void *right) {
    const quantize_batch *const a = left;
    const quantize_batch *const b = right;
    const int order = compare_layers(a->tensor->name, a->length, b->tensor->name, b->length);
    return order != 0 ? order : strverscmp(a->tensor->name, b->tensor->name);
}

static void add(quantize_activations *activations, const quantize_tensor *tensor, size_t length) {
    activations->batches[activations->count++] = (quantize_batch){tensor, length};
}

int quantize_activations_open(const char *path, quantize_activations *activations,
                              file_error *error) {
    memset(activations, 0, sizeof *activations);
    quantize_source *const source = &activations->source;
    if (quantize_source_open(path, source, error))
        return -1;
    activations->batches = calloc(2 * source->count + 1, sizeof *activations->batches);
    if (!activations->batches) {
        quantize_activations_close(activations);
        return file_fail(error, "out of memory for the activations of %s", path);
    }
    for (size_t i = 0; i < source->count; i++) {
        const quantize_tensor *const tensor = &source->tensors[i];
        const size_t length = layer_length(tensor->name);
        add(activations, tensor, strlen(tensor->name));
        if (length > 0)
            add(activations, tensor, length);
    }
    qsort(activations->batches, activations->count, sizeof *activations->batches, compare_batches);
    return 0;
}

void quantize_activations_close(quantize_activations *activations) {
    quantize_source_close(&activations->source);
    free(activations->batches);
    memset(activations, 0, sizeof *activations);
}

static int is_of(const quantize_batch *batch, const char *layer, size_t length) {
    return compare_layers(batch->tensor->name, batch->length, layer, length) == 0;
}

const quantize_batch *quantize_activations_of(const quantize_activations *activations,
                                              const char *layer, size_t *count) {
    const size_t length = strlen(layer);
    const quantize_batch *const batches = activations->batches;
    size_t low = 0;
    for (size_t high = activations->count; low < high;) {
        const size_t middle = low + (high - low) / 2;
        const quantize_batch *const batch = &batches[middle];
        if (compare_layers(batch->tensor->name, batch->length, layer, length) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    size_t end = low;
    while (end < activations->count && is_of(&batches[end], layer, length))
        end++;
    *count = end - low;
    return batches + low;
}
