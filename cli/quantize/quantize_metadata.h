/*
 * Metadata from one container to the other.
 *
 * A GGUF value becomes the safetensors text "gguf.<key>" = "<type> <value>", e.g. "u32 4096"; a text of a safetensors file becomes the
 * GGUF string "safetensors.<key>", and its old self on the way back. Arrays are left out.
 */
#ifndef TANDEM_CLI_QUANTIZE_QUANTIZE_METADATA_H
#define TANDEM_CLI_QUANTIZE_QUANTIZE_METADATA_H

#include "cli/quantize/quantize_plan.h"

/* Lists that own what they hold. All zero: empty. */
typedef struct quantize_pairs {
    safetensors_pair *items;
    size_t count;
    size_t left_out;
} quantize_pairs;

typedef struct quantize_values {
    gguf_value *items;
    size_t count;
} quantize_values;

enum {
    QUANTIZE_ALL_SHARDS = -1
};

/*
 * The metadata of a safetensors file: of one shard, or of all in one, where a key that several have is that of the first. 0, or -1 when memory
 * is short.
 */
int quantize_make_pairs(const quantize_source *source, const quantize_plan *plan, int shard,
                        quantize_pairs *pairs);

/* The values of a GGUF file. `path` gives a model without a name one. 0, or -1 when memory is short. */
int quantize_make_values(const char *path, const quantize_source *source, const quantize_plan *plan,
                         quantize_values *values);

void quantize_pairs_release(quantize_pairs *pairs);
void quantize_values_release(quantize_values *values);

#endif
