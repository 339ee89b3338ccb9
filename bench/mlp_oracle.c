#include "bench/mlp_oracle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "quant/number_formats.h"

static const double accumulator_roundoff = 0x1p-24;

typedef struct activation_row {
    double (*value)(double x);
    double slope; /* largest |derivative| */
} activation_row;

static double identity(double x) {
    return x;
}

static double relu(double x) {
    return x > 0.0 ? x : 0.0;
}

static double gelu(double x) {
    return 0.5 * x * erfc(-x * M_SQRT1_2);
}

static double gelu_tanh(double x) {
    return 0.5 * x * (1.0 + tanh(sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
}

static double silu(double x) {
    return x / (1.0 + exp(-x));
}

static activation_row activation_of(tdm_activation activation) {
    switch (activation) {
    case TDM_ACT_RELU:
        return (activation_row){relu, 1.0};
    case TDM_ACT_GELU:
        return (activation_row){gelu, 1.13};
    case TDM_ACT_GELU_TANH:
        return (activation_row){gelu_tanh, 1.13};
    case TDM_ACT_SILU:
        return (activation_row){silu, 1.1};
    case TDM_ACT_NONE:
        break;
    }
    return (activation_row){identity, 1.0};
}

/* Values of one layer for one sample, with their variances. */
typedef struct layer_values {
    double *x;
    double *variance;
} layer_values;

static void add_layer(const mlp_layer *layer, activation_row activation, tdm_dtype dtype,
                      const layer_values *in, layer_values *out) {
    const double stored = tdm_number_roundoff(dtype);
    const double weight_error = dtype == TDM_F32 ? 0.0 : stored * stored;
    const double sum_error = (double)layer->inputs * accumulator_roundoff * accumulator_roundoff;
    const double underflow = stored * tdm_number_min_normal(dtype);
    for (int64_t n = 0; n < layer->outputs; n++) {
        const float *const weight = layer->weight + n * layer->inputs;
        const double bias = layer->bias ? (double)layer->bias[n] : 0.0;
        double z = bias;
        double carried = 0.0;
        double squares = bias * bias;
        double absolute = fabs(bias);
        for (int64_t k = 0; k < layer->inputs; k++) {
            const double w = (double)weight[k];
            const double term = w * in->x[k];
            z += term;
            carried += w * w * in->variance[k];
            squares += term * term;
            absolute += fabs(term);
        }
        const double y = activation.value(z);
        const double own = 4.0 * accumulator_roundoff * y;
        out->x[n] = y;
        out->variance[n] =
            activation.slope * activation.slope *
                (carried + weight_error * squares + sum_error * absolute * absolute) +
            stored * stored * y * y + own * own + underflow * underflow;
    }
}

/* The input is rounded once, to a value known here: its error is known, not estimated. */
static void start_row(const float *input, int64_t width, tdm_dtype dtype, layer_values *values) {
    for (int64_t k = 0; k < width; k++) {
        unsigned char rounded[sizeof(double)];
        values->x[k] = (double)input[k];
        tdm_number_set(dtype, rounded, 0, values->x[k]);
        const double error = tdm_number_get(dtype, rounded, 0) - values->x[k];
        values->variance[k] = error * error;
    }
}

static void compute_row(const mlp_model *model, tdm_dtype dtype, const float *input,
                        layer_values values[2], double *logits, double *deviation) {
    start_row(input, mlp_model_inputs(model), dtype, &values[0]);
    for (int i = 0; i < model->layer_count; i++) {
        const int last = i + 1 == model->layer_count;
        add_layer(&model->layers[i], activation_of(last ? TDM_ACT_NONE : model->activation), dtype,
                  &values[i % 2], &values[(i + 1) % 2]);
    }
    const layer_values *const result = &values[model->layer_count % 2];
    for (int64_t n = 0; n < mlp_model_outputs(model); n++) {
        logits[n] = result->x[n];
        deviation[n] = sqrt(result->variance[n]);
    }
}

static int64_t widest(const mlp_model *model) {
    int64_t width = mlp_model_inputs(model);
    for (int i = 0; i < model->layer_count; i++)
        width = model->layers[i].outputs > width ? model->layers[i].outputs : width;
    return width;
}

static int allocate_values(const mlp_model *model, layer_values values[2]) {
    const size_t width = (size_t)widest(model);
    double *const memory = malloc(4 * width * sizeof *memory);
    if (!memory)
        return -1;
    for (size_t i = 0; i < 2; i++)
        values[i] = (layer_values){memory + 2 * i * width, memory + (2 * i + 1) * width};
    return 0;
}

int mlp_reference_make(const mlp_model *model, const mlp_samples *samples, tdm_dtype dtype,
                       int64_t row_count, mlp_reference *reference, mlp_error *error) {
    memset(reference, 0, sizeof *reference);
    if (row_count > samples->count)
        row_count = samples->count;
    const int64_t outputs = mlp_model_outputs(model);
    const size_t values_count = (size_t)(row_count * outputs);
    reference->rows = malloc((size_t)row_count * sizeof *reference->rows);
    reference->logits = malloc(values_count * sizeof *reference->logits);
    reference->deviation = malloc(values_count * sizeof *reference->deviation);
    layer_values values[2];
    if (!reference->rows || !reference->logits || !reference->deviation ||
        allocate_values(model, values))
        return mlp_fail(error, "out of memory for %lld rows of the oracle", (long long)row_count);
    reference->row_count = row_count;
    reference->outputs = outputs;
    for (int64_t i = 0; i < row_count; i++) {
        /* from the first sample to the last */
        const int64_t row = row_count > 1 ? i * (samples->count - 1) / (row_count - 1) : 0;
        reference->rows[i] = row;
        compute_row(model, dtype, samples->inputs + row * samples->width, values,
                    reference->logits + i * outputs, reference->deviation + i * outputs);
    }
    free(values[0].x);
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

void mlp_agreement_add(mlp_agreement *agreement, const mlp_reference *reference, int64_t index,
                       const float *logits) {
    const double *const right = reference->logits + index * reference->outputs;
    const double *const deviation = reference->deviation + index * reference->outputs;
    int64_t best = 0;
    double largest = 0.0;
    double worst = 0.0;
    for (int64_t n = 0; n < reference->outputs; n++) {
        const double error = fabs((double)logits[n] - right[n]);
        const double share = error / (MLP_ORACLE_DEVIATIONS * deviation[n]);
        best = right[n] > right[best] ? n : best;
        largest = fmax(largest, fabs(right[n]));
        worst = isfinite(error) ? fmax(worst, error) : INFINITY;
        agreement->max_share = fmax(agreement->max_share, isfinite(share) ? share : INFINITY);
    }
    agreement->rows++;
    agreement->same_class += mlp_argmax(logits, reference->outputs) == best;
    agreement->max_abs = fmax(agreement->max_abs, worst);
    agreement->max_rel = fmax(agreement->max_rel, worst / largest);
}
