// ctest: threads
/* `tandem quantize` on 8-bit floats whose scales stand in a tensor beside them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/checkpoint/quantize_read.h"
#include "quant/number_formats.h"
#include "tests/support/quant/test_checkpoint.h"
#include "tests/support/test_case.h"
#include "tests/support/test_data.h"

#define E4M3 SAFETENSORS_F8_E4M3
#define E5M2 SAFETENSORS_F8_E5M2
#define F32 SAFETENSORS_F32
#define F16 SAFETENSORS_F16
#define BF16 SAFETENSORS_BF16

static const char in[] = "in.safetensors";
static const char out[] = "out.safetensors";

/* A weight, and scales beside it. */
typedef struct pair {
    safetensors_dtype dtype;
    int rank;
    int64_t shape[3];
    const char *scale_name;
    safetensors_dtype scale_dtype;
    int scale_rank;
    int64_t scale_shape[4];
    int64_t block[3]; /* what the shapes mean */
} pair;

static const pair by_block = {E4M3, 2, {130, 260}, "l.weight_scale_inv",
                              F32,  2, {2, 3},     {128, 128}};

/* ---- made here ---- */

static tdm_dtype float_dtype(safetensors_dtype dtype) {
    return dtype == F16 ? TDM_F16 : dtype == BF16 ? TDM_BF16 : TDM_F32;
}

static int64_t product(const int64_t *shape, int rank) {
    int64_t count = 1;
    for (int i = 0; i < rank; i++)
        count *= shape[i];
    return count;
}

static safetensors_tensor tensor_of(const char *name, safetensors_dtype dtype, int rank,
                                    const int64_t *shape) {
    safetensors_tensor tensor = {.name = name, .dtype = dtype, .rank = rank};
    memcpy(tensor.shape, shape, (size_t)rank * sizeof *shape);
    tensor.bytes = (size_t)product(shape, rank) * safetensors_dtype_bytes(dtype);
    tensor.data = test_checkpoint_own(calloc(tensor.bytes + 1, 1));
    return tensor;
}

/* The weight "l.weight" of any bytes that are numbers, and scales of no round numbers. */
static void make_pair(const pair *p, uint64_t seed, safetensors_tensor made[2]) {
    test_random random = {.state = seed};
    made[0] = tensor_of("l.weight", p->dtype, p->rank, p->shape);
    made[1] = tensor_of(p->scale_name, p->scale_dtype, p->scale_rank, p->scale_shape);
    unsigned char *const bytes = (unsigned char *)(uintptr_t)made[0].data;
    for (size_t i = 0; i < made[0].bytes; i++)
        bytes[i] = (unsigned char)((test_random_bits(&random) & 0x80) |
                                   test_random_bits(&random) % (p->dtype == E4M3 ? 0x7f : 0x7c));
    for (int64_t i = 0; i < product(p->scale_shape, p->scale_rank); i++)
        tdm_number_set(float_dtype(p->scale_dtype), (void *)(uintptr_t)made[1].data, (size_t)i,
                       test_random_uniform(&random, 0.0001, 0.1));
}

static double small_float(safetensors_dtype dtype, unsigned char byte) {
    const int bits = dtype == E4M3 ? 3 : 2, bias = dtype == E4M3 ? 7 : 15;
    const int exponent = (byte & 0x7f) >> bits;
    const double mantissa = (double)(byte & ((1 << bits) - 1)) / (1 << bits);
    const double value =
        exponent == 0 ? ldexp(mantissa, 1 - bias) : ldexp(1 + mantissa, exponent - bias);
    return byte & 0x80 ? -value : value;
}

/* Float times scale, in double, which holds it. */
static double number_at(const pair *p, const safetensors_tensor made[2], int64_t element) {
    int64_t position = 0, entries = 1, rest = element;
    for (int i = p->rank - 1; i >= 0; i--) {
        position += rest % p->shape[i] / p->block[i] * entries;
        entries *= (p->shape[i] + p->block[i] - 1) / p->block[i];
        rest /= p->shape[i];
    }
    assert_int_equal(entries, product(p->scale_shape, p->scale_rank));
    return small_float(p->dtype, ((const unsigned char *)made[0].data)[element]) *
           tdm_number_get(float_dtype(p->scale_dtype), made[1].data, (size_t)position);
}

/* ---- what they stand for ---- */

static const pair pairs[] = {
    {E4M3, 2, {130, 260}, "l.weight_scale_inv", F32, 2, {2, 3}, {128, 128}},
    {E4M3, 2, {128, 384}, "l.weight_scale_inv", F32, 2, {1, 3}, {128, 128}},
    {E4M3, 2, {1100, 520}, "l.weight_scale_inv", F32, 2, {9, 5}, {128, 128}}, /* several slabs */
    {E5M2, 2, {129, 100}, "l.weight_scale", BF16, 2, {2, 1}, {128, 100}},
    {E4M3, 2, {48, 96}, "l.weight_scale", F32, 0, {0}, {48, 96}},
    {E4M3, 2, {48, 96}, "l.weight_scale_inv", BF16, 1, {1}, {48, 96}},
    {E5M2, 2, {48, 96}, "l.scale_weight", F32, 2, {1, 1}, {48, 96}},
    {E4M3, 2, {48, 96}, "l.weight_scale", F16, 2, {48, 1}, {1, 96}},
    {E4M3, 2, {48, 96}, "l.weight_scale", F32, 1, {48}, {1, 96}},
    {E4M3, 2, {48, 96}, "l.weight_scale", F32, 2, {1, 96}, {48, 1}},
    {E4M3, 2, {48, 300}, "l.weight_scale", F32, 2, {48, 3}, {1, 128}},
    {E4M3, 3, {3, 130, 140}, "l.weight_scale_inv", F32, 3, {3, 2, 2}, {1, 128, 128}},
    {E4M3, 3, {3, 64, 72}, "l.weight_scale", F32, 3, {3, 64, 1}, {1, 1, 72}},
    {E4M3, 3, {3, 64, 72}, "l.weight_scale", F32, 1, {3}, {1, 64, 72}},
};

/* In f32 they are the products; the scales, and that of the input, are gone, and the rest is there. */
TEST_WITH(numbers_are_floats_times_scales, test_checkpoint_enter, test_checkpoint_leave) {
    static const char *const inputs[] = {"l.input_scale", "l.scale_input", "l.activation_scale"};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        safetensors_tensor tensors[4];
        make_pair(&pairs[i], 100 + i, tensors);
        tensors[2] = test_tensor_make(inputs[i % 3], F32, 1, 1, 0, 0);
        tensors[3] = test_tensor_make("l.bias", F32, 2, 7, 0, 0);
        test_checkpoint_write(in, tensors, 4);
        test_quantize(0, "times the scales beside it", NULL, "%s %s --scheme f32", in, out);
        safetensors_file *const file = test_checkpoint_open(out);
        const safetensors_tensor *const weight = safetensors_find(file, "l.weight");
        assert_non_null(weight);
        assert_non_null(safetensors_find(file, "l.bias"));
        assert_int_equal(safetensors_count(file), 2);
        assert_int_equal(weight->rank, pairs[i].rank);
        for (int64_t j = 0; j < test_tensor_count(weight); j++) {
            const double expected = (double)(float)number_at(&pairs[i], tensors, j);
            if ((double)test_tensor_at(weight, j) != expected)
                fail_msg("case %zu: element %lld is %a, not %a", i, (long long)j,
                         (double)test_tensor_at(weight, j), expected);
        }
    }
}

static void expect_same_files(const char *name, const char *scheme) {
    safetensors_file *const file = test_checkpoint_open(name);
    safetensors_file *const like = test_checkpoint_open("like.safetensors");
    if (safetensors_count(file) != safetensors_count(like))
        fail_msg("%s: %zu tensors, not %zu", scheme, safetensors_count(file),
                 safetensors_count(like));
    for (size_t i = 0; i < safetensors_count(like); i++) {
        const safetensors_tensor *const tensor = safetensors_at(like, i);
        const safetensors_tensor *const own = safetensors_find(file, tensor->name);
        assert_non_null(own);
        assert_int_equal(own->dtype, tensor->dtype);
        assert_int_equal(own->bytes, tensor->bytes);
        if (memcmp(own->data, tensor->data, own->bytes) != 0)
            fail_msg("%s: \"%s\" has other bytes", scheme, tensor->name);
    }
}

/* What every scheme makes of them is what it makes of the products in F32: of blocks, of stacks and of pieces of rows. */
TEST_WITH(schemes_take_the_products, test_checkpoint_enter, test_checkpoint_leave) {
    static const pair kinds[] = {
        {E4M3, 2, {200, 288}, "l.weight_scale_inv", F32, 2, {2, 3}, {128, 128}},
        {E4M3, 2, {3, 600064}, "l.weight_scale_inv", F32, 2, {1, 4688}, {3, 128}},
        {E4M3, 3, {3, 130, 160}, "l.weight_scale_inv", F32, 3, {3, 2, 2}, {1, 128, 128}},
    };
    static const char *const schemes[] = {"s8-tensor",     "u8-channel", "s8-group",
                                          "s4-group-zero", "q8_0",       "f16"};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        safetensors_tensor tensors[2];
        make_pair(&kinds[k], 7 + k, tensors);
        safetensors_tensor wide = tensor_of("l.weight", F32, kinds[k].rank, kinds[k].shape);
        for (int64_t i = 0; i < test_tensor_count(&wide); i++)
            tdm_number_set(TDM_F32, (void *)(uintptr_t)wide.data, (size_t)i,
                           number_at(&kinds[k], tensors, i));
        test_checkpoint_write(in, tensors, 2);
        test_checkpoint_write("wide.safetensors", &wide, 1);
        for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
            test_quantize(0, NULL, NULL, "%s %s --scheme %s", in, out, schemes[i]);
            test_quantize(0, NULL, NULL, "wide.safetensors like.safetensors --scheme %s",
                          schemes[i]);
            expect_same_files(out, schemes[i]);
        }
    }
}

/* ---- what stays ---- */

static void expect_kept(const safetensors_tensor *tensors, size_t count) {
    safetensors_file *const file = test_checkpoint_open(out);
    for (size_t i = 0; i < count; i++) {
        const safetensors_tensor *const kept = safetensors_find(file, tensors[i].name);
        if (!kept || kept->dtype != tensors[i].dtype || kept->bytes != tensors[i].bytes ||
            memcmp(kept->data, tensors[i].data, kept->bytes) != 0)
            fail_msg("\"%s\" is not what it was", tensors[i].name);
    }
}

/* Scales with as many numbers as a weight has, which --only names as well. */
TEST_WITH(what_is_left_keeps_its_scales, test_checkpoint_enter, test_checkpoint_leave) {
    static const pair rows = {E4M3, 2, {1040, 33}, "l.weight_scale", F32, 2, {1040, 1}, {1, 33}};
    static const pair squares = {E4M3, 2, {4097, 4001}, "l.weight_scale_inv",
                                 F32,  2, {33, 32},     {128, 128}};
    static const struct {
        const pair *kind;
        const char *options, *output;
    } cases[] = {{&rows, "--scheme s8-channel --skip ^l.weight$", "1 tensors quantized, 3 copied"},
                 {&squares, "--scheme s8-channel --skip ^l.weight$", "1 tensors quantized"},
                 {&rows, "--scheme f16 --except ^l.weight$=keep", "1 tensors quantized, 3 copied"},
                 {&squares, "--scheme f16 --only other|scale", "1 tensors quantized, 3 copied"},
                 {&rows, "--scheme q8_0", "last dimension no multiple of 32"},
                 {&rows, "--scheme keep", "0 tensors quantized, 4 copied"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        safetensors_tensor tensors[4];
        make_pair(cases[i].kind, 5, tensors);
        tensors[2] = test_tensor_make("l.input_scale", F32, 1, 1, 0, 0);
        tensors[3] = test_tensor_make("other.weight", F32, 2, 64, 64, 0);
        test_checkpoint_write(in, tensors, 4);
        test_quantize(0, cases[i].output, NULL, "%s %s %s", in, out, cases[i].options);
        expect_kept(tensors, 3);
    }
}

/* Of types that are only copied. */
TEST_WITH(scales_of_other_codes_stay, test_checkpoint_enter, test_checkpoint_leave) {
    static const safetensors_dtype dtypes[] = {SAFETENSORS_I8, SAFETENSORS_F8_E4M3FNUZ,
                                               SAFETENSORS_U8};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        safetensors_tensor tensors[] = {
            tensor_of("l.weight", dtypes[i], 2, (const int64_t[]){64, 64}),
            test_tensor_make("l.weight_scale", F32, 1, 64, 64, 0),
            test_tensor_make("other.weight", F32, 2, 64, 64, 0)};
        test_checkpoint_write(in, tensors, 3);
        test_quantize(0, "1 tensors quantized, 2 copied", NULL, "%s %s --scheme s8-channel", in,
                      out);
        expect_kept(tensors, 2);
    }
}

/* Without scales the floats are the numbers, and the report says so. */
TEST_WITH(floats_without_scales_are_noted, test_checkpoint_enter, test_checkpoint_leave) {
    safetensors_tensor tensors[2];
    make_pair(&by_block, 5, tensors);
    test_checkpoint_write(in, tensors, 1);
    test_quantize(0, "8-bit floats without scales beside them: taken as they are", NULL,
                  "%s %s --scheme f32", in, out);
    safetensors_file *const file = test_checkpoint_open(out);
    const safetensors_tensor *const weight = safetensors_find(file, "l.weight");
    for (int64_t i = 0; i < test_tensor_count(weight); i++)
        assert_true((double)test_tensor_at(weight, i) ==
                    small_float(E4M3, ((const unsigned char *)tensors[0].data)[i]));
}

/* ---- what is refused ---- */

TEST_WITH(scales_that_do_not_fit_are_refused, test_checkpoint_enter, test_checkpoint_leave) {
    static const struct {
        int64_t shape[3];
        int rank;
        int64_t scales[4];
    } rows[] = {{{130, 260}, 2, {3, 2}},      {{130, 260}, 2, {2, 4}}, {{130, 260}, 2, {1, 2}},
                {{130, 260}, 2, {2, 5}},      {{130, 260}, 1, {2}},    {{130, 260}, 1, {260}},
                {{130, 260}, 3, {2, 3, 2}},   {{130, 260}, 2, {0, 3}}, {{384, 64}, 1, {3}},
                {{130, 260}, 4, {2, 1, 3, 2}}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pair p = by_block;
        safetensors_tensor tensors[2];
        memcpy(p.shape, rows[i].shape, sizeof p.shape);
        p.scale_rank = rows[i].rank;
        memcpy(p.scale_shape, rows[i].scales, sizeof p.scale_shape);
        make_pair(&p, 5, tensors);
        test_checkpoint_write(in, tensors, 2);
        test_quantize(1, NULL, "the scales \"l.weight_scale_inv\" of tensor \"l.weight\" are not",
                      "%s %s --scheme f16", in, out);
        assert_int_equal(test_checkpoint_files(), 1);
    }
}

TEST_WITH(scales_that_are_no_numbers_are_refused, test_checkpoint_enter, test_checkpoint_leave) {
    static const struct {
        double scale;
        const char *errors;
    } rows[] = {
        {NAN, "of tensor \"l.weight\" is "},
        {INFINITY, "of tensor \"l.weight\" is "},
        {1e37, "of tensor \"l.weight\" is "}, /* times 448 it is no number of f32 */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        safetensors_tensor tensors[2];
        make_pair(&by_block, 5, tensors);
        tdm_number_set(TDM_F32, (void *)(uintptr_t)tensors[1].data, 4, rows[i].scale);
        test_checkpoint_write(in, tensors, 2);
        test_quantize(1, NULL, rows[i].errors, "%s %s --scheme s8-channel", in, out);
        test_quantize(0, NULL, NULL, "%s %s --scheme keep", in, out);
        expect_kept(tensors, 2);
    }
}

TEST_WITH(other_tensors_beside_are_refused, test_checkpoint_enter, test_checkpoint_leave) {
    static const struct {
        const char *name, *second;
        safetensors_dtype dtype;
        const char *errors;
    } rows[] = {
        {"l.weight_scale", "l.weight_scale_inv", F32, "has scales in 2 tensors beside it; --skip"},
        {"l.scale_weight", "l.weight_scale", F32, "scales in 2 tensors"},
        {"l.input_scale", "l.bias", F32, "has scales in 0 tensors beside it"},
        {"l.weight_scale", "l.bias", SAFETENSORS_F64, "is of type F64, not F32, F16 or BF16"},
        {"l.weight_scale", "l.bias", SAFETENSORS_F8_E8M0, "is of type F8_E8M0, not F32"},
        {"l.weight_scale", "l.bias", SAFETENSORS_I32, "is of type I32, not F32"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        safetensors_tensor tensors[3];
        make_pair(&by_block, 5, tensors);
        tensors[1] = tensor_of(rows[i].name, rows[i].dtype, 0, (const int64_t[]){0});
        tensors[2] = test_tensor_make(rows[i].second, F32, 1, 1, 0, 0);
        test_checkpoint_write(in, tensors, 3);
        test_quantize(1, NULL, rows[i].errors, "%s %s --scheme s8-channel", in, out);
    }
}

/* ---- beside other features ---- */

/* The scales of the codes and of the calibrated input have the names that the old ones had. */
TEST_WITH(new_scales_take_the_old_names, test_checkpoint_enter, test_checkpoint_leave) {
    pair p = by_block;
    p.scale_name = "l.weight_scale";
    safetensors_tensor tensors[3];
    make_pair(&p, 5, tensors);
    tensors[2] = test_tensor_make("l.input_scale", F32, 1, 1, 0, 0);
    safetensors_tensor input = test_tensor_make("l.input", F32, 3, 20, 260, 0);
    test_checkpoint_write(in, tensors, 3);
    test_checkpoint_write("activations.safetensors", &input, 1);
    test_quantize(0, NULL, NULL, "%s %s --scheme s8-channel --calibrate activations.safetensors",
                  in, out);
    safetensors_file *const file = test_checkpoint_open(out);
    quantized_weight weight = test_weight_read(file, "l.weight");
    assert_int_equal(safetensors_count(file), 4);
    assert_int_equal(weight.scale_bytes, 130 * sizeof(float));
    assert_int_equal(weight.input_dtype, TDM_U8);
    assert_true(weight.input.scale != test_tensor_at(&tensors[2], 0));
}

/* The scales may be in another file than the weight. */
TEST_WITH(scales_come_from_other_shards, test_checkpoint_enter, test_checkpoint_leave) {
    static const char index[] = "{\"metadata\": {}, \"weight_map\": {\"l.weight\": "
                                "\"one.safetensors\", \"l.weight_scale_inv\": "
                                "\"two.safetensors\", \"l.bias\": \"two.safetensors\"}}";
    safetensors_tensor tensors[3];
    make_pair(&by_block, 5, tensors);
    tensors[2] = test_tensor_make("l.bias", F32, 1, 5, 0, 0);
    test_checkpoint_write("one.safetensors", tensors, 1);
    test_checkpoint_write("two.safetensors", tensors + 1, 2);
    test_checkpoint_write(in, tensors, 3);
    test_file_write("m.safetensors.index.json", index, sizeof index - 1);
    test_quantize(0, NULL, NULL, "%s like.safetensors --scheme s8-group", in);
    test_quantize(0, NULL, NULL, "m.safetensors.index.json %s --scheme s8-group", out);
    expect_same_files(out, "s8-group");
}

TEST_MAIN(NULL, NULL)
