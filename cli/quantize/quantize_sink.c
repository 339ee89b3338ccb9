#include "cli/quantize/quantize_sink.h"

#include <stdlib.h>
#include <string.h>

#include "cli/quantize/quantize_metadata.h"
#include "formats/output_file.h"

struct quantize_sink {
    safetensors_writer *
        *shards; /* one where the output is no index, none where it is a GGUF file */
    size_t shard_count;
    gguf_writer *gguf;
    output_file *index;
    size_t *place_of; /* of an entry, in its file */
    size_t *shard_of;
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

/* One file: of a shard, or of all. */
static int open_safetensors(const char *path, const quantize_source *source,
                            const quantize_plan *plan, const size_t *order, int shard,
                            quantize_sink *sink, file_error *error) {
    quantize_pairs pairs;
    safetensors_tensor *const tensors = calloc(plan->entry_count + 1, sizeof *tensors);
    safetensors_writer **const writer = &sink->shards[sink->shard_count];
    size_t count = 0;
    int result = -1;
    if (quantize_make_pairs(source, plan, shard, &pairs) || !tensors) {
        file_error_set(error, "out of memory for the header of %s", path);
    } else {
        for (size_t i = 0; i < plan->entry_count; i++) {
            const quantize_entry *const entry = &plan->entries[order[i]];
            if (shard != QUANTIZE_ALL_SHARDS && entry->shard != (size_t)shard)
                continue;
            sink->place_of[order[i]] = count;
            sink->shard_of[order[i]] = sink->shard_count;
            tensors[count++] = safetensors_of(entry);
        }
        result =
            safetensors_writer_open(path, tensors, count, pairs.items, pairs.count, writer, error);
        sink->shard_count += result == 0;
    }
    sink->left_out = pairs.left_out;
    quantize_pairs_release(&pairs);
    free(tensors);
    return result;
}

/* ---- shards ---- */

static int write_index(const quantize_source *source, const quantize_plan *plan,
                       const quantize_sink *sink, file_error *error) {
    unsigned long long total = 0;
    quantize_place *const places = calloc(plan->entry_count + 1, sizeof *places);
    for (size_t i = 0; places && i < plan->entry_count; i++) {
        places[i] = (quantize_place){plan->entries[i].name, plan->entries[i].shard};
        total += plan->entries[i].bytes;
    }
    char *const text =
        places ? quantize_index_text(source->index, places, plan->entry_count, total) : NULL;
    const int result = text ? output_file_put(sink->index, 0, text, strlen(text), error)
                            : file_fail(error, "out of memory for the index");
    free(text);
    free(places);
    return result;
}

/* Shards of the names that the input's have, beside the index. */
static int open_shards(const char *path, const quantize_source *source, const quantize_plan *plan,
                       const size_t *order, quantize_sink *sink, file_error *error) {
    for (size_t i = 0; i < source->shard_count; i++) {
        char *const name = quantize_path_beside(path, quantize_index_shard(source->index, i));
        const int result = name ? open_safetensors(name, source, plan, order, (int)i, sink, error)
                                : file_fail(error, "out of memory for a name");
        free(name);
        if (result != 0)
            return -1;
    }
    return output_file_create(path, &sink->index, error) || write_index(source, plan, sink, error)
               ? -1
               : 0;
}

/* ---- GGUF ---- */

/* Names that are too long for ggml as it is built go to a GGUF file only where they come from
 * one. */
static int check_name(const quantize_source *source, const quantize_entry *entry,
                      file_error *error) {
    const size_t length = strlen(entry->name);
    if (source->gguf || (length > 0 && length <= GGUF_MAX_GGML_NAME))
        return 0;
    return file_fail(error, "the name \"%s\" has %zu bytes; GGUF takes 1 to %d",
                     file_printable(entry->name).text, length, GGUF_MAX_GGML_NAME);
}

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
    *tensor = (gguf_tensor){
        .name = entry->name, .type = entry->foreign, .rank = entry->rank, .bytes = entry->bytes};
    memcpy(tensor->shape, entry->shape, sizeof tensor->shape);
    if (entry->storage == QUANTIZE_FOREIGN)
        return 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].storage != entry->storage ||
            (entry->storage == QUANTIZE_PLAIN && rows[i].dtype != entry->dtype))
            continue;
        tensor->type = rows[i].type;
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
    for (size_t i = 0; result == 0 && i < plan->entry_count; i++) {
        sink->place_of[order[i]] = i;
        const quantize_entry *const entry = &plan->entries[order[i]];
        result = check_name(source, entry, error) || gguf_of(entry, &tensors[i], error) ? -1 : 0;
    }
    if (result == 0)
        result = gguf_writer_open(path, tensors, plan->entry_count, values.items, values.count,
                                  alignment, &sink->gguf, error);
    quantize_values_release(&values);
    free(tensors);
    return result;
}

/* ---- the sink ---- */

static int allocate(const quantize_source *source, const quantize_plan *plan, quantize_sink *sink) {
    sink->place_of = calloc(plan->entry_count + 1, sizeof *sink->place_of);
    sink->shard_of = calloc(plan->entry_count + 1, sizeof *sink->shard_of);
    sink->shards = calloc(source->shard_count + 1, sizeof *sink->shards);
    return sink->place_of && sink->shard_of && sink->shards ? 0 : -1;
}

static int open_files(const char *path, const quantize_source *source, const quantize_plan *plan,
                      quantize_sink *sink, file_error *error) {
    const int to_gguf = quantize_is_gguf(path);
    size_t *const order = make_order(plan, !to_gguf);
    const int result =
        !order || allocate(source, plan, sink)
            ? file_fail(error, "out of memory for %zu tensors", plan->entry_count)
        : to_gguf ? open_gguf(path, source, plan, order, sink, error)
        : quantize_is_index(path)
            ? open_shards(path, source, plan, order, sink, error)
            : open_safetensors(path, source, plan, order, QUANTIZE_ALL_SHARDS, sink, error);
    free(order);
    return result;
}

int quantize_sink_open(const char *path, const quantize_source *source, const quantize_plan *plan,
                       quantize_sink **sink, file_error *error) {
    *sink = NULL;
    quantize_sink *const made = calloc(1, sizeof *made);
    if (!made)
        return file_fail(error, "out of memory");
    if (open_files(path, source, plan, made, error)) {
        quantize_sink_abandon(made);
        return -1;
    }
    *sink = made;
    return 0;
}

int quantize_sink_put(void *user, size_t entry, uint64_t offset, const void *bytes, size_t size,
                      file_error *error) {
    quantize_sink *const sink = user;
    const size_t place = sink->place_of[entry];
    return sink->gguf ? gguf_writer_put(sink->gguf, place, offset, bytes, size, error)
                      : safetensors_writer_put(sink->shards[sink->shard_of[entry]], place, offset,
                                               bytes, size, error);
}

size_t quantize_sink_left_out(const quantize_sink *sink) {
    return sink->left_out;
}

int quantize_sink_settle(quantize_sink *sink, file_error *error) {
    if (sink->gguf)
        return gguf_writer_settle(sink->gguf, error);
    for (size_t i = 0; i < sink->shard_count; i++)
        if (safetensors_writer_settle(sink->shards[i], error))
            return -1;
    return sink->index ? output_file_settle(sink->index, error) : 0;
}

/* Shards get their names one after the other, and the index that names them the last. */
static int finish_files(quantize_sink *sink, file_error *error) {
    gguf_writer *const gguf = sink->gguf;
    output_file *const index = sink->index;
    sink->gguf = NULL;
    if (gguf)
        return gguf_writer_finish(gguf, error);
    for (size_t i = 0; i < sink->shard_count; i++) {
        safetensors_writer *const writer = sink->shards[i];
        sink->shards[i] = NULL;
        if (safetensors_writer_finish(writer, error))
            return -1;
    }
    sink->index = NULL;
    return index ? output_file_finish(index, error) : 0;
}

int quantize_sink_finish(quantize_sink *sink, file_error *error) {
    const int result = quantize_sink_settle(sink, error) || finish_files(sink, error) ? -1 : 0;
    quantize_sink_abandon(sink);
    return result;
}

void quantize_sink_abandon(quantize_sink *sink) {
    if (!sink)
        return;
    gguf_writer_abandon(sink->gguf);
    output_file_abandon(sink->index);
    for (size_t i = 0; i < sink->shard_count; i++)
        safetensors_writer_abandon(sink->shards[i]);
    free(sink->shards);
    free(sink->place_of);
    free(sink->shard_of);
    free(sink);
}
