/*
 * The precisions that `tandem infer` runs a model in, and a model's weights in one of those that quantize.
 *
 * int8, the static one, keeps integers from layer to layer: the input of each layer is u8 in a range that calibration found, and
 * the sums are requantized to the next layer's. The last layer gives f32.
 */
#ifndef TANDEM_MODELS_MLP_MLP_QUANTIZED_H
#define TANDEM_MODELS_MLP_MLP_QUANTIZED_H

#include "models/mlp/mlp_model.h"
#include "quant/quant_parameters.h"

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
