/*
 * From a range of real numbers to scale and zero point. All arithmetic is f32, every step rounded
 * to nearest even on its own, so that a kernel that does the same steps gets the same bits.
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

/* A range of real numbers. {0, 0} stands for no data too. */
typedef struct tdm_quant_bounds {
    float minimum, maximum;
} tdm_quant_bounds;

/*
 * Scale and zero point that map [minimum, maximum] onto the integers of the range.
 *
 *     lowest = min(minimum, 0), highest = max(maximum, 0)    0 is always in the range
 *     symmetric:   zero_point = tdm_quant_middle(range)
 *                  scale = max(-lowest, highest) / (high - zero_point)
 *     asymmetric:  scale = min(highest - lowest, FLT_MAX) / (high - low)
 *                  zero_point = clamp(rint_even(low - lowest / scale), low, high)
 *
 * The asymmetric form on [0, 255] is ONNX DynamicQuantizeLinear. The real number 0 is the integer
 * zero_point exactly.
 *
 * Degenerate ranges:
 *   - a scale below the smallest normal f32 (2^-126; all data 0 or denormal) becomes 0, which is what
 *     a device that flushes denormals makes of it. Asymmetric zero points are then clamp(0, low,
 *     high). Such a channel quantizes to its zero point and dequantizes to 0;
 *   - a single value v != 0 gives the range from 0 to v (asymmetric) or [-|v|, |v|] (symmetric): v is
 *     the last integer on its side;
 *   - minimum > maximum: each bound still counts with 0, so that (inf, -inf), the start of a
 *     reduction, is {0, 0};
 *   - infinite bounds count as -FLT_MAX or FLT_MAX, a NaN as 0. Observers and the dynamic functions
 *     leave such data out before.
 */
tdm_quant_parameters tdm_quant_derive(tdm_quant_symmetry symmetry, tdm_quant_bounds bounds,
                                      tdm_quant_range range);

/*
 * The same where the scale is kept in f16 or bf16: rounded to nearest even, the largest finite number of the dtype at
 * most. The zero point follows from what was kept, as from a scale of 0 where that is 0. f32, or TDM_DTYPE_NONE: as above.
 */
tdm_quant_parameters tdm_quant_derive_kept(tdm_quant_symmetry symmetry, tdm_quant_bounds bounds,
                                           tdm_quant_range range, tdm_dtype scale_dtype);

/*
 * Real numbers that the parameters reach: scale * (low - zero_point) and scale * (high -
 * zero_point). Everything beyond them, by more than half a step, saturates.
 */
tdm_quant_bounds tdm_quant_reach(tdm_quant_parameters parameters, tdm_quant_range range);

/*
 * Whether the parameters may be used: a finite scale that is 0 or at least 2^-126 in magnitude (a
 * negative one is legal) and a zero point in the range. reason may be NULL; `position` goes into it.
 */
bool tdm_quant_parameters_check(tdm_quant_parameters parameters, tdm_quant_range range,
                                int64_t position, tdm_quant_reason *reason);

/*
 * What s32 sums of products are multiplied with on their way to the output's integers:
 * (scale_a * scale_b) / scale_output, two roundings; 0 when scale_output is 0.
 */
float tdm_quant_multiplier(float scale_a, float scale_b, float scale_output);

/*
 * Least squared error over the data itself, for weights: among candidates, the range of the data times a factor from 1 down
 * to 1/4 in steps of 1/64 and on to 2^-8 by roots of 2; of both ends (asymmetric), or of the greatest magnitude, to
 * which the range is then clipped (symmetric).
 */
enum {
    TDM_QUANT_MSE_CANDIDATES = 49 + 12
};

/* Parameters of every candidate for data whose extremes are `widest`, the widest first, as tdm_quant_derive_kept makes them. */
void tdm_quant_mse_candidates(tdm_quant_symmetry symmetry, tdm_quant_bounds widest,
                              tdm_quant_range range, tdm_dtype scale_dtype,
                              tdm_quant_parameters *candidates);

/*
 * Add to errors[c], for every candidate, the sum over the data of (x - dequantize(quantize(x)))^2, in the arithmetic of these two.
 * Sums of parts of the data may be added. Non-finite values are left out.
 */
void tdm_quant_mse_add(const tdm_quant_parameters *candidates, tdm_quant_range range,
                       const float *data, size_t count, double *errors);

/* The least error's; the widest wins among equals, and where its scale is 0. */
int tdm_quant_mse_best(const tdm_quant_parameters *candidates, const double *errors);

/* The bounds of the best candidate for data in memory, with scales of f32. */
tdm_quant_bounds tdm_quant_search_mse(tdm_quant_symmetry symmetry, const float *data, size_t count,
                                      tdm_quant_range range);

#endif
