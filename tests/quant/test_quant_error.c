/* The error measures, and the error of quantization itself: what formats lose on random data must be
 * what theory says, no less and no more. Of products of s8 and of f16, test_gemm_nmse asks the same. */
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
    if (!(fabs(actual - expected) <= tolerance * fabs(expected)))
        fail_msg("%.9g, expected %.9g", actual, expected);
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

enum {
    ROWS = 96,
    DEPTH = 256,
    BLOCKS = ROWS * DEPTH / 32
};

static float x[ROWS * DEPTH], back[ROWS * DEPTH];

static void expect_nmse(const char *what, double theory) {
    tdm_quant_error error = {0};
    tdm_quant_error_add(&error, x, back, ROWS * DEPTH);
    const double actual = tdm_quant_error_nmse(&error);
    if (!(actual <= 1.2 * theory && actual >= theory / 1.2))
        fail_msg("%s: the NMSE is %.3e, %.3f of the theory's %.3e", what, actual, actual / theory,
                 theory);
}

static void round_trip(tdm_quant_scheme_id id, int axis) {
    static float scales[ROWS * DEPTH];
    static int32_t zero_points[ROWS * DEPTH];
    static uint8_t quants[ROWS * DEPTH];
    const tdm_quant_scheme *const scheme = tdm_quant_scheme_info(id);
    const int64_t shape[2] = {ROWS, DEPTH};
    tdm_quant_spec spec;
    assert_int_equal(tdm_quant_spec_make(scheme, 2, shape, axis, 0, &spec, NULL), TDM_OK);
    tdm_quant_dynamic_tensor(&spec, scheme->symmetry, TDM_F32, x, scales, zero_points, quants);
    tdm_quant_dequantize_tensor(&spec, quants, scales, zero_points, TDM_F32, back);
}

static void test_formats_lose_what_theory_says(void **state) {
    (void)state;
    static uint8_t q8_0[BLOCKS * TDM_QUANT_Q8_0_BYTES], q4_0[BLOCKS * TDM_QUANT_Q4_0_BYTES];
    for (quant_distribution kind = QUANT_GAUSSIAN; kind <= QUANT_UNIFORM; kind++) {
        test_random random = {20240611};
        for (int i = 0; i < ROWS * DEPTH; i++)
            x[i] = (float)quant_draw(&random, kind);
        round_trip(TDM_QUANT_S8_CHANNEL, 0);
        expect_nmse("s8", quant_theory_of_steps(kind, DEPTH, 127));
        round_trip(TDM_QUANT_S4_GROUP, 1);
        expect_nmse("s4", quant_theory_of_steps(kind, 32, 7));
        assert_int_equal(tdm_quant_q8_0_encode(x, BLOCKS, q8_0), BLOCKS);
        tdm_quant_q8_0_decode(q8_0, BLOCKS, back);
        expect_nmse("q8_0", quant_theory_of_steps(kind, 32, 127));
        assert_int_equal(tdm_quant_q4_0_encode(x, BLOCKS, q4_0), BLOCKS);
        tdm_quant_q4_0_decode(q4_0, BLOCKS, back);
        expect_nmse("q4_0", quant_theory_of_steps(kind, 32, 8));
        for (int i = 0; i < ROWS * DEPTH; i++)
            back[i] = tdm_f32_from_f16(tdm_quant_narrow(TDM_F16, x[i], false));
        expect_nmse("f16", quant_theory_of_f16(kind));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_measures),
        cmocka_unit_test(test_measures_without_noise_or_signal),
        cmocka_unit_test(test_measures_merge),
        cmocka_unit_test(test_formats_lose_what_theory_says),
    };
    return cmocka_run_group_tests_name("quantization error", tests, NULL, NULL);
}
