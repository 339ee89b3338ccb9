// ctest: threads
/* `tandem quantize`: what it writes for each scheme, which tensors it takes, GGUF both ways, calibration, the report. */
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

#include "bench/gguf.h"
#include "bench/quantize_read.h"
#include "quant/number_formats.h"
#include "quant/observer.h"
#include "quant/quant_blocks.h"
#include "quant/quant_reference.h"
#include "tests/support/test_checkpoint.h"
#include "tests/vectors/gguf_by_python.h"

/* ---- reading back ---- */

static quantized_weight read_weight(const safetensors_file *file, const char *name) {
    quantized_weight weight;
    file_error error = {""};
    if (quantized_weight_read(file, name, &weight, &error))
        fail_msg("%s: %s", name, error.text);
    return weight;
}

static float scale_at(const quantized_weight *weight, int64_t index) {
    return (float)tdm_number_get(weight->scale_dtype, weight->scales, (size_t)index);
}

static int32_t zero_point_at(const quantized_weight *weight, int64_t index) {
    if (weight->zero_point_dtype == TDM_DTYPE_NONE)
        return 0;
    return (int32_t)tdm_number_get(weight->zero_point_dtype, weight->zero_points, (size_t)index);
}

/* Position of the scale of an element, by the rule of quant.h, for a matrix or a vector of matrices. */
static int64_t scale_of(const quantized_weight *weight, int64_t element) {
    int64_t at[SAFETENSORS_MAX_RANK];
    int64_t position = 0;
    for (int i = weight->rank - 1; i >= 0; i--) {
        at[i] = element % weight->shape[i];
        element /= weight->shape[i];
    }
    for (int i = 0; i < weight->rank; i++) {
        const int64_t block = weight->block[i] == 0 ? weight->shape[i] : weight->block[i];
        position = position * ((weight->shape[i] + block - 1) / block) + at[i] / block;
    }
    return position;
}

/* ---- every scheme ---- */

typedef struct scheme_row {
    const char *scheme;
    const char *options;
    int64_t rows, columns;
    int64_t block[2];
    tdm_dtype dtype;
    tdm_quant_symmetry symmetry;
    tdm_quant_range range;
} scheme_row;

static const scheme_row scheme_rows[] = {
    {"s8-tensor", "", 48, 96, {0, 0}, TDM_S8, TDM_QUANT_SYMMETRIC, {-127, 127}},
    {"s8-channel", "", 48, 96, {1, 0}, TDM_S8, TDM_QUANT_SYMMETRIC, {-127, 127}},
    {"s8-channel", "--axis 1", 48, 96, {0, 1}, TDM_S8, TDM_QUANT_SYMMETRIC, {-127, 127}},
    {"s8-group", "", 48, 96, {1, 32}, TDM_S8, TDM_QUANT_SYMMETRIC, {-127, 127}},
    {"s8-group", "--group 64", 48, 96, {1, 64}, TDM_S8, TDM_QUANT_SYMMETRIC, {-127, 127}},
    {"s8-group", "--axis 1", 96, 48, {32, 1}, TDM_S8, TDM_QUANT_SYMMETRIC, {-127, 127}},
    {"s8-group", "--axis 1", 70, 33, {32, 1}, TDM_S8, TDM_QUANT_SYMMETRIC, {-127, 127}},
    {"u8-tensor", "", 48, 97, {0, 0}, TDM_U8, TDM_QUANT_ASYMMETRIC, {0, 255}},
    {"s4-channel", "", 37, 45, {1, 0}, TDM_S4, TDM_QUANT_SYMMETRIC, {-7, 7}},
    {"s4-channel", "--axis 1", 37, 45, {0, 1}, TDM_S4, TDM_QUANT_SYMMETRIC, {-7, 7}},
    {"s4-group", "--group 128", 8, 256, {1, 128}, TDM_S4, TDM_QUANT_SYMMETRIC, {-7, 7}},
    {"s4-group", "", 31, 77, {1, 32}, TDM_S4, TDM_QUANT_SYMMETRIC, {-7, 7}},
    {"s4-group", "--axis 1", 77, 31, {32, 1}, TDM_S4, TDM_QUANT_SYMMETRIC, {-7, 7}},
    {"s4-group-zero", "", 48, 96, {1, 32}, TDM_S4, TDM_QUANT_ASYMMETRIC, {-8, 7}},
    {"s4-group-zero",
     "--group 64 --axis 1",
     100,
     21,
     {64, 1},
     TDM_S4,
     TDM_QUANT_ASYMMETRIC,
     {-8, 7}},
    /* more than one slab, and rows longer than one */
    {"s8-channel", "", 700, 1001, {1, 0}, TDM_S8, TDM_QUANT_SYMMETRIC, {-127, 127}},
    {"s8-channel", "--axis 1", 1001, 700, {0, 1}, TDM_S8, TDM_QUANT_SYMMETRIC, {-127, 127}},
    {"u8-tensor", "", 700, 1001, {0, 0}, TDM_U8, TDM_QUANT_ASYMMETRIC, {0, 255}},
    {"s4-group", "", 701, 1001, {1, 32}, TDM_S4, TDM_QUANT_SYMMETRIC, {-7, 7}},
    {"s4-channel", "", 2, 700001, {1, 0}, TDM_S4, TDM_QUANT_SYMMETRIC, {-7, 7}},
    {"s4-group", "", 2, 700032, {1, 32}, TDM_S4, TDM_QUANT_SYMMETRIC, {-7, 7}},
    {"s8-tensor", "", 2, 700032, {0, 0}, TDM_S8, TDM_QUANT_SYMMETRIC, {-127, 127}},
};

/* Codes, scales and zero points are those of the reference over the whole tensor, bit for bit. */
static void check_weight(const scheme_row *row, const safetensors_tensor *tensor,
                         const quantized_weight *weight) {
    const int64_t count = test_tensor_count(tensor);
    const tdm_quant_spec spec = {.rank = 2,
                                 .shape = {row->rows, row->columns},
                                 .blocks = {row->block[0], row->block[1]},
                                 .dtype = row->dtype,
                                 .range = row->range};
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
    assert_int_equal(weight->scale_bytes, (size_t)scales * sizeof *expected_scales);
    assert_memory_equal(weight->scales, expected_scales, weight->scale_bytes);
    assert_int_equal(weight->code_bytes, row->dtype == TDM_S4 ? (count + 1) / 2 : count);
    assert_memory_equal(weight->codes, expected_codes, weight->code_bytes);
    for (int64_t i = 0; i < scales; i++)
        assert_int_equal(zero_point_at(weight, i), expected_zeros[i]);
    free(expected_scales);
    free(expected_zeros);
    free(expected_codes);
}

/* Without the reference: what comes back lies within half a step of what went in. */
static void check_error(const safetensors_tensor *tensor, const quantized_weight *weight) {
    for (int64_t i = 0; i < test_tensor_count(tensor); i++) {
        const int64_t at = scale_of(weight, i);
        const double scale = (double)scale_at(weight, at);
        const double x = (double)test_tensor_at(tensor, i);
        const int32_t code = tdm_quant_get(weight->dtype, weight->codes, i);
        const double y = scale * (code - zero_point_at(weight, at));
        if (!(fabs(x - y) <= 0.5001 * scale + (weight->zero_point_dtype ? 0.5 * scale : 0)))
            fail_msg("element %lld: %g became %g, scale %g", (long long)i, x, y, scale);
    }
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
        quantized_weight weight = read_weight(file, "layer.weight");
        assert_string_equal(weight.scheme, row->scheme);
        assert_int_equal(weight.dtype, row->dtype);
        assert_int_equal(weight.rank, 2);
        assert_memory_equal(weight.block, row->block, sizeof row->block);
        check_weight(row, &tensors[0], &weight);
        check_error(&tensors[0], &weight);
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
    weight = read_weight(file, "conv");
    assert_int_equal(weight.rank, 3);
    assert_int_equal(weight.scale_bytes, 16 * sizeof(float));
    check_error(&tensor, &weight);
    quantized_weight_release(&weight);
    safetensors_close(file);
    test_quantize(0, NULL, NULL, "in.safetensors out.safetensors --scheme s8-group");
    file = test_checkpoint_open("out.safetensors");
    weight = read_weight(file, "conv");
    assert_int_equal(weight.rank, 2);
    assert_int_equal(weight.shape[1], 108);
    assert_int_equal(weight.scale_bytes, 16 * 4 * sizeof(float));
    check_error(&tensor, &weight);
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
    quantized_weight weight = read_weight(file, "w");
    assert_true(scale_at(&weight, 1) == 0.0f);
    assert_true(scale_at(&weight, 0) > 0.0f);
    check_error(&tensor, &weight);
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
    quantized_weight weight = read_weight(file, "w");
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

/* ---- blocks and GGUF ---- */

static void check_blocks(const safetensors_tensor *tensor, int q8_0, const void *encoded,
                         size_t bytes) {
    const int64_t count = test_tensor_count(tensor);
    const size_t blocks = (size_t)count / 32;
    float *const values = malloc((size_t)count * sizeof *values);
    unsigned char *const expected = malloc(blocks * 34);
    assert_true(values && expected);
    for (int64_t i = 0; i < count; i++)
        values[i] = test_tensor_at(tensor, i);
    if (q8_0)
        tdm_quant_q8_0_encode(values, blocks, expected);
    else
        tdm_quant_q4_0_encode(values, blocks, expected);
    assert_int_equal(bytes, blocks * (q8_0 ? 34 : 18));
    assert_memory_equal(encoded, expected, bytes);
    free(values);
    free(expected);
}

static void blocks_pass_between_the_containers(void **state) {
    (void)state;
    for (int q8_0 = 0; q8_0 < 2; q8_0++) {
        const char *const scheme = q8_0 ? "q8_0" : "q4_0";
        safetensors_tensor tensors[] = {
            test_tensor_make("blk.0.weight", SAFETENSORS_F16, 21, 24, 96, 0),
            test_tensor_make("experts", SAFETENSORS_F32, 22, 3, 20, 32),
            test_tensor_make("norm", SAFETENSORS_F32, 23, 7, 0, 0)};
        test_checkpoint_write("in.safetensors", tensors, 3);
        test_quantize(0, scheme, NULL, "in.safetensors direct.safetensors --scheme %s", scheme);
        test_quantize(0, scheme, NULL, "in.safetensors a.gguf --scheme %s", scheme);
        test_quantize(0, "0 tensors quantized, 3 copied", NULL,
                      "a.gguf back.safetensors --scheme keep");
        test_quantize(0, NULL, NULL, "back.safetensors b.gguf --scheme keep");
        gguf_file *first = NULL;
        gguf_file *second = NULL;
        file_error error = {""};
        assert_int_equal(gguf_open("a.gguf", &first, &error), 0);
        assert_int_equal(gguf_open("b.gguf", &second, &error), 0);
        safetensors_file *const direct = test_checkpoint_open("direct.safetensors");
        safetensors_file *const back = test_checkpoint_open("back.safetensors");
        for (int t = 0; t < 2; t++) {
            const gguf_tensor *const blocks = gguf_find(first, tensors[t].name);
            assert_int_equal(blocks->type, q8_0 ? GGUF_Q8_0 : GGUF_Q4_0);
            assert_int_equal(blocks->rank, tensors[t].rank);
            assert_int_equal(blocks->shape[0], tensors[t].shape[0]);
            check_blocks(&tensors[t], q8_0, blocks->data, blocks->bytes);
            assert_memory_equal(gguf_find(second, tensors[t].name)->data, blocks->data,
                                blocks->bytes);
            assert_memory_equal(safetensors_find(back, tensors[t].name)->data, blocks->data,
                                blocks->bytes);
            quantized_weight weight = read_weight(back, tensors[t].name);
            quantized_weight other = read_weight(direct, tensors[t].name);
            assert_string_equal(weight.scheme, scheme);
            assert_int_equal(weight.rank, tensors[t].rank);
            assert_int_equal(weight.block[weight.rank - 1], 32);
            assert_memory_equal(weight.codes, other.codes, weight.code_bytes);
            assert_memory_equal(weight.scales, other.scales, weight.scale_bytes);
            for (int64_t i = 0; i < test_tensor_count(&tensors[t]); i++) {
                const double scale = (double)scale_at(&weight, scale_of(&weight, i));
                const double y = scale * tdm_quant_get(weight.dtype, weight.codes, i);
                const double difference = fabs(y - (double)test_tensor_at(&tensors[t], i));
                /* q4_0 cuts off up to a whole step at the end away from the extreme. */
                assert_true(difference <= fabs(scale) * (q8_0 ? 0.56 : 1.01));
            }
            quantized_weight_release(&weight);
            quantized_weight_release(&other);
        }
        assert_memory_equal(gguf_find(second, "norm")->data, tensors[2].data, 28);
        assert_memory_equal((const char *)gguf_value_find(first, "general.architecture")->data + 8,
                            "test", 4);
        assert_non_null(gguf_value_find(first, "safetensors.note"));
        assert_non_null(gguf_value_find(first, "general.quantization_version"));
        const uint32_t type = q8_0 ? 7 : 2;
        assert_memory_equal(gguf_value_find(first, "general.file_type")->data, &type, 4);
        assert_string_equal(safetensors_metadata(back, "note"), "keep me");
        assert_string_equal(safetensors_metadata(back, "gguf.general.name"), "string a");
        gguf_close(first);
        gguf_close(second);
        safetensors_close(direct);
        safetensors_close(back);
        static const char *const files[] = {"in.safetensors", "direct.safetensors", "a.gguf",
                                            "back.safetensors", "b.gguf"};
        for (int i = 0; i < 5; i++)
            test_checkpoint_remove(files[i]);
        for (int i = 0; i < 3; i++)
            test_tensor_release(&tensors[i]);
    }
}

/* The blocks of another program, byte for byte. */
static void blocks_are_those_of_python(void **state) {
    (void)state;
    test_file_write("python.gguf", gguf_by_python, sizeof gguf_by_python);
    for (int q8_0 = 0; q8_0 < 2; q8_0++) {
        const char *const scheme = q8_0 ? "q8_0" : "q4_0";
        gguf_file *expected = NULL;
        gguf_file *file = NULL;
        file_error error = {""};
        test_quantize(0, scheme, NULL, "python.gguf own.gguf --scheme %s --only plain", scheme);
        assert_int_equal(gguf_open("python.gguf", &expected, &error), 0);
        assert_int_equal(gguf_open("own.gguf", &file, &error), 0);
        const gguf_tensor *const blocks = gguf_find(file, "plain");
        const gguf_tensor *const wanted = gguf_find(expected, scheme);
        assert_int_equal(blocks->type, wanted->type);
        assert_int_equal(blocks->bytes, wanted->bytes);
        assert_memory_equal(blocks->data, wanted->data, wanted->bytes);
        gguf_close(expected);
        gguf_close(file);
    }
    test_checkpoint_remove("python.gguf");
    test_checkpoint_remove("own.gguf");
}

/* Values of every type come back through a safetensors file; arrays do not, nor the alignment, which is the writer's. */
static void values_of_gguf_survive_a_safetensors_file(void **state) {
    (void)state;
    static const uint32_t alignment = 64;
    static const signed char small = -5;
    static const int64_t wide = INT64_MIN;
    static const float narrow = 0.1f;
    static const double precise = 0.1;
    static const unsigned char flag = 1;
    static const unsigned char list[4 + 8 + 2] = {GGUF_VALUE_U8, 0, 0, 0, 2};
    static const unsigned char text[8 + 4] = {4, 0, 0, 0, 0, 0, 0, 0, 'n', '\n', '"', 'x'};
    static const gguf_value values[] = {
        {"general.alignment", GGUF_VALUE_U32, &alignment, 4},
        {"i8", GGUF_VALUE_I8, &small, 1},
        {"i64", GGUF_VALUE_I64, &wide, 8},
        {"f32", GGUF_VALUE_F32, &narrow, 4},
        {"f64", GGUF_VALUE_F64, &precise, 8},
        {"flag", GGUF_VALUE_BOOL, &flag, 1},
        {"text", GGUF_VALUE_STRING, text, sizeof text},
        {"list", GGUF_VALUE_ARRAY, list, sizeof list},
    };
    enum {
        VALUES = sizeof values / sizeof *values
    };
    safetensors_tensor w = test_tensor_make("w", SAFETENSORS_F32, 61, 5, 13, 0);
    const gguf_tensor tensors[] = {
        {.name = "w", .type = GGUF_F32, .rank = 2, .shape = {5, 13}, .bytes = w.bytes},
        {.name = "v", .type = GGUF_F32, .rank = 2, .shape = {5, 13}, .bytes = w.bytes}};
    gguf_writer *writer = NULL;
    file_error error = {""};
    if (gguf_writer_open("a.gguf", tensors, 2, values, VALUES, 64, &writer, &error) ||
        gguf_writer_put(writer, 0, 0, w.data, w.bytes, &error) ||
        gguf_writer_put(writer, 1, 0, w.data, w.bytes, &error) ||
        gguf_writer_finish(writer, &error))
        fail_msg("%s", error.text);
    test_quantize(0, "and were left out: 1\n", NULL, "a.gguf b.safetensors --scheme keep");
    test_quantize(0, NULL, NULL, "b.safetensors b.gguf --scheme keep");
    test_quantize(0, NULL, NULL, "a.gguf c.gguf --scheme f16 --only w");
    for (int direct = 0; direct < 2; direct++) {
        gguf_file *file = NULL;
        if (gguf_open(direct ? "c.gguf" : "b.gguf", &file, &error))
            fail_msg("%s", error.text);
        assert_int_equal(gguf_alignment(file), direct ? 64 : 32);
        for (int i = 1; i < VALUES - !direct; i++) {
            const gguf_value *const value = gguf_value_find(file, values[i].key);
            assert_non_null(value);
            assert_int_equal(value->type, values[i].type);
            assert_int_equal(value->bytes, values[i].bytes);
            assert_memory_equal(value->data, values[i].data, value->bytes);
        }
        assert_memory_equal(gguf_find(file, "v")->data, w.data, w.bytes);
        assert_int_equal(gguf_find(file, "w")->type, direct ? GGUF_F16 : GGUF_F32);
        gguf_close(file);
    }
    static const char *const files[] = {"a.gguf", "b.safetensors", "b.gguf", "c.gguf"};
    for (int i = 0; i < 4; i++)
        test_checkpoint_remove(files[i]);
    test_tensor_release(&w);
}

/* From blocks to floats, and from blocks to other codes. */
static void blocks_are_taken_apart_again(void **state) {
    (void)state;
    safetensors_tensor tensor = test_tensor_make("w", SAFETENSORS_F32, 31, 48, 64, 0);
    test_checkpoint_write("in.safetensors", &tensor, 1);
    test_quantize(0, NULL, NULL, "in.safetensors a.gguf --scheme q8_0");
    test_quantize(0, "exact", NULL, "a.gguf f.safetensors --scheme f32");
    test_quantize(0, NULL, NULL, "a.gguf c.safetensors --scheme s8-channel");
    safetensors_file *const floats = test_checkpoint_open("f.safetensors");
    safetensors_file *const codes = test_checkpoint_open("c.safetensors");
    const safetensors_tensor *const wide = safetensors_find(floats, "w");
    gguf_file *blocks = NULL;
    file_error error = {""};
    float expected[48 * 64];
    assert_int_equal(gguf_open("a.gguf", &blocks, &error), 0);
    tdm_quant_q8_0_decode(gguf_find(blocks, "w")->data, 48 * 64 / 32, expected);
    assert_int_equal(wide->dtype, SAFETENSORS_F32);
    assert_memory_equal(wide->data, expected, sizeof expected);
    quantized_weight weight = read_weight(codes, "w");
    check_error(wide, &weight);
    quantized_weight_release(&weight);
    gguf_close(blocks);
    safetensors_close(floats);
    safetensors_close(codes);
    test_quantize(1, NULL, "is one that q8_0 takes; \"w\": already in these blocks",
                  "a.gguf d.gguf --scheme q8_0");
    test_tensor_release(&tensor);
    static const char *const files[] = {"in.safetensors", "a.gguf", "f.safetensors",
                                        "c.safetensors"};
    for (int i = 0; i < 4; i++)
        test_checkpoint_remove(files[i]);
}

/* ---- calibration ---- */

/* ||y' - y||² / ||y||² of the layer's output, by its definition, in double precision. */
static double output_nmse(const safetensors_tensor *weight, const safetensors_tensor *x,
                          const quantized_weight *quantized, int axis) {
    const int64_t inputs = weight->shape[1 - axis];
    const int64_t outputs = weight->shape[axis];
    const int64_t rows = test_tensor_count(x) / inputs;
    const double input_scale = (double)quantized->input.scale;
    double noise = 0;
    double signal = 0;
    for (int64_t m = 0; m < rows; m++)
        for (int64_t n = 0; n < outputs; n++) {
            double exact = 0;
            double approximate = 0;
            for (int64_t k = 0; k < inputs; k++) {
                const int64_t at = axis == 0 ? n * inputs + k : k * outputs + n;
                const float a = test_tensor_at(x, m * inputs + k);
                const int32_t q = tdm_quant_quantize(a, quantized->input,
                                                     quantized->input_dtype == TDM_U8
                                                         ? (tdm_quant_range){0, 255}
                                                         : (tdm_quant_range){-128, 127});
                const int64_t scale = scale_of(quantized, at);
                exact += (double)a * (double)test_tensor_at(weight, at);
                approximate += input_scale * (q - quantized->input.zero_point) *
                               (double)scale_at(quantized, scale) *
                               tdm_quant_get(quantized->dtype, quantized->codes, at);
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
        quantized_weight quantized = read_weight(file, "fc.weight");
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
            const double truth = output_nmse(&weight, &both, &quantized, axis);
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
    test_tensor_release(&weight);
    test_tensor_release(&x);
    test_checkpoint_remove("in.safetensors");
    test_checkpoint_remove("x.safetensors");
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
    quantized_weight weight = read_weight(file, "w");
    double signal = 0;
    double actual = 0;
    double product = 0;
    double noise = 0;
    double greatest = 0;
    for (int64_t i = 0; i < 64 * 64; i++) {
        const double x = (double)test_tensor_at(&tensors[0], i);
        const double y =
            (double)(scale_at(&weight, i / 64) * (float)tdm_quant_get(TDM_S8, weight.codes, i));
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
        CASE(floats_are_rounded_once_and_limited),
        CASE(weights_are_chosen_by_rule_and_by_name),
        CASE(blocks_pass_between_the_containers),
        CASE(blocks_are_those_of_python),
        CASE(values_of_gguf_survive_a_safetensors_file),
        CASE(blocks_are_taken_apart_again),
        CASE(calibration_finds_the_inputs_scale),
        CASE(activations_that_fit_nothing_are_refused),
        CASE(the_report_has_the_measures),
    };
#undef CASE
    return cmocka_run_group_tests_name("quantize command", tests, NULL, NULL);
}
