#include "formats/checkpoint/quantize_source.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "formats/checkpoint/quantize_read.h"
#include "formats/file_mapping.h"
#include "quant/number_formats.h"
#include "quant/quant_blocks.h"

int quantize_is_gguf(const char *path) {
    static const char suffix[] = ".gguf";
    const size_t length = strlen(path);
    return length >= sizeof suffix - 1 && !strcasecmp(path + length - (sizeof suffix - 1), suffix);
}

/* ---- safetensors ---- */

/* A safetensors file stores blocks as U8 of shape rows x bytes. The metadata describes them. */
static int take_blocks(const safetensors_tensor *from, const quantize_layout *layout,
                       quantize_tensor *to, file_error *error) {
    if (quantize_layout_check(layout, from, error))
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

static const struct {
    gguf_type type;
    quantize_storage storage;
    safetensors_dtype dtype;
} gguf_rows[] = {
    {GGUF_F32, QUANTIZE_PLAIN, SAFETENSORS_F32},   {GGUF_F16, QUANTIZE_PLAIN, SAFETENSORS_F16},
    {GGUF_BF16, QUANTIZE_PLAIN, SAFETENSORS_BF16}, {GGUF_F64, QUANTIZE_PLAIN, SAFETENSORS_F64},
    {GGUF_I8, QUANTIZE_PLAIN, SAFETENSORS_I8},     {GGUF_I16, QUANTIZE_PLAIN, SAFETENSORS_I16},
    {GGUF_I32, QUANTIZE_PLAIN, SAFETENSORS_I32},   {GGUF_I64, QUANTIZE_PLAIN, SAFETENSORS_I64},
    {GGUF_Q8_0, QUANTIZE_Q8_0, SAFETENSORS_U8},    {GGUF_Q4_0, QUANTIZE_Q4_0, SAFETENSORS_U8},
};

int quantize_gguf_type(quantize_storage storage, safetensors_dtype dtype, gguf_type *type) {
    for (size_t i = 0; i < sizeof gguf_rows / sizeof *gguf_rows; i++)
        if (gguf_rows[i].storage == storage && gguf_rows[i].dtype == dtype) {
            *type = gguf_rows[i].type;
            return 1;
        }
    return 0;
}

static void take_gguf(const gguf_tensor *from, quantize_tensor *to) {
    *to = (quantize_tensor){
        .name = from->name, .rank = from->rank, .data = from->data, .bytes = from->bytes};
    memcpy(to->shape, from->shape, sizeof from->shape);
    for (size_t i = 0; i < sizeof gguf_rows / sizeof *gguf_rows; i++)
        if (gguf_rows[i].type == from->type) {
            to->storage = gguf_rows[i].storage;
            to->dtype = gguf_rows[i].dtype;
        }
}

/* ---- the source ---- */

/* Takes the tensors of the GGUF file, or of one shard. */
static int take_tensors(quantize_source *source, size_t shard, file_error *error) {
    file_error inner;
    const safetensors_file *const file = source->gguf ? NULL : source->shards[shard];
    const size_t count = file ? safetensors_count(file) : gguf_count(source->gguf);
    const size_t first = source->count;
    for (size_t i = 0; i < count; i++, source->count++) {
        quantize_tensor *const to = &source->tensors[source->count];
        if (!file)
            take_gguf(gguf_at(source->gguf, i), to);
        else if (take_safetensors(file, i, to, &inner))
            return file_fail(error, "%s: %s", source->paths[shard], inner.text);
        to->floor = source->tensors[first].data;
        to->shard = shard;
    }
    return 0;
}

static int take_all(quantize_source *source, file_error *error) {
    size_t count = source->gguf ? gguf_count(source->gguf) : 0;
    for (size_t i = 0; i < source->shard_count; i++)
        count += safetensors_count(source->shards[i]);
    source->tensors = calloc(count + 1, sizeof *source->tensors);
    if (!source->tensors)
        return file_fail(error, "out of memory for %zu tensors", count);
    for (size_t i = 0; i < source->path_count; i++)
        if (take_tensors(source, i, error))
            return -1;
    return 0;
}

/* ---- shards ---- */

/* Opens a single file, or the shards of an index, which are in the folder of the index. */
static int open_shards(quantize_source *source, const char *path, file_error *error) {
    const quantize_index *const index = &source->index;
    const char *const slash = index->count > 0 ? strrchr(path, '/') : NULL;
    const int folder = slash ? (int)(slash - path) + 1 : 0;
    for (; source->shard_count < source->path_count; source->shard_count++) {
        const size_t i = source->shard_count;
        const char *const name = index->count > 0 ? index->shards[i] : path;
        const size_t size = (size_t)folder + strlen(name) + 1;
        source->paths[i] = malloc(size);
        if (!source->paths[i])
            return file_fail(error, "out of memory for a name");
        snprintf(source->paths[i], size, "%.*s%s", folder, path, name);
        if (safetensors_open(source->paths[i], &source->shards[i], error))
            return -1;
    }
    return 0;
}

/* Checks that every tensor of the index is in its shard, and that the shards have no others. */
static int check_index(const quantize_source *source, const char *path, file_error *error) {
    const quantize_index *const index = &source->index;
    for (size_t i = 0; i < source->count; i++) {
        const quantize_tensor *const tensor = &source->tensors[i];
        const char *const own = index->shards[tensor->shard];
        const char *const shard = quantize_index_shard_of(index, tensor->name);
        if (!shard || strcmp(shard, own) != 0)
            return file_fail(error, "%s: tensor \"%s\" of %s is %s", path,
                             file_printable(tensor->name).text, file_printable(own).text,
                             shard ? "in another shard according to the index"
                                   : "not in the index");
    }
    return source->count == index->count
               ? 0
               : file_fail(error, "%s: the index names %zu tensors, but the shards have %zu", path,
                           index->count, source->count);
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

/* Refuses a folder and names the file to give instead, because checkpoints come as folders. */
static int refuse_folder(const char *path, file_error *error) {
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode)
               ? file_fail(error,
                           "%s is a folder: name its model.safetensors, or its "
                           "model.safetensors.index.json if it is sharded",
                           path)
               : 0;
}

/* Refuses a part of a split model, which holds only some of its tensors. */
static int check_part(const gguf_file *gguf, const char *path, file_error *error) {
    const gguf_value *const value = gguf_value_find(gguf, "split.count");
    uint64_t count = 0;
    if (value)
        memcpy(&count, value->data, value->bytes < sizeof count ? value->bytes : sizeof count);
    return count > 1 ? file_fail(error,
                                 "%s is one of several parts: join them first, for instance with "
                                 "llama-gguf-split --merge",
                                 path)
                     : 0;
}

static int open_files(const char *path, quantize_source *source, file_error *error) {
    const int is_gguf = quantize_is_gguf(path);
    if (refuse_folder(path, error) ||
        (quantize_is_index(path) && quantize_index_open(path, &source->index, error)))
        return -1;
    source->path_count = source->index.count > 0 ? source->index.shard_count : 1;
    source->shards = calloc(source->path_count, sizeof *source->shards);
    source->paths = calloc(source->path_count, sizeof *source->paths);
    if (!source->shards || !source->paths)
        return file_fail(error, "out of memory for %zu files", source->path_count);
    if (!is_gguf)
        return open_shards(source, path, error);
    source->paths[0] = strdup(path);
    if (!source->paths[0])
        return file_fail(error, "out of memory for a name");
    return gguf_open(path, &source->gguf, error) || check_part(source->gguf, path, error) ? -1 : 0;
}

/*
 * Returns 1 if elements have 8 bits or less and are not quantized values of this program. Scales
 * next to such a tensor belong to it.
 */
static int is_narrow(const quantize_tensor *tensor) {
    return tensor->storage == QUANTIZE_PLAIN && !tensor->has_codes &&
           tensor->dtype != SAFETENSORS_BOOL && safetensors_dtype_bits(tensor->dtype) <= 8;
}

/*
 * Marks scales and zero points of quantized values that this program wrote. It also marks those of
 * other programs' tensors of 8 bits or less, including 8-bit floats.
 */
static int mark_scales(quantize_source *source, file_error *error) {
    static const struct {
        const char *suffix;
        int of_layer; /* 1: follows the layer's name; 0: the tensor's name */
        int is_ours;  /* in files of this program: 0 never, 1 always, 2 with zero points */
    } names[] = {{QUANTIZE_SCALE_SUFFIX, 0, 1},
                 {QUANTIZE_ZERO_SUFFIX, 0, 2},
                 {QUANTIZE_SCALE_SUFFIX "_inv", 0, 0},
                 {".scale_weight", 1, 0},
                 {".input" QUANTIZE_SCALE_SUFFIX, 1, 0},
                 {".scale_input", 1, 0},
                 {".activation" QUANTIZE_SCALE_SUFFIX, 1, 0}};
    for (size_t i = 0; i < source->count; i++) {
        const quantize_tensor *const tensor = &source->tensors[i];
        const int ours = tensor->has_codes ? 1 + tensor->has_zero_points : 0;
        if (!ours && !is_narrow(tensor))
            continue;
        char *const layer = quantize_layer_name(tensor->name);
        for (size_t n = 0; layer && n < sizeof names / sizeof *names; n++) {
            if (ours ? names[n].is_ours == 0 || names[n].is_ours > ours : names[n].is_ours == 2)
                continue;
            char *const name =
                quantize_join(names[n].of_layer ? layer : tensor->name, names[n].suffix);
            const quantize_tensor *const found = name ? quantize_source_find(source, name) : NULL;
            free(name);
            if (found)
                source->tensors[found - source->tensors].owner = tensor;
        }
        free(layer);
        if (!layer)
            return file_fail(error, "out of memory for a name");
    }
    return 0;
}

int quantize_source_open(const char *path, quantize_source *source, file_error *error) {
    memset(source, 0, sizeof *source);
    if (open_files(path, source, error) || take_all(source, error) ||
        (source->index.count > 0 && check_index(source, path, error)) ||
        sort_names(source, error) || mark_scales(source, error)) {
        quantize_source_close(source);
        return -1;
    }
    return 0;
}

void quantize_source_close(quantize_source *source) {
    for (size_t i = 0; i < source->shard_count; i++)
        safetensors_close(source->shards[i]);
    for (size_t i = 0; source->paths && i < source->path_count; i++)
        free(source->paths[i]);
    free(source->shards);
    free(source->paths);
    quantize_index_close(&source->index);
    gguf_close(source->gguf);
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
    return tensor->storage == QUANTIZE_Q8_0 ? "Q8_0" : "Q4_0";
}

tdm_dtype quantize_float_dtype(const quantize_tensor *tensor) {
    if (tensor->storage != QUANTIZE_PLAIN)
        return TDM_F32;
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

int quantize_is_float(const quantize_tensor *tensor) {
    return quantize_float_dtype(tensor) != TDM_DTYPE_NONE;
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
    if (tensor->storage == QUANTIZE_Q8_0)
        tdm_quant_q8_0_decode(from, blocks, values);
    else if (tensor->storage == QUANTIZE_Q4_0)
        tdm_quant_q4_0_decode(from, blocks, values);
    else if (tensor->storage == QUANTIZE_CODED)
        quantized_weight_floats(tensor->weight, first, count, values);
    else
        read_plain(tensor, from, count, values);
}

void quantize_release(const quantize_tensor *tensor, int64_t first, int64_t count) {
    file_release_pages(tensor->floor,
                       (const unsigned char *)tensor->data + quantize_storage_bytes(tensor, first),
                       quantize_storage_bytes(tensor, count));
    if (tensor->weight && first + count == quantize_element_count(tensor))
        quantized_weight_release_parameters(tensor->weight);
}
