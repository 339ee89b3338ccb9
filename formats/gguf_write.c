#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/gguf.h"

enum {
    VERSION = 3
};

/* ---- the header as bytes ---- */

static void put_u32(FILE *to, uint32_t value) {
    fwrite(&value, sizeof value, 1, to);
}

static void put_u64(FILE *to, uint64_t value) {
    fwrite(&value, sizeof value, 1, to);
}

static void put_text(FILE *to, const char *text) {
    put_u64(to, strlen(text));
    fwrite(text, 1, strlen(text), to);
}

static void put_header(FILE *to, const tensor_place *places, const gguf_tensor *tensors,
                       size_t tensor_count, const gguf_value *values, size_t value_count) {
    fwrite("GGUF", 1, 4, to);
    put_u32(to, VERSION);
    put_u64(to, tensor_count);
    put_u64(to, value_count);
    for (size_t i = 0; i < value_count; i++) {
        put_text(to, values[i].key);
        put_u32(to, values[i].type);
        fwrite(values[i].data, 1, values[i].bytes, to);
    }
    for (size_t i = 0; i < tensor_count; i++) {
        put_text(to, tensors[i].name);
        put_u32(to, (uint32_t)tensors[i].rank);
        for (int d = tensors[i].rank - 1; d >= 0; d--)
            put_u64(to, (uint64_t)tensors[i].shape[d]);
        put_u32(to, tensors[i].type);
        put_u64(to, places[i].begin);
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

/* ---- the writer ---- */

/* Computes offsets relative to the start of the data, and adds the data's size to *end. */
static int lay_out(const gguf_tensor *tensors, size_t count, uint64_t alignment,
                   tensor_place *places, uint64_t *end, file_error *error) {
    for (size_t i = 0; i < count; i++) {
        places[i] = (tensor_place){*end, tensors[i].bytes};
        *end = gguf_align(*end + tensors[i].bytes, alignment);
    }
    return check_names(tensors, count, error);
}

int gguf_writer_open(const char *path, const gguf_tensor *tensors, size_t tensor_count,
                     const gguf_value *values, size_t value_count, uint64_t alignment,
                     tensor_writer **writer, file_error *error) {
    char *header = NULL;
    size_t size = 0;
    uint64_t end = 0;
    *writer = NULL;
    tensor_place *const places = calloc(tensor_count + 1, sizeof *places);
    int result = places ? lay_out(tensors, tensor_count, alignment, places, &end, error)
                        : file_fail(error, "out of memory for %zu tensors", tensor_count);
    FILE *const stream = result == 0 ? open_memstream(&header, &size) : NULL;
    if (stream)
        put_header(stream, places, tensors, tensor_count, values, value_count);
    const int failed = stream && ferror(stream);
    if (result == 0 && (!stream || fclose(stream) != 0 || failed))
        result = file_fail(error, "out of memory for the header");
    if (result == 0) {
        const uint64_t begin = gguf_align(size, alignment);
        for (size_t i = 0; i < tensor_count; i++)
            places[i].begin += begin;
        result = tensor_writer_open(path, header, size, places, tensor_count, begin + end, writer,
                                    error);
    }
    free(header);
    free(places);
    return result;
}
