// ctest: threads
/*
 * Compares the output of `tandem quantize` with the reference: quantized values, scales and zero
 * points of every scheme, for tensors of several shapes.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "formats/checkpoint/quantize_read.h"
#include "quant/quant_reference.h"
#include "tests/support/quant/test_checkpoint.h"
#include "tests/support/test_case.h"
#include "tests/support/test_data.h"

/* ---- every scheme ---- */

typedef struct scheme_row {
    const char *scheme;
    const char *options;
    int64_t rows, columns;
    int64_t block[2];
} scheme_row;

static const scheme_row scheme_rows[] = {
    {"s8-tensor", "", 48, 96, {0, 0}},
    {"s8-channel", "", 48, 96, {1, 0}},
    {"s8-group", "", 48, 96, {1, 32}},
    {"s8-group", "--group 64", 48, 96, {1, 64}},
    {"u8-tensor", "", 48, 97, {0, 0}},
    {"s4-channel", "", 37, 45, {1, 0}},
    {"s4-group", "--group 128", 8, 256, {1, 128}},
    {"s4-group", "", 31, 77, {1, 32}},
    {"s4-group-zero", "", 48, 96, {1, 32}},
    {"s8-tensor-zero", "", 48, 97, {0, 0}},
    {"s8-channel-zero", "", 48, 97, {1, 0}},
    {"u8-channel", "", 48, 97, {1, 0}},
    {"u8-group", "", 31, 77, {1, 32}},
    {"s4-tensor", "", 37, 45, {0, 0}},
    {"s8-group-zero", "", 31, 77, {1, 32}},
    {"s4-tensor-zero", "", 37, 45, {0, 0}},
    {"s4-channel-zero", "", 37, 45, {1, 0}},
    /* These tensors are larger than a slab (quantize_pass.c); some of their rows are, too. */
    {"s8-channel", "", 700, 1001, {1, 0}},
    {"u8-tensor", "", 700, 1001, {0, 0}},
    {"s4-group-zero", "", 701, 1001, {1, 32}},
    {"s4-channel-zero", "", 3, 600002, {1, 0}},
    {"s4-group", "", 2, 700010, {1, 32}},
    {"u8-tensor", "", 2, 550001, {0, 0}},
    {"s8-group", "--group 128", 2, 550001, {1, 128}},
    {"u8-channel", "", 2, 550001, {1, 0}},
    {"s4-tensor-zero", "", 2, 550001, {0, 0}},
};

/* Returns the quantization that a scheme's name stands for, and sets its symmetry. */
static tdm_quant_spec spec_of(const char *scheme, tdm_quant_symmetry *symmetry) {
    tdm_quant_spec spec = {.dtype = scheme[0] == 'u'   ? TDM_U8
                                    : scheme[1] == '8' ? TDM_S8
                                                       : TDM_S4,
                           .scale_dtype = TDM_F32};
    const int is_asymmetric = spec.dtype == TDM_U8 || strstr(scheme, "-zero") != NULL;
    const int most = spec.dtype == TDM_S4 ? 7 : 127;
    *symmetry = is_asymmetric ? TDM_QUANT_ASYMMETRIC : TDM_QUANT_SYMMETRIC;
    spec.range = spec.dtype == TDM_U8 ? (tdm_quant_range){0, 255}
                                      : (tdm_quant_range){-most - is_asymmetric, most};
    return spec;
}

/*
 * Quantized values, scales and zero points must equal the reference over the whole tensor, bit for
 * bit.
 */
static void check_reference(const tdm_quant_spec *spec, tdm_quant_symmetry symmetry,
                            const safetensors_tensor *tensor, const quantized_weight *weight) {
    const int64_t count = test_tensor_count(tensor);
    const int64_t scales = tdm_quant_scale_count(spec);
    float *const expected_scales = calloc((size_t)scales, sizeof *expected_scales);
    int32_t *const expected_zeros = calloc((size_t)scales, sizeof *expected_zeros);
    unsigned char *const expected_codes = calloc((size_t)count + 1, 1);
    assert_true(expected_scales && expected_zeros && expected_codes);
    tdm_quant_dynamic_tensor(spec, symmetry,
                             tensor->dtype == SAFETENSORS_F16    ? TDM_F16
                             : tensor->dtype == SAFETENSORS_BF16 ? TDM_BF16
                                                                 : TDM_F32,
                             tensor->data, expected_scales, expected_zeros, expected_codes);
    assert_int_equal(weight->scale_dtype, spec->scale_dtype);
    assert_int_equal(weight->scale_bytes,
                     (size_t)(scales * tdm_dtype_info(weight->scale_dtype)->unit_bytes));
    for (int64_t i = 0; i < scales; i++)
        assert_true(test_weight_scale(weight, i) == expected_scales[i]);
    assert_int_equal(weight->code_bytes, spec->dtype == TDM_S4 ? (count + 1) / 2 : count);
    assert_memory_equal(weight->codes, expected_codes, weight->code_bytes);
    for (int64_t i = 0; i < scales; i++)
        assert_int_equal(test_weight_zero_point(weight, i), expected_zeros[i]);
    free(expected_scales);
    free(expected_zeros);
    free(expected_codes);
}

static void check_weight(const scheme_row *row, const safetensors_tensor *tensor,
                         const quantized_weight *weight) {
    tdm_quant_symmetry symmetry;
    tdm_quant_spec spec = spec_of(row->scheme, &symmetry);
    spec.rank = 2;
    spec.shape[0] = row->rows;
    spec.shape[1] = row->columns;
    memcpy(spec.blocks, row->block, sizeof row->block);
    assert_int_equal(weight->dtype, spec.dtype);
    check_reference(&spec, symmetry, tensor, weight);
}

TEST_WITH(every_scheme_reads_back, test_checkpoint_enter, test_checkpoint_leave) {
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
        assert_int_equal(weight.rank, 2);
        assert_memory_equal(weight.block, row->block, sizeof row->block);
        check_weight(row, &tensors[0], &weight);
        test_weight_check(&tensors[0], &weight);
        const safetensors_tensor *const bias = safetensors_find(file, "layer.bias");
        assert_memory_equal(bias->data, tensors[1].data, bias->bytes);
        assert_string_equal(safetensors_metadata(file, "note"), "keep me");
        for (size_t t = 0; t < safetensors_count(file); t++) {
            const safetensors_tensor *const each = safetensors_at(file, t);
            assert_int_equal((uintptr_t)each->data % safetensors_dtype_bytes(each->dtype), 0);
        }
    }
}

/*
 * The weights of a convolution have one scale per output channel, or groups that run along all
 * other dimensions at once.
 */
TEST_WITH(convolutions_are_flattened, test_checkpoint_enter, test_checkpoint_leave) {
    safetensors_tensor tensor = test_tensor_make("conv", SAFETENSORS_F32, 5, 16, 12, 9);
    quantized_weight weight;
    test_checkpoint_write("in.safetensors", &tensor, 1);
    test_quantize(0, NULL, NULL, "in.safetensors out.safetensors --scheme s8-channel");
    safetensors_file *file = test_checkpoint_open("out.safetensors");
    weight = test_weight_read(file, "conv");
    assert_int_equal(weight.rank, 3);
    assert_int_equal(weight.scale_bytes, 16 * sizeof(float));
    test_weight_check(&tensor, &weight);
    test_quantize(0, NULL, NULL, "in.safetensors out.safetensors --scheme s8-group");
    file = test_checkpoint_open("out.safetensors");
    weight = test_weight_read(file, "conv");
    assert_int_equal(weight.rank, 2);
    assert_int_equal(weight.shape[1], 108);
    assert_int_equal(weight.scale_bytes, 16 * 4 * sizeof(float));
    test_weight_check(&tensor, &weight);
    assert_non_null(
        strstr(safetensors_metadata(file, "tandem.quant.conv"), "\"original_shape\":[16,12,9]"));
}

/*
 * A tensor of stacked expert matrices has one scale per output of each expert, or groups within a
 * row. If its last dimension is below 64, the tensor counts as a convolution.
 */
TEST_WITH(experts_have_channels_of_their_own, test_checkpoint_enter, test_checkpoint_leave) {
    static const struct {
        const char *options;
        int64_t shape[3]; /* of the input */
        int rank;         /* of the output */
        int64_t block[3];
        int64_t scales;
    } rows[] = {
        {"s8-channel", {4, 24, 64}, 3, {1, 1, 0}, 4 * 24},
        {"s8-channel", {4, 24, 63}, 3, {1, 0, 0}, 4},
        {"s4-channel-zero", {3, 7, 81}, 3, {1, 1, 0}, 3 * 7},
        {"u8-channel", {3, 600, 1001}, 3, {1, 1, 0}, 3 * 600},
        {"s4-group", {4, 24, 80}, 2, {1, 32}, 4 * 24 * 3},
        {"s8-tensor", {4, 24, 64}, 3, {0, 0, 0}, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const int64_t *const shape = rows[i].shape;
        safetensors_tensor tensor =
            test_tensor_make("experts", SAFETENSORS_F32, 5 + i, shape[0], shape[1], shape[2]);
        test_checkpoint_write("in.safetensors", &tensor, 1);
        test_quantize(0, NULL, NULL, "in.safetensors out.safetensors --scheme %s", rows[i].options);
        test_quantize(0, NULL, NULL, "out.safetensors back.safetensors --scheme f32");
        safetensors_file *const file = test_checkpoint_open("out.safetensors");
        safetensors_file *const back = test_checkpoint_open("back.safetensors");
        quantized_weight weight = test_weight_read(file, "experts");
        assert_int_equal(weight.rank, rows[i].rank);
        assert_memory_equal(weight.block, rows[i].block, (size_t)weight.rank * sizeof *shape);
        assert_int_equal(weight.scale_bytes,
                         (size_t)(rows[i].scales * tdm_dtype_info(weight.scale_dtype)->unit_bytes));
        test_weight_check(&tensor, &weight);
        const safetensors_tensor *const numbers = safetensors_find(back, "experts");
        assert_int_equal(numbers->rank, 3);
        assert_memory_equal(numbers->shape, shape, 3 * sizeof *shape);
        for (int64_t j = 0; j < test_tensor_count(&tensor); j++) {
            const int64_t scale = test_weight_scale_of(&weight, j);
            assert_true(test_tensor_at(numbers, j) ==
                        test_weight_scale(&weight, scale) *
                            (float)(tdm_quant_get(weight.dtype, weight.codes, j) -
                                    test_weight_zero_point(&weight, scale)));
        }
    }
}

/* A channel of zeros has scale 0, and readers dequantize it to zeros. */
TEST_WITH(a_channel_of_zeros_stays_zero, test_checkpoint_enter, test_checkpoint_leave) {
    safetensors_tensor tensor = test_tensor_make("w", SAFETENSORS_F32, 6, 32, 64, 0);
    memset((float *)(uintptr_t)tensor.data + 64, 0, 64 * sizeof(float));
    test_checkpoint_write("in.safetensors", &tensor, 1);
    test_quantize(0, NULL, NULL, "in.safetensors out.safetensors --scheme s8-channel");
    safetensors_file *const file = test_checkpoint_open("out.safetensors");
    quantized_weight weight = test_weight_read(file, "w");
    assert_true(test_weight_scale(&weight, 1) == 0.0f);
    assert_true(test_weight_scale(&weight, 0) > 0.0f);
    test_weight_check(&tensor, &weight);
}

/*
 * A channel that is longer than a slab is processed in pieces. The largest values lie in the last
 * piece of one channel and in the first of the next.
 */
TEST_WITH(long_channels_have_scales_of_their_own, test_checkpoint_enter, test_checkpoint_leave) {
    safetensors_tensor tensor = test_tensor_make("w", SAFETENSORS_F32, 8, 2, 550001, 0);
    float *const values = (float *)(uintptr_t)tensor.data;
    values[550000] = -254.0f;
    values[550001] = 127.0f;
    test_checkpoint_write("in.safetensors", &tensor, 1);
    test_quantize(1, NULL, "has long rows with an odd number of 4-bit values",
                  "in.safetensors out.safetensors --scheme s4-channel");
    test_quantize(0, NULL, NULL, "in.safetensors out.safetensors --scheme s8-channel");
    safetensors_file *const file = test_checkpoint_open("out.safetensors");
    quantized_weight weight = test_weight_read(file, "w");
    assert_true(test_weight_scale(&weight, 0) == 2.0f);
    assert_true(test_weight_scale(&weight, 1) == 1.0f);
}

TEST_MAIN(NULL, NULL)
