/* The host's number formats are compared, over every bit pattern, with rules that are written in
 * another way. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "quant/number_formats.h"
#include "tests/support/test_case.h"

typedef struct format {
    const char *name;
    int mantissa_bits, exponent_bits;
    uint16_t (*from_f32)(float x);
    uint16_t (*from_f64)(double x);
    float (*to_f32)(uint16_t bits);
} format;

static const format formats[] = {
    {"f16", 10, 5, tdm_f16_from_f32, tdm_f16_from_f64, tdm_f32_from_f16},
    {"bf16", 7, 8, tdm_bf16_from_f32, tdm_bf16_from_f64, tdm_f32_from_bf16},
};

enum {
    FORMAT_COUNT = sizeof formats / sizeof formats[0]
};

static uint32_t exponent_of(const format *f, uint32_t bits) {
    return (bits >> f->mantissa_bits) & ((1u << f->exponent_bits) - 1);
}

static uint32_t infinity_of(const format *f) {
    return ((1u << f->exponent_bits) - 1) << f->mantissa_bits;
}

/* Returns the value of a finite pattern by the definition of a binary format. */
static double value_by_definition(const format *f, uint32_t bits) {
    const int bias = (1 << (f->exponent_bits - 1)) - 1;
    const uint32_t exponent = exponent_of(f, bits);
    const uint32_t mantissa = bits & ((1u << f->mantissa_bits) - 1);
    const double significand = mantissa + (exponent > 0 ? (double)(1u << f->mantissa_bits) : 0.0);
    const int scale = (exponent > 0 ? (int)exponent : 1) - bias - f->mantissa_bits;
    const double magnitude = ldexp(significand, scale);
    return (bits & 0x8000u) != 0 ? -magnitude : magnitude;
}

static bool is_nan_pattern(const format *f, uint32_t bits) {
    return (bits & 0x7fffu) > infinity_of(f);
}

TEST(test_every_pattern_widens_and_comes_back) {
    for (size_t i = 0; i < FORMAT_COUNT; i++) {
        const format *const f = &formats[i];
        for (uint32_t bits = 0; bits < 0x10000u; bits++) {
            const float x = f->to_f32((uint16_t)bits);
            const bool same_sign = (signbit(x) != 0) == ((bits & 0x8000u) != 0);
            if (is_nan_pattern(f, bits)) {
                const uint16_t back = f->from_f32(x);
                if (!isnan(x) || !is_nan_pattern(f, back) || ((back ^ bits) & 0x8000u) != 0)
                    fail_msg("%s: NaN 0x%04x comes back as 0x%04x", f->name, bits, back);
                continue;
            }
            if ((bits & 0x7fffu) == infinity_of(f))
                assert_true(isinf(x) && same_sign);
            else if ((double)x != value_by_definition(f, bits) || !same_sign)
                fail_msg("%s: 0x%04x widens to %a", f->name, bits, (double)x);
            if (f->from_f32(x) != bits || f->from_f64((double)x) != bits)
                fail_msg("%s: 0x%04x does not come back", f->name, bits);
        }
    }
}

static void expect_rounded(const format *f, double x, uint32_t expected) {
    if (f->from_f64(x) != expected)
        fail_msg("%s: %a gives 0x%04x from f64, not 0x%04x", f->name, x, f->from_f64(x), expected);
    if (f->from_f64(-x) != (expected | 0x8000u))
        fail_msg("%s: -%a gives 0x%04x from f64", f->name, x, f->from_f64(-x));
}

/* Between every two neighbours, three values are rounded: just below the midpoint, the midpoint,
 * and just above it. The outer two would round twice if they passed through f32. The test then
 * repeats this with the f32 neighbours of the midpoint; f32 holds the midpoint exactly in both
 * formats. */
TEST(test_every_interval_rounds_to_nearest_even) {
    for (size_t i = 0; i < FORMAT_COUNT; i++) {
        const format *const f = &formats[i];
        for (uint32_t low = 0; low < infinity_of(f); low++) {
            const double a = value_by_definition(f, low);
            const double b =
                // For infinity this returns the value that the next finite number would have.
                value_by_definition(f, low + 1);
            const double middle = a + (b - a) / 2;
            const uint32_t even = (low & 1u) == 0 ? low : low + 1;
            expect_rounded(f, nextafter(middle, 0.0), low);
            expect_rounded(f, middle, even);
            expect_rounded(f, nextafter(middle, HUGE_VAL), low + 1);
            expect_rounded(f, nextafter(a, HUGE_VAL), low);
            const float narrow = (float)middle;
            if ((double)narrow != middle)
                continue; /* below the denormals of f32 */
            assert_int_equal(f->from_f32(narrow), even);
            assert_int_equal(f->from_f32(nextafterf(narrow, 0.0f)), low);
            assert_int_equal(f->from_f32(nextafterf(narrow, HUGE_VALF)), low + 1);
        }
    }
}

TEST(test_extremes) {
    for (size_t i = 0; i < FORMAT_COUNT; i++) {
        const format *const f = &formats[i];
        expect_rounded(f, HUGE_VAL, infinity_of(f));
        expect_rounded(f, DBL_MAX, infinity_of(f));
        expect_rounded(f, DBL_TRUE_MIN, 0);
        expect_rounded(f, DBL_MIN, 0);
        expect_rounded(f, 0.0, 0);
        assert_int_equal(f->from_f32(HUGE_VALF), infinity_of(f));
    }
}

TEST(test_integers) {
    static const struct {
        double x;
        int32_t s32, s8, u8;
    } cases[] = {
        {0.5, 0, 0, 0},
        {1.5, 2, 2, 2},
        {2.5, 2, 2, 2},
        {-0.5, 0, 0, 0},
        {-1.5, -2, -2, 0},
        {-2.5, -2, -2, 0},
        {0.49999999999999994, 0, 0, 0},
        {-0.50000000000000011, -1, -1, 0},
        {126.5, 126, 126, 126},
        {127.5, 128, 127, 128},
        {254.5, 254, 127, 254},
        {255.5, 256, 127, 255},
        {-128.5, -128, -128, 0},
        {-129.5, -130, -128, 0},
        {2147483646.5, 2147483646, 127, 255},
        {2147483647.5, INT32_MAX, 127, 255},
        {-2147483648.5, INT32_MIN, -128, 0},
        {1e300, INT32_MAX, 127, 255},
        {-1e300, INT32_MIN, -128, 0},
        {HUGE_VAL, INT32_MAX, 127, 255},
        {-HUGE_VAL, INT32_MIN, -128, 0},
        {NAN, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int32_t s32;
        int8_t s8;
        uint8_t u8;
        tdm_number_set(TDM_S32, &s32, 0, cases[i].x);
        tdm_number_set(TDM_S8, &s8, 0, cases[i].x);
        tdm_number_set(TDM_U8, &u8, 0, cases[i].x);
        if (s32 != cases[i].s32 || s8 != cases[i].s8 || u8 != cases[i].u8)
            fail_msg("%g gives s32 %d, s8 %d, u8 %d", cases[i].x, s32, s8, u8);
    }
}

TEST(test_arrays_of_every_known_dtype) {
    static const tdm_dtype known[] = {TDM_F32, TDM_F16, TDM_BF16, TDM_F64,
                                      TDM_S32, TDM_S8,  TDM_U8,   TDM_S64};
    unsigned char bytes[64];
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        assert_true(tdm_number_known(known[i]));
        memset(bytes, 0x55, sizeof bytes);
        /* The offset of one byte shows that nothing requires alignment. */
        tdm_number_set(known[i], bytes + 1, 2, 7.0);
        assert_true(tdm_number_get(known[i], bytes + 1, 2) == 7.0);
        const size_t unit = (size_t)tdm_dtype_info(known[i])->unit_bytes;
        for (size_t b = 0; b < sizeof bytes; b++) {
            const bool inside = b >= 1 + 2 * unit && b < 1 + 3 * unit;
            assert_true(inside || bytes[b] == 0x55);
        }
    }
    assert_false(tdm_number_known(TDM_S4));
    assert_false(tdm_number_known(TDM_F8E4M3));
    assert_true(isnan(tdm_number_get(TDM_F8E4M3, bytes, 0)));
}

TEST(test_long_integers_and_booleans) {
    static const struct {
        double x;
        int64_t s64;
        int is_true;
    } cases[] = {
        {0, 0, 0},
        {-0.0, 0, 0},
        {0.5, 0, 1},
        {1.5, 2, 1},
        {-2.5, -2, 1},
        {(double)NAN, 0, 1},
        {0x1p62, INT64_C(1) << 62, 1},
        {-0x1p63, INT64_MIN, 1},
        {0x1p63, INT64_MAX, 1},
        {HUGE_VAL, INT64_MAX, 1},
        {-HUGE_VAL, INT64_MIN, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t s64;
        uint8_t is_true;
        tdm_number_set(TDM_S64, &s64, 0, cases[i].x);
        tdm_number_set(TDM_BOOL, &is_true, 0, cases[i].x);
        if (s64 != cases[i].s64 || is_true != cases[i].is_true)
            fail_msg("%g gives s64 %lld, bool %d", cases[i].x, (long long)s64, is_true);
        assert_true(tdm_number_get(TDM_BOOL, &is_true, 0) == (double)is_true);
    }
}

TEST(test_format_constants) {
    for (size_t i = 0; i < FORMAT_COUNT; i++) {
        const tdm_dtype dtype = i == 0 ? TDM_F16 : TDM_BF16;
        const uint16_t one = formats[i].from_f64(1.0);
        const double step = (double)formats[i].to_f32((uint16_t)(one + 1)) - 1.0;
        assert_true(tdm_number_roundoff(dtype) == step / 2);
        const uint16_t smallest = (uint16_t)(1u << formats[i].mantissa_bits);
        assert_true(tdm_number_min_normal(dtype) == (double)formats[i].to_f32(smallest));
    }
    assert_true(tdm_number_roundoff(TDM_F32) == (double)FLT_EPSILON / 2);
    assert_true(tdm_number_roundoff(TDM_S8) == 0.0 && tdm_number_min_normal(TDM_U8) == 0.0);
}

TEST_MAIN(NULL, NULL)
