/* Random data from a seed. Element i depends only on the seed and i, in every process. */
#ifndef TANDEM_COMMON_RANDOM_FILL_H
#define TANDEM_COMMON_RANDOM_FILL_H

#include <tandem/dtype.h>

/* Returns 64 random bits at `index` of sequence `seed` (the output function of SplitMix64). */
uint64_t random_bits(uint64_t seed, uint64_t index);

/* Returns the 24-bit uniform number in [-1, 1) that random_fill_numbers stores at `index`. */
float random_number(uint64_t seed, uint64_t index);

/* Fills an array with uniform numbers in [-1, 1), rounded to f32, f16, bf16 or f64. */
void random_fill_numbers(tdm_dtype dtype, uint64_t seed, void *data, size_t count);

/* Fills an array with random bytes. */
void random_fill_bytes(uint64_t seed, void *data, size_t bytes);

#endif
