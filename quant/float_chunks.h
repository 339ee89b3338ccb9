/*
 * These functions read and write arrays of f32, f16 and bf16 in chunks of f32 that fit the stack.
 * Loops over elements thus do not depend on the dtype. The functions are thread-safe.
 */
#ifndef TANDEM_QUANT_FLOAT_CHUNKS_H
#define TANDEM_QUANT_FLOAT_CHUNKS_H

#include <stdbool.h>
#include <stdint.h>

#include <tandem/dtype.h>

enum {
    TDM_QUANT_CHUNK = 512
};

/* Returns the number of elements of the next chunk if `left` elements are left. */
int64_t tdm_quant_chunk(int64_t left);

/* Returns true if these functions support the dtype. */
bool tdm_quant_is_float(tdm_dtype dtype);

/* Loads elements first ... first + count - 1 of an array, widened exactly. The array need not be
 * aligned. */
void tdm_quant_load(tdm_dtype dtype, const void *array, int64_t first, int64_t count, float *x);

/* Stores elements, each rounded once to nearest even; a number that is too large becomes
 * infinity. */
void tdm_quant_store(tdm_dtype dtype, void *array, int64_t first, int64_t count, const float *x);

#endif
