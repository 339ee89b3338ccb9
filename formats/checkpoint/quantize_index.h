/*
 * The index of a checkpoint in several safetensors files, called shards. It names the shard of each
 * tensor. Hugging Face's libraries write it as model.safetensors.index.json:
 *
 *     {"metadata": {"total_size": 1024},
 *      "weight_map": {"a.weight": "model-00001-of-00002.safetensors", …}}
 *
 * The reader refuses other JSON, duplicate tensors, and shards that are not safetensors files in
 * the folder of the index.
 */
#ifndef TANDEM_FORMATS_CHECKPOINT_QUANTIZE_INDEX_H
#define TANDEM_FORMATS_CHECKPOINT_QUANTIZE_INDEX_H

#include <stddef.h>

#include "formats/file_error.h"

struct cJSON;

/* All zero: no index. */
typedef struct quantize_index {
    struct cJSON *json;         /* owns the names */
    const struct cJSON **items; /* entries of the map, sorted by tensor */
    size_t count;
    const char **shards; /* each name once */
    size_t shard_count;
} quantize_index;

/* Returns 1 if the file name is that of an index: it ends in ".index.json". */
int quantize_is_index(const char *path);

/* Returns 0, or -1 and the reason in *error. Close the index in either case. */
int quantize_index_open(const char *path, quantize_index *index, file_error *error);
void quantize_index_close(quantize_index *index);

/* Returns the shard of a tensor, or NULL. */
const char *quantize_index_shard_of(const quantize_index *index, const char *tensor);

#endif
