/*
 * Reader and writer of safetensors files: eight bytes of header length, a JSON header, then the
 * data. (https://github.com/huggingface/safetensors, format section.)
 *
 * A file is checked completely before any part of it is returned. Members of a tensor that the
 * format does not define are ignored.
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

/* Columns: name, text in the file, bits per element. */
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
    /* Little-endian, row-major; NOT necessarily aligned for the dtype: use memcpy. */
    const void *data;
    size_t bytes;
} safetensors_tensor;

typedef struct safetensors_pair {
    const char *key;
    const char *value;
} safetensors_pair;

typedef struct safetensors_file safetensors_file;

typedef file_error safetensors_error;

/* Return the name, e.g. "F32", the bits per element, and the bytes per element (at least 1). */
const char *safetensors_dtype_name(safetensors_dtype dtype);
size_t safetensors_dtype_bits(safetensors_dtype dtype);
size_t safetensors_dtype_bytes(safetensors_dtype dtype);

/*
 * Maps a file and checks it. Returns 0, or -1 with *file NULL and the reason in *error. The file
 * must not be truncated while it is open: reading a mapping beyond the end of its file kills the
 * process.
 */
int safetensors_open(const char *path, safetensors_file **file, safetensors_error *error);

/* Parses a file in memory in the same way. The memory must outlive *file. */
int safetensors_parse(const void *bytes, size_t size, safetensors_file **file,
                      safetensors_error *error);

/* NULL is accepted. The file's tensors and strings are freed with it. */
void safetensors_close(safetensors_file *file);

/* Tensors are ordered by their data. safetensors_find returns NULL if none has that name. */
size_t safetensors_count(const safetensors_file *file);
const safetensors_tensor *safetensors_at(const safetensors_file *file, size_t index);
const safetensors_tensor *safetensors_find(const safetensors_file *file, const char *name);

/* Returns the value of a key of "__metadata__", or NULL. */
const char *safetensors_metadata(const safetensors_file *file, const char *key);

/* Returns the pairs of "__metadata__", sorted by key. The key is NULL after the last. */
safetensors_pair safetensors_metadata_at(const safetensors_file *file, size_t index);

/*
 * Begins a file whose tensors are stored in the given order. Their bytes are written afterwards,
 * and must be as many as their shapes need. The `data` of `tensors` is not read. The file appears
 * under `path` complete or not at all (temporary file next to it, fsync, rename). Returns 0, or -1
 * and the reason in *error.
 */
int safetensors_writer_open(const char *path, const safetensors_tensor *tensors,
                            size_t tensor_count, const safetensors_pair *metadata,
                            size_t metadata_count, tensor_writer **writer,
                            safetensors_error *error);

#endif
