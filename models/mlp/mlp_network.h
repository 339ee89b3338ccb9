/*
 * A multilayer perceptron on a device, for one precision and one batch size. Each layer has a GEMM
 * plan with weights that are packed once, and fused bias and activation. It uses only the public
 * interface of the library.
 */
#ifndef TANDEM_MODELS_MLP_MLP_NETWORK_H
#define TANDEM_MODELS_MLP_MLP_NETWORK_H

#include "models/mlp/mlp_model.h"

typedef struct mlp_network mlp_network;

/*
 * Uploads and packs the weights of `model`, and plans its layers for `batch` samples. The weights
 * are rounded once to the dtype of `precision`, or taken from `quantized` if the precision has a
 * scheme (otherwise NULL). Waits until the weights are on the device. `device` and `stream` must
 * outlive the network. On failure *network is NULL and tdm_last_detail() has the reason.
 */
tdm_status mlp_network_create(tdm_device *device, tdm_stream *stream, const mlp_model *model,
                              const mlp_precision *precision, const mlp_quantized *quantized,
                              int64_t batch, mlp_network **network);
void mlp_network_destroy(mlp_network *network); /* NULL is accepted */

/* Copies `rows` ≤ batch samples to staging memory, rounded to the dtype; the rest is zero. */
void mlp_network_stage(mlp_network *network, const float *inputs, int64_t rows);

/*
 * _upload enqueues the upload of the staged samples. _forward enqueues the layers, after quantizing
 * calibrated inputs. _read reads the logits back and waits for them.
 */
tdm_status mlp_network_upload(mlp_network *network);
tdm_status mlp_network_forward(mlp_network *network);
tdm_status mlp_network_read(mlp_network *network);

/* Returns the logits that were read last, [batch][outputs], widened to f32. */
const float *mlp_network_logits(mlp_network *network);

/* Returns the device bytes of packed weights, their scales, and biases. */
uint64_t mlp_network_weight_bytes(const mlp_network *network);

/* Returns the kernels of the layers, each name once, joined by '+'. */
const char *mlp_network_variants(const mlp_network *network);

#endif
