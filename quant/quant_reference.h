/*
 * Host reference of quantization: plain C, one element at a time. Kernels are tested against these
 * functions bit for bit; tandem quantize works with them.
 *
 * Scalars in f32, each step rounded to nearest even on its own (no contraction), the process in the
 * default rounding mode. Inputs in f16 and bf16 widen to f32 exactly. Preconditions, not checked
 * here: parameters that tdm_quant_parameters_check accepts, specs that tdm_quant_spec_check accepts,
 * integer ranges within [-2^21, 2^21].
 *
 * All functions are thread-safe. Arrays need no alignment but must not overlap.
 */
#ifndef TANDEM_QUANT_QUANT_REFERENCE_H
#define TANDEM_QUANT_QUANT_REFERENCE_H

#include "quant/quant_parameters.h"

/*
 * ONNX QuantizeLinear:  q = clamp(rint_even(x / scale) + zero_point, low, high)
 * A division, not a multiplication with a reciprocal; ties to even before the zero point is added;
 * then saturated. NaN gives the zero point, infinities saturate, scale 0 gives the zero point
 * whatever x is.
 */
int32_t tdm_quant_quantize(float x, tdm_quant_parameters parameters, tdm_quant_range range);

/*
 * x = scale * float(q - zero_point). The difference is exact; its conversion rounds only beyond
 * 2^24, which 8-bit quants never reach; the product rounds once. Scale 0 gives 0.
 */
float tdm_quant_dequantize(int32_t q, tdm_quant_parameters parameters);

/*
 * An s32 sum to the output's integers:
 *     q = zero_point + rint_even(clamp(float(acc) * multiplier, low - zero_point, high - zero_point))
 * float(acc) is rounded to nearest even (exact up to 2^24), then a multiplication, never a division.
 * The multiplier stands in parameters.scale (tdm_quant_multiplier). A product that is NaN gives the
 * zero point. For relu, raise range.low to the zero point.
 */
int32_t tdm_quant_requantize(int32_t acc, tdm_quant_parameters parameters, tdm_quant_range range);

/*
 * Quantize and dequantize: y = tdm_quant_dequantize(tdm_quant_quantize(x)). *pass, which may be
 * NULL, is the straight-through gradient: true where rint_even(x / scale) + zero_point lies in [low,
 * high] without the clamp. False for NaN, for infinities, and for scale 0.
 */
float tdm_quant_fake(float x, tdm_quant_parameters parameters, tdm_quant_range range, bool *pass);

/*
 * x as f16 or bf16, rounded once to nearest even. saturate: a finite x beyond the largest finite
 * number becomes that number instead of infinity; infinities and NaN stay. Returns the bits.
 */
uint16_t tdm_quant_narrow(tdm_dtype dtype, float x, bool saturate);

/*
 * Integer at a position of an array of s8, u8 or s4; positions count elements. s4 is packed as below.
 * set writes only that element; q must be in the dtype's range.
 */
int32_t tdm_quant_get(tdm_dtype dtype, const void *quants, int64_t position);
void tdm_quant_set(tdm_dtype dtype, void *quants, int64_t position, int32_t q);

/*
 * s4, two's complement: element 2i in the low nibble of byte i, element 2i + 1 in the high nibble. An
 * odd count leaves the last high nibble 0. Values outside of [-8, 7] saturate. packed has
 * (count + 1) / 2 bytes.
 */
void tdm_quant_pack_s4(const int8_t *values, size_t count, uint8_t *packed);
void tdm_quant_unpack_s4(const uint8_t *packed, size_t count, int8_t *values);

/*
 * Whole tensors, contiguous and row-major. scales and zero_points have tdm_quant_scale_count entries
 * in row-major order of the scale tensor; zero_points NULL: 0 everywhere (128 is then no default of
 * u8). Float arrays are f32, f16 or bf16. s4 arrays are packed over the whole tensor, by position:
 * rows of an odd length do not start at a byte.
 */
void tdm_quant_quantize_tensor(const tdm_quant_spec *spec, tdm_dtype dtype, const void *x,
                               const float *scales, const int32_t *zero_points, void *quants);

/* To f16 and bf16: the f32 result rounded once more; beyond the largest finite number: infinity. */
void tdm_quant_dequantize_tensor(const tdm_quant_spec *spec, const void *quants,
                                 const float *scales, const int32_t *zero_points, tdm_dtype dtype,
                                 void *y);

/* s32 sums of the spec's shape; `multipliers` as the scales above, usually per column. */
void tdm_quant_requantize_tensor(const tdm_quant_spec *spec, const int32_t *sums,
                                 const float *multipliers, const int32_t *zero_points,
                                 void *quants);

/* y in the dtype of x (rounded to it once more), mask one byte per element, 1 where the gradient
 * passes; mask may be NULL. */
void tdm_quant_fake_tensor(const tdm_quant_spec *spec, tdm_dtype dtype, const void *x,
                           const float *scales, const int32_t *zero_points, void *y, uint8_t *mask);

/*
 * Least and greatest finite element of every block, and 0 where a block has none. 0 is not added to
 * the range.
 */
void tdm_quant_ranges_tensor(const tdm_quant_spec *spec, tdm_dtype dtype, const void *x,
                             tdm_quant_bounds *bounds);

/*
 * Dynamic quantization: the parameters of every block from the block itself, then quantize.
 *     bounds = least and greatest finite element and 0 (NaN and infinities count as 0)
 *     parameters = tdm_quant_derive_kept(symmetry, bounds, spec->range, spec->scale_dtype)
 * An infinity saturates, a NaN becomes the zero point. zero_points may be NULL for a symmetric scheme
 * on signed integers; quants may be NULL: parameters only. Nothing is allocated.
 */
void tdm_quant_dynamic_tensor(const tdm_quant_spec *spec, tdm_quant_symmetry symmetry,
                              tdm_dtype dtype, const void *x, float *scales, int32_t *zero_points,
                              void *quants);

#endif
