#include "formats/checkpoint/quantize_source.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "formats/checkpoint/quantize_layout.h"
#include "formats/checkpoint/quantize_read.h"
#include "formats/checkpoint/quantize_scaled.h"
#include "formats/file_mapping.h"
#include "quant/number_formats.h"
#include "quant/quant_blocks.h"

int quantize_is_gguf(const char *path) {
    static const char suffix[] = ".gguf";
    const size_t length = strlen(path);
    return length >= sizeof suffix - 1 && !strcasecmp(path + length - (sizeof suffix - 1), suffix);
}

/* ---- safetensors ---- */

/* Blocks stand in a safetensors file as U8 of shape rows x bytes; the metadata says what they are. */
static int take_blocks(const safetensors_tensor *from, const quantize_layout *layout,
                       quantize_tensor *to, file_error *error) {
    size_t blocks;
    if (quantize_layout_blocks(layout, from, &blocks, error))
        return -1;
    to->storage = layout->storage;
    to->rank = layout->rank;
    memcpy(to->shape, layout->shape, sizeof to->shape);
    return 0;
}

static int take_safetensors(const safetensors_file *file, size_t index, quantize_tensor *to,
                            file_error *error) {
    const safetensors_tensor *const from = safetensors_at(file, index);
    quantize_layout layout;
    *to = (quantize_tensor){.name = from->name,
                            .dtype = from->dtype,
                            .rank = from->rank,
                            .data = from->data,
                            .bytes = from->bytes};
    memcpy(to->shape, from->shape, sizeof to->shape);
    const int found = quantize_layout_find(file, from->name, &layout, error);
    if (found <= 0)
        return found;
    to->has_codes = layout.storage == QUANTIZE_PLAIN;
    to->has_zero_points = to->has_codes && layout.asymmetric;
    return to->has_codes ? 0 : take_blocks(from, &layout, to, error);
}

/* ---- GGUF ---- */

static int take_gguf(const gguf_file *file, size_t index, quantize_tensor *to, file_error *error) {
    static const struct {
        gguf_type type;
        quantize_storage storage;
        safetensors_dtype dtype;
    } rows[] = {
        {GGUF_F32, QUANTIZE_PLAIN, SAFETENSORS_F32},   {GGUF_F16, QUANTIZE_PLAIN, SAFETENSORS_F16},
        {GGUF_BF16, QUANTIZE_PLAIN, SAFETENSORS_BF16}, {GGUF_F64, QUANTIZE_PLAIN, SAFETENSORS_F64},
        {GGUF_I8, QUANTIZE_PLAIN, SAFETENSORS_I8},     {GGUF_I16, QUANTIZE_PLAIN, SAFETENSORS_I16},
        {GGUF_I32, QUANTIZE_PLAIN, SAFETENSORS_I32},   {GGUF_I64, QUANTIZE_PLAIN, SAFETENSORS_I64},
        {GGUF_Q8_0, QUANTIZE_Q8_0, SAFETENSORS_U8},    {GGUF_Q4_0, QUANTIZE_Q4_0, SAFETENSORS_U8},
    };
    const gguf_tensor *const from = gguf_at(file, index);
    *to = (quantize_tensor){.name = from->name,
                            .storage = QUANTIZE_FOREIGN,
                            .dtype = SAFETENSORS_U8,
                            .foreign = from->type,
                            .foreign_name = from->type_name,
                            .rank = from->rank,
                            .data = from->data,
                            .bytes = from->bytes};
    memcpy(to->shape, from->shape, sizeof from->shape);
    if (gguf_type_is_foreign(from->type))
        return 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].type != from->type)
            continue;
        to->storage = rows[i].storage;
        to->dtype = rows[i].dtype;
        return 0;
    }
    return file_fail(error, "tensor \"%s\" is of type %s, which quantize does not take",
                     file_printable(from->name).text, from->type_name);
}

/* ---- the source ---- */

/* Take the tensors of one part of a GGUF model, or of one shard. */
static int take_tensors(quantize_source *source, size_t shard, const char *path,
                        file_error *error) {
    file_error inner;
    const gguf_file *const gguf = source->gguf ? source->parts.files[shard] : NULL;
    const safetensors_file *const file = gguf ? NULL : source->shards[shard];
    const size_t count = gguf ? gguf_count(gguf) : safetensors_count(file);
    const size_t first = source->count;
    for (size_t i = 0; i < count; i++, source->count++) {
        quantize_tensor *const to = &source->tensors[source->count];
        if (gguf ? take_gguf(gguf, i, to, &inner) : take_safetensors(file, i, to, &inner))
            return file_fail(error, "%s: %s", path, inner.text);
        to->floor = source->tensors[first].data;
        to->shard = shard;
    }
    return 0;
}

static int take_all(quantize_source *source, file_error *error) {
    size_t count = 0;
    for (size_t i = 0; i < source->parts.count; i++)
        count += gguf_count(source->parts.files[i]);
    for (size_t i = 0; i < source->shard_count; i++)
        count += safetensors_count(source->shards[i]);
    source->tensors = calloc(count + 1, sizeof *source->tensors);
    if (!source->tensors)
        return file_fail(error, "out of memory for %zu tensors", count);
    for (size_t i = 0; i < source->parts.count; i++)
        if (take_tensors(source, i, source->parts.paths[i], error))
            return -1;
    for (size_t i = 0; i < source->shard_count; i++)
        if (take_tensors(source, i, source->shard_paths[i], error))
            return -1;
    return 0;
}

/* ---- shards ---- */

static int open_shards(quantize_source *source, const char *path, size_t count, file_error *error) {
    source->shards = calloc(count, sizeof *source->shards);
    source->shard_paths = calloc(count, sizeof *source->shard_paths);
    if (!source->shards || !source->shard_paths)
        return file_fail(error, "out of memory for %zu files", count);
    for (; source->shard_count < count; source->shard_count++) {
        const size_t i = source->shard_count;
        char *const name = source->index
                               ? quantize_path_beside(path, quantize_index_shard(source->index, i))
                               : strdup(path);
        source->shard_paths[i] = name;
        if (!name)
            return file_fail(error, "out of memory for a name");
        if (safetensors_open(name, &source->shards[i], error)) {
            free(name);
            return -1;
        }
    }
    return 0;
}

/* Every tensor of the index is in its shard, and the shards have no other. */
static int check_index(const quantize_source *source, const char *path, file_error *error) {
    const quantize_index *const index = source->index;
    for (size_t i = 0; i < quantize_index_count(index); i++) {
        const quantize_place *const place = quantize_index_at(index, i);
        if (!safetensors_find(source->shards[place->shard], place->tensor))
            return file_fail(error, "%s: tensor \"%s\" is not in %s", path,
                             file_printable(place->tensor).text,
                             file_printable(quantize_index_shard(index, place->shard)).text);
    }
    for (size_t i = 0; i < source->count; i++) {
        const quantize_tensor *const tensor = &source->tensors[i];
        const quantize_place *const place = quantize_index_find(index, tensor->name);
        if (!place || place->shard != tensor->shard)
            return file_fail(error, "%s: tensor \"%s\" of %s is %s", path,
                             file_printable(tensor->name).text,
                             file_printable(quantize_index_shard(index, tensor->shard)).text,
                             place ? "in another shard by the index" : "not in the index");
    }
    return 0;
}

static int compare_names(const void *left, const void *right) {
    const quantize_tensor *const *a = left;
    const quantize_tensor *const *b = right;
    return strcmp((*a)->name, (*b)->name);
}

static int sort_names(quantize_source *source, file_error *error) {
    source->by_name = calloc(source->count + 1, sizeof *source->by_name);
    if (!source->by_name)
        return file_fail(error, "out of memory for %zu tensors", source->count);
    for (size_t i = 0; i < source->count; i++)
        source->by_name[i] = &source->tensors[i];
    qsort(source->by_name, source->count, sizeof *source->by_name, compare_names);
    return 0;
}

/* Checkpoints come as folders. */
static int refuse_folder(const char *path, file_error *error) {
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode)
               ? file_fail(error,
                           "%s is a folder: name its model.safetensors, or of shards their "
                           "model.safetensors.index.json",
                           path)
               : 0;
}

static int open_files(const char *path, quantize_source *source, file_error *error) {
    if (refuse_folder(path, error))
        return -1;
    if (quantize_is_gguf(path)) {
        if (gguf_parts_open(path, &source->parts, error))
            return -1;
        source->gguf = source->parts.files[0];
        return 0;
    }
    if (!quantize_is_index(path))
        return open_shards(source, path, 1, error);
    return quantize_index_open(path, &source->index, error) ||
                   open_shards(source, path, quantize_index_shards(source->index), error)
               ? -1
               : 0;
}

int quantize_source_open(const char *path, quantize_source *source, file_error *error) {
    memset(source, 0, sizeof *source);
    if (open_files(path, source, error) || take_all(source, error) ||
        (source->index && check_index(source, path, error)) || sort_names(source, error) ||
        quantize_scaled_mark(source, error)) {
        quantize_source_close(source);
        return -1;
    }
    return 0;
}

void quantize_source_close(quantize_source *source) {
    for (size_t i = 0; i < source->shard_count; i++) {
        safetensors_close(source->shards[i]);
        free(source->shard_paths[i]);
    }
    free(source->shards);
    free(source->shard_paths);
    quantize_index_close(source->index);
    gguf_parts_close(&source->parts);
    free(source->by_name);
    free(source->tensors);
    memset(source, 0, sizeof *source);
}

const char *quantize_source_metadata(const quantize_source *source, const char *key) {
    const char *text = NULL;
    for (size_t i = 0; i < source->shard_count && !text; i++)
        text = safetensors_metadata(source->shards[i], key);
    return text;
}

const quantize_tensor *quantize_source_find(const quantize_source *source, const char *name) {
    const quantize_tensor key = {.name = name};
    const quantize_tensor *const key_pointer = &key;
    const quantize_tensor *const *const found = bsearch(
        &key_pointer, source->by_name, source->count, sizeof *source->by_name, compare_names);
    return found ? *found : NULL;
}

/* ---- elements ---- */

const char *quantize_storage_name(const quantize_tensor *tensor) {
    if (tensor->storage == QUANTIZE_CODED)
        return tensor->weight->scheme;
    if (tensor->storage == QUANTIZE_PLAIN)
        return safetensors_dtype_name(tensor->dtype);
    if (tensor->storage == QUANTIZE_FOREIGN)
        return tensor->foreign_name;
    return tensor->storage == QUANTIZE_Q8_0 ? "Q8_0" : "Q4_0";
}

tdm_dtype quantize_float_dtype(const quantize_tensor *tensor) {
    if (tensor->storage != QUANTIZE_PLAIN)
        return tensor->storage == QUANTIZE_FOREIGN ? TDM_DTYPE_NONE : TDM_F32;
    switch (tensor->dtype) {
    case SAFETENSORS_F32:
        return TDM_F32;
    case SAFETENSORS_F16:
        return TDM_F16;
    case SAFETENSORS_BF16:
        return TDM_BF16;
    case SAFETENSORS_F64:
        return TDM_F64;
    default:
        return TDM_DTYPE_NONE;
    }
}

int quantize_is_small_float(const quantize_tensor *tensor) {
    return tensor->storage == QUANTIZE_PLAIN &&
           (tensor->dtype == SAFETENSORS_F8_E4M3 || tensor->dtype == SAFETENSORS_F8_E5M2);
}

int quantize_is_float(const quantize_tensor *tensor) {
    return quantize_float_dtype(tensor) != TDM_DTYPE_NONE || quantize_is_small_float(tensor);
}

int64_t quantize_element_count(const quantize_tensor *tensor) {
    int64_t count = 1;
    for (int i = 0; i < tensor->rank; i++)
        count *= tensor->shape[i]; /* the readers have checked that it does not overflow */
    return count;
}

size_t quantize_storage_bytes(const quantize_tensor *tensor, int64_t count) {
    switch (tensor->storage) {
    case QUANTIZE_Q8_0:
        return (size_t)count / TDM_QUANT_BLOCK_ELEMENTS * TDM_QUANT_Q8_0_BYTES;
    case QUANTIZE_Q4_0:
        return (size_t)count / TDM_QUANT_BLOCK_ELEMENTS * TDM_QUANT_Q4_0_BYTES;
    case QUANTIZE_CODED:
        return tensor->weight->dtype == TDM_S4 ? ((size_t)count + 1) / 2 : (size_t)count;
    default:
        return (size_t)count * safetensors_dtype_bytes(tensor->dtype);
    }
}

static void read_halves(const unsigned char *from, int64_t count, float (*widen)(uint16_t),
                        float *values) {
    for (int64_t i = 0; i < count; i++) {
        uint16_t bits;
        memcpy(&bits, from + 2 * i, sizeof bits);
        values[i] = widen(bits);
    }
}

/* Sign, 4 bits of exponent with a bias of 7, 3 of mantissa; no infinity, one NaN. */
static float f32_from_f8e4m3(unsigned char bits) {
    const int exponent = bits >> 3 & 15;
    const int mantissa = bits & 7;
    if (exponent == 15 && mantissa == 7)
        return NAN;
    const float magnitude =
        exponent == 0 ? (float)mantissa * 0x1p-9f : ldexpf((float)(8 + mantissa), exponent - 10);
    return bits & 0x80 ? -magnitude : magnitude;
}

/* The upper half of an f16. */
static float f32_from_f8e5m2(unsigned char bits) {
    return tdm_f32_from_f16((uint16_t)(bits << 8));
}

static void read_bytes(const unsigned char *from, int64_t count, float (*widen)(unsigned char),
                       float *values) {
    for (int64_t i = 0; i < count; i++)
        values[i] = widen(from[i]);
}

static void read_plain(const quantize_tensor *tensor, const unsigned char *from, int64_t count,
                       float *values) {
    switch (tensor->dtype) {
    case SAFETENSORS_F32:
        memcpy(values, from, (size_t)count * sizeof *values);
        return;
    case SAFETENSORS_F16:
        read_halves(from, count, tdm_f32_from_f16, values);
        return;
    case SAFETENSORS_BF16:
        read_halves(from, count, tdm_f32_from_bf16, values);
        return;
    case SAFETENSORS_F8_E4M3:
        read_bytes(from, count, f32_from_f8e4m3, values);
        return;
    case SAFETENSORS_F8_E5M2:
        read_bytes(from, count, f32_from_f8e5m2, values);
        return;
    default:
        for (int64_t i = 0; i < count; i++)
            values[i] = (float)tdm_number_get(TDM_F64, from, (size_t)i);
    }
}

void quantize_read_floats(const quantize_tensor *tensor, int64_t first, int64_t count,
                          float *values) {
    const unsigned char *const from =
        (const unsigned char *)tensor->data + quantize_storage_bytes(tensor, first);
    const size_t blocks = (size_t)count / TDM_QUANT_BLOCK_ELEMENTS;
    if (tensor->storage == QUANTIZE_CODED)
        quantized_weight_floats(tensor->weight, first, count, values);
    else if (tensor->storage == QUANTIZE_Q8_0)
        tdm_quant_q8_0_decode(from, blocks, values);
    else if (tensor->storage == QUANTIZE_Q4_0)
        tdm_quant_q4_0_decode(from, blocks, values);
    else
        read_plain(tensor, from, count, values);
    if (tensor->scaling) /* the tensor may be one matrix of those that have the scales */
        quantize_scaling_apply(tensor->scaling,
                               from - (const unsigned char *)tensor->scaling->codes, count, values);
}

void quantize_release(const quantize_tensor *tensor, int64_t first, int64_t count) {
    file_release_pages(tensor->floor,
                       (const unsigned char *)tensor->data + quantize_storage_bytes(tensor, first),
                       quantize_storage_bytes(tensor, count));
    if (first + count < quantize_element_count(tensor))
        return;
    if (tensor->storage == QUANTIZE_CODED)
        quantized_weight_release_parameters(tensor->weight, tensor->floor);
    if (tensor->scaling)
        quantize_scaling_release(tensor->scaling);
}
