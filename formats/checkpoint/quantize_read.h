/*
 * Weights out of safetensors files that `tandem quantize` wrote, as the library takes them: codes, scales and zero points in arrays
 * that can be copied into the tensors of tdm_tensor_create_quantized.
 *
 * The file's metadata says what a tensor is, under "tandem.quant.<name>", in JSON (docs/quantize.md):
 *
 *     {"scheme":"s4-group","dtype":"s4","shape":[4096,4096],"block":[1,32]}
 *
 * and "tandem.quant":"1", the version of this layout, once.
 */
#ifndef TANDEM_FORMATS_CHECKPOINT_QUANTIZE_READ_H
#define TANDEM_FORMATS_CHECKPOINT_QUANTIZE_READ_H

#include <tandem/dtype.h>

#include "formats/checkpoint/quantize_source.h"
#include "quant/quant_parameters.h"

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

/* 0 when a tensor has the blocks of such a layout, or -1 with the reason. */
int quantize_layout_check(const quantize_layout *layout, const safetensors_tensor *tensor,
                          file_error *error);

/* The text; the caller frees it. NULL when memory is short. */
char *quantize_layout_text(const quantize_layout *layout);

/* A text made of two, which the caller frees. NULL when memory is short. */
char *quantize_join(const char *first, const char *second);

/* The layer of a weight: the name without ".weight", if it ends so. The caller frees it. NULL when memory is short. */
char *quantize_layer_name(const char *weight);

typedef struct quantized_weight {
    char scheme[24]; /* "s8-channel", "q4_0"; "" of a tensor that is not quantized */
    tdm_dtype dtype; /* of the codes: s8, u8, s4; or f32, f16, bf16 */
    int rank;
    int64_t shape[SAFETENSORS_MAX_RANK];
    int64_t block[SAFETENSORS_MAX_RANK]; /* as in tdm_quantization */
    const void *codes;                   /* of s4: two to a byte, element 2i in the low nibble */
    size_t code_bytes;
    tdm_dtype scale_dtype; /* f32, or f16 of q8_0 and q4_0; TDM_DTYPE_NONE: not quantized */
    const void *scales;    /* shape / block each, row-major */
    size_t scale_bytes;
    tdm_dtype zero_point_dtype; /* s8 (also of s4), u8; TDM_DTYPE_NONE: all are 0 */
    const void *zero_points;
    size_t zero_point_bytes;
    const void *floor;     /* where the data of the scales' file begins; set by who releases them */
    tdm_dtype input_dtype; /* u8 or s8 of a calibrated layer, else TDM_DTYPE_NONE */
    tdm_quant_parameters input;
    void *memory; /* what was taken apart; the rest points into the file */
} quantized_weight;

/*
 * Read the weight of that name. Arrays point into the file, which must outlive the weight; none is aligned. 0, or -1 with the
 * reason: no such tensor, metadata and tensors that contradict each other, scales that are no scales. q8_0 and q4_0 are taken apart into
 * codes and scales, in memory of the weight's own.
 */
int quantized_weight_read(const safetensors_file *file, const char *name, quantized_weight *weight,
                          file_error *error);

/* The same of a tensor in blocks, whatever its file is; without the layer's input. */
int quantized_weight_take_blocks(const quantize_tensor *tensor, quantized_weight *weight,
                                 file_error *error);

/* Elements first … first + count − 1 of a weight in f32: scale · (code − zero point), each rounded once. */
void quantized_weight_floats(const quantized_weight *weight, int64_t first, int64_t count,
                             float *values);

/* Let go of the memory of scales and zero points that point into a file. */
void quantized_weight_release_parameters(const quantized_weight *weight);

/* Free what the weight owns. A weight of all zeros is accepted. */
void quantized_weight_release(quantized_weight *weight);

#endif
