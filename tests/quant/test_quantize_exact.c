/* Values next to ties are quantized under scales of every significand, and every f16 and bf16
 * number is quantized. The kernels are those of CPU cores, with cached and with non-temporal
 * stores.
 * ctest: device rusticl_in_ci timeout=240 */
#include <math.h>
#include <stdlib.h>

#include "api/device/core.h"
#include "quant/number_formats.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/quant/quant_cases.h"
#include "tests/support/test_case.h"

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})

static const tdm_dtype code_dtypes[] = {TDM_S8, TDM_U8, TDM_S4};
static const tdm_dtype real_dtypes[] = {TDM_F32, TDM_F16, TDM_BF16};

/* ---- next to ties ---- */

/* Returns a value near the tie between two quantized values, at most three f32 steps from it. */
static float near_tie(test_random *random, int most, float scale) {
    float value = ((float)test_random_int(random, -most, most - 1) + 0.5f) * scale;
    const int away = (int)test_random_int(random, -3, 3);
    for (int step = 0; step < abs(away); step++)
        value = nextafterf(value, away < 0 ? -INFINITY : INFINITY);
    return value;
}

/* Some numbers saturate, and some are NaN or infinite. */
static void fill_near_ties(test_array *x, const quant_carrier *carrier, uint64_t seed) {
    static const float special[] = {NAN, INFINITY, -INFINITY, 3e38f, -3e38f, 0.0f};
    test_random random = {seed};
    for (int64_t i = 0; i < test_array_count(x); i++) {
        const float value = near_tie(&random, 300, quant_carrier_parameters(carrier, i).scale);
        const uint64_t which = test_random_bits(&random) % 96;
        test_array_put(x, i, (double)(which < 6 ? special[which] : value));
    }
    test_array_send(x);
}

/* Checks the dequantized values and, where there is a mask, that it marks the elements that did not
 * saturate. */
static void check_fake(const test_array *x, test_array *y, test_array *mask,
                       const quant_carrier *carrier) {
    const tdm_quant_range range = quant_full_range(carrier->codes.layout.dtype);
    test_array_fetch(y);
    if (mask)
        test_array_fetch(mask);
    for (int64_t i = 0; i < test_array_count(x); i++) {
        bool pass;
        const tdm_quant_parameters parameters = quant_carrier_parameters(carrier, i);
        const float value = (float)test_array_get(x, i);
        const float expected = tdm_quant_fake(value, parameters, range, &pass);
        if (!test_array_is_rounded(y, i, expected) ||
            (mask && test_array_fetched(mask, i) != (pass ? 1.0 : 0.0)))
            test_case_fail(
                "element %lld: %a by scale %a, zero point %d became %a, mask %g; not %a, "
                "mask %d",
                (long long)i, (double)value, (double)parameters.scale, parameters.zero_point,
                test_array_fetched(y, i), mask ? test_array_fetched(mask, i) : -1.0,
                (double)expected, pass);
    }
}

typedef struct exact_case {
    quant_case own;     /* `last`: one scale does not allow division by a reciprocal */
    tdm_dtype from, to; /* of fake quantization */
    test_placement mask;
} exact_case;

static void exact_codes(const test_device *device, const exact_case *c, uint64_t seed) {
    quant_carrier carrier;
    test_array x, y, mask;
    const op_shape *const shape = c->own.shape;
    tdm_stream *const stream = device->stream;
    quant_carrier_create(&carrier, device, c->own.codes, shape->rank, shape->shape, c->own.y,
                         c->own.sharing, c->own.scale, c->own.zero, TEST_DENSE);
    quant_carrier_fill_plain(&carrier, seed);
    if (c->own.last) {
        test_array_put(&carrier.scale, test_array_count(&carrier.scale) / 2,
                       c->own.scale == TDM_F16 ? 0.0 : 0x1p127);
        quant_carrier_send(&carrier);
    }
    test_array_create(&x, device, c->from, shape->rank, shape->shape, c->own.x);
    test_array_create(&y, device, c->to, shape->rank, shape->shape, c->own.y);
    test_array_create(&mask, device, TDM_U8, shape->rank, shape->shape, c->mask);
    fill_near_ties(&x, &carrier, seed + 1);
    for (int pass = 0; pass < 4; pass++) {
        test_array *const masked = pass % 2 ? &mask : NULL;
        test_array_send(&carrier.codes);
        test_array_send(&y);
        test_array_send(&mask);
        test_pass_caches(device, pass / 2);
        const tdm_status codes = tdm_tensor_quantize(stream, x.tensor, carrier.tensor);
        const tdm_status fake = tdm_tensor_fake_quantize(stream, x.tensor, carrier.tensor, y.tensor,
                                                         masked ? mask.tensor : NULL);
        test_pass_caches(device, false);
        TEST_OK(codes);
        TEST_OK(fake);
        quant_carrier_check_codes(&carrier, &x, quant_full_range(c->own.codes));
        check_fake(&x, &y, masked, &carrier);
    }
    test_array_destroy(&x);
    test_array_destroy(&y);
    test_array_destroy(&mask);
    quant_carrier_destroy(&carrier);
}

/* Rows and groups are whole cache lines, whole vectors or neither; others are strips of columns.
 * Along columns, tiles of rows end with a group, with a strip or with the matrix. Others have
 * groups of two outer dimensions, or rows that share parameters only with distant rows. */
static const struct {
    op_shape shape;
    quant_sharing sharing;
} forms[] = {
    {{2, {7, 530}}, SHARE_ALL},
    {{2, {67, 530}}, SHARE_ROWS},
    {{2, {67, 530}}, SHARE_COLUMNS},
    {{2, {67, 640}}, SHARE_VECTORS},
    {{2, {67, 530}}, SHARE_LAST_GROUPS},
    {{2, {7, 96}}, SHARE_VECTORS},
    {{2, {21, 32}}, SHARE_VECTORS},
    {{2, {21, 64}}, SHARE_ROWS},
    {{2, {9, 208}}, SHARE_ROWS},
    {{2, {9, 640}}, SHARE_COLUMNS},
    {{2, {6, 8304}}, SHARE_COLUMNS},
    {{2, {70, 530}}, SHARE_BANDS},
    {{2, {33, 8315}}, SHARE_BANDS},
    {{2, {70, 21}}, SHARE_BANDS},
    {{2, {70, 192}}, SHARE_BANDS},
    {{3, {70, 3, 96}}, SHARE_BANDS},
    {{2, {261, 80}}, SHARE_TALL_BANDS},
    {{2, {67, 530}}, SHARE_FIRST_GROUPS},
    {{3, {9, 37, 96}}, SHARE_FIRST_GROUPS},
    {{3, {9, 37, 96}}, SHARE_FIRST},
};

/* Tests each form with results of each type; everything else is drawn at random. */
DEVICE_TEST(codes_next_to_ties) {
    static const tdm_dtype zeros[] = {TDM_DTYPE_NONE, TDM_S32};
    static const test_placement placements[] = {TEST_DENSE, TEST_DENSE, TEST_PADDED, TEST_OFFSET,
                                                TEST_TRANSPOSED};
    const int count = (int)(sizeof forms / sizeof *forms);
    test_random random = {20261129};
    for (int i = 0; i < 3 * count; i++) {
        const exact_case c = {.own = {.shape = &forms[i / 3].shape,
                                      .sharing = forms[i / 3].sharing,
                                      .codes = code_dtypes[test_random_int(&random, 0, 2)],
                                      .scale = real_dtypes[test_random_int(&random, 0, 2)],
                                      .zero = zeros[test_random_int(&random, 0, 1)],
                                      .x = placements[test_random_int(&random, 0, 4)],
                                      .y = placements[test_random_int(&random, 0, 2)],
                                      .last = test_random_int(&random, 0, 3) == 0},
                              .from = real_dtypes[test_random_int(&random, 0, 2)],
                              .to = real_dtypes[i % 3],
                              .mask = placements[test_random_int(&random, 0, 3)]};
        if (!test_is_small() || (i + i / 3) % 3 == 0)
            exact_codes(device, &c, 100 + (uint64_t)i);
    }
}

/* In each run of `group` elements, the first is 127 times a scale. The others are next to ties of
 * that scale, or have no quantized value. Some runs are so small that a product in the kernel would
 * underflow. The neighbouring runs do not reveal this. */
static void fill_near_derived_ties(test_array *x, int64_t group, uint64_t seed) {
    test_random random = {seed};
    float scale = 1.0f;
    for (int64_t i = 0; i < test_array_count(x); i++) {
        if (i % group == 0)
            scale = (1.0f + (float)test_random_int(&random, 0, (1 << 23) - 1) * 0x1p-23f) *
                    (i / group % 64 == 3 ? 0x1p-124f : 1.0f);
        const float value = near_tie(&random, 127, scale);
        const bool odd = i / group % 3 == 1 && i % group % 11 == 5;
        test_array_put(x, i,
                       i % group == 0 ? 127.0 * (double)scale
                       : odd          ? (i % 2 == 0 ? NAN : -INFINITY)
                                      : (double)value);
    }
    test_array_send(x);
}

/* Quantizes x by its range and checks the results. */
static void derive_and_check(const test_device *device, const test_array *x, quant_sharing sharing,
                             tdm_dtype codes, test_placement placement) {
    quant_carrier carrier;
    quant_carrier_create(&carrier, device, codes, 2, x->layout.shape, placement, sharing, TDM_F32,
                         codes == TDM_U8 ? TDM_U8 : TDM_DTYPE_NONE, TEST_DENSE);
    quant_carrier_send(&carrier);
    TEST_OK(tdm_tensor_quantize_minmax(device->stream, x->tensor, carrier.tensor));
    quant_carrier_check_derived(&carrier, x);
    quant_carrier_destroy(&carrier);
}

DEVICE_TEST(dynamic_codes_next_to_ties) {
    static const quant_sharing sharings[] = {SHARE_ROWS, SHARE_VECTORS, SHARE_ALL};
    static const tdm_dtype dequantized[] = {TDM_F32, TDM_BF16, TDM_F32, TDM_F16};
    for (int i = 0; i < 24; i++) {
        const bool vectors = sharings[i % 3] == SHARE_VECTORS;
        const int64_t *const shape = DIMS(test_is_small() ? 5 : 67, vectors ? 640 : 530);
        test_array x;
        test_array_create(&x, device, dequantized[i % 4], 2, shape, TEST_DENSE);
        fill_near_derived_ties(&x, vectors ? 32 : 530, 91);
        test_pass_caches(device, i >= 12);
        derive_and_check(device, &x, sharings[i % 3], code_dtypes[i / 3 % 3], TEST_DENSE);
        test_pass_caches(device, false);
        test_array_destroy(&x);
    }
}

/* ---- every f16 and bf16 number, which CPU cores quantize by two multiplications ---- */

#define GROUP 32 /* of SHARE_VECTORS */

/* The first significands give wrong quantized values when multiplied by the rounded reciprocal
 * without a correction term. One puts the reciprocal's remainder next to a tie. The others are
 * powers of two, which have no remainder, and scales that need a division. */
static const double scales[] = {0x1.755556p-7, 0x1.aaaaacp+2,  0x1.cccccep-5, 0x1.e66664p+1,
                                0x1.fffffep+0, 0x1.fffffep-9,  1.0,           0x1p-24,
                                0x1.fffffep+7, 0x1.8p-59,      0x1.5p+59,     0x1p-60,
                                0x1p-61,       0x1.755556p-60, 0.0,           0x1.aaaaacp-14};
enum {
    SCALES = sizeof scales / sizeof *scales
};

/* Returns the number of 16-bit numbers to test. Slow drivers test only one of 31. */
static int64_t halves(void) {
    return test_is_small() ? 65536 / 31 / GROUP * GROUP : 65536;
}

static double half_at(tdm_dtype dequantized, int64_t half) {
    const uint16_t bits = (uint16_t)(test_is_small() ? half * 31 + 15 : half);
    return (double)(dequantized == TDM_F16 ? tdm_f32_from_f16(bits) : tdm_f32_from_bf16(bits));
}

/*
 * Quantizes all 16-bit numbers with scale number `s`. If the columns have own parameters, each
 * column has all numbers and a scale of its own.
 */
static void codes_of_halves(const test_device *device, tdm_dtype dequantized, tdm_dtype codes,
                            quant_sharing sharing, int s) {
    const bool columns = sharing == SHARE_COLUMNS;
    const int64_t width = columns ? 4 * SCALES : sharing == SHARE_VECTORS ? GROUP : 64;
    const int64_t *shape = DIMS(columns ? halves() : halves() / width, width);
    quant_carrier carrier;
    test_array x;
    quant_carrier_create(&carrier, device, codes, 2, shape, s % 2 ? TEST_PADDED : TEST_DENSE,
                         sharing, TDM_F32, codes == TDM_U8 ? TDM_U8 : TDM_DTYPE_NONE, TEST_DENSE);
    for (int64_t i = 0; i < test_array_count(&carrier.scale); i++) {
        test_array_put(&carrier.scale, i, scales[columns ? i % SCALES : s]);
        if (carrier.has_zero)
            test_array_put(&carrier.zero, i, (double)(s * 83 % 256));
    }
    quant_carrier_send(&carrier);
    test_array_create(&x, device, dequantized, 2, shape, TEST_DENSE);
    for (int64_t i = 0; i < test_array_count(&x); i++)
        test_array_put(&x, i, half_at(dequantized, columns ? i / width : i));
    test_array_send(&x);
    TEST_OK(tdm_tensor_quantize(device->stream, x.tensor, carrier.tensor));
    quant_carrier_check_codes(&carrier, &x, quant_full_range(codes));
    test_array_destroy(&x);
    quant_carrier_destroy(&carrier);
}

DEVICE_TEST(codes_of_all_halves) {
    static const quant_sharing sharings[] = {SHARE_ALL, SHARE_ROWS, SHARE_VECTORS};
    for (int s = 0; s < SCALES; s++) {
        codes_of_halves(device, TDM_F16, code_dtypes[s % 3], sharings[s / 3 % 3], s);
        codes_of_halves(device, TDM_BF16, code_dtypes[s % 3], sharings[(s + 1) / 3 % 3], s);
    }
    codes_of_halves(device, TDM_F16, TDM_S8, SHARE_COLUMNS, 0);
    codes_of_halves(device, TDM_BF16, TDM_U8, SHARE_COLUMNS, 1);
}

/* Quantizes groups of `group` neighbouring numbers. They have one sign and nearly one size unless
 * `mixed` is set. */
static void ranges_of_halves(const test_device *device, tdm_dtype dequantized, tdm_dtype codes,
                             quant_sharing sharing, test_placement placement, int64_t group,
                             bool mixed) {
    test_array x;
    test_array_create(&x, device, dequantized, 2, DIMS(halves() / group, group), TEST_DENSE);
    for (int64_t i = 0; i < test_array_count(&x); i++)
        test_array_put(&x, i, half_at(dequantized, mixed ? (i * 40503 + i / group) % halves() : i));
    test_array_send(&x);
    derive_and_check(device, &x, sharing, codes, placement);
    test_array_destroy(&x);
}

/*
 * Kernels that write whole cache lines of quantized values must not write into the gaps between
 * padded rows.
 */
DEVICE_TEST(ranges_of_all_halves) {
    for (int i = 0; i < 8; i++) {
        const tdm_dtype dequantized = i / 2 % 2 == 0 ? TDM_F16 : TDM_BF16;
        ranges_of_halves(device, dequantized, code_dtypes[i % 2], SHARE_VECTORS,
                         i >= 4 ? TEST_PADDED : TEST_DENSE, GROUP, i >= 4);
        ranges_of_halves(device, dequantized, code_dtypes[i % 2], SHARE_ROWS,
                         i % 2 ? TEST_PADDED : TEST_DENSE, i >= 4 ? 4 * GROUP : 480, i >= 4);
    }
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
