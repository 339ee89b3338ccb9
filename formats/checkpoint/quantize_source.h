/*
 * A checkpoint to be quantized or converted, memory-mapped. It is a safetensors file, a GGUF file,
 * or an index with its safetensors files; the end of the file name decides. The tensors of all
 * formats have one representation.
 */
#ifndef TANDEM_FORMATS_CHECKPOINT_QUANTIZE_SOURCE_H
#define TANDEM_FORMATS_CHECKPOINT_QUANTIZE_SOURCE_H

#include <tandem/dtype.h>

#include "formats/checkpoint/quantize_index.h"
#include "formats/gguf.h"
#include "formats/safetensors.h"

/* How elements are stored. */
typedef enum quantize_storage {
    QUANTIZE_PLAIN, /* single values in `dtype` */
    QUANTIZE_Q8_0,  /* blocks of 32 along the last dimension, as in GGUF files */
    QUANTIZE_Q4_0,
    QUANTIZE_CODED /* quantized values with separate scales, read together */
} quantize_storage;

struct quantized_weight;

typedef struct quantize_tensor {
    const char *name;
    quantize_storage storage;
    safetensors_dtype dtype; /* for plain storage */
    int rank;
    int64_t shape[SAFETENSORS_MAX_RANK];
    const void *data; /* not aligned */
    size_t bytes;
    const void *floor;   /* the start of the data in the file */
    size_t shard;        /* index of its safetensors file */
    int has_codes;       /* plain storage: the metadata says that the bytes are quantized values */
    int has_zero_points; /* the quantized values have zero points */
    const struct quantize_tensor *owner; /* the quantized tensor whose scales these are, or NULL */
    const struct quantized_weight *weight; /* for coded storage */
} quantize_tensor;

typedef struct quantize_source {
    gguf_file *gguf;           /* NULL: safetensors files */
    safetensors_file **shards; /* one file, unless there is an index */
    size_t shard_count;
    char **paths; /* of all files that are read */
    size_t path_count;
    quantize_index index;
    quantize_tensor *tensors; /* in the order of their data, one shard after the other */
    const quantize_tensor **by_name;
    size_t count;
} quantize_source;

/* Returns 1 if the file name is that of a GGUF file: it ends in ".gguf". */
int quantize_is_gguf(const char *path);

/* Returns 0, or -1 with *source empty and the reason in *error. */
int quantize_source_open(const char *path, quantize_source *source, file_error *error);

void quantize_source_close(quantize_source *source);

/* Returns the safetensors file that contains a tensor. */
static inline const safetensors_file *quantize_file_of(const quantize_source *source,
                                                       const quantize_tensor *tensor) {
    return source->shards[tensor->shard];
}

/* Returns the metadata string for a key, from the first safetensors file that has one, or NULL. */
const char *quantize_source_metadata(const quantize_source *source, const char *key);

/* Returns 1 and the type if GGUF has a type for that storage and dtype. */
int quantize_gguf_type(quantize_storage storage, safetensors_dtype dtype, gguf_type *type);

/* Returns NULL if there is no tensor of that name. */
const quantize_tensor *quantize_source_find(const quantize_source *source, const char *name);

static inline int quantize_is_blocks(const quantize_tensor *tensor) {
    return tensor->storage == QUANTIZE_Q8_0 || tensor->storage == QUANTIZE_Q4_0;
}

/* Returns a name such as "F32", "Q8_0" or "s8-channel". */
const char *quantize_storage_name(const quantize_tensor *tensor);

/*
 * Returns f32, f16, bf16 or f64 for a plain tensor of floats, and f32 for blocks and coded tensors.
 * Returns TDM_DTYPE_NONE for tensors that are not floats.
 */
tdm_dtype quantize_float_dtype(const quantize_tensor *tensor);

/* Returns 1 if quantize_read_floats accepts the tensor: any tensor that has a float dtype. */
int quantize_is_float(const quantize_tensor *tensor);

int64_t quantize_element_count(const quantize_tensor *tensor);

/*
 * Reads elements first … first + count − 1 as f32 (f64 is rounded). In block storage, `first` must
 * be the start of a block and `count` must be whole blocks.
 */
void quantize_read_floats(const quantize_tensor *tensor, int64_t first, int64_t count,
                          float *values);

/*
 * Releases the memory of elements first … first + count − 1 and just before them. Use it for
 * elements that are not needed again soon.
 */
void quantize_release(const quantize_tensor *tensor, int64_t first, int64_t count);

/* Returns the bytes of `count` elements; in coded storage, of their quantized values. */
size_t quantize_storage_bytes(const quantize_tensor *tensor, int64_t count);

#endif
