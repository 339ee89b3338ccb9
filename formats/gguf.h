/*
 * Reader and writer of GGUF files, little-endian, versions 2 and 3. A file has a header with typed
 * values and the list of tensors, then the data. Each tensor is at a multiple of the file's
 * alignment. (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md)
 *
 * A file is checked completely before any part of it is returned. Shapes are in this program's
 * order: row-major, the last dimension contiguous. The file stores them in reverse order.
 */
#ifndef TANDEM_FORMATS_GGUF_H
#define TANDEM_FORMATS_GGUF_H

#include <stddef.h>
#include <stdint.h>

#include "formats/tensor_writer.h"

enum {
    GGUF_MAX_RANK = 4,
    GGUF_MAX_NAME = 1023,    /* bytes of a tensor's name */
    GGUF_MAX_GGML_NAME = 63, /* the limit of ggml as built: 64 bytes with the NUL */
    GGUF_MAX_KEY = 65535,
    GGUF_MAX_ARRAY_DEPTH = 4,
    GGUF_DEFAULT_ALIGNMENT = 32,
    GGUF_MAX_ALIGNMENT = 1 << 20
};

/* The supported types: name, number in the file, text, elements per block, bytes per block. */
#define GGUF_TYPE_LIST(X)                                                                          \
    X(GGUF_F32, 0, "F32", 1, 4)                                                                    \
    X(GGUF_F16, 1, "F16", 1, 2)                                                                    \
    X(GGUF_Q4_0, 2, "Q4_0", 32, 18)                                                                \
    X(GGUF_Q8_0, 8, "Q8_0", 32, 34)                                                                \
    X(GGUF_I8, 24, "I8", 1, 1)                                                                     \
    X(GGUF_I16, 25, "I16", 1, 2)                                                                   \
    X(GGUF_I32, 26, "I32", 1, 4)                                                                   \
    X(GGUF_I64, 27, "I64", 1, 8)                                                                   \
    X(GGUF_F64, 28, "F64", 1, 8)                                                                   \
    X(GGUF_BF16, 30, "BF16", 1, 2)

typedef enum gguf_type {
#define GGUF_TYPE_ENUM(name, number, text, elements, bytes) name = number,
    GGUF_TYPE_LIST(GGUF_TYPE_ENUM)
#undef GGUF_TYPE_ENUM
} gguf_type;

/* Types of values. Columns: name, number in the file, bytes (0: variable). */
#define GGUF_VALUE_LIST(X)                                                                         \
    X(GGUF_VALUE_U8, 0, 1)                                                                         \
    X(GGUF_VALUE_I8, 1, 1)                                                                         \
    X(GGUF_VALUE_U16, 2, 2)                                                                        \
    X(GGUF_VALUE_I16, 3, 2)                                                                        \
    X(GGUF_VALUE_U32, 4, 4)                                                                        \
    X(GGUF_VALUE_I32, 5, 4)                                                                        \
    X(GGUF_VALUE_F32, 6, 4)                                                                        \
    X(GGUF_VALUE_BOOL, 7, 1)                                                                       \
    X(GGUF_VALUE_STRING, 8, 0)                                                                     \
    X(GGUF_VALUE_ARRAY, 9, 0)                                                                      \
    X(GGUF_VALUE_U64, 10, 8)                                                                       \
    X(GGUF_VALUE_I64, 11, 8)                                                                       \
    X(GGUF_VALUE_F64, 12, 8)

typedef enum gguf_value_type {
#define GGUF_VALUE_ENUM(name, number, bytes) name = number,
    GGUF_VALUE_LIST(GGUF_VALUE_ENUM)
#undef GGUF_VALUE_ENUM
    GGUF_VALUE_TYPES
} gguf_value_type;

typedef struct gguf_tensor {
    const char *name; /* UTF-8 */
    gguf_type type;
    int rank;                     /* 0 is a scalar */
    int64_t shape[GGUF_MAX_RANK]; /* row-major */
    const void *data;             /* little-endian; aligned as in the file */
    size_t bytes;
} gguf_tensor;

/*
 * A value as it is stored in the file. A string is its length in eight bytes, then the text. An
 * array is its element type in four bytes, its count in eight, then the elements. Values are not
 * aligned.
 */
typedef struct gguf_value {
    const char *key;
    gguf_value_type type;
    const void *data;
    size_t bytes;
} gguf_value;

typedef struct gguf_file gguf_file;

/*
 * Maps a file and checks it. Returns 0, or -1 with *file NULL and the reason in *error. The file
 * must not be truncated while it is open: reading a mapping beyond the end of its file kills the
 * process.
 */
int gguf_open(const char *path, gguf_file **file, file_error *error);

/* Parses a file in memory in the same way. The memory must outlive *file. */
int gguf_parse(const void *bytes, size_t size, gguf_file **file, file_error *error);

/* NULL is accepted. The file's tensors, values and names are freed with it. */
void gguf_close(gguf_file *file);

/* Tensors are in the order of their data. gguf_find returns NULL if there is none of that name. */
size_t gguf_count(const gguf_file *file);
const gguf_tensor *gguf_at(const gguf_file *file, size_t index);
const gguf_tensor *gguf_find(const gguf_file *file, const char *name);

/* Values are in the file's order. gguf_value_find returns NULL if there is none of that key. */
size_t gguf_value_count(const gguf_file *file);
const gguf_value *gguf_value_at(const gguf_file *file, size_t index);
const gguf_value *gguf_value_find(const gguf_file *file, const char *key);

uint64_t gguf_alignment(const gguf_file *file);

/*
 * Begins a file whose tensors are written piece by piece. The `data` of `tensors` is not read;
 * their shapes and bytes must be valid. An alignment other than the default must also be among the
 * values, as "general.alignment". Returns 0, or -1 and the reason in *error.
 */
int gguf_writer_open(const char *path, const gguf_tensor *tensors, size_t tensor_count,
                     const gguf_value *values, size_t value_count, uint64_t alignment,
                     tensor_writer **writer, file_error *error);

/*
 * Shared by the reader and the writer. Returns a NUL-terminated copy of a string, which the caller
 * frees, or NULL.
 */
char *gguf_copy_text(const void *bytes, size_t length);

/* Returns the next multiple of `alignment`. Offsets in files are far from overflow. */
uint64_t gguf_align(uint64_t place, uint64_t alignment);

#endif
