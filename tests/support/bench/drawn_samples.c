#include "tests/support/bench/drawn_samples.h"

#include <math.h>

#include "common/random_fill.h"

/*
 * Returns approximately normal noise with mean 0 and deviation 1, made from twelve uniform numbers.
 */
static double noise(uint64_t seed, uint64_t index) {
    double sum = -6;
    for (uint64_t i = 0; i < 12; i++)
        sum += (double)(random_bits(seed, 12 * index + i) >> 11) * 0x1p-53;
    return sum;
}

void drawn_samples(double *samples, size_t count, double seconds, double spread, uint64_t seed) {
    for (size_t i = 0; i < count; i++)
        samples[i] = seconds * exp(spread * noise(seed, i));
}
