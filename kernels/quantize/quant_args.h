/* What the quantization kernels take besides buffers and strides, one definition for the host and for
 * the kernel texts. */
#ifndef TDM_QUANT_ARGS_H
#define TDM_QUANT_ARGS_H

#include "kernels/dialect/op_codes.h"

/* The parameters of one side: storage types (zero_type 0: no zero points), and the integers that
 * codes may be. */
typedef struct {
    int scale_type, zero_type;
    int low, high;
} tdm_quant_side;

/* source and target: the parameters of the operand that carries them; both for requantize. target_type:
 * storage type of the output; streams: whether it is too large to stay in a cache; masks: whether
 * fake_quantize writes a mask. */
typedef struct {
    tdm_quant_side source, target;
    int target_type, streams, masks;
} tdm_quant_arg;

#endif
