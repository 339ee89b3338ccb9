/* Recorded activations: the parameters of a layer's input. */
#ifndef TANDEM_CLI_QUANTIZE_QUANTIZE_CALIBRATE_H
#define TANDEM_CLI_QUANTIZE_QUANTIZE_CALIBRATE_H

#include "cli/quantize/quantize_plan.h"
#include "quant/observer.h"

/* What goes into one layer. */
typedef struct quantize_input {
    tdm_quant_parameters parameters;
    size_t batch_count; /* of recorded activations */
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
 * Observe it, after that check. 0, or -1 with the reason: not finite, no number at all, or no memory.
 */
int quantize_input_observe(const quantize_activations *activations, const quantize_layer *layer,
                           const tdm_quant_observer_options *options, tdm_dtype dtype,
                           quantize_input *input, file_error *error);

#endif
