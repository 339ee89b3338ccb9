#include "common/random_fill.h"

#include <string.h>

#include "common/parallel_shares.h"
#include "quant/number_formats.h"

uint64_t random_bits(uint64_t seed, uint64_t index) {
    uint64_t z = seed * 0x9E3779B97F4A7C15u + (index + 1) * 0xD1342543DE82EF95u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

float random_number(uint64_t seed, uint64_t index) {
    /* 24 bits are exact in f32, so f32 data is the same with every compiler. */
    const int32_t whole = (int32_t)(random_bits(seed, index) >> 40) - (1 << 23);
    return (float)whole / (float)(1 << 23);
}

/* An array, which several threads fill if it is large. */
typedef struct filling {
    tdm_dtype dtype; /* TDM_DTYPE_NONE: words of random bits */
    uint64_t seed;
    unsigned char *data;
    size_t count; /* elements or bytes */
} filling;

enum {
    WORD = 8,
    LARGE = 1 << 20
};

static void fill_numbers(const filling *all, size_t first, size_t end) {
    for (size_t i = first; i < end; i++) {
        const float value = random_number(all->seed, i);
        if (all->dtype == TDM_F32)
            ((float *)all->data)[i] = value;
        else
            tdm_number_set(all->dtype, all->data, i, value);
    }
}

static void fill_words(const filling *all, size_t first, size_t end) {
    for (size_t i = first; i < end; i++) {
        const uint64_t bits = random_bits(all->seed, i);
        const size_t at = i * WORD;
        memcpy(all->data + at, &bits, all->count - at < WORD ? all->count - at : WORD);
    }
}

static void fill_share(void *context, int share) {
    const filling *const all = context;
    const size_t places =
        all->dtype == TDM_DTYPE_NONE ? (all->count + WORD - 1) / WORD : all->count;
    const size_t first = places / PARALLEL_SHARES * (size_t)share;
    const size_t end = share == PARALLEL_SHARES - 1 ? places : first + places / PARALLEL_SHARES;
    if (all->dtype == TDM_DTYPE_NONE)
        fill_words(all, first, end);
    else
        fill_numbers(all, first, end);
}

static void fill(filling *all) {
    if (all->count >= LARGE) {
        parallel_shares(fill_share, all);
        return;
    }
    for (int share = 0; share < PARALLEL_SHARES; share++)
        fill_share(all, share);
}

void random_fill_numbers(tdm_dtype dtype, uint64_t seed, void *data, size_t count) {
    filling all = {dtype, seed, data, count};
    fill(&all);
}

void random_fill_bytes(uint64_t seed, void *data, size_t bytes) {
    filling all = {TDM_DTYPE_NONE, seed, data, bytes};
    fill(&all);
}
