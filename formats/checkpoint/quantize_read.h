/*
 * Reads weights from safetensors files that `tandem quantize` wrote. The quantized values, scales
 * and zero points are arrays that can be copied into the tensors of tdm_tensor_create_quantized.
 *
 * The file's metadata describes a tensor under "tandem.quant.<name>", in JSON (docs/quantize.md):
 *     {"scheme":"s4-group","dtype":"s4","shape":[4096,4096],"block":[1,32]}
 * The metadata also has "tandem.quant":"1" once, the version of this layout.
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
    quantize_storage storage; /* blocks, or plain: quantized values with separate scales */
    tdm_dtype dtype;          /* of the quantized values: s8, u8, s4 */
    int asymmetric;           /* zero points in a separate tensor */
    int rank;
    int64_t shape[SAFETENSORS_MAX_RANK]; /* of the quantized values; s4 is unpacked */
    int64_t block[SAFETENSORS_MAX_RANK]; /* values per dimension that share a scale; 0: all */
    int original_rank;                   /* if the tensor was flattened; otherwise 0 */
    int64_t original_shape[SAFETENSORS_MAX_RANK];
} quantize_layout;

/*
 * Reads the layout of a tensor. Returns 1, 0 if the file does not describe the tensor, or -1 and
 * the reason if the description is invalid.
 */
int quantize_layout_find(const safetensors_file *file, const char *name, quantize_layout *layout,
                         file_error *error);

/* Returns 0 if the tensor contains the q8_0 or q4_0 blocks of the layout, or -1 and the reason. */
int quantize_layout_check(const quantize_layout *layout, const safetensors_tensor *tensor,
                          file_error *error);

/* Returns the layout as JSON text, which the caller frees. Returns NULL if memory is short. */
char *quantize_layout_text(const quantize_layout *layout);

/* Returns the two strings joined, which the caller frees. Returns NULL if memory is short. */
char *quantize_join(const char *first, const char *second);

/* Returns the name without a final ".weight", which the caller frees. NULL if memory is short. */
char *quantize_layer_name(const char *weight);

typedef struct quantized_weight {
    char scheme[24]; /* "s8-channel", "q4_0"; "" if the tensor is not quantized */
    tdm_dtype dtype; /* of the quantized values: s8, u8, s4; or f32, f16, bf16 */
    int rank;
    int64_t shape[SAFETENSORS_MAX_RANK];
    int64_t block[SAFETENSORS_MAX_RANK]; /* as in tdm_quantization */
    const void *codes;                   /* s4: two per byte, element 2i in the low nibble */
    size_t code_bytes;
    tdm_dtype scale_dtype; /* f32; f16 for q8_0 and q4_0; TDM_DTYPE_NONE: not quantized */
    const void *scales;    /* shape / block per dimension, row-major */
    size_t scale_bytes;
    tdm_dtype zero_point_dtype; /* s8 (also for s4), u8; TDM_DTYPE_NONE: all are 0 */
    const void *zero_points;
    size_t zero_point_bytes;
    /*
     * The start of the data in the file that contains the scales.
     * quantized_weight_release_parameters needs it, and its caller sets it.
     */
    const void *floor;
    tdm_dtype input_dtype; /* u8 or s8 for a calibrated layer, otherwise TDM_DTYPE_NONE */
    tdm_quant_parameters input;
    void *memory; /* split blocks; otherwise the arrays point into the file */
} quantized_weight;

/*
 * Reads the weight of that name. Arrays point into the file, which must outlive the weight, and are
 * not aligned. Blocks of q8_0 and q4_0 are split into quantized values and scales, in memory that
 * the weight owns. Returns 0, or -1 and the reason: no such tensor, metadata and tensors that
 * contradict each other, or invalid scales.
 */
int quantized_weight_read(const safetensors_file *file, const char *name, quantized_weight *weight,
                          file_error *error);

/* Reads a tensor in blocks from any kind of file in the same way, without the layer's input. */
int quantized_weight_take_blocks(const quantize_tensor *tensor, quantized_weight *weight,
                                 file_error *error);

/*
 * Dequantizes elements first … first + count − 1 of a weight to f32: scale · (value − zero point),
 * with one rounding.
 */
void quantized_weight_floats(const quantized_weight *weight, int64_t first, int64_t count,
                             float *values);

/* Releases the memory of scales and zero points that point into a file. */
void quantized_weight_release_parameters(const quantized_weight *weight);

/* Frees what the weight owns. A weight of all zeros is accepted. */
void quantized_weight_release(quantized_weight *weight);

#endif
