/* The ops and the layer of the transformers, for the files that make traces of them. */
#ifndef TANDEM_BENCH_TRACE_TRACE_LAYERS_H
#define TANDEM_BENCH_TRACE_TRACE_LAYERS_H

#include "bench/trace/trace_transformer.h"

#define NO_BLOCK UINT32_MAX

enum {
    LAYER_WEIGHTS = 9,
    MAX_KEPT = 16
};

typedef struct transformer {
    const trace_settings *settings;
    trace_data *trace;
    uint64_t element;
    uint64_t head; /* elements of a head */
    uint64_t tokens;
    uint32_t compute, communicate, copy; /* streams */
    uint32_t tag;                        /* of what is allocated now */
    uint32_t weights; /* first of them, LAYER_WEIGHTS per layer, embedding first; NO_BLOCK: none */
    uint64_t *seen;   /* streams that used a block, as bits */
    size_t seen_capacity;
} transformer;

/* What a layer's forward pass leaves to its backward pass; without a place to keep them they are freed. */
typedef struct kept_blocks {
    uint32_t blocks[MAX_KEPT];
    int count;
} kept_blocks;

/* Keys and values of a layer, as attention reads them. */
typedef struct key_values {
    uint32_t keys, values;
    uint64_t positions;
} key_values;

/* Makes the keys and values of a layer's tokens part of what is attended to, and gives that. */
typedef key_values (*key_value_store)(transformer *model, int64_t layer, uint32_t keys,
                                      uint32_t values, kept_blocks *kept);

/* Make the weights; and release what the model holds. */
transformer transformer_begin(const trace_settings *settings, trace_data *trace);
void transformer_finish(transformer *model);

/* Allocate for the stream of the ops: bytes, elements. */
uint32_t transformer_allocate(transformer *model, uint64_t bytes, uint32_t stream);
uint32_t transformer_tensor(transformer *model, uint64_t elements);
/* The op reads or writes the block: noted where the stream had not used it yet. NO_BLOCK is accepted. */
void transformer_touch(transformer *model, uint32_t block, uint32_t stream);
void transformer_release(transformer *model, uint32_t block);
/* One op with at most three operands. */
void transformer_run(transformer *model, uint32_t a, uint32_t b, uint32_t c);
/* The sum over all parts of a model that is spread over several devices, in place. */
void transformer_reduce(transformer *model, uint32_t block);

/* A weight of a layer, and how large it is. */
uint32_t transformer_weight(const transformer *model, int64_t layer, int which);
uint64_t transformer_weight_elements(const transformer *model, int which);

/* The first state of the tokens. */
uint32_t transformer_embed(transformer *model, uint64_t rows);
/* Keep the block for the backward pass where there is a place, else free it. */
void transformer_done_with(transformer *model, uint32_t block, kept_blocks *kept);
/* One layer on `rows` tokens; the input is freed unless the caller keeps it. Returns the output. */
uint32_t transformer_layer(transformer *model, int64_t layer, uint32_t input, uint64_t rows,
                           key_value_store store, kept_blocks *kept, int keep_input);

#endif
