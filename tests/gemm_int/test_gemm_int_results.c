/*
 * These integer GEMM results are written out by hand: ties, wrapping, and parameters that are not
 * ordinary numbers. Every variant of the op runs on every device that can run it.
 */
// ctest: device
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/devices/variant_cases.h"
#include "tests/support/gemm/gemm_table.h"
#include "tests/support/test_case.h"

#define ROW_TEST(name)                                                                             \
    static void name##_on(const test_device *device, const tdm_variant *row);                      \
    TEST(name) {                                                                                   \
        test_case_of_each_variant(TDM_OP_GEMM_INT, #name, name##_on);                              \
    }                                                                                              \
    static void name##_on(const test_device *device, const tdm_variant *row)

/* ---- ties ------------------------------------------------------------------------------------ */

/*
 * K is 3 and A is all ones, so the sums are the column sums of B. Half a sum is a whole number or
 * lies midway between two.
 */
enum {
    TIES = 19
};
static const int tie_sums[TIES] = {1,   3,   5,   7,    -1,   -3,   -5,  -7,  0,  2,
                                   253, 255, 257, -255, -257, -259, 249, 247, 245};

typedef struct tie_case {
    tdm_dtype d;
    double zero;
    tdm_activation activation;
    double codes[TIES];
} tie_case;

/*
 * The rounded halves are 0, 2, 2, 4, 0, -2, -2, -4, 0, 1, 126, 128, 128, -128, -128, -130, 124,
 * 124, 122. The zero point is added to them, and the result is clamped. Adding an odd zero point
 * before rounding would give other values: 0.5 + 3 would become 4.
 */
static const tie_case tie_cases[] = {
    {TDM_S8,
     0,
     TDM_ACT_NONE,
     {0, 2, 2, 4, 0, -2, -2, -4, 0, 1, 126, 127, 127, -128, -128, -128, 124, 124, 122}},
    {TDM_S8,
     3,
     TDM_ACT_NONE,
     {3, 5, 5, 7, 3, 1, 1, -1, 3, 4, 127, 127, 127, -125, -125, -127, 127, 127, 125}},
    {TDM_S8,
     -7,
     TDM_ACT_NONE,
     {-7, -5, -5, -3, -7, -9, -9, -11, -7, -6, 119, 121, 121, -128, -128, -128, 117, 117, 115}},
    {TDM_U8,
     5,
     TDM_ACT_NONE,
     {5, 7, 7, 9, 5, 3, 3, 1, 5, 6, 131, 133, 133, 0, 0, 0, 129, 129, 127}},
    {TDM_U8,
     255,
     TDM_ACT_NONE,
     {255, 255, 255, 255, 255, 253, 253, 251, 255, 255, 255, 255, 255, 127, 127, 125, 255, 255,
      255}},
    {TDM_S8,
     3,
     TDM_ACT_RELU,
     {3, 5, 5, 7, 3, 3, 3, 3, 3, 4, 127, 127, 127, 3, 3, 3, 127, 127, 125}},
    {TDM_U8,
     0,
     TDM_ACT_RELU,
     {0, 2, 2, 4, 0, 0, 0, 0, 0, 1, 126, 128, 128, 0, 0, 0, 124, 124, 122}},
};

static int clamp_to_s8(int x) {
    return x < -128 ? -128 : x > 127 ? 127 : x;
}

static void fill_tie_columns(gemm_int_table *t) {
    double b[3 * TIES];
    for (int j = 0; j < TIES; j++) {
        int left = tie_sums[j];
        for (int p = 0; p < 3; p++) {
            b[p * TIES + j] = clamp_to_s8(left);
            left -= clamp_to_s8(left);
        }
    }
    gemm_int_put(&t->b.data, b, 3 * TIES);
}

/*
 * The scales of A, B and D together give a factor of 1/2. `way` selects which of them vary along a
 * dimension and which values they have.
 */
static void check_ties(const test_device *device, const tdm_variant *row, const tie_case *tie,
                       int way) {
    tdm_gemm_desc desc = gemm_int_desc(way & 1 ? TDM_S8 : TDM_U8, tie->d, 2, TIES, 3);
    gemm_int_table t;
    double expected[2 * TIES];
    gemm_int_arrange(&desc.a_quant, &desc.a, way & 1, 0, TDM_DTYPE_NONE);
    gemm_int_arrange(&desc.b_quant, &desc.b, 0, way >> 1 & 1, TDM_DTYPE_NONE);
    gemm_int_arrange(&desc.d_quant, &desc.d, 0, way >> 2 & 1,
                     tie->zero == 0 ? TDM_DTYPE_NONE : TDM_S32);
    desc.activation = tie->activation;
    desc.variant = row->name;
    gemm_int_suit(row, &desc);
    gemm_int_table_lay(&t, device, &desc);
    fill_tie_columns(&t);
    /* In f32, 41 times the reciprocal of 41 is below 1. */
    static const double each[3][3] = {{0.5, 3, 3}, {3, 0.5, 3}, {41, 0.5, 41}};
    const double *const scales = each[way % 3];
    gemm_int_put(&t.a.scale, &scales[0], 1);
    gemm_int_put(&t.b.scale, &scales[1], 1);
    gemm_int_put(&t.d.scale, &scales[2], 1);
    if (tie->zero != 0)
        gemm_int_put(&t.d.zero, &tie->zero, 1);
    for (int i = 0; i < 2 * TIES; i++)
        expected[i] = tie->codes[i % TIES];
    gemm_int_table_run(&t);
    gemm_int_table_expect(&t, expected);
    gemm_int_table_clear(&t);
}

ROW_TEST(ties_go_to_even_before_the_zero_point_is_added) {
    for (size_t i = 0; i < sizeof tie_cases / sizeof *tie_cases; i++)
        for (int way = 0; way < 8; way += test_is_small() ? 7 : 1)
            check_ties(device, row, &tie_cases[i], way);
}

/* ---- sums ------------------------------------------------------------------------------------ */

/*
 * The test computes (A - 3)·(B + 2) + bias over two steps. A is 1 2 / 3 250, B is 5 -128 / 0 127,
 * and the bias is 10 -20.
 */
ROW_TEST(zero_points_and_bias_belong_to_the_sum) {
    tdm_gemm_desc desc = gemm_int_desc(TDM_U8, TDM_S32, 2, 2, 2);
    gemm_int_table t;
    gemm_int_arrange(&desc.a_quant, &desc.a, 0, 0, TDM_U8);
    gemm_int_arrange(&desc.b_quant, &desc.b, 0, 0, TDM_S8);
    TEST_OK(tdm_layout_contiguous(TDM_S32, 1, (const int64_t[]){2}, &desc.bias));
    desc.variant = row->name;
    gemm_int_suit(row, &desc);
    gemm_int_table_lay(&t, device, &desc);
    gemm_int_put(&t.a.data, (const double[]){1, 2, 3, 250}, 4);
    gemm_int_put(&t.b.data, (const double[]){5, -128, 0, 127}, 4);
    gemm_int_put(&t.a.zero, (const double[]){3}, 1);
    gemm_int_put(&t.b.zero, (const double[]){-2}, 1);
    gemm_int_put(&t.bias, (const double[]){10, -20}, 2);
    gemm_int_put(&t.a.scale, (const double[]){NAN}, 1); // no scale takes part in a sum
    gemm_int_table_run(&t);
    gemm_int_table_expect(&t, (const double[]){-6, 103, 504, 31843});
    gemm_int_table_clear(&t);
}

/*
 * The sum is one beyond the largest or smallest s32. It wraps modulo 2^32 before any other
 * operation.
 */
ROW_TEST(the_bias_wraps) {
    static const struct {
        tdm_dtype d;
        double expected[6]; /* rows 1 and -1 times columns 1, -1 and 1 */
    } cases[] = {
        {TDM_S32, {-0x1p31, 0x1p31 - 1, 1 - 0x1p31, 0x1p31 - 2, 1 - 0x1p31, 0x1p31 - 1}},
        {TDM_F32, {-0x1p31, 0x1p31, -0x1p31, 0x1p31, -0x1p31, 0x1p31}},
        {TDM_S8, {-64, 64, -64, 64, -64, 64}},
    };
    for (int i = 0; i < 3; i++) {
        tdm_gemm_desc desc = gemm_int_desc(TDM_S8, cases[i].d, 2, 3, 1);
        gemm_int_table t;
        TEST_OK(tdm_layout_contiguous(TDM_S32, 1, (const int64_t[]){3}, &desc.bias));
        if (cases[i].d == TDM_S8)
            gemm_int_arrange(&desc.d_quant, &desc.d, 0, 0, TDM_DTYPE_NONE);
        desc.variant = row->name;
        gemm_int_suit(row, &desc);
        gemm_int_table_lay(&t, device, &desc);
        gemm_int_put(&t.a.data, (const double[]){1, -1}, 2);
        gemm_int_put(&t.b.data, (const double[]){1, -1, 1}, 3);
        gemm_int_put(&t.bias, (const double[]){INT32_MAX, INT32_MIN, INT32_MIN}, 3);
        if (cases[i].d == TDM_S8)
            gemm_int_put(&t.d.scale, (const double[]){0x1p25}, 1);
        gemm_int_table_run(&t);
        gemm_int_table_expect(&t, cases[i].expected);
        gemm_int_table_clear(&t);
    }
}

/* ---- parameters that are not ordinary numbers ------------------------------------------------ */

enum {
    SCALES = 8,
    DATA = 3
};
static const double scales[SCALES] = {1, 0, NAN, INFINITY, -INFINITY, -1, 1e30, 1e-30};
static const double data[DATA] = {0, 5, -5};

/* Follows the contract of docs/numerics.md, with one rounding per line. */
static double code_of(double sum, double a, double b, double d, int zero, bool relu) {
    volatile float factor = (float)a * (float)b;
    factor = factor / (float)d;
    const volatile float real = (float)sum * factor;
    const float least = relu && -128 - zero < 0 ? 0.0f : (float)(-128 - zero),
                most = (float)(127 - zero);
    if (!(fabs(d) > 0) || isnan(real))
        return zero;
    return zero + (double)rintf(real < least ? least : real > most ? most : real);
}

/*
 * Rows combine each value of A with each scale of A, or with one. Columns combine each scale of B
 * with each scale of D.
 */
static void check_scales(const test_device *device, const tdm_variant *row, int a_scale, int zero,
                         tdm_activation activation) {
    const bool each = a_scale < 0;
    const int rows = each ? SCALES * DATA : DATA, columns = SCALES * SCALES;
    double a[SCALES * DATA], a_scales[SCALES * DATA], b_scales[SCALES * SCALES],
        d_scales[SCALES * SCALES];
    static double expected[SCALES * DATA * SCALES * SCALES];
    tdm_gemm_desc desc = gemm_int_desc(TDM_S8, TDM_S8, rows, columns, 1);
    gemm_int_table t;
    gemm_int_arrange(&desc.a_quant, &desc.a, each, 0, TDM_DTYPE_NONE);
    gemm_int_arrange(&desc.b_quant, &desc.b, 0, 1, TDM_DTYPE_NONE);
    gemm_int_arrange(&desc.d_quant, &desc.d, 0, 1, TDM_S8);
    desc.activation = activation;
    desc.variant = row->name;
    gemm_int_suit(row, &desc);
    for (int i = 0; i < rows; i++) {
        a[i] = data[i % DATA];
        a_scales[i] = scales[each ? i / DATA : a_scale];
        for (int j = 0; j < columns; j++) {
            b_scales[j] = scales[j / SCALES];
            d_scales[j] = scales[j % SCALES];
            expected[i * columns + j] = code_of(a[i], a_scales[i], b_scales[j], d_scales[j], zero,
                                                activation == TDM_ACT_RELU);
        }
    }
    gemm_int_table_lay(&t, device, &desc);
    gemm_int_put(&t.a.data, a, rows);
    gemm_int_put(&t.a.scale, a_scales, rows);
    gemm_int_put(&t.b.scale, b_scales, columns);
    gemm_int_put(&t.d.scale, d_scales, columns);
    gemm_int_put(&t.d.zero, &(double){zero}, 1);
    gemm_int_table_run(&t);
    gemm_int_table_expect(&t, expected);
    gemm_int_table_clear(&t);
}

ROW_TEST(scales_that_are_no_numbers_give_codes) {
    for (int zero = -1; zero <= 1; zero++) {
        const tdm_activation activation = zero == 1 ? TDM_ACT_RELU : TDM_ACT_NONE;
        for (int a_scale = -1; a_scale < (test_is_small() ? 1 : SCALES); a_scale++)
            check_scales(device, row, a_scale, 7 * zero, activation);
    }
}

/* Float results follow the formula, infinities and NaNs included. */
ROW_TEST(floats_keep_infinities_and_nans) {
    tdm_gemm_desc desc = gemm_int_desc(TDM_S8, TDM_F32, 3, 4, 1);
    gemm_int_table t;
    gemm_int_arrange(&desc.a_quant, &desc.a, 0, 0, TDM_DTYPE_NONE);
    gemm_int_arrange(&desc.b_quant, &desc.b, 0, 1, TDM_DTYPE_NONE);
    desc.variant = row->name;
    gemm_int_suit(row, &desc);
    gemm_int_table_lay(&t, device, &desc);
    gemm_int_put(&t.a.data, data, DATA);
    gemm_int_put(&t.a.scale, (const double[]){2}, 1);
    gemm_int_put(&t.b.scale, (const double[]){0, NAN, INFINITY, 0.25}, 4);
    gemm_int_table_run(&t);
    gemm_int_table_expect(
        &t, (const double[]){0, NAN, NAN, 0, 0, NAN, INFINITY, 2.5, 0, NAN, -INFINITY, -2.5});
    gemm_int_table_clear(&t);
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
