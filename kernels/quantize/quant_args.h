/* Arguments of the quantization kernels besides buffers and strides. The host and the kernel
 * sources share this definition. */
#ifndef TDM_QUANT_ARGS_H
#define TDM_QUANT_ARGS_H

#include "kernels/dialect/op_codes.h"

/* The parameters of one side: storage types (zero_type 0: no zero points), and the range of its
 * quantized values. */
typedef struct {
    int scale_type, zero_type;
    int low, high;
} tdm_quant_side;

/* source and target: the parameters of the operand that is quantized; both for requantize.
 * target_type: storage type of the output. streams: 1 if the output is too large for a cache.
 * masks: 1 if fake_quantize writes a mask. */
typedef struct {
    tdm_quant_side source, target;
    int target_type, streams, masks;
} tdm_quant_arg;

#endif
