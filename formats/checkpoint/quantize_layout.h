/*
 * What a safetensors file says of a quantized tensor: one text of the file's metadata per tensor, under
 * "tandem.quant.<name>", in JSON:
 *
 *     {"scheme":"s4-group","dtype":"s4","shape":[4096,4096],"block":[1,32]}
 *
 * and "tandem.quant":"1", the version of this layout, once. docs/quantize.md has the whole of it.
 */
#ifndef TANDEM_FORMATS_CHECKPOINT_QUANTIZE_LAYOUT_H
#define TANDEM_FORMATS_CHECKPOINT_QUANTIZE_LAYOUT_H

#include <tandem/dtype.h>

#include "formats/checkpoint/quantize_source.h"

#define QUANTIZE_VERSION_KEY "tandem.quant"
#define QUANTIZE_VERSION "1"
#define QUANTIZE_KEY_PREFIX "tandem.quant."
#define QUANTIZE_SCALE_SUFFIX "_scale"
#define QUANTIZE_ZERO_SUFFIX "_zero_point"

typedef struct quantize_layout {
    char scheme[24];
    quantize_storage storage; /* blocks, or plain: codes with scales in tensors of their own */
    tdm_dtype dtype;          /* of the codes: s8, u8, s4 */
    int asymmetric;           /* zero points in a tensor of their own */
    int rank;
    int64_t shape[SAFETENSORS_MAX_RANK]; /* of the codes, s4 unpacked */
    int64_t block[SAFETENSORS_MAX_RANK]; /* codes per dimension that share a scale; 0: all */
    int original_rank;                   /* where the tensor was flattened, else 0 */
    int64_t original_shape[SAFETENSORS_MAX_RANK];
} quantize_layout;

/* The layout of a tensor: 1, 0 when the file says nothing of it, -1 with the reason when it says nonsense. */
int quantize_layout_find(const safetensors_file *file, const char *name, quantize_layout *layout,
                         file_error *error);

/* Blocks that a tensor of such a layout has in the file; 0, or -1 with the reason when the tensor is none. */
int quantize_layout_blocks(const quantize_layout *layout, const safetensors_tensor *tensor,
                           size_t *blocks, file_error *error);

/* The text; the caller frees it. NULL when memory is short. */
char *quantize_layout_text(const quantize_layout *layout);

/* A text made of two, which the caller frees. NULL when memory is short. */
char *quantize_join(const char *first, const char *second);

/* The layer of a weight: the name without ".weight", if it ends so. The caller frees it. NULL when memory is short. */
char *quantize_layer_name(const char *weight);

#endif
