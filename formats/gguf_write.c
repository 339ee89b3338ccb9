#include <stdlib.h>
#include <string.h>

#include "formats/gguf.h"

enum {
    VERSION = 3
};

/* ---- the header as bytes ---- */

typedef struct byte_list {
    unsigned char *bytes;
    size_t size;
    size_t room;
    int failed;
} byte_list;

static void add_bytes(byte_list *list, const void *bytes, size_t size) {
    if (list->failed)
        return;
    if (size > list->room - list->size) {
        const size_t room = 2 * list->room + size + 4096;
        unsigned char *const grown = realloc(list->bytes, room);
        if (!grown) {
            list->failed = 1;
            return;
        }
        list->bytes = grown;
        list->room = room;
    }
    if (size > 0)
        memcpy(list->bytes + list->size, bytes, size);
    list->size += size;
}

static void add_u32(byte_list *list, uint32_t value) {
    add_bytes(list, &value, sizeof value);
}

static void add_u64(byte_list *list, uint64_t value) {
    add_bytes(list, &value, sizeof value);
}

static void add_text(byte_list *list, const char *text) {
    add_u64(list, strlen(text));
    add_bytes(list, text, strlen(text));
}

static void add_header(byte_list *list, const tensor_place *places, const gguf_tensor *tensors,
                       size_t tensor_count, const gguf_value *values, size_t value_count) {
    add_bytes(list, "GGUF", 4);
    add_u32(list, VERSION);
    add_u64(list, tensor_count);
    add_u64(list, value_count);
    for (size_t i = 0; i < value_count; i++) {
        add_text(list, values[i].key);
        add_u32(list, values[i].type);
        add_bytes(list, values[i].data, values[i].bytes);
    }
    for (size_t i = 0; i < tensor_count; i++) {
        add_text(list, tensors[i].name);
        add_u32(list, (uint32_t)tensors[i].rank);
        for (int d = tensors[i].rank - 1; d >= 0; d--)
            add_u64(list, (uint64_t)tensors[i].shape[d]);
        add_u32(list, tensors[i].type);
        add_u64(list, places[i].begin);
    }
}

/* ---- checks ---- */

static int check_names(const gguf_tensor *tensors, size_t count, file_error *error) {
    const char **const names = malloc((count + 1) * sizeof *names);
    if (!names)
        return file_fail(error, "out of memory for the names of %zu tensors", count);
    for (size_t i = 0; i < count; i++)
        names[i] = tensors[i].name;
    const int result = tensor_writer_check_unique(names, count, "name", error);
    free(names);
    return result;
}

static int check_tensor(const gguf_tensor *tensor, file_error *error) {
    size_t bytes;
    const file_name name = file_printable(tensor->name);
    const size_t length = strlen(tensor->name);
    if (length == 0 || length > GGUF_MAX_NAME)
        return file_fail(error, "the name \"%s\" has %zu bytes; GGUF takes 1 to %d", name.text,
                         length, GGUF_MAX_NAME);
    if (tensor->rank < 0 || tensor->rank > GGUF_MAX_RANK)
        return file_fail(error, "tensor \"%s\" has %d dimensions; GGUF takes %d at most", name.text,
                         tensor->rank, GGUF_MAX_RANK);
    for (int i = 0; i < tensor->rank; i++)
        if (tensor->shape[i] < 0)
            return file_fail(error, "dimension %d of tensor \"%s\" is %lld", i, name.text,
                             (long long)tensor->shape[i]);
    if (gguf_tensor_bytes(tensor, &bytes, error))
        return -1;
    if (bytes != tensor->bytes)
        return file_fail(error, "tensor \"%s\" has %zu bytes, but its shape takes %zu", name.text,
                         tensor->bytes, bytes);
    return 0;
}

/* ---- the writer ---- */

/* Places relative to the begin of the data, where they end in *end. */
static int lay_out(const gguf_tensor *tensors, size_t count, uint64_t alignment,
                   tensor_place *places, uint64_t *end, file_error *error) {
    for (size_t i = 0; i < count; i++) {
        if (check_tensor(&tensors[i], error))
            return -1;
        places[i] = (tensor_place){*end, tensors[i].bytes};
        *end = gguf_align(*end + tensors[i].bytes, alignment);
    }
    return check_names(tensors, count, error);
}

int gguf_writer_open(const char *path, const gguf_tensor *tensors, size_t tensor_count,
                     const gguf_value *values, size_t value_count, uint64_t alignment,
                     tensor_writer **writer, file_error *error) {
    byte_list header = {NULL, 0, 0, 0};
    uint64_t end = 0;
    *writer = NULL;
    tensor_place *const places = calloc(tensor_count + 1, sizeof *places);
    int result = places ? lay_out(tensors, tensor_count, alignment, places, &end, error)
                        : file_fail(error, "out of memory for %zu tensors", tensor_count);
    if (result == 0) {
        add_header(&header, places, tensors, tensor_count, values, value_count);
        const uint64_t begin = gguf_align(header.size, alignment);
        for (size_t i = 0; i < tensor_count; i++)
            places[i].begin += begin;
        result = header.failed ? file_fail(error, "out of memory for the header")
                               : tensor_writer_open(path, header.bytes, header.size, places,
                                                    tensor_count, begin + end, writer, error);
    }
    free(header.bytes);
    free(places);
    return result;
}
