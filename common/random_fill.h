/* Data from a seed: element i depends on the seed and i alone, so every process makes the same. */
#ifndef TANDEM_COMMON_RANDOM_FILL_H
#define TANDEM_COMMON_RANDOM_FILL_H

#include <tandem/dtype.h>

/* 64 random bits for place `index` of sequence `seed` (the output function of SplitMix64). */
uint64_t random_bits(uint64_t seed, uint64_t index);

/* A uniform number in [-1, 1), of 24 bits: number `index` of those that random_fill_numbers stores. */
float random_number(uint64_t seed, uint64_t index);

/* Uniform numbers in [-1, 1), rounded to a float dtype (f32, f16, bf16, f64). */
void random_fill_numbers(tdm_dtype dtype, uint64_t seed, void *data, size_t count);

/* Random bytes. */
void random_fill_bytes(uint64_t seed, void *data, size_t bytes);

#endif
