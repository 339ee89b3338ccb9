#include "quant/histogram.h"

#include <math.h>

enum {
    SIDE = TDM_QUANT_SIDE_BINS
};

void tdm_quant_histogram_clear(tdm_quant_histogram *histogram) {
    *histogram = (tdm_quant_histogram){.exponent = TDM_QUANT_EXPONENT_MIN};
}

int tdm_quant_histogram_exponent(float amax) {
    int exponent = TDM_QUANT_EXPONENT_MIN;
    if (amax > 0) {
        frexpf(amax, &exponent);
    }
    return exponent > TDM_QUANT_EXPONENT_MIN ? exponent : TDM_QUANT_EXPONENT_MIN;
}

/* Joins every pair of neighbouring bins of a side. `first` is the bin next to 0; `step` leads away
 * from 0. */
static void join_pairs(uint64_t *first, int step) {
    for (int m = 0; m < SIDE; m++) {
        const uint64_t joined = m < SIDE / 2 ? first[2 * m * step] + first[(2 * m + 1) * step] : 0;
        first[m * step] = joined;
    }
}

void tdm_quant_histogram_grow(tdm_quant_histogram *histogram, int exponent) {
    const int wanted = exponent < TDM_QUANT_EXPONENT_MAX ? exponent : TDM_QUANT_EXPONENT_MAX;
    /* After that many doublings all counts are next to 0. */
    const int all_joined = histogram->exponent + TDM_QUANT_SIDE_BINS_LOG2;
    for (; histogram->exponent < wanted && histogram->exponent < all_joined;
         histogram->exponent++) {
        join_pairs(histogram->counts + SIDE, 1);
        join_pairs(histogram->counts + SIDE - 1, -1);
    }
    histogram->exponent = wanted > histogram->exponent ? wanted : histogram->exponent;
}

static float greatest_magnitude(const float *data, size_t count) {
    float amax = 0.0f;
    for (size_t i = 0; i < count; i++) {
        amax = fabsf(data[i]) > amax ? fabsf(data[i]) : amax;
    }
    return amax;
}

void tdm_quant_histogram_add(tdm_quant_histogram *histogram, const float *data, size_t count) {
    tdm_quant_histogram_grow(histogram,
                             tdm_quant_histogram_exponent(greatest_magnitude(data, count)));
    const float factor = ldexpf(1.0f, TDM_QUANT_SIDE_BINS_LOG2 - histogram->exponent);
    for (size_t i = 0; i < count; i++) {
        const int m = (int)(fabsf(data[i]) * factor);
        if (data[i] == 0.0f) {
            histogram->zeros++;
        } else {
            histogram->counts[data[i] > 0 ? SIDE + m : SIDE - 1 - m]++;
        }
    }
}

void tdm_quant_histogram_merge(tdm_quant_histogram *into, const tdm_quant_histogram *from) {
    tdm_quant_histogram_grow(into, from->exponent);
    const int shift = into->exponent - from->exponent;
    for (int m = 0; m < SIDE; m++) {
        const int target = shift < TDM_QUANT_SIDE_BINS_LOG2 ? m >> shift : 0;
        into->counts[SIDE + target] += from->counts[SIDE + m];
        into->counts[SIDE - 1 - target] += from->counts[SIDE - 1 - m];
    }
    into->zeros += from->zeros;
}

uint64_t tdm_quant_histogram_total(const tdm_quant_histogram *histogram) {
    uint64_t total = histogram->zeros;
    for (int i = 0; i < TDM_QUANT_BINS; i++) {
        total += histogram->counts[i];
    }
    return total;
}
