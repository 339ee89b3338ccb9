/*
 * The oracle computes operations in plain C in double precision, and the error bounds of kernel
 * results.
 */
#ifndef TANDEM_TESTS_SUPPORT_ORACLE_H
#define TANDEM_TESTS_SUPPORT_ORACLE_H

#include <stdbool.h>
#include <stdint.h>

#include <tandem/ops.h>

/* Returns the exact value of the operation. */
double oracle_unary(tdm_unary op, double x);

/* Bound of the f32 result's absolute error, before it is rounded to the output's dtype. */
double oracle_unary_bound(tdm_unary op, double x, double y);

/* Returns a bound of the absolute error of a quotient or square root y in a float dtype. */
double oracle_divide_bound(tdm_dtype dtype, double y);

/* Floats: the exact value; integers: wrapped (s32) or saturated (s8, u8). */
double oracle_binary(tdm_binary op, tdm_dtype dtype, double a, double b);

/*
 * Returns true if `actual` is a legal rounding to `dtype` of some number within `bound` of
 * `expected`. NaN matches NaN only. Devices may flush results below f32's smallest normal number to
 * zero.
 */
bool oracle_matches(tdm_dtype dtype, double actual, double expected, double bound);

/* True if a device may read the number as zero: f32's denormals. */
bool oracle_may_flush(tdm_dtype dtype, double x);

#endif
