#include "quant/quant_blocks.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "quant/number_formats.h"

enum {
    ELEMENTS = TDM_QUANT_BLOCK_ELEMENTS,
    HALF = ELEMENTS / 2,
    SCALE_BYTES = 2
};

static void put_scale(uint8_t *block, uint16_t bits) {
    block[0] = (uint8_t)(bits & 0xff);
    block[1] = (uint8_t)(bits >> 8);
}

static uint16_t get_scale(const uint8_t *block) {
    return (uint16_t)(block[0] | block[1] << 8);
}

/* Finds the first element of largest magnitude; returns false if one is not finite. */
static bool extreme_of(const float *x, float *extreme) {
    *extreme = 0.0f;
    for (int i = 0; i < ELEMENTS; i++) {
        if (!isfinite(x[i])) {
            return false;
        }
        if (fabsf(x[i]) > fabsf(*extreme)) {
            *extreme = x[i];
        }
    }
    return true;
}

/* Returns 1 / d, or 0 if that is not finite. If 1 / d overflows, the f16 d in the file is 0
 * anyway. */
static float inverse_of(float d) {
    const float inverse = d != 0.0f ? 1.0f / d : 0.0f;
    return isfinite(inverse) ? inverse : 0.0f;
}

/* Returns false if d is too large for f16. */
static bool store_scale(float d, uint8_t *block) {
    const uint16_t bits = tdm_f16_from_f32(d);
    if ((bits & 0x7fff) == 0x7c00) {
        return false;
    }
    put_scale(block, bits);
    return true;
}

/* ---- q8_0 --------------------------------------------------------------------------------- */

static bool encode_q8_0(const float *x, uint8_t *block) {
    float extreme;
    if (!extreme_of(x, &extreme)) {
        return false;
    }
    const float d = fabsf(extreme) / 127.0f;
    const float inverse = inverse_of(d);
    if (!store_scale(d, block)) {
        return false;
    }
    for (int i = 0; i < ELEMENTS; i++) {
        block[SCALE_BYTES + i] = (uint8_t)(int8_t)roundf(x[i] * inverse);
    }
    return true;
}

size_t tdm_quant_q8_0_encode(const float *x, size_t blocks, void *encoded) {
    uint8_t *const bytes = encoded;
    size_t done = 0;
    while (done < blocks && encode_q8_0(x + done * ELEMENTS, bytes + done * TDM_QUANT_Q8_0_BYTES)) {
        done++;
    }
    return done;
}

void tdm_quant_q8_0_decode(const void *encoded, size_t blocks, float *x) {
    const uint8_t *block = encoded;
    for (size_t b = 0; b < blocks; b++, block += TDM_QUANT_Q8_0_BYTES, x += ELEMENTS) {
        const float d = tdm_f32_from_f16(get_scale(block));
        for (int i = 0; i < ELEMENTS; i++) {
            x[i] = (float)(int8_t)block[SCALE_BYTES + i] * d;
        }
    }
}

void tdm_quant_q8_0_split(const void *encoded, size_t blocks, uint16_t *scales, int8_t *quants) {
    const uint8_t *block = encoded;
    for (size_t b = 0; b < blocks; b++, block += TDM_QUANT_Q8_0_BYTES) {
        scales[b] = get_scale(block);
        memcpy(quants + b * ELEMENTS, block + SCALE_BYTES, ELEMENTS);
    }
}

void tdm_quant_q8_0_join(const uint16_t *scales, const int8_t *quants, size_t blocks,
                         void *encoded) {
    uint8_t *block = encoded;
    for (size_t b = 0; b < blocks; b++, block += TDM_QUANT_Q8_0_BYTES) {
        put_scale(block, scales[b]);
        memcpy(block + SCALE_BYTES, quants + b * ELEMENTS, ELEMENTS);
    }
}

/* ---- q4_0 --------------------------------------------------------------------------------- */

/* Returns x / d + 8 rounded to nearest, as an unsigned nibble. x / d is at least -8 apart from
 * rounding, so the sum is not negative. */
static unsigned nibble_of(float x, float inverse) {
    const float shifted = x * inverse + 8.5f;
    return shifted < 15.0f ? (unsigned)(int)shifted : 15u;
}

static bool encode_q4_0(const float *x, uint8_t *block) {
    float extreme;
    if (!extreme_of(x, &extreme)) {
        return false;
    }
    const float d = extreme / -8.0f;
    const float inverse = inverse_of(d);
    if (!store_scale(d, block)) {
        return false;
    }
    for (int i = 0; i < HALF; i++) {
        const unsigned low = nibble_of(x[i], inverse);
        const unsigned high = nibble_of(x[i + HALF], inverse);
        block[SCALE_BYTES + i] = (uint8_t)(low | high << 4);
    }
    return true;
}

size_t tdm_quant_q4_0_encode(const float *x, size_t blocks, void *encoded) {
    uint8_t *const bytes = encoded;
    size_t done = 0;
    while (done < blocks && encode_q4_0(x + done * ELEMENTS, bytes + done * TDM_QUANT_Q4_0_BYTES)) {
        done++;
    }
    return done;
}

void tdm_quant_q4_0_decode(const void *encoded, size_t blocks, float *x) {
    const uint8_t *block = encoded;
    for (size_t b = 0; b < blocks; b++, block += TDM_QUANT_Q4_0_BYTES, x += ELEMENTS) {
        const float d = tdm_f32_from_f16(get_scale(block));
        for (int i = 0; i < HALF; i++) {
            const int byte = block[SCALE_BYTES + i];
            x[i] = (float)((byte & 15) - 8) * d;
            x[i + HALF] = (float)((byte >> 4) - 8) * d;
        }
    }
}

/* Returns the nibble of element i of a block in the file's order. */
static unsigned file_nibble(const uint8_t *quants, int i) {
    return i < HALF ? quants[i] & 15u : (unsigned)quants[i - HALF] >> 4;
}

void tdm_quant_q4_0_split(const void *encoded, size_t blocks, uint16_t *scales, uint8_t *quants) {
    const uint8_t *block = encoded;
    for (size_t b = 0; b < blocks; b++, block += TDM_QUANT_Q4_0_BYTES, quants += HALF) {
        scales[b] = get_scale(block);
        for (int i = 0; i < HALF; i++) {
            /* q - 8 in two's complement is q with its top bit flipped. */
            const unsigned low = file_nibble(block + SCALE_BYTES, 2 * i) ^ 8u;
            const unsigned high = file_nibble(block + SCALE_BYTES, 2 * i + 1) ^ 8u;
            quants[i] = (uint8_t)(low | high << 4);
        }
    }
}

/* Returns the nibble of element i of a block in the packed order of s4. */
static unsigned packed_nibble(const uint8_t *quants, int i) {
    return i % 2 == 0 ? quants[i / 2] & 15u : (unsigned)quants[i / 2] >> 4;
}

void tdm_quant_q4_0_join(const uint16_t *scales, const uint8_t *quants, size_t blocks,
                         void *encoded) {
    uint8_t *block = encoded;
    for (size_t b = 0; b < blocks; b++, block += TDM_QUANT_Q4_0_BYTES, quants += HALF) {
        put_scale(block, scales[b]);
        for (int i = 0; i < HALF; i++) {
            const unsigned low = packed_nibble(quants, i) ^ 8u;
            const unsigned high = packed_nibble(quants, i + HALF) ^ 8u;
            block[SCALE_BYTES + i] = (uint8_t)(low | high << 4);
        }
    }
}
