// ctest: threads
/* `tandem quantize`: what it writes for each scheme, which tensors it takes, calibration, the report. */
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

#include "bench/quantize_read.h"
#include "quant/number_formats.h"
#include "quant/observer.h"
#include "quant/quant_reference.h"
#include "tests/support/test_checkpoint.h"

/* ---- every scheme ---- */

typedef struct scheme_row {
    const char *scheme;
    const char *options;
    int64_t rows, columns;
    int64_t block[2];
    tdm_dtype dtype;
    tdm_quant_symmetry symmetry;
    tdm_quant_range range;
    tdm_dtype scales;
} scheme_row;

static const scheme_row scheme_rows[] = {
    {"s8-tensor", "", 48, 96, {0, 0}, TDM_S8, TDM_QUANT_SYMMETRIC, {-127, 127}, TDM_F32},
    {"s8-channel", "", 48, 96, {1, 0}, TDM_S8, TDM_QUANT_SYMMETRIC, {-127, 127}, TDM_F32},
    {"s8-channel", "--axis 1", 48, 96, {0, 1}, TDM_S8, TDM_QUANT_SYMMETRIC, {-127, 127}, TDM_F32},
    {"s8-group", "", 48, 96, {1, 32}, TDM_S8, TDM_QUANT_SYMMETRIC, {-127, 127}, TDM_F32},
    {"s8-group", "--group 64", 48, 96, {1, 64}, TDM_S8, TDM_QUANT_SYMMETRIC, {-127, 127}, TDM_F32},
    {"s8-group", "--axis 1", 96, 48, {32, 1}, TDM_S8, TDM_QUANT_SYMMETRIC, {-127, 127}, TDM_F32},
    {"s8-group", "--axis 1", 70, 33, {32, 1}, TDM_S8, TDM_QUANT_SYMMETRIC, {-127, 127}, TDM_F32},
    {"u8-tensor", "", 48, 97, {0, 0}, TDM_U8, TDM_QUANT_ASYMMETRIC, {0, 255}, TDM_F32},
    {"s4-channel", "", 37, 45, {1, 0}, TDM_S4, TDM_QUANT_SYMMETRIC, {-7, 7}, TDM_F32},
    {"s4-channel", "--axis 1", 37, 45, {0, 1}, TDM_S4, TDM_QUANT_SYMMETRIC, {-7, 7}, TDM_F32},
    {"s4-group", "--group 128", 8, 256, {1, 128}, TDM_S4, TDM_QUANT_SYMMETRIC, {-7, 7}, TDM_F32},
    {"s4-group", "", 31, 77, {1, 32}, TDM_S4, TDM_QUANT_SYMMETRIC, {-7, 7}, TDM_F32},
    {"s4-group", "--axis 1", 77, 31, {32, 1}, TDM_S4, TDM_QUANT_SYMMETRIC, {-7, 7}, TDM_F32},
    {"s4-group-zero", "", 48, 96, {1, 32}, TDM_S4, TDM_QUANT_ASYMMETRIC, {-8, 7}, TDM_F32},
    {"s4-group-zero",
     "--group 64 --axis 1",
     100,
     21,
     {64, 1},
     TDM_S4,
     TDM_QUANT_ASYMMETRIC,
     {-8, 7},
     TDM_F32},
    {"s8-tensor",
     "--scales bf16",
     48,
     96,
     {0, 0},
     TDM_S8,
     TDM_QUANT_SYMMETRIC,
     {-127, 127},
     TDM_BF16},
    {"s8-channel",
     "--scales bf16 --axis 1",
     48,
     33,
     {0, 1},
     TDM_S8,
     TDM_QUANT_SYMMETRIC,
     {-127, 127},
     TDM_BF16},
    {"s8-channel",
     "--scales f32",
     48,
     33,
     {1, 0},
     TDM_S8,
     TDM_QUANT_SYMMETRIC,
     {-127, 127},
     TDM_F32},
    {"u8-tensor", "--scales f16", 48, 97, {0, 0}, TDM_U8, TDM_QUANT_ASYMMETRIC, {0, 255}, TDM_F16},
    {"s4-group", "--scales f16", 31, 77, {1, 32}, TDM_S4, TDM_QUANT_SYMMETRIC, {-7, 7}, TDM_F16},
    {"s4-group-zero",
     "--scales bf16",
     701,
     1001,
     {1, 32},
     TDM_S4,
     TDM_QUANT_ASYMMETRIC,
     {-8, 7},
     TDM_BF16},
    {"s8-tensor-zero", "", 48, 97, {0, 0}, TDM_S8, TDM_QUANT_ASYMMETRIC, {-128, 127}, TDM_F32},
    {"s8-tensor-zero",
     "--scales bf16",
     2,
     550001,
     {0, 0},
     TDM_S8,
     TDM_QUANT_ASYMMETRIC,
     {-128, 127},
     TDM_BF16},
    {"s8-channel-zero", "", 48, 97, {1, 0}, TDM_S8, TDM_QUANT_ASYMMETRIC, {-128, 127}, TDM_F32},
    {"s8-channel-zero",
     "--axis 1 --scales f16",
     601,
     1001,
     {0, 1},
     TDM_S8,
     TDM_QUANT_ASYMMETRIC,
     {-128, 127},
     TDM_F16},
    {"u8-channel", "", 48, 97, {1, 0}, TDM_U8, TDM_QUANT_ASYMMETRIC, {0, 255}, TDM_F32},
    {"u8-channel", "", 2, 550001, {1, 0}, TDM_U8, TDM_QUANT_ASYMMETRIC, {0, 255}, TDM_F32},
    {"u8-channel", "--axis 1", 601, 1001, {0, 1}, TDM_U8, TDM_QUANT_ASYMMETRIC, {0, 255}, TDM_F32},
    {"u8-group", "", 31, 77, {1, 32}, TDM_U8, TDM_QUANT_ASYMMETRIC, {0, 255}, TDM_F32},
    {"u8-group",
     "--axis 1 --group 64 --scales bf16",
     100,
     21,
     {64, 1},
     TDM_U8,
     TDM_QUANT_ASYMMETRIC,
     {0, 255},
     TDM_BF16},
    {"s4-tensor", "", 37, 45, {0, 0}, TDM_S4, TDM_QUANT_SYMMETRIC, {-7, 7}, TDM_F32},
    {"s4-tensor", "--scales f16", 2, 550001, {0, 0}, TDM_S4, TDM_QUANT_SYMMETRIC, {-7, 7}, TDM_F16},
    /* more than one slab, and rows longer than one */
    {"s8-channel", "", 700, 1001, {1, 0}, TDM_S8, TDM_QUANT_SYMMETRIC, {-127, 127}, TDM_F32},
    {"s8-channel",
     "--axis 1",
     1001,
     700,
     {0, 1},
     TDM_S8,
     TDM_QUANT_SYMMETRIC,
     {-127, 127},
     TDM_F32},
    {"u8-tensor", "", 700, 1001, {0, 0}, TDM_U8, TDM_QUANT_ASYMMETRIC, {0, 255}, TDM_F32},
    {"s4-group", "", 701, 1001, {1, 32}, TDM_S4, TDM_QUANT_SYMMETRIC, {-7, 7}, TDM_F32},
    {"s4-channel", "", 3, 600001, {1, 0}, TDM_S4, TDM_QUANT_SYMMETRIC, {-7, 7}, TDM_F32},
    {"s4-group", "", 2, 700032, {1, 32}, TDM_S4, TDM_QUANT_SYMMETRIC, {-7, 7}, TDM_F32},
    {"u8-tensor", "", 2, 550001, {0, 0}, TDM_U8, TDM_QUANT_ASYMMETRIC, {0, 255}, TDM_F32},
    {"s4-group", "", 2, 700001, {1, 32}, TDM_S4, TDM_QUANT_SYMMETRIC, {-7, 7}, TDM_F32},
    {"s4-group-zero",
     "--scales f16",
     2,
     700002,
     {1, 32},
     TDM_S4,
     TDM_QUANT_ASYMMETRIC,
     {-8, 7},
     TDM_F16},
    {"s8-group",
     "--group 128",
     2,
     550001,
     {1, 128},
     TDM_S8,
     TDM_QUANT_SYMMETRIC,
     {-127, 127},
     TDM_F32},
    {"s8-channel",
     "--scales bf16",
     2,
     550001,
     {1, 0},
     TDM_S8,
     TDM_QUANT_SYMMETRIC,
     {-127, 127},
     TDM_BF16},
    {"s8-tensor", "", 2, 700032, {0, 0}, TDM_S8, TDM_QUANT_SYMMETRIC, {-127, 127}, TDM_F32},
    /* scales of columns whose rows do not fit a slab together */
    {"s8-group", "--axis 1", 40, 60001, {32, 1}, TDM_S8, TDM_QUANT_SYMMETRIC, {-127, 127}, TDM_F32},
    {"s8-group",
     "--axis 1 --group 128 --scales bf16",
     131,
     5000,
     {128, 1},
     TDM_S8,
     TDM_QUANT_SYMMETRIC,
     {-127, 127},
     TDM_BF16},
    {"s4-group", "--axis 1", 37, 60001, {32, 1}, TDM_S4, TDM_QUANT_SYMMETRIC, {-7, 7}, TDM_F32},
    {"s4-group-zero",
     "--axis 1 --group 128",
     131,
     5001,
     {128, 1},
     TDM_S4,
     TDM_QUANT_ASYMMETRIC,
     {-8, 7},
     TDM_F32},
    {"s4-group-zero",
     "--axis 1 --scales f16",
     1,
     600001,
     {32, 1},
     TDM_S4,
     TDM_QUANT_ASYMMETRIC,
     {-8, 7},
     TDM_F16},
    {"s8-channel",
     "--axis 1",
     3,
     600001,
     {0, 1},
     TDM_S8,
     TDM_QUANT_SYMMETRIC,
     {-127, 127},
     TDM_F32},
    {"s4-channel", "--axis 1", 3, 600001, {0, 1}, TDM_S4, TDM_QUANT_SYMMETRIC, {-7, 7}, TDM_F32},
    {"s4-channel", "--axis 1", 601, 1001, {0, 1}, TDM_S4, TDM_QUANT_SYMMETRIC, {-7, 7}, TDM_F32},
};

/* Codes, scales and zero points are those of the reference over the whole tensor, bit for bit. */
static void check_weight(const scheme_row *row, const safetensors_tensor *tensor,
                         const quantized_weight *weight) {
    const int64_t count = test_tensor_count(tensor);
    const tdm_quant_spec spec = {.rank = 2,
                                 .shape = {row->rows, row->columns},
                                 .blocks = {row->block[0], row->block[1]},
                                 .dtype = row->dtype,
                                 .range = row->range,
                                 .scale_dtype = row->scales};
    const int64_t scales = tdm_quant_scale_count(&spec);
    float *const expected_scales = calloc((size_t)scales, sizeof *expected_scales);
    int32_t *const expected_zeros = calloc((size_t)scales, sizeof *expected_zeros);
    unsigned char *const expected_codes = calloc((size_t)count + 1, 1);
    assert_true(expected_scales && expected_zeros && expected_codes);
    tdm_quant_dynamic_tensor(&spec, row->symmetry,
                             tensor->dtype == SAFETENSORS_F16    ? TDM_F16
                             : tensor->dtype == SAFETENSORS_BF16 ? TDM_BF16
                                                                 : TDM_F32,
                             tensor->data, expected_scales, expected_zeros, expected_codes);
    assert_int_equal(weight->scale_dtype, row->scales);
    assert_int_equal(weight->scale_bytes,
                     (size_t)(scales * tdm_dtype_info(weight->scale_dtype)->unit_bytes));
    for (int64_t i = 0; i < scales; i++)
        assert_true(test_weight_scale(weight, i) == expected_scales[i]);
    assert_int_equal(weight->code_bytes, row->dtype == TDM_S4 ? (count + 1) / 2 : count);
    assert_memory_equal(weight->codes, expected_codes, weight->code_bytes);
    for (int64_t i = 0; i < scales; i++)
        assert_int_equal(test_weight_zero_point(weight, i), expected_zeros[i]);
    free(expected_scales);
    free(expected_zeros);
    free(expected_codes);
}

static void every_scheme_reads_back(void **state) {
    (void)state;
    static const safetensors_dtype dtypes[] = {SAFETENSORS_F32, SAFETENSORS_F16, SAFETENSORS_BF16};
    for (size_t i = 0; i < sizeof scheme_rows / sizeof *scheme_rows; i++) {
        const scheme_row *const row = &scheme_rows[i];
        safetensors_tensor tensors[] = {
            test_tensor_make("layer.weight", dtypes[i % 3], 11 + i, row->rows, row->columns, 0),
            test_tensor_make("layer.bias", SAFETENSORS_F32, 12, row->rows, 0, 0)};
        test_checkpoint_write("in.safetensors", tensors, 2);
        test_quantize(0, row->scheme, NULL, "in.safetensors out.safetensors --scheme %s %s",
                      row->scheme, row->options);
        safetensors_file *const file = test_checkpoint_open("out.safetensors");
        quantized_weight weight = test_weight_read(file, "layer.weight");
        assert_string_equal(weight.scheme, row->scheme);
        assert_int_equal(weight.dtype, row->dtype);
        assert_int_equal(weight.rank, 2);
        assert_memory_equal(weight.block, row->block, sizeof row->block);
        check_weight(row, &tensors[0], &weight);
        test_weight_check(&tensors[0], &weight);
        quantized_weight_release(&weight);
        const safetensors_tensor *const bias = safetensors_find(file, "layer.bias");
        assert_memory_equal(bias->data, tensors[1].data, bias->bytes);
        assert_string_equal(safetensors_metadata(file, "note"), "keep me");
        for (size_t t = 0; t < safetensors_count(file); t++) {
            const safetensors_tensor *const each = safetensors_at(file, t);
            assert_int_equal((uintptr_t)each->data % safetensors_dtype_bytes(each->dtype), 0);
        }
        safetensors_close(file);
        test_tensor_release(&tensors[0]);
        test_tensor_release(&tensors[1]);
        test_checkpoint_remove("in.safetensors");
        test_checkpoint_remove("out.safetensors");
    }
}

/* A kernel of a convolution: a scale per output channel, groups over all the rest. */
static void convolutions_are_flattened(void **state) {
    (void)state;
    safetensors_tensor tensor = test_tensor_make("conv", SAFETENSORS_F32, 5, 16, 12, 9);
    quantized_weight weight;
    test_checkpoint_write("in.safetensors", &tensor, 1);
    test_quantize(0, NULL, NULL, "in.safetensors out.safetensors --scheme s8-channel");
    safetensors_file *file = test_checkpoint_open("out.safetensors");
    weight = test_weight_read(file, "conv");
    assert_int_equal(weight.rank, 3);
    assert_int_equal(weight.scale_bytes, 16 * sizeof(float));
    test_weight_check(&tensor, &weight);
    quantized_weight_release(&weight);
    safetensors_close(file);
    test_quantize(0, NULL, NULL, "in.safetensors out.safetensors --scheme s8-group");
    file = test_checkpoint_open("out.safetensors");
    weight = test_weight_read(file, "conv");
    assert_int_equal(weight.rank, 2);
    assert_int_equal(weight.shape[1], 108);
    assert_int_equal(weight.scale_bytes, 16 * 4 * sizeof(float));
    test_weight_check(&tensor, &weight);
    assert_non_null(
        strstr(safetensors_metadata(file, "tandem.quant.conv"), "\"original_shape\":[16,12,9]"));
    quantized_weight_release(&weight);
    safetensors_close(file);
    test_quantize(1, NULL, "no tensor of in.safetensors is one that s8-channel takes",
                  "in.safetensors out.safetensors --scheme s8-channel --axis 1");
    test_tensor_release(&tensor);
    test_checkpoint_remove("in.safetensors");
    test_checkpoint_remove("out.safetensors");
}

/* A channel of zeros has the scale 0, which readers take for zeros. */
static void a_channel_of_zeros_stays_zero(void **state) {
    (void)state;
    safetensors_tensor tensor = test_tensor_make("w", SAFETENSORS_F32, 6, 32, 64, 0);
    memset((float *)(uintptr_t)tensor.data + 64, 0, 64 * sizeof(float));
    test_checkpoint_write("in.safetensors", &tensor, 1);
    test_quantize(0, NULL, NULL, "in.safetensors out.safetensors --scheme s8-channel");
    safetensors_file *const file = test_checkpoint_open("out.safetensors");
    quantized_weight weight = test_weight_read(file, "w");
    assert_true(test_weight_scale(&weight, 1) == 0.0f);
    assert_true(test_weight_scale(&weight, 0) > 0.0f);
    test_weight_check(&tensor, &weight);
    quantized_weight_release(&weight);
    safetensors_close(file);
    test_tensor_release(&tensor);
    test_checkpoint_remove("in.safetensors");
    test_checkpoint_remove("out.safetensors");
}

/* The end of one and the beginning of the next are worked at together. */
static void long_channels_have_scales_of_their_own(void **state) {
    (void)state;
    safetensors_tensor tensor = test_tensor_make("w", SAFETENSORS_F32, 8, 2, 550001, 0);
    float *const values = (float *)(uintptr_t)tensor.data;
    values[550000] = -254.0f;
    values[550001] = 127.0f;
    test_checkpoint_write("in.safetensors", &tensor, 1);
    test_quantize(0, NULL, NULL, "in.safetensors out.safetensors --scheme s8-channel");
    safetensors_file *const file = test_checkpoint_open("out.safetensors");
    quantized_weight weight = test_weight_read(file, "w");
    assert_true(test_weight_scale(&weight, 0) == 2.0f);
    assert_true(test_weight_scale(&weight, 1) == 1.0f);
    quantized_weight_release(&weight);
    safetensors_close(file);
    test_tensor_release(&tensor);
    test_checkpoint_remove("in.safetensors");
    test_checkpoint_remove("out.safetensors");
}

static void floats_are_rounded_once_and_limited(void **state) {
    (void)state;
    safetensors_tensor tensor = test_tensor_make("w", SAFETENSORS_F32, 7, 32, 64, 0);
    float *const values = (float *)(uintptr_t)tensor.data;
    values[3] = 1e6f;
    values[4] = -65520.0f;
    values[5] = 65519.0f;
    test_checkpoint_write("in.safetensors", &tensor, 1);
    test_quantize(0, "2 numbers limited to the largest finite one", NULL,
                  "in.safetensors out.safetensors --scheme f16");
    safetensors_file *file = test_checkpoint_open("out.safetensors");
    const safetensors_tensor *half = safetensors_find(file, "w");
    assert_int_equal(half->dtype, SAFETENSORS_F16);
    assert_true(test_tensor_at(half, 3) == 65504.0f);
    assert_true(test_tensor_at(half, 4) == -65504.0f);
    for (int64_t i = 5; i < test_tensor_count(half); i++) {
        uint16_t bits;
        memcpy(&bits, (const char *)half->data + 2 * i, sizeof bits);
        assert_int_equal(bits, tdm_f16_from_f32(values[i]));
    }
    safetensors_close(file);
    test_quantize(0, NULL, NULL, "in.safetensors out.safetensors --scheme bf16");
    file = test_checkpoint_open("out.safetensors");
    assert_int_equal(safetensors_find(file, "w")->dtype, SAFETENSORS_BF16);
    assert_true(test_tensor_at(safetensors_find(file, "w"), 3) ==
                tdm_f32_from_bf16(tdm_bf16_from_f32(1e6f)));
    quantized_weight weight = test_weight_read(file, "w");
    assert_int_equal(weight.dtype, TDM_BF16);
    assert_int_equal(weight.scale_dtype, TDM_DTYPE_NONE);
    quantized_weight_release(&weight);
    safetensors_close(file);
    test_tensor_release(&tensor);
    test_checkpoint_remove("in.safetensors");
    test_checkpoint_remove("out.safetensors");
}

/* ---- which tensors ---- */

static void weights_are_chosen_by_rule_and_by_name(void **state) {
    (void)state;
    static const int64_t labels[8] = {1, 2, 3};
    safetensors_tensor tensors[] = {
        test_tensor_make("a.weight", SAFETENSORS_F32, 1, 32, 32, 0),
        test_tensor_make("b.weight", SAFETENSORS_F16, 2, 32, 31, 0), /* 992 elements */
        test_tensor_make("norm.weight", SAFETENSORS_F32, 3, 2048, 0, 0),
        test_tensor_make("lm_head.weight", SAFETENSORS_BF16, 4, 64, 32, 0),
        {.name = "labels",
         .dtype = SAFETENSORS_I64,
         .rank = 1,
         .shape = {8},
         .data = labels,
         .bytes = 64},
    };
    static const struct {
        const char *options;
        int codes[5]; /* whether each becomes codes */
    } rows[] = {
        {"", {1, 0, 0, 1, 0}},
        {"--skip head", {1, 0, 0, 0, 0}},
        {"--only ^[ab]\\.", {1, 1, 0, 0, 0}},
        {"--only weight$ --skip ^a", {0, 1, 0, 1, 0}},
        {"--only ^(b|labels|norm)", {0, 1, 0, 0, 0}},
    };
    test_checkpoint_write("in.safetensors", tensors, 5);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        test_quantize(0, NULL, NULL, "in.safetensors out.safetensors --scheme s8-channel %s",
                      rows[i].options);
        safetensors_file *const file = test_checkpoint_open("out.safetensors");
        for (int t = 0; t < 5; t++) {
            const safetensors_tensor *const tensor = safetensors_find(file, tensors[t].name);
            assert_int_equal(tensor->dtype, rows[i].codes[t] ? SAFETENSORS_I8 : tensors[t].dtype);
            if (!rows[i].codes[t])
                assert_memory_equal(tensor->data, tensors[t].data, tensors[t].bytes);
        }
        safetensors_close(file);
    }
    test_quantize(0, "no matrix", NULL,
                  "in.safetensors out.safetensors --scheme s8-channel --only norm|^b");
    test_quantize(0, "last dimension no multiple of 32", NULL,
                  "in.safetensors out.safetensors --scheme q8_0 --only ^[ab]");
    for (int t = 0; t < 4; t++)
        test_tensor_release(&tensors[t]);
    test_checkpoint_remove("in.safetensors");
    test_checkpoint_remove("out.safetensors");
}

/* ---- calibration ---- */

/* ||y' - y||² / ||y||² of every `step`th of the layer's outputs, by its definition, in double precision. */
static double output_nmse(const safetensors_tensor *weight, const safetensors_tensor *x,
                          const quantized_weight *quantized, int axis, int64_t step) {
    const int64_t inputs = weight->shape[1 - axis];
    const int64_t outputs = weight->shape[axis];
    const int64_t rows = test_tensor_count(x) / inputs;
    const double input_scale = (double)quantized->input.scale;
    double noise = 0;
    double signal = 0;
    for (int64_t m = 0; m < rows; m++)
        for (int64_t n = 0; n < outputs; n += step) {
            double exact = 0;
            double approximate = 0;
            for (int64_t k = 0; k < inputs; k++) {
                const int64_t at = axis == 0 ? n * inputs + k : k * outputs + n;
                const float a = test_tensor_at(x, m * inputs + k);
                const int32_t q = tdm_quant_quantize(a, quantized->input,
                                                     quantized->input_dtype == TDM_U8
                                                         ? (tdm_quant_range){0, 255}
                                                         : (tdm_quant_range){-128, 127});
                const int64_t scale = test_weight_scale_of(quantized, at);
                exact += (double)a * (double)test_tensor_at(weight, at);
                approximate += input_scale * (q - quantized->input.zero_point) *
                               (double)test_weight_scale(quantized, scale) *
                               (tdm_quant_get(quantized->dtype, quantized->codes, at) -
                                test_weight_zero_point(quantized, scale));
            }
            noise += (approximate - exact) * (approximate - exact);
            signal += exact * exact;
        }
    return noise / signal;
}

static double number_in(const char *json, const char *object, const char *key) {
    cJSON *const root = cJSON_Parse(json);
    const cJSON *item = cJSON_GetArrayItem(cJSON_GetObjectItem(root, "tensors"), 0);
    item = object ? cJSON_GetObjectItem(item, object) : item;
    const cJSON *const number = cJSON_GetObjectItem(item, key);
    const double value = cJSON_IsNumber(number) ? number->valuedouble : NAN;
    cJSON_Delete(root);
    return value;
}

/* Two batches; what an observer of quant/ says of both is what stands in the file. */
static void calibration_finds_the_inputs_scale(void **state) {
    (void)state;
    static const char *const observers[] = {"minmax", "moving-average", "percentile", "mse", "kl"};
    static const tdm_quant_scheme_id schemes[] = {TDM_QUANT_U8_ACTIVATION, TDM_QUANT_S8_ACTIVATION};
    for (int i = 0; i < 10; i++) {
        const int axis = i % 3 == 2;
        const int is_signed = i % 2;
        safetensors_tensor weight =
            test_tensor_make("fc.weight", SAFETENSORS_F32, 41, axis ? 48 : 40, axis ? 40 : 48, 0);
        /* More rows than are compared, once. */
        const int64_t rows = i == 1 ? 115 : 20;
        safetensors_tensor x[] = {test_tensor_make("fc.input.2", SAFETENSORS_F32, 42, rows, 48, 0),
                                  test_tensor_make("fc.input.10", SAFETENSORS_F16, 43, 3, 5, 48)};
        test_checkpoint_write("in.safetensors", &weight, 1);
        test_checkpoint_write("x.safetensors", x, 2);
        char *const json = test_quantize_output(
            "in.safetensors out.safetensors --scheme s8-channel --calibrate x.safetensors "
            "--observer %s --activations %s --axis %d --json -",
            observers[i / 2], is_signed ? "s8" : "u8", axis);
        const tdm_quant_observer_options options = {
            .kind = tdm_quant_observer_kind_from_name(observers[i / 2]), .channels = 1, .inner = 1};
        void *const memory = malloc(tdm_quant_observer_bytes(&options));
        tdm_quant_observer *observer;
        assert_int_equal(tdm_quant_observer_init(
                             &options, memory, tdm_quant_observer_bytes(&options), &observer, NULL),
                         TDM_OK);
        tdm_quant_observe(observer, TDM_F32, x[0].data, rows * 48, NULL);
        tdm_quant_observe(observer, TDM_F16, x[1].data, 15 * 48, NULL);
        const tdm_quant_parameters expected = tdm_quant_observer_parameters(
            observer, 0, TDM_QUANT_ASYMMETRIC, tdm_quant_scheme_info(schemes[is_signed])->range);
        safetensors_file *const file = test_checkpoint_open("out.safetensors");
        quantized_weight quantized = test_weight_read(file, "fc.weight");
        assert_int_equal(quantized.input_dtype, is_signed ? TDM_S8 : TDM_U8);
        assert_true(quantized.input.scale == expected.scale && expected.scale > 0);
        assert_int_equal(quantized.input.zero_point, expected.zero_point);
        if (i < 3) {
            const double nmse = number_in(json, "layer_output", "nmse");
            const int64_t total = rows + 15;
            const int64_t compared = total < 64 ? total : 64;
            safetensors_tensor both = test_tensor_make("x", SAFETENSORS_F32, 42, compared, 48, 0);
            for (int64_t e = 0; e < compared * 48; e++) {
                const int64_t from = e / 48 * total / compared * 48 + e % 48;
                ((float *)(uintptr_t)both.data)[e] = test_tensor_at(
                    &x[from >= rows * 48], from >= rows * 48 ? from - rows * 48 : from);
            }
            const double truth = output_nmse(&weight, &both, &quantized, axis, 1);
            if (!(fabs(nmse - truth) <= 1e-3 * truth))
                fail_msg("nmse %g of the output, not %g", nmse, truth);
            test_tensor_release(&both);
        }
        free(json);
        free(memory);
        quantized_weight_release(&quantized);
        safetensors_close(file);
        test_tensor_release(&weight);
        test_tensor_release(&x[0]);
        test_tensor_release(&x[1]);
        test_checkpoint_remove("in.safetensors");
        test_checkpoint_remove("x.safetensors");
        test_checkpoint_remove("out.safetensors");
    }
}

/* Of more outputs than there is room for every third is compared; of more inputs all are used. */
static void outputs_of_long_layers_are_compared(void **state) {
    (void)state;
    static const struct {
        const char *scheme;
        int axis;
        int64_t inputs, outputs, step;
    } rows[] = {
        {"s8-channel", 0, 3, 20000, 3},    {"s8-channel", 1, 3, 20000, 3},
        {"s8-tensor", 0, 3, 20000, 3},     {"s8-group", 1, 35, 20000, 3},
        {"s8-channel", 0, 16401, 3, 1},    {"s8-channel", 1, 16401, 3, 1},
        {"s4-group-zero", 0, 16384, 3, 1}, {"s4-group", 0, 16401, 4, 1},
        {"s8-channel", 0, 600001, 2, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const int64_t shape[] = {rows[i].outputs, rows[i].inputs};
        const int axis = rows[i].axis;
        char option[16] = "";
        safetensors_tensor weight =
            test_tensor_make("fc.weight", SAFETENSORS_F32, 41 + i, shape[axis], shape[1 - axis], 0);
        safetensors_tensor x = test_tensor_make("fc", SAFETENSORS_F32, 71, 3, rows[i].inputs, 0);
        if (axis == 1)
            snprintf(option, sizeof option, "--axis 1");
        test_checkpoint_write("in.safetensors", &weight, 1);
        test_checkpoint_write("x.safetensors", &x, 1);
        char *const json = test_quantize_output(
            "in.safetensors out.safetensors --scheme %s %s --calibrate x.safetensors --json -",
            rows[i].scheme, option);
        safetensors_file *const file = test_checkpoint_open("out.safetensors");
        quantized_weight quantized = test_weight_read(file, "fc.weight");
        const double nmse = number_in(json, "layer_output", "nmse");
        const double truth = output_nmse(&weight, &x, &quantized, axis, rows[i].step);
        if (!(fabs(nmse - truth) <= 1e-4 * truth))
            fail_msg("%s %s: nmse %g of the output, not %g", rows[i].scheme, option, nmse, truth);
        free(json);
        quantized_weight_release(&quantized);
        safetensors_close(file);
        test_tensor_release(&weight);
        test_tensor_release(&x);
    }
    test_checkpoint_remove("in.safetensors");
    test_checkpoint_remove("x.safetensors");
    test_checkpoint_remove("out.safetensors");
}

static void activations_that_fit_nothing_are_refused(void **state) {
    (void)state;
    safetensors_tensor weight = test_tensor_make("fc.weight", SAFETENSORS_F32, 41, 40, 48, 0);
    safetensors_tensor x = test_tensor_make("fd.input", SAFETENSORS_F32, 42, 20, 48, 0);
    static const char arguments[] =
        "in.safetensors out.safetensors --scheme s8-channel --calibrate x.safetensors";
    test_checkpoint_write("in.safetensors", &weight, 1);
    test_checkpoint_write("x.safetensors", &x, 1);
    test_quantize(1, NULL, "activations \"fd.input\" belong to no layer that is quantized", "%s",
                  arguments);
    x.name = "fc";
    ((float *)(uintptr_t)x.data)[7] = NAN;
    test_checkpoint_write("x.safetensors", &x, 1);
    test_quantize(1, NULL, "activations \"fc\" have 1 numbers that are not finite", "%s",
                  arguments);
    x.dtype = SAFETENSORS_I32;
    test_checkpoint_write("x.safetensors", &x, 1);
    test_quantize(1, NULL, "activations \"fc\" are of type I32, not F32", "%s", arguments);
    assert_int_equal(test_checkpoint_files(), 2);
    test_tensor_release(&weight);
    test_tensor_release(&x);
    test_checkpoint_remove("in.safetensors");
    test_checkpoint_remove("x.safetensors");
}

/* Rows of another width than the layer's inputs, and batches without a number; of a convolution any width is taken. */
static void activations_of_another_shape_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *options;
        int rank;
        int64_t shape[3];
        const char *sentence; /* NULL: they are taken */
    } rows[] = {
        {"", 2, {4, 47}, "activations \"fc\" have rows of 47, but layer \"fc\" has 48 inputs"},
        {"", 2, {48, 1}, "activations \"fc\" have rows of 1, but layer \"fc\" has 48 inputs"},
        {"--axis 1",
         2,
         {4, 48},
         "activations \"fc\" have rows of 48, but layer \"fc\" has 40 inputs"},
        {"", 0, {0}, "activations \"fc\" are a scalar, no rows of inputs of layer \"fc\""},
        {"", 2, {0, 48}, "the activations of layer \"fc\" hold no number"},
        {"", 3, {2, 0, 48}, "the activations of layer \"fc\" hold no number"},
        {"", 1, {48}, NULL},
        {"", 3, {2, 3, 48}, NULL},
        {"--axis 1", 2, {4, 40}, NULL},
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
            "in.safetensors out.safetensors --scheme s8-channel --calibrate x.safetensors %s",
            rows[i].options);
        assert_int_equal(test_checkpoint_files(), rows[i].sentence != NULL ? 2 : 3);
        if (rows[i].sentence == NULL)
            test_checkpoint_remove("out.safetensors");
        test_tensor_release(&x);
    }
    test_tensor_release(&weight);
    test_checkpoint_remove("in.safetensors");
    test_checkpoint_remove("x.safetensors");
}

/* Quantized without parameters of its input, and the report says so in both forms. */
static void a_layer_without_activations_is_noted(void **state) {
    (void)state;
    static const char note[] = "no activations: its input has no scale";
    safetensors_tensor weights[] = {test_tensor_make("fc.weight", SAFETENSORS_F32, 41, 40, 48, 0),
                                    test_tensor_make("fd.weight", SAFETENSORS_F32, 42, 40, 48, 0)};
    safetensors_tensor x = test_tensor_make("fd", SAFETENSORS_F32, 43, 4, 48, 0);
    test_checkpoint_write("in.safetensors", weights, 2);
    test_checkpoint_write("x.safetensors", &x, 1);
    for (int as_json = 0; as_json < 2; as_json++) {
        char *const text = test_quantize_output(
            "in.safetensors out.safetensors --scheme s8-channel --calibrate x.safetensors%s",
            as_json ? " --json -" : "");
        const char *const first = strstr(text, note);
        assert_non_null(first);
        assert_null(strstr(first + 1, note));
        assert_true(first > strstr(text, "fc.weight") && first < strstr(text, "fd.weight"));
        free(text);
    }
    test_tensor_release(&weights[0]);
    test_tensor_release(&weights[1]);
    test_tensor_release(&x);
    test_checkpoint_remove("in.safetensors");
    test_checkpoint_remove("x.safetensors");
    test_checkpoint_remove("out.safetensors");
}

/* ---- the report ---- */

static void the_report_has_the_measures(void **state) {
    (void)state;
    safetensors_tensor tensors[] = {test_tensor_make("w", SAFETENSORS_F32, 51, 64, 64, 0),
                                    test_tensor_make("b", SAFETENSORS_F32, 52, 64, 0, 0)};
    test_checkpoint_write("in.safetensors", tensors, 2);
    char *const json =
        test_quantize_output("in.safetensors out.safetensors --scheme s8-channel --json -");
    safetensors_file *const file = test_checkpoint_open("out.safetensors");
    quantized_weight weight = test_weight_read(file, "w");
    double signal = 0;
    double actual = 0;
    double product = 0;
    double noise = 0;
    double greatest = 0;
    for (int64_t i = 0; i < 64 * 64; i++) {
        const double x = (double)test_tensor_at(&tensors[0], i);
        const double y = (double)(test_weight_scale(&weight, i / 64) *
                                  (float)tdm_quant_get(TDM_S8, weight.codes, i));
        signal += x * x;
        actual += y * y;
        product += x * y;
        noise += (y - x) * (y - x);
        greatest = fmax(greatest, fabs(y - x));
    }
    assert_true(fabs(number_in(json, NULL, "sqnr_db") - 10 * log10(signal / noise)) < 1e-6);
    assert_true(fabs(number_in(json, NULL, "cosine") - product / sqrt(signal * actual)) < 1e-12);
    assert_true(fabs(number_in(json, NULL, "max_error") - greatest) < 1e-12);
    assert_true(number_in(json, NULL, "bytes_before") == 64 * 64 * 4);
    assert_true(number_in(json, NULL, "bytes_after") == 64 * 64 + 64 * 4);
    free(json);
    quantized_weight_release(&weight);
    safetensors_close(file);
    test_quantize(0, "1 tensors quantized, 1 copied", NULL,
                  "in.safetensors out.safetensors --scheme s8-channel --json r.json");
    size_t size;
    unsigned char *const text = test_file_read("r.json", &size);
    text[size] = '\0';
    assert_non_null(strstr((const char *)text, "\"tandem-quantize/1\""));
    free(text);
    test_tensor_release(&tensors[0]);
    test_tensor_release(&tensors[1]);
    test_checkpoint_remove("r.json");
    test_checkpoint_remove("in.safetensors");
    test_checkpoint_remove("out.safetensors");
}

int main(void) {
#define CASE(name)                                                                                 \
    cmocka_unit_test_setup_teardown(name, test_checkpoint_enter, test_checkpoint_leave)
    const struct CMUnitTest tests[] = {
        CASE(every_scheme_reads_back),
        CASE(convolutions_are_flattened),
        CASE(a_channel_of_zeros_stays_zero),
        CASE(long_channels_have_scales_of_their_own),
        CASE(floats_are_rounded_once_and_limited),
        CASE(weights_are_chosen_by_rule_and_by_name),
        CASE(calibration_finds_the_inputs_scale),
        CASE(outputs_of_long_layers_are_compared),
        CASE(activations_that_fit_nothing_are_refused),
        CASE(activations_of_another_shape_are_refused),
        CASE(a_layer_without_activations_is_noted),
        CASE(the_report_has_the_measures),
    };
#undef CASE
    return cmocka_run_group_tests_name("quantize command", tests, NULL, NULL);
}
