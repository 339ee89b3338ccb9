#include "cli/quantize/quantize_sink.h"

#include <stdlib.h>
#include <string.h>

#include "formats/gguf.h"
#include "formats/utf8_text.h"

enum {
    GGUF_QUANTIZATION_VERSION = 2,
    EXTRA = 8 /* pairs or values that the plan adds, besides one for each tensor */
};

/*
 * The output's metadata: `pairs` for safetensors; for GGUF `values`, to which the pairs are added
 * as strings. Entries point into the source or to `texts`.
 */
typedef struct quantize_header {
    safetensors_pair *pairs;
    size_t pair_count;
    gguf_value *values;
    size_t value_count;
    char **texts;
    size_t text_count;
    int failed; /* memory was short */
} quantize_header;

struct quantize_sink {
    tensor_writer *writer;
    size_t *place_of; /* index in the file of each entry */
    size_t left_out;
};

/* ---- metadata ---- */

/* Takes ownership of a heap string, which may be NULL. */
static const char *own(quantize_header *header, char *text) {
    header->failed |= text == NULL;
    header->texts[header->text_count++] = text;
    return text;
}

static void add_pair(quantize_header *header, const char *key, const char *value) {
    header->pairs[header->pair_count++] = (safetensors_pair){key, value};
}

/* Returns the rest of the text after a prefix, or NULL. */
static const char *behind(const char *text, const char *prefix) {
    const size_t length = strlen(prefix);
    return strncmp(text, prefix, length) == 0 && text[length] != '\0' ? text + length : NULL;
}

/* Returns 1 if a GGUF string can be a string of a safetensors file. */
static int is_text(const gguf_value *value) {
    return value->type == GGUF_VALUE_STRING &&
           utf8_is_plain((const char *)value->data + 8, value->bytes - 8);
}

/* Returns 1 for keys of tensor layouts. They are not copied, because the plan writes them anew. */
static int is_layout(const char *key) {
    return !strcmp(key, QUANTIZE_VERSION_KEY) || behind(key, QUANTIZE_KEY_PREFIX);
}

/* Copies the metadata of all shards. If several have a key, the first one's value is used. */
static void take_pairs(const quantize_source *source, int to_gguf, quantize_header *header) {
    for (size_t shard = 0; shard < source->shard_count; shard++)
        for (size_t i = 0;; i++) {
            const safetensors_pair pair = safetensors_metadata_at(source->shards[shard], i);
            if (!pair.key)
                break;
            if (is_layout(pair.key) || quantize_source_metadata(source, pair.key) != pair.value)
                continue;
            if (to_gguf)
                add_pair(header, own(header, quantize_join("safetensors.", pair.key)), pair.value);
            else
                add_pair(header, pair.key, pair.value);
        }
}

static void take_strings(const gguf_file *gguf, quantize_header *header, size_t *left_out) {
    for (size_t i = 0; i < gguf_value_count(gguf); i++) {
        const gguf_value *const value = gguf_value_at(gguf, i);
        if (!is_text(value)) {
            ++*left_out;
            continue;
        }
        const char *const former = behind(value->key, "safetensors.");
        const char *const key = former ? former : own(header, quantize_join("gguf.", value->key));
        add_pair(header, key,
                 own(header, gguf_copy_text((const char *)value->data + 8, value->bytes - 8)));
    }
}

/* Adds the metadata that describes the quantized tensors. */
static void add_layouts(const quantize_source *source, const quantize_plan *plan,
                        quantize_header *header) {
    const size_t before = header->pair_count;
    for (size_t i = 0; i < plan->item_count; i++) {
        const quantize_item *const item = &plan->items[i];
        const char *text = NULL;
        if (item->layout.rank > 0) {
            text = own(header, quantize_layout_text(&item->layout));
        } else if (item->tensor->has_codes) {
            char *const key = quantize_join(QUANTIZE_KEY_PREFIX, item->tensor->name);
            text = safetensors_metadata(quantize_file_of(source, item->tensor), key ? key : "");
            free(key);
        }
        if (text)
            add_pair(header, own(header, quantize_join(QUANTIZE_KEY_PREFIX, item->tensor->name)),
                     text);
    }
    if (header->pair_count > before)
        add_pair(header, QUANTIZE_VERSION_KEY, QUANTIZE_VERSION);
}

static int has_value(const quantize_header *header, const char *key) {
    for (size_t i = 0; i < header->value_count; i++)
        if (header->values[i].key && !strcmp(header->values[i].key, key))
            return 1;
    return 0;
}

/* Adds a GGUF string: its length, then its bytes. */
static void add_string(quantize_header *header, const char *key, const char *text) {
    const uint64_t length = strlen(text);
    const size_t size = sizeof length + length;
    char *const bytes = malloc(size + 1);
    if (bytes) {
        memcpy(bytes, &length, sizeof length);
        memcpy(bytes + sizeof length, text, length + 1);
    }
    header->values[header->value_count++] =
        (gguf_value){key, GGUF_VALUE_STRING, own(header, bytes), size};
}

/*
 * Returns the general.file_type number by which llama.cpp names and shows files of a scheme.
 * Returns NULL for other schemes; the file's own number then stays.
 */
static const uint32_t *file_type(const quantize_scheme *scheme) {
    static const struct {
        const char *scheme;
        uint32_t number;
    } rows[] = {{"f32", 0}, {"f16", 1}, {"q4_0", 2}, {"q8_0", 7}, {"bf16", 32}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(rows[i].scheme, scheme->name))
            return &rows[i].number;
    return NULL;
}

static void add_values(const quantize_source *source, const quantize_scheme *scheme,
                       quantize_header *header) {
    static const uint32_t version = GGUF_QUANTIZATION_VERSION;
    const uint32_t *const type = file_type(scheme);
    for (size_t i = 0; source->gguf && i < gguf_value_count(source->gguf); i++) {
        const gguf_value *const value = gguf_value_at(source->gguf, i);
        if (strcmp(value->key, "general.quantization_version") != 0 &&
            (!type || strcmp(value->key, "general.file_type") != 0))
            header->values[header->value_count++] = *value;
    }
    for (size_t i = 0; i < header->pair_count; i++)
        add_string(header, header->pairs[i].key, header->pairs[i].value);
    if (!has_value(header, "general.architecture")) {
        const char *const name = quantize_source_metadata(source, "architecture");
        add_string(header, "general.architecture", name ? name : "unknown");
    }
    header->values[header->value_count++] =
        (gguf_value){"general.quantization_version", GGUF_VALUE_U32, &version, sizeof version};
    if (type)
        header->values[header->value_count++] =
            (gguf_value){"general.file_type", GGUF_VALUE_U32, type, sizeof *type};
}

static int make_header(const quantize_source *source, const quantize_plan *plan,
                       const quantize_choice *choice, quantize_header *header, size_t *left_out) {
    size_t most = plan->item_count + EXTRA + (source->gguf ? gguf_value_count(source->gguf) : 0);
    for (size_t shard = 0; shard < source->shard_count; shard++)
        for (size_t i = 0; safetensors_metadata_at(source->shards[shard], i).key; i++)
            most++;
    memset(header, 0, sizeof *header);
    header->pairs = calloc(most, sizeof *header->pairs);
    header->values = calloc(most, sizeof *header->values);
    header->texts = calloc(2 * most, sizeof *header->texts);
    if (!header->pairs || !header->values || !header->texts)
        return -1;
    take_pairs(source, choice->to_gguf, header);
    if (choice->to_gguf) {
        add_values(source, choice->scheme, header);
    } else {
        if (source->gguf)
            take_strings(source->gguf, header, left_out);
        add_layouts(source, plan, header);
    }
    return header->failed ? -1 : 0;
}

static void release_header(quantize_header *header) {
    for (size_t i = 0; i < header->text_count; i++)
        free(header->texts[i]);
    free(header->texts);
    free(header->pairs);
    free(header->values);
}

/* ---- tensors ---- */

/* In a safetensors file, blocks are stored as bytes: a row of blocks is a row of bytes. */
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

/*
 * Fills in the GGUF tensor of an entry. ggml as built limits the length of names; longer names are
 * accepted only from a GGUF file.
 */
static int gguf_of(const quantize_source *source, const quantize_entry *entry, gguf_tensor *tensor,
                   file_error *error) {
    const file_name name = file_printable(entry->name);
    const size_t length = strlen(entry->name);
    if (!source->gguf && (length == 0 || length > GGUF_MAX_GGML_NAME))
        return file_fail(error, "the name \"%s\" has %zu bytes; GGUF takes 1 to %d", name.text,
                         length, GGUF_MAX_GGML_NAME);
    if (entry->rank > GGUF_MAX_RANK)
        return file_fail(error, "tensor \"%s\" has %d dimensions; GGUF takes %d at most", name.text,
                         entry->rank, GGUF_MAX_RANK);
    *tensor = (gguf_tensor){.name = entry->name, .rank = entry->rank, .bytes = entry->bytes};
    memcpy(tensor->shape, entry->shape, sizeof tensor->shape);
    return quantize_gguf_type(entry->storage, entry->dtype, &tensor->type)
               ? 0
               : file_fail(error, "tensor \"%s\" has the dtype %s, which GGUF does not have",
                           name.text, safetensors_dtype_name(entry->dtype));
}

static int open_gguf(const char *path, const quantize_source *source, const quantize_plan *plan,
                     const quantize_header *header, quantize_sink *sink, file_error *error) {
    gguf_tensor *const tensors = calloc(plan->entry_count + 1, sizeof *tensors);
    const uint64_t alignment = source->gguf ? gguf_alignment(source->gguf) : GGUF_DEFAULT_ALIGNMENT;
    int result = tensors ? 0 : file_fail(error, "out of memory for the header of %s", path);
    for (size_t i = 0; result == 0 && i < plan->entry_count; i++) {
        sink->place_of[i] = i;
        result = gguf_of(source, &plan->entries[i], &tensors[i], error);
    }
    if (result == 0)
        result = gguf_writer_open(path, tensors, plan->entry_count, header->values,
                                  header->value_count, alignment, &sink->writer, error);
    free(tensors);
    return result;
}

static size_t alignment_of(const quantize_entry *entry) {
    return entry->storage == QUANTIZE_PLAIN ? safetensors_dtype_bytes(entry->dtype) : 1;
}

/* Tensors with larger elements come first, so that all are aligned. */
static int open_safetensors(const char *path, const quantize_plan *plan,
                            const quantize_header *header, quantize_sink *sink, file_error *error) {
    safetensors_tensor *const tensors = calloc(plan->entry_count + 1, sizeof *tensors);
    size_t next = 0;
    if (!tensors)
        return file_fail(error, "out of memory for the header of %s", path);
    for (size_t bytes = 8; bytes > 0; bytes /= 2)
        for (size_t i = 0; i < plan->entry_count; i++) {
            if (alignment_of(&plan->entries[i]) != bytes)
                continue;
            sink->place_of[i] = next;
            tensors[next++] = safetensors_of(&plan->entries[i]);
        }
    const int result = safetensors_writer_open(path, tensors, next, header->pairs,
                                               header->pair_count, &sink->writer, error);
    free(tensors);
    return result;
}

/* ---- the sink ---- */

int quantize_sink_open(const char *path, const quantize_source *source, const quantize_plan *plan,
                       const quantize_choice *choice, quantize_sink **sink, file_error *error) {
    quantize_header header;
    int result = -1;
    quantize_sink *const made = calloc(1, sizeof *made);
    *sink = NULL;
    if (!made)
        return file_fail(error, "out of memory");
    made->place_of = calloc(plan->entry_count + 1, sizeof *made->place_of);
    if (make_header(source, plan, choice, &header, &made->left_out) || !made->place_of)
        file_error_set(error, "out of memory for the header of %s", path);
    else
        result = choice->to_gguf ? open_gguf(path, source, plan, &header, made, error)
                                 : open_safetensors(path, plan, &header, made, error);
    release_header(&header);
    if (result != 0)
        quantize_sink_abandon(made);
    else
        *sink = made;
    return result;
}

int quantize_sink_put(void *user, size_t entry, uint64_t offset, const void *bytes, size_t size,
                      file_error *error) {
    quantize_sink *const sink = user;
    return tensor_writer_put(sink->writer, sink->place_of[entry], offset, bytes, size, error);
}

size_t quantize_sink_left_out(const quantize_sink *sink) {
    return sink->left_out;
}

int quantize_sink_finish(quantize_sink *sink, file_error *error) {
    const int result = tensor_writer_finish(sink->writer, error);
    sink->writer = NULL;
    quantize_sink_abandon(sink);
    return result;
}

void quantize_sink_abandon(quantize_sink *sink) {
    if (!sink)
        return;
    tensor_writer_abandon(sink->writer);
    free(sink->place_of);
    free(sink);
}
