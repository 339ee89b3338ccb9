#include "quant/quant_reference.h"

#include <math.h>
#include <string.h>

#include "quant/float_chunks.h"
#include "quant/number_formats.h"

/* ---- one element -------------------------------------------------------------------------- */

/* Returns zero_point + rint_even(clamp(x)); NaN gives the zero point. The limits are integers, so
 * the order of clamp and rounding does not matter. Numbers below 2^22 are rounded by adding 1.5 *
 * 2^23, whose neighbours are 1 apart: unlike rintf, that is vectorized everywhere. */
static inline int32_t to_range(float x, int32_t zero_point, tdm_quant_range range) {
    const float low = (float)(range.low - zero_point);
    const float high = (float)(range.high - zero_point);
    const float number = x == x ? x : 0.0f;
    const float clamped = number < low ? low : number > high ? high : number;
    return zero_point + (int32_t)((clamped + 0x1.8p23f) - 0x1.8p23f);
}

/* Quotients by 0 are computed too, and then discarded, so that loops have no branch. */
static inline float quotient_of(float x, float scale) {
    const float quotient = x / scale;
    return scale == 0.0f ? 0.0f : quotient;
}

int32_t tdm_quant_quantize(float x, tdm_quant_parameters parameters, tdm_quant_range range) {
    return to_range(quotient_of(x, parameters.scale), parameters.zero_point, range);
}

float tdm_quant_dequantize(int32_t q, tdm_quant_parameters parameters) {
    const int64_t difference = (int64_t)q - parameters.zero_point;
    return parameters.scale == 0.0f ? 0.0f : parameters.scale * (float)difference;
}

int32_t tdm_quant_requantize(int32_t acc, tdm_quant_parameters parameters, tdm_quant_range range) {
    return to_range((float)acc * parameters.scale, parameters.zero_point, range);
}

/* Returns true if the rounded quotient needs no saturation. */
static bool passes(float x, tdm_quant_parameters parameters, tdm_quant_range range) {
    if (parameters.scale == 0.0f) {
        return false;
    }
    const double quotient = (double)(x / parameters.scale);
    const int32_t low = range.low - parameters.zero_point;
    const int32_t high = range.high - parameters.zero_point;
    /* The range is one wider on each side, so that numbers beyond it are detected. A NaN does not
     * pass. */
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

/* Returns the s4 in the low nibble. */
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

/* These are the arguments that visitors of runs share. Each visitor uses some of them. */
typedef struct tensor_work {
    const tdm_quant_spec *spec;
    tdm_dtype dtype; /* dtype of from and to, if they are floats */
    const void *from;
    void *to;
    uint8_t *mask;
    const float *scales;
    const int32_t *zero_points;
} tensor_work;

/* These are the parameters of each element of a chunk. */
typedef struct chunk_parameters {
    tdm_quant_parameters of[TDM_QUANT_CHUNK];
} chunk_parameters;

static void load_parameters(const tensor_work *work, int64_t scale, int64_t step, int64_t count,
                            chunk_parameters *parameters) {
    for (int64_t i = 0; i < count; i++) {
        const int64_t index = scale + i * step;
        parameters->of[i].scale = work->scales[index];
        parameters->of[i].zero_point = work->zero_points ? work->zero_points[index] : 0;
    }
}

static void store_quants(tdm_dtype dtype, void *quants, int64_t first, int64_t count,
                         const int32_t *q) {
    if (dtype == TDM_S4) {
        for (int64_t i = 0; i < count; i++) {
            tdm_quant_set(TDM_S4, quants, first + i, q[i]);
        }
        return;
    }
    uint8_t *const bytes = (uint8_t *)quants + first;
    for (int64_t i = 0; i < count; i++) {
        bytes[i] = (uint8_t)q[i];
    }
}

/* Clears the unused nibble of an odd count of s4, which must not depend on earlier contents. */
static void clear_last_nibble(const tdm_quant_spec *spec, void *quants) {
    const int64_t count = tdm_quant_element_count(spec);
    if (spec->dtype == TDM_S4 && count % 2 != 0) {
        ((uint8_t *)quants)[count / 2] = 0;
    }
}

/* This is a visitor's function for one chunk. */
typedef void (*chunk_function)(const tensor_work *work, const chunk_parameters *parameters,
                               int64_t first, int64_t count);

static void quantize_chunk(const tensor_work *work, const chunk_parameters *parameters,
                           int64_t first, int64_t count) {
    float x[TDM_QUANT_CHUNK];
    int32_t q[TDM_QUANT_CHUNK];
    const tdm_quant_range range = work->spec->range;
    tdm_quant_load(work->dtype, work->from, first, count, x);
    for (int64_t i = 0; i < count; i++) {
        q[i] = tdm_quant_quantize(x[i], parameters->of[i], range);
    }
    store_quants(work->spec->dtype, work->to, first, count, q);
}

static void dequantize_chunk(const tensor_work *work, const chunk_parameters *parameters,
                             int64_t first, int64_t count) {
    float y[TDM_QUANT_CHUNK];
    const tdm_dtype dtype = work->spec->dtype;
    for (int64_t i = 0; i < count; i++) {
        y[i] = tdm_quant_dequantize(tdm_quant_get(dtype, work->from, first + i), parameters->of[i]);
    }
    tdm_quant_store(work->dtype, work->to, first, count, y);
}

static void requantize_chunk(const tensor_work *work, const chunk_parameters *parameters,
                             int64_t first, int64_t count) {
    int32_t sums[TDM_QUANT_CHUNK], q[TDM_QUANT_CHUNK];
    const tdm_quant_range range = work->spec->range;
    memcpy(sums, (const unsigned char *)work->from + (size_t)first * sizeof sums[0],
           (size_t)count * sizeof sums[0]);
    for (int64_t i = 0; i < count; i++) {
        q[i] = tdm_quant_requantize(sums[i], parameters->of[i], range);
    }
    store_quants(work->spec->dtype, work->to, first, count, q);
}

static void fake_chunk(const tensor_work *work, const chunk_parameters *parameters, int64_t first,
                       int64_t count) {
    float values[TDM_QUANT_CHUNK];
    tdm_quant_load(work->dtype, work->from, first, count, values);
    for (int64_t i = 0; i < count; i++) {
        bool pass;
        values[i] = tdm_quant_fake(values[i], parameters->of[i], work->spec->range, &pass);
        if (work->mask) {
            work->mask[first + i] = pass ? 1 : 0;
        }
    }
    tdm_quant_store(work->dtype, work->to, first, count, values);
}

/* This is a visitor's work: the tensors and the function for a chunk of them. */
typedef struct chunk_work {
    tensor_work tensors;
    chunk_function visit;
} chunk_work;

static void visit_chunks(void *user, int64_t first, int64_t count, int64_t scale, int64_t step) {
    const chunk_work *const work = user;
    chunk_parameters parameters;
    for (int64_t done = 0; done < count; done += TDM_QUANT_CHUNK) {
        const int64_t chunk = tdm_quant_chunk(count - done);
        if (done == 0 || step != 0) {
            load_parameters(&work->tensors, scale + done * step, step, chunk, &parameters);
        }
        work->visit(&work->tensors, &parameters, first + done, chunk);
    }
}

static void for_each_chunk(const tensor_work *tensors, chunk_function visit) {
    chunk_work work = {*tensors, visit};
    tdm_quant_for_each_run(tensors->spec, visit_chunks, &work);
}

void tdm_quant_quantize_tensor(const tdm_quant_spec *spec, tdm_dtype dtype, const void *x,
                               const float *scales, const int32_t *zero_points, void *quants) {
    const tensor_work work = {.spec = spec,
                              .dtype = dtype,
                              .from = x,
                              .to = quants,
                              .scales = scales,
                              .zero_points = zero_points};
    clear_last_nibble(spec, quants);
    for_each_chunk(&work, quantize_chunk);
}

void tdm_quant_dequantize_tensor(const tdm_quant_spec *spec, const void *quants,
                                 const float *scales, const int32_t *zero_points, tdm_dtype dtype,
                                 void *y) {
    const tensor_work work = {.spec = spec,
                              .dtype = dtype,
                              .from = quants,
                              .to = y,
                              .scales = scales,
                              .zero_points = zero_points};
    for_each_chunk(&work, dequantize_chunk);
}

void tdm_quant_requantize_tensor(const tdm_quant_spec *spec, const int32_t *sums,
                                 const float *multipliers, const int32_t *zero_points,
                                 void *quants) {
    const tensor_work work = {.spec = spec,
                              .from = sums,
                              .to = quants,
                              .scales = multipliers,
                              .zero_points = zero_points};
    clear_last_nibble(spec, quants);
    for_each_chunk(&work, requantize_chunk);
}

void tdm_quant_fake_tensor(const tdm_quant_spec *spec, tdm_dtype dtype, const void *x,
                           const float *scales, const int32_t *zero_points, void *y,
                           uint8_t *mask) {
    const tensor_work work = {.spec = spec,
                              .dtype = dtype,
                              .from = x,
                              .to = y,
                              .mask = mask,
                              .scales = scales,
                              .zero_points = zero_points};
    for_each_chunk(&work, fake_chunk);
}
