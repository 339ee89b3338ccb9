#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "bench/safetensors_text.h"

/* A number as it stands: cJSON's own format turns 1e15 bytes into "1e+15", which is no integer. */
static int add_integer(cJSON *array, uint64_t value) {
    char digits[24];
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)value);
    return cJSON_AddItemToArray(array, cJSON_CreateRaw(digits)) ? 0 : -1;
}

static int check_tensor(const cJSON *header, const safetensors_tensor *tensor,
                        safetensors_error *error) {
    const file_name name = file_printable(tensor->name);
    if (!strcmp(tensor->name, "__metadata__") ||
        cJSON_GetObjectItemCaseSensitive(header, tensor->name))
        return file_fail(error, "the name \"%s\" is taken", name.text);
    uint64_t bytes = safetensors_dtype_bytes(tensor->dtype);
    if (bytes == 0 || tensor->rank < 0 || tensor->rank > SAFETENSORS_MAX_RANK)
        return file_fail(error, "tensor \"%s\" has dtype %d and rank %d", name.text,
                         (int)tensor->dtype, tensor->rank);
    for (int i = 0; i < tensor->rank; i++)
        if (tensor->shape[i] < 0 ||
            __builtin_mul_overflow(bytes, (uint64_t)tensor->shape[i], &bytes))
            return file_fail(error, "dimension %d of tensor \"%s\" is %lld", i, name.text,
                             (long long)tensor->shape[i]);
    if (bytes != tensor->bytes)
        return file_fail(error, "tensor \"%s\" has %zu bytes, but its shape takes %llu", name.text,
                         tensor->bytes, (unsigned long long)bytes);
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
    cJSON *const header = cJSON_CreateObject();
    int failed = !header;
    if (metadata_count > 0) {
        cJSON *const object = cJSON_AddObjectToObject(header, "__metadata__");
        for (size_t i = 0; i < metadata_count && !failed; i++)
            failed = !cJSON_AddStringToObject(object, metadata[i].key, metadata[i].value);
    }
    uint64_t begin = 0;
    for (size_t i = 0; i < tensor_count && !failed; i++) {
        if (check_tensor(header, &tensors[i], error)) {
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

static int write_all(int descriptor, const void *bytes, size_t size) {
    const char *next = bytes;
    while (size > 0) {
        const ssize_t written = write(descriptor, next, size);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return -1;
        next += written;
        size -= (size_t)written;
    }
    return 0;
}

static int write_content(int descriptor, const char *header, const safetensors_tensor *tensors,
                         size_t tensor_count) {
    static const char spaces[8] = "        ";
    const size_t text_bytes = strlen(header);
    const size_t padding = (8 - text_bytes % 8) % 8; /* the data starts at a multiple of eight */
    const uint64_t length = text_bytes + padding;
    if (write_all(descriptor, &length, sizeof length) ||
        write_all(descriptor, header, text_bytes) || write_all(descriptor, spaces, padding))
        return -1;
    for (size_t i = 0; i < tensor_count; i++)
        if (write_all(descriptor, tensors[i].data, tensors[i].bytes))
            return -1;
    return fsync(descriptor);
}

/* Write beside the goal under a name of this process, then rename: readers see all or nothing. */
static int write_file(const char *path, const char *header, const safetensors_tensor *tensors,
                      size_t tensor_count, safetensors_error *error) {
    const size_t size = strlen(path) + 32;
    char *const temporary = malloc(size);
    if (!temporary)
        return file_fail(error, "out of memory");
    snprintf(temporary, size, "%s.%ld.partial", path, (long)getpid());
    int result = -1;
    const int descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (descriptor < 0) {
        file_error_set(error, "%s cannot be created: %s", temporary, strerror(errno));
    } else {
        const int bad = write_content(descriptor, header, tensors, tensor_count);
        if (close(descriptor) || bad || rename(temporary, path)) {
            file_error_set(error, "%s cannot be written: %s", path, strerror(errno));
            unlink(temporary);
        } else {
            result = 0;
        }
    }
    free(temporary);
    return result;
}

int safetensors_write(const char *path, const safetensors_tensor *tensors, size_t tensor_count,
                      const safetensors_pair *metadata, size_t metadata_count,
                      safetensors_error *error) {
    cJSON *const header = make_header(tensors, tensor_count, metadata, metadata_count, error);
    if (!header)
        return -1;
    char *const text = cJSON_PrintUnformatted(header);
    cJSON_Delete(header);
    const int result = text ? write_file(path, text, tensors, tensor_count, error)
                            : file_fail(error, "out of memory for the header");
    cJSON_free(text);
    return result;
}
