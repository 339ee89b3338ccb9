#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "formats/safetensors.h"

/* Adds an integer as digits, because cJSON's own format turns 1e15 bytes into "1e+15". */
static int add_integer(cJSON *array, uint64_t value) {
    char digits[24];
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)value);
    return cJSON_AddItemToArray(array, cJSON_CreateRaw(digits)) ? 0 : -1;
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
    int result = tensor_writer_check_unique(texts, metadata_count, "metadata key", error);
    texts[0] = "__metadata__";
    for (size_t i = 0; i < tensor_count; i++)
        texts[i + 1] = tensors[i].name;
    if (result == 0)
        result = tensor_writer_check_unique(texts, tensor_count + 1, "name", error);
    free(texts);
    return result;
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
        failed = add_tensor(header, &tensors[i], begin);
        begin += tensors[i].bytes;
    }
    if (!failed)
        return header;
    cJSON_Delete(header);
    file_error_set(error, "out of memory for the header");
    return NULL;
}

/*
 * Joins the length, the text, and spaces up to a multiple of eight bytes. Returns NULL if memory is
 * short.
 */
static char *pad_header(const char *text, size_t text_bytes, size_t *size) {
    const uint64_t length = (text_bytes + 7) / 8 * 8;
    char *const header = malloc(sizeof length + length);
    if (header) {
        memcpy(header, &length, sizeof length);
        memcpy(header + sizeof length, text, text_bytes);
        memset(header + sizeof length + text_bytes, ' ', length - text_bytes);
    }
    *size = sizeof length + length;
    return header;
}

/* Places the tensors one after the other after the header. */
static int open_writer(const char *path, const char *text, const safetensors_tensor *tensors,
                       size_t count, tensor_writer **writer, safetensors_error *error) {
    size_t size;
    char *const header = pad_header(text, strlen(text), &size);
    tensor_place *const places = calloc(count + 1, sizeof *places);
    uint64_t end = size;
    for (size_t i = 0; places && i < count; i++) {
        places[i] = (tensor_place){end, tensors[i].bytes};
        end += tensors[i].bytes;
    }
    const int result =
        !header || !places ? file_fail(error, "out of memory for the header")
        : size - 8 > SAFETENSORS_MAX_HEADER
            ? file_fail(error, "the header takes %zu bytes, above the limit of %d", size - 8,
                        SAFETENSORS_MAX_HEADER)
            : tensor_writer_open(path, header, size, places, count, end, writer, error);
    free(header);
    free(places);
    return result;
}

int safetensors_writer_open(const char *path, const safetensors_tensor *tensors,
                            size_t tensor_count, const safetensors_pair *metadata,
                            size_t metadata_count, tensor_writer **writer,
                            safetensors_error *error) {
    *writer = NULL;
    cJSON *const header = make_header(tensors, tensor_count, metadata, metadata_count, error);
    if (!header)
        return -1;
    char *const text = cJSON_PrintUnformatted(header);
    cJSON_Delete(header);
    const int result = text ? open_writer(path, text, tensors, tensor_count, writer, error)
                            : file_fail(error, "out of memory for the header");
    cJSON_free(text);
    return result;
}
