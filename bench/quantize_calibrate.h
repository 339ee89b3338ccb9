/*
 * Recorded activations: the parameters of a layer's input, and what quantization does to the layer's output.
 */
#ifndef BENCH_QUANTIZE_CALIBRATE_H
#define BENCH_QUANTIZE_CALIBRATE_H

#include "bench/quantize_plan.h"
#include "quant/error_measures.h"
#include "quant/observer.h"

/* What goes into one layer. */
typedef struct quantize_input {
    tdm_quant_parameters parameters;
    tdm_quant_range range;
    const quantize_tensor **batches; /* of recorded activations, in order */
    size_t batch_count;
} quantize_input;

/*
 * Observe all that is recorded for a layer. 0, or -1 with the reason: no floats, not finite, or no memory. To be
 * released either way.
 */
int quantize_input_observe(const quantize_source *activations, const char *layer,
                           const tdm_quant_observer_options *options, tdm_dtype dtype,
                           quantize_input *input, file_error *error);
void quantize_input_release(quantize_input *input);

/*
 * The layer's output x·W for up to 64 of the recorded rows, evenly spread, in f32 weights and inputs and in quantized
 * ones; the sums are in double precision.
 */
typedef struct quantize_product quantize_product;

/*
 * NULL where the output cannot be compared, and *error is empty: the weight is no matrix, or the rows are of another length.
 * NULL with the reason when memory is short. axis: the dimension of the weight that is the output.
 */
quantize_product *quantize_product_create(const quantize_tensor *weight, int axis,
                                          const quantize_input *input, file_error *error);

/* Weights first … first + count − 1, before and after. `user` is the product. */
void quantize_product_see(void *user, int64_t first, int64_t count, const float *before,
                          const float *after);

/* The error of the outputs. */
tdm_quant_error quantize_product_error(const quantize_product *product);

void quantize_product_destroy(quantize_product *product);

#endif
