/*
 * The oracle of `tandem infer` computes logits in double precision on the host. For each logit it
 * also computes the standard deviation of a device's result. The device stores values in a given
 * dtype and accumulates in f32.
 *
 * The deviation is propagated through the layers as a sum of squares, because rounding errors are
 * independent. With u the unit roundoff of the storage dtype and v = 2^-24:
 *
 *   z = W x + b    var z = sum W^2 var x + u^2 (sum W^2 x^2 + b^2) + K v^2 (sum |W x| + |b|)^2
 *                          carried over    rounded W and b           accumulated in f32
 *   y = act(z)     var y = L^2 var z + u^2 y^2 + (4 v y)^2 + (u * smallest normal)^2
 *                                      stored    act itself  underflow
 *
 * L bounds the slope of the activation. Weights and biases kept in f32 have u = 0 in the first
 * line. A bound by absolute values would grow with K instead of its square root. It would accept a
 * result that lacks a part of a sum.
 *
 * The logits of a quantized network are computed from its quantized values and scales, not from the
 * original model. The accuracy measures the loss by quantization; the bound covers only f32
 * arithmetic. Calibrated inputs are integers that every device must compute exactly, so only the
 * last layer has a deviation. An input that is quantized by row has a deviation of one step if its
 * own deviation may change the integer to which it is rounded.
 */
#ifndef TANDEM_MODELS_MLP_MLP_ORACLE_H
#define TANDEM_MODELS_MLP_MLP_ORACLE_H

#include "models/mlp/mlp_model.h"

/* A logit is correct if it is within this many standard deviations. */
#define MLP_ORACLE_DEVIATIONS 4.0

typedef struct mlp_reference {
    int64_t row_count;
    int64_t outputs;
    int64_t *rows;     /* indices of samples, ascending */
    double *logits;    /* [row_count][outputs] */
    double *deviation; /* [row_count][outputs] */
} mlp_reference;

/*
 * Computes `row_count` rows spread evenly over the samples (all rows if row_count is their number).
 * If `quantized` is NULL, the unquantized model is computed. Returns 0, or -1 and the reason.
 * Release with mlp_reference_release in both cases.
 */
int mlp_reference_make(const mlp_model *model, const mlp_quantized *quantized,
                       const mlp_samples *samples, tdm_dtype dtype, int64_t row_count,
                       mlp_reference *reference, file_error *error);
void mlp_reference_release(mlp_reference *reference);

/* A comparison of a device's logits with the oracle. Start from all zero and add row by row. */
typedef struct mlp_agreement {
    int64_t rows;
    int64_t same_class; /* rows whose largest logit is the oracle's */
    double max_abs;     /* largest |device - oracle| */
    double max_rel;     /* largest |device - oracle| over the row's largest |logit| */
    /* Largest |device - oracle| over its bound. Above 1 is wrong; infinity for a NaN. */
    double max_error_ratio;
} mlp_agreement;

void mlp_agreement_add(mlp_agreement *agreement, const mlp_reference *reference, int64_t index,
                       const float *logits);

/* Returns the index of the first largest value. A NaN is never the largest. */
int64_t mlp_argmax(const float *values, int64_t count);

/* Returns the index of the oracle's first largest logit in one of its rows. */
int64_t mlp_reference_class(const mlp_reference *reference, int64_t index);

#endif
