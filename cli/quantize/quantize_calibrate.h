/* Recorded activations: the parameters of a layer's input. */
#ifndef TANDEM_CLI_QUANTIZE_QUANTIZE_CALIBRATE_H
#define TANDEM_CLI_QUANTIZE_QUANTIZE_CALIBRATE_H

#include "formats/checkpoint/quantize_source.h"
#include "quant/observer.h"
#include "quant/quant_parameters.h"

/* Whether tensors of the name LAYER, LAYER.input, or LAYER.input.0 (and .1, .2, … without a gap) are there. */
int quantize_input_exists(const quantize_source *activations, const char *layer);

/*
 * Observe them. 0, or -1 with the reason: no floats, rows of another length than the matrix `weight` has inputs, numbers that are not
 * finite, no number at all, or no memory.
 */
int quantize_input_observe(const quantize_source *activations, const char *layer,
                           const quantize_tensor *weight, tdm_quant_observer_kind kind,
                           tdm_quant_parameters *parameters, file_error *error);

#endif
