#include "models/mlp/mlp_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/checkpoint/quantize_read.h"
#include "quant/number_formats.h"
#include "quant/quant_reference.h"

enum {
    OFFSET_OF_U8 = 128 /* from u8 to s8 */
};

/* ---- the parts of a weight ---- */

static int allocate(mlp_quantized_layer *own, size_t code_bytes, int has_zero_points) {
    const size_t scales = (size_t)tdm_quant_scale_count(&own->spec);
    own->code_bytes = code_bytes;
    own->codes = malloc(code_bytes + 1);
    own->scales = malloc(scales * sizeof *own->scales);
    own->zero_points = has_zero_points ? malloc(scales) : NULL;
    return own->codes && own->scales && (own->zero_points || !has_zero_points) ? 0 : -1;
}

/* Returns how many outputs or inputs share a parameter, as in the spec: 0 means all of them. */
static int64_t block_of(const quantized_weight *weight, int dimension) {
    const int64_t block = weight->block[dimension];
    return block >= weight->shape[dimension] ? 0 : block;
}

static void copy_parameters(const quantized_weight *weight, mlp_quantized_layer *own) {
    const int64_t count = tdm_quant_scale_count(&own->spec);
    for (int64_t i = 0; i < count; i++) {
        const size_t at = (size_t)i;
        own->scales[at] = (float)tdm_number_get(weight->scale_dtype, weight->scales, at);
        if (!own->zero_points)
            continue;
        const double zero_point =
            weight->zero_point_dtype == TDM_DTYPE_NONE
                ? 0.0
                : tdm_number_get(weight->zero_point_dtype, weight->zero_points, at);
        own->zero_points[at] = (int8_t)(zero_point - (weight->dtype == TDM_U8 ? OFFSET_OF_U8 : 0));
    }
}

static void copy_codes(const quantized_weight *weight, mlp_quantized_layer *own) {
    unsigned char *const codes = own->codes;
    memcpy(codes, weight->codes, weight->code_bytes);
    for (size_t i = 0; weight->dtype == TDM_U8 && i < weight->code_bytes; i++)
        codes[i] ^= OFFSET_OF_U8;
}

/*
 * If a scale is 0, all of its values mean 0. They are set to the zero point, after which any scale
 * is valid. The scale becomes 1, because biases are in units of scales.
 */
static void clear_empty_scales(mlp_quantized_layer *own) {
    const int64_t outputs = own->spec.shape[0], inputs = own->spec.shape[1];
    for (int64_t n = 0; n < outputs; n++)
        for (int64_t k = 0; k < inputs; k++) {
            const tdm_quant_parameters parameters = mlp_weight_parameters(own, n, k);
            if (parameters.scale == 0.0f)
                tdm_quant_set(own->spec.dtype, own->codes, n * inputs + k, parameters.zero_point);
        }
    for (int64_t i = 0; i < tdm_quant_scale_count(&own->spec); i++)
        if (own->scales[i] == 0.0f)
            own->scales[i] = 1.0f;
}

static int fill_floats(const char *name, mlp_layer *layer, file_error *error) {
    const mlp_quantized_layer *const own = &layer->stored;
    for (int64_t n = 0; n < layer->outputs; n++)
        for (int64_t k = 0; k < layer->inputs; k++) {
            const int64_t at = n * layer->inputs + k;
            layer->weight[at] = tdm_quant_dequantize(tdm_quant_get(own->spec.dtype, own->codes, at),
                                                     mlp_weight_parameters(own, n, k));
            if (!isfinite(layer->weight[at]))
                return file_fail(error, "value %lld of tensor \"%s\" is not finite in f32",
                                 (long long)at, file_printable(name).text);
        }
    return 0;
}

static int take_weight(const char *name, const quantized_weight *weight, mlp_layer *layer,
                       file_error *error) {
    mlp_quantized_layer *const own = &layer->stored;
    if (weight->rank != 2 || weight->shape[0] < 1 || weight->shape[1] < 1)
        return file_fail(error, "tensor \"%s\" is not a weight matrix", file_printable(name).text);
    if (block_of(weight, 0) > 1)
        return file_fail(error, "several outputs share a scale of tensor \"%s\"",
                         file_printable(name).text);
    layer->outputs = weight->shape[0];
    layer->inputs = weight->shape[1];
    own->scale_dtype = weight->scale_dtype;
    own->input_dtype = weight->input_dtype;
    own->input = weight->input;
    own->spec = (tdm_quant_spec){.rank = 2,
                                 .shape = {layer->outputs, layer->inputs},
                                 .blocks = {block_of(weight, 0), block_of(weight, 1)},
                                 .dtype = weight->dtype == TDM_S4 ? TDM_S4 : TDM_S8,
                                 .range = {-128, 127}};
    if (own->spec.dtype == TDM_S4)
        own->spec.range = (tdm_quant_range){-8, 7};
    const int has_zero_points =
        weight->dtype == TDM_U8 || weight->zero_point_dtype != TDM_DTYPE_NONE;
    layer->weight = malloc((size_t)(layer->outputs * layer->inputs) * sizeof *layer->weight);
    if (!layer->weight || allocate(own, weight->code_bytes, has_zero_points))
        return file_fail(error, "out of memory for tensor \"%s\"", file_printable(name).text);
    copy_codes(weight, own);
    copy_parameters(weight, own);
    clear_empty_scales(own);
    return fill_floats(name, layer, error);
}

/* ---- the file ---- */

/* Returns 1 if the file has integers under that name, 0 if not, or -1. */
static int read_weight(const quantize_source *source, const quantize_tensor *tensor,
                       quantized_weight *weight, file_error *error) {
    quantize_layout layout;
    if (source->gguf)
        return !quantize_is_blocks(tensor)                           ? 0
               : quantized_weight_take_blocks(tensor, weight, error) ? -1
                                                                     : 1;
    const int found =
        quantize_layout_find(quantize_file_of(source, tensor), tensor->name, &layout, error);
    if (found <= 0)
        return found;
    if (layout.original_rank > 0)
        return file_fail(error, "tensor \"%s\" was not a matrix before it was quantized",
                         file_printable(tensor->name).text);
    return quantized_weight_read(quantize_file_of(source, tensor), tensor->name, weight, error) ? -1
                                                                                                : 1;
}

/*
 * Counts the tensors of a weight. In a safetensors file, these are the quantized values, scales,
 * zero points, and parameters of the inputs. Blocks have no separate scales.
 */
static size_t count_tensors(const quantize_tensor *tensor, const quantized_weight *weight) {
    const size_t own = tensor->storage != QUANTIZE_PLAIN            ? 1
                       : weight->zero_point_dtype == TDM_DTYPE_NONE ? 2
                                                                    : 3;
    return own + (weight->input_dtype == TDM_DTYPE_NONE ? 0 : 2);
}

int mlp_stored_read(const quantize_source *source, const quantize_tensor *weight, mlp_layer *layer,
                    size_t *tensors, file_error *error) {
    quantized_weight read = {.memory = NULL};
    const int found = read_weight(source, weight, &read, error);
    if (found <= 0)
        return found;
    *tensors += count_tensors(weight, &read);
    const int result = take_weight(weight->name, &read, layer, error) ? -1 : 1;
    snprintf(layer->scheme, sizeof layer->scheme, "%s", read.scheme);
    quantized_weight_release(&read);
    return result;
}
