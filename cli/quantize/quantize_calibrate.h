/*
 * Recorded activations: the parameters of a layer's input, and what quantization does to the layer's output.
 */
#ifndef TANDEM_CLI_QUANTIZE_QUANTIZE_CALIBRATE_H
#define TANDEM_CLI_QUANTIZE_QUANTIZE_CALIBRATE_H

#include "cli/quantize/quantize_pass.h"
#include "cli/quantize/quantize_plan.h"
#include "quant/error_measures.h"
#include "quant/observer.h"

/* What goes into one layer. */
typedef struct quantize_input {
    tdm_quant_parameters parameters;
    tdm_quant_range range;
    const quantize_batch *batches; /* of recorded activations, in order */
    size_t batch_count;
} quantize_input;

typedef struct quantize_layer {
    const char *name;
    const quantize_tensor *weight;
    int axis; /* the dimension of the weight that is the output */
} quantize_layer;

/* Whether types and shapes of all that is recorded for a layer fit it. 0, or -1 with the reason: no floats, rows of another length than
 * a matrix has inputs. */
int quantize_input_check(const quantize_activations *activations, const quantize_layer *layer,
                         file_error *error);

/*
 * Observe it, after that check. 0, or -1 with the reason: not finite, no number at all, or no memory. The activations must outlive the
 * input.
 */
int quantize_input_observe(const quantize_activations *activations, const quantize_layer *layer,
                           const tdm_quant_observer_options *options, tdm_dtype dtype,
                           quantize_input *input, file_error *error);

/*
 * The layer's output x·W for up to 64 of the recorded rows, evenly spread, in f32 weights and inputs and in quantized
 * ones; the sums are in double precision. Memory stays below the weight's bytes and 12 MiB: where the sums of all outputs would take more than
 * half of these bytes and 8 MiB, every second, third … output is compared.
 */
typedef struct quantize_product quantize_product;

/*
 * NULL where the output cannot be compared, and *error is empty: the weight is no matrix. NULL with the reason when memory is
 * short. The input is one that was observed, and outlives the product.
 */
quantize_product *quantize_product_create(const quantize_layer *layer, const quantize_input *input,
                                          file_error *error);

/* A part of the weights. `user` is the product: the function is that of a quantize_witness. */
void quantize_product_see(void *user, const quantize_part *part);

/* The error of the outputs. */
tdm_quant_error quantize_product_error(const quantize_product *product);

void quantize_product_destroy(quantize_product *product);

#endif
