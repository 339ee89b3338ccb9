/* A checkpoint to be quantized or converted: a safetensors or a GGUF file, or an index with its
 * safetensors files, by the end of the name, memory-mapped. Its tensors look the same whichever it is. */
#ifndef TANDEM_FORMATS_CHECKPOINT_QUANTIZE_SOURCE_H
#define TANDEM_FORMATS_CHECKPOINT_QUANTIZE_SOURCE_H

#include <tandem/dtype.h>

#include "formats/checkpoint/quantize_index.h"
#include "formats/gguf.h"
#include "formats/safetensors.h"

/* How elements are stored. */
typedef enum quantize_storage {
    QUANTIZE_PLAIN, /* one by one, in `dtype` */
    QUANTIZE_Q8_0,  /* blocks of 32 along the last dimension, as in GGUF files */
    QUANTIZE_Q4_0,
    QUANTIZE_CODED /* codes with scales in tensors of their own, taken together */
} quantize_storage;

struct quantized_weight;

typedef struct quantize_tensor {
    const char *name;
    quantize_storage storage;
    safetensors_dtype dtype; /* of plain storage */
    int rank;
    int64_t shape[SAFETENSORS_MAX_RANK];
    const void *data; /* aligned to nothing */
    size_t bytes;
    const void *floor;   /* where the data of the file begins */
    size_t shard;        /* the safetensors file it is in */
    int has_codes;       /* of plain storage: the metadata says that its bytes are codes, */
    int has_zero_points; /* and that these have zero points */
    const struct quantize_tensor *owner;   /* the codes that these are scales beside of, or NULL */
    const struct quantized_weight *weight; /* of coded storage */
} quantize_tensor;

typedef struct quantize_source {
    gguf_file *gguf;           /* NULL: safetensors files, */
    safetensors_file **shards; /* of which there is one, unless there is an index */
    size_t shard_count;
    char **paths; /* of all files that are read */
    size_t path_count;
    quantize_index index;
    quantize_tensor *tensors; /* in the order of their data, one shard after the other */
    const quantize_tensor **by_name;
    size_t count;
} quantize_source;

/* Whether a file of that name is a GGUF file: it ends in ".gguf". */
int quantize_is_gguf(const char *path);

/* 0, or -1 with *source empty and the reason in *error. */
int quantize_source_open(const char *path, quantize_source *source, file_error *error);

void quantize_source_close(quantize_source *source);

/* The safetensors file that a tensor is in. */
static inline const safetensors_file *quantize_file_of(const quantize_source *source,
                                                       const quantize_tensor *tensor) {
    return source->shards[tensor->shard];
}

/* A text of the metadata of safetensors files, of the first that has one under that key; or NULL. */
const char *quantize_source_metadata(const quantize_source *source, const char *key);

/* Whether GGUF has a type for that storage, and which. */
int quantize_gguf_type(quantize_storage storage, safetensors_dtype dtype, gguf_type *type);

/* NULL when there is none of that name. */
const quantize_tensor *quantize_source_find(const quantize_source *source, const char *name);

static inline int quantize_is_blocks(const quantize_tensor *tensor) {
    return tensor->storage == QUANTIZE_Q8_0 || tensor->storage == QUANTIZE_Q4_0;
}

/* "F32", "Q8_0", "s8-channel". */
const char *quantize_storage_name(const quantize_tensor *tensor);

/* f32, f16, bf16, f64 of a plain tensor of floats; f32 for blocks and coded ones; TDM_DTYPE_NONE for what is no float. */
tdm_dtype quantize_float_dtype(const quantize_tensor *tensor);

/* Whether quantize_read_floats takes it: any of these. */
int quantize_is_float(const quantize_tensor *tensor);

int64_t quantize_element_count(const quantize_tensor *tensor);

/*
 * Elements first … first + count − 1 in f32 (f64 is rounded). Of blocks, `first` must begin one and `count` be
 * whole ones.
 */
void quantize_read_floats(const quantize_tensor *tensor, int64_t first, int64_t count,
                          float *values);

/* Let go of the memory of the elements first … first + count − 1 and of what lies just before, which is no longer
 * needed, or not soon. */
void quantize_release(const quantize_tensor *tensor, int64_t first, int64_t count);

/* Bytes of `count` elements in the storage of a tensor; of coded storage those of the codes. */
size_t quantize_storage_bytes(const quantize_tensor *tensor, int64_t count);

#endif
