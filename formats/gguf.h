/*
 * Reader and writer of GGUF files, little-endian, versions 2 and 3: a header with typed values and the list of tensors, then the data,
 * each tensor at a multiple of the file's alignment. (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md)
 *
 * A file is checked in full before anything of it is handed out. Shapes are given in the order of the rest of the program: row-major,
 * the last dimension contiguous. The file has them the other way round.
 */
#ifndef TANDEM_FORMATS_GGUF_H
#define TANDEM_FORMATS_GGUF_H

#include <stddef.h>
#include <stdint.h>

#include "formats/tensor_writer.h"

enum {
    GGUF_MAX_RANK = 4,
    GGUF_MAX_NAME = 1023,    /* bytes, of a tensor */
    GGUF_MAX_GGML_NAME = 63, /* of one that every ggml reads: it keeps 64 bytes with the NUL */
    GGUF_MAX_KEY = 65535,
    GGUF_MAX_ARRAY_DEPTH = 4,
    GGUF_DEFAULT_ALIGNMENT = 32,
    GGUF_MAX_ALIGNMENT = 1 << 20
};

/* The types that are read and written: name, number in the file, text, elements per block, bytes per block. */
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

/* Types of values: name, number in the file, bytes (0: it depends). */
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
    const void *data;             /* little-endian; aligned as the file is */
    size_t bytes;
} gguf_tensor;

/* A value as it stands in the file: a string is its length in eight bytes, then the text; an array its element
 * type in four, its count in eight, then the elements. Not aligned. */
typedef struct gguf_value {
    const char *key;
    gguf_value_type type;
    const void *data;
    size_t bytes;
} gguf_value;

typedef struct gguf_file gguf_file;

/*
 * Map a file and check it. 0, or -1 with *file NULL and the reason in *error. The file must not be cut
 * short while it is open: reading a mapping beyond the end of its file kills the process.
 */
int gguf_open(const char *path, gguf_file **file, file_error *error);

/* The same for a file in memory, which must outlive *file. */
int gguf_parse(const void *bytes, size_t size, gguf_file **file, file_error *error);

/* NULL is accepted. Tensors, values and names of the file die with it. */
void gguf_close(gguf_file *file);

/* The tensors, in the order of their data; find returns NULL when there is none of that name. */
size_t gguf_count(const gguf_file *file);
const gguf_tensor *gguf_at(const gguf_file *file, size_t index);
const gguf_tensor *gguf_find(const gguf_file *file, const char *name);

/* The values, in the order of the file; find returns NULL when there is none of that key. */
size_t gguf_value_count(const gguf_file *file);
const gguf_value *gguf_value_at(const gguf_file *file, size_t index);
const gguf_value *gguf_value_find(const gguf_file *file, const char *key);

uint64_t gguf_alignment(const gguf_file *file);

/*
 * Begin a file whose tensors are put piece by piece. The `data` of `tensors` is not read; their shapes and bytes must be valid. An alignment other than the
 * default must stand among the values as "general.alignment" too. 0, or -1 with the reason in *error.
 */
int gguf_writer_open(const char *path, const gguf_tensor *tensors, size_t tensor_count,
                     const gguf_value *values, size_t value_count, uint64_t alignment,
                     tensor_writer **writer, file_error *error);

/* What reader and writer share: a copy of a text that has no end of its own, which the caller frees, or NULL; */
char *gguf_copy_text(const void *bytes, size_t length);

/* and the next multiple, far below overflow, as places in files are. */
uint64_t gguf_align(uint64_t place, uint64_t alignment);

#endif
