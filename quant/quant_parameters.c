#include "quant/quant_parameters.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>

#include "quant/number_formats.h"
#include "quant/quant_reason.h"
#include "quant/quant_reference.h"

/* Replaces an infinity by the largest finite number. */
static float finite_bound(float x) {
    return x > FLT_MAX ? FLT_MAX : x < -FLT_MAX ? -FLT_MAX : x;
}

/*
 * Returns a scale rounded to its dtype, or the next smaller one if its product with `steps` is
 * infinite. A scale that a device may flush to 0 becomes 0.
 */
static float kept_scale(float scale, int32_t steps, tdm_dtype dtype) {
    if (scale < FLT_MIN) {
        return 0.0f;
    }
    if (dtype != TDM_F16 && dtype != TDM_BF16) {
        return scale * (float)steps > FLT_MAX ? nextafterf(scale, 0.0f) : scale;
    }
    const uint16_t bits = tdm_quant_narrow(dtype, scale, true);
    if (dtype == TDM_F16) {
        return tdm_f32_from_f16(bits);
    }
    const float kept = tdm_f32_from_bf16(bits);
    return kept * (float)steps > FLT_MAX ? tdm_f32_from_bf16((uint16_t)(bits - 1)) : kept;
}

static tdm_quant_parameters derive_symmetric(float lowest, float highest, tdm_quant_range range,
                                             tdm_dtype dtype) {
    const int32_t middle = tdm_quant_middle(range);
    const int32_t steps = range.high - middle;
    const float amax = -lowest > highest ? -lowest : highest;
    return (tdm_quant_parameters){kept_scale(amax / (float)steps, steps, dtype), middle};
}

static tdm_quant_parameters derive_asymmetric(float lowest, float highest, tdm_quant_range range,
                                              tdm_dtype dtype) {
    const float width = highest - lowest;
    const int32_t steps = range.high - range.low;
    const float scale =
        kept_scale((width > FLT_MAX ? FLT_MAX : width) / (float)steps, steps, dtype);
    if (scale == 0.0f) {
        return (tdm_quant_parameters){0.0f, tdm_int_from_f64(0.0, range.low, range.high)};
    }
    const float zero = (float)range.low - lowest / scale;
    return (tdm_quant_parameters){scale, tdm_int_from_f64((double)zero, range.low, range.high)};
}

tdm_quant_parameters tdm_quant_derive_kept(tdm_quant_symmetry symmetry, tdm_quant_bounds bounds,
                                           tdm_quant_range range, tdm_dtype scale_dtype) {
    const float minimum = finite_bound(bounds.minimum);
    const float maximum = finite_bound(bounds.maximum);
    /* A NaN is neither below nor above 0. */
    const float lowest = minimum < 0 ? minimum : 0.0f;
    const float highest = maximum > 0 ? maximum : 0.0f;
    return symmetry == TDM_QUANT_SYMMETRIC ? derive_symmetric(lowest, highest, range, scale_dtype)
                                           : derive_asymmetric(lowest, highest, range, scale_dtype);
}

tdm_quant_parameters tdm_quant_derive(tdm_quant_symmetry symmetry, tdm_quant_bounds bounds,
                                      tdm_quant_range range) {
    return tdm_quant_derive_kept(symmetry, bounds, range, TDM_F32);
}

tdm_quant_bounds tdm_quant_reach(tdm_quant_parameters parameters, tdm_quant_range range) {
    const float low = (float)(range.low - parameters.zero_point);
    const float high = (float)(range.high - parameters.zero_point);
    return (tdm_quant_bounds){parameters.scale * low, parameters.scale * high};
}

bool tdm_quant_parameters_check(tdm_quant_parameters parameters, tdm_quant_range range,
                                int64_t position, tdm_quant_reason *reason) {
    const float magnitude = fabsf(parameters.scale);
    if (!isfinite(magnitude) || (magnitude != 0.0f && magnitude < FLT_MIN)) {
        tdm_quant_refuse(reason, "scale %" PRId64 " is %g, must be 0 or a normal number", position,
                         (double)parameters.scale);
        return false;
    }
    if (parameters.zero_point < range.low || parameters.zero_point > range.high) {
        tdm_quant_refuse(reason, "zero point %" PRId64 " is %d, outside the range [%d, %d]",
                         position, (int)parameters.zero_point, (int)range.low, (int)range.high);
        return false;
    }
    tdm_quant_accept(reason);
    return true;
}

float tdm_quant_multiplier(float scale_a, float scale_b, float scale_output) {
    return scale_output == 0.0f ? 0.0f : (scale_a * scale_b) / scale_output;
}

/* ---- least squared error over the data ---------------------------------------------------- */

enum {
    /* The factors are multiples of 1 / LINEAR_STEPS, from 1 down to LINEAR_LAST / LINEAR_STEPS. */
    LINEAR_STEPS = 64,
    LINEAR_LAST = 16,
    LANES = 8
};

static tdm_quant_bounds finite_bounds(const float *data, size_t count) {
    tdm_quant_bounds bounds = {0.0f, 0.0f};
    for (size_t i = 0; i < count; i++) {
        if (isfinite(data[i])) {
            bounds.minimum = data[i] < bounds.minimum ? data[i] : bounds.minimum;
            bounds.maximum = data[i] > bounds.maximum ? data[i] : bounds.maximum;
        }
    }
    return bounds;
}

/* If the scheme is symmetric, this clips the range to a threshold. Otherwise it moves both ends
 * towards 0. */
static tdm_quant_bounds shrunk(tdm_quant_symmetry symmetry, tdm_quant_bounds widest, float factor) {
    const tdm_quant_bounds scaled = {widest.minimum * factor, widest.maximum * factor};
    if (symmetry == TDM_QUANT_ASYMMETRIC) {
        return scaled;
    }
    const float t = -scaled.minimum > scaled.maximum ? -scaled.minimum : scaled.maximum;
    return (tdm_quant_bounds){widest.minimum < -t ? -t : widest.minimum,
                              widest.maximum > t ? t : widest.maximum};
}

static tdm_quant_bounds candidate_bounds(tdm_quant_symmetry symmetry, tdm_quant_bounds widest,
                                         int candidate) {
    const int beyond = candidate - (LINEAR_STEPS - LINEAR_LAST);
    const float factor = beyond <= 0 ? (float)(LINEAR_STEPS - candidate) / LINEAR_STEPS
                                     : exp2f(-2.0f - (float)beyond / 2.0f);
    return shrunk(symmetry, widest, factor);
}

void tdm_quant_mse_candidates(tdm_quant_symmetry symmetry, tdm_quant_bounds widest,
                              tdm_quant_range range, tdm_dtype scale_dtype,
                              tdm_quant_parameters *candidates) {
    const tdm_quant_bounds finite = {finite_bound(widest.minimum), finite_bound(widest.maximum)};
    for (int c = 0; c < TDM_QUANT_MSE_CANDIDATES; c++) {
        candidates[c] = tdm_quant_derive_kept(symmetry, candidate_bounds(symmetry, finite, c),
                                              range, scale_dtype);
    }
}

/* Returns the integer nearest to a number of at most 2^22, ties to even, without calling rintf. */
static float nearest(float u) {
    return (u + 0x1.8p23f) - 0x1.8p23f;
}

/* Adds the squared errors of LANES numbers. Saturation to an integer commutes with rounding. */
static void add_lanes(float scale, float low, float high, const float *x, double *sums) {
    for (int i = 0; i < LANES; i++) {
        const float u = x[i] / scale;
        const float q = nearest(u < low ? low : u > high ? high : u);
        const double error = fabsf(x[i]) <= FLT_MAX ? (double)x[i] - (double)(q * scale) : 0.0;
        sums[i] += error * error;
    }
}

static double squared_error(tdm_quant_parameters p, tdm_quant_range range, const float *data,
                            size_t count) {
    const float low = (float)(range.low - p.zero_point), high = (float)(range.high - p.zero_point);
    float rest[LANES] = {0.0f};
    double sums[LANES] = {0.0};
    const size_t whole = count / LANES * LANES;
    for (size_t i = 0; i < whole; i += LANES) {
        add_lanes(p.scale, low, high, data + i, sums);
    }
    for (size_t i = whole; i < count; i++) {
        rest[i - whole] = data[i];
    }
    add_lanes(p.scale, low, high, rest, sums);
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])) +
           ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

void tdm_quant_mse_add(const tdm_quant_parameters *candidates, tdm_quant_range range,
                       const float *data, size_t count, double *errors) {
    for (int c = 0; c < TDM_QUANT_MSE_CANDIDATES && candidates[c].scale > 0.0f; c++) {
        errors[c] += squared_error(candidates[c], range, data, count);
    }
}

int tdm_quant_mse_best(const tdm_quant_parameters *candidates, const double *errors) {
    int best = 0;
    for (int c = 1; c < TDM_QUANT_MSE_CANDIDATES && candidates[c].scale > 0.0f; c++) {
        best = errors[c] < errors[best] ? c : best;
    }
    return best;
}

tdm_quant_bounds tdm_quant_search_mse(tdm_quant_symmetry symmetry, const float *data, size_t count,
                                      tdm_quant_range range) {
    const tdm_quant_bounds widest = finite_bounds(data, count);
    tdm_quant_parameters candidates[TDM_QUANT_MSE_CANDIDATES];
    double errors[TDM_QUANT_MSE_CANDIDATES] = {0.0};
    tdm_quant_mse_candidates(symmetry, widest, range, TDM_F32, candidates);
    tdm_quant_mse_add(candidates, range, data, count, errors);
    return candidate_bounds(symmetry, widest, tdm_quant_mse_best(candidates, errors));
}
