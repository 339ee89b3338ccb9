/*
 * Arrays of f32, f16 and bf16 in pieces of f32 that fit the stack, so that loops over elements need
 * not ask for the dtype. Thread-safe.
 */
#ifndef TANDEM_QUANT_FLOAT_CHUNKS_H
#define TANDEM_QUANT_FLOAT_CHUNKS_H

#include <stdbool.h>
#include <stdint.h>

#include <tandem/dtype.h>

enum {
    TDM_QUANT_CHUNK = 512
};

/* Elements of the next piece when `left` are left. */
int64_t tdm_quant_chunk(int64_t left);

/* Whether the dtype is one that these functions know. */
bool tdm_quant_is_float(tdm_dtype dtype);

/* Elements first ... first + count - 1 of an array, widened exactly. The array need not be aligned. */
void tdm_quant_load(tdm_dtype dtype, const void *array, int64_t first, int64_t count, float *x);

/* The reverse, each rounded once to nearest even; too large gives infinity. */
void tdm_quant_store(tdm_dtype dtype, void *array, int64_t first, int64_t count, const float *x);

#endif
