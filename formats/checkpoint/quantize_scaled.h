/*
 * 8-bit floats of checkpoints whose scales stand in a tensor beside them: the number is the float times its scale. The names and shapes
 * that there are of scales are in docs/quantize.md.
 */
#ifndef TANDEM_FORMATS_CHECKPOINT_QUANTIZE_SCALED_H
#define TANDEM_FORMATS_CHECKPOINT_QUANTIZE_SCALED_H

#include "formats/checkpoint/quantize_source.h"

typedef struct quantize_scaling {
    const quantize_tensor *scales;
    tdm_dtype dtype; /* of the scales: f32, f16, bf16 */
    int rank;
    int64_t shape[SAFETENSORS_MAX_RANK];
    int64_t block[SAFETENSORS_MAX_RANK]; /* elements per dimension that share a scale */
    size_t bytes; /* of all that stands beside: the scales, and scales of the layer's input */
} quantize_scaling;

/*
 * Mark the tensors of a source that are 8-bit floats with scales beside them, and those scales: as the floats' own, as scales of other
 * codes of 8 bits and less are marked, and scales and zero points of codes that this program wrote. 0, or -1 when memory is short.
 */
int quantize_scaled_mark(quantize_source *source, file_error *error);

/*
 * Find the scales of a tensor that is marked and check them. 0, or -1 with the reason: none or several, of another type than floats, of a shape
 * that does not fit.
 */
int quantize_scaling_make(const quantize_source *source, const quantize_tensor *tensor,
                          quantize_scaling *scaling, file_error *error);

/* Multiply elements first … first + count − 1 of the whole tensor by their scales, rounded once. */
void quantize_scaling_apply(const quantize_scaling *scaling, int64_t first, int64_t count,
                            float *values);

/* Let go of the memory of the scales. */
void quantize_scaling_release(const quantize_scaling *scaling);

#endif
