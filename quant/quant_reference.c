#include "quant/quant_reference.h"

#include <math.h>
#include <string.h>

#include "quant/float_chunks.h"
#include "quant/number_formats.h"

/* ---- one element -------------------------------------------------------------------------- */

/* zero_point + rint_even(clamp(x)): NaN gives the zero point. The limits are integers, so it does
 * not matter whether the clamp comes before or after the rounding. */
static int32_t to_range(float x, int32_t zero_point, tdm_quant_range range) {
    return zero_point +
           tdm_int_from_f64((double)x, range.low - zero_point, range.high - zero_point);
}

int32_t tdm_quant_quantize(float x, tdm_quant_parameters parameters, tdm_quant_range range) {
    if (parameters.scale == 0.0f) {
        return parameters.zero_point;
    }
    return to_range(x / parameters.scale, parameters.zero_point, range);
}

float tdm_quant_dequantize(int32_t q, tdm_quant_parameters parameters) {
    const int64_t difference = (int64_t)q - parameters.zero_point;
    return parameters.scale == 0.0f ? 0.0f : parameters.scale * (float)difference;
}

int32_t tdm_quant_requantize(int32_t acc, tdm_quant_parameters parameters, tdm_quant_range range) {
    return to_range((float)acc * parameters.scale, parameters.zero_point, range);
}

/* Whether the rounded quotient needs no saturation. */
static bool passes(float x, tdm_quant_parameters parameters, tdm_quant_range range) {
    if (parameters.scale == 0.0f) {
        return false;
    }
    const double quotient = (double)(x / parameters.scale);
    const int32_t low = range.low - parameters.zero_point;
    const int32_t high = range.high - parameters.zero_point;
    /* One more on each side, so that what lies beyond shows. A NaN fails the first comparison. */
    const int32_t q = tdm_int_from_f64(quotient, low - 1, high + 1);
    return !isnan(quotient) && q >= low && q <= high;
}

float tdm_quant_fake(float x, tdm_quant_parameters parameters, tdm_quant_range range, bool *pass) {
    if (pass) {
        *pass = passes(x, parameters, range);
    }
    return tdm_quant_dequantize(tdm_quant_quantize(x, parameters, range), parameters);
}

uint16_t tdm_quant_narrow(tdm_dtype dtype, float x, bool saturate) {
    const bool half = dtype == TDM_F16;
    const uint16_t bits = half ? tdm_f16_from_f32(x) : tdm_bf16_from_f32(x);
    const uint16_t infinity = half ? 0x7c00 : 0x7f80;
    const bool overflow = (bits & 0x7fff) == infinity && isfinite(x);
    return saturate && overflow ? (uint16_t)(bits - 1) : bits;
}

/* ---- integers in memory ------------------------------------------------------------------- */

/* The s4 in the low nibble. */
static int32_t sign_extend(unsigned nibble) {
    return (int32_t)((nibble & 15u) ^ 8u) - 8;
}

int32_t tdm_quant_get(tdm_dtype dtype, const void *quants, int64_t position) {
    if (dtype == TDM_S4) {
        const unsigned byte = ((const uint8_t *)quants)[position / 2];
        return sign_extend(position % 2 != 0 ? byte >> 4 : byte);
    }
    return dtype == TDM_U8 ? ((const uint8_t *)quants)[position]
                           : ((const int8_t *)quants)[position];
}

void tdm_quant_set(tdm_dtype dtype, void *quants, int64_t position, int32_t q) {
    uint8_t *const bytes = quants;
    if (dtype != TDM_S4) {
        bytes[position] = (uint8_t)q;
        return;
    }
    const unsigned nibble = (unsigned)q & 15u;
    const unsigned byte = bytes[position / 2];
    bytes[position / 2] =
        (uint8_t)(position % 2 != 0 ? (byte & 0x0fu) | nibble << 4 : (byte & 0xf0u) | nibble);
}

void tdm_quant_pack_s4(const int8_t *values, size_t count, uint8_t *packed) {
    memset(packed, 0, count / 2 + count % 2);
    for (size_t i = 0; i < count; i++) {
        const int32_t value = tdm_quant_get(TDM_S8, values, (int64_t)i);
        tdm_quant_set(TDM_S4, packed, (int64_t)i, value < -8 ? -8 : value > 7 ? 7 : value);
    }
}

void tdm_quant_unpack_s4(const uint8_t *packed, size_t count, int8_t *values) {
    for (size_t i = 0; i < count; i++) {
        values[i] = (int8_t)tdm_quant_get(TDM_S4, packed, (int64_t)i);
    }
}

/* ---- tensors ------------------------------------------------------------------------------ */

/* What the visitors of runs share; each uses what it needs. */
typedef struct tensor_work {
    const tdm_quant_spec *spec;
    tdm_dtype dtype; /* of from and to, where they are floats */
    const void *from;
    void *to;
    uint8_t *mask;
    const float *scales;
    const int32_t *zero_points;
    tdm_quant_bounds *bounds;
} tensor_work;

static tdm_quant_parameters parameters_at(const tensor_work *work, int64_t scale) {
    return (tdm_quant_parameters){work->scales[scale],
                                  work->zero_points ? work->zero_points[scale] : 0};
}

static void quantize_run(void *user, int64_t first, int64_t count, int64_t scale) {
    const tensor_work *const work = user;
    const tdm_quant_parameters parameters = parameters_at(work, scale);
    float x[TDM_QUANT_CHUNK];
    for (int64_t position = first; position < first + count; position += TDM_QUANT_CHUNK) {
        const int64_t chunk = tdm_quant_chunk(first + count - position);
        tdm_quant_load(work->dtype, work->from, position, chunk, x);
        for (int64_t i = 0; i < chunk; i++) {
            const int32_t q = tdm_quant_quantize(x[i], parameters, work->spec->range);
            tdm_quant_set(work->spec->dtype, work->to, position + i, q);
        }
    }
}

/* The unused nibble of an odd count of s4 must not depend on what was there. */
static void clear_last_nibble(const tdm_quant_spec *spec, void *quants) {
    const int64_t count = tdm_quant_element_count(spec);
    if (spec->dtype == TDM_S4 && count % 2 != 0) {
        ((uint8_t *)quants)[count / 2] = 0;
    }
}

void tdm_quant_quantize_tensor(const tdm_quant_spec *spec, tdm_dtype dtype, const void *x,
                               const float *scales, const int32_t *zero_points, void *quants) {
    tensor_work work = {.spec = spec,
                        .dtype = dtype,
                        .from = x,
                        .to = quants,
                        .scales = scales,
                        .zero_points = zero_points};
    clear_last_nibble(spec, quants);
    tdm_quant_for_each_run(spec, quantize_run, &work);
}

static void dequantize_run(void *user, int64_t first, int64_t count, int64_t scale) {
    const tensor_work *const work = user;
    const tdm_quant_parameters parameters = parameters_at(work, scale);
    float y[TDM_QUANT_CHUNK];
    for (int64_t position = first; position < first + count; position += TDM_QUANT_CHUNK) {
        const int64_t chunk = tdm_quant_chunk(first + count - position);
        for (int64_t i = 0; i < chunk; i++) {
            const int32_t q = tdm_quant_get(work->spec->dtype, work->from, position + i);
            y[i] = tdm_quant_dequantize(q, parameters);
        }
        tdm_quant_store(work->dtype, work->to, position, chunk, y);
    }
}

void tdm_quant_dequantize_tensor(const tdm_quant_spec *spec, const void *quants,
                                 const float *scales, const int32_t *zero_points, tdm_dtype dtype,
                                 void *y) {
    tensor_work work = {.spec = spec,
                        .dtype = dtype,
                        .from = quants,
                        .to = y,
                        .scales = scales,
                        .zero_points = zero_points};
    tdm_quant_for_each_run(spec, dequantize_run, &work);
}

static void requantize_run(void *user, int64_t first, int64_t count, int64_t scale) {
    const tensor_work *const work = user;
    const tdm_quant_parameters parameters = parameters_at(work, scale);
    const unsigned char *const sums = work->from;
    for (int64_t i = first; i < first + count; i++) {
        int32_t sum;
        memcpy(&sum, sums + (size_t)i * sizeof sum, sizeof sum);
        const int32_t q = tdm_quant_requantize(sum, parameters, work->spec->range);
        tdm_quant_set(work->spec->dtype, work->to, i, q);
    }
}

void tdm_quant_requantize_tensor(const tdm_quant_spec *spec, const int32_t *sums,
                                 const float *multipliers, const int32_t *zero_points,
                                 void *quants) {
    tensor_work work = {.spec = spec,
                        .from = sums,
                        .to = quants,
                        .scales = multipliers,
                        .zero_points = zero_points};
    clear_last_nibble(spec, quants);
    tdm_quant_for_each_run(spec, requantize_run, &work);
}

static void fake_run(void *user, int64_t first, int64_t count, int64_t scale) {
    const tensor_work *const work = user;
    const tdm_quant_parameters parameters = parameters_at(work, scale);
    float values[TDM_QUANT_CHUNK];
    for (int64_t position = first; position < first + count; position += TDM_QUANT_CHUNK) {
        const int64_t chunk = tdm_quant_chunk(first + count - position);
        tdm_quant_load(work->dtype, work->from, position, chunk, values);
        for (int64_t i = 0; i < chunk; i++) {
            bool pass;
            values[i] = tdm_quant_fake(values[i], parameters, work->spec->range, &pass);
            if (work->mask) {
                work->mask[position + i] = pass ? 1 : 0;
            }
        }
        tdm_quant_store(work->dtype, work->to, position, chunk, values);
    }
}

void tdm_quant_fake_tensor(const tdm_quant_spec *spec, tdm_dtype dtype, const void *x,
                           const float *scales, const int32_t *zero_points, void *y,
                           uint8_t *mask) {
    tensor_work work = {.spec = spec,
                        .dtype = dtype,
                        .from = x,
                        .to = y,
                        .mask = mask,
                        .scales = scales,
                        .zero_points = zero_points};
    tdm_quant_for_each_run(spec, fake_run, &work);
}

/* ---- dynamic ------------------------------------------------------------------------------ */

static void bounds_run(void *user, int64_t first, int64_t count, int64_t scale) {
    const tensor_work *const work = user;
    tdm_quant_bounds bounds = work->bounds[scale];
    float x[TDM_QUANT_CHUNK];
    for (int64_t position = first; position < first + count; position += TDM_QUANT_CHUNK) {
        const int64_t chunk = tdm_quant_chunk(first + count - position);
        tdm_quant_load(work->dtype, work->from, position, chunk, x);
        for (int64_t i = 0; i < chunk; i++) {
            if (isfinite(x[i])) {
                bounds.minimum = x[i] < bounds.minimum ? x[i] : bounds.minimum;
                bounds.maximum = x[i] > bounds.maximum ? x[i] : bounds.maximum;
            }
        }
    }
    work->bounds[scale] = bounds;
}

void tdm_quant_ranges_tensor(const tdm_quant_spec *spec, tdm_dtype dtype, const void *x,
                             tdm_quant_bounds *bounds) {
    const int64_t scales = tdm_quant_scale_count(spec);
    tensor_work work = {.spec = spec, .dtype = dtype, .from = x, .bounds = bounds};
    for (int64_t i = 0; i < scales; i++) {
        bounds[i] = (tdm_quant_bounds){HUGE_VALF, -HUGE_VALF};
    }
    tdm_quant_for_each_run(spec, bounds_run, &work);
    for (int64_t i = 0; i < scales; i++) {
        if (bounds[i].minimum > bounds[i].maximum) {
            bounds[i] = (tdm_quant_bounds){0.0f, 0.0f};
        }
    }
}

/* While the data is read, the parameters' own arrays hold the bounds: scales the greatest magnitude,
 * or the least number where zero_points holds the bits of the greatest. */
typedef struct dynamic_work {
    tdm_quant_symmetry symmetry;
    tdm_dtype dtype;
    const void *x;
    float *scales;
    int32_t *zero_points;
} dynamic_work;

static tdm_quant_bounds bounds_in_parameters(const dynamic_work *work, int64_t scale) {
    const float stored = work->scales[scale];
    tdm_quant_bounds bounds = {-stored, stored};
    if (work->symmetry == TDM_QUANT_ASYMMETRIC) {
        bounds.minimum = stored;
        memcpy(&bounds.maximum, &work->zero_points[scale], sizeof bounds.maximum);
    }
    return bounds;
}

static void keep_bounds(const dynamic_work *work, int64_t scale, tdm_quant_bounds bounds) {
    if (work->symmetry == TDM_QUANT_ASYMMETRIC) {
        work->scales[scale] = bounds.minimum;
        memcpy(&work->zero_points[scale], &bounds.maximum, sizeof bounds.maximum);
    } else {
        work->scales[scale] = -bounds.minimum > bounds.maximum ? -bounds.minimum : bounds.maximum;
    }
}

static void dynamic_run(void *user, int64_t first, int64_t count, int64_t scale) {
    const dynamic_work *const work = user;
    tdm_quant_bounds bounds = bounds_in_parameters(work, scale);
    tensor_work inner = {.dtype = work->dtype, .from = work->x, .bounds = &bounds};
    bounds_run(&inner, first, count, 0);
    keep_bounds(work, scale, bounds);
}

void tdm_quant_dynamic_tensor(const tdm_quant_spec *spec, tdm_quant_symmetry symmetry,
                              tdm_dtype dtype, const void *x, float *scales, int32_t *zero_points,
                              void *quants) {
    const int64_t count = tdm_quant_scale_count(spec);
    dynamic_work work = {symmetry, dtype, x, scales, zero_points};
    for (int64_t i = 0; i < count; i++) {
        keep_bounds(&work, i, (tdm_quant_bounds){0.0f, 0.0f});
    }
    tdm_quant_for_each_run(spec, dynamic_run, &work);
    for (int64_t i = 0; i < count; i++) {
        const tdm_quant_parameters parameters =
            tdm_quant_derive(symmetry, bounds_in_parameters(&work, i), spec->range);
        scales[i] = parameters.scale;
        if (zero_points) {
            zero_points[i] = parameters.zero_point;
        }
    }
    if (quants) {
        tdm_quant_quantize_tensor(spec, dtype, x, scales, zero_points, quants);
    }
}
