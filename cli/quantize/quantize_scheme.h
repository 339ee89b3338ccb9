/* The schemes that `tandem quantize` offers for weights, and how a tensor is cut into blocks for one. */
#ifndef TANDEM_CLI_QUANTIZE_QUANTIZE_SCHEME_H
#define TANDEM_CLI_QUANTIZE_QUANTIZE_SCHEME_H

#include "formats/checkpoint/quantize_source.h"
#include "quant/schemes.h"

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

#endif
