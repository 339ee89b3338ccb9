/*
 * This is the host reference of quantization in plain C, one element at a time. Kernels are tested
 * against these functions bit for bit. The command `tandem quantize` uses them.
 *
 * Scalars are f32. Each step is rounded to nearest even, without contraction, in the default
 * rounding mode. Inputs in f16 and bf16 widen to f32 exactly. Preconditions are not checked here.
 * tdm_quant_parameters_check must accept the parameters, and tdm_quant_spec_check the specs.
 * Integer ranges must be within [-2^21, 2^21].
 *
 * All functions are thread-safe. Arrays need no alignment but must not overlap.
 */
#ifndef TANDEM_QUANT_QUANT_REFERENCE_H
#define TANDEM_QUANT_QUANT_REFERENCE_H

#include "quant/quant_parameters.h"

/*
 * ONNX QuantizeLinear:  q = clamp(rint_even(x / scale) + zero_point, low, high)
 * x is divided by the scale, not multiplied with a reciprocal. Ties go to even before the zero
 * point is added; then the result saturates. NaN gives the zero point, infinities saturate, and
 * scale 0 gives the zero point for any x.
 */
int32_t tdm_quant_quantize(float x, tdm_quant_parameters parameters, tdm_quant_range range);

/*
 * x = scale * float(q - zero_point). The difference is exact. Its conversion rounds only beyond
 * 2^24, which 8-bit values never reach. The product rounds once. Scale 0 gives 0.
 */
float tdm_quant_dequantize(int32_t q, tdm_quant_parameters parameters);

/*
 * Converts an s32 sum to the output's integers:
 *     q = zero_point + rint_even(clamp(float(acc) * multiplier, low - zero_point, high -
 *     zero_point))
 * float(acc) is rounded to nearest even (exact up to 2^24), then multiplied, never divided. The
 * multiplier is parameters.scale (tdm_quant_multiplier). A product that is NaN gives the zero
 * point. For relu, raise range.low to the zero point.
 */
int32_t tdm_quant_requantize(int32_t acc, tdm_quant_parameters parameters, tdm_quant_range range);

/*
 * Quantizes and dequantizes: y = tdm_quant_dequantize(tdm_quant_quantize(x)). *pass, which may be
 * NULL, is the straight-through gradient: true if rint_even(x / scale) + zero_point is in [low,
 * high] without the clamp. It is false for NaN, for infinities, and for scale 0.
 */
float tdm_quant_fake(float x, tdm_quant_parameters parameters, tdm_quant_range range, bool *pass);

/*
 * Returns the bits of x as f16 or bf16, rounded once to nearest even. If `saturate` is true, a
 * finite x beyond the largest finite number becomes that number instead of infinity. Infinities and
 * NaN stay.
 */
uint16_t tdm_quant_narrow(tdm_dtype dtype, float x, bool saturate);

/*
 * These get and set the integer at a position of an array of s8, u8 or s4; positions count
 * elements. The packing of s4 is described below. tdm_quant_set writes only that element. q must be
 * in the dtype's range.
 */
int32_t tdm_quant_get(tdm_dtype dtype, const void *quants, int64_t position);
void tdm_quant_set(tdm_dtype dtype, void *quants, int64_t position, int32_t q);

/*
 * s4 is two's complement: element 2i is in the low nibble of byte i, element 2i + 1 in the high
 * nibble. An odd count leaves the last high nibble 0. Values outside of [-8, 7] saturate. packed
 * has (count + 1) / 2 bytes.
 */
void tdm_quant_pack_s4(const int8_t *values, size_t count, uint8_t *packed);
void tdm_quant_unpack_s4(const uint8_t *packed, size_t count, int8_t *values);

/*
 * These process whole tensors, contiguous and row-major. scales and zero_points have
 * tdm_quant_scale_count entries in row-major order of the scale tensor. If zero_points is NULL, all
 * zero points are 0, for u8 too. Float arrays are f32, f16 or bf16. s4 arrays are packed over the
 * whole tensor, by position: rows of an odd length do not start at a byte.
 */
void tdm_quant_quantize_tensor(const tdm_quant_spec *spec, tdm_dtype dtype, const void *x,
                               const float *scales, const int32_t *zero_points, void *quants);

/* For f16 and bf16 the f32 result is rounded once more; a result beyond the largest finite number
 * becomes infinity. */
void tdm_quant_dequantize_tensor(const tdm_quant_spec *spec, const void *quants,
                                 const float *scales, const int32_t *zero_points, tdm_dtype dtype,
                                 void *y);

/* `sums` are s32 sums of the spec's shape. `multipliers` are indexed like the scales above, usually
 * per column. */
void tdm_quant_requantize_tensor(const tdm_quant_spec *spec, const int32_t *sums,
                                 const float *multipliers, const int32_t *zero_points,
                                 void *quants);

/* y has the dtype of x, to which it is rounded once more. mask has one byte per element, 1 if the
 * gradient passes; mask may be NULL. */
void tdm_quant_fake_tensor(const tdm_quant_spec *spec, tdm_dtype dtype, const void *x,
                           const float *scales, const int32_t *zero_points, void *y, uint8_t *mask);

/*
 * Returns the smallest and the largest finite element of every block, or 0 if a block has none. The
 * range is not widened to 0.
 */
void tdm_quant_ranges_tensor(const tdm_quant_spec *spec, tdm_dtype dtype, const void *x,
                             tdm_quant_bounds *bounds);

/*
 * Dynamic quantization: derives the parameters of every block from the block itself, then quantizes
 * it.
 *     bounds = smallest and largest finite element and 0 (NaN and infinities count as 0)
 *     parameters = tdm_quant_derive_kept(symmetry, bounds, spec->range, spec->scale_dtype)
 * An infinity saturates, and a NaN becomes the zero point. zero_points may be NULL for a symmetric
 * scheme on signed integers. If quants is NULL, only parameters are computed. Nothing is allocated.
 */
void tdm_quant_dynamic_tensor(const tdm_quant_spec *spec, tdm_quant_symmetry symmetry,
                              tdm_dtype dtype, const void *x, float *scales, int32_t *zero_points,
                              void *quants);

#endif
