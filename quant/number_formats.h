/*
 * This is the host reference of the number formats that tdm_number_known lists. It converts between
 * these storage formats and C numbers, and rounds once. Kernels are tested against these functions;
 * files are read and written with them.
 *
 * These rules hold on every device:
 *   to a float format    round to nearest, ties to even; a number that is too large becomes
 *                        infinity; a NaN stays a quiet NaN with its sign; denormals are kept
 *   to an integer format round to nearest, ties to even, then saturate; NaN gives 0
 *   to bool              0 for zero, else 1, also for a NaN
 * Every value of f32, f16, bf16, s32, s8, u8 and bool is exact in a double, so a conversion through
 * a double rounds once. An s64 beyond 2^53 is rounded to the nearest double.
 *
 * All functions are pure and thread-safe.
 */
#ifndef TANDEM_QUANT_NUMBER_FORMATS_H
#define TANDEM_QUANT_NUMBER_FORMATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tandem/dtype.h>

/* These convert IEEE binary16 (1 sign, 5 exponent, 10 mantissa bits). */
uint16_t tdm_f16_from_f32(float x);
uint16_t tdm_f16_from_f64(double x);
float tdm_f32_from_f16(uint16_t bits);

/* These convert bfloat16, the upper half of an f32 (1 sign, 8 exponent, 7 mantissa bits). */
uint16_t tdm_bf16_from_f32(float x);
uint16_t tdm_bf16_from_f64(double x);
float tdm_f32_from_bf16(uint16_t bits);

/* Returns the nearest integer, ties to even, limited to [low, high]; NaN gives 0. */
int32_t tdm_int_from_f64(double x, int32_t low, int32_t high);

/* Returns true if tdm_number_get and tdm_number_set support the dtype: f32, f16, bf16, f64, s32,
 * s8, u8, s64, bool. */
bool tdm_number_known(tdm_dtype dtype);

/* Returns element `index` of an array of a supported dtype. The array need not be aligned. */
double tdm_number_get(tdm_dtype dtype, const void *data, size_t index);

/* Stores x, rounded once by the rules above, as element `index` of an array of a supported
 * dtype. */
void tdm_number_set(tdm_dtype dtype, void *data, size_t index, double x);

/* Returns the unit roundoff of a supported float dtype, which is half the distance from 1 to the
 * next number. It is 2^-24 for f32, 2^-11 for f16, 2^-8 for bf16; 0 for integers. */
double tdm_number_roundoff(tdm_dtype dtype);

/* Returns the smallest positive normal number of a supported float dtype; 0 for integers. */
double tdm_number_min_normal(tdm_dtype dtype);

/* Sets the range of a supported integer dtype. */
void tdm_number_int_range(tdm_dtype dtype, int32_t *low, int32_t *high);

#endif
