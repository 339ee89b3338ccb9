/*
 * A multilayer perceptron on the host: linear layers with one activation between them, read from
 * safetensors files or made from a seed, and the samples to run it on.
 */
#ifndef TANDEM_MODELS_MLP_MLP_MODEL_H
#define TANDEM_MODELS_MLP_MLP_MODEL_H

#include <stdint.h>

#include <tandem/gemm.h>

#include "formats/checkpoint/quantize_source.h"
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

/* Samples uniform in [-1, 1). The same seed gives the same numbers on every machine. */
int mlp_samples_synthetic(int64_t count, int64_t width, uint64_t seed, mlp_samples *samples,
                          file_error *error);

/* Release what the struct holds and zero it. */
void mlp_model_release(mlp_model *model);
void mlp_samples_release(mlp_samples *samples);

int64_t mlp_model_inputs(const mlp_model *model);
int64_t mlp_model_outputs(const mlp_model *model);

/*
 * Fill in the layer's widths, its stored integers and the floats that those stand for. u8 becomes s8, less 128, as does its zero
 * point. *tensors grows by those that belong to the weight, itself included. 1; 0 where the weight is none of integers; -1 with the
 * reason.
 */
int mlp_stored_read(const quantize_source *source, const quantize_tensor *weight, mlp_layer *layer,
                    size_t *tensors, file_error *error);

/* Scale and zero point of the weights of output `n` and input `k`. */
tdm_quant_parameters mlp_weight_parameters(const mlp_quantized_layer *layer, int64_t n, int64_t k);

/* Number of weights and biases. */
int64_t mlp_model_parameters(const mlp_model *model);

/* ---- precisions ---- */

/* How the inputs of a layer are stored. */
typedef enum mlp_inputs {
    MLP_INPUTS_REAL,       /* in the precision's dtype */
    MLP_INPUTS_CALIBRATED, /* u8, or s8 where a file says so, one range for each layer, known before */
    MLP_INPUTS_BY_ROW      /* s8, one range for each row, found when it comes */
} mlp_inputs;

typedef struct mlp_precision {
    const char *name;
    tdm_dtype dtype;       /* of the network's inputs and logits, and of the layers' real inputs */
    const char *scheme;    /* of the weights, a name in quant/schemes.h; NULL: in the dtype */
    mlp_inputs inputs;     /* of the layers */
    double accuracy_slack; /* share of right answers that may be lost */
    int stored;            /* weights are those that the file has, which are integers */
} mlp_precision;

/*
 * name, dtype, weights, inputs, slack, stored. Floats are compared with the recorded accuracy, the others with f32, those of stored
 * integers with both.
 */
#define MLP_PRECISION_LIST(X)                                                                      \
    X("f32", TDM_F32, NULL, MLP_INPUTS_REAL, 0.003, 0)                                             \
    X("f16", TDM_F16, NULL, MLP_INPUTS_REAL, 0.003, 0)                                             \
    X("bf16", TDM_BF16, NULL, MLP_INPUTS_REAL, 0.003, 0)                                           \
    X("int8", TDM_F32, "s8-channel", MLP_INPUTS_CALIBRATED, 0.005, 0)                              \
    X("int8-dynamic", TDM_F32, "s8-channel", MLP_INPUTS_BY_ROW, 0.005, 0)                          \
    X("w8", TDM_F32, "s8-channel", MLP_INPUTS_REAL, 0.005, 0)                                      \
    X("w4", TDM_F32, "s4-group", MLP_INPUTS_REAL, 0.015, 0)                                        \
    X("stored", TDM_F32, NULL, MLP_INPUTS_REAL, 0.005, 1)                                          \
    X("stored-dynamic", TDM_F32, NULL, MLP_INPUTS_BY_ROW, 0.005, 1)                                \
    X("stored-int8", TDM_F32, NULL, MLP_INPUTS_CALIBRATED, 0.005, 1)

enum {
#define MLP_PRECISION_ONE(...) +1
    MLP_PRECISIONS = MLP_PRECISION_LIST(MLP_PRECISION_ONE)
#undef MLP_PRECISION_ONE
};

/* NULL where no precision has the name. */
const mlp_precision *mlp_precision_from_name(const char *name);

typedef struct mlp_quantized {
    const mlp_precision *precision;
    int borrows; /* all but the biases is the model's */
    int layer_count;
    mlp_quantized_layer layers[MLP_MAX_LAYERS];
} mlp_quantized;

/* Integers of a layer's calibrated inputs. */
tdm_quant_range mlp_input_range(const mlp_quantized_layer *layer);

/* Share of right answers that a model with stored integers may be below the recorded one; 0 where all are floats. */
double mlp_stored_slack(const mlp_model *model);

/* Whether a model can be run in a precision; -1 with the reason: an activation that is not fused into integers, weights
 * that are integers already, or are none. */
int mlp_precision_check(const mlp_precision *precision, const mlp_model *model, file_error *reason);

/*
 * Quantize the weights of a model that mlp_precision_check accepts, or take the stored ones, which must outlive *quantized;
 * calibration: samples to find the ranges with, for calibrated inputs that are not stored. 0, or -1 with the reason. Release with mlp_quantized_release in both cases.
 */
int mlp_quantized_make(const mlp_model *model, const mlp_precision *precision,
                       const mlp_samples *calibration, mlp_quantized *quantized, file_error *error);
void mlp_quantized_release(mlp_quantized *quantized); /* all zero is accepted */

#endif
