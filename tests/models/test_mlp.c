/*
 * Tests the host side of `tandem infer` without a device: the models that are read or refused. The
 * oracle's tolerance must hold for correct arithmetic and reveal a lost term.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "formats/safetensors.h"
#include "models/mlp/mlp_model.h"
#include "models/mlp/mlp_oracle.h"
#include "quant/number_formats.h"
#include "tests/support/test_case.h"
#include "tests/support/test_folder.h"
#include "tests/support/test_model.h"

static const char digits[] = TANDEM_SOURCE_DIR "/examples/digits";
static const char heldout[] = TANDEM_SOURCE_DIR "/examples/digits/heldout.safetensors";

/* ---- reading ---- */

TEST(test_digits_model) {
    mlp_model model;
    mlp_samples samples = {0};
    file_error error;
    if (mlp_model_load(digits, &model, &error) ||
        mlp_samples_load(heldout, &model, &samples, &error))
        fail_msg("%s", error.text);
    assert_string_equal(model.name, "digits");
    assert_int_equal(model.layer_count, 3);
    assert_int_equal(mlp_model_parameters(&model), 85002);
    assert_int_equal(model.activation, TDM_ACT_RELU);
    assert_true(model.recorded_accuracy == 0.98);
    assert_int_equal(samples.count, 500);
    assert_int_equal(samples.width, 64);
    float largest = 0.0f; /* counts up to 16, scaled by 1/16 */
    for (int i = 0; i < 500 * 64; i++)
        largest = samples.inputs[i] > largest ? samples.inputs[i] : largest;
    assert_true(largest == 1.0f);
    mlp_samples_release(&samples);
    mlp_model_release(&model);
}

static const float zeros[64];

#define F32_TENSOR(tensor_name, tensor_rank, first, second)                                        \
    {                                                                                              \
        .name = tensor_name, .dtype = SAFETENSORS_F32, .rank = tensor_rank,                        \
        .shape = {first, second}, .data = zeros,                                                   \
        .bytes = sizeof(float) * (first) * ((tensor_rank) > 1 ? (second) : 1)                      \
    }

static void write_file(const char *name, const safetensors_tensor *tensors, size_t count,
                       const safetensors_pair *metadata, size_t pairs) {
    char path[TEST_PATH];
    safetensors_error error;
    if (test_safetensors_write(test_folder_path(path, name), tensors, count, metadata, pairs,
                               &error))
        fail_msg("%s", error.text);
}

static const safetensors_pair good_metadata[] = {{"architecture", "mlp"}, {"activation", "silu"}};

static void expect_model_refused(const char *sentence) {
    mlp_model model;
    file_error error = {""};
    if (!mlp_model_load(test_folder(), &model, &error))
        fail_msg("accepted instead of \"%s\"", sentence);
    if (!strstr(error.text, sentence))
        fail_msg("refused with \"%s\", not with \"%s\"", error.text, sentence);
    mlp_model_release(&model);
}

TEST_WITH(test_layers_are_found_by_name, test_folder_make, test_folder_remove) {
    const safetensors_tensor tensors[] = {
        F32_TENSOR("net.10.weight", 2, 2, 3), F32_TENSOR("net.2.weight", 2, 3, 4),
        F32_TENSOR("net.2.bias", 1, 3, 0), F32_TENSOR("net.1.weight", 2, 4, 5)};
    write_file("model.safetensors", tensors, 4, good_metadata, 2);
    mlp_model model;
    file_error error;
    if (mlp_model_load(test_folder(), &model, &error))
        fail_msg("%s", error.text);
    assert_int_equal(model.layer_count, 3);
    assert_int_equal(mlp_model_inputs(&model), 5);
    assert_int_equal(mlp_model_outputs(&model), 2);
    assert_null(model.layers[0].bias);
    assert_non_null(model.layers[1].bias);
    assert_int_equal(model.activation, TDM_ACT_SILU);
    assert_true(isnan(model.recorded_accuracy));
    mlp_model_release(&model);
}

TEST_WITH(test_broken_models, test_folder_make, test_folder_remove) {
    static const struct {
        safetensors_tensor tensors[3];
        size_t count;
        const char *sentence;
    } rows[] = {
        {{{.name = ""}}, 0, "no tensor named"},
        {{F32_TENSOR("a.bias", 1, 3, 0)}, 1, "no tensor named"},
        {{F32_TENSOR("a.weight", 1, 3, 0)}, 1, "\"a.weight\" is not a weight matrix"},
        {{F32_TENSOR("a.weight", 2, 0, 3)}, 1, "\"a.weight\" is not a weight matrix"},
        {{F32_TENSOR("a.weight", 2, 3, 4), F32_TENSOR("b.weight", 2, 2, 4)},
         2,
         "\"b.weight\" has 4 inputs, but the previous layer has 3 outputs"},
        {{F32_TENSOR("a.weight", 2, 3, 4), F32_TENSOR("a.bias", 1, 4, 0)},
         2,
         "\"a.bias\" is not a bias of 3 values"},
        {{F32_TENSOR("a.weight", 2, 3, 4), F32_TENSOR("b.bias", 1, 3, 0)},
         2,
         "1 tensors of the model are neither"},
        {{{.name = "a.weight",
           .dtype = SAFETENSORS_I64,
           .rank = 2,
           .shape = {1, 1},
           .data = zeros,
           .bytes = 8}},
         1,
         "has the dtype I64"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        write_file("model.safetensors", rows[i].tensors, rows[i].count, good_metadata, 2);
        expect_model_refused(rows[i].sentence);
    }
    static const float bad[2] = {1.0f, INFINITY};
    const safetensors_tensor infinite = {.name = "a\x1b.weight",
                                         .dtype = SAFETENSORS_F32,
                                         .rank = 2,
                                         .shape = {1, 2},
                                         .data = bad,
                                         .bytes = sizeof bad};
    write_file("model.safetensors", &infinite, 1, good_metadata, 2);
    expect_model_refused("value 1 of tensor \"a?.weight\" is not finite");
}

TEST_WITH(test_broken_metadata, test_folder_make, test_folder_remove) {
    static const struct {
        safetensors_pair pairs[3];
        size_t count;
        const char *sentence;
    } rows[] = {
        {{{"activation", "relu"}}, 1, "\"architecture\" is \"\""},
        {{{"architecture", "cnn"}, {"activation", "relu"}}, 2, "\"architecture\" is \"cnn\""},
        {{{"architecture", "mlp"}}, 1, "\"activation\" is \"\""},
        {{{"architecture", "mlp"}, {"activation", "tan"}}, 2, "\"activation\" is \"tan\""},
        {{{"architecture", "mlp"}, {"activation", "relu"}, {"input_scale", "0"}},
         3,
         "\"input_scale\" is \"0\", not a positive number"},
        {{{"architecture", "mlp"}, {"activation", "relu"}, {"input_scale", "1x"}}, 3, "\"1x\""},
        {{{"architecture", "mlp"}, {"activation", "relu"}, {"heldout_accuracy", "98"}},
         3,
         "\"heldout_accuracy\" is above 1"},
    };
    const safetensors_tensor weight = F32_TENSOR("a.weight", 2, 3, 4);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        write_file("model.safetensors", &weight, 1, rows[i].pairs, rows[i].count);
        expect_model_refused(rows[i].sentence);
    }
}

TEST_WITH(test_broken_samples, test_folder_make, test_folder_remove) {
    static const unsigned char bytes[16] = {3};
#define U8_TENSOR(tensor_name, tensor_rank, first, second)                                         \
    {                                                                                              \
        .name = tensor_name, .dtype = SAFETENSORS_U8, .rank = tensor_rank,                         \
        .shape = {first, second}, .data = bytes,                                                   \
        .bytes = (size_t)(first) * ((tensor_rank) > 1 ? (second) : 1)                              \
    }
    static const struct {
        safetensors_tensor tensors[2];
        const char *sentence;
    } rows[] = {
        {{U8_TENSOR("images", 2, 2, 4), U8_TENSOR("x", 1, 2, 0)},
         "must contain \"images\" with two"},
        {{U8_TENSOR("images", 1, 8, 0), U8_TENSOR("labels", 1, 2, 0)},
         "must contain \"images\" with two"},
        {{U8_TENSOR("images", 2, 2, 5), U8_TENSOR("labels", 1, 2, 0)}, "have 5 values each"},
        {{U8_TENSOR("images", 2, 2, 4), U8_TENSOR("labels", 1, 3, 0)}, "not a list of 2 labels"},
        {{U8_TENSOR("images", 2, 2, 4), F32_TENSOR("labels", 1, 2, 0)}, "has the dtype F32"},
        {{U8_TENSOR("images", 2, 2, 4), U8_TENSOR("labels", 1, 2, 0)},
         "label 0 is 3, but the model has 3 outputs"},
    };
    const safetensors_tensor weight = F32_TENSOR("a.weight", 2, 3, 4);
    mlp_model model;
    file_error error;
    write_file("model.safetensors", &weight, 1, good_metadata, 2);
    assert_int_equal(mlp_model_load(test_folder(), &model, &error), 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        mlp_samples samples;
        char path[TEST_PATH];
        write_file("heldout.safetensors", rows[i].tensors, 2, NULL, 0);
        test_folder_path(path, "heldout.safetensors");
        assert_int_equal(mlp_samples_load(path, &model, &samples, &error), -1);
        if (!strstr(error.text, rows[i].sentence))
            fail_msg("refused with \"%s\", not with \"%s\"", error.text, rows[i].sentence);
        mlp_samples_release(&samples);
    }
    mlp_model_release(&model);
}

/* ---- the oracle compared with device arithmetic ---- */

static float stored(tdm_dtype dtype, float value) {
    unsigned char bits[sizeof(double)];
    tdm_number_set(dtype, bits, 0, (double)value);
    return (float)tdm_number_get(dtype, bits, 0);
}

/*
 * Computes a layer as a device does: f32 sums of stored weights and values. Each sum omits the last
 * `lost` terms.
 */
static void device_layer(const mlp_layer *layer, tdm_activation activation, tdm_dtype dtype,
                         int64_t lost, const float *x, float *y) {
    for (int64_t n = 0; n < layer->outputs; n++) {
        float sum = stored(dtype, layer->bias[n]);
        for (int64_t k = 0; k < layer->inputs - lost; k++)
            sum += stored(dtype, layer->weight[n * layer->inputs + k]) * x[k];
        if (activation == TDM_ACT_RELU)
            sum = sum > 0.0f ? sum : 0.0f;
        y[n] = stored(dtype, sum);
    }
}

static mlp_agreement run_as_device(const mlp_model *model, const mlp_samples *samples,
                                   tdm_dtype dtype, int64_t lost, int64_t rows) {
    static float values[2][1024];
    mlp_agreement agreement = {0};
    mlp_reference reference = {0};
    file_error error;
    if (mlp_reference_make(model, NULL, samples, dtype, rows, &reference, &error))
        fail_msg("%s", error.text);
    for (int64_t i = 0; i < reference.row_count; i++) {
        for (int64_t k = 0; k < samples->width; k++)
            values[0][k] = stored(dtype, samples->inputs[reference.rows[i] * samples->width + k]);
        for (int l = 0; l < model->layer_count; l++)
            device_layer(&model->layers[l],
                         l + 1 < model->layer_count ? model->activation : TDM_ACT_NONE, dtype,
                         l == 1 ? lost : 0, values[l % 2], values[(l + 1) % 2]);
        mlp_agreement_add(&agreement, &reference, i, values[model->layer_count % 2]);
    }
    mlp_reference_release(&reference);
    return agreement;
}

static void check_bound(const mlp_model *model, const mlp_samples *samples, tdm_dtype dtype,
                        int64_t rows) {
    const mlp_agreement right = run_as_device(model, samples, dtype, 0, rows);
    const mlp_agreement wrong = run_as_device(model, samples, dtype, 1, rows);
    print_message("%s %s: right %.3f of the bound, with a lost term %.3g\n", model->name,
                  tdm_dtype_name(dtype), right.max_error_ratio, wrong.max_error_ratio);
    assert_int_equal(right.rows, rows);
    assert_true(right.max_error_ratio > 0.002 && right.max_error_ratio < 0.9);
    assert_true(wrong.max_error_ratio > 1.0);
}

TEST(test_oracle_on_digits) {
    mlp_model model;
    mlp_samples samples;
    file_error error;
    if (mlp_model_load(digits, &model, &error) ||
        mlp_samples_load(heldout, &model, &samples, &error))
        fail_msg("%s", error.text);
    check_bound(&model, &samples, TDM_F32, 100);
    check_bound(&model, &samples, TDM_F16, 100);
    check_bound(&model, &samples, TDM_BF16, 100);
    const mlp_agreement exact = run_as_device(&model, &samples, TDM_F32, 0, 500);
    assert_int_equal(exact.same_class, 500);
    mlp_samples_release(&samples);
    mlp_model_release(&model);
}

TEST(test_oracle_on_synthetic) {
    static const int64_t widths[] = {300, 700, 500, 200};
    mlp_model model;
    mlp_samples samples;
    mlp_reference reference = {0};
    file_error error;
    if (test_model_make("synthetic", widths, 4, 7, &model, &error) ||
        mlp_samples_synthetic(9, 300, 8, &samples, &error))
        fail_msg("%s", error.text);
    check_bound(&model, &samples, TDM_F32, 9);
    check_bound(&model, &samples, TDM_F16, 9);
    /* A reference for fewer rows spreads them over the samples. */
    assert_int_equal(mlp_reference_make(&model, NULL, &samples, TDM_F32, 3, &reference, &error), 0);
    assert_int_equal(reference.rows[0], 0);
    assert_int_equal(reference.rows[1], 4);
    assert_int_equal(reference.rows[2], 8);
    mlp_reference_release(&reference);
    mlp_samples_release(&samples);
    mlp_model_release(&model);
}

/* A NaN is never near the oracle, and never the largest logit. */
TEST(test_nan_is_wrong) {
    double logits[3] = {1.0, 3.0, 2.0};
    double deviation[3] = {1e-6, 1e-6, 1e-6};
    const mlp_reference reference = {
        .row_count = 1, .outputs = 3, .logits = logits, .deviation = deviation};
    mlp_agreement agreement = {0};
    mlp_agreement_add(&agreement, &reference, 0, (const float[3]){1.0f, NAN, 2.0f});
    assert_true(isinf(agreement.max_error_ratio) && isinf(agreement.max_abs));
    assert_int_equal(agreement.same_class, 0);
    mlp_agreement_add(&agreement, &reference, 0, (const float[3]){1.0f, 3.0f, 2.0f});
    assert_true(isinf(agreement.max_error_ratio));
    assert_int_equal(agreement.same_class, 1);
    assert_int_equal(mlp_argmax((const float[3]){NAN, -2.0f, -1.0f}, 3), 2);
}

TEST_MAIN(NULL, NULL)
