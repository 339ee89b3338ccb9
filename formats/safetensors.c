#include "formats/safetensors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "formats/file_mapping.h"
#include "formats/json_file.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "safetensors data is little-endian");

enum {
    LENGTH_BYTES = 8,
    MAX_DEPTH = 127 /* the limit of the reference reader */
};

struct safetensors_file {
    file_mapping mapping; /* empty for a file in memory */
    cJSON *header;        /* owns the names and the metadata */
    const cJSON *metadata;
    safetensors_pair *pairs; /* the metadata, sorted by key */
    size_t pair_count;
    safetensors_tensor *tensors; /* in the order of their data */
    const safetensors_tensor **by_name;
    size_t count;
};

typedef struct byte_range {
    uint64_t begin;
    uint64_t end;
} byte_range;

static const struct {
    const char *name;
    size_t bits;
} dtype_rows[SAFETENSORS_DTYPES] = {
#define SAFETENSORS_DTYPE_ROW(name, text, bits) [name] = {text, bits},
    SAFETENSORS_DTYPE_LIST(SAFETENSORS_DTYPE_ROW)
#undef SAFETENSORS_DTYPE_ROW
};

const char *safetensors_dtype_name(safetensors_dtype dtype) {
    return (unsigned)dtype < SAFETENSORS_DTYPES ? dtype_rows[dtype].name : "unknown";
}

size_t safetensors_dtype_bits(safetensors_dtype dtype) {
    return (unsigned)dtype < SAFETENSORS_DTYPES ? dtype_rows[dtype].bits : 0;
}

size_t safetensors_dtype_bytes(safetensors_dtype dtype) {
    return (safetensors_dtype_bits(dtype) + 7) / 8;
}

/* ---- JSON values ---- */

/* Reads a whole number that a double holds exactly. */
static int whole_number(const cJSON *item, uint64_t *value) {
    static const double largest = 9007199254740991.0; /* 2^53 - 1 */
    if (!cJSON_IsNumber(item))
        return 0;
    const double number = item->valuedouble;
    if (!(number >= 0.0 && number <= largest) || number != floor(number))
        return 0;
    *value = (uint64_t)number;
    return 1;
}

/* ---- one tensor ---- */

static int read_dtype(const cJSON *item, const char *name, safetensors_dtype *dtype,
                      safetensors_error *error) {
    if (!cJSON_IsString(item))
        return file_fail(error, "tensor \"%s\" has no dtype", name);
    for (int i = 0; i < SAFETENSORS_DTYPES; i++)
        if (!strcmp(item->valuestring, dtype_rows[i].name)) {
            *dtype = (safetensors_dtype)i;
            return 0;
        }
    return file_fail(error, "tensor \"%s\" has the unknown dtype \"%s\"", name,
                     file_printable(item->valuestring).text);
}

static int read_shape(const cJSON *item, const char *name, safetensors_tensor *tensor,
                      uint64_t *bytes, safetensors_error *error) {
    if (!cJSON_IsArray(item))
        return file_fail(error, "tensor \"%s\" has no shape", name);
    uint64_t bits = safetensors_dtype_bits(tensor->dtype);
    tensor->rank = 0;
    const cJSON *dimension;
    cJSON_ArrayForEach(dimension, item) {
        uint64_t extent;
        if (tensor->rank == SAFETENSORS_MAX_RANK)
            return file_fail(error, "tensor \"%s\" has more than %d dimensions", name,
                             SAFETENSORS_MAX_RANK);
        if (!whole_number(dimension, &extent))
            return file_fail(error,
                             "dimension %d of tensor \"%s\" is not an integer from 0 to 2^53 - 1",
                             tensor->rank, name);
        if (__builtin_mul_overflow(bits, extent, &bits) || bits > INT64_MAX)
            return file_fail(error, "the shape of tensor \"%s\" overflows 64 bits", name);
        tensor->shape[tensor->rank++] = (int64_t)extent;
    }
    if (bits % 8 != 0)
        return file_fail(error, "the %llu bits of tensor \"%s\" are not whole bytes",
                         (unsigned long long)bits, name);
    *bytes = bits / 8;
    return 0;
}

static int read_range(const cJSON *item, const char *name, uint64_t data_bytes, byte_range *range,
                      safetensors_error *error) {
    if (!cJSON_IsArray(item) || cJSON_GetArraySize(item) != 2)
        return file_fail(error, "tensor \"%s\" has no data_offsets with two numbers", name);
    if (!whole_number(item->child, &range->begin) || !whole_number(item->child->next, &range->end))
        return file_fail(
            error, "a data offset of tensor \"%s\" is not an integer from 0 to 2^53 - 1", name);
    if (range->end < range->begin)
        return file_fail(error, "tensor \"%s\" ends at byte %llu, before its start at %llu", name,
                         (unsigned long long)range->end, (unsigned long long)range->begin);
    if (range->end > data_bytes)
        return file_fail(error,
                         "tensor \"%s\" ends at byte %llu, but the file holds %llu bytes of data",
                         name, (unsigned long long)range->end, (unsigned long long)data_bytes);
    return 0;
}

/* Unknown members of the entry are ignored. */
static int read_tensor(const cJSON *item, const unsigned char *data, uint64_t data_bytes,
                       safetensors_tensor *tensor, safetensors_error *error) {
    enum {
        DTYPE,
        SHAPE,
        DATA_OFFSETS,
        MEMBERS
    };
    static const char *const keys[MEMBERS] = {"dtype", "shape", "data_offsets"};
    const cJSON *members[MEMBERS] = {NULL};
    const file_name printable = file_printable(item->string);
    const char *const name = printable.text;
    if (!cJSON_IsObject(item))
        return file_fail(error, "tensor \"%s\" is not an object", name);
    const cJSON *member;
    cJSON_ArrayForEach(member, item) {
        for (int i = 0; i < MEMBERS; i++) {
            if (strcmp(member->string, keys[i]) != 0)
                continue;
            if (members[i])
                return file_fail(error, "member \"%s\" appears twice in %s", keys[i], name);
            members[i] = member;
        }
    }
    uint64_t bytes = 0;
    byte_range range = {0, 0};
    if (read_dtype(members[DTYPE], name, &tensor->dtype, error) ||
        read_shape(members[SHAPE], name, tensor, &bytes, error) ||
        read_range(members[DATA_OFFSETS], name, data_bytes, &range, error))
        return -1;
    if (range.end - range.begin != bytes)
        return file_fail(error, "tensor \"%s\" claims %llu bytes of data, but its shape needs %llu",
                         name, (unsigned long long)(range.end - range.begin),
                         (unsigned long long)bytes);
    tensor->name = item->string;
    tensor->data = data + range.begin;
    tensor->bytes = (size_t)bytes;
    return 0;
}

/* ---- all tensors ---- */

static int compare_places(const void *left, const void *right) {
    const safetensors_tensor *const a = left;
    const safetensors_tensor *const b = right;
    const uintptr_t a_begin = (uintptr_t)a->data;
    const uintptr_t b_begin = (uintptr_t)b->data;
    if (a_begin != b_begin)
        return a_begin < b_begin ? -1 : 1;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? -1 : 1;
    return strcmp(a->name, b->name);
}

static int compare_names(const void *left, const void *right) {
    const safetensors_tensor *const *a = left;
    const safetensors_tensor *const *b = right;
    return strcmp((*a)->name, (*b)->name);
}

/* Checks that the tensors, in order, cover the data without gaps and overlaps. */
static int check_cover(const safetensors_file *file, const unsigned char *data, uint64_t data_bytes,
                       safetensors_error *error) {
    uint64_t covered = 0;
    const char *former = "";
    for (size_t i = 0; i < file->count; i++) {
        const safetensors_tensor *const tensor = &file->tensors[i];
        const uint64_t begin = (uint64_t)((const unsigned char *)tensor->data - data);
        if (begin < covered)
            return file_fail(error, "tensors \"%s\" and \"%s\" overlap at byte %llu",
                             file_printable(former).text, file_printable(tensor->name).text,
                             (unsigned long long)begin);
        if (begin > covered)
            return file_fail(error, "there is a gap of %llu bytes before tensor \"%s\"",
                             (unsigned long long)(begin - covered),
                             file_printable(tensor->name).text);
        covered = begin + tensor->bytes;
        former = tensor->name;
    }
    if (covered != data_bytes)
        return file_fail(error, "%llu bytes after the last tensor belong to no tensor",
                         (unsigned long long)(data_bytes - covered));
    return 0;
}

static int compare_keys(const void *left, const void *right) {
    const safetensors_pair *const a = left;
    const safetensors_pair *const b = right;
    return strcmp(a->key, b->key);
}

static int read_metadata(safetensors_file *file, safetensors_error *error) {
    const cJSON *item;
    size_t count = 0;
    file->metadata = cJSON_GetObjectItemCaseSensitive(file->header, "__metadata__");
    if (file->metadata && !cJSON_IsObject(file->metadata) && !cJSON_IsNull(file->metadata))
        return file_fail(error, "__metadata__ is not an object");
    cJSON_ArrayForEach(item, file->metadata) count++;
    file->pairs = calloc(count + 1, sizeof *file->pairs);
    if (!file->pairs)
        return file_fail(error, "out of memory for the metadata");
    cJSON_ArrayForEach(item, file->metadata) {
        if (!cJSON_IsString(item))
            return file_fail(error, "\"%s\" of __metadata__ is not a string",
                             file_printable(item->string).text);
        file->pairs[file->pair_count++] = (safetensors_pair){item->string, item->valuestring};
    }
    qsort(file->pairs, count, sizeof *file->pairs, compare_keys);
    for (size_t i = 1; i < count; i++)
        if (!strcmp(file->pairs[i - 1].key, file->pairs[i].key))
            return file_fail(error, "\"%s\" appears twice in __metadata__",
                             file_printable(file->pairs[i].key).text);
    return 0;
}

static int read_tensors(safetensors_file *file, const unsigned char *data, uint64_t data_bytes,
                        safetensors_error *error) {
    size_t members = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, file->header) members++;
    file->tensors = calloc(members + 1, sizeof *file->tensors);
    file->by_name = calloc(members + 1, sizeof *file->by_name);
    if (!file->tensors || !file->by_name)
        return file_fail(error, "out of memory for %zu tensors", members);
    cJSON_ArrayForEach(item, file->header) {
        if (item == file->metadata)
            continue;
        if (!strcmp(item->string, "__metadata__"))
            return file_fail(error, "\"__metadata__\" appears twice in the header");
        if (read_tensor(item, data, data_bytes, &file->tensors[file->count], error))
            return -1;
        file->count++;
    }
    qsort(file->tensors, file->count, sizeof *file->tensors, compare_places);
    for (size_t i = 0; i < file->count; i++)
        file->by_name[i] = &file->tensors[i];
    qsort(file->by_name, file->count, sizeof *file->by_name, compare_names);
    /* JSON does not define duplicate members, so such a header would be ambiguous. */
    for (size_t i = 1; i < file->count; i++)
        if (!strcmp(file->by_name[i - 1]->name, file->by_name[i]->name))
            return file_fail(error, "\"%s\" appears twice in the header",
                             file_printable(file->by_name[i]->name).text);
    return check_cover(file, data, data_bytes, error);
}

/* ---- the file ---- */

static int check_length(size_t size, uint64_t length, safetensors_error *error) {
    if (length > SAFETENSORS_MAX_HEADER)
        return file_fail(
            error,
            "not a safetensors file: the header length of %llu bytes is above the limit of %d",
            (unsigned long long)length, SAFETENSORS_MAX_HEADER);
    if (length > size - LENGTH_BYTES)
        return file_fail(
            error, "the file is truncated: its header needs %llu bytes, but only %zu are present",
            (unsigned long long)length, size - LENGTH_BYTES);
    return 0;
}

static int read_header(safetensors_file *file, const unsigned char *bytes, size_t size,
                       safetensors_error *error) {
    uint64_t length;
    if (size < LENGTH_BYTES)
        return file_fail(error, "the file is truncated: %zu bytes, less than a header length",
                         size);
    memcpy(&length, bytes, sizeof length);
    if (check_length(size, length, error))
        return -1;
    const char *const text = (const char *)bytes + LENGTH_BYTES;
    file->header = json_object_parse("the header", text, (size_t)length, MAX_DEPTH, error);
    if (!file->header || read_metadata(file, error))
        return -1;
    const size_t data_begin = LENGTH_BYTES + (size_t)length;
    return read_tensors(file, bytes + data_begin, size - data_begin, error);
}

int safetensors_parse(const void *bytes, size_t size, safetensors_file **file,
                      safetensors_error *error) {
    *file = NULL;
    safetensors_file *const made = calloc(1, sizeof *made);
    if (!made)
        return file_fail(error, "out of memory");
    if (read_header(made, bytes, size, error)) {
        safetensors_close(made);
        return -1;
    }
    *file = made;
    return 0;
}

int safetensors_open(const char *path, safetensors_file **file, safetensors_error *error) {
    file_mapping mapping;
    *file = NULL;
    if (file_map(path, LENGTH_BYTES, &mapping, error))
        return -1;
    safetensors_error inner;
    if (safetensors_parse(mapping.bytes, mapping.size, file, &inner)) {
        file_unmap(&mapping);
        return file_fail(error, "%s: %s", path, inner.text);
    }
    (*file)->mapping = mapping;
    return 0;
}

void safetensors_close(safetensors_file *file) {
    if (!file)
        return;
    file_unmap(&file->mapping);
    cJSON_Delete(file->header);
    free(file->pairs);
    free(file->by_name);
    free(file->tensors);
    free(file);
}

size_t safetensors_count(const safetensors_file *file) {
    return file->count;
}

const safetensors_tensor *safetensors_at(const safetensors_file *file, size_t index) {
    return index < file->count ? &file->tensors[index] : NULL;
}

const safetensors_tensor *safetensors_find(const safetensors_file *file, const char *name) {
    const safetensors_tensor key = {.name = name};
    const safetensors_tensor *const key_pointer = &key;
    const safetensors_tensor *const *const found =
        bsearch(&key_pointer, file->by_name, file->count, sizeof *file->by_name, compare_names);
    return found ? *found : NULL;
}

const char *safetensors_metadata(const safetensors_file *file, const char *key) {
    const safetensors_pair wanted = {.key = key};
    const safetensors_pair *const found =
        bsearch(&wanted, file->pairs, file->pair_count, sizeof *file->pairs, compare_keys);
    return found ? found->value : NULL;
}

safetensors_pair safetensors_metadata_at(const safetensors_file *file, size_t index) {
    return index < file->pair_count ? file->pairs[index] : (safetensors_pair){NULL, NULL};
}
