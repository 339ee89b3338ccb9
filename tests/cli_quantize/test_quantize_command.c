// ctest: threads
/*
 * Tests `tandem quantize`: floats are converted, other dtypes are copied, options choose the
 * tensors, and one run may use several schemes.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/checkpoint/quantize_read.h"
#include "formats/gguf.h"
#include "quant/number_formats.h"
#include "tests/support/quant/test_checkpoint.h"
#include "tests/support/test_case.h"

/* ---- floats, other dtypes ---- */

TEST_WITH(floats_are_rounded_once_and_limited, test_checkpoint_enter, test_checkpoint_leave) {
    safetensors_tensor tensor = test_tensor_make("w", SAFETENSORS_F32, 7, 32, 64, 0);
    float *const values = (float *)(uintptr_t)tensor.data;
    values[3] = 1e6f;
    values[4] = -65520.0f;
    values[5] = 65519.0f;
    test_checkpoint_write("in.safetensors", &tensor, 1);
    test_quantize(0, "2 values limited to the largest finite one", NULL,
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
    test_quantize(0, NULL, NULL, "in.safetensors out.safetensors --scheme bf16");
    file = test_checkpoint_open("out.safetensors");
    assert_int_equal(safetensors_find(file, "w")->dtype, SAFETENSORS_BF16);
    assert_true(test_tensor_at(safetensors_find(file, "w"), 3) ==
                tdm_f32_from_bf16(tdm_bf16_from_f32(1e6f)));
    quantized_weight weight = test_weight_read(file, "w");
    assert_int_equal(weight.dtype, TDM_BF16);
    assert_int_equal(weight.scale_dtype, TDM_DTYPE_NONE);
}

/*
 * 8-bit floats are copied unchanged. Their scales are copied too, although they are as large as
 * weights.
 */
TEST_WITH(eight_bit_floats_are_copied, test_checkpoint_enter, test_checkpoint_leave) {
    static const unsigned char bytes[32 * 64] = {1, 2, 3, 0x7f};
    const safetensors_tensor tensors[] = {
        test_tensor_make("a.weight", SAFETENSORS_F32, 1, 32, 64, 0),
        {.name = "b.weight",
         .dtype = SAFETENSORS_F8_E4M3,
         .rank = 2,
         .shape = {32, 64},
         .data = bytes,
         .bytes = sizeof bytes},
        test_tensor_make("b.weight_scale_inv", SAFETENSORS_F32, 3, 32, 64, 0)};
    test_checkpoint_write("in.safetensors", tensors, 3);
    test_quantize(0, "1 tensors quantized, 2 copied", NULL,
                  "in.safetensors out.safetensors --scheme s8-channel");
    safetensors_file *const file = test_checkpoint_open("out.safetensors");
    for (int i = 1; i < 3; i++) {
        const safetensors_tensor *const copy = safetensors_find(file, tensors[i].name);
        assert_int_equal(copy->dtype, tensors[i].dtype);
        assert_memory_equal(copy->data, tensors[i].data, tensors[i].bytes);
    }
}

TEST_WITH(every_dtype_is_copied, test_checkpoint_enter, test_checkpoint_leave) {
    static const unsigned char bytes[512] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    safetensors_tensor tensors[SAFETENSORS_DTYPES + 1];
    char names[SAFETENSORS_DTYPES][16];
    for (int i = 0; i < SAFETENSORS_DTYPES; i++) {
        const size_t bits = safetensors_dtype_bits((safetensors_dtype)i);
        snprintf(names[i], sizeof names[i], "t%d", i);
        tensors[i] = (safetensors_tensor){.name = names[i],
                                          .dtype = (safetensors_dtype)i,
                                          .rank = 2,
                                          .shape = {3, 8},
                                          .data = bytes,
                                          .bytes = 3 * bits};
    }
    tensors[SAFETENSORS_DTYPES] = test_tensor_make("w", SAFETENSORS_F32, 7, 32, 64, 0);
    test_checkpoint_write("in.safetensors", tensors, SAFETENSORS_DTYPES + 1);
    test_quantize(0, "1 tensors quantized, 22 copied", NULL,
                  "in.safetensors out.safetensors --scheme s8-channel");
    safetensors_file *const file = test_checkpoint_open("out.safetensors");
    for (int i = 0; i < SAFETENSORS_DTYPES; i++) {
        const safetensors_tensor *const tensor = safetensors_find(file, names[i]);
        assert_int_equal(tensor->dtype, tensors[i].dtype);
        assert_int_equal(tensor->bytes, tensors[i].bytes);
        assert_memory_equal(tensor->data, bytes, tensor->bytes);
    }
}

/* ---- choice of tensors ---- */

TEST_WITH(weights_are_chosen_by_rule_and_by_name, test_checkpoint_enter, test_checkpoint_leave) {
    static const int64_t labels[8] = {1, 2, 3};
    safetensors_tensor tensors[] = {
        test_tensor_make("a.weight", SAFETENSORS_F32, 1, 32, 32, 0),
        test_tensor_make("b.weight", SAFETENSORS_F16, 2, 32, 31, 0), /* fewer than 1024 values */
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
        int codes[5]; /* 1: the tensor is quantized */
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
    }
    test_quantize(0, "not a matrix", NULL,
                  "in.safetensors out.safetensors --scheme s8-channel --only norm|^b");
    test_quantize(0, "last dimension is not a multiple of 32", NULL,
                  "in.safetensors out.safetensors --scheme q8_0 --only ^[ab]");
}

/* ---- several schemes in one run ---- */

enum {
    TENSORS = 4
};

static const char *const names[TENSORS] = {"embed.weight", "a.weight", "b=1.weight",
                                           "lm_head.weight"};

static void write_model(const char *file) {
    safetensors_tensor tensors[TENSORS];
    for (unsigned i = 0; i < TENSORS; i++)
        tensors[i] =
            test_tensor_make(names[i], i % 2 ? SAFETENSORS_F16 : SAFETENSORS_F32, 3 + i, 48, 96, 0);
    test_checkpoint_write(file, tensors, TENSORS);
}

static void check_same(const quantized_weight *a, const quantized_weight *b) {
    assert_string_equal(a->scheme, b->scheme);
    assert_int_equal(a->code_bytes, b->code_bytes);
    assert_memory_equal(a->codes, b->codes, a->code_bytes);
    assert_int_equal(a->scale_bytes, b->scale_bytes);
    if (a->scale_bytes > 0)
        assert_memory_equal(a->scales, b->scales, a->scale_bytes);
}

/* Each tensor equals the result of a run with its scheme alone. */
TEST_WITH(names_choose_schemes, test_checkpoint_enter, test_checkpoint_leave) {
    static const char *const schemes[TENSORS] = {"bf16", "s4-group", "s4-group", "s8-channel"};
    write_model("in.safetensors");
    test_quantize(
        0, NULL, NULL,
        "in.safetensors out.safetensors --scheme s4-group --group 64 --except lm_head=s8-channel "
        "--except ^embed=bf16 --except em|a\\.=s4-group --except a=s8-tensor");
    safetensors_file *const file = test_checkpoint_open("out.safetensors");
    for (int i = 0; i < TENSORS; i++) {
        test_quantize(0, NULL, NULL, "in.safetensors alone.safetensors --scheme %s%s --only ^%s",
                      schemes[i], strcmp(schemes[i], "s4-group") ? "" : " --group 64", names[i]);
        safetensors_file *const alone = test_checkpoint_open("alone.safetensors");
        quantized_weight mixed = test_weight_read(file, names[i]);
        quantized_weight single = test_weight_read(alone, names[i]);
        check_same(&mixed, &single);
    }
}

TEST_WITH(gguf_takes_several_types, test_checkpoint_enter, test_checkpoint_leave) {
    write_model("in.safetensors");
    test_quantize(0, "3 tensors quantized, 1 copied", NULL,
                  "in.safetensors out.gguf --scheme q4_0 --except lm_head=q8_0 --except embed=keep "
                  "--except b=1=f16");
    gguf_file *file = NULL;
    file_error error;
    assert_int_equal(gguf_open("out.gguf", &file, &error), 0);
    static const gguf_type types[TENSORS] = {GGUF_F32, GGUF_Q4_0, GGUF_F16, GGUF_Q8_0};
    for (int i = 0; i < TENSORS; i++)
        assert_int_equal(gguf_find(file, names[i])->type, types[i]);
    gguf_close(file);
}

/*
 * The second run dequantizes one tensor and removes its scales. It keeps the quantized values of
 * the others.
 */
TEST_WITH(some_codes_become_numbers, test_checkpoint_enter, test_checkpoint_leave) {
    write_model("in.safetensors");
    test_quantize(0, NULL, NULL, "in.safetensors codes.safetensors --scheme s8-channel");
    test_quantize(0, "1 tensors quantized, 6 copied", NULL,
                  "codes.safetensors out.safetensors --scheme keep --except ^a=f16");
    safetensors_file *const file = test_checkpoint_open("out.safetensors");
    assert_int_equal(safetensors_find(file, "a.weight")->dtype, SAFETENSORS_F16);
    assert_null(safetensors_find(file, "a.weight_scale"));
    assert_int_equal(safetensors_find(file, "lm_head.weight")->dtype, SAFETENSORS_I8);
    assert_non_null(safetensors_find(file, "lm_head.weight_scale"));
}

TEST_MAIN(NULL, NULL)
