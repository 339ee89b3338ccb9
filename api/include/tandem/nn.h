/*
 * Operations of neural networks: normalization of rows.
 *
 * The common rules and statuses of tandem/ops.h hold here too: operations enqueue and return, all
 * tensors are on the stream's device, inputs have any strides, and elements of an output do not
 * overlap each other.
 */
#ifndef TANDEM_NN_H
#define TANDEM_NN_H

#include <tandem/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tdm_norm_kind {
    TDM_NORM_RMS = 1,  /* root mean square: the mean is not subtracted */
    TDM_NORM_LAYER = 2 /* layer normalization: mean 0 and variance 1 */
} tdm_norm_kind;

/* Optional operands of a normalization. Start from TDM_NORM_OPERANDS_INIT. */
typedef struct tdm_norm_operands {
    size_t struct_size;         /* sizeof(tdm_norm_operands) */
    const tdm_tensor *scale;    /* one factor per element of a row; NULL: 1 */
    const tdm_tensor *bias;     /* one summand per element of a row; NULL: 0 */
    const tdm_tensor *residual; /* added to x first; shape and dtype of x; NULL: 0 */
    tdm_tensor *sum;            /* receives x + residual; shape and dtype of x; NULL: not stored */
} tdm_norm_operands;

#ifdef __cplusplus
static inline tdm_norm_operands tdm_norm_operands_init(void) {
    tdm_norm_operands operands = tdm_norm_operands();
    operands.struct_size = sizeof operands;
    return operands;
}
#define TDM_NORM_OPERANDS_INIT tdm_norm_operands_init()
#else
#define TDM_NORM_OPERANDS_INIT                                                                     \
    { .struct_size = sizeof(tdm_norm_operands) }
#endif

/*
 * Normalize each row, which is the last dimension of x, of D elements:
 *
 *     h = x + residual
 *     RMS:    y = h / sqrt(mean of h² + epsilon) · scale + bias
 *     layer:  y = (h − m) / sqrt(mean of (h − m)² + epsilon) · scale + bias,  m = mean of h
 *
 * (Zhang and Sennrich 2019; Ba, Kiros and Hinton 2016.) `operands` may be NULL: no scale, bias,
 * residual or sum. All is computed in f32. sum and y are rounded once; y does not depend on the
 * rounding of sum. A row with a NaN or an infinity, and a row of zeros with epsilon 0, gives NaN in
 * at least one element. The squares must not exceed the range of f32: |h| below 10^19 / sqrt(D).
 *
 * Dtypes: x, residual, sum and y are all f32, f16 or bf16; scale and bias are each f32, f16 or
 * bf16, of rank 1 with D elements. y and sum may each be the very same view as x or residual; they
 * may not overlap each other, scale or bias. Statuses: as tandem/ops.h; TDM_BAD_ARGUMENT also for
 * an epsilon that is negative or not finite. Thread-safe. Since 0.2.
 */
TDM_API tdm_status tdm_norm(tdm_stream *stream, tdm_norm_kind kind, const tdm_tensor *x,
                            float epsilon, const tdm_norm_operands *operands, tdm_tensor *y);

#ifdef __cplusplus
}
#endif

#endif
