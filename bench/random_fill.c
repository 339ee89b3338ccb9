#include "bench/random_fill.h"

#include <string.h>

#include "quant/number_formats.h"

uint64_t random_bits(uint64_t seed, uint64_t index) {
    uint64_t z = seed * 0x9E3779B97F4A7C15u + (index + 1) * 0xD1342543DE82EF95u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

float random_number(uint64_t seed, uint64_t index) {
    /* 24 bits: exact in f32, so f32 data is the same whatever the compiler does. */
    const int32_t whole = (int32_t)(random_bits(seed, index) >> 40) - (1 << 23);
    return (float)whole / (float)(1 << 23);
}

void random_fill_numbers(tdm_dtype dtype, uint64_t seed, void *data, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const float value = random_number(seed, i);
        if (dtype == TDM_F32)
            ((float *)data)[i] = value;
        else
            tdm_number_set(dtype, data, i, value);
    }
}

void random_fill_bytes(uint64_t seed, void *data, size_t bytes) {
    unsigned char *const out = data;
    for (size_t i = 0; i < bytes; i += 8) {
        const uint64_t bits = random_bits(seed, i / 8);
        memcpy(out + i, &bits, bytes - i < 8 ? bytes - i : 8);
    }
}
