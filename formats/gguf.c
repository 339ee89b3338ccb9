#include "formats/gguf.h"

#include <stdlib.h>
#include <string.h>

#include "formats/file_mapping.h"
#include "formats/utf8_text.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "gguf data is little-endian");

enum {
    MIN_FILE_BYTES = 24, /* magic, version, two counts */
    MIN_TENSOR_BYTES = 8 + 1 + 4 + 4 + 8,
    MIN_VALUE_BYTES = 8 + 1 + 4 + 1
};

/* A tensor as the file lists it, before its offset is checked. */
typedef struct gguf_entry {
    gguf_tensor tensor;
    uint64_t offset;
} gguf_entry;

struct gguf_file {
    file_mapping mapping; /* empty for a file in memory */
    gguf_value *values;
    size_t value_count;
    gguf_entry *entries; /* in the order of their data */
    size_t tensor_count;
    char **texts; /* names and keys; they are not NUL-terminated in the file */
    size_t text_count;
    uint64_t alignment;
};

/* ---- bytes ---- */

typedef struct gguf_cursor {
    const unsigned char *next;
    const unsigned char *end;
} gguf_cursor;

static const size_t value_bytes[GGUF_VALUE_TYPES] = {
#define GGUF_VALUE_ROW(name, number, bytes) [name] = bytes,
    GGUF_VALUE_LIST(GGUF_VALUE_ROW)
#undef GGUF_VALUE_ROW
};

static const void *skip(gguf_cursor *cursor, uint64_t size) {
    if (size > (uint64_t)(cursor->end - cursor->next))
        return NULL;
    const void *const bytes = cursor->next;
    cursor->next += size;
    return bytes;
}

static int take(gguf_cursor *cursor, void *target, size_t size) {
    const void *const bytes = skip(cursor, size);
    if (!bytes)
        return -1;
    memcpy(target, bytes, size);
    return 0;
}

char *gguf_copy_text(const void *bytes, size_t length) {
    char *const text = malloc(length + 1);
    if (text) {
        memcpy(text, bytes, length);
        text[length] = '\0';
    }
    return text;
}

static int skip_value(gguf_cursor *cursor, uint32_t type, int depth, const char *key,
                      file_error *error);

static int skip_array(gguf_cursor *cursor, int depth, const char *key, file_error *error) {
    uint32_t type;
    uint64_t count;
    if (depth == 0)
        return file_fail(error, "value \"%s\" has arrays in arrays beyond depth %d", key,
                         GGUF_MAX_ARRAY_DEPTH);
    if (take(cursor, &type, sizeof type) || take(cursor, &count, sizeof count))
        return file_fail(error, "the file is truncated in value \"%s\"", key);
    if (type >= GGUF_VALUE_TYPES)
        return file_fail(error, "the elements of value \"%s\" have the unknown type %u", key, type);
    /* Every element takes a byte or more, so the file's size limits the number of iterations. */
    if (count > (uint64_t)(cursor->end - cursor->next))
        return file_fail(error, "value \"%s\" claims %llu elements, more than the file has bytes",
                         key, (unsigned long long)count);
    for (uint64_t i = 0; i < count; i++)
        if (skip_value(cursor, type, depth - 1, key, error))
            return -1;
    return 0;
}

static int skip_bool(gguf_cursor *cursor, const char *key, file_error *error) {
    unsigned char value;
    if (take(cursor, &value, sizeof value))
        return file_fail(error, "the file is truncated in value \"%s\"", key);
    return value <= 1 ? 0
                      : file_fail(error, "value \"%s\" is a bool with the value %u", key, value);
}

static int skip_value(gguf_cursor *cursor, uint32_t type, int depth, const char *key,
                      file_error *error) {
    if (type >= GGUF_VALUE_TYPES)
        return file_fail(error, "value \"%s\" has the unknown type %u", key, type);
    if (type == GGUF_VALUE_ARRAY)
        return skip_array(cursor, depth, key, error);
    if (type == GGUF_VALUE_BOOL)
        return skip_bool(cursor, key, error);
    uint64_t bytes = value_bytes[type];
    if ((type == GGUF_VALUE_STRING && take(cursor, &bytes, sizeof bytes)) || !skip(cursor, bytes))
        return file_fail(error, "the file is truncated in value \"%s\"", key);
    return 0;
}

uint64_t gguf_align(uint64_t place, uint64_t alignment) {
    return (place + alignment - 1) / alignment * alignment;
}

/* ---- types ---- */

typedef struct type_row {
    uint32_t number;
    const char *name;
    int64_t elements;
    size_t bytes;
} type_row;

static const type_row type_rows[] = {
#define GGUF_TYPE_ROW(name, number, text, elements, bytes) {number, text, elements, bytes},
    GGUF_TYPE_LIST(GGUF_TYPE_ROW)
#undef GGUF_TYPE_ROW
};

static const type_row *type_of(uint32_t number) {
    for (size_t i = 0; i < sizeof type_rows / sizeof *type_rows; i++)
        if (type_rows[i].number == number)
            return &type_rows[i];
    return NULL;
}

/* ---- names ---- */

static int compare_texts(const void *left, const void *right) {
    const char *const *a = left;
    const char *const *b = right;
    return strcmp(*a, *b);
}

/* Reads a string of the file into a NUL-terminated copy. */
static int read_text(gguf_file *file, gguf_cursor *cursor, const char *what, size_t longest,
                     const char **text, file_error *error) {
    uint64_t length;
    if (take(cursor, &length, sizeof length))
        return file_fail(error, "the file is truncated in the length of %s", what);
    if (length == 0 || length > longest)
        return file_fail(error, "%s has %llu bytes, not 1 to %zu", what, (unsigned long long)length,
                         longest);
    const char *const bytes = skip(cursor, length);
    if (!bytes)
        return file_fail(error, "the file is truncated in %s", what);
    if (!utf8_is_plain(bytes, (size_t)length))
        return file_fail(error, "%s is not UTF-8 text without control characters", what);
    char *const copy = gguf_copy_text(bytes, (size_t)length);
    if (!copy)
        return file_fail(error, "out of memory for %s", what);
    file->texts[file->text_count++] = copy;
    *text = copy;
    return 0;
}

/* Sorts `count` of the file's strings from `first` on, and refuses duplicates. */
static int check_unique(gguf_file *file, size_t first, size_t count, const char *what,
                        file_error *error) {
    char **const texts = file->texts + first;
    qsort(texts, count, sizeof *texts, compare_texts);
    for (size_t i = 1; i < count; i++)
        if (!strcmp(texts[i - 1], texts[i]))
            return file_fail(error, "the %s \"%s\" appears twice", what,
                             file_printable(texts[i]).text);
    return 0;
}

/* ---- values ---- */

static int read_values(gguf_file *file, gguf_cursor *cursor, file_error *error) {
    for (size_t i = 0; i < file->value_count; i++) {
        gguf_value *const value = &file->values[i];
        uint32_t type;
        if (read_text(file, cursor, "the key of a value", GGUF_MAX_KEY, &value->key, error))
            return -1;
        const char *const key = value->key;
        if (take(cursor, &type, sizeof type))
            return file_fail(error, "the file is truncated in value \"%s\"",
                             file_printable(key).text);
        value->data = cursor->next;
        if (skip_value(cursor, type, GGUF_MAX_ARRAY_DEPTH, file_printable(key).text, error))
            return -1;
        value->type = (gguf_value_type)type;
        value->bytes = (size_t)(cursor->next - (const unsigned char *)value->data);
    }
    return check_unique(file, 0, file->value_count, "key", error);
}

static int read_alignment(gguf_file *file, file_error *error) {
    const gguf_value *const value = gguf_value_find(file, "general.alignment");
    uint32_t alignment = GGUF_DEFAULT_ALIGNMENT;
    if (value && value->type != GGUF_VALUE_U32)
        return file_fail(error, "general.alignment has the type %u, not u32", value->type);
    if (value)
        memcpy(&alignment, value->data, sizeof alignment);
    if (alignment == 0 || (alignment & (alignment - 1)) != 0 || alignment > GGUF_MAX_ALIGNMENT)
        return file_fail(error, "general.alignment is %u, not a power of two up to %d", alignment,
                         GGUF_MAX_ALIGNMENT);
    file->alignment = alignment;
    return 0;
}

/* ---- tensors ---- */

/* Reads the shape and the type. */
static int read_shape(gguf_cursor *cursor, const char *name, gguf_tensor *tensor,
                      file_error *error) {
    uint32_t rank;
    if (take(cursor, &rank, sizeof rank))
        return file_fail(error, "the file is truncated in tensor \"%s\"", name);
    if (rank > GGUF_MAX_RANK)
        return file_fail(error, "tensor \"%s\" has %u dimensions, not 0 to %d", name, rank,
                         GGUF_MAX_RANK);
    tensor->rank = (int)rank;
    for (int i = tensor->rank - 1; i >= 0; i--) {
        uint64_t extent;
        if (take(cursor, &extent, sizeof extent))
            return file_fail(error, "the file is truncated in tensor \"%s\"", name);
        if (extent > INT64_MAX)
            return file_fail(error, "dimension %d of tensor \"%s\" is %llu", i, name,
                             (unsigned long long)extent);
        tensor->shape[i] = (int64_t)extent;
    }
    uint32_t number;
    if (take(cursor, &number, sizeof number))
        return file_fail(error, "the file is truncated in tensor \"%s\"", name);
    tensor->type = (gguf_type)number;
    return 0;
}

static int tensor_bytes(const gguf_tensor *tensor, size_t *bytes, file_error *error) {
    const file_name name = file_printable(tensor->name);
    const type_row *const type = type_of(tensor->type);
    if (!type)
        return file_fail(error, "tensor \"%s\" has the type %u, which Tandem does not support",
                         name.text, tensor->type);
    const int64_t elements = type->elements;
    const int64_t row = tensor->rank > 0 ? tensor->shape[tensor->rank - 1] : 1;
    uint64_t total = type->bytes;
    if (row % elements != 0)
        return file_fail(
            error,
            "the last dimension of tensor \"%s\" is %lld, not a multiple of the %lld of a %s block",
            name.text, (long long)row, (long long)elements, type->name);
    for (int i = 0; i < tensor->rank; i++) {
        const int64_t extent = tensor->shape[i] / (i == tensor->rank - 1 ? elements : 1);
        if (__builtin_mul_overflow(total, (uint64_t)extent, &total) || total > INT64_MAX)
            return file_fail(error, "the shape of tensor \"%s\" overflows 64 bits", name.text);
    }
    *bytes = (size_t)total;
    return 0;
}

static int read_tensor(gguf_file *file, gguf_cursor *cursor, gguf_entry *entry, file_error *error) {
    gguf_tensor *const tensor = &entry->tensor;
    if (read_text(file, cursor, "the name of a tensor", GGUF_MAX_NAME, &tensor->name, error))
        return -1;
    const file_name name = file_printable(tensor->name);
    if (read_shape(cursor, name.text, tensor, error) || tensor_bytes(tensor, &tensor->bytes, error))
        return -1;
    if (take(cursor, &entry->offset, sizeof entry->offset))
        return file_fail(error, "the file is truncated in tensor \"%s\"", name.text);
    if (entry->offset % file->alignment != 0)
        return file_fail(
            error, "tensor \"%s\" begins at byte %llu, not a multiple of the alignment %llu",
            name.text, (unsigned long long)entry->offset, (unsigned long long)file->alignment);
    return 0;
}

static int compare_places(const void *left, const void *right) {
    const gguf_entry *const a = left;
    const gguf_entry *const b = right;
    if (a->offset != b->offset)
        return a->offset < b->offset ? -1 : 1;
    if (a->tensor.bytes != b->tensor.bytes)
        return a->tensor.bytes < b->tensor.bytes ? -1 : 1;
    return strcmp(a->tensor.name, b->tensor.name);
}

/*
 * Checks that the tensors follow each other, in the order of their data, with only padding between
 * them. Sets their addresses.
 */
static int place_tensors(gguf_file *file, const unsigned char *data, uint64_t data_bytes,
                         file_error *error) {
    uint64_t expected = 0;
    for (size_t i = 0; i < file->tensor_count; i++) {
        gguf_entry *const entry = &file->entries[i];
        const file_name name = file_printable(entry->tensor.name);
        if (entry->offset < expected)
            return file_fail(error, "tensor \"%s\" at byte %llu overlaps the previous tensor",
                             name.text, (unsigned long long)entry->offset);
        if (entry->offset > expected)
            return file_fail(error, "there is a gap of %llu bytes before tensor \"%s\"",
                             (unsigned long long)(entry->offset - expected), name.text);
        /* An empty tensor may follow padding that is left out at the end of the file. */
        const uint64_t offset = entry->offset < data_bytes ? entry->offset : data_bytes;
        if (entry->tensor.bytes > data_bytes - offset)
            return file_fail(
                error, "tensor \"%s\" of %zu bytes at byte %llu ends beyond the %llu bytes of data",
                name.text, entry->tensor.bytes, (unsigned long long)entry->offset,
                (unsigned long long)data_bytes);
        entry->tensor.data = data + offset;
        expected = gguf_align(entry->offset + entry->tensor.bytes, file->alignment);
    }
    return 0;
}

static int read_tensors(gguf_file *file, gguf_cursor *cursor, const unsigned char *bytes,
                        size_t size, file_error *error) {
    for (size_t i = 0; i < file->tensor_count; i++)
        if (read_tensor(file, cursor, &file->entries[i], error))
            return -1;
    if (check_unique(file, file->value_count, file->tensor_count, "name", error))
        return -1;
    qsort(file->entries, file->tensor_count, sizeof *file->entries, compare_places);
    const uint64_t begin = gguf_align((uint64_t)(cursor->next - bytes), file->alignment);
    const size_t place = begin < size ? (size_t)begin : size;
    return place_tensors(file, bytes + place, size - place, error);
}

/* ---- the file ---- */

static int read_version(gguf_cursor *cursor, file_error *error) {
    char magic[4];
    uint32_t version;
    if (take(cursor, magic, sizeof magic) || take(cursor, &version, sizeof version))
        return file_fail(error, "the file is truncated: it has less than a header");
    if (memcmp(magic, "GGUF", sizeof magic) != 0)
        return file_fail(error, "not a GGUF file: it does not begin with \"GGUF\"");
    if ((version & 0xffff) == 0)
        return file_fail(error, "the file is big-endian GGUF; Tandem reads little-endian files");
    if (version != 2 && version != 3)
        return file_fail(error, "the file has GGUF version %u; Tandem reads 2 and 3", version);
    return 0;
}

/*
 * Reads the counts. Counts that are too large for the file are refused before memory is allocated
 * for them.
 */
static int read_counts(gguf_file *file, gguf_cursor *cursor, file_error *error) {
    uint64_t tensors;
    uint64_t values;
    if (take(cursor, &tensors, sizeof tensors) || take(cursor, &values, sizeof values))
        return file_fail(error, "the file is truncated: it has less than a header");
    const uint64_t left = (uint64_t)(cursor->end - cursor->next);
    if (tensors > left / MIN_TENSOR_BYTES || values > left / MIN_VALUE_BYTES)
        return file_fail(error, "the file is too small for %llu tensors and %llu values",
                         (unsigned long long)tensors, (unsigned long long)values);
    file->tensor_count = (size_t)tensors;
    file->value_count = (size_t)values;
    file->values = calloc(file->value_count + 1, sizeof *file->values);
    file->entries = calloc(file->tensor_count + 1, sizeof *file->entries);
    file->texts = calloc(file->value_count + file->tensor_count + 1, sizeof *file->texts);
    if (!file->values || !file->entries || !file->texts)
        return file_fail(error, "out of memory for %zu tensors and %zu values", file->tensor_count,
                         file->value_count);
    return 0;
}

int gguf_parse(const void *bytes, size_t size, gguf_file **file, file_error *error) {
    *file = NULL;
    gguf_file *const made = calloc(1, sizeof *made);
    if (!made)
        return file_fail(error, "out of memory");
    gguf_cursor cursor = {bytes, (const unsigned char *)bytes + size};
    if (read_version(&cursor, error) || read_counts(made, &cursor, error) ||
        read_values(made, &cursor, error) || read_alignment(made, error) ||
        read_tensors(made, &cursor, bytes, size, error)) {
        gguf_close(made);
        return -1;
    }
    *file = made;
    return 0;
}

int gguf_open(const char *path, gguf_file **file, file_error *error) {
    file_mapping mapping;
    *file = NULL;
    if (file_map(path, MIN_FILE_BYTES, &mapping, error))
        return -1;
    file_error inner;
    if (gguf_parse(mapping.bytes, mapping.size, file, &inner)) {
        file_unmap(&mapping);
        return file_fail(error, "%s: %s", path, inner.text);
    }
    (*file)->mapping = mapping;
    return 0;
}

void gguf_close(gguf_file *file) {
    if (!file)
        return;
    file_unmap(&file->mapping);
    for (size_t i = 0; i < file->text_count; i++)
        free(file->texts[i]);
    free(file->texts);
    free(file->entries);
    free(file->values);
    free(file);
}

size_t gguf_count(const gguf_file *file) {
    return file->tensor_count;
}

const gguf_tensor *gguf_at(const gguf_file *file, size_t index) {
    return index < file->tensor_count ? &file->entries[index].tensor : NULL;
}

const gguf_tensor *gguf_find(const gguf_file *file, const char *name) {
    for (size_t i = 0; i < file->tensor_count; i++)
        if (!strcmp(file->entries[i].tensor.name, name))
            return &file->entries[i].tensor;
    return NULL;
}

size_t gguf_value_count(const gguf_file *file) {
    return file->value_count;
}

const gguf_value *gguf_value_at(const gguf_file *file, size_t index) {
    return index < file->value_count ? &file->values[index] : NULL;
}

const gguf_value *gguf_value_find(const gguf_file *file, const char *key) {
    for (size_t i = 0; i < file->value_count; i++)
        if (!strcmp(file->values[i].key, key))
            return &file->values[i];
    return NULL;
}

uint64_t gguf_alignment(const gguf_file *file) {
    return file->alignment;
}
