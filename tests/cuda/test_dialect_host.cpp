// Compares the kernel dialect's operations in their C++ form with plain C: both give the same bits.
// All values of the 16-bit storage formats are tested. Vectors are tested element by element in all
// three widths.
#include <cmath>

extern "C" {
#include "quant/number_formats.h"
}

#include "dialect_cxx.h"
#include "tests/support/test_case.h"

/* ---- numbers to test ---- */

static uint32_t random_bits() {
    static uint64_t bits = 20251122;
    bits = bits * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(bits >> 32);
}

/* These lower halves of an f32 decide ties of bf16 and f16. They are combined with all upper
 * halves. */
static const uint32_t lower_halves[] = {0,      1,      0x0fff, 0x1000, 0x1001, 0x2fff,
                                        0x3000, 0x3001, 0x7fff, 0x8000, 0x8001, 0xffff};
template <class Check> static void for_floats(Check check) {
    int count = 0;
    for (uint32_t upper = 0; upper < 0x10000; upper++)
        for (uint32_t lower : lower_halves) {
            check(tdm_bits_float(upper << 16 | lower));
            count++;
        }
    for (int i = 0; i < 200000; i++, count++)
        check(tdm_bits_float(random_bits()));
    assert_int_equal(count, 65536 * 12 + 200000);
}

static void same_f16(ushort got, ushort expected) {
    if ((expected & 0x7fff) > 0x7c00)
        assert_true((got & 0x7e00) == 0x7e00 && (got & 0x8000) == (expected & 0x8000));
    else
        assert_int_equal(got, expected);
}
static void same_bf16(ushort got, ushort expected) {
    if ((expected & 0x7fff) > 0x7f80)
        assert_true((got & 0x7fc0) == 0x7fc0 && (got & 0x8000) == (expected & 0x8000));
    else
        assert_int_equal(got, expected);
}
/* All NaNs count as equal here. */
static void same_f32(float got, float expected) {
    if (std::isnan(expected))
        assert_true(std::isnan(got));
    else
        assert_int_equal(tdm_float_bits(got), tdm_float_bits(expected));
}

/* ---- one element ---- */

TEST(test_f16) {
    for (uint32_t h = 0; h < 0x10000; h++) {
        const tdm_f16 bits = static_cast<tdm_f16>(h);
        same_f32(tdm_load_f16(&bits, 0), tdm_f32_from_f16(bits));
    }
    for_floats([](float x) {
        tdm_f16 to[3] = {7, 7, 7};
        tdm_store_f16(x, to, 1);
        same_f16(to[1], tdm_f16_from_f32(x));
        assert_true(to[0] == 7 && to[2] == 7);
    });
}

TEST(test_bf16) {
    for (uint32_t h = 0; h < 0x10000; h++) {
        const tdm_bf16 bits = static_cast<tdm_bf16>(h);
        same_f32(tdm_load_bf16(&bits, 0), tdm_f32_from_bf16(bits));
    }
    for_floats([](float x) {
        tdm_bf16 to = 0;
        tdm_store_bf16(x, &to, 0);
        same_bf16(to, tdm_bf16_from_f32(x));
    });
}

static int truncated(float x) {
    return tdm_int_from_f64(std::trunc(static_cast<double>(x)), INT32_MIN, INT32_MAX);
}

TEST(test_floats_to_integers) {
    for_floats([](float x) {
        assert_int_equal(tdm_int_rte(x), tdm_int_from_f64(x, INT32_MIN, INT32_MAX));
        assert_int_equal(tdm_int_rtz(x), truncated(x));
        same_f32(f32x1_number(x), std::isnan(x) ? 0.0f : x);
        assert_int_equal(tdm_is_nan(x), std::isnan(x));
    });
    for (int i = -41; i <= 41; i++) {
        const float x = static_cast<float>(i) * 0.5f;
        assert_int_equal(tdm_int_rte(x), static_cast<int>(std::nearbyint(i * 0.5)));
    }
}

TEST(test_integers_to_floats) {
    for (int i = 0; i < 400000; i++) {
        const int v = static_cast<int>(random_bits()) >> (i % 32);
        same_f32(tdm_float(v), static_cast<float>(v));
        same_bf16(tdm_cxx_bf16_narrow(f32x1_from_s32_odd(v)), tdm_bf16_from_f64(v));
        same_f16(tdm_cxx_f16_narrow(f32x1_from_s32_odd(v)), tdm_f16_from_f64(v));
        same_f32(tdm_cxx_float(v), tdm_bits_float(static_cast<uint>(v)));
        assert_int_equal(tdm_cxx_bits(tdm_cxx_float(v & 0x7f7fffff)), v & 0x7f7fffff);
    }
}

/* min and max ignore a NaN operand; min_nan and max_nan return it. */
TEST(test_least_and_greatest) {
    const float nan = NAN, some[] = {0.0f, 1.0f, -1.5f, INFINITY, -INFINITY, 1e-45f};
    for (float a : some)
        for (float b : some) {
            same_f32(tdm_min(a, b), a < b ? a : b);
            same_f32(tdm_max(a, b), a > b ? a : b);
            same_f32(tdm_min_nan(a, b), a < b ? a : b);
            same_f32(tdm_max_nan(a, b), a > b ? a : b);
            same_f32(f32x1_select_lt(a, b, 3.0f, 4.0f), a < b ? 3.0f : 4.0f);
        }
    for (float a : some) {
        same_f32(tdm_min(a, nan), a);
        same_f32(tdm_min(nan, a), a);
        same_f32(tdm_max(a, nan), a);
        same_f32(tdm_max(nan, a), a);
        assert_true(std::isnan(tdm_min_nan(a, nan)) && std::isnan(tdm_min_nan(nan, a)));
        assert_true(std::isnan(tdm_max_nan(a, nan)) && std::isnan(tdm_max_nan(nan, a)));
        same_f32(f32x1_select_lt(nan, a, 3.0f, 4.0f), 4.0f);
    }
    assert_true(std::isnan(tdm_min(nan, nan)) && std::isnan(tdm_max(nan, nan)));
}

/* Returns the error in ulps. Correctly rounded operations must equal the double's result rounded
 * once. The others must keep the bound of the OpenCL standard. */
static double ulps(float got, double expected) {
    if (!std::isfinite(static_cast<float>(expected)) || expected == 0.0)
        return static_cast<double>(got) == static_cast<double>(static_cast<float>(expected)) ? 0
                                                                                             : 99;
    int exponent;
    std::frexp(expected, &exponent);
    return std::fabs(got - expected) / std::ldexp(1.0, exponent < -125 ? -149 : exponent - 24);
}

TEST(test_math) {
    for (int i = 0; i < 200000; i++) {
        const float x = tdm_bits_float(random_bits() & 0x7fffffffu);
        const float y = static_cast<float>(static_cast<int>(random_bits())) * 0x1p-25f;
        if (std::isnan(x) || std::isinf(x))
            continue;
        same_f32(tdm_sqrt(x), static_cast<float>(std::sqrt(static_cast<double>(x))));
        same_f32(tdm_fma(x, y, -1.5f), std::fma(x, y, -1.5f));
        same_f32(tdm_mad(x, y, -1.5f), std::fma(x, y, -1.5f));
        same_f32(tdm_rint(y), static_cast<float>(std::nearbyint(static_cast<double>(y))));
        same_f32(tdm_floor(y), std::floor(y));
        same_f32(tdm_abs(y), std::fabs(y));
        same_f32(tdm_copysign(x, y), std::copysign(x, y));
        if (x >= 0x1p-126f) {
            assert_true(ulps(tdm_rsqrt(x), 1 / std::sqrt(static_cast<double>(x))) <= 2);
            assert_true(ulps(tdm_log(x), std::log(static_cast<double>(x))) <= 3);
        }
        assert_true(ulps(tdm_exp(y), std::exp(static_cast<double>(y))) <= 3);
        assert_true(ulps(tdm_tanh(y), std::tanh(static_cast<double>(y))) <= 5);
        assert_true(ulps(tdm_erf(y), std::erf(static_cast<double>(y))) <= 16);
        if (std::fabs(y) < 9)
            assert_true(ulps(tdm_erfc(y), std::erfc(static_cast<double>(y))) <= 16);
    }
}

/* ---- integers ---- */

static const int edges[] = {0,    1,    -1,  7,   8,   -8,   -9,        127,       128,
                            -128, -129, 255, 256, 300, -300, INT32_MAX, INT32_MIN, 0x55aa1234};

TEST(test_saturating_stores) {
    for (int v : edges) {
        tdm_s8 s8[3] = {5, 5, 5};
        tdm_u8 u8[3] = {5, 5, 5};
        tdm_s32 s32[3] = {5, 5, 5};
        tdm_store_int_s8(v, s8, 1);
        tdm_store_int_u8(v, u8, 1);
        tdm_store_int_s32(v, s32, 1);
        assert_true(s8[0] == 5 && s8[2] == 5 && u8[0] == 5 && u8[2] == 5 && s32[0] == 5);
        assert_int_equal(tdm_int_s8(s8, 1), v < -128 ? -128 : v > 127 ? 127 : v);
        assert_int_equal(tdm_int_u8(u8, 1), v < 0 ? 0 : v > 255 ? 255 : v);
        assert_int_equal(tdm_int_s32(s32, 1), v);
        same_f32(tdm_load_s8(s8, 1), static_cast<float>(tdm_int_s8(s8, 1)));
        same_f32(tdm_load_u8(u8, 1), static_cast<float>(tdm_int_u8(u8, 1)));
        same_f32(tdm_load_s32(s32, 1), static_cast<float>(v));
        for (int i = 2; i < 4; i++) {
            tdm_s4 s4[3] = {0x5a, 0x5a, 0x5a};
            tdm_store_int_s4(v, s4, i);
            assert_int_equal(tdm_int_s4(s4, i), v < -8 ? -8 : v > 7 ? 7 : v);
            assert_int_equal(tdm_int_s4(s4, 5 - i), i == 2 ? 5 : -6);
            assert_true(s4[0] == 0x5a && s4[2] == 0x5a);
        }
    }
}

TEST(test_wrapping) {
    for (int a : edges)
        for (int b : edges) {
            const int64_t v = a, w = b;
            assert_int_equal(tdm_add_wrap(1, a, b), static_cast<int>(static_cast<uint32_t>(v + w)));
            assert_int_equal(tdm_sub_wrap(1, a, b), static_cast<int>(static_cast<uint32_t>(v - w)));
            assert_int_equal(tdm_mul_wrap(1, a, b),
                             static_cast<int>(static_cast<uint32_t>(static_cast<uint64_t>(v) *
                                                                    static_cast<uint64_t>(w))));
            assert_int_equal(tdm_int_min(a, b), a < b ? a : b);
            assert_int_equal(tdm_int_max(a, b), a > b ? a : b);
        }
}

/* ---- vectors: each vector operation does to each element what the scalar operation does ---- */

/* The widths are part of the operations' names, so a macro is applied to each width. */
#define FOR_WIDTHS(M) M(4) M(8) M(16)

/* RESULT is an expression of vectors a, b, c (or integers v, w). ONE is the same expression of
 * their elements x, y, z. */
#define FLOATS(N, RESULT, ONE)                                                                     \
    {                                                                                              \
        TDM_STOREV(N, f32, RESULT, out, 0);                                                        \
        for (int i = 0; i < N; i++) {                                                              \
            const float x = xs[i], y = ys[i], z = zs[i];                                           \
            const int k = vs[i];                                                                   \
            (void)x, (void)y, (void)z, (void)k;                                                    \
            same_f32(out[i], ONE);                                                                 \
        }                                                                                          \
    }
#define INTEGERS(N, RESULT, ONE)                                                                   \
    {                                                                                              \
        TDM_INT_STOREV(N, s32, RESULT, outs, 0);                                                   \
        for (int i = 0; i < N; i++) {                                                              \
            const int k = vs[i], m = ws[i];                                                        \
            const float x = xs[i];                                                                 \
            (void)k, (void)m, (void)x;                                                             \
            assert_int_equal(outs[i], ONE);                                                        \
        }                                                                                          \
    }
#define TEST_ELEMENTS(N)                                                                           \
    static void elements_##N() {                                                                   \
        float xs[N], ys[N], zs[N], out[N];                                                         \
        int vs[N], ws[N], outs[N];                                                                 \
        for (int i = 0; i < N; i++) {                                                              \
            xs[i] =                                                                                \
                i % 7 == 3 ? NAN : static_cast<float>(static_cast<int>(random_bits())) * 1e-9f;    \
            ys[i] =                                                                                \
                i % 5 == 4 ? NAN : static_cast<float>(static_cast<int>(random_bits())) * 1e-9f;    \
            zs[i] = static_cast<float>(random_bits()) * 1e-9f;                                     \
            vs[i] = static_cast<int>(random_bits());                                               \
            ws[i] = static_cast<int>(random_bits());                                               \
        }                                                                                          \
        const TDM_F32(N) a = TDM_LOADV(N, f32, xs, 0), b = TDM_LOADV(N, f32, ys, 0),               \
                         c = TDM_LOADV(N, f32, zs, 0);                                             \
        const TDM_S32(N) v = TDM_INT_LOADV(N, s32, vs, 0), w = TDM_INT_LOADV(N, s32, ws, 0);       \
        FLOATS(N, a + b, x + y)                                                                    \
        FLOATS(N, a - b, x - y)                                                                    \
        FLOATS(N, a *b, x *y)                                                                      \
        FLOATS(N, a / c, x / z)                                                                    \
        FLOATS(N, -a, -x)                                                                          \
        FLOATS(N, tdm_fma(a, b, c), tdm_fma(x, y, z))                                              \
        FLOATS(N, tdm_mad(a, b, c), tdm_mad(x, y, z))                                              \
        FLOATS(N, tdm_min(a, b), tdm_min(x, y))                                                    \
        FLOATS(N, tdm_max(a, b), tdm_max(x, y))                                                    \
        FLOATS(N, tdm_min_nan(a, b), tdm_min_nan(x, y))                                            \
        FLOATS(N, tdm_max_nan(a, b), tdm_max_nan(x, y))                                            \
        FLOATS(N, tdm_copysign(c, a), tdm_copysign(z, x))                                          \
        FLOATS(N, tdm_abs(a), tdm_abs(x))                                                          \
        FLOATS(N, tdm_exp(a), tdm_exp(x))                                                          \
        FLOATS(N, tdm_log(c), tdm_log(z))                                                          \
        FLOATS(N, tdm_tanh(a), tdm_tanh(x))                                                        \
        FLOATS(N, tdm_erf(a), tdm_erf(x))                                                          \
        FLOATS(N, tdm_erfc(a), tdm_erfc(x))                                                        \
        FLOATS(N, tdm_sqrt(c), tdm_sqrt(z))                                                        \
        FLOATS(N, tdm_rsqrt(c), tdm_rsqrt(z))                                                      \
        FLOATS(N, tdm_rint(a), tdm_rint(x))                                                        \
        FLOATS(N, tdm_floor(a), tdm_floor(x))                                                      \
        FLOATS(N, TDM_SPLAT(N, 2.5f), 2.5f)                                                        \
        FLOATS(N, TDM_SELECT_LT(N, a, b, c, a), x < y ? z : x)                                     \
        FLOATS(N, TDM_NUMBER(N, a), f32x1_number(x))                                               \
        FLOATS(N, f32x##N##_from_s32(v), tdm_float(k))                                             \
        FLOATS(N, f32x##N##_from_s32_odd(v), f32x1_from_s32_odd(k))                                \
        FLOATS(N, s32x##N##_float(v), tdm_cxx_float(k))                                            \
        INTEGERS(N, s32x##N##_from_f32_rte(a), tdm_int_rte(x))                                     \
        INTEGERS(N, s32x##N##_from_f32_rtz(a), tdm_int_rtz(x))                                     \
        INTEGERS(N, TDM_BITS(N, a), static_cast<int>(tdm_float_bits(x)))                           \
        INTEGERS(N, TDM_INT_SPLAT(N, -7), -7)                                                      \
        INTEGERS(N, v + w, tdm_add_wrap(1, k, m))                                                  \
        INTEGERS(N, v - w, tdm_sub_wrap(1, k, m))                                                  \
        INTEGERS(N, v *w, tdm_mul_wrap(1, k, m))                                                   \
        INTEGERS(N, tdm_add_wrap(N, v, w), tdm_add_wrap(1, k, m))                                  \
        INTEGERS(N, tdm_sub_wrap(N, v, w), tdm_sub_wrap(1, k, m))                                  \
        INTEGERS(N, tdm_mul_wrap(N, v, w), tdm_mul_wrap(1, k, m))                                  \
        INTEGERS(N, v &w, k &m)                                                                    \
        INTEGERS(N, v | w, k | m)                                                                  \
        INTEGERS(N, v ^ w, k ^ m)                                                                  \
        INTEGERS(N, v << 5, static_cast<int>(static_cast<uint>(k) << 5))                           \
        INTEGERS(N, v >> 5, k >> 5)                                                                \
        INTEGERS(N, tdm_int_min(v, w), k < m ? k : m)                                              \
        INTEGERS(N, tdm_int_max(v, w), k > m ? k : m)                                              \
        INTEGERS(N, tdm_quad(N, v, w, v, w), tdm_quad(1, k, m, k, m))                              \
        INTEGERS(N, tdm_quad_byte(N, v, 2), tdm_quad_byte(1, k, 2))                                \
    }
FOR_WIDTHS(TEST_ELEMENTS)

TEST(test_elements) {
    for (int i = 0; i < 200; i++) {
        elements_4();
        elements_8();
        elements_16();
    }
}

TEST_MAIN(NULL, NULL)
