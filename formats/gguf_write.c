#include <stdlib.h>
#include <string.h>

#include "formats/gguf_cursor.h"
#include "formats/output_file.h"

enum {
    VERSION = 3
};

struct gguf_writer {
    output_file *file;
    uint64_t *begins; /* where each tensor's data begins in the file */
    uint64_t *sizes;
    uint64_t end;
    uint64_t written;
    uint64_t wanted;
    size_t count;
    int settled;
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

static void add_header(byte_list *list, const gguf_writer *writer, const gguf_tensor *tensors,
                       const gguf_value *values, size_t value_count) {
    add_bytes(list, "GGUF", 4);
    add_u32(list, VERSION);
    add_u64(list, writer->count);
    add_u64(list, value_count);
    for (size_t i = 0; i < value_count; i++) {
        add_text(list, values[i].key);
        add_u32(list, values[i].type);
        add_bytes(list, values[i].data, values[i].bytes);
    }
    for (size_t i = 0; i < writer->count; i++) {
        add_text(list, tensors[i].name);
        add_u32(list, (uint32_t)tensors[i].rank);
        for (int d = tensors[i].rank - 1; d >= 0; d--)
            add_u64(list, (uint64_t)tensors[i].shape[d]);
        add_u32(list, tensors[i].type);
        add_u64(list, writer->begins[i]);
    }
}

/* ---- checks ---- */

static int compare_names(const void *left, const void *right) {
    const char *const *a = left;
    const char *const *b = right;
    return strcmp(*a, *b);
}

static int check_names(const gguf_tensor *tensors, size_t count, file_error *error) {
    const char **const names = malloc((count + 1) * sizeof *names);
    if (!names)
        return file_fail(error, "out of memory for the names of %zu tensors", count);
    for (size_t i = 0; i < count; i++)
        names[i] = tensors[i].name;
    qsort(names, count, sizeof *names, compare_names);
    int result = 0;
    for (size_t i = 1; i < count && result == 0; i++)
        if (!strcmp(names[i - 1], names[i]))
            result = file_fail(error, "the name \"%s\" is taken", file_printable(names[i]).text);
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
    if (bytes != GGUF_UNKNOWN_BYTES && bytes != tensor->bytes)
        return file_fail(error, "tensor \"%s\" has %zu bytes, but its shape takes %zu", name.text,
                         tensor->bytes, bytes);
    return 0;
}

/* ---- the writer ---- */

/* Places relative to the data's begin. */
static int lay_out(gguf_writer *writer, const gguf_tensor *tensors, uint64_t alignment,
                   file_error *error) {
    for (size_t i = 0; i < writer->count; i++) {
        if (check_tensor(&tensors[i], error))
            return -1;
        writer->begins[i] = writer->end;
        writer->sizes[i] = tensors[i].bytes;
        writer->wanted += tensors[i].bytes;
        writer->end = gguf_align(writer->end + tensors[i].bytes, alignment);
    }
    return check_names(tensors, writer->count, error);
}

static int write_header(gguf_writer *writer, const byte_list *header, uint64_t alignment,
                        file_error *error) {
    if (header->failed)
        return file_fail(error, "out of memory for the header");
    const uint64_t begin = gguf_align(header->size, alignment);
    for (size_t i = 0; i < writer->count; i++)
        writer->begins[i] += begin;
    writer->end += begin;
    return output_file_put(writer->file, 0, header->bytes, header->size, error);
}

static int open_file(gguf_writer *writer, const char *path, const gguf_tensor *tensors,
                     const gguf_value *values, size_t value_count, uint64_t alignment,
                     file_error *error) {
    byte_list header = {NULL, 0, 0, 0};
    writer->begins = calloc(writer->count + 1, sizeof *writer->begins);
    writer->sizes = calloc(writer->count + 1, sizeof *writer->sizes);
    if (!writer->begins || !writer->sizes)
        return file_fail(error, "out of memory for %zu tensors", writer->count);
    if (lay_out(writer, tensors, alignment, error))
        return -1;
    add_header(&header, writer, tensors, values, value_count);
    const int result = output_file_create(path, &writer->file, error) ||
                               write_header(writer, &header, alignment, error)
                           ? -1
                           : 0;
    free(header.bytes);
    return result;
}

int gguf_writer_open(const char *path, const gguf_tensor *tensors, size_t tensor_count,
                     const gguf_value *values, size_t value_count, uint64_t alignment,
                     gguf_writer **writer, file_error *error) {
    *writer = NULL;
    gguf_writer *const made = calloc(1, sizeof *made);
    if (!made)
        return file_fail(error, "out of memory");
    made->count = tensor_count;
    if (open_file(made, path, tensors, values, value_count, alignment, error)) {
        gguf_writer_abandon(made);
        return -1;
    }
    *writer = made;
    return 0;
}

int gguf_writer_put(gguf_writer *writer, size_t index, uint64_t offset, const void *bytes,
                    size_t size, file_error *error) {
    const uint64_t room = writer->sizes[index];
    if (offset > room || size > room - offset)
        return file_fail(error, "%zu bytes at byte %llu of tensor %zu lie beyond its %llu", size,
                         (unsigned long long)offset, index, (unsigned long long)room);
    writer->written += size;
    return output_file_put(writer->file, writer->begins[index] + offset, bytes, size, error);
}

int gguf_writer_settle(gguf_writer *writer, file_error *error) {
    if (writer->settled)
        return 0;
    if (writer->written != writer->wanted)
        return file_fail(error, "%llu bytes were written of tensors that take %llu",
                         (unsigned long long)writer->written, (unsigned long long)writer->wanted);
    if (output_file_extend(writer->file, writer->end, error) ||
        output_file_settle(writer->file, error))
        return -1;
    writer->settled = 1;
    return 0;
}

int gguf_writer_finish(gguf_writer *writer, file_error *error) {
    int result = gguf_writer_settle(writer, error);
    if (result == 0) {
        result = output_file_finish(writer->file, error);
        writer->file = NULL;
    }
    gguf_writer_abandon(writer);
    return result;
}

void gguf_writer_abandon(gguf_writer *writer) {
    if (!writer)
        return;
    output_file_abandon(writer->file);
    free(writer->begins);
    free(writer->sizes);
    free(writer);
}
