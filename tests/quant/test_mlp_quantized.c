/* Quantized models run on the host. The tests check their outputs, their distance from the
 * unquantized model, and the oracle's error bound. The bound must hold for correct arithmetic and
 * must catch a lost term. No device is needed. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/mlp/mlp_oracle.h"
#include "tests/support/test_case.h"
#include "tests/support/test_model.h"

static const char digits[] = TANDEM_SOURCE_DIR "/examples/digits";
static const char heldout[] = TANDEM_SOURCE_DIR "/examples/digits/heldout.safetensors";

/* ---- arithmetic as a device does it ---- */

/* Returns a quantized weight and its scale. They are decoded by the definition of the formats,
 * without quant/. */
static float weight_of(const mlp_quantized_layer *layer, int64_t n, int64_t k, int *code) {
    const int64_t inputs = layer->spec.shape[1];
    const int64_t position = n * inputs + k;
    const unsigned char *const bytes = layer->codes;
    if (layer->spec.dtype != TDM_S4) {
        *code = bytes[position] > 127 ? bytes[position] - 256 : bytes[position];
        return layer->scales[n];
    }
    const int nibble = position % 2 ? bytes[position / 2] >> 4 : bytes[position / 2] & 15;
    *code = nibble > 7 ? nibble - 16 : nibble;
    return layer->scales[n * ((inputs + 31) / 32) + k / 32]; /* w4 has groups of 32 */
}

typedef struct quantized_row {
    const mlp_quantized *quantized;
    float real[512];
    int codes[512]; /* calibrated inputs, less the zero point */
} quantized_row;

/* Quantizes the inputs of the first layer with the calibrated parameters, by the definition of
 * quantization. */
static void start_quantized(quantized_row *row, const float *input, int64_t width) {
    const tdm_quant_parameters own = row->quantized->layers[0].input;
    for (int64_t k = 0; k < width; k++) {
        row->real[k] = input[k];
        if (row->quantized->precision->inputs != MLP_INPUTS_CALIBRATED)
            continue;
        const float code = rintf(input[k] / own.scale) + (float)own.zero_point;
        row->codes[k] = (int)fminf(fmaxf(code, 0.0f), 255.0f) - own.zero_point;
    }
}

static float quantize_by_row(quantized_row *row, int64_t width) {
    float most = 0.0f;
    for (int64_t k = 0; k < width; k++)
        most = fmaxf(most, fabsf(row->real[k]));
    const float scale = most / 127.0f;
    for (int64_t k = 0; k < width; k++)
        row->codes[k] = scale > 0.0f ? (int)rintf(row->real[k] / scale) : 0;
    return scale;
}

/* Computes one layer as a device does, but leaves the last `lost` terms out of every sum. */
static void quantized_layer(quantized_row *row, const mlp_model *model, int index, int64_t lost) {
    const mlp_layer *const layer = &model->layers[index];
    const mlp_quantized_layer *const own = &row->quantized->layers[index];
    const mlp_inputs inputs = row->quantized->precision->inputs;
    const int last = index + 1 == model->layer_count;
    const int linear = model->activation == TDM_ACT_NONE;
    float result[512];
    int codes[512];
    float input_scale = own->input.scale;
    if (inputs == MLP_INPUTS_BY_ROW)
        input_scale = quantize_by_row(row, layer->inputs);
    for (int64_t n = 0; n < layer->outputs; n++) {
        int sum = 0;
        float real = 0.0f, scale = 0.0f;
        for (int64_t k = 0; k < layer->inputs - lost; k++) {
            int code;
            scale = weight_of(own, n, k, &code);
            sum += code * row->codes[k];
            real += row->real[k] * (scale * (float)code);
        }
        if (inputs != MLP_INPUTS_REAL)
            real = (float)sum * (input_scale * scale);
        real += layer->bias[n];
        result[n] = last || linear || real > 0.0f ? real : 0.0f;
        if (inputs == MLP_INPUTS_CALIBRATED && !last) {
            const tdm_quant_parameters target = own[1].input;
            const float m = input_scale * scale / target.scale;
            const float low = linear ? -(float)target.zero_point : 0.0f;
            const float code = rintf(fmaxf((float)(sum + own->bias[n]) * m, low));
            codes[n] = (int)fminf(code, 255.0f - (float)target.zero_point);
        }
    }
    memcpy(row->real, result, (size_t)layer->outputs * sizeof *result);
    if (inputs == MLP_INPUTS_CALIBRATED && !last)
        memcpy(row->codes, codes, (size_t)layer->outputs * sizeof *codes);
}

/* Runs the model. Each sum of layer `lossy` lacks a term; -1 means no layer. */
static mlp_agreement run_quantized(const mlp_model *model, const mlp_samples *samples,
                                   const mlp_quantized *quantized, const mlp_reference *reference,
                                   int lossy) {
    static quantized_row row;
    mlp_agreement agreement = {0};
    row.quantized = quantized;
    for (int64_t i = 0; i < reference->row_count; i++) {
        start_quantized(&row, samples->inputs + reference->rows[i] * samples->width,
                        samples->width);
        for (int l = 0; l < model->layer_count; l++)
            quantized_layer(&row, model, l, l == lossy);
        mlp_agreement_add(&agreement, reference, i, row.real);
    }
    return agreement;
}

/* Checks that device-like arithmetic stays within the bound and that a lost term in any layer does
 * not. */
static void check_bound(const mlp_model *model, const mlp_samples *samples,
                        const mlp_quantized *quantized, const mlp_reference *reference) {
    const mlp_agreement right = run_quantized(model, samples, quantized, reference, -1);
    print_message("%s %s: right %.3f of the bound\n", model->name, quantized->precision->name,
                  right.max_error_ratio);
    assert_int_equal(right.rows, reference->row_count);
    assert_true(right.max_error_ratio > 0.001 && right.max_error_ratio < 0.9);
    for (int lossy = 0; lossy < model->layer_count; lossy++) {
        const mlp_agreement wrong = run_quantized(model, samples, quantized, reference, lossy);
        print_message("  with a lost term of layer %d: %.3g\n", lossy, wrong.max_error_ratio);
        assert_true(wrong.max_error_ratio > 1.0);
    }
}

typedef struct model_case {
    mlp_model model;
    mlp_samples samples, calibration;
} model_case;

static void make_quantized(const model_case *opened, const char *name, int64_t rows,
                           mlp_quantized *quantized, mlp_reference *reference) {
    file_error error;
    if (mlp_quantized_make(&opened->model, mlp_precision_from_name(name), &opened->calibration,
                           quantized, &error) ||
        mlp_reference_make(&opened->model, quantized, &opened->samples, TDM_F32, rows, reference,
                           &error))
        fail_msg("%s", error.text);
}

static const char *const quantized_names[] = {"int8", "int8-dynamic", "w8", "w4"};

#define QUANTIZED_COUNT (sizeof quantized_names / sizeof *quantized_names)

/* The first 100 images calibrate, as in the program. The test counts right answers among all 500
 * images and among the 400 that calibration has not seen. The counts are exact because the host
 * computes everything. */
TEST(test_quantized_digits) {
    static const int as_f32[QUANTIZED_COUNT] = {500, 500, 500, 499};
    model_case opened;
    file_error error;
    mlp_reference exact;
    if (mlp_model_load(digits, &opened.model, &error) ||
        mlp_samples_load(heldout, &opened.model, &opened.samples, &error))
        fail_msg("%s", error.text);
    opened.calibration = opened.samples;
    opened.calibration.count = 100;
    assert_int_equal(
        mlp_reference_make(&opened.model, NULL, &opened.samples, TDM_F32, 500, &exact, &error), 0);
    for (size_t i = 0; i < QUANTIZED_COUNT; i++) {
        mlp_quantized quantized;
        mlp_reference reference;
        int right = 0, unseen = 0, same = 0;
        make_quantized(&opened, quantized_names[i], 500, &quantized, &reference);
        for (int64_t row = 0; row < 500; row++) {
            const int64_t answer = mlp_reference_class(&reference, row);
            right += answer == opened.samples.labels[row];
            unseen += row >= 100 && answer == opened.samples.labels[row];
            same += answer == mlp_reference_class(&exact, row);
        }
        assert_int_equal(right, 490);
        assert_int_equal(unseen, 391);
        assert_int_equal(same, as_f32[i]);
        check_bound(&opened.model, &opened.samples, &quantized, &reference);
        mlp_reference_release(&reference);
        mlp_quantized_release(&quantized);
    }
    mlp_reference_release(&exact);
    mlp_samples_release(&opened.samples);
    mlp_model_release(&opened.model);
}

/*
 * The inputs have both signs, so they need zero points. Without an activation every layer needs
 * them.
 */
TEST(test_quantized_is_near) {
    static const int64_t widths[] = {300, 200, 128, 70};
    static const double limits[QUANTIZED_COUNT] = {0.02, 0.02, 0.012, 0.2};
    model_case made;
    file_error error;
    assert_int_equal(test_model_make("synthetic", widths, 4, 7, &made.model, &error), 0);
    assert_int_equal(mlp_samples_synthetic(40, 300, 8, &made.samples, &error), 0);
    made.calibration = made.samples;
    for (int linear = 0; linear < 2; linear++) {
        mlp_reference exact;
        made.model.activation = linear ? TDM_ACT_NONE : TDM_ACT_RELU;
        assert_int_equal(
            mlp_reference_make(&made.model, NULL, &made.samples, TDM_F32, 40, &exact, &error), 0);
        for (size_t i = 0; i < QUANTIZED_COUNT; i++) {
            mlp_quantized quantized;
            mlp_reference reference;
            double noise = 0.0, signal = 0.0;
            make_quantized(&made, quantized_names[i], 40, &quantized, &reference);
            for (int n = 0; n < 40 * 70; n++) {
                const double own = reference.logits[n] - exact.logits[n];
                noise += own * own;
                signal += exact.logits[n] * exact.logits[n];
            }
            print_message("%s: relative error %.4f\n", quantized_names[i], sqrt(noise / signal));
            assert_true(sqrt(noise / signal) < limits[i]);
            if (quantized.precision->inputs == MLP_INPUTS_CALIBRATED) {
                assert_true(quantized.layers[0].input.zero_point > 100);
                assert_int_equal(quantized.layers[1].input.zero_point > 100, linear);
            }
            check_bound(&made.model, &made.samples, &quantized, &reference);
            mlp_reference_release(&reference);
            mlp_quantized_release(&quantized);
        }
        mlp_reference_release(&exact);
    }
    mlp_samples_release(&made.samples);
    mlp_model_release(&made.model);
}

TEST(test_precisions) {
    static const int64_t widths[] = {4, 6, 2};
    mlp_model model;
    file_error reason = {""};
    assert_null(mlp_precision_from_name("int9"));
    const mlp_precision *const int8 = mlp_precision_from_name("int8");
    const mlp_precision *const w4 = mlp_precision_from_name("w4");
    assert_non_null(int8);
    assert_non_null(w4);
    assert_int_equal(test_model_make("s", widths, 3, 7, &model, &reason), 0);
    assert_int_equal(mlp_precision_check(int8, &model, &reason), 0);
    assert_int_equal(mlp_precision_check(w4, &model, &reason), 0);
    assert_int_equal(mlp_precision_check(mlp_precision_from_name("w8"), &model, &reason), 0);
    model.activation = TDM_ACT_GELU;
    assert_int_equal(mlp_precision_check(int8, &model, &reason), -1);
    assert_non_null(strstr(reason.text, "int8 supports only relu or no activation"));
    assert_int_equal(mlp_precision_check(mlp_precision_from_name("int8-dynamic"), &model, &reason),
                     0);
    mlp_model_release(&model);
}

/* An output whose weights are all 0 still has its bias, and inputs that are all 0 have a scale. */
TEST(test_quantized_zeros) {
    static const int64_t widths[] = {4, 2, 1};
    mlp_model model;
    mlp_samples samples;
    mlp_quantized quantized;
    mlp_reference exact, reference;
    file_error error;
    assert_int_equal(test_model_make("s", widths, 3, 7, &model, &error), 0);
    assert_int_equal(mlp_samples_synthetic(1, 4, 8, &samples, &error), 0);
    memset(samples.inputs, 0, 4 * sizeof *samples.inputs);
    memset(model.layers[0].weight, 0, 8 * sizeof *model.layers[0].weight);
    model.layers[0].bias[0] = 3.0f;
    model.layers[0].bias[1] = 1.0f;
    assert_int_equal(
        mlp_quantized_make(&model, mlp_precision_from_name("int8"), &samples, &quantized, &error),
        0);
    assert_true(quantized.layers[0].input.scale == 1.0f);
    assert_int_equal(quantized.layers[0].bias[0], 3);
    assert_int_equal(quantized.layers[0].bias[1], 1);
    assert_true(fabsf(quantized.layers[1].input.scale - 3.0f / 255.0f) < 1e-3f);
    assert_int_equal(mlp_reference_make(&model, NULL, &samples, TDM_F32, 1, &exact, &error), 0);
    assert_int_equal(
        mlp_reference_make(&model, &quantized, &samples, TDM_F32, 1, &reference, &error), 0);
    assert_true(fabs(reference.logits[0] - exact.logits[0]) < 0.05);
    assert_true(reference.deviation[0] > 0.0);
    mlp_reference_release(&reference);
    mlp_reference_release(&exact);
    mlp_quantized_release(&quantized);
    mlp_samples_release(&samples);
    mlp_model_release(&model);
}

TEST_MAIN(NULL, NULL)
