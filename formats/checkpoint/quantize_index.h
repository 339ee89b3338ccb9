/*
 * The index of a checkpoint in several safetensors files, its shards: which tensor lies in which.
 * (model.safetensors.index.json, as Hugging Face's libraries write it.)
 *
 *     {"metadata": {"total_size": 1024}, "weight_map": {"a.weight": "model-00001-of-00002.safetensors", …}}
 *
 * Refused: what is no such JSON; a tensor that stands twice; shards that are no safetensors files in the folder of the index.
 */
#ifndef TANDEM_FORMATS_CHECKPOINT_QUANTIZE_INDEX_H
#define TANDEM_FORMATS_CHECKPOINT_QUANTIZE_INDEX_H

#include <stddef.h>

#include "formats/file_error.h"

struct cJSON;

/* All zero: none. */
typedef struct quantize_index {
    struct cJSON *json;         /* owns the names */
    const struct cJSON **items; /* of the map, by tensor */
    size_t count;
    const char **shards; /* every name once */
    size_t shard_count;
} quantize_index;

/* Whether a file of that name is an index: it ends in ".index.json". */
int quantize_is_index(const char *path);

/* 0, or -1 with the reason in *error; close it in any case. */
int quantize_index_open(const char *path, quantize_index *index, file_error *error);
void quantize_index_close(quantize_index *index);

/* The shard of a tensor, or NULL. */
const char *quantize_index_shard_of(const quantize_index *index, const char *tensor);

#endif
