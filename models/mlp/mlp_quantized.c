#include "models/mlp/mlp_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/op_gemm.h"
#include "quant/number_formats.h"
#include "quant/observer.h"
#include "quant/quant_reference.h"

static const mlp_precision precisions[] = {
#define MLP_PRECISION_ROW(name, dtype, scheme, inputs, slack, stored)                              \
    {name, dtype, scheme, inputs, slack, stored},
    MLP_PRECISION_LIST(MLP_PRECISION_ROW)
#undef MLP_PRECISION_ROW
};

const mlp_precision *mlp_precision_from_name(const char *name) {
    for (size_t i = 0; i < sizeof precisions / sizeof *precisions; i++)
        if (!strcmp(name, precisions[i].name))
            return &precisions[i];
    return NULL;
}

tdm_quant_range mlp_input_range(const mlp_quantized_layer *layer) {
    return layer->input_dtype == TDM_S8 ? (tdm_quant_range){-128, 127} : (tdm_quant_range){0, 255};
}

double mlp_stored_slack(const mlp_model *model) {
    double slack = 0.0;
    for (int i = 0; i < model->layer_count; i++)
        if (model->layers[i].stored.codes)
            slack = fmax(slack, model->layers[i].stored.spec.dtype == TDM_S4 ? 0.015 : 0.005);
    return slack;
}

/* ---- which precisions suit a model ----------------------------------------------------------- */

/* Checks the conditions of calibrated inputs. Values between such layers are always integers. */
static int check_calibrated(const mlp_precision *precision, const mlp_model *model,
                            file_error *reason) {
    if (model->layer_count > 1 && model->activation != TDM_ACT_NONE &&
        model->activation != TDM_ACT_RELU)
        return file_fail(reason, "%s supports only relu or no activation between integer layers",
                         precision->name);
    for (int i = 0; precision->stored && i < model->layer_count; i++) {
        const mlp_quantized_layer *const own = &model->layers[i].stored;
        if (!own->codes || own->spec.dtype != TDM_S8 || own->spec.blocks[1] != 0)
            return file_fail(reason,
                             "%s needs 8-bit weights with one scale per output or per tensor, but "
                             "layer %d has others",
                             precision->name, i);
        if (own->input_dtype == TDM_DTYPE_NONE)
            return file_fail(reason,
                             "%s needs calibrated inputs, but the file has none for layer %d (use "
                             "tandem quantize --calibrate)",
                             precision->name, i);
    }
    return 0;
}

/* Checks that 4-bit weights have an even number of inputs, because rows must be whole bytes. */
static int check_nibbles(const mlp_precision *precision, const mlp_model *model,
                         file_error *reason) {
    for (int i = 0; i < model->layer_count; i++) {
        const mlp_layer *const layer = &model->layers[i];
        const int has_nibbles = precision->stored
                                    ? layer->stored.codes && layer->stored.spec.dtype == TDM_S4
                                    : precision->scheme && !strcmp(precision->scheme, "s4-group");
        if (has_nibbles && layer->inputs % 2 != 0)
            return file_fail(
                reason,
                "%s needs 4-bit weights with an even number of inputs, but layer %d has %lld",
                precision->name, i, (long long)layer->inputs);
    }
    return 0;
}

int mlp_precision_check(const mlp_precision *precision, const mlp_model *model,
                        file_error *reason) {
    if (precision->stored && !model->scheme[0])
        return file_fail(reason,
                         "%s needs weights that are stored as integers, but these are floats",
                         precision->name);
    if (precision->scheme && model->scheme[0])
        return file_fail(reason,
                         "%s would quantize weights that are already stored as integers (%s); use "
                         "stored to run them unchanged",
                         precision->name, model->scheme);
    if (precision->inputs == MLP_INPUTS_CALIBRATED && check_calibrated(precision, model, reason))
        return -1;
    return check_nibbles(precision, model, reason);
}

/* ---- weights ---- */

/* Replaces the scale 0 of an all-zero row with 1, because its bias is in units of the scale. */
static void replace_empty_scales(mlp_quantized_layer *layer) {
    const int64_t count = tdm_quant_scale_count(&layer->spec);
    for (int64_t i = 0; i < count; i++)
        if (layer->scales[i] == 0.0f)
            layer->scales[i] = 1.0f;
}

static int quantize_weight(const mlp_layer *source, const tdm_quant_scheme *scheme,
                           mlp_quantized_layer *layer, file_error *error) {
    const int64_t shape[2] = {source->outputs, source->inputs};
    const int axis = scheme->granularity == TDM_QUANT_PER_GROUP ? 1 : 0;
    tdm_quant_reason reason;
    if (tdm_quant_spec_make(scheme, 2, shape, axis, 0, &layer->spec, &reason) != TDM_OK ||
        tdm_dtype_bytes(scheme->dtype, source->outputs * source->inputs, &layer->code_bytes) !=
            TDM_OK)
        return file_fail(error, "cannot quantize %lld x %lld weights: %s", (long long)shape[0],
                         (long long)shape[1], reason.text);
    layer->scale_dtype = TDM_F32;
    layer->codes = calloc(layer->code_bytes, 1);
    layer->scales = calloc((size_t)tdm_quant_scale_count(&layer->spec), sizeof *layer->scales);
    if (!layer->codes || !layer->scales)
        return file_fail(error, "out of memory for %zu bytes of quantized weights",
                         layer->code_bytes);
    tdm_quant_dynamic_tensor(&layer->spec, scheme->symmetry, TDM_F32, source->weight, layer->scales,
                             NULL, layer->codes);
    replace_empty_scales(layer);
    return 0;
}

/* ---- calibration ---- */

/* Finds the range with the least squared error. If all values are 0, any scale is valid. */
static int observe(const float *values, int64_t count, mlp_quantized_layer *layer,
                   file_error *error) {
    const tdm_quant_observer_options options = {TDM_QUANT_OBSERVE_MSE, 1, 1, 0.0, 0.0};
    const size_t bytes = tdm_quant_observer_bytes(&options);
    void *const memory = malloc(bytes);
    tdm_quant_observer *observer;
    tdm_quant_reason reason;
    if (!memory)
        return file_fail(error, "out of memory for an observer");
    if (tdm_quant_observer_init(&options, memory, bytes, &observer, &reason) != TDM_OK ||
        tdm_quant_observe(observer, TDM_F32, values, count, &reason) != TDM_OK) {
        free(memory);
        return file_fail(error, "cannot calibrate: %s", reason.text);
    }
    layer->input_dtype = TDM_U8;
    layer->input =
        tdm_quant_observer_parameters(observer, 0, TDM_QUANT_ASYMMETRIC, mlp_input_range(layer));
    free(memory);
    if (layer->input.scale == 0.0f)
        layer->input = (tdm_quant_parameters){1.0f, 0};
    return 0;
}

static float *run_layer(const mlp_layer *layer, tdm_activation activation, int64_t count,
                        const float *x) {
    float *const y = calloc((size_t)(count * layer->outputs), sizeof *y);
    for (int64_t i = 0; y && i < count * layer->outputs; i++) {
        const float *const weight = layer->weight + i % layer->outputs * layer->inputs;
        const float *const row = x + i / layer->outputs * layer->inputs;
        double sum = layer->bias ? (double)layer->bias[i % layer->outputs] : 0.0;
        for (int64_t k = 0; k < layer->inputs; k++)
            sum += (double)weight[k] * (double)row[k];
        y[i] = (float)op_gemm_activate(sum, activation);
    }
    return y;
}

/* Finds the ranges of the layers' inputs by running the model in floats. */
static int calibrate(const mlp_model *model, const mlp_samples *samples, mlp_quantized *quantized,
                     file_error *error) {
    const float *x = samples->inputs;
    float *made = NULL; /* the values at x after the first layer */
    int result = 0;
    for (int i = 0; i < model->layer_count && !result; i++) {
        result = observe(x, samples->count * model->layers[i].inputs, &quantized->layers[i], error);
        if (result || i + 1 == model->layer_count)
            break;
        float *const next = run_layer(&model->layers[i], model->activation, samples->count, x);
        free(made);
        x = made = next;
        if (!next)
            result = file_fail(error, "out of memory to calibrate with %lld samples",
                               (long long)samples->count);
    }
    free(made);
    return result;
}

/* The bias is limited to half of the s32 range, so that the sum plus bias cannot overflow. */
static int quantize_bias(const mlp_layer *source, mlp_quantized_layer *layer, file_error *error) {
    static const int32_t limit = 1 << 30;
    if (!source->bias)
        return 0;
    layer->bias = malloc((size_t)source->outputs * sizeof *layer->bias);
    if (!layer->bias)
        return file_fail(error, "out of memory for %lld biases", (long long)source->outputs);
    for (int64_t n = 0; n < source->outputs; n++) {
        const double unit =
            (double)layer->input.scale * (double)mlp_weight_parameters(layer, n, 0).scale;
        layer->bias[n] = tdm_int_from_f64((double)source->bias[n] / unit, -limit, limit);
    }
    return 0;
}

/* ---- the model ---- */

/* Uses the file's integers unchanged. */
static void borrow_stored(const mlp_model *model, mlp_quantized *quantized) {
    quantized->borrows = 1;
    for (; quantized->layer_count < model->layer_count; quantized->layer_count++)
        quantized->layers[quantized->layer_count] = model->layers[quantized->layer_count].stored;
}

static int quantize_weights(const mlp_model *model, mlp_quantized *quantized, file_error *error) {
    const tdm_quant_scheme *const scheme = tdm_quant_scheme_from_name(quantized->precision->scheme);
    for (int i = 0; i < model->layer_count; i++)
        if (quantize_weight(&model->layers[i], scheme, &quantized->layers[quantized->layer_count++],
                            error))
            return -1;
    return 0;
}

int mlp_quantized_make(const mlp_model *model, const mlp_precision *precision,
                       const mlp_samples *calibration, mlp_quantized *quantized,
                       file_error *error) {
    memset(quantized, 0, sizeof *quantized);
    quantized->precision = precision;
    if (precision->stored)
        borrow_stored(model, quantized);
    else if (quantize_weights(model, quantized, error))
        return -1;
    if (precision->inputs != MLP_INPUTS_CALIBRATED)
        return 0;
    if (!precision->stored && calibrate(model, calibration, quantized, error))
        return -1;
    for (int i = 0; i + 1 < model->layer_count; i++)
        if (quantize_bias(&model->layers[i], &quantized->layers[i], error))
            return -1;
    return 0;
}

void mlp_quantized_release(mlp_quantized *quantized) {
    for (int i = 0; i < quantized->layer_count; i++) {
        free(quantized->layers[i].bias);
        if (quantized->borrows)
            continue;
        free(quantized->layers[i].codes);
        free(quantized->layers[i].scales);
    }
    memset(quantized, 0, sizeof *quantized);
}
