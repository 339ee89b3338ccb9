#include "cli/quantize/quantize_metadata.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/gguf_cursor.h"
#include "formats/utf8_text.h"

static const char gguf_prefix[] = "gguf.";
static const char safetensors_prefix[] = "safetensors.";

enum {
    EXTRA = 8, /* what the plan adds to either, beyond a text per tensor */
    GGUF_QUANTIZATION_VERSION = 2
};

static const char *behind(const char *text, const char *prefix) {
    const size_t length = strlen(prefix);
    return strncmp(text, prefix, length) == 0 && text[length] != '\0' ? text + length : NULL;
}

/* Whether a text of the source describes the layout of tensors, which the plan does anew where it must. */
static int is_layout_of(const char *key, const quantize_plan *plan) {
    const char *const name = behind(key, QUANTIZE_KEY_PREFIX);
    if (!name)
        return strcmp(key, QUANTIZE_VERSION_KEY) == 0;
    const quantize_item *const item = quantize_plan_find(plan, name);
    return item && (item->scheme || item->layout.rank > 0);
}

/* ---- to safetensors ---- */

/* Takes both texts, which are from the heap; either may be NULL. */
static int take_pair(quantize_pairs *pairs, char *key, char *value) {
    if (!key || !value) {
        free(key);
        free(value);
        return -1;
    }
    pairs->items[pairs->count++] = (safetensors_pair){key, value};
    return 0;
}

/* A whole number of the file, widened; `bytes` 1 to 8. */
static uint64_t number_of(const gguf_value *value) {
    uint64_t number = 0;
    memcpy(&number, value->data, value->bytes);
    return number;
}

static int64_t signed_number_of(const gguf_value *value) {
    const int unused = 64 - 8 * (int)value->bytes;
    return (int64_t)(number_of(value) << unused) >> unused;
}

/* "<type> <value>", from the heap; NULL when memory is short. Not for arrays. */
static char *text_of(const gguf_value *value) {
    char number[64];
    float narrow = 0.0f;
    double wide = 0.0;
    switch (value->type) {
    case GGUF_VALUE_STRING:
        return gguf_copy_text((const char *)value->data + 8, value->bytes - 8);
    case GGUF_VALUE_F32:
        memcpy(&narrow, value->data, sizeof narrow);
        snprintf(number, sizeof number, "%.9g", (double)narrow);
        break;
    case GGUF_VALUE_F64:
        memcpy(&wide, value->data, sizeof wide);
        snprintf(number, sizeof number, "%.17g", wide);
        break;
    case GGUF_VALUE_I8:
    case GGUF_VALUE_I16:
    case GGUF_VALUE_I32:
    case GGUF_VALUE_I64:
        snprintf(number, sizeof number, "%" PRId64, signed_number_of(value));
        break;
    default:
        snprintf(number, sizeof number, "%" PRIu64, number_of(value));
    }
    return strdup(number);
}

/* JSON takes no text that is no UTF-8, and the header of a safetensors file none with control characters but these. */
static int fits_json(const gguf_value *value) {
    if (value->type == GGUF_VALUE_ARRAY)
        return 0;
    if (value->type != GGUF_VALUE_STRING)
        return 1;
    const unsigned char *const text = (const unsigned char *)value->data + 8;
    for (size_t i = 0; i < value->bytes - 8;) {
        const size_t step = utf8_sequence(text + i, value->bytes - 8 - i);
        if (step == 0 || text[i] == '\0')
            return 0;
        i += step;
    }
    return 1;
}

static int pair_of_value(quantize_pairs *pairs, const gguf_value *value) {
    if (!fits_json(value)) {
        pairs->left_out++;
        return 0;
    }
    char *const text = text_of(value);
    const char *const former = behind(value->key, safetensors_prefix);
    if (former && value->type == GGUF_VALUE_STRING)
        return take_pair(pairs, strdup(former), text);
    char *const type = quantize_join(gguf_value_type_name(value->type), " ");
    char *const typed = type && text ? quantize_join(type, text) : NULL;
    free(type);
    free(text);
    return take_pair(pairs, quantize_join(gguf_prefix, value->key), typed);
}

/* With others only what no shard before has. */
static int pairs_of_shard(const quantize_source *source, const quantize_plan *plan, size_t shard,
                          int with_others, quantize_pairs *pairs) {
    for (size_t i = 0;; i++) {
        const safetensors_pair pair = safetensors_metadata_at(source->shards[shard], i);
        if (!pair.key)
            return 0;
        if (!is_layout_of(pair.key, plan) &&
            (!with_others || quantize_source_metadata(source, pair.key) == pair.value) &&
            take_pair(pairs, strdup(pair.key), strdup(pair.value)))
            return -1;
    }
}

/* The output of a model in parts is one file, for which the values of the split do not hold. */
static int is_dropped(const quantize_source *source, const gguf_value *value) {
    return source->parts.count > 1 && gguf_parts_is_key(value->key);
}

static int pairs_of_source(const quantize_source *source, const quantize_plan *plan, int shard,
                           quantize_pairs *pairs) {
    if (source->gguf) {
        for (size_t i = 0; i < gguf_value_count(source->gguf); i++) {
            const gguf_value *const value = gguf_value_at(source->gguf, i);
            if (!is_dropped(source, value) && pair_of_value(pairs, value))
                return -1;
        }
        return 0;
    }
    for (size_t i = 0; i < source->shard_count; i++)
        if ((shard == QUANTIZE_ALL_SHARDS || i == (size_t)shard) &&
            pairs_of_shard(source, plan, i, shard == QUANTIZE_ALL_SHARDS, pairs))
            return -1;
    return 0;
}

static size_t metadata_count(const quantize_source *source) {
    size_t count = 0;
    if (source->gguf)
        return gguf_value_count(source->gguf);
    for (size_t shard = 0; shard < source->shard_count; shard++)
        for (size_t i = 0; safetensors_metadata_at(source->shards[shard], i).key; i++)
            count++;
    return count;
}

int quantize_make_pairs(const quantize_source *source, const quantize_plan *plan, int shard,
                        quantize_pairs *pairs) {
    memset(pairs, 0, sizeof *pairs);
    pairs->items = calloc(metadata_count(source) + plan->item_count + EXTRA, sizeof *pairs->items);
    if (!pairs->items || pairs_of_source(source, plan, shard, pairs) ||
        take_pair(pairs, strdup(QUANTIZE_VERSION_KEY), strdup(QUANTIZE_VERSION)))
        return -1;
    for (size_t i = 0; i < plan->item_count; i++) {
        const quantize_item *const item = &plan->items[i];
        if (item->layout.rank > 0 &&
            (shard == QUANTIZE_ALL_SHARDS || item->tensor->shard == (size_t)shard) &&
            take_pair(pairs, quantize_join(QUANTIZE_KEY_PREFIX, item->tensor->name),
                      quantize_layout_text(&item->layout)))
            return -1;
    }
    return 0;
}

void quantize_pairs_release(quantize_pairs *pairs) {
    for (size_t i = 0; i < pairs->count; i++) {
        free((char *)(uintptr_t)pairs->items[i].key);
        free((char *)(uintptr_t)pairs->items[i].value);
    }
    free(pairs->items);
    memset(pairs, 0, sizeof *pairs);
}

/* ---- to GGUF ---- */

static int has_value(const quantize_values *values, const char *key) {
    for (size_t i = 0; i < values->count; i++) {
        const char *const own = values->items[i].key;
        if (own && strcmp(own, key) == 0)
            return 1;
    }
    return 0;
}

static int add_value(quantize_values *values, const char *key, gguf_value_type type,
                     const void *data, size_t bytes) {
    char *const own_key = strdup(key);
    void *const own_data = malloc(bytes + 1);
    if (!own_key || !own_data) {
        free(own_key);
        free(own_data);
        return -1;
    }
    if (bytes > 0)
        memcpy(own_data, data, bytes);
    values->items[values->count++] = (gguf_value){own_key, type, own_data, bytes};
    return 0;
}

static int add_string(quantize_values *values, const char *key, const char *text) {
    const uint64_t length = strlen(text);
    const size_t size = sizeof length + length;
    unsigned char *const bytes = malloc(size + 1);
    if (!bytes)
        return -1;
    memcpy(bytes, &length, sizeof length);
    memcpy(bytes + sizeof length, text, length + 1);
    const int result = add_value(values, key, GGUF_VALUE_STRING, bytes, size);
    free(bytes);
    return result;
}

static int add_u32(quantize_values *values, const char *key, uint32_t number) {
    return has_value(values, key) ? 0
                                  : add_value(values, key, GGUF_VALUE_U32, &number, sizeof number);
}

static int value_of_pair(quantize_values *values, const safetensors_pair *pair) {
    char *const key = quantize_join(safetensors_prefix, pair->key);
    const int result =
        !key || strlen(key) > GGUF_MAX_KEY ? -1 : add_string(values, key, pair->value);
    free(key);
    return result;
}

/* Bytes of tensors that are passed on as they are, whose kind the source's own number may tell. */
static uint64_t foreign_bytes(const quantize_plan *plan) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < plan->entry_count; i++)
        bytes += plan->entries[i].storage == QUANTIZE_FOREIGN ? plan->entries[i].bytes : 0;
    return bytes;
}

/* What llama.cpp calls the file: by the most frequent kind of its large tensors. Others read it for display only. */
static uint32_t file_type(const quantize_source *source, const quantize_plan *plan) {
    static const struct {
        quantize_storage storage;
        safetensors_dtype dtype;
        uint32_t number;
    } rows[] = {
        {QUANTIZE_PLAIN, SAFETENSORS_F32, 0},   {QUANTIZE_PLAIN, SAFETENSORS_F16, 1},
        {QUANTIZE_Q4_0, SAFETENSORS_U8, 2},     {QUANTIZE_Q8_0, SAFETENSORS_U8, 7},
        {QUANTIZE_PLAIN, SAFETENSORS_BF16, 32},
    };
    const gguf_value *const own =
        source->gguf ? gguf_value_find(source->gguf, "general.file_type") : NULL;
    uint64_t most = own && own->type == GGUF_VALUE_U32 ? foreign_bytes(plan) : 0;
    uint32_t type = 0;
    if (most > 0)
        memcpy(&type, own->data, sizeof type);
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        uint64_t bytes = 0;
        for (size_t i = 0; i < plan->entry_count; i++)
            if (plan->entries[i].storage == rows[r].storage &&
                (rows[r].storage != QUANTIZE_PLAIN || plan->entries[i].dtype == rows[r].dtype))
                bytes += plan->entries[i].bytes;
        type = bytes > most ? rows[r].number : type;
        most = bytes > most ? bytes : most;
    }
    return type;
}

static int values_of_shard(const quantize_source *source, const quantize_plan *plan, size_t shard,
                           quantize_values *values) {
    for (size_t i = 0;; i++) {
        const safetensors_pair pair = safetensors_metadata_at(source->shards[shard], i);
        if (!pair.key)
            return 0;
        if (!is_layout_of(pair.key, plan) &&
            quantize_source_metadata(source, pair.key) == pair.value &&
            value_of_pair(values, &pair))
            return -1;
    }
}

static int values_of_source(const quantize_source *source, const quantize_plan *plan,
                            quantize_values *values) {
    for (size_t i = 0; source->gguf && i < gguf_value_count(source->gguf); i++) {
        const gguf_value *const value = gguf_value_at(source->gguf, i);
        if (!is_dropped(source, value) && strcmp(value->key, "general.file_type") != 0 &&
            strcmp(value->key, "general.quantization_version") != 0 &&
            add_value(values, value->key, value->type, value->data, value->bytes))
            return -1;
    }
    for (size_t shard = 0; shard < source->shard_count; shard++)
        if (values_of_shard(source, plan, shard, values))
            return -1;
    return 0;
}

/* The last part of a path without its ending, from the heap. */
static char *stem_of(const char *path) {
    const char *const slash = strrchr(path, '/');
    const char *const name = slash ? slash + 1 : path;
    const char *const dot = strrchr(name, '.');
    return strndup(name, dot ? (size_t)(dot - name) : strlen(name));
}

static int add_name(const char *path, const quantize_source *source, quantize_values *values) {
    const char *const architecture = quantize_source_metadata(source, "architecture");
    if (!has_value(values, "general.architecture") &&
        add_string(values, "general.architecture", architecture ? architecture : "unknown"))
        return -1;
    if (has_value(values, "general.name"))
        return 0;
    char *const stem = stem_of(path);
    char *const name = stem ? utf8_replace_invalid(stem) : NULL;
    const int result = name ? add_string(values, "general.name", name) : -1;
    free(stem);
    free(name);
    return result;
}

int quantize_make_values(const char *path, const quantize_source *source, const quantize_plan *plan,
                         quantize_values *values) {
    memset(values, 0, sizeof *values);
    values->items = calloc(metadata_count(source) + EXTRA, sizeof *values->items);
    if (!values->items || values_of_source(source, plan, values) ||
        add_name(path, source, values) ||
        add_u32(values, "general.quantization_version", GGUF_QUANTIZATION_VERSION) ||
        add_u32(values, "general.file_type", file_type(source, plan)))
        return -1;
    return 0;
}

void quantize_values_release(quantize_values *values) {
    for (size_t i = 0; i < values->count; i++) {
        free((char *)(uintptr_t)values->items[i].key);
        free((void *)(uintptr_t)values->items[i].data);
    }
    free(values->items);
    memset(values, 0, sizeof *values);
}
