// ctest: threads
/* `tandem quantize --weights-observer`: ranges of weights by least error, percentile and divergence. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "formats/checkpoint/quantize_layout.h"
#include "formats/checkpoint/quantize_read.h"
#include "quant/observer.h"
#include "tests/support/quant/test_checkpoint.h"

typedef struct scheme_row {
    const char *scheme;
    const char *options;
    int64_t rows, columns;
    tdm_quant_symmetry symmetry;
    tdm_quant_range range;
    double slack; /* what the error may be above that of the best of many scales, as a factor */
} scheme_row;

/* Numbers of which one in 997 is eight to ninety times as large as the rest. */
static safetensors_tensor make_weights(const scheme_row *row) {
    safetensors_tensor tensor =
        test_tensor_make("w", SAFETENSORS_F32, 77, row->rows, row->columns, 0);
    float *const values = (float *)(uintptr_t)tensor.data;
    for (int64_t i = 0; i < row->rows * row->columns; i += 997)
        values[i] *= (float)(8 + i % 83);
    return tensor;
}

/* ---- least squared error ---- */

/* Sums of squared errors by scale; the caller frees them. */
static double *errors_of(const safetensors_tensor *tensor, const quantized_weight *weight) {
    const int64_t count = test_tensor_count(tensor);
    double *const errors = calloc((size_t)count, sizeof *errors);
    float *const back = calloc((size_t)count, sizeof *back);
    assert_true(errors && back);
    quantized_weight_floats(weight, 0, count, back);
    for (int64_t i = 0; i < count; i++) {
        const double error = (double)test_tensor_at(tensor, i) - (double)back[i];
        errors[test_weight_scale_of(weight, i)] += error * error;
    }
    free(back);
    return errors;
}

/* The least error with any of 100 scales, symmetric, in double precision: of each scale's numbers, summed. */
static double least_of_many(const scheme_row *row, const safetensors_tensor *tensor,
                            const quantized_weight *weight, int64_t scales) {
    enum {
        TRIED = 100
    };
    const int64_t count = test_tensor_count(tensor);
    double *const largest = calloc((size_t)scales, sizeof *largest);
    double *const errors = calloc((size_t)scales * TRIED, sizeof *errors);
    double total = 0.0;
    assert_true(largest && errors);
    for (int64_t i = 0; i < count; i++) {
        double *const most = &largest[test_weight_scale_of(weight, i)];
        *most = fmax(*most, fabs((double)test_tensor_at(tensor, i)));
    }
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = test_weight_scale_of(weight, i);
        const double x = (double)test_tensor_at(tensor, i);
        for (int t = 0; t < TRIED; t++) {
            const double scale = largest[at] / row->range.high * exp2(-8.0 * t / TRIED);
            const double code = fmin(fmax(nearbyint(x / scale), row->range.low), row->range.high);
            errors[at * TRIED + t] += (x - scale * code) * (x - scale * code);
        }
    }
    for (int64_t at = 0; at < scales; at++) {
        double least = HUGE_VAL;
        for (int t = 0; t < TRIED; t++)
            least = fmin(least, errors[at * TRIED + t]);
        total += least;
    }
    free(largest);
    free(errors);
    return total;
}

static double *quantized_errors(const scheme_row *row, const safetensors_tensor *tensor,
                                const char *observer, int64_t *scales, double *least) {
    test_quantize(0, row->scheme, NULL,
                  "in.safetensors out.safetensors --scheme %s %s --weights-observer %s",
                  row->scheme, row->options, observer);
    safetensors_file *const file = test_checkpoint_open("out.safetensors");
    quantized_weight weight = test_weight_read(file, "w");
    *scales =
        (int64_t)(weight.scale_bytes / (size_t)tdm_dtype_info(weight.scale_dtype)->unit_bytes);
    double *const errors = errors_of(tensor, &weight);
    *least = row->slack > 0 ? least_of_many(row, tensor, &weight, *scales) : 0.0;
    quantized_weight_release(&weight);
    safetensors_close(file);
    return errors;
}

/* Of no scale above that of the whole range; of all, about that of the best of many. */
static void the_least_error_is_found(void **state) {
    (void)state;
    static const scheme_row rows[] = {
        {"s8-tensor", "", 24, 1100, TDM_QUANT_SYMMETRIC, {-127, 127}, 1.05},
        {"u8-tensor", "", 500, 1100, TDM_QUANT_ASYMMETRIC, {0, 255}, 0},
        {"s8-channel", "", 24, 1100, TDM_QUANT_SYMMETRIC, {-127, 127}, 1.05},
        {"s4-channel", "", 23, 1101, TDM_QUANT_SYMMETRIC, {-7, 7}, 1.05},
        {"s4-channel", "--axis 1", 1031, 29, TDM_QUANT_SYMMETRIC, {-7, 7}, 1.05},
        {"s4-channel", "--axis 1", 3, 200001, TDM_QUANT_SYMMETRIC, {-7, 7}, 0},
        {"s4-channel", "", 2, 530001, TDM_QUANT_SYMMETRIC, {-7, 7}, 0},
        {"s4-group", "", 64, 512, TDM_QUANT_SYMMETRIC, {-7, 7}, 1.1},
        {"s4-group", "--axis 1 --group 64", 130, 61, TDM_QUANT_SYMMETRIC, {-7, 7}, 1.1},
        {"s4-channel-zero", "--axis 1", 1031, 29, TDM_QUANT_ASYMMETRIC, {-8, 7}, 0},
        {"s4-group-zero", "--scales bf16", 64, 517, TDM_QUANT_ASYMMETRIC, {-8, 7}, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        safetensors_tensor tensor = make_weights(&rows[i]);
        int64_t scales;
        double least, unused, sum = 0.0, sum_of_whole = 0.0;
        scheme_row plain = rows[i];
        plain.slack = 0;
        test_checkpoint_write("in.safetensors", &tensor, 1);
        double *const whole = quantized_errors(&plain, &tensor, "minmax", &scales, &unused);
        double *const found = quantized_errors(&rows[i], &tensor, "mse", &scales, &least);
        for (int64_t s = 0; s < scales; s++) {
            if (found[s] > whole[s] * (1 + 1e-9))
                fail_msg("%s %s: error %g of scale %lld, %g of the whole range", rows[i].scheme,
                         rows[i].options, found[s], (long long)s, whole[s]);
            sum += found[s];
            sum_of_whole += whole[s];
        }
        assert_true(sum < sum_of_whole);
        if (rows[i].slack > 0 && sum > rows[i].slack * least)
            fail_msg("%s %s: error %g, %g at best, %g of the whole range", rows[i].scheme,
                     rows[i].options, sum, least, sum_of_whole);
        free(whole);
        free(found);
        test_tensor_release(&tensor);
        test_checkpoint_remove("in.safetensors");
        test_checkpoint_remove("out.safetensors");
    }
}

/* ---- histograms ---- */

/* What an observer that sees all of the tensor at once says of each channel, bit for bit. */
static void expect_observed(const scheme_row *row, const safetensors_tensor *tensor,
                            const quantized_weight *weight, tdm_quant_observer_kind kind,
                            double percent) {
    const int by_column = strstr(row->options, "--axis 1") != NULL;
    const int is_tensor = strstr(row->scheme, "tensor") != NULL;
    const tdm_quant_observer_options options = {.kind = kind,
                                                .channels = is_tensor   ? 1
                                                            : by_column ? row->columns
                                                                        : row->rows,
                                                .inner = is_tensor || by_column ? 1 : row->columns,
                                                .percent = percent};
    const size_t bytes = tdm_quant_observer_bytes(&options);
    void *const memory = malloc(bytes);
    tdm_quant_observer *observer;
    assert_non_null(memory);
    assert_int_equal(tdm_quant_observer_init(&options, memory, bytes, &observer, NULL), TDM_OK);
    assert_int_equal(
        tdm_quant_observe(observer, TDM_F32, tensor->data, row->rows * row->columns, NULL), TDM_OK);
    for (int64_t c = 0; c < options.channels; c++) {
        const tdm_quant_bounds bounds =
            tdm_quant_observer_bounds(observer, c, row->symmetry, row->range);
        const tdm_quant_parameters expected =
            tdm_quant_derive_kept(row->symmetry, bounds, row->range, weight->scale_dtype);
        if (test_weight_scale(weight, c) != expected.scale ||
            test_weight_zero_point(weight, c) != expected.zero_point)
            fail_msg("%s %s: scale %lld is %g, not %g", row->scheme, row->options, (long long)c,
                     (double)test_weight_scale(weight, c), (double)expected.scale);
    }
    free(memory);
}

static void histograms_are_those_of_observers(void **state) {
    (void)state;
    static const scheme_row rows[] = {
        {"s8-tensor", "", 500, 1100, TDM_QUANT_SYMMETRIC, {-127, 127}, 0},
        {"u8-tensor", "--scales f16", 70, 1100, TDM_QUANT_ASYMMETRIC, {0, 255}, 0},
        {"s8-channel", "", 24, 1100, TDM_QUANT_SYMMETRIC, {-127, 127}, 0},
        {"s8-channel", "--axis 1", 1031, 530, TDM_QUANT_SYMMETRIC, {-127, 127}, 0},
        {"s4-channel", "--axis 1", 1031, 29, TDM_QUANT_SYMMETRIC, {-7, 7}, 0},
        {"s4-channel", "", 2, 530001, TDM_QUANT_SYMMETRIC, {-7, 7}, 0},
        {"s4-channel-zero", "", 24, 1100, TDM_QUANT_ASYMMETRIC, {-8, 7}, 0},
    };
    static const struct {
        tdm_quant_observer_kind kind;
        double percent;
        const char *options;
    } observers[] = {
        {TDM_QUANT_OBSERVE_PERCENTILE, 99.99, "percentile"},
        {TDM_QUANT_OBSERVE_PERCENTILE, 99.0, "percentile --weights-percentile 99"},
        {TDM_QUANT_OBSERVE_KL, 0, "kl"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        safetensors_tensor tensor = make_weights(&rows[i]);
        test_checkpoint_write("in.safetensors", &tensor, 1);
        for (int o = 0; o < 3; o++) {
            if (o == 1 && i > 1) /* another share is another number */
                continue;
            test_quantize(0, NULL, NULL,
                          "in.safetensors out.safetensors --scheme %s %s --weights-observer %s",
                          rows[i].scheme, rows[i].options, observers[o].options);
            safetensors_file *const file = test_checkpoint_open("out.safetensors");
            quantized_weight weight = test_weight_read(file, "w");
            expect_observed(&rows[i], &tensor, &weight, observers[o].kind, observers[o].percent);
            quantized_weight_release(&weight);
            safetensors_close(file);
        }
        test_tensor_release(&tensor);
        test_checkpoint_remove("in.safetensors");
        test_checkpoint_remove("out.safetensors");
    }
}

/* ---- what is told ---- */

static void expect_told(const char *options, tdm_quant_observer_kind kind, double percent,
                        const char *text) {
    static const char key[] = "tandem.quant.w";
    quantize_layout layout;
    file_error error = {""};
    char *const json = test_quantize_output(
        "in.safetensors out.safetensors --scheme s8-channel --json - %s", options);
    cJSON *const report = cJSON_Parse(json);
    const cJSON *const named = cJSON_GetObjectItem(report, "weights_observer");
    const cJSON *const share = cJSON_GetObjectItem(report, "weights_percentile");
    assert_string_equal(cJSON_GetStringValue(named),
                        tdm_quant_observer_kind_name(kind ? kind : TDM_QUANT_OBSERVE_MINMAX));
    assert_true(percent > 0 ? cJSON_GetNumberValue(share) == percent : cJSON_IsNull(share));
    cJSON_Delete(report);
    free(json);
    safetensors_file *const file = test_checkpoint_open("out.safetensors");
    const char *const told = strstr(safetensors_metadata(file, key), "\"block\":[1,0]");
    assert_non_null(told);
    assert_string_equal(told + strlen("\"block\":[1,0]"), text);
    assert_int_equal(quantize_layout_find(file, "w", &layout, &error), 1);
    assert_int_equal(layout.observer, kind);
    assert_true(layout.percent == percent);
    safetensors_close(file);
    test_quantize(0, NULL, NULL, "out.safetensors back.safetensors --scheme f32");
    test_checkpoint_remove("back.safetensors");
}

/* In the report, and in the metadata where it is not the rule, which readers take. */
static void the_observer_is_told(void **state) {
    (void)state;
    safetensors_tensor tensor = test_tensor_make("w", SAFETENSORS_F32, 5, 40, 64, 0);
    test_checkpoint_write("in.safetensors", &tensor, 1);
    expect_told("", (tdm_quant_observer_kind)0, 0, "}");
    expect_told("--weights-observer minmax", (tdm_quant_observer_kind)0, 0, "}");
    expect_told("--weights-observer mse", TDM_QUANT_OBSERVE_MSE, 0, ",\"observer\":\"mse\"}");
    expect_told("--weights-observer kl", TDM_QUANT_OBSERVE_KL, 0, ",\"observer\":\"kl\"}");
    expect_told("--weights-observer percentile --weights-percentile 99.5",
                TDM_QUANT_OBSERVE_PERCENTILE, 99.5,
                ",\"observer\":\"percentile\",\"percentile\":99.5}");
    char *const json =
        test_quantize_output("in.safetensors out.safetensors --scheme q8_0 --json -");
    assert_non_null(strstr(json, "\"weights_observer\":\tnull"));
    free(json);
    test_tensor_release(&tensor);
    test_checkpoint_remove("in.safetensors");
    test_checkpoint_remove("out.safetensors");
}

int main(void) {
#define CASE(name)                                                                                 \
    cmocka_unit_test_setup_teardown(name, test_checkpoint_enter, test_checkpoint_leave)
    const struct CMUnitTest tests[] = {
        CASE(the_least_error_is_found),
        CASE(histograms_are_those_of_observers),
        CASE(the_observer_is_told),
    };
#undef CASE
    return cmocka_run_group_tests_name("quantize observers", tests, NULL, NULL);
}
