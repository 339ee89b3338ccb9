/* These are the internal parts of tensors: the struct, the quantization parameters of views, and
 * the checks that operations share. */
#ifndef TANDEM_API_TENSOR_TENSOR_INTERNAL_H
#define TANDEM_API_TENSOR_TENSOR_INTERNAL_H

#include "api/device/core.h"

#include <tandem/quant.h>

struct tdm_tensor {
    tdm_buffer *buffer; /* reference-counted */
    tdm_layout layout;
    int64_t offset; /* elements from the buffer's start */
    /* Quantization parameters, as handles that the tensor owns. NULL: none. */
    tdm_tensor *scale, *zero_point;
    int64_t block[TDM_MAX_RANK]; /* elements that share a parameter; 0: the whole dimension */
};

/* Attaches parameters to a tensor that is not shared yet, like tdm_tensor_quantized. The tensor
 * takes ownership of scale and zero_point (may be NULL). */
void tdm_tensor_carry(tdm_tensor *tensor, const int64_t *block, tdm_tensor *scale,
                      tdm_tensor *zero_point);

/* The three functions below attach a tensor's parameters to a new view of it, as quant.h specifies.
 * They do nothing if the tensor has none. On failure the view is destroyed and set to NULL. */
typedef struct tdm_view_slice {
    int dimension;
    int64_t start, stop, step;
} tdm_view_slice;
tdm_status tdm_view_carry_whole(const char *operation, const tdm_tensor *tensor, tdm_tensor **view);
tdm_status tdm_view_carry_transposed(const tdm_tensor *tensor, const int *order, tdm_tensor **view);
tdm_status tdm_view_carry_slice(const tdm_tensor *tensor, const tdm_view_slice *s,
                                tdm_tensor **view);

/* Returns a buffer argument. Its offset counts storage units from the start of the native
 * allocation. */
tdm_arg tdm_arg_tensor(const tdm_tensor *tensor);

/* ---- checks that operations share; detail texts start with the operation's name -------------- */

/* Checks that the tensor is not NULL and is on the stream's device. */
tdm_status tdm_check_tensor(const char *operation, const char *argument, const tdm_stream *stream,
                            const tdm_tensor *tensor);
/* Checks an output like tdm_check_tensor, and also that no two elements share an address. */
tdm_status tdm_check_output(const char *operation, const char *argument, const tdm_stream *stream,
                            const tdm_tensor *tensor);
/* Checks an output that is written in whole storage units. If it ended inside a unit, the write
 * would change a neighbouring element. */
tdm_status tdm_check_last_unit(const char *operation, const char *argument,
                               const tdm_tensor *tensor);
/* Fails if the tensors differ in shape or dtype, because a copy does not convert them. */
tdm_status tdm_check_same_elements(const char *operation, const tdm_tensor *target,
                                   const tdm_tensor *source);
/* True for the very same view: same buffer, offset and layout. */
bool tdm_same_view(const tdm_tensor *a, const tdm_tensor *b);
/* True if the two may share a byte. The answer is exact for the usual layouts (disjoint ranges;
 * interleaved columns and rows of one matrix). In other cases it is true. */
bool tdm_may_overlap(const tdm_tensor *a, const tdm_tensor *b);
/* Fails if an output overlaps an input. The same view is accepted if same_view_allowed is true. */
tdm_status tdm_check_overlap(const char *operation, const char *output_name,
                             const tdm_tensor *output, const char *input_name,
                             const tdm_tensor *input, bool same_view_allowed);

#endif
