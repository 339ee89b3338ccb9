/* These are the arguments of the gather kernels besides buffers and strides. The host and the
 * kernel sources share this definition. There is no padding: drivers differ in where they count
 * it. */
#ifndef TDM_GATHER_ARGS_H
#define TDM_GATHER_ARGS_H

#include "kernels/quantize/quant_args.h"

/* count: elements of the table along the axis. stride: the table's stride along it. indices_64: 1
 * for indices of s64, 0 for s32. streams: 1 if the output is too large for a cache. */
typedef struct {
    long count, stride;
    int indices_64, streams;
} tdm_gather_arg;

/* scale_stride, zero_stride: strides of the parameters along the axis, where `block` elements of
 * the table share a parameter. has_blocks: 1 if elements share parameters in blocks along another
 * outer dimension. */
typedef struct {
    tdm_gather_arg gather;
    long block, scale_stride, zero_stride;
    tdm_quant_side side;
    int target_type, has_blocks;
} tdm_gather_quantized_arg;

#endif
