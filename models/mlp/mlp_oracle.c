#include "models/mlp/mlp_oracle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/op_gemm.h"
#include "quant/number_formats.h"
#include "quant/quant_reference.h"

static const double accumulator_roundoff = 0x1p-24;

/* The values of one layer for one sample, with their variances. */
typedef struct layer_values {
    double *x;
    double *variance;
} layer_values;

/*
 * One computation of the oracle: the unquantized or quantized model, the dtype in which values are
 * stored, and a buffer for a row of weights.
 */
typedef struct oracle_task {
    const mlp_model *model;
    const mlp_quantized *quantized; /* NULL: the unquantized model */
    tdm_dtype dtype;
    layer_values values[2];
    double *weight;
} oracle_task;

/* ---- one row of weights by one sample ---- */

typedef struct row_sums {
    double z;
    double carried;  /* variance of the inputs, propagated to z */
    double squares;  /* sum of the squared terms */
    double absolute; /* sum of the absolute terms */
} row_sums;

static row_sums sum_row(const double *weight, double bias, int64_t inputs, const layer_values *in) {
    row_sums sums = {bias, 0.0, bias * bias, fabs(bias)};
    for (int64_t k = 0; k < inputs; k++) {
        const double w = weight[k];
        const double term = w * in->x[k];
        sums.z += term;
        sums.carried += w * w * in->variance[k];
        sums.squares += term * term;
        sums.absolute += fabs(term);
    }
    return sums;
}

/* `weight_error` is the variance of a weight or bias, relative to its square. */
static void finish_value(const row_sums *sums, int64_t inputs, tdm_activation activation,
                         tdm_dtype dtype, double weight_error, double *y, double *variance) {
    const double stored = tdm_number_roundoff(dtype);
    const double sum_error = (double)inputs * accumulator_roundoff * accumulator_roundoff;
    const double underflow = stored * tdm_number_min_normal(dtype);
    const double slope = op_gemm_lipschitz(activation);
    *y = op_gemm_activate(sums->z, activation);
    const double own = 4.0 * accumulator_roundoff * *y;
    *variance = slope * slope *
                    (sums->carried + weight_error * sums->squares +
                     sum_error * sums->absolute * sums->absolute) +
                stored * stored * *y * *y + own * own + underflow * underflow;
}

/* ---- layers ---- */

/* A quantized model may also have float layers. */
static int has_codes(const oracle_task *task, int index) {
    return task->quantized && task->quantized->layers[index].codes;
}

/* Reads row n of the weights: dequantized, or only the integers less their zero points. */
static void read_weights(const oracle_task *task, int index, int64_t n, int with_scale) {
    const mlp_layer *const layer = &task->model->layers[index];
    const int64_t first = n * layer->inputs;
    if (!has_codes(task, index)) {
        for (int64_t k = 0; k < layer->inputs; k++)
            task->weight[k] = (double)layer->weight[first + k];
        return;
    }
    const mlp_quantized_layer *const own = &task->quantized->layers[index];
    const int64_t group = own->spec.blocks[1] > 0 ? own->spec.blocks[1] : layer->inputs;
    tdm_quant_parameters parameters = {0.0f, 0};
    for (int64_t k = 0; k < layer->inputs; k++) {
        if (k % group == 0)
            parameters = mlp_weight_parameters(own, n, k);
        const int32_t code = tdm_quant_get(own->spec.dtype, own->codes, first + k);
        task->weight[k] =
            (double)(code - parameters.zero_point) * (with_scale ? (double)parameters.scale : 1.0);
    }
}

/*
 * Quantizes a row to s8 by its largest magnitude, and replaces the values with quantized values
 * times scale. Returns the relative deviation of the scale. A row without deviations is quantized
 * to the same integers on every device.
 */
static double quantize_row(int64_t count, layer_values *row) {
    int64_t largest = 0;
    for (int64_t k = 1; k < count; k++)
        largest = fabs(row->x[k]) > fabs(row->x[largest]) ? k : largest;
    const double amax = fabs(row->x[largest]);
    const float scale = (float)amax / 127.0f;
    const double relative = amax > 0.0 ? sqrt(row->variance[largest]) / amax : 0.0;
    for (int64_t k = 0; k < count; k++) {
        const double ratio = scale > 0.0f ? (double)((float)row->x[k] / scale) : 0.0;
        const double code = rint(ratio);
        const double deviation =
            scale > 0.0f ? sqrt(row->variance[k]) / (double)scale + relative * fabs(ratio) : 0.0;
        const double to_tie = 0.5 - fabs(ratio - code);
        row->variance[k] = deviation > 0.0 && to_tie <= MLP_ORACLE_DEVIATIONS * deviation
                               ? (double)scale * (double)scale
                               : 0.0;
        row->x[k] = (double)scale * code;
    }
    return relative;
}

/* Computes a layer with float inputs (maybe quantized by row) and float or quantized weights. */
static void add_real_layer(const oracle_task *task, int index, tdm_activation activation,
                           layer_values *in, layer_values *out) {
    const mlp_layer *const layer = &task->model->layers[index];
    const int quantized = has_codes(task, index);
    const double relative = quantized && task->quantized->precision->inputs == MLP_INPUTS_BY_ROW
                                ? quantize_row(layer->inputs, in)
                                : 0.0;
    const double rounded = quantized                ? accumulator_roundoff
                           : task->dtype == TDM_F32 ? 0.0
                                                    : tdm_number_roundoff(task->dtype);
    for (int64_t n = 0; n < layer->outputs; n++) {
        const double bias = layer->bias ? (double)layer->bias[n] : 0.0;
        read_weights(task, index, n, 1);
        row_sums sums = sum_row(task->weight, bias, layer->inputs, in);
        sums.carried += relative * relative * (sums.z - bias) * (sums.z - bias);
        finish_value(&sums, layer->inputs, activation, task->dtype, rounded * rounded, &out->x[n],
                     &out->variance[n]);
    }
}

/*
 * Computes a layer with calibrated inputs. Inputs and outputs are integers less their zero points;
 * the last layer's outputs are floats.
 */
static void add_integer_layer(const oracle_task *task, int index, const layer_values *in,
                              layer_values *out) {
    const mlp_layer *const layer = &task->model->layers[index];
    const mlp_quantized_layer *const own = &task->quantized->layers[index];
    const int last = index + 1 == task->model->layer_count;
    const tdm_quant_parameters target = last ? own->input : own[1].input;
    tdm_quant_range range = mlp_input_range(last ? own : own + 1);
    if (task->model->activation == TDM_ACT_RELU)
        range.low = target.zero_point;
    for (int64_t n = 0; n < layer->outputs; n++) {
        read_weights(task, index, n, 0);
        const double sum = sum_row(task->weight, 0.0, layer->inputs, in).z;
        const float scale = mlp_weight_parameters(own, n, 0).scale;
        if (last) {
            const double bias = layer->bias ? (double)layer->bias[n] : 0.0;
            const double product = (double)own->input.scale * (double)scale * sum;
            const double error = 2.0 * accumulator_roundoff * (fabs(product) + fabs(bias)) +
                                 tdm_number_min_normal(TDM_F32);
            out->x[n] = product + bias;
            out->variance[n] = error * error;
        } else {
            const tdm_quant_parameters parameters = {
                tdm_quant_multiplier(own->input.scale, scale, target.scale), target.zero_point};
            const int32_t bias = own->bias ? own->bias[n] : 0;
            out->x[n] = (double)(tdm_quant_requantize((int32_t)sum + bias, parameters, range) -
                                 target.zero_point);
            out->variance[n] = 0.0;
        }
    }
}

/* ---- one sample ---- */

/*
 * Sets the first layer's inputs. An input is rounded once, to a value that is known here, so its
 * error is exact.
 */
static void start_row(const oracle_task *task, const float *input) {
    const layer_values *const values = &task->values[0];
    const mlp_quantized *const quantized = task->quantized;
    for (int64_t k = 0; k < mlp_model_inputs(task->model); k++) {
        unsigned char rounded[sizeof(double)];
        values->x[k] = (double)input[k];
        tdm_number_set(task->dtype, rounded, 0, values->x[k]);
        const double error = tdm_number_get(task->dtype, rounded, 0) - values->x[k];
        values->variance[k] = error * error;
        if (quantized && quantized->precision->inputs == MLP_INPUTS_CALIBRATED) {
            const mlp_quantized_layer *const first = &quantized->layers[0];
            values->x[k] =
                (double)(tdm_quant_quantize(input[k], first->input, mlp_input_range(first)) -
                         first->input.zero_point);
        }
    }
}

static void compute_row(oracle_task *task, const float *input, double *logits, double *deviation) {
    const mlp_model *const model = task->model;
    layer_values in = task->values[0];
    layer_values out = task->values[1];
    start_row(task, input);
    for (int i = 0; i < model->layer_count; i++) {
        const int last = i + 1 == model->layer_count;
        const tdm_activation activation = last ? TDM_ACT_NONE : model->activation;
        if (has_codes(task, i) && task->quantized->precision->inputs == MLP_INPUTS_CALIBRATED)
            add_integer_layer(task, i, &in, &out);
        else
            add_real_layer(task, i, activation, &in, &out);
        const layer_values next = out;
        out = in;
        in = next;
    }
    for (int64_t n = 0; n < mlp_model_outputs(model); n++) {
        logits[n] = in.x[n];
        deviation[n] = sqrt(in.variance[n]);
    }
}

static int allocate_values(oracle_task *task) {
    int64_t widest = mlp_model_inputs(task->model);
    for (int i = 0; i < task->model->layer_count; i++)
        if (task->model->layers[i].outputs > widest)
            widest = task->model->layers[i].outputs;
    double *const memory = calloc(5 * (size_t)widest, sizeof *memory);
    if (!memory)
        return -1;
    task->values[0] = (layer_values){memory, memory + widest};
    task->values[1] = (layer_values){memory + 2 * widest, memory + 3 * widest};
    task->weight = memory + 4 * widest;
    return 0;
}

int mlp_reference_make(const mlp_model *model, const mlp_quantized *quantized,
                       const mlp_samples *samples, tdm_dtype dtype, int64_t row_count,
                       mlp_reference *reference, file_error *error) {
    oracle_task task = {.model = model, .quantized = quantized, .dtype = dtype};
    memset(reference, 0, sizeof *reference);
    if (row_count > samples->count)
        row_count = samples->count;
    const int64_t outputs = mlp_model_outputs(model);
    const size_t values_count = (size_t)(row_count * outputs);
    reference->rows = malloc((size_t)row_count * sizeof *reference->rows);
    reference->logits = malloc(values_count * sizeof *reference->logits);
    reference->deviation = malloc(values_count * sizeof *reference->deviation);
    if (!reference->rows || !reference->logits || !reference->deviation || allocate_values(&task))
        return file_fail(error, "out of memory for %lld rows of the reference",
                         (long long)row_count);
    reference->row_count = row_count;
    reference->outputs = outputs;
    for (int64_t i = 0; i < row_count; i++) {
        /* The rows are spread from the first sample to the last. */
        const int64_t row = row_count > 1 ? i * (samples->count - 1) / (row_count - 1) : 0;
        reference->rows[i] = row;
        compute_row(&task, samples->inputs + row * samples->width, reference->logits + i * outputs,
                    reference->deviation + i * outputs);
    }
    free(task.values[0].x);
    return 0;
}

void mlp_reference_release(mlp_reference *reference) {
    free(reference->rows);
    free(reference->logits);
    free(reference->deviation);
    memset(reference, 0, sizeof *reference);
}

int64_t mlp_argmax(const float *values, int64_t count) {
    int64_t best = 0;
    for (int64_t i = 1; i < count; i++)
        if (values[i] > values[best] || isnan(values[best]))
            best = i;
    return best;
}

int64_t mlp_reference_class(const mlp_reference *reference, int64_t index) {
    const double *const logits = reference->logits + index * reference->outputs;
    int64_t best = 0;
    for (int64_t n = 1; n < reference->outputs; n++)
        best = logits[n] > logits[best] ? n : best;
    return best;
}

void mlp_agreement_add(mlp_agreement *agreement, const mlp_reference *reference, int64_t index,
                       const float *logits) {
    const double *const right = reference->logits + index * reference->outputs;
    const double *const deviation = reference->deviation + index * reference->outputs;
    double largest = 0.0;
    double worst = 0.0;
    for (int64_t n = 0; n < reference->outputs; n++) {
        const double error = fabs((double)logits[n] - right[n]);
        const double share = error / (MLP_ORACLE_DEVIATIONS * deviation[n]);
        largest = fmax(largest, fabs(right[n]));
        worst = isfinite(error) ? fmax(worst, error) : INFINITY;
        agreement->max_error_ratio =
            fmax(agreement->max_error_ratio, isfinite(share) ? share : INFINITY);
    }
    agreement->rows++;
    agreement->same_class +=
        mlp_argmax(logits, reference->outputs) == mlp_reference_class(reference, index);
    agreement->max_abs = fmax(agreement->max_abs, worst);
    agreement->max_rel = fmax(agreement->max_rel, worst / largest);
}
