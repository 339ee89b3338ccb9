/* Whole tensors on the host are compared with the formulas of one element, for every granularity
 * and dtype. The tests also cover blocks of files, bytes that must stay untouched, and the error
 * measures. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "quant/error_measures.h"
#include "quant/number_formats.h"
#include "quant/quant_blocks.h"
#include "quant/quant_reference.h"
#include "tests/support/test_case.h"
#include "tests/support/test_data.h"

enum {
    COLUMNS = 1101, /* odd, not a multiple of groups, more than the functions process at once */
    ELEMENTS = 2 * 3 * COLUMNS,
    GUARD = 0xa5
};

static const int64_t all_blocks[][3] = {{0, 0, 0}, {1, 0, 0},  {0, 1, 0},  {0, 0, 1},
                                        {1, 1, 0}, {1, 1, 32}, {1, 2, 64}, {2, 3, 600}};
static const tdm_dtype floats[] = {TDM_F32, TDM_F16, TDM_BF16};

static const struct {
    tdm_dtype dtype;
    tdm_quant_range range;
    tdm_quant_symmetry symmetry;
} kinds[] = {
    {TDM_S8, {-127, 127}, TDM_QUANT_SYMMETRIC}, {TDM_S8, {-128, 127}, TDM_QUANT_ASYMMETRIC},
    {TDM_U8, {0, 255}, TDM_QUANT_ASYMMETRIC},   {TDM_U8, {0, 255}, TDM_QUANT_SYMMETRIC},
    {TDM_S4, {-7, 7}, TDM_QUANT_SYMMETRIC},     {TDM_S4, {-8, 7}, TDM_QUANT_ASYMMETRIC},
};

typedef struct tensor_case {
    tdm_quant_spec spec;
    tdm_quant_symmetry symmetry;
    tdm_dtype dtype;
    unsigned char x[ELEMENTS * 4]; /* in the dtype */
    float scales[ELEMENTS];
    int32_t zero_points[ELEMENTS];
    uint8_t quants[ELEMENTS + 1];
} tensor_case;

static int64_t scale_of(const tdm_quant_spec *spec, int64_t element) {
    const int64_t at[3] = {element / (3 * COLUMNS), element / COLUMNS % 3, element % COLUMNS};
    return tdm_quant_scale_index(spec, at);
}

static tdm_quant_parameters parameters_of(const tensor_case *c, int64_t element) {
    const int64_t s = scale_of(&c->spec, element);
    return (tdm_quant_parameters){c->scales[s], c->zero_points[s]};
}

/* Derives parameters from the least and the greatest finite element of each block and 0. */
static void expect_dynamic(const tensor_case *c) {
    static tdm_quant_bounds expected[ELEMENTS], bounds[ELEMENTS];
    memset(expected, 0, sizeof expected);
    for (int64_t e = 0; e < ELEMENTS; e++) {
        tdm_quant_bounds *const own = &expected[scale_of(&c->spec, e)];
        const float x = (float)tdm_number_get(c->dtype, c->x, (size_t)e);
        if (isfinite(x))
            *own = (tdm_quant_bounds){fminf(own->minimum, x), fmaxf(own->maximum, x)};
    }
    tdm_quant_ranges_tensor(&c->spec, c->dtype, c->x, bounds);
    for (int64_t s = 0; s < tdm_quant_scale_count(&c->spec); s++) {
        const tdm_quant_parameters p = tdm_quant_derive(c->symmetry, expected[s], c->spec.range);
        assert_true(c->scales[s] == p.scale);
        assert_int_equal(c->zero_points[s], p.zero_point);
        assert_true(fminf(bounds[s].minimum, 0.0f) == expected[s].minimum);
        assert_true(fmaxf(bounds[s].maximum, 0.0f) == expected[s].maximum);
    }
    for (int64_t e = 0; e < ELEMENTS; e++) {
        const float x = (float)tdm_number_get(c->dtype, c->x, (size_t)e);
        assert_int_equal(tdm_quant_get(c->spec.dtype, c->quants, e),
                         tdm_quant_quantize(x, parameters_of(c, e), c->spec.range));
    }
}

static void expect_dequantized(const tensor_case *c) {
    static unsigned char y[ELEMENTS * 4 + 1], expected[ELEMENTS * 4];
    memset(y, GUARD, sizeof y);
    tdm_quant_dequantize_tensor(&c->spec, c->quants, c->scales, c->zero_points, c->dtype, y);
    for (int64_t e = 0; e < ELEMENTS; e++) {
        const int32_t code = tdm_quant_get(c->spec.dtype, c->quants, e);
        const float value = tdm_quant_dequantize(code, parameters_of(c, e));
        tdm_number_set(c->dtype, expected, (size_t)e, (double)value);
    }
    const size_t bytes = ELEMENTS * (c->dtype == TDM_F32 ? 4u : 2u);
    assert_memory_equal(y, expected, bytes);
    assert_int_equal(y[bytes], GUARD);
}

/* Tests numbers up to twice the range of the parameters, so that both values of the mask occur. */
static void expect_fake(const tensor_case *c) {
    static unsigned char wide[ELEMENTS * 4], y[ELEMENTS * 4], expected[ELEMENTS * 4];
    static uint8_t mask[ELEMENTS];
    int passed = 0;
    for (size_t e = 0; e < ELEMENTS; e++)
        tdm_number_set(c->dtype, wide, e, 2 * tdm_number_get(c->dtype, c->x, e));
    tdm_quant_fake_tensor(&c->spec, c->dtype, wide, c->scales, c->zero_points, y, mask);
    for (int64_t e = 0; e < ELEMENTS; e++) {
        bool pass;
        const float x = (float)tdm_number_get(c->dtype, wide, (size_t)e);
        const float fake = tdm_quant_fake(x, parameters_of(c, e), c->spec.range, &pass);
        tdm_number_set(c->dtype, expected, (size_t)e, (double)fake);
        assert_int_equal(mask[e], pass);
        passed += pass;
    }
    assert_memory_equal(y, expected, ELEMENTS * (c->dtype == TDM_F32 ? 4u : 2u));
    assert_true(passed > 0 && passed < ELEMENTS);
    memset(y, GUARD, sizeof y);
    tdm_quant_fake_tensor(&c->spec, c->dtype, wide, c->scales, c->zero_points, y, NULL);
    assert_memory_equal(y, expected, ELEMENTS * (c->dtype == TDM_F32 ? 4u : 2u));
}

TEST(test_every_granularity_kind_and_dtype) {
    static tensor_case c;
    for (uint64_t i = 0; i < 8 * 6 * 3; i++) {
        c.symmetry = kinds[i / 3 % 6].symmetry;
        c.dtype = floats[i % 3];
        c.spec = (tdm_quant_spec){.rank = 3,
                                  .shape = {2, 3, COLUMNS},
                                  .dtype = kinds[i / 3 % 6].dtype,
                                  .range = kinds[i / 3 % 6].range};
        memcpy(c.spec.blocks, all_blocks[i / 18], sizeof all_blocks[i / 18]);
        memset(c.quants, GUARD, sizeof c.quants);
        test_data_fill(c.dtype, c.x, ELEMENTS, TEST_DATA_WIDE, 17 + i);
        tdm_number_set(c.dtype, c.x, 3, (double)NAN);
        tdm_number_set(c.dtype, c.x, 70, HUGE_VAL);
        tdm_number_set(c.dtype, c.x, ELEMENTS - 1, -HUGE_VAL);
        tdm_quant_dynamic_tensor(&c.spec, c.symmetry, c.dtype, c.x, c.scales, c.zero_points,
                                 c.quants);
        expect_dynamic(&c);
        expect_dequantized(&c);
        expect_fake(&c);
        assert_int_equal(c.quants[c.spec.dtype == TDM_S4 ? ELEMENTS / 2 : ELEMENTS], GUARD);
    }
}

TEST(test_requantize_tensor) {
    const tdm_quant_spec spec = {
        .rank = 2, .shape = {3, 4}, .blocks = {0, 1}, .dtype = TDM_U8, .range = {0, 255}};
    const int32_t sums[12] = {0, 1, 3, -5, 100, -100, 7, INT32_MIN, INT32_MAX, 5, 513, 0};
    const float multipliers[4] = {0.5f, 0.25f, 1.0f, 0.0f};
    const int32_t zero_points[4] = {0, 128, 255, 9};
    /* For example, 0.25 is rounded to 0, 3 + 255 saturates, and -25 + 128 is 103. */
    const uint8_t expected[12] = {0, 128, 255, 9, 50, 103, 255, 9, 255, 129, 255, 9};
    uint8_t quants[12];
    tdm_quant_requantize_tensor(&spec, sums, multipliers, zero_points, quants);
    for (int i = 0; i < 12; i++)
        assert_int_equal(quants[i], expected[i]);
}

TEST(test_ranges_and_absent_zero_points) {
    const tdm_quant_spec spec = {
        .rank = 2, .shape = {3, 3}, .blocks = {1, 0}, .dtype = TDM_S8, .range = {-127, 127}};
    const float x[9] = {2.0f, 5.0f, 3.0f, NAN, HUGE_VALF, NAN, -1.0f, 0.5f, -HUGE_VALF};
    tdm_quant_bounds bounds[3];
    tdm_quant_ranges_tensor(&spec, TDM_F32, x, bounds);
    assert_true(bounds[0].minimum == 2.0f && bounds[0].maximum == 5.0f);
    assert_true(bounds[1].minimum == 0.0f && bounds[1].maximum == 0.0f);
    assert_true(bounds[2].minimum == -1.0f && bounds[2].maximum == 0.5f);
    float scales[3];
    int8_t quants[9];
    const int8_t expected[9] = {51, 127, 76, 0, 0, 0, -127, 64, -127};
    tdm_quant_dynamic_tensor(&spec, TDM_QUANT_SYMMETRIC, TDM_F32, x, scales, NULL, quants);
    assert_memory_equal(quants, expected, sizeof expected);
    assert_true(scales[1] == 0.0f);
    memset(quants, 0, sizeof quants);
    tdm_quant_quantize_tensor(&spec, TDM_F32, x, scales, NULL, quants);
    assert_memory_equal(quants, expected, sizeof expected);
}

TEST(test_empty_tensors) {
    const tdm_quant_spec spec = {
        .rank = 2, .shape = {0, 3}, .blocks = {1, 0}, .dtype = TDM_S4, .range = {-7, 7}};
    float number = 1.0f;
    uint8_t byte = GUARD;
    assert_int_equal(tdm_quant_scale_count(&spec), 0);
    tdm_quant_dynamic_tensor(&spec, TDM_QUANT_SYMMETRIC, TDM_F32, &number, &number, NULL, &byte);
    tdm_quant_dequantize_tensor(&spec, &byte, &number, NULL, TDM_F32, &number);
    assert_int_equal(byte, GUARD);
    assert_true(number == 1.0f);
}

TEST(test_parameters_that_are_refused) {
    const tdm_quant_range range = {-8, 7};
    tdm_quant_reason reason;
    static const float bad[] = {NAN, HUGE_VALF, -HUGE_VALF, 0x1p-127f, -0x1p-149f};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const tdm_quant_parameters p = {bad[i], 0};
        assert_false(tdm_quant_parameters_check(p, range, 4, &reason));
        assert_non_null(strstr(reason.text, "scale 4 is"));
    }
    for (int32_t zero = -10; zero <= 10; zero++) {
        const tdm_quant_parameters p = {-0.5f, zero};
        assert_int_equal(tdm_quant_parameters_check(p, range, 0, &reason), zero >= -8 && zero <= 7);
    }
    const tdm_quant_bounds reach = tdm_quant_reach((tdm_quant_parameters){0.5f, 3}, range);
    assert_true(reach.minimum == -5.5f && reach.maximum == 2.0f);
    assert_true(tdm_quant_multiplier(0.5f, 0.25f, 2.0f) == 0.0625f);
    assert_true(tdm_quant_multiplier(0.5f, 0.25f, 0.0f) == 0.0f);
}

/* Without numbers the search returns an empty range. A threshold clips the range only to the extent
 * of the data. */
TEST(test_ends_of_the_search) {
    const float x[] = {0.1f, 0.5f, NAN, 1.0f, 0.3f};
    const tdm_quant_range range = {-7, 7};
    tdm_quant_bounds found = tdm_quant_search_mse(TDM_QUANT_ASYMMETRIC, x, 0, range);
    assert_true(found.minimum == 0.0f && found.maximum == 0.0f);
    found = tdm_quant_search_mse(TDM_QUANT_SYMMETRIC, x, 5, range);
    assert_true(found.minimum == 0.0f && found.maximum > 0.5f && found.maximum <= 1.0f);
}

/*
 * The widest of equal candidates is chosen. A candidate with a scale of 0 has no error sum and is
 * never chosen.
 */
TEST(test_the_widest_of_the_best) {
    tdm_quant_parameters candidates[TDM_QUANT_MSE_CANDIDATES];
    double errors[TDM_QUANT_MSE_CANDIDATES];
    for (int c = 0; c < TDM_QUANT_MSE_CANDIDATES; c++) {
        candidates[c] = (tdm_quant_parameters){c < 40 ? (float)(100 - c) : 0.0f, 0};
        errors[c] = c < 40 ? 3.0 + fabs(c - 7.5) : 0.0;
    }
    assert_int_equal(tdm_quant_mse_best(candidates, errors), 7);
    candidates[0].scale = 0.0f;
    candidates[1].scale = 0.0f;
    assert_int_equal(tdm_quant_mse_best(candidates, errors), 0);
    /* The narrowest ranges of such data have scales that are 0. */
    static float x[16];
    const tdm_quant_range range = {-7, 7};
    for (int i = 0; i < 16; i++)
        x[i] = (float)(i - 8) * 0x1p-122f;
    const tdm_quant_bounds found = tdm_quant_search_mse(TDM_QUANT_SYMMETRIC, x, 16, range);
    assert_true(found.maximum >= 0x1p-120f);
}

TEST(test_the_last_nibble_is_cleared) {
    const tdm_quant_spec spec = {
        .rank = 1, .shape = {5}, .blocks = {0}, .dtype = TDM_S4, .range = {-7, 7}};
    const float x[5] = {1, 2, 3, -1, -2}, scale = 1.0f;
    uint8_t quants[4];
    memset(quants, GUARD, sizeof quants);
    tdm_quant_quantize_tensor(&spec, TDM_F32, x, &scale, NULL, quants);
    const uint8_t expected[4] = {0x21, 0xf3, 0x0e, GUARD};
    assert_memory_equal(quants, expected, sizeof expected);
}

TEST(test_blocks_split_and_join) {
    enum {
        BLOCKS = 5
    };
    uint8_t q8[BLOCKS * TDM_QUANT_Q8_0_BYTES], q4[BLOCKS * TDM_QUANT_Q4_0_BYTES];
    uint8_t back8[sizeof q8], back4[sizeof q4], nibbles[BLOCKS * 16];
    uint16_t scales[BLOCKS];
    int8_t quants[BLOCKS * 32];
    float x[BLOCKS * 32];
    test_random random = {4};
    for (size_t i = 0; i < sizeof q8; i++)
        q8[i] = (uint8_t)test_random_bits(&random);
    for (size_t i = 0; i < sizeof q4; i++)
        q4[i] = (uint8_t)test_random_bits(&random);
    for (int b = 0; b < BLOCKS; b++) {
        // The scales are finite, so that numbers can be compared.
        q8[b * TDM_QUANT_Q8_0_BYTES + 1] &= 0x3f;
        q4[b * TDM_QUANT_Q4_0_BYTES + 1] &= 0x3f;
    }
    tdm_quant_q8_0_split(q8, BLOCKS, scales, quants);
    tdm_quant_q8_0_decode(q8, BLOCKS, x);
    for (int i = 0; i < BLOCKS * 32; i++) {
        const tdm_quant_parameters p = {tdm_f32_from_f16(scales[i / 32]), 0};
        assert_true(x[i] == tdm_quant_dequantize(quants[i], p));
    }
    tdm_quant_q8_0_join(scales, quants, BLOCKS, back8);
    assert_memory_equal(back8, q8, sizeof q8);
    tdm_quant_q4_0_split(q4, BLOCKS, scales, nibbles);
    tdm_quant_q4_0_decode(q4, BLOCKS, x);
    for (int i = 0; i < BLOCKS * 32; i++) {
        const tdm_quant_parameters p = {tdm_f32_from_f16(scales[i / 32]), 0};
        assert_true(x[i] == tdm_quant_dequantize(tdm_quant_get(TDM_S4, nibbles, i), p));
    }
    tdm_quant_q4_0_join(scales, nibbles, BLOCKS, back4);
    assert_memory_equal(back4, q4, sizeof q4);
}

TEST(test_blocks_that_cannot_be_encoded) {
    static const float bad[] = {NAN, HUGE_VALF, -HUGE_VALF, FLT_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        float x[3 * 32] = {0};
        uint8_t q8[3 * TDM_QUANT_Q8_0_BYTES], q4[3 * TDM_QUANT_Q4_0_BYTES];
        memset(q8, GUARD, sizeof q8);
        memset(q4, GUARD, sizeof q4);
        x[32 + 31] = bad[i];
        assert_int_equal(tdm_quant_q8_0_encode(x, 3, q8), 1);
        assert_int_equal(tdm_quant_q4_0_encode(x, 3, q4), 1);
        assert_int_equal(q8[TDM_QUANT_Q8_0_BYTES], GUARD);
        assert_int_equal(q4[TDM_QUANT_Q4_0_BYTES], GUARD);
        assert_int_equal(tdm_quant_q8_0_encode(x, 0, q8), 0);
    }
}

/* ---- error measures -------------------------------------------------------------------------- */

static void expect_near(double actual, double expected, double tolerance) {
    if (!(fabs(actual - expected) <= tolerance * fabs(expected)))
        fail_msg("%.9g, expected %.9g", actual, expected);
}

TEST(test_measures) {
    const float x[] = {1.0f, -2.0f, 3.0f, NAN, 4.0f, HUGE_VALF};
    const float y[] = {1.5f, -2.0f, 2.0f, 1.0f, NAN, 0.0f};
    tdm_quant_error error = {0};
    tdm_quant_error_add(&error, x, y, 6);
    assert_int_equal(error.pairs, 3);
    assert_int_equal(error.nonfinite, 3);
    assert_true(error.max_error == 1.0);
    expect_near(tdm_quant_error_nmse(&error), 1.25 / 14, 1e-15);
    expect_near(tdm_quant_error_sqnr(&error), 10 * log10(14 / 1.25), 1e-15);
    expect_near(tdm_quant_error_cosine(&error), 11.5 / sqrt(14 * 10.25), 1e-15);
    expect_near(tdm_quant_error_rms(&error), sqrt(1.25 / 3), 1e-15);
}

TEST(test_measures_without_noise_or_signal) {
    const float zero[2] = {0.0f, 0.0f}, one[2] = {1.0f, 0.0f};
    tdm_quant_error nothing = {0}, exact = {0}, noise_only = {0}, lost = {0};
    tdm_quant_error_add(&exact, one, one, 2);
    tdm_quant_error_add(&noise_only, zero, one, 2);
    tdm_quant_error_add(&lost, one, zero, 2);
    assert_true(tdm_quant_error_nmse(&nothing) == 0.0 && tdm_quant_error_nmse(&exact) == 0.0);
    assert_true(tdm_quant_error_nmse(&lost) == 1.0 && isinf(tdm_quant_error_nmse(&noise_only)));
    assert_true(tdm_quant_error_sqnr(&nothing) == HUGE_VAL);
    assert_true(tdm_quant_error_sqnr(&exact) == HUGE_VAL);
    assert_true(tdm_quant_error_sqnr(&noise_only) == -HUGE_VAL);
    assert_true(tdm_quant_error_sqnr(&lost) == 0.0);
    assert_true(tdm_quant_error_cosine(&nothing) == 1.0 && tdm_quant_error_cosine(&exact) == 1.0);
    assert_true(tdm_quant_error_cosine(&noise_only) == 0.0 && tdm_quant_error_cosine(&lost) == 0.0);
    assert_true(tdm_quant_error_rms(&nothing) == 0.0);
}

TEST(test_measures_merge) {
    float x[1000], y[1000];
    tdm_quant_error whole = {0}, first = {0}, second = {0};
    test_data_fill(TDM_F32, x, 1000, TEST_DATA_WIDE, 1);
    test_data_fill(TDM_F32, y, 1000, TEST_DATA_WIDE, 2);
    x[999] = NAN;
    tdm_quant_error_add(&whole, x, y, 1000);
    tdm_quant_error_add(&first, x, y, 137);
    tdm_quant_error_add(&second, x + 137, y + 137, 863);
    tdm_quant_error_merge(&first, &second);
    assert_int_equal(first.pairs, 999);
    assert_int_equal(first.nonfinite, 1);
    assert_true(first.max_error == whole.max_error);
    expect_near(tdm_quant_error_nmse(&first), tdm_quant_error_nmse(&whole), 1e-12);
    expect_near(tdm_quant_error_cosine(&first), tdm_quant_error_cosine(&whole), 1e-12);
    expect_near(tdm_quant_error_rms(&first), tdm_quant_error_rms(&whole), 1e-12);
}

TEST_MAIN(NULL, NULL)
