// ctest: threads
/* Tests `tandem quantize --calibrate`: input scales, refusals, and the measures of the report. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "formats/checkpoint/quantize_read.h"
#include "quant/observer.h"
#include "quant/quant_reference.h"
#include "tests/support/quant/test_checkpoint.h"
#include "tests/support/test_case.h"

/* ---- calibration ---- */

static double number_in(const char *json, const char *key) {
    cJSON *const root = cJSON_Parse(json);
    const cJSON *const item = cJSON_GetArrayItem(cJSON_GetObjectItem(root, "tensors"), 0);
    const cJSON *const number = cJSON_GetObjectItem(item, key);
    const double value = cJSON_IsNumber(number) ? number->valuedouble : NAN;
    cJSON_Delete(root);
    return value;
}

/* Two batches: the file's parameters equal those of an observer of quant/ for both. */
TEST_WITH(calibration_finds_the_inputs_scale, test_checkpoint_enter, test_checkpoint_leave) {
    static const char *const observers[] = {"minmax", "moving-average", "percentile", "mse", "kl"};
    const tdm_quant_range range = tdm_quant_scheme_info(TDM_QUANT_U8_ACTIVATION)->range;
    safetensors_tensor weight = test_tensor_make("fc.weight", SAFETENSORS_F32, 41, 40, 48, 0);
    safetensors_tensor x[] = {test_tensor_make("fc.input.0", SAFETENSORS_F32, 42, 20, 48, 0),
                              test_tensor_make("fc.input.1", SAFETENSORS_F16, 43, 3, 5, 48)};
    test_checkpoint_write("in.safetensors", &weight, 1);
    test_checkpoint_write("x.safetensors", x, 2);
    for (int i = 0; i < 5; i++) {
        test_quantize(0, NULL, NULL,
                      "in.safetensors out.safetensors --scheme s8-channel --calibrate "
                      "x.safetensors --observer %s",
                      observers[i]);
        const tdm_quant_observer_options options = {
            .kind = tdm_quant_observer_kind_from_name(observers[i]), .channels = 1, .inner = 1};
        void *const memory = malloc(tdm_quant_observer_bytes(&options));
        tdm_quant_observer *observer;
        assert_int_equal(tdm_quant_observer_init(
                             &options, memory, tdm_quant_observer_bytes(&options), &observer, NULL),
                         TDM_OK);
        tdm_quant_observe(observer, TDM_F32, x[0].data, 20 * 48, NULL);
        tdm_quant_observe(observer, TDM_F16, x[1].data, 15 * 48, NULL);
        const tdm_quant_parameters expected =
            tdm_quant_observer_parameters(observer, 0, TDM_QUANT_ASYMMETRIC, range);
        safetensors_file *const file = test_checkpoint_open("out.safetensors");
        quantized_weight quantized = test_weight_read(file, "fc.weight");
        assert_int_equal(quantized.input_dtype, TDM_U8);
        assert_true(quantized.input.scale == expected.scale && expected.scale > 0);
        assert_int_equal(quantized.input.zero_point, expected.zero_point);
        free(memory);
    }
}

TEST_WITH(activations_that_fit_nothing_are_refused, test_checkpoint_enter, test_checkpoint_leave) {
    safetensors_tensor weight = test_tensor_make("fc.weight", SAFETENSORS_F32, 41, 40, 48, 0);
    safetensors_tensor x = test_tensor_make("fd.input", SAFETENSORS_F32, 42, 20, 48, 0);
    static const char arguments[] =
        "in.safetensors out.safetensors --scheme s8-channel --calibrate x.safetensors";
    test_checkpoint_write("in.safetensors", &weight, 1);
    test_checkpoint_write("x.safetensors", &x, 1);
    test_quantize(1, NULL, "the activations of x.safetensors belong to no quantized layer", "%s",
                  arguments);
    x.name = "fc";
    ((float *)(uintptr_t)x.data)[7] = NAN;
    test_checkpoint_write("x.safetensors", &x, 1);
    test_quantize(1, NULL, "activations \"fc\" have 1 values that are not finite", "%s", arguments);
    x.dtype = SAFETENSORS_I32;
    test_checkpoint_write("x.safetensors", &x, 1);
    test_quantize(1, NULL, "activations \"fc\" are of type I32, not F32", "%s", arguments);
    assert_int_equal(test_checkpoint_files(), 2);
}

/*
 * Refuses rows that differ in width from the layer's inputs, and batches without a number. Weights
 * that are not matrices, such as convolution kernels, accept any width.
 */
TEST_WITH(activations_of_another_shape_are_refused, test_checkpoint_enter, test_checkpoint_leave) {
    static const struct {
        int rank;
        int64_t shape[3];
        const char *sentence; /* NULL: accepted */
    } rows[] = {
        {2, {4, 47}, "activations \"fc\" have rows of 47, but \"fc.weight\" has 48 inputs"},
        {0, {0}, "activations \"fc\" have rows of 0"},
        {2, {0, 48}, "the activations of layer \"fc\" contain no values"},
        {3, {2, 0, 48}, "the activations of layer \"fc\" contain no values"},
        {1, {48}, NULL},
        {3, {2, 3, 48}, NULL},
    };
    safetensors_tensor weight = test_tensor_make("fc.weight", SAFETENSORS_F32, 41, 40, 48, 0);
    test_checkpoint_write("in.safetensors", &weight, 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        safetensors_tensor x = test_tensor_make("fc", SAFETENSORS_F32, 42, 300, 0, 0);
        int64_t count = 1;
        for (int d = 0; d < rows[i].rank; d++)
            count *= x.shape[d] = rows[i].shape[d];
        x.rank = rows[i].rank;
        x.bytes = (size_t)count * sizeof(float);
        test_checkpoint_write("x.safetensors", &x, 1);
        test_quantize(
            rows[i].sentence != NULL, NULL, rows[i].sentence,
            "in.safetensors out.safetensors --scheme s8-channel --calibrate x.safetensors");
        assert_int_equal(test_checkpoint_files(), rows[i].sentence != NULL ? 2 : 3);
        if (rows[i].sentence == NULL)
            test_checkpoint_remove("out.safetensors");
    }
}

/*
 * A layer without activations is quantized without input parameters, and the report notes it. A
 * layer converted to floats has no quantized input.
 */
TEST_WITH(layers_without_an_input_are_noted, test_checkpoint_enter, test_checkpoint_leave) {
    safetensors_tensor weights[] = {test_tensor_make("fc.weight", SAFETENSORS_F32, 41, 40, 48, 0),
                                    test_tensor_make("fd.weight", SAFETENSORS_F32, 42, 40, 48, 0),
                                    test_tensor_make("fe.weight", SAFETENSORS_F32, 42, 40, 48, 0)};
    safetensors_tensor x[] = {test_tensor_make("fd", SAFETENSORS_F32, 43, 4, 48, 0),
                              test_tensor_make("fe", SAFETENSORS_F32, 43, 4, 48, 0)};
    test_checkpoint_write("in.safetensors", weights, 3);
    test_checkpoint_write("x.safetensors", x, 2);
    test_quantize(0, "no activations: no scale for its input", NULL,
                  "in.safetensors out.safetensors --scheme s8-channel --except fe=f16 --calibrate "
                  "x.safetensors");
    safetensors_file *const file = test_checkpoint_open("out.safetensors");
    assert_null(safetensors_find(file, "fc.input_scale"));
    assert_non_null(safetensors_find(file, "fd.input_scale"));
    assert_null(safetensors_find(file, "fe.input_scale"));
}

/* ---- the report ---- */

TEST_WITH(the_report_has_the_measures, test_checkpoint_enter, test_checkpoint_leave) {
    safetensors_tensor tensors[] = {test_tensor_make("w", SAFETENSORS_F32, 51, 64, 64, 0),
                                    test_tensor_make("b", SAFETENSORS_F32, 52, 64, 0, 0)};
    test_checkpoint_write("in.safetensors", tensors, 2);
    char *const json =
        test_quantize_output("in.safetensors out.safetensors --scheme s8-channel --json -");
    safetensors_file *const file = test_checkpoint_open("out.safetensors");
    quantized_weight weight = test_weight_read(file, "w");
    double signal = 0;
    double noise = 0;
    double greatest = 0;
    for (int64_t i = 0; i < 64 * 64; i++) {
        const double x = (double)test_tensor_at(&tensors[0], i);
        const double y = (double)(test_weight_scale(&weight, i / 64) *
                                  (float)tdm_quant_get(TDM_S8, weight.codes, i));
        signal += x * x;
        noise += (y - x) * (y - x);
        greatest = fmax(greatest, fabs(y - x));
    }
    assert_true(fabs(number_in(json, "sqnr_db") - 10 * log10(signal / noise)) < 1e-6);
    assert_true(fabs(number_in(json, "max_error") - greatest) < 1e-12);
    assert_true(number_in(json, "bytes_before") == 64 * 64 * 4);
    assert_true(number_in(json, "bytes_after") == 64 * 64 + 64 * 4);
    free(json);
    test_quantize(0, "1 tensors quantized, 1 copied", NULL,
                  "in.safetensors out.safetensors --scheme s8-channel --json r.json");
    size_t size;
    unsigned char *const text = test_file_read("r.json", &size);
    text[size] = '\0';
    assert_non_null(strstr((const char *)text, "\"tandem-quantize/1\""));
    free(text);
}

TEST_MAIN(NULL, NULL)
