// ctest: threads
/* Tests `tandem quantize` on its own output: quantized values and blocks are dequantized. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/gguf.h"
#include "quant/number_formats.h"
#include "tests/support/quant/test_checkpoint.h"
#include "tests/support/test_case.h"
#include "tests/support/test_model.h"

/* ---- dequantized values ---- */

static int code_at(const quantized_weight *weight, int64_t i) {
    const unsigned char *const bytes = weight->codes;
    if (weight->dtype == TDM_U8)
        return bytes[i];
    if (weight->dtype == TDM_S8)
        return (signed char)bytes[i];
    const int nibble = (i % 2 == 0 ? bytes[i / 2] : bytes[i / 2] >> 4) & 15;
    return nibble < 8 ? nibble : nibble - 16;
}

/* Dequantizes by the formula of the file's layout. */
static float number_at(const quantized_weight *weight, int64_t i) {
    const int64_t scale = test_weight_scale_of(weight, i);
    return test_weight_scale(weight, scale) *
           (float)(code_at(weight, i) - test_weight_zero_point(weight, scale));
}

static void check_numbers(const char *path, const quantized_weight *weight,
                          const safetensors_tensor *original, safetensors_dtype dtype) {
    safetensors_file *const file = test_checkpoint_open(path);
    const safetensors_tensor *const numbers = safetensors_find(file, original->name);
    assert_non_null(numbers);
    assert_int_equal(safetensors_count(file), 2);
    assert_null(safetensors_metadata(file, "tandem.quant.layer.weight"));
    assert_string_equal(safetensors_metadata(file, "note"), "keep me");
    assert_int_equal(numbers->dtype, dtype);
    assert_int_equal(numbers->rank, original->rank);
    assert_memory_equal(numbers->shape, original->shape,
                        (size_t)original->rank * sizeof *original->shape);
    for (int64_t i = 0; i < test_tensor_count(numbers); i++) {
        const float expected = number_at(weight, i);
        const float kept = dtype == SAFETENSORS_F16 ? tdm_f32_from_f16(tdm_f16_from_f32(expected))
                           : dtype == SAFETENSORS_BF16
                               ? tdm_f32_from_bf16(tdm_bf16_from_f32(expected))
                               : expected;
        if (test_tensor_at(numbers, i) != kept)
            fail_msg("element %lld is %a, not %a", (long long)i, (double)test_tensor_at(numbers, i),
                     (double)kept);
    }
}

TEST_WITH(codes_become_the_numbers_they_stand_for, test_checkpoint_enter, test_checkpoint_leave) {
    static const struct {
        const char *scheme;
        int64_t shape[3];
    } rows[] = {
        {"s8-channel", {48, 97, 0}},       {"s8-group", {31, 77, 0}},
        {"u8-tensor", {48, 97, 0}},        {"s8-group-zero --group 64", {31, 77, 0}},
        {"u8-channel", {16, 12, 9}},       {"s4-channel", {37, 45, 0}},
        {"s4-tensor-zero", {37, 45, 0}},   {"s4-group --group 64", {16, 13, 9}},
        {"s4-group-zero", {701, 1001, 0}}, /* more than one slab */
    };
    static const char *const back[] = {"f32", "f16", "bf16"};
    static const safetensors_dtype dtypes[] = {SAFETENSORS_F32, SAFETENSORS_F16, SAFETENSORS_BF16};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        safetensors_tensor tensors[] = {
            test_tensor_make("layer.weight", SAFETENSORS_F32, 31 + i, rows[i].shape[0],
                             rows[i].shape[1], rows[i].shape[2]),
            test_tensor_make("layer.bias", SAFETENSORS_F32, 12, 8, 0, 0)};
        test_checkpoint_write("in.safetensors", tensors, 2);
        test_quantize(0, NULL, NULL, "in.safetensors codes.safetensors --scheme %s",
                      rows[i].scheme);
        safetensors_file *const file = test_checkpoint_open("codes.safetensors");
        quantized_weight weight = test_weight_read(file, "layer.weight");
        for (int b = 0; b < 3; b++) {
            test_quantize(0, weight.scheme, NULL, "codes.safetensors out.safetensors --scheme %s",
                          back[b]);
            check_numbers("out.safetensors", &weight, &tensors[0], dtypes[b]);
        }
    }
}

/*
 * Only metadata tells blocks from other bytes in a safetensors file. It must be removed when the
 * blocks are dequantized.
 */
TEST_WITH(blocks_become_numbers_that_can_be_read, test_checkpoint_enter, test_checkpoint_leave) {
    static const char *const schemes[] = {"q8_0", "q4_0"};
    safetensors_tensor tensor = test_tensor_make("w", SAFETENSORS_F32, 3, 32, 64, 0);
    test_checkpoint_write("in.safetensors", &tensor, 1);
    for (int i = 0; i < 2; i++) {
        test_quantize(0, NULL, NULL, "in.safetensors blocks.safetensors --scheme %s", schemes[i]);
        test_quantize(0, "exact", NULL, "blocks.safetensors out.safetensors --scheme f32");
        test_quantize(0, NULL, NULL, "out.safetensors again.safetensors --scheme %s", schemes[i]);
        safetensors_file *const first = test_checkpoint_open("blocks.safetensors");
        safetensors_file *const again = test_checkpoint_open("again.safetensors");
        safetensors_file *const numbers = test_checkpoint_open("out.safetensors");
        assert_null(safetensors_metadata(numbers, "tandem.quant.w"));
        const safetensors_tensor *const blocks = safetensors_find(again, "w");
        assert_memory_equal(safetensors_find(first, "w")->data, blocks->data, blocks->bytes);
    }
}

TEST_WITH(a_gguf_file_takes_the_numbers, test_checkpoint_enter, test_checkpoint_leave) {
    gguf_file *file = NULL;
    file_error error;
    safetensors_tensor tensor = test_tensor_make("w", SAFETENSORS_F32, 4, 32, 64, 0);
    test_checkpoint_write("in.safetensors", &tensor, 1);
    test_quantize(0, NULL, NULL, "in.safetensors codes.safetensors --scheme s4-group-zero");
    test_quantize(1, NULL, "U8, which GGUF does not have",
                  "codes.safetensors out.gguf --scheme keep");
    test_quantize(0, "exact", NULL, "codes.safetensors out.gguf --scheme f32");
    assert_int_equal(gguf_open("out.gguf", &file, &error), 0);
    assert_int_equal(gguf_count(file), 1);
    assert_int_equal(gguf_at(file, 0)->type, GGUF_F32);
    safetensors_file *const codes = test_checkpoint_open("codes.safetensors");
    quantized_weight weight = test_weight_read(codes, "w");
    for (int64_t i = 0; i < test_tensor_count(&tensor); i++) {
        float number;
        memcpy(&number, (const char *)gguf_at(file, 0)->data + 4 * i, sizeof number);
        assert_true(number == number_at(&weight, i));
    }
    gguf_close(file);
}

/* ---- choice of tensors ---- */

static void expect_same(const safetensors_file *left, const safetensors_file *right,
                        const char *name) {
    const safetensors_tensor *const a = safetensors_find(left, name);
    const safetensors_tensor *const b = safetensors_find(right, name);
    assert_non_null(a);
    assert_non_null(b);
    assert_int_equal(a->dtype, b->dtype);
    assert_int_equal(a->bytes, b->bytes);
    assert_memory_equal(a->data, b->data, a->bytes);
}

/*
 * The scales are as large as weights. They stay with the remaining quantized values in every
 * scheme.
 */
TEST_WITH(parameters_stay_with_their_codes, test_checkpoint_enter, test_checkpoint_leave) {
    safetensors_tensor tensors[] = {test_tensor_make("a", SAFETENSORS_F32, 5, 64, 1024, 0),
                                    test_tensor_make("b", SAFETENSORS_F32, 6, 64, 1024, 0)};
    test_checkpoint_write("in.safetensors", tensors, 2);
    test_quantize(0, NULL, NULL, "in.safetensors codes.safetensors --scheme s4-group-zero");
    test_quantize(1, NULL, "no tensor of codes.safetensors can be converted to s8-channel",
                  "codes.safetensors out.safetensors --scheme s8-channel");
    test_quantize(1, NULL, "\"a\": already quantized; f32, f16 and bf16 dequantize it",
                  "codes.safetensors out.safetensors --scheme s8-channel --only a");
    test_quantize(0, "1 tensors quantized, 3 copied", NULL,
                  "codes.safetensors out.safetensors --scheme f16 --skip ^a$");
    safetensors_file *const before = test_checkpoint_open("codes.safetensors");
    safetensors_file *const after = test_checkpoint_open("out.safetensors");
    assert_int_equal(safetensors_count(after), 4);
    expect_same(before, after, "a");
    expect_same(before, after, "a_scale");
    expect_same(before, after, "a_zero_point");
    assert_string_equal(safetensors_metadata(before, "tandem.quant.a"),
                        safetensors_metadata(after, "tandem.quant.a"));
    assert_int_equal(safetensors_find(after, "b")->dtype, SAFETENSORS_F16);
}

/* ---- files with false metadata ---- */

#define S8_LAYOUT "{\"scheme\":\"s8-channel\",\"dtype\":\"s8\",\"shape\":[32,64],\"block\":[1,0]"

typedef struct lie {
    const char *layout;
    const char *scale_name;
    int64_t scales;
    float scale;
    const char *sentence; /* NULL: the metadata is true */
} lie;

static const lie lies[] = {
    {S8_LAYOUT "}", "w_scale", 32, 0.5f, NULL},
    {S8_LAYOUT ",\"original_shape\":[2,16,64]}", "w_scale", 32, 0.5f, NULL},
    {S8_LAYOUT "}", "v_scale", 32, 0.5f, "there is no tensor \"w_scale\""},
    {S8_LAYOUT "}", "w_scale", 31, 0.5f, "\"w_scale\" has 31 elements, not 32"},
    {S8_LAYOUT "}", "w_scale", 32, INFINITY, "\"w_scale\": scale 0 is inf"},
    {S8_LAYOUT "}", "w_scale", 32, 3e38f, "element 0 of tensor \"w\" is inf: not finite"},
    {S8_LAYOUT ",\"zero_points\":true}", "w_scale", 32, 0.5f, "no tensor \"w_zero_point\""},
    {S8_LAYOUT ",\"original_shape\":[32,65]}", "w_scale", 32, 0.5f,
     "a different number of elements"},
    {S8_LAYOUT ",\"original_shape\":[4294967296,4294967296]}", "w_scale", 32, 0.5f,
     "a different number of elements"},
    {"{\"scheme\":\"s8-channel\",\"dtype\":\"s8\",\"shape\":[32,65],\"block\":[1,0]}", "w_scale",
     32, 0.5f, "\"w\" has 2048 elements, not 2080"},
    {"{\"scheme\":\"s4-channel\",\"dtype\":\"s4\",\"shape\":[32,64],\"block\":[1,0]}", "w_scale",
     32, 0.5f, "dtype I8, not U8"},
};

TEST_WITH(lies_leave_no_output, test_checkpoint_enter, test_checkpoint_leave) {
    static const signed char codes[32 * 64] = {2, -3};
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        const lie *const row = &lies[i];
        const safetensors_pair metadata[] = {{"tandem.quant", "1"},
                                             {"tandem.quant.w", row->layout}};
        float scales[32];
        file_error error;
        for (int s = 0; s < 32; s++)
            scales[s] = row->scale;
        const safetensors_tensor tensors[] = {
            {"w", SAFETENSORS_I8, 2, {32, 64}, codes, sizeof codes},
            {row->scale_name,
             SAFETENSORS_F32,
             1,
             {row->scales},
             scales,
             (size_t)row->scales * sizeof *scales}};
        assert_int_equal(test_safetensors_write("in.safetensors", tensors, 2, metadata, 2, &error),
                         0);
        test_quantize(row->sentence ? 1 : 0, NULL, row->sentence,
                      "in.safetensors out.safetensors --scheme f32");
        assert_int_equal(test_checkpoint_files(), row->sentence ? 1 : 2);
        if (!row->sentence)
            test_checkpoint_remove("out.safetensors");
    }
}

TEST_MAIN(NULL, NULL)
