/*
 * The plan decides how each tensor of a checkpoint is written, before anything is written. It says
 * which tensors are quantized. It lists the tensors of the output, and the metadata that describes
 * them.
 */
#ifndef TANDEM_CLI_QUANTIZE_QUANTIZE_PLAN_H
#define TANDEM_CLI_QUANTIZE_QUANTIZE_PLAN_H

#include <regex.h>

#include "formats/checkpoint/quantize_read.h"
#include "quant/observer.h"
#include "quant/schemes.h"

/* The kinds of weight schemes that the command offers. */
typedef enum quantize_kind {
    QUANTIZE_KEEP,   /* copies the tensor; only the file format may change */
    QUANTIZE_FLOATS, /* converts to `dtype` */
    QUANTIZE_CODES,  /* writes integers, scales and zero points, in separate tensors */
    QUANTIZE_BLOCKS  /* writes blocks as in GGUF files */
} quantize_kind;

typedef struct quantize_scheme {
    const char *name;
    quantize_kind kind;
    tdm_dtype dtype;           /* for floats */
    quantize_storage storage;  /* for blocks */
    tdm_quant_scheme_id rules; /* for quantized values and blocks; 0 otherwise */
} quantize_scheme;

/* Returns the names, separated by '|'. */
const char *quantize_scheme_names(void);

/* Returns NULL if no scheme has that name. */
const quantize_scheme *quantize_scheme_find(const char *name);

enum {
    QUANTIZE_MIN_ELEMENTS = 1024,
    QUANTIZE_MIN_ROW = 64, /* of tensors of rank 3: experts' matrices, not convolutions */
    QUANTIZE_NO_ENTRY = -1
};

/* A different scheme for the tensors whose names match. */
typedef struct quantize_exception {
    regex_t names;
    const quantize_scheme *scheme;
} quantize_exception;

typedef struct quantize_choice {
    const quantize_scheme *scheme;
    const quantize_exception *exceptions; /* the first one that matches applies */
    size_t exception_count;
    int64_t group;                      /* 0: the default of the scheme */
    const regex_t *only;                /* NULL: choose by rank, type and size */
    const regex_t *skip;                /* NULL: skip none */
    const quantize_source *activations; /* NULL: none */
    int to_gguf;
} quantize_choice;

/* A tensor of the output. */
typedef struct quantize_entry {
    char *name;
    quantize_storage storage;
    safetensors_dtype dtype; /* for plain storage */
    int rank;
    int64_t shape[SAFETENSORS_MAX_RANK]; /* in elements */
    size_t bytes;
} quantize_entry;

/* A quantized tensor with its scales and zero points, which are dequantized together. */
typedef struct quantize_decoded {
    quantize_tensor tensor;
    quantized_weight weight;
} quantize_decoded;

/* A tensor of the input. */
typedef struct quantize_item {
    const quantize_tensor *tensor;
    /* Owns what `tensor` points to if the input is dequantized. Otherwise NULL. */
    quantize_decoded *decoded;
    const quantize_scheme *scheme; /* NULL: copied unchanged */
    /*
     * Explains why the tensor is copied, or why its layer's input has no scale, if a user would
     * expect otherwise. NULL: there is nothing to explain.
     */
    const char *note;
    char *layer;
    tdm_quant_spec spec;    /* for quantized values */
    quantize_layout layout; /* for quantized values and blocks */
    int data;               /* indices in `entries`, or QUANTIZE_NO_ENTRY */
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
    size_t quantized; /* number of items with a scheme */
} quantize_plan;

/* Returns 0, or -1 with *plan empty and the reason in *error. */
int quantize_plan_make(const quantize_source *source, const quantize_choice *choice,
                       quantize_plan *plan, file_error *error);

void quantize_plan_release(quantize_plan *plan);

/*
 * Returns 1 if `activations` has recorded inputs of a layer. Their tensors are named LAYER,
 * LAYER.input, or LAYER.input.0 (and .1, .2, … without a gap).
 */
int quantize_input_exists(const quantize_source *activations, const char *layer);

/*
 * Observes the recorded inputs of a layer, and computes the quantization parameters for them.
 * Returns 0, or -1 and the reason. It fails if the inputs are not floats, if a number is not
 * finite, or if there is no number. It also fails if their rows are longer or shorter than those of
 * the matrix `weight`, or if memory is short.
 */
int quantize_input_observe(const quantize_source *activations, const char *layer,
                           const quantize_tensor *weight, tdm_quant_observer_kind kind,
                           tdm_quant_parameters *parameters, file_error *error);

#endif
