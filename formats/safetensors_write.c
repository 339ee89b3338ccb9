#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "formats/output_file.h"
#include "formats/safetensors.h"

struct safetensors_writer {
    output_file *file;
    uint64_t *begins; /* where each tensor's data begins in the file, then where the last ends */
    size_t count;
    uint64_t written;
};

/* A number as it stands: cJSON's own format turns 1e15 bytes into "1e+15", which is no integer. */
static int add_integer(cJSON *array, uint64_t value) {
    char digits[24];
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)value);
    return cJSON_AddItemToArray(array, cJSON_CreateRaw(digits)) ? 0 : -1;
}

static int compare_names(const void *left, const void *right) {
    const char *const *a = left;
    const char *const *b = right;
    return strcmp(*a, *b);
}

/* No text stands twice. The list is sorted then. */
static int check_unique(const char **texts, size_t count, const char *what,
                        safetensors_error *error) {
    qsort(texts, count, sizeof *texts, compare_names);
    for (size_t i = 1; i < count; i++)
        if (!strcmp(texts[i - 1], texts[i]))
            return file_fail(error, "the %s \"%s\" is taken", what, file_printable(texts[i]).text);
    return 0;
}

static int check_names(const safetensors_tensor *tensors, size_t tensor_count,
                       const safetensors_pair *metadata, size_t metadata_count,
                       safetensors_error *error) {
    const size_t most = tensor_count > metadata_count ? tensor_count : metadata_count;
    const char **const texts = malloc((most + 1) * sizeof *texts);
    if (!texts)
        return file_fail(error, "out of memory for the names of %zu tensors", tensor_count);
    for (size_t i = 0; i < metadata_count; i++)
        texts[i] = metadata[i].key;
    int result = check_unique(texts, metadata_count, "metadata key", error);
    texts[0] = "__metadata__";
    for (size_t i = 0; i < tensor_count; i++)
        texts[i + 1] = tensors[i].name;
    if (result == 0)
        result = check_unique(texts, tensor_count + 1, "name", error);
    free(texts);
    return result;
}

static int check_tensor(const safetensors_tensor *tensor, safetensors_error *error) {
    const file_name name = file_printable(tensor->name);
    uint64_t bits = safetensors_dtype_bits(tensor->dtype);
    if (bits == 0 || tensor->rank < 0 || tensor->rank > SAFETENSORS_MAX_RANK)
        return file_fail(error, "tensor \"%s\" has dtype %d and rank %d", name.text,
                         (int)tensor->dtype, tensor->rank);
    for (int i = 0; i < tensor->rank; i++)
        if (tensor->shape[i] < 0 || __builtin_mul_overflow(bits, (uint64_t)tensor->shape[i], &bits))
            return file_fail(error, "dimension %d of tensor \"%s\" is %lld", i, name.text,
                             (long long)tensor->shape[i]);
    if (bits % 8 != 0 || bits / 8 != tensor->bytes)
        return file_fail(error, "tensor \"%s\" has %zu bytes, but its shape takes %llu bits",
                         name.text, tensor->bytes, (unsigned long long)bits);
    return 0;
}

static int add_tensor(cJSON *header, const safetensors_tensor *tensor, uint64_t begin) {
    cJSON *const object = cJSON_AddObjectToObject(header, tensor->name);
    cJSON_AddStringToObject(object, "dtype", safetensors_dtype_name(tensor->dtype));
    cJSON *const shape = cJSON_AddArrayToObject(object, "shape");
    int failed = !shape;
    for (int i = 0; i < tensor->rank && !failed; i++)
        failed = add_integer(shape, (uint64_t)tensor->shape[i]);
    cJSON *const offsets = cJSON_AddArrayToObject(object, "data_offsets");
    return failed || !offsets || add_integer(offsets, begin) ||
                   add_integer(offsets, begin + tensor->bytes)
               ? -1
               : 0;
}

static cJSON *make_header(const safetensors_tensor *tensors, size_t tensor_count,
                          const safetensors_pair *metadata, size_t metadata_count,
                          safetensors_error *error) {
    if (check_names(tensors, tensor_count, metadata, metadata_count, error))
        return NULL;
    cJSON *const header = cJSON_CreateObject();
    int failed = !header;
    if (metadata_count > 0) {
        cJSON *const object = cJSON_AddObjectToObject(header, "__metadata__");
        for (size_t i = 0; i < metadata_count && !failed; i++)
            failed = !cJSON_AddStringToObject(object, metadata[i].key, metadata[i].value);
    }
    uint64_t begin = 0;
    for (size_t i = 0; i < tensor_count && !failed; i++) {
        if (check_tensor(&tensors[i], error)) {
            cJSON_Delete(header);
            return NULL;
        }
        failed = add_tensor(header, &tensors[i], begin);
        begin += tensors[i].bytes;
    }
    if (!failed)
        return header;
    cJSON_Delete(header);
    file_error_set(error, "out of memory for the header");
    return NULL;
}

/* Padded, so that the data starts at a multiple of eight. */
static int write_header(safetensors_writer *writer, const char *header,
                        const safetensors_tensor *tensors, safetensors_error *error) {
    static const char spaces[8] = "        ";
    const size_t text_bytes = strlen(header);
    const size_t padding = (8 - text_bytes % 8) % 8;
    const uint64_t length = text_bytes + padding;
    if (length > SAFETENSORS_MAX_HEADER)
        return file_fail(error, "the header takes %llu bytes, above the limit of %d",
                         (unsigned long long)length, SAFETENSORS_MAX_HEADER);
    writer->begins[0] = sizeof length + length;
    for (size_t i = 0; i < writer->count; i++)
        writer->begins[i + 1] = writer->begins[i] + tensors[i].bytes;
    return output_file_put(writer->file, 0, &length, sizeof length, error) ||
                   output_file_put(writer->file, sizeof length, header, text_bytes, error) ||
                   output_file_put(writer->file, sizeof length + text_bytes, spaces, padding, error)
               ? -1
               : 0;
}

int safetensors_writer_open(const char *path, const safetensors_tensor *tensors,
                            size_t tensor_count, const safetensors_pair *metadata,
                            size_t metadata_count, safetensors_writer **writer,
                            safetensors_error *error) {
    *writer = NULL;
    cJSON *const header = make_header(tensors, tensor_count, metadata, metadata_count, error);
    if (!header)
        return -1;
    char *const text = cJSON_PrintUnformatted(header);
    cJSON_Delete(header);
    safetensors_writer *const made = calloc(1, sizeof *made);
    if (made) {
        made->count = tensor_count;
        made->begins = calloc(tensor_count + 1, sizeof *made->begins);
    }
    int result = -1;
    if (!text || !made || !made->begins)
        file_error_set(error, "out of memory for the header");
    else if (output_file_create(path, &made->file, error) == 0)
        result = write_header(made, text, tensors, error);
    cJSON_free(text);
    if (result != 0) {
        safetensors_writer_abandon(made);
        return -1;
    }
    *writer = made;
    return 0;
}

int safetensors_writer_put(safetensors_writer *writer, size_t index, uint64_t offset,
                           const void *bytes, size_t size, safetensors_error *error) {
    const uint64_t room = writer->begins[index + 1] - writer->begins[index];
    if (offset > room || size > room - offset)
        return file_fail(error, "%zu bytes at byte %llu of tensor %zu lie beyond its %llu", size,
                         (unsigned long long)offset, index, (unsigned long long)room);
    writer->written += size;
    return output_file_put(writer->file, writer->begins[index] + offset, bytes, size, error);
}

int safetensors_writer_settle(safetensors_writer *writer, safetensors_error *error) {
    const uint64_t wanted = writer->begins[writer->count] - writer->begins[0];
    if (writer->written != wanted)
        return file_fail(error, "%llu bytes were written of tensors that take %llu",
                         (unsigned long long)writer->written, (unsigned long long)wanted);
    return output_file_settle(writer->file, error);
}

int safetensors_writer_finish(safetensors_writer *writer, safetensors_error *error) {
    int result = safetensors_writer_settle(writer, error);
    if (result == 0) {
        result = output_file_finish(writer->file, error);
        writer->file = NULL;
    }
    safetensors_writer_abandon(writer);
    return result;
}

void safetensors_writer_abandon(safetensors_writer *writer) {
    if (!writer)
        return;
    output_file_abandon(writer->file);
    free(writer->begins);
    free(writer);
}

int safetensors_write(const char *path, const safetensors_tensor *tensors, size_t tensor_count,
                      const safetensors_pair *metadata, size_t metadata_count,
                      safetensors_error *error) {
    safetensors_writer *writer;
    if (safetensors_writer_open(path, tensors, tensor_count, metadata, metadata_count, &writer,
                                error))
        return -1;
    for (size_t i = 0; i < tensor_count; i++)
        if (safetensors_writer_put(writer, i, 0, tensors[i].data, tensors[i].bytes, error)) {
            safetensors_writer_abandon(writer);
            return -1;
        }
    return safetensors_writer_finish(writer, error);
}
