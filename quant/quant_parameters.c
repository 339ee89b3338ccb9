#include "quant/quant_parameters.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>

#include "quant/number_formats.h"
#include "quant/quant_reason.h"
#include "quant/quant_reference.h"

/* The largest finite number for an infinity. */
static float finite_bound(float x) {
    return x > FLT_MAX ? FLT_MAX : x < -FLT_MAX ? -FLT_MAX : x;
}

/* A scale as its dtype keeps it; what a device may flush is 0. */
static float kept_scale(float scale, tdm_dtype dtype) {
    if (scale < FLT_MIN) {
        return 0.0f;
    }
    if (dtype != TDM_F16 && dtype != TDM_BF16) {
        return scale;
    }
    const uint16_t bits = tdm_quant_narrow(dtype, scale, true);
    return dtype == TDM_F16 ? tdm_f32_from_f16(bits) : tdm_f32_from_bf16(bits);
}

static tdm_quant_parameters derive_symmetric(float lowest, float highest, tdm_quant_range range,
                                             tdm_dtype dtype) {
    const int32_t middle = tdm_quant_middle(range);
    const float amax = -lowest > highest ? -lowest : highest;
    return (tdm_quant_parameters){kept_scale(amax / (float)(range.high - middle), dtype), middle};
}

static tdm_quant_parameters derive_asymmetric(float lowest, float highest, tdm_quant_range range,
                                              tdm_dtype dtype) {
    const float width = highest - lowest;
    const float scale =
        kept_scale((width > FLT_MAX ? FLT_MAX : width) / (float)(range.high - range.low), dtype);
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
        tdm_quant_refuse(reason, "scale %" PRId64 " is %g, 0 or a normal number is needed",
                         position, (double)parameters.scale);
        return false;
    }
    if (parameters.zero_point < range.low || parameters.zero_point > range.high) {
        tdm_quant_refuse(reason, "zero point %" PRId64 " is %d, beyond the range [%d, %d]",
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
    SEARCH_STEPS = 64,
    SEARCH_LAST = 16 /* of the steps: a quarter of the range */
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

/* Sum of squared errors when data is quantized with the parameters of the bounds. */
static double squared_error(tdm_quant_symmetry symmetry, tdm_quant_bounds bounds, const float *data,
                            size_t count, tdm_quant_range range) {
    const tdm_quant_parameters p = tdm_quant_derive(symmetry, bounds, range);
    const double low = range.low - p.zero_point;
    const double high = range.high - p.zero_point;
    const double scale = (double)p.scale;
    double sum = 0.0;
    for (size_t i = 0; i < count; i++) {
        const double x = (double)data[i];
        if (isfinite(x)) {
            const double q = rint(x / scale);
            const double error = x - scale * (q < low ? low : q > high ? high : q);
            sum += error * error;
        }
    }
    return sum;
}

/* Symmetric: clipped to a threshold; asymmetric: both ends nearer to 0. */
static tdm_quant_bounds shrunk(tdm_quant_symmetry symmetry, tdm_quant_bounds widest, float factor) {
    const tdm_quant_bounds scaled = {widest.minimum * factor, widest.maximum * factor};
    if (symmetry == TDM_QUANT_ASYMMETRIC) {
        return scaled;
    }
    const float t = -scaled.minimum > scaled.maximum ? -scaled.minimum : scaled.maximum;
    return (tdm_quant_bounds){widest.minimum < -t ? -t : widest.minimum,
                              widest.maximum > t ? t : widest.maximum};
}

tdm_quant_bounds tdm_quant_search_mse(tdm_quant_symmetry symmetry, const float *data, size_t count,
                                      tdm_quant_range range) {
    const tdm_quant_bounds widest = finite_bounds(data, count);
    if (tdm_quant_derive(symmetry, widest, range).scale == 0.0f) {
        return widest;
    }
    tdm_quant_bounds best = widest;
    double least = squared_error(symmetry, widest, data, count, range);
    for (int step = SEARCH_STEPS - 1; step >= SEARCH_LAST; step--) {
        const float factor = (float)step / SEARCH_STEPS;
        const tdm_quant_bounds bounds = shrunk(symmetry, widest, factor);
        if (tdm_quant_derive(symmetry, bounds, range).scale == 0.0f) {
            break;
        }
        const double error = squared_error(symmetry, bounds, data, count, range);
        if (error < least) {
            least = error;
            best = bounds;
        }
    }
    return best;
}
