/*
 * These functions read and write safetensors files. Such a file holds eight bytes of header length,
 * a JSON header and the data (https://github.com/huggingface/safetensors, format section).
 *
 * A file is checked completely before any part of it is returned. Unknown members of a tensor's
 * entry in the header are ignored.
 */
#ifndef TANDEM_FORMATS_SAFETENSORS_H
#define TANDEM_FORMATS_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "formats/tensor_writer.h"

enum {
    SAFETENSORS_MAX_RANK = 8,
    SAFETENSORS_MAX_HEADER = 100000000 /* bytes; the limit of the format */
};

/* The columns are the name, its text in the file, and the bits per element. */
#define SAFETENSORS_DTYPE_LIST(X)                                                                  \
    X(SAFETENSORS_BOOL, "BOOL", 8)                                                                 \
    X(SAFETENSORS_F4, "F4", 4)                                                                     \
    X(SAFETENSORS_F6_E2M3, "F6_E2M3", 6)                                                           \
    X(SAFETENSORS_F6_E3M2, "F6_E3M2", 6)                                                           \
    X(SAFETENSORS_U8, "U8", 8)                                                                     \
    X(SAFETENSORS_I8, "I8", 8)                                                                     \
    X(SAFETENSORS_F8_E5M2, "F8_E5M2", 8)                                                           \
    X(SAFETENSORS_F8_E4M3, "F8_E4M3", 8)                                                           \
    X(SAFETENSORS_F8_E8M0, "F8_E8M0", 8)                                                           \
    X(SAFETENSORS_F8_E4M3FNUZ, "F8_E4M3FNUZ", 8)                                                   \
    X(SAFETENSORS_F8_E5M2FNUZ, "F8_E5M2FNUZ", 8)                                                   \
    X(SAFETENSORS_I16, "I16", 16)                                                                  \
    X(SAFETENSORS_U16, "U16", 16)                                                                  \
    X(SAFETENSORS_F16, "F16", 16)                                                                  \
    X(SAFETENSORS_BF16, "BF16", 16)                                                                \
    X(SAFETENSORS_I32, "I32", 32)                                                                  \
    X(SAFETENSORS_U32, "U32", 32)                                                                  \
    X(SAFETENSORS_F32, "F32", 32)                                                                  \
    X(SAFETENSORS_C64, "C64", 64)                                                                  \
    X(SAFETENSORS_F64, "F64", 64)                                                                  \
    X(SAFETENSORS_I64, "I64", 64)                                                                  \
    X(SAFETENSORS_U64, "U64", 64)

typedef enum safetensors_dtype {
#define SAFETENSORS_DTYPE_ENUM(name, text, bits) name,
    SAFETENSORS_DTYPE_LIST(SAFETENSORS_DTYPE_ENUM)
#undef SAFETENSORS_DTYPE_ENUM
    SAFETENSORS_DTYPES
} safetensors_dtype;

typedef struct safetensors_tensor {
    const char *name; /* UTF-8 */
    safetensors_dtype dtype;
    int rank; /* 0 is a scalar */
    int64_t shape[SAFETENSORS_MAX_RANK];
    /* The data is little-endian and row-major. It may be unaligned for the dtype, so use memcpy. */
    const void *data;
    size_t bytes;
} safetensors_tensor;

typedef struct safetensors_pair {
    const char *key;
    const char *value;
} safetensors_pair;

typedef struct safetensors_file safetensors_file;

typedef file_error safetensors_error;

/* These return the name, e.g. "F32", the bits per element, and the bytes per element (rounded
 * up). */
const char *safetensors_dtype_name(safetensors_dtype dtype);
size_t safetensors_dtype_bits(safetensors_dtype dtype);
size_t safetensors_dtype_bytes(safetensors_dtype dtype);

/*
 * Maps a file into memory and checks it. Returns 0, or -1 with *file NULL and the reason in *error.
 * The file must not be truncated while it is open. A read of the mapping beyond the end of the file
 * would kill the process.
 */
int safetensors_open(const char *path, safetensors_file **file, safetensors_error *error);

/* Opens a file whose bytes are in memory, with the same checks. The memory must outlive *file. */
int safetensors_parse(const void *bytes, size_t size, safetensors_file **file,
                      safetensors_error *error);

/* Closes a file, or does nothing for NULL. It frees the tensors and strings of the file. */
void safetensors_close(safetensors_file *file);

/* Tensors are ordered by the offset of their data. safetensors_find returns NULL if no tensor has
 * that name. */
size_t safetensors_count(const safetensors_file *file);
const safetensors_tensor *safetensors_at(const safetensors_file *file, size_t index);
const safetensors_tensor *safetensors_find(const safetensors_file *file, const char *name);

/* Returns the value of a key of "__metadata__", or NULL if the key is missing. */
const char *safetensors_metadata(const safetensors_file *file, const char *key);

/* Returns pair `index` of "__metadata__"; pairs are sorted by key. Its key is NULL past the last
 * pair. */
safetensors_pair safetensors_metadata_at(const safetensors_file *file, size_t index);

/*
 * Begins a file whose tensors are stored in the given order. The caller then writes the data of
 * each tensor, as many bytes as its shape needs. The `data` of `tensors` is not read.
 *
 * The file appears under `path` only when it is complete: a temporary file in the same folder is
 * written, synchronized (fsync) and renamed. Returns 0, or -1 with the reason in *error.
 */
int safetensors_writer_open(const char *path, const safetensors_tensor *tensors,
                            size_t tensor_count, const safetensors_pair *metadata,
                            size_t metadata_count, tensor_writer **writer,
                            safetensors_error *error);

#endif
