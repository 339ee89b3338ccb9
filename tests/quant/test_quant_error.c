/* The error measures, and the error of quantization itself: what formats lose on random data must be
 * what theory says, no less and no more. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "quant/error_measures.h"
#include "quant/number_formats.h"
#include "quant/quant_blocks.h"
#include "quant/quant_reference.h"
#include "tests/support/quant/quant_theory.h"

static void expect_near(double actual, double expected, double tolerance) {
    if (!(fabs(actual - expected) <= tolerance * fabs(expected))) {
        fail_msg("%.9g, expected %.9g", actual, expected);
    }
}

static void test_measures(void **state) {
    (void)state;
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

static void test_measures_without_noise_or_signal(void **state) {
    (void)state;
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

static void test_measures_merge(void **state) {
    (void)state;
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

/* ---- what theory says --------------------------------------------------------------------- */

static void expect_nmse(const char *what, double actual, double theory) {
    if (!(actual <= 1.2 * theory && actual >= theory / 1.2)) {
        fail_msg("%s: the NMSE is %.3e, %.3f of the theory's %.3e", what, actual, actual / theory,
                 theory);
    }
}

/* ---- products of matrices ----------------------------------------------------------------- */

enum {
    ROWS = 96,
    DEPTH = 256
};

static float a[ROWS * DEPTH], b[ROWS * DEPTH], a_back[ROWS * DEPTH], b_back[ROWS * DEPTH];

static void draw_operands(quant_distribution kind) {
    test_random random = {20240611};
    for (int i = 0; i < ROWS * DEPTH; i++) {
        a[i] = (float)quant_draw(&random, kind);
        b[i] = (float)quant_draw(&random, kind);
    }
}

/* NMSE of all dot products of rows of a and b. */
static double nmse_of_products(void) {
    tdm_quant_error error = {0};
    for (int i = 0; i < ROWS; i++) {
        for (int j = 0; j < ROWS; j++) {
            double exact = 0.0, rounded = 0.0;
            for (int k = 0; k < DEPTH; k++) {
                exact += (double)a[i * DEPTH + k] * (double)b[j * DEPTH + k];
                rounded += (double)a_back[i * DEPTH + k] * (double)b_back[j * DEPTH + k];
            }
            const float reference = (float)exact, approximation = (float)rounded;
            tdm_quant_error_add(&error, &reference, &approximation, 1);
        }
    }
    return tdm_quant_error_nmse(&error);
}

static double nmse_of(const float *reference, const float *approximation) {
    tdm_quant_error error = {0};
    tdm_quant_error_add(&error, reference, approximation, ROWS * DEPTH);
    return tdm_quant_error_nmse(&error);
}

static void round_trip(const tdm_quant_scheme *scheme, int axis, const float *x, float *back) {
    static float scales[ROWS * DEPTH];
    static int32_t zero_points[ROWS * DEPTH];
    static uint8_t quants[ROWS * DEPTH];
    const int64_t shape[2] = {ROWS, DEPTH};
    tdm_quant_spec spec;
    assert_int_equal(tdm_quant_spec_make(scheme, 2, shape, axis, 0, &spec, NULL), TDM_OK);
    tdm_quant_dynamic_tensor(&spec, scheme->symmetry, TDM_F32, x, scales, zero_points, quants);
    tdm_quant_dequantize_tensor(&spec, quants, scales, zero_points, TDM_F32, back);
}

static void test_s8_rows_times_s8_channels(void **state) {
    (void)state;
    const tdm_quant_scheme *const scheme = tdm_quant_scheme_info(TDM_QUANT_S8_CHANNEL);
    for (quant_distribution kind = QUANT_GAUSSIAN; kind <= QUANT_UNIFORM; kind++) {
        draw_operands(kind);
        round_trip(scheme, 0, a, a_back);
        round_trip(scheme, 0, b, b_back);
        const double nmse = nmse_of_products();
        expect_nmse("s8 x s8", nmse, 2 * quant_theory_of_steps(kind, DEPTH, 127));
        if (kind == QUANT_UNIFORM) {
            expect_nmse("s8 x s8, figure of the literature", nmse, 3e-5);
        }
    }
}

static void test_s4_groups_and_blocks(void **state) {
    (void)state;
    static uint8_t q8_0[ROWS * DEPTH / 32 * TDM_QUANT_Q8_0_BYTES];
    static uint8_t q4_0[ROWS * DEPTH / 32 * TDM_QUANT_Q4_0_BYTES];
    const size_t blocks = ROWS * DEPTH / 32;
    for (quant_distribution kind = QUANT_GAUSSIAN; kind <= QUANT_UNIFORM; kind++) {
        draw_operands(kind);
        round_trip(tdm_quant_scheme_info(TDM_QUANT_S4_GROUP), 1, a, a_back);
        expect_nmse("s4", nmse_of(a, a_back), quant_theory_of_steps(kind, 32, 7));
        assert_int_equal(tdm_quant_q8_0_encode(a, blocks, q8_0), blocks);
        tdm_quant_q8_0_decode(q8_0, blocks, a_back);
        expect_nmse("q8_0", nmse_of(a, a_back), quant_theory_of_steps(kind, 32, 127));
        assert_int_equal(tdm_quant_q4_0_encode(a, blocks, q4_0), blocks);
        tdm_quant_q4_0_decode(q4_0, blocks, a_back);
        expect_nmse("q4_0", nmse_of(a, a_back), quant_theory_of_steps(kind, 32, 8));
        round_trip(tdm_quant_scheme_info(TDM_QUANT_S8_CHANNEL), 0, b, b_back);
        if (kind == QUANT_UNIFORM) {
            expect_nmse("q4_0 x s8, figure of the literature", nmse_of_products(), 4e-3);
        }
    }
}

static void test_f16_products(void **state) {
    (void)state;
    for (quant_distribution kind = QUANT_GAUSSIAN; kind <= QUANT_UNIFORM; kind++) {
        draw_operands(kind);
        for (int i = 0; i < ROWS * DEPTH; i++) {
            a_back[i] = tdm_f32_from_f16(tdm_quant_narrow(TDM_F16, a[i], false));
            b_back[i] = tdm_f32_from_f16(tdm_quant_narrow(TDM_F16, b[i], false));
        }
        const double nmse = nmse_of_products();
        expect_nmse("f16 x f16", nmse, 2 * quant_theory_of_f16(kind));
        if (kind == QUANT_UNIFORM) {
            expect_nmse("f16 x f16, figure of the literature", nmse, 7e-8);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_measures),
        cmocka_unit_test(test_measures_without_noise_or_signal),
        cmocka_unit_test(test_measures_merge),
        cmocka_unit_test(test_s8_rows_times_s8_channels),
        cmocka_unit_test(test_s4_groups_and_blocks),
        cmocka_unit_test(test_f16_products),
    };
    return cmocka_run_group_tests_name("quantization error", tests, NULL, NULL);
}
