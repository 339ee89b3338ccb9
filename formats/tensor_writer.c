#include "formats/tensor_writer.h"

#include <stdlib.h>
#include <string.h>

#include "formats/output_file.h"

struct tensor_writer {
    output_file *file;
    tensor_place *places;
    uint64_t end;
    uint64_t written;
    uint64_t wanted;
};

int tensor_writer_open(const char *path, const void *header, size_t header_bytes,
                       const tensor_place *places, size_t count, uint64_t end,
                       tensor_writer **writer, file_error *error) {
    *writer = NULL;
    tensor_writer *const made = calloc(1, sizeof *made);
    if (made)
        made->places = calloc(count + 1, sizeof *places);
    if (!made || !made->places) {
        tensor_writer_abandon(made);
        return file_fail(error, "out of memory for %zu tensors", count);
    }
    made->end = end;
    for (size_t i = 0; i < count; i++) {
        made->places[i] = places[i];
        made->wanted += places[i].size;
    }
    if (output_file_create(path, &made->file, error) ||
        output_file_put(made->file, 0, header, header_bytes, error)) {
        tensor_writer_abandon(made);
        return -1;
    }
    *writer = made;
    return 0;
}

int tensor_writer_put(tensor_writer *writer, size_t index, uint64_t offset, const void *bytes,
                      size_t size, file_error *error) {
    const tensor_place place = writer->places[index];
    if (offset > place.size || size > place.size - offset)
        return file_fail(error, "%zu bytes at byte %llu of tensor %zu lie beyond its %llu", size,
                         (unsigned long long)offset, index, (unsigned long long)place.size);
    writer->written += size;
    return output_file_put(writer->file, place.begin + offset, bytes, size, error);
}

int tensor_writer_finish(tensor_writer *writer, file_error *error) {
    int result = 0;
    if (writer->written != writer->wanted)
        result = file_fail(error, "only %llu bytes were written of tensors that need %llu",
                           (unsigned long long)writer->written, (unsigned long long)writer->wanted);
    if (result == 0)
        result = output_file_extend(writer->file, writer->end, error);
    if (result == 0) {
        result = output_file_finish(writer->file, error);
        writer->file = NULL;
    }
    tensor_writer_abandon(writer);
    return result;
}

void tensor_writer_abandon(tensor_writer *writer) {
    if (!writer)
        return;
    output_file_abandon(writer->file);
    free(writer->places);
    free(writer);
}

static int compare_texts(const void *left, const void *right) {
    const char *const *a = left;
    const char *const *b = right;
    return strcmp(*a, *b);
}

int tensor_writer_check_unique(const char **texts, size_t count, const char *what,
                               file_error *error) {
    qsort(texts, count, sizeof *texts, compare_texts);
    for (size_t i = 1; i < count; i++)
        if (!strcmp(texts[i - 1], texts[i]))
            return file_fail(error, "the %s \"%s\" is already used", what,
                             file_printable(texts[i]).text);
    return 0;
}
