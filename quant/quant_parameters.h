/*
 * These functions derive scale and zero point from a range of real numbers. All arithmetic is f32,
 * and every step is rounded to nearest even. A kernel with equal steps therefore gets equal bits.
 *
 * All functions are pure and thread-safe.
 */
#ifndef TANDEM_QUANT_QUANT_PARAMETERS_H
#define TANDEM_QUANT_QUANT_PARAMETERS_H

#include "quant/schemes.h"

typedef struct tdm_quant_parameters {
    float scale;
    int32_t zero_point;
} tdm_quant_parameters;

/* This is a range of real numbers. {0, 0} also stands for no data. */
typedef struct tdm_quant_bounds {
    float minimum, maximum;
} tdm_quant_bounds;

/*
 * Returns the scale and zero point that map [minimum, maximum] onto the integers of the range.
 *
 *     lowest = min(minimum, 0), highest = max(maximum, 0)    0 is always in the range
 *     symmetric:   zero_point = tdm_quant_middle(range)
 *                  scale = max(-lowest, highest) / (high - zero_point)
 *     asymmetric:  scale = min(highest - lowest, FLT_MAX) / (high - low)
 *                  zero_point = clamp(rint_even(low - lowest / scale), low, high)
 *
 * The asymmetric form on [0, 255] is ONNX DynamicQuantizeLinear. The real number 0 is exactly the
 * integer zero_point.
 *
 * Degenerate ranges:
 *   - A scale below the smallest normal f32 (2^-126; all data 0 or denormal) becomes 0, as on a
 *     device that flushes denormals. An asymmetric zero point is then clamp(0, low, high). Such a
 *     channel quantizes to its zero point and dequantizes to 0.
 *   - A single value v != 0 gives the range from 0 to v (asymmetric) or [-|v|, |v|] (symmetric): v
 *     is the last integer on its side.
 *   - minimum > maximum: each bound still counts with 0. (inf, -inf), the start of a reduction, is
 *     thus {0, 0}.
 *   - Infinite bounds count as -FLT_MAX or FLT_MAX, a NaN as 0. Observers and the dynamic functions
 *     leave such data out before.
 */
tdm_quant_parameters tdm_quant_derive(tdm_quant_symmetry symmetry, tdm_quant_bounds bounds,
                                      tdm_quant_range range);

/*
 * Derives parameters with a scale that is stored in f16 or bf16. It is rounded to nearest even, and
 * is at most the largest finite number of the dtype. The zero point follows from the stored scale,
 * also if that is 0. For f32 or TDM_DTYPE_NONE, the result is that of tdm_quant_derive.
 */
tdm_quant_parameters tdm_quant_derive_kept(tdm_quant_symmetry symmetry, tdm_quant_bounds bounds,
                                           tdm_quant_range range, tdm_dtype scale_dtype);

/*
 * Returns the range of real numbers that the parameters represent: scale * (low - zero_point) and
 * scale * (high - zero_point). Numbers beyond it by more than half a step saturate.
 */
tdm_quant_bounds tdm_quant_reach(tdm_quant_parameters parameters, tdm_quant_range range);

/*
 * Returns true if the parameters are valid. The scale is finite, and 0 or at least 2^-126 in
 * magnitude; a negative one is legal. The zero point is in the range. reason may be NULL; it
 * includes `position`.
 */
bool tdm_quant_parameters_check(tdm_quant_parameters parameters, tdm_quant_range range,
                                int64_t position, tdm_quant_reason *reason);

/*
 * Returns the factor from s32 sums of products to the output's integers: (scale_a * scale_b) /
 * scale_output, two roundings; 0 if scale_output is 0.
 */
float tdm_quant_multiplier(float scale_a, float scale_b, float scale_output);

/*
 * These functions search for the least squared error over the data itself, for weights. The
 * candidates are the range of the data times a factor. Factors go from 1 down to 1/4 in steps of
 * 1/64, then down to 2^-8 by roots of 2. An asymmetric candidate multiplies both ends. A symmetric
 * candidate multiplies the largest magnitude, to which the range is then clipped.
 */
enum {
    TDM_QUANT_MSE_CANDIDATES = 49 + 12
};

/* Computes the parameters of every candidate for data whose extremes are `widest`, the widest
 * first, as tdm_quant_derive_kept does. */
void tdm_quant_mse_candidates(tdm_quant_symmetry symmetry, tdm_quant_bounds widest,
                              tdm_quant_range range, tdm_dtype scale_dtype,
                              tdm_quant_parameters *candidates);

/*
 * Adds to errors[c], for every candidate, the sum over the data of (x - dequantize(quantize(x)))^2,
 * in the arithmetic of tdm_quant_quantize and tdm_quant_dequantize. Sums of parts of the data may
 * be added. Non-finite values are left out.
 */
void tdm_quant_mse_add(const tdm_quant_parameters *candidates, tdm_quant_range range,
                       const float *data, size_t count, double *errors);

/* Returns the candidate of the least error. The widest wins among equals, and if its scale is 0. */
int tdm_quant_mse_best(const tdm_quant_parameters *candidates, const double *errors);

/* Returns the bounds of the best candidate for data in memory, with scales of f32. */
tdm_quant_bounds tdm_quant_search_mse(tdm_quant_symmetry symmetry, const float *data, size_t count,
                                      tdm_quant_range range);

#endif
