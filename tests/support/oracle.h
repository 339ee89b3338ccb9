/*
 * The oracle: operations in double precision, in plain C, and what a kernel's result may differ by.
 */
#ifndef TANDEM_TESTS_SUPPORT_ORACLE_H
#define TANDEM_TESTS_SUPPORT_ORACLE_H

#include <stdbool.h>
#include <stdint.h>

#include <tandem/ops.h>

/* The formula's value. */
double oracle_unary(tdm_unary op, double x);

/* Bound of the f32 result's absolute error, before it is rounded to the output's dtype. */
double oracle_unary_bound(tdm_unary op, double x, double y);

/* The same for a quotient or square root y; integers have none. */
double oracle_divide_bound(tdm_dtype dtype, double y);

/* Floats: the exact value; integers: wrapped (s32) or saturated (s8, u8). */
double oracle_binary(tdm_binary op, tdm_dtype dtype, double a, double b);

/*
 * Whether `actual`, of a dtype, is a legal rounding of some number within `bound` of `expected`.
 * NaN matches NaN only. Devices may flush results below f32's smallest normal number to zero.
 */
bool oracle_matches(tdm_dtype dtype, double actual, double expected, double bound);

/* True for a number that a device may take as zero when it reads it: f32's denormals. */
bool oracle_may_flush(tdm_dtype dtype, double x);

#endif
