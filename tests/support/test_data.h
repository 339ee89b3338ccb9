/* Test data is generated from a seed. The same seed gives the same numbers everywhere. */
#ifndef TANDEM_TESTS_SUPPORT_TEST_DATA_H
#define TANDEM_TESTS_SUPPORT_TEST_DATA_H

#include <stddef.h>
#include <stdint.h>

#include <tandem/dtype.h>

typedef struct test_random {
    uint64_t state;
} test_random;

uint64_t test_random_bits(test_random *random);
/* Returns a number that is uniform in [low, high). */
double test_random_uniform(test_random *random, double low, double high);
/* Returns a number that is uniform in [low, high], both included. */
int64_t test_random_int(test_random *random, int64_t low, int64_t high);

typedef enum test_data_kind {
    TEST_DATA_UNIT,          /* floats in [-1, 1); integers over their whole range */
    TEST_DATA_SMALL_INTEGER, /* integers in [-4, 4], u8 in [0, 8]: float sums of them are exact */
    TEST_DATA_WIDE,     /* floats of either sign from 2^-12 to 2^12; integers over their range */
    TEST_DATA_ANY_BITS, /* every bit pattern: denormals, infinities and NaNs too */
    TEST_DATA_TIES /* values half way between neighbours of the integers and of narrower floats */
} test_data_kind;

/* Fills `count` elements of a known dtype. */
void test_data_fill(tdm_dtype dtype, void *data, size_t count, test_data_kind kind, uint64_t seed);

/* Returns the next value of the generator. Not for TEST_DATA_ANY_BITS. */
double test_data_value(tdm_dtype dtype, test_data_kind kind, test_random *random);

#endif
