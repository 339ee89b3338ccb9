#include "tests/support/test_data.h"

#include <math.h>
#include <stdbool.h>

#include "quant/number_formats.h"

/* This generator is splitmix64: a full-period counter with a strong finaliser. */
uint64_t test_random_bits(test_random *random) {
    uint64_t z = (random->state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

double test_random_uniform(test_random *random, double low, double high) {
    return low + (high - low) * ((double)(test_random_bits(random) >> 11) * 0x1p-53);
}

int64_t test_random_int(test_random *random, int64_t low, int64_t high) {
    const uint64_t span = (uint64_t)high - (uint64_t)low + 1;
    const uint64_t bits = test_random_bits(random);
    return (int64_t)((uint64_t)low + (span == 0 ? bits : bits % span));
}

static bool is_integer(tdm_dtype dtype) {
    return dtype == TDM_S32 || dtype == TDM_S8 || dtype == TDM_U8;
}

/*
 * Returns a tie. It is k + 1/2 for integers, or a number with one bit below the last kept bit of
 * f16 or bf16. The magnitudes include those near a change of exponent.
 */
static double tie(test_random *random) {
    const double sign = (test_random_bits(random) & 1) != 0 ? -1.0 : 1.0;
    const int64_t k = test_random_int(random, 0, 300);
    switch (test_random_bits(random) % 4) {
    case 0:
        return sign * ((double)k + 0.5);
    case 1:
        return sign * (double)(2 * k + 1) * ldexp(1.0, (int)test_random_int(random, 8, 22));
    case 2:
        return sign * (2048.0 + 2.0 * (double)k + 1.0) *
               ldexp(1.0, (int)test_random_int(random, -12, 4));
    default:
        return sign * (256.0 + 2.0 * (double)k + 1.0) *
               ldexp(1.0, (int)test_random_int(random, -12, 12));
    }
}

double test_data_value(tdm_dtype dtype, test_data_kind kind, test_random *random) {
    if (kind == TEST_DATA_SMALL_INTEGER) {
        return (double)(dtype == TDM_U8 ? test_random_int(random, 0, 8)
                                        : test_random_int(random, -4, 4));
    }
    if (kind == TEST_DATA_TIES)
        return tie(random);
    if (is_integer(dtype)) {
        int32_t low, high;
        tdm_number_int_range(dtype, &low, &high);
        return (double)test_random_int(random, low, high);
    }
    if (kind == TEST_DATA_WIDE) {
        const double magnitude = exp2(test_random_uniform(random, -12.0, 12.0));
        return (test_random_bits(random) & 1) != 0 ? -magnitude : magnitude;
    }
    return test_random_uniform(random, -1.0, 1.0);
}

/* Returns an integer of any magnitude, or a 0 or 1 for a bool. */
static double wide_integer(tdm_dtype dtype, test_random *random) {
    const uint64_t bits = test_random_bits(random);
    if (dtype == TDM_BOOL)
        return (double)(bits & 1);
    return (double)((int64_t)bits >> (test_random_bits(random) % 64));
}

void test_data_fill(tdm_dtype dtype, void *data, size_t count, test_data_kind kind, uint64_t seed) {
    test_random random = {seed};
    if (kind == TEST_DATA_ANY_BITS && dtype != TDM_BOOL) {
        const size_t bytes = count * (size_t)tdm_dtype_info(dtype)->unit_bytes;
        for (size_t i = 0; i < bytes; i++)
            ((unsigned char *)data)[i] = (unsigned char)(test_random_bits(&random) >> 32);
        return;
    }
    const bool is_wide = dtype == TDM_S64 || dtype == TDM_BOOL;
    for (size_t i = 0; i < count; i++)
        tdm_number_set(dtype, data, i,
                       is_wide ? wide_integer(dtype, &random)
                               : test_data_value(dtype, kind, &random));
}
