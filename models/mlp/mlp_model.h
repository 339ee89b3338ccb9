/*
 * A multilayer perceptron on the host: linear layers with one activation between them, read from
 * safetensors files or made from a seed, and the samples to run it on.
 */
#ifndef TANDEM_MODELS_MLP_MLP_MODEL_H
#define TANDEM_MODELS_MLP_MLP_MODEL_H

#include <stdint.h>

#include <tandem/gemm.h>

#include "formats/file_error.h"
#include "quant/quant_parameters.h"

enum {
    MLP_MAX_LAYERS = 64
};

/* Weights of a layer as integers, and the integers that its inputs become: real = scale * (code - zero point). */
typedef struct mlp_quantized_layer {
    tdm_quant_spec
        spec;    /* s8 or s4, [outputs][inputs]; blocks: all outputs or each, inputs in groups */
    void *codes; /* NULL: the layer's weights are floats */
    size_t code_bytes;
    float *scales;
    tdm_dtype scale_dtype; /* as the file has the scales, and the device */
    int8_t *zero_points;   /* as many as scales; NULL: all 0 */
    tdm_dtype input_dtype; /* calibrated inputs: u8 or s8, else TDM_DTYPE_NONE */
    tdm_quant_parameters input;
    int32_t *bias; /* calibrated inputs, all layers but the last: in units of both scales */
} mlp_quantized_layer;

/* y = weight · x + bias */
typedef struct mlp_layer {
    int64_t inputs;
    int64_t outputs;
    float *weight; /* [outputs][inputs]; of stored integers the numbers that they stand for */
    float *bias;   /* [outputs], or NULL */
    mlp_quantized_layer stored; /* as the file has it, without `bias`; no codes: floats */
    char scheme[24];            /* of stored integers */
} mlp_layer;

typedef struct mlp_model {
    char name[64];
    int layer_count;
    mlp_layer layers[MLP_MAX_LAYERS];
    tdm_activation activation; /* after every layer but the last */
    double input_scale;        /* the samples are multiplied by it */
    double recorded_accuracy;  /* share of right answers that the file claims; NaN: none */
    char scheme[24]; /* of stored integers, "mixed" of several; "": all weights are floats */
} mlp_model;

typedef struct mlp_samples {
    int64_t count;
    int64_t width;
    float *inputs;   /* [count][width], scaled */
    int32_t *labels; /* [count], or NULL: unknown */
} mlp_samples;

/*
 * Read directory/model.safetensors, or where there is none directory/model.gguf. Every two-dimensional tensor "<layer>.weight" [outputs,
 * inputs] is a layer, "<layer>.bias" [outputs] belongs to it; layers follow each other in the natural order of their
 * names (layers.2 before layers.10), and their widths must fit. Weights: F32, F16, BF16 or F64, or what `tandem quantize`
 * wrote in any of its schemes. Metadata: "architecture" must be "mlp", "activation" a name of TDM_ACTIVATION_LIST;
 * "input_scale" and "heldout_accuracy" are optional. 0, or -1 with the reason. Release with mlp_model_release in both cases.
 */
int mlp_model_load(const char *directory, mlp_model *model, file_error *error);

/*
 * Read a safetensors file: "images" [count, width] of any of the number types, "labels" [count]
 * of integers. 0, or -1 with the reason. Release with mlp_samples_release in both cases.
 */
int mlp_samples_load(const char *path, const mlp_model *model, mlp_samples *samples,
                     file_error *error);

/*
 * A relu model with the given widths (count - 1 layers) whose weights are uniform with He's variance, so
 * that values keep their size from layer to layer; and samples uniform in [-1, 1). The same seed gives the
 * same numbers on every machine.
 */
int mlp_model_synthetic(const char *name, const int64_t *widths, int count, uint64_t seed,
                        mlp_model *model, file_error *error);
int mlp_samples_synthetic(int64_t count, int64_t width, uint64_t seed, mlp_samples *samples,
                          file_error *error);

/* Release what the struct holds and zero it. */
void mlp_model_release(mlp_model *model);
void mlp_samples_release(mlp_samples *samples);

int64_t mlp_model_inputs(const mlp_model *model);
int64_t mlp_model_outputs(const mlp_model *model);

/* Scale and zero point of the weights of output `n` and input `k`. */
tdm_quant_parameters mlp_weight_parameters(const mlp_quantized_layer *layer, int64_t n, int64_t k);

/* Number of weights and biases. */
int64_t mlp_model_parameters(const mlp_model *model);

#endif
