/*
 * A multilayer perceptron on a device, for one precision and one batch size: a GEMM plan per layer with
 * weights packed once, bias and activation fused. Public interface of the library only.
 */
#ifndef TANDEM_MODELS_MLP_MLP_NETWORK_H
#define TANDEM_MODELS_MLP_MLP_NETWORK_H

#include "models/mlp/mlp_model.h"

typedef struct mlp_network mlp_network;

/*
 * Upload and pack the weights of `model`, rounded once to the dtype of `precision`, or as they are in `quantized` where the precision
 * has a scheme (else NULL), and plan its layers for `batch` samples. Waits until the weights are on the device. `device` and
 * `stream` must outlive the network. On failure *network is NULL and tdm_last_detail() has the reason.
 */
tdm_status mlp_network_create(tdm_device *device, tdm_stream *stream, const mlp_model *model,
                              const mlp_precision *precision, const mlp_quantized *quantized,
                              int64_t batch, mlp_network **network);
void mlp_network_destroy(mlp_network *network); /* NULL is accepted */

/* Take `rows` ≤ batch samples into the host's staging memory, rounded to the dtype; the rest is zero. */
void mlp_network_stage(mlp_network *network, const float *inputs, int64_t rows);

/* Enqueue the upload of the staged samples; the layers, and before them the inputs' quantization where they are calibrated; read
 * the logits back, which waits. */
tdm_status mlp_network_upload(mlp_network *network);
tdm_status mlp_network_forward(mlp_network *network);
tdm_status mlp_network_read(mlp_network *network);

/* [batch][outputs] as read last, widened to f32. */
const float *mlp_network_logits(mlp_network *network);

/* Device bytes of packed weights, their scales, and biases. */
uint64_t mlp_network_weight_bytes(const mlp_network *network);

/* Kernels of the layers, each name once, joined by '+'. */
const char *mlp_network_variants(const mlp_network *network);

#endif
