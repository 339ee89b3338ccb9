/*
 * The index of a checkpoint in several safetensors files, its shards: which tensor lies in which.
 * (model.safetensors.index.json, as Hugging Face's libraries write it.)
 *
 *     {"metadata": {"total_size": 1024}, "weight_map": {"a.weight": "model-00001-of-00002.safetensors", …}}
 *
 * Refused, with a sentence that says what is wrong: what is no such JSON; a tensor that stands twice; names of shards that are no
 * names of safetensors files in the folder of the index.
 */
#ifndef TANDEM_FORMATS_CHECKPOINT_QUANTIZE_INDEX_H
#define TANDEM_FORMATS_CHECKPOINT_QUANTIZE_INDEX_H

#include <stddef.h>

#include "formats/file_error.h"

typedef struct quantize_place {
    const char *tensor;
    size_t shard;
} quantize_place;

typedef struct quantize_index quantize_index;

/* Whether a file of that name is an index: it ends in ".index.json". */
int quantize_is_index(const char *path);

/* 0, or -1 with *index NULL and the reason in *error. */
int quantize_index_open(const char *path, quantize_index **index, file_error *error);

void quantize_index_close(quantize_index *index); /* NULL is accepted */

/* Shards, in the order of their names; their names die with the index. */
size_t quantize_index_shards(const quantize_index *index);
const char *quantize_index_shard(const quantize_index *index, size_t shard);

/* Tensors; find gives NULL when there is none of that name. */
size_t quantize_index_count(const quantize_index *index);
const quantize_place *quantize_index_find(const quantize_index *index, const char *tensor);

#endif
