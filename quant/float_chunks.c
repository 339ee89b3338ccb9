#include "quant/float_chunks.h"

#include <string.h>

#include "quant/number_formats.h"

int64_t tdm_quant_chunk(int64_t left) {
    return left < TDM_QUANT_CHUNK ? left : TDM_QUANT_CHUNK;
}

bool tdm_quant_is_float(tdm_dtype dtype) {
    return dtype == TDM_F32 || dtype == TDM_F16 || dtype == TDM_BF16;
}

void tdm_quant_load(tdm_dtype dtype, const void *array, int64_t first, int64_t count, float *x) {
    const unsigned char *const bytes = array;
    if (dtype == TDM_F32) {
        memcpy(x, bytes + (size_t)first * sizeof *x, (size_t)count * sizeof *x);
        return;
    }
    uint16_t bits[TDM_QUANT_CHUNK];
    memcpy(bits, bytes + (size_t)first * sizeof *bits, (size_t)count * sizeof *bits);
    for (int64_t i = 0; i < count; i++) {
        x[i] = dtype == TDM_F16 ? tdm_f32_from_f16(bits[i]) : tdm_f32_from_bf16(bits[i]);
    }
}

void tdm_quant_store(tdm_dtype dtype, void *array, int64_t first, int64_t count, const float *x) {
    unsigned char *const bytes = array;
    if (dtype == TDM_F32) {
        memcpy(bytes + (size_t)first * sizeof *x, x, (size_t)count * sizeof *x);
        return;
    }
    uint16_t bits[TDM_QUANT_CHUNK];
    for (int64_t i = 0; i < count; i++) {
        bits[i] = dtype == TDM_F16 ? tdm_f16_from_f32(x[i]) : tdm_bf16_from_f32(x[i]);
    }
    memcpy(bytes + (size_t)first * sizeof *bits, bits, (size_t)count * sizeof *bits);
}
