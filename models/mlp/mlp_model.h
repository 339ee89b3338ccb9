/*
 * A multilayer perceptron on the host: linear layers with one activation between them, and the
 * samples to run it on. Models are read from safetensors or GGUF files; samples are read from files
 * or made from a seed.
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

/* Quantized weights and the parameters of inputs: real = scale * (quantized value - zero point). */
typedef struct mlp_quantized_layer {
    /*
     * s8 or s4, [outputs][inputs]. A scale belongs to one output or to all, and to a group of
     * inputs or to all.
     */
    tdm_quant_spec spec;
    void *codes; /* quantized weights; NULL: the layer's weights are floats */
    size_t code_bytes;
    float *scales;
    tdm_dtype scale_dtype; /* of the scales in the file and on the device */
    int8_t *zero_points;   /* as many as scales; NULL: all 0 */
    tdm_dtype input_dtype; /* calibrated inputs: u8 or s8, otherwise TDM_DTYPE_NONE */
    tdm_quant_parameters input;
    /*
     * The bias of a layer with calibrated inputs, except the last layer. Its unit is input scale ·
     * weight scale.
     */
    int32_t *bias;
} mlp_quantized_layer;

/* y = weight · x + bias */
typedef struct mlp_layer {
    int64_t inputs;
    int64_t outputs;
    float *weight; /* [outputs][inputs]; for stored integers, their dequantized values */
    float *bias;   /* [outputs], or NULL */
    mlp_quantized_layer stored; /* as in the file, without `bias`; `codes` is NULL for floats */
    char scheme[24];            /* for stored integers */
} mlp_layer;

typedef struct mlp_model {
    char name[64];
    int layer_count;
    mlp_layer layers[MLP_MAX_LAYERS];
    tdm_activation activation; /* after every layer except the last */
    double input_scale;        /* factor for the samples */
    double recorded_accuracy;  /* fraction of correct answers that the file claims; NaN: none */
    char scheme[24];           /* for stored integers, or "mixed"; "": all weights are floats */
} mlp_model;

typedef struct mlp_samples {
    int64_t count;
    int64_t width;
    float *inputs;   /* [count][width], scaled */
    int32_t *labels; /* [count], or NULL: unknown */
} mlp_samples;

/*
 * Reads directory/model.safetensors, or directory/model.gguf if that does not exist.
 * - Every two-dimensional tensor "<layer>.weight" [outputs, inputs] is a layer, and "<layer>.bias"
 *   [outputs] is its bias. The weights are F32, F16, BF16 or F64, or written by `tandem quantize`
 *   in any of its schemes.
 * - Layers are in the natural order of their names (layers.2 before layers.10), and their widths
 *   must match.
 * - Metadata: "architecture" must be "mlp", and "activation" a name of TDM_ACTIVATION_LIST.
 *   "input_scale" and "heldout_accuracy" are optional.
 * Returns 0, or -1 and the reason. Release with mlp_model_release in both cases.
 */
int mlp_model_load(const char *directory, mlp_model *model, file_error *error);

/*
 * Reads a safetensors file: "images" [count, width] of any number type, and "labels" [count] of
 * integers. Returns 0, or -1 and the reason. Release with mlp_samples_release in both cases.
 */
int mlp_samples_load(const char *path, const mlp_model *model, mlp_samples *samples,
                     file_error *error);

/* Makes samples that are uniform in [-1, 1). A seed gives the same numbers on every machine. */
int mlp_samples_synthetic(int64_t count, int64_t width, uint64_t seed, mlp_samples *samples,
                          file_error *error);

/* Both release what the struct holds and zero it. */
void mlp_model_release(mlp_model *model);
void mlp_samples_release(mlp_samples *samples);

int64_t mlp_model_inputs(const mlp_model *model);
int64_t mlp_model_outputs(const mlp_model *model);

/*
 * Fills in the layer's widths, its stored integers and their dequantized values. u8 values and zero
 * points become s8 by subtracting 128. *tensors grows by the tensors that belong to the weight,
 * including itself. Returns 1, 0 if the weight is not stored as integers, or -1 and the reason.
 */
int mlp_stored_read(const quantize_source *source, const quantize_tensor *weight, mlp_layer *layer,
                    size_t *tensors, file_error *error);

/* Returns the scale and zero point of the weight of output `n` and input `k`. */
tdm_quant_parameters mlp_weight_parameters(const mlp_quantized_layer *layer, int64_t n, int64_t k);

/* Returns the number of weights and biases. */
int64_t mlp_model_parameters(const mlp_model *model);

/* ---- precisions ---- */

/* How the inputs of a layer are stored. */
typedef enum mlp_inputs {
    MLP_INPUTS_REAL,       /* in the precision's dtype */
    MLP_INPUTS_CALIBRATED, /* u8, or s8 if a file says so; a known range for each layer */
    MLP_INPUTS_BY_ROW      /* s8; one range for each row, computed when the layer runs */
} mlp_inputs;

typedef struct mlp_precision {
    const char *name;
    tdm_dtype dtype;    /* of the network's inputs and logits, and of the layers' float inputs */
    const char *scheme; /* of the weights, a name in quant/schemes.h; NULL: stored in the dtype */
    mlp_inputs inputs;  /* of the layers */
    double accuracy_slack; /* fraction of correct answers that may be lost */
    int stored;            /* 1: the weights are the integers that the file stores */
} mlp_precision;

/*
 * Columns: name, dtype, weights, inputs, slack, stored. The accuracy of float precisions is
 * compared with the recorded one, that of the others with f32. Stored integers are compared with
 * both.
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

/* Returns NULL if no precision has the name. */
const mlp_precision *mlp_precision_from_name(const char *name);

typedef struct mlp_quantized {
    const mlp_precision *precision;
    int borrows; /* 1: the model owns everything except the biases */
    int layer_count;
    mlp_quantized_layer layers[MLP_MAX_LAYERS];
} mlp_quantized;

/* Returns the integer range of a layer's calibrated inputs. */
tdm_quant_range mlp_input_range(const mlp_quantized_layer *layer);

/*
 * Returns how far the accuracy of stored integers may be below the recorded one, or 0 if all
 * weights are floats.
 */
double mlp_stored_slack(const mlp_model *model);

/*
 * Returns 0 if a model can run in a precision, or -1 and the reason: an activation that cannot be
 * fused into integers, weights that are already integers, or weights that are not.
 */
int mlp_precision_check(const mlp_precision *precision, const mlp_model *model, file_error *reason);

/*
 * Quantizes the weights of a model that mlp_precision_check accepts, or borrows the stored ones,
 * which must outlive *quantized. Calibrated inputs that are not stored get their ranges from the
 * samples in `calibration`. Returns 0, or -1 and the reason. Release with mlp_quantized_release in
 * both cases.
 */
int mlp_quantized_make(const mlp_model *model, const mlp_precision *precision,
                       const mlp_samples *calibration, mlp_quantized *quantized, file_error *error);
void mlp_quantized_release(mlp_quantized *quantized); /* all zero is accepted */

#endif
