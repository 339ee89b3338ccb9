/* Tensors, what views of them carry, and the checks that operations on tensors share. Nothing of this is public. */
#ifndef TANDEM_API_TENSOR_TENSOR_INTERNAL_H
#define TANDEM_API_TENSOR_TENSOR_INTERNAL_H

#include "api/device/core.h"

#include <tandem/quant.h>

struct tdm_tensor {
    tdm_buffer *buffer; /* counted */
    tdm_layout layout;
    int64_t offset; /* elements from the buffer's start */
    /* Quantization: own handles, NULL where there is none. */
    tdm_tensor *scale, *zero_point;
    int64_t block[TDM_MAX_RANK]; /* elements that share a parameter, 0: the whole dimension */
};

/* Give parameters to a tensor that nobody else has yet, like tdm_tensor_quantized; it owns scale and zero_point (may be NULL). */
void tdm_tensor_carry(tdm_tensor *tensor, const int64_t *block, tdm_tensor *scale,
                      tdm_tensor *zero_point);

/*
 * What a new view of a tensor carries: nothing where the tensor carries nothing, else the parameters as quant.h says. On failure
 * the view is destroyed and set to NULL.
 */
typedef struct tdm_view_slice {
    int dimension;
    int64_t start, stop, step;
} tdm_view_slice;
tdm_status tdm_view_carry_whole(const char *operation, const tdm_tensor *tensor, tdm_tensor **view);
tdm_status tdm_view_carry_transposed(const tdm_tensor *tensor, const int *order, tdm_tensor **view);
tdm_status tdm_view_carry_slice(const tdm_tensor *tensor, const tdm_view_slice *s,
                                tdm_tensor **view);

/* A buffer argument: element offset from the start of the native allocation. */
tdm_arg tdm_arg_tensor(const tdm_tensor *tensor);

/* ---- checks that operations share (detail texts start with the operation's name) */

/* Not NULL, on the stream's device. */
tdm_status tdm_check_tensor(const char *operation, const char *argument, const tdm_stream *stream,
                            const tdm_tensor *tensor);
/* Check an output: tdm_check_tensor, and no two elements share an address. */
tdm_status tdm_check_output(const char *operation, const char *argument, const tdm_stream *stream,
                            const tdm_tensor *tensor);
/* For outputs that are written in whole storage units: one that ends inside a unit would change its neighbour's element. */
tdm_status tdm_check_last_unit(const char *operation, const char *argument,
                               const tdm_tensor *tensor);
/* Refuse tensors that differ in shape or dtype, which a copy cannot take. */
tdm_status tdm_check_same_elements(const char *operation, const tdm_tensor *target,
                                   const tdm_tensor *source);
/* The very same view: same buffer, offset, layout. */
bool tdm_same_view(const tdm_tensor *a, const tdm_tensor *b);
/*
 * May the two touch a common byte? Exact for the usual layouts (disjoint ranges; interleaved
 * columns and rows of one matrix); where it cannot tell it answers yes.
 */
bool tdm_may_overlap(const tdm_tensor *a, const tdm_tensor *b);
/* Refuse an output that overlaps an input, the same view excepted when `same_view_allowed`. */
tdm_status tdm_check_overlap(const char *operation, const char *output_name,
                             const tdm_tensor *output, const char *input_name,
                             const tdm_tensor *input, bool same_view_allowed);

#endif
