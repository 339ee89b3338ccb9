/*
 * What becomes of each tensor of a checkpoint, decided before anything is written: which are quantized, the tensors of the
 * output, and the metadata that describes them.
 */
#ifndef TANDEM_CLI_QUANTIZE_QUANTIZE_PLAN_H
#define TANDEM_CLI_QUANTIZE_QUANTIZE_PLAN_H

#include <regex.h>

#include "formats/checkpoint/quantize_read.h"
#include "quant/observer.h"
#include "quant/schemes.h"

/* A scheme for weights that the command offers. */
typedef enum quantize_kind {
    QUANTIZE_KEEP,   /* only the container changes */
    QUANTIZE_FLOATS, /* to `dtype` */
    QUANTIZE_CODES,  /* integers, scales, zero points, in tensors of their own */
    QUANTIZE_BLOCKS  /* in the blocks of GGUF files */
} quantize_kind;

typedef struct quantize_scheme {
    const char *name;
    quantize_kind kind;
    tdm_dtype dtype;           /* of floats */
    quantize_storage storage;  /* of blocks */
    tdm_quant_scheme_id rules; /* of codes and blocks; 0 otherwise */
} quantize_scheme;

/* The names, separated by '|'. */
const char *quantize_scheme_names(void);

/* NULL when there is none of that name. */
const quantize_scheme *quantize_scheme_find(const char *name);

enum {
    QUANTIZE_LEAST_ELEMENTS = 1024,
    QUANTIZE_LEAST_ROW = 64, /* of experts' matrices; shorter rows are a convolution's */
    QUANTIZE_NO_ENTRY = -1
};

/* Another scheme, of the tensors whose names match. */
typedef struct quantize_exception {
    regex_t names;
    const quantize_scheme *scheme;
} quantize_exception;

typedef struct quantize_choice {
    const quantize_scheme *scheme;
    const quantize_exception *exceptions; /* the first whose names match counts */
    size_t exception_count;
    int64_t group;                      /* 0: the scheme's own */
    const regex_t *only;                /* NULL: by rank, type and size */
    const regex_t *skip;                /* NULL: none */
    const quantize_source *activations; /* NULL: none */
    int to_gguf;
} quantize_choice;

/* A tensor of the output. */
typedef struct quantize_entry {
    char *name;
    quantize_storage storage;
    safetensors_dtype dtype; /* of plain storage */
    int rank;
    int64_t shape[SAFETENSORS_MAX_RANK]; /* of elements */
    size_t bytes;
} quantize_entry;

/* A tensor of codes with its scales and zero points, which become numbers together. */
typedef struct quantize_decoded {
    quantize_tensor tensor;
    quantized_weight weight;
} quantize_decoded;

/* A tensor of the input. */
typedef struct quantize_item {
    const quantize_tensor *tensor;
    quantize_decoded *decoded; /* what `tensor` points to, of codes that become numbers, or NULL */
    const quantize_scheme *scheme; /* NULL: copied as it is */
    const char *note; /* why it is copied, or has no input, though one would expect otherwise */
    char *layer;
    tdm_quant_spec spec;    /* of codes */
    quantize_layout layout; /* of codes and blocks */
    int data;               /* positions in `entries`, or QUANTIZE_NO_ENTRY */
    int scale;
    int zero_point;
    int input_scale;
    int input_zero_point;
} quantize_item;

typedef struct quantize_plan {
    quantize_item *items;
    size_t item_count;
    quantize_entry *entries;
    size_t entry_count;
    size_t quantized; /* items with a scheme */
} quantize_plan;

/* 0, or -1 with *plan empty and the reason in *error. */
int quantize_plan_make(const quantize_source *source, const quantize_choice *choice,
                       quantize_plan *plan, file_error *error);

void quantize_plan_release(quantize_plan *plan);

/* Are there recorded activations of a layer: tensors LAYER, LAYER.input, or LAYER.input.0 (and .1, .2, … without a gap)? */
int quantize_input_exists(const quantize_source *activations, const char *layer);

/*
 * Observe them: *parameters become those of the layer's input. 0, or -1 with the reason: no floats, rows of another length than the matrix `weight` has inputs, numbers that are not
 * finite, no number at all, or no memory.
 */
int quantize_input_observe(const quantize_source *activations, const char *layer,
                           const quantize_tensor *weight, tdm_quant_observer_kind kind,
                           tdm_quant_parameters *parameters, file_error *error);

#endif
