// ctest: threads
/* `tandem quantize`: what becomes of floats and of other types, what is said of numbers that are lost, and which tensors are taken. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "formats/checkpoint/quantize_read.h"
#include "quant/number_formats.h"
#include "tests/support/quant/test_checkpoint.h"
#include "tests/support/test_data.h"

/* ---- floats, other types, what is lost ---- */

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

/* Rounded once, not through f32; what is lost shows in the report, and what is beyond the largest number becomes that one. */
static void wide_floats_are_rounded_once(void **state) {
    (void)state;
    static const struct {
        const char *scheme;
        safetensors_dtype dtype;
        tdm_dtype own;
        double beyond, largest;
    } rows[] = {{"f32", SAFETENSORS_F32, TDM_F32, 1e300, 0x1.fffffep127},
                {"f16", SAFETENSORS_F16, TDM_F16, 65520, 65504},
                {"bf16", SAFETENSORS_BF16, TDM_BF16, -1e39, -0x1.fep127}};
    enum {
        COUNT = 32 * 64
    };
    double values[COUNT];
    test_random random = {.state = 5};
    for (int i = 0; i < COUNT; i++)
        values[i] = test_random_uniform(&random, -1, 1);
    values[1] = 1 + 0x1p-11 + 0x1p-40; /* to f32 a tie of f16, which goes down */
    values[2] = 1 + 0x1p-8 + 0x1p-40;  /* of bf16 */
    const safetensors_tensor tensor = {.name = "w",
                                       .dtype = SAFETENSORS_F64,
                                       .rank = 2,
                                       .shape = {32, 64},
                                       .data = values,
                                       .bytes = sizeof values};
    for (int i = 0; i < 3; i++) {
        values[0] = 0.5;
        test_checkpoint_write("in.safetensors", &tensor, 1);
        char *const text =
            test_quantize_output("in.safetensors out.safetensors --scheme %s", rows[i].scheme);
        assert_null(strstr(text, "exact"));
        free(text);
        safetensors_file *file = test_checkpoint_open("out.safetensors");
        const safetensors_tensor *narrow = safetensors_find(file, "w");
        assert_int_equal(narrow->dtype, rows[i].dtype);
        for (int64_t j = 0; j < COUNT; j++) {
            double expected;
            unsigned char bits[4];
            tdm_number_set(rows[i].own, bits, 0, values[j]);
            expected = tdm_number_get(rows[i].own, bits, 0);
            assert_true((double)test_tensor_at(narrow, j) == expected);
        }
        safetensors_close(file);
        values[0] = rows[i].beyond;
        test_checkpoint_write("in.safetensors", &tensor, 1);
        char *const limited =
            test_quantize_output("in.safetensors out.safetensors --scheme %s", rows[i].scheme);
        assert_non_null(strstr(limited, "1 numbers limited to the largest finite one"));
        assert_null(strstr(limited, "nan"));
        free(limited);
        file = test_checkpoint_open("out.safetensors");
        assert_true((double)test_tensor_at(safetensors_find(file, "w"), 0) == rows[i].largest);
        safetensors_close(file);
    }
    test_checkpoint_remove("in.safetensors");
    test_checkpoint_remove("out.safetensors");
}

/* Every byte of 8-bit floats but those that are no number, and types that are copied. */
static void eight_bit_floats_are_exact(void **state) {
    (void)state;
    static const struct {
        safetensors_dtype dtype;
        int mantissa, bias, last; /* the last magnitude that is a number */
    } rows[] = {{SAFETENSORS_F8_E4M3, 3, 7, 0x7e}, {SAFETENSORS_F8_E5M2, 2, 15, 0x7b}};
    unsigned char bytes[32 * 64];
    for (int r = 0; r < 2; r++) {
        for (int i = 0; i < 32 * 64; i++)
            bytes[i] = (unsigned char)((i % 2 << 7) | (i / 2 % (rows[r].last + 1)));
        const safetensors_tensor tensor = {.name = "w",
                                           .dtype = rows[r].dtype,
                                           .rank = 2,
                                           .shape = {32, 64},
                                           .data = bytes,
                                           .bytes = sizeof bytes};
        test_checkpoint_write("in.safetensors", &tensor, 1);
        test_quantize(0, "exact", NULL, "in.safetensors out.safetensors --scheme f32");
        safetensors_file *const file = test_checkpoint_open("out.safetensors");
        for (int i = 0; i < 32 * 64; i++) {
            const int magnitude = bytes[i] & 0x7f;
            const int exponent = magnitude >> rows[r].mantissa;
            const double mantissa =
                (double)(magnitude & ((1 << rows[r].mantissa) - 1)) / (1 << rows[r].mantissa);
            const double value = exponent == 0 ? ldexp(mantissa, 1 - rows[r].bias)
                                               : ldexp(1 + mantissa, exponent - rows[r].bias);
            assert_true((double)test_tensor_at(safetensors_find(file, "w"), i) ==
                        (bytes[i] & 0x80 ? -value : value));
        }
        safetensors_close(file);
        bytes[77] = 0xff;
        test_checkpoint_write("in.safetensors", &tensor, 1);
        test_quantize(1, NULL, "element 77 of tensor \"w\" is ",
                      "in.safetensors out.safetensors --scheme s8-channel");
    }
    test_checkpoint_remove("in.safetensors");
    test_checkpoint_remove("out.safetensors");
}

static void every_dtype_is_copied(void **state) {
    (void)state;
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
    safetensors_close(file);
    test_tensor_release(&tensors[SAFETENSORS_DTYPES]);
    test_checkpoint_remove("in.safetensors");
    test_checkpoint_remove("out.safetensors");
}

/* In the notes and in JSON: numbers that became 0, or smaller, because their format or their scales have no room. One row is as large as
 * can be kept. */
static void what_has_no_room_is_counted(void **state) {
    (void)state;
    static const struct {
        const char *options;
        float value, other;
        const char *note;
        const char *count;
    } rows[] = {
        {"s8-channel --scales f16", 1e-6f, 1, "1984 numbers became 0: too small for scales in f16",
         "\"zeroed\":\t1984"},
        {"s8-channel", 1e-6f, 1, NULL, "\"zeroed\":\t0"},
        {"s8-channel", 1e-39f, 1, "1984 numbers became 0: too small for scales in f32",
         "\"zeroed\":\t1984"},
        {"s8-tensor --scales f16", 1e-6f, 1e-6f,
         "2048 numbers became 0: too small for scales in f16", "\"zeroed\":\t2048"},
        {"s8-tensor --scales f16", 1e-6f, 1, NULL, "\"zeroed\":\t0"},
        {"s4-group-zero --scales f16", 1e-8f, 1,
         "1984 numbers became 0: too small for scales in f16", "\"zeroed\":\t1984"},
        {"s4-group --scales f16 --axis 1", 1e-8f, 1e-8f,
         "2048 numbers became 0: too small for scales in f16", "\"zeroed\":\t2048"},
        {"q8_0", 1e-6f, 1, "1984 numbers became 0: too small for scales in f16",
         "\"zeroed\":\t1984"},
        {"q4_0", 1e-8f, 1, "1984 numbers became 0: too small for scales in f16",
         "\"zeroed\":\t1984"},
        {"f16", 1e-8f, 1, "1984 numbers became 0: too small for f16", "\"zeroed\":\t1984"},
        {"bf16", 1e-8f, 1, NULL, "\"zeroed\":\t0"},
        {"s8-channel --scales f16", 1e30f, 1, "1984 numbers limited: too large for scales in f16",
         "\"saturated\":\t1984"},
        {"s4-tensor-zero --scales f16", 1e30f, 1,
         "1984 numbers limited: too large for scales in f16", "\"saturated\":\t1984"},
        {"s8-channel --scales bf16", 1e30f, 1, NULL, "\"saturated\":\t0"},
    };
    float values[32 * 64];
    const safetensors_tensor tensor = {.name = "w",
                                       .dtype = SAFETENSORS_F32,
                                       .rank = 2,
                                       .shape = {32, 64},
                                       .data = values,
                                       .bytes = sizeof values};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (int j = 0; j < 32 * 64; j++)
            values[j] = j / 64 == 5 ? rows[i].other : rows[i].value;
        test_checkpoint_write("in.safetensors", &tensor, 1);
        char *const text =
            test_quantize_output("in.safetensors out.safetensors --scheme %s", rows[i].options);
        if (rows[i].note ? !strstr(text, rows[i].note) : strstr(text, "numbers") != NULL)
            fail_msg("%s of %g says\n%s", rows[i].options, (double)rows[i].value, text);
        free(text);
        test_quantize(0, rows[i].count, NULL, "in.safetensors out.safetensors --json - --scheme %s",
                      rows[i].options);
    }
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

int main(void) {
#define CASE(name)                                                                                 \
    cmocka_unit_test_setup_teardown(name, test_checkpoint_enter, test_checkpoint_leave)
    const struct CMUnitTest tests[] = {
        CASE(floats_are_rounded_once_and_limited), CASE(wide_floats_are_rounded_once),
        CASE(eight_bit_floats_are_exact),          CASE(every_dtype_is_copied),
        CASE(what_has_no_room_is_counted),         CASE(weights_are_chosen_by_rule_and_by_name),
    };
#undef CASE
    return cmocka_run_group_tests_name("quantize command", tests, NULL, NULL);
}
