/*
 * 8-bit floats of checkpoints whose scales stand in a tensor beside them: the number is the float times its scale. The names and shapes
 * that there are of scales are in docs/quantize.md.
 */
#ifndef TANDEM_FORMATS_CHECKPOINT_QUANTIZE_SCALED_H
#define TANDEM_FORMATS_CHECKPOINT_QUANTIZE_SCALED_H

#include "formats/checkpoint/quantize_read.h"

/*
 * Mark the tensors of a source that are 8-bit floats with scales beside them, and those scales: as the floats' own, as scales of other
 * codes of 8 bits and less are marked, and scales and zero points of codes that this program wrote. 0, or -1 when memory is short.
 */
int quantize_scaled_mark(quantize_source *source, file_error *error);

/*
 * Find the scales of a tensor that is marked, as those of a weight without codes. 0, or -1 with the reason: none or several, of another
 * type than floats, of a shape that does not fit.
 */
int quantize_scaled_read(const quantize_source *source, const quantize_tensor *tensor,
                         quantized_weight *weight, file_error *error);

#endif
