#include "cli/quantize/quantize_lost.h"

#include <math.h>
#include <string.h>

#include "quant/quant_blocks.h"

static uint64_t count_nonzero(const float *values, int64_t count) {
    uint64_t nonzero = 0;
    for (int64_t i = 0; i < count; i++)
        nonzero += values[i] != 0;
    return nonzero;
}

void quantize_lost_in_blocks(const float *before, const void *encoded, size_t bytes, size_t blocks,
                             quantize_outcome *outcome) {
    for (size_t i = 0; i < blocks; i++) {
        uint16_t scale;
        memcpy(&scale, (const unsigned char *)encoded + i * bytes, sizeof scale);
        if ((scale & 0x7fff) == 0)
            outcome->zeroed +=
                count_nonzero(before + i * TDM_QUANT_BLOCK_ELEMENTS, TDM_QUANT_BLOCK_ELEMENTS);
    }
}

static float largest_scale(const tdm_quant_spec *spec) {
    return spec->scale_dtype == TDM_F16 ? 65504.0f : HUGE_VALF;
}

/* Whether a scale stands for another, which its type has no room for. */
static int has_bad_scale(const tdm_quant_spec *spec, const float *scales) {
    for (int64_t i = 0; i < tdm_quant_scale_count(spec); i++)
        if (scales[i] == 0 || scales[i] == largest_scale(spec))
            return 1;
    return 0;
}

void quantize_lost_in_codes(const tdm_quant_spec *spec, const float *scales, const float *before,
                            const float *after, quantize_outcome *outcome) {
    const int64_t columns = spec->shape[1];
    if (!has_bad_scale(spec, scales))
        return;
    for (int64_t i = 0; i < spec->shape[0] * columns; i++) {
        const int64_t at[2] = {i / columns, i % columns};
        const float scale = scales[tdm_quant_scale_index(spec, at)];
        outcome->zeroed += scale == 0 && before[i] != 0;
        outcome->saturated += scale == largest_scale(spec) && fabsf(before[i] - after[i]) > scale;
    }
}
