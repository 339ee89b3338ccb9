#include "bench/quantize_sink.h"

#include <stdlib.h>
#include <string.h>

#include "bench/quantize_metadata.h"

struct quantize_sink {
    safetensors_writer *safetensors; /* one of the two is NULL */
    gguf_writer *gguf;
    size_t *place_of; /* of an entry, in the file */
    size_t left_out;
};

/* ---- order ---- */

static size_t alignment_of(const quantize_entry *entry) {
    return entry->storage == QUANTIZE_PLAIN ? safetensors_dtype_bytes(entry->dtype) : 1;
}

/* Positions of the entries in the order of the file: large elements first, so that all are aligned. */
static size_t *make_order(const quantize_plan *plan, int by_alignment) {
    size_t *const order = calloc(plan->entry_count + 1, sizeof *order);
    size_t next = 0;
    if (!order)
        return NULL;
    for (size_t bytes = 8; bytes > 0; bytes /= 2)
        for (size_t i = 0; i < plan->entry_count; i++)
            if (!by_alignment ? bytes == 8 : alignment_of(&plan->entries[i]) == bytes)
                order[next++] = i;
    return order;
}

/* ---- safetensors ---- */

/* Blocks stand as bytes, a row of blocks in a row of bytes. */
static safetensors_tensor safetensors_of(const quantize_entry *entry) {
    safetensors_tensor tensor = {
        .name = entry->name, .dtype = entry->dtype, .rank = entry->rank, .bytes = entry->bytes};
    memcpy(tensor.shape, entry->shape, sizeof tensor.shape);
    if (entry->storage == QUANTIZE_PLAIN)
        return tensor;
    const quantize_tensor blocks = {.storage = entry->storage};
    const int last = entry->rank - 1;
    tensor.dtype = SAFETENSORS_U8;
    tensor.shape[last] = (int64_t)quantize_storage_bytes(&blocks, entry->shape[last]);
    return tensor;
}

static int open_safetensors(const char *path, const quantize_source *source,
                            const quantize_plan *plan, const size_t *order, quantize_sink *sink,
                            file_error *error) {
    quantize_pairs pairs;
    safetensors_tensor *const tensors = calloc(plan->entry_count + 1, sizeof *tensors);
    int result = -1;
    if (quantize_make_pairs(source, plan, &pairs) || !tensors) {
        file_error_set(error, "out of memory for the header of %s", path);
    } else {
        for (size_t i = 0; i < plan->entry_count; i++)
            tensors[i] = safetensors_of(&plan->entries[order[i]]);
        result = safetensors_writer_open(path, tensors, plan->entry_count, pairs.items, pairs.count,
                                         &sink->safetensors, error);
    }
    sink->left_out = pairs.left_out;
    quantize_pairs_release(&pairs);
    free(tensors);
    return result;
}

/* ---- GGUF ---- */

static int gguf_of(const quantize_entry *entry, gguf_tensor *tensor, file_error *error) {
    static const struct {
        quantize_storage storage;
        safetensors_dtype dtype;
        gguf_type type;
    } rows[] = {
        {QUANTIZE_PLAIN, SAFETENSORS_F32, GGUF_F32},   {QUANTIZE_PLAIN, SAFETENSORS_F16, GGUF_F16},
        {QUANTIZE_PLAIN, SAFETENSORS_BF16, GGUF_BF16}, {QUANTIZE_PLAIN, SAFETENSORS_F64, GGUF_F64},
        {QUANTIZE_PLAIN, SAFETENSORS_I8, GGUF_I8},     {QUANTIZE_PLAIN, SAFETENSORS_I16, GGUF_I16},
        {QUANTIZE_PLAIN, SAFETENSORS_I32, GGUF_I32},   {QUANTIZE_PLAIN, SAFETENSORS_I64, GGUF_I64},
        {QUANTIZE_Q8_0, SAFETENSORS_U8, GGUF_Q8_0},    {QUANTIZE_Q4_0, SAFETENSORS_U8, GGUF_Q4_0},
    };
    const file_name name = file_printable(entry->name);
    if (entry->rank > GGUF_MAX_RANK)
        return file_fail(error, "tensor \"%s\" has %d dimensions; GGUF takes %d at most", name.text,
                         entry->rank, GGUF_MAX_RANK);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].storage != entry->storage ||
            (entry->storage == QUANTIZE_PLAIN && rows[i].dtype != entry->dtype))
            continue;
        *tensor = (gguf_tensor){
            .name = entry->name, .type = rows[i].type, .rank = entry->rank, .bytes = entry->bytes};
        memcpy(tensor->shape, entry->shape, sizeof tensor->shape);
        return 0;
    }
    return file_fail(error, "tensor \"%s\" has the dtype %s, which GGUF does not have", name.text,
                     safetensors_dtype_name(entry->dtype));
}

static int open_gguf(const char *path, const quantize_source *source, const quantize_plan *plan,
                     const size_t *order, quantize_sink *sink, file_error *error) {
    quantize_values values;
    gguf_tensor *const tensors = calloc(plan->entry_count + 1, sizeof *tensors);
    const uint64_t alignment = source->gguf ? gguf_alignment(source->gguf) : GGUF_DEFAULT_ALIGNMENT;
    int result = 0;
    if (quantize_make_values(path, source, plan, &values) || !tensors)
        result = file_fail(error, "out of memory for the header of %s", path);
    for (size_t i = 0; result == 0 && i < plan->entry_count; i++)
        result = gguf_of(&plan->entries[order[i]], &tensors[i], error);
    if (result == 0)
        result = gguf_writer_open(path, tensors, plan->entry_count, values.items, values.count,
                                  alignment, &sink->gguf, error);
    quantize_values_release(&values);
    free(tensors);
    return result;
}

/* ---- the sink ---- */

int quantize_sink_open(const char *path, const quantize_source *source, const quantize_plan *plan,
                       quantize_sink **sink, file_error *error) {
    const int to_gguf = quantize_is_gguf(path);
    quantize_sink *const made = calloc(1, sizeof *made);
    size_t *const order = make_order(plan, !to_gguf);
    *sink = NULL;
    if (made)
        made->place_of = calloc(plan->entry_count + 1, sizeof *made->place_of);
    int result = -1;
    if (!made || !order || !made->place_of)
        file_error_set(error, "out of memory for %zu tensors", plan->entry_count);
    else
        result = to_gguf ? open_gguf(path, source, plan, order, made, error)
                         : open_safetensors(path, source, plan, order, made, error);
    for (size_t i = 0; result == 0 && i < plan->entry_count; i++)
        made->place_of[order[i]] = i;
    free(order);
    if (result != 0)
        quantize_sink_abandon(made);
    else
        *sink = made;
    return result;
}

int quantize_sink_put(void *user, size_t entry, uint64_t offset, const void *bytes, size_t size,
                      file_error *error) {
    quantize_sink *const sink = user;
    const size_t place = sink->place_of[entry];
    return sink->gguf
               ? gguf_writer_put(sink->gguf, place, offset, bytes, size, error)
               : safetensors_writer_put(sink->safetensors, place, offset, bytes, size, error);
}

size_t quantize_sink_left_out(const quantize_sink *sink) {
    return sink->left_out;
}

int quantize_sink_settle(quantize_sink *sink, file_error *error) {
    return sink->gguf ? gguf_writer_settle(sink->gguf, error)
                      : safetensors_writer_settle(sink->safetensors, error);
}

int quantize_sink_finish(quantize_sink *sink, file_error *error) {
    const int result = sink->gguf ? gguf_writer_finish(sink->gguf, error)
                                  : safetensors_writer_finish(sink->safetensors, error);
    sink->gguf = NULL;
    sink->safetensors = NULL;
    quantize_sink_abandon(sink);
    return result;
}

void quantize_sink_abandon(quantize_sink *sink) {
    if (!sink)
        return;
    gguf_writer_abandon(sink->gguf);
    safetensors_writer_abandon(sink->safetensors);
    free(sink->place_of);
    free(sink);
}
