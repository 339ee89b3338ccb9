#include "quant/number_formats.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* This is a binary format narrower than double. Its field widths define it. */
typedef struct narrow_format {
    int exponent_bits;
    int mantissa_bits;
} narrow_format;

static const narrow_format format_f16 = {5, 10};
static const narrow_format format_bf16 = {8, 7};

enum {
    F64_MANTISSA_BITS = 52,
    F64_BIAS = 1023
};

/* Returns significand / 2^shift to nearest, ties to even; 0 < shift < 64. */
static uint64_t shift_right_rte(uint64_t significand, int shift) {
    const uint64_t quotient = significand >> shift;
    const uint64_t remainder = significand & ((UINT64_C(1) << shift) - 1);
    const uint64_t half = UINT64_C(1) << (shift - 1);
    const bool up = remainder > half || (remainder == half && (quotient & 1) != 0);
    return quotient + (up ? 1 : 0);
}

/* Returns infinity, or the quiet NaN that keeps the upper payload bits. */
static uint32_t narrow_special(uint64_t mantissa, narrow_format format) {
    const uint32_t infinity = ((1u << format.exponent_bits) - 1) << format.mantissa_bits;
    const uint32_t payload = (uint32_t)(mantissa >> (F64_MANTISSA_BITS - format.mantissa_bits));
    const uint32_t quiet = 1u << (format.mantissa_bits - 1);
    return mantissa == 0 ? infinity : infinity | quiet | payload;
}

/* Returns the bits of |x| in the format. The fields are adjacent, so a carry out of the mantissa
 * increments the exponent, and a carry out of the largest exponent makes infinity. */
static uint32_t narrow_magnitude(uint64_t bits, narrow_format format) {
    const uint64_t mantissa = bits & ((UINT64_C(1) << F64_MANTISSA_BITS) - 1);
    const int biased = (int)((bits >> F64_MANTISSA_BITS) & 0x7ff);
    if (biased == 0x7ff) {
        return narrow_special(mantissa, format);
    }
    const int bias = (1 << (format.exponent_bits - 1)) - 1;
    const int exponent = biased - F64_BIAS;
    if (exponent > bias) {
        return narrow_special(0, format);
    }
    /* Denormal doubles, and numbers that are shifted out completely, are below half of the smallest
     * narrow denormal. They become 0. */
    const int lowest = 1 - bias;
    const int below = exponent < lowest ? lowest - exponent : 0;
    const int shift = F64_MANTISSA_BITS - format.mantissa_bits + below;
    if (biased == 0 || shift > F64_MANTISSA_BITS + 1) {
        return 0;
    }
    const uint64_t significand = mantissa | (UINT64_C(1) << F64_MANTISSA_BITS);
    const uint32_t rounded = (uint32_t)shift_right_rte(significand, shift);
    /* The significand includes the leading one, which adds one to the exponent. */
    const uint32_t base = below > 0 ? 0 : (uint32_t)(exponent + bias - 1) << format.mantissa_bits;
    return base + rounded;
}

static uint16_t narrow_f64(double x, narrow_format format) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t sign = (uint32_t)(bits >> 63) << (format.exponent_bits + format.mantissa_bits);
    return (uint16_t)(sign | narrow_magnitude(bits, format));
}

uint16_t tdm_f16_from_f64(double x) {
    return narrow_f64(x, format_f16);
}

uint16_t tdm_f16_from_f32(float x) {
    return narrow_f64((double)x, format_f16);
}

uint16_t tdm_bf16_from_f64(double x) {
    return narrow_f64(x, format_bf16);
}

uint16_t tdm_bf16_from_f32(float x) {
    return narrow_f64((double)x, format_bf16);
}

static float f32_of_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

float tdm_f32_from_bf16(uint16_t bits) {
    return f32_of_bits((uint32_t)bits << 16);
}

float tdm_f32_from_f16(uint16_t bits) {
    const uint32_t sign = (uint32_t)(bits & 0x8000u) << 16;
    const uint32_t exponent = (bits >> 10) & 0x1fu;
    const uint32_t mantissa = bits & 0x3ffu;
    if (exponent == 0x1f) {
        const uint32_t quiet = mantissa != 0 ? 0x400000u : 0;
        return f32_of_bits(sign | 0x7f800000u | quiet | (mantissa << 13));
    }
    if (exponent == 0) {
        const float magnitude = (float)mantissa * 0x1p-24f;
        return sign != 0 ? -magnitude : magnitude;
    }
    return f32_of_bits(sign | ((exponent + 127 - 15) << 23) | (mantissa << 13));
}

/* This does not use rint, so that the caller's rounding mode does not matter. */
int32_t tdm_int_from_f64(double x, int32_t low, int32_t high) {
    if (isnan(x)) {
        return 0;
    }
    if (x <= (double)low) {
        return low;
    }
    if (x >= (double)high) {
        return high;
    }
    const double below = floor(x);
    const double fraction = x - below;
    const int32_t integer = (int32_t)below;
    const bool up = fraction > 0.5 || (fraction == 0.5 && (integer & 1) != 0);
    return up ? integer + 1 : integer;
}

/* Above 2^52 a double has no fraction. */
static int64_t s64_from_f64(double x) {
    if (isnan(x))
        return 0;
    if (x >= 0x1p63)
        return INT64_MAX;
    if (x < -0x1p63)
        return INT64_MIN;
    const double below = floor(x);
    const double fraction = x - below;
    const int64_t integer = (int64_t)below;
    const bool up = fraction > 0.5 || (fraction == 0.5 && (integer & 1) != 0);
    return up ? integer + 1 : integer;
}

bool tdm_number_known(tdm_dtype dtype) {
    switch (dtype) {
    case TDM_F32:
    case TDM_F16:
    case TDM_BF16:
    case TDM_F64:
    case TDM_S32:
    case TDM_S8:
    case TDM_U8:
    case TDM_S64:
    case TDM_BOOL:
        return true;
    default:
        return false;
    }
}

/* These load and store one element. They use memcpy because the array need not be aligned. */
#define LOAD(type, name)                                                                           \
    type name;                                                                                     \
    memcpy(&name, (const unsigned char *)data + index * sizeof name, sizeof name)
#define STORE(type, value)                                                                         \
    do {                                                                                           \
        const type stored = (value);                                                               \
        memcpy((unsigned char *)data + index * sizeof stored, &stored, sizeof stored);             \
    } while (0)

double tdm_number_get(tdm_dtype dtype, const void *data, size_t index) {
    switch (dtype) {
    case TDM_F32: {
        LOAD(float, x);
        return (double)x;
    }
    case TDM_F16: {
        LOAD(uint16_t, x);
        return (double)tdm_f32_from_f16(x);
    }
    case TDM_BF16: {
        LOAD(uint16_t, x);
        return (double)tdm_f32_from_bf16(x);
    }
    case TDM_F64: {
        LOAD(double, x);
        return x;
    }
    case TDM_S32: {
        LOAD(int32_t, x);
        return x;
    }
    case TDM_S8:
        return ((const int8_t *)data)[index];
    case TDM_S64: {
        LOAD(int64_t, x);
        return (double)x;
    }
    case TDM_U8:
    case TDM_BOOL:
        return ((const uint8_t *)data)[index];
    default:
        return (double)NAN;
    }
}

void tdm_number_set(tdm_dtype dtype, void *data, size_t index, double x) {
    switch (dtype) {
    case TDM_F32:
        STORE(float, (float)x);
        break;
    case TDM_F16:
        STORE(uint16_t, tdm_f16_from_f64(x));
        break;
    case TDM_BF16:
        STORE(uint16_t, tdm_bf16_from_f64(x));
        break;
    case TDM_F64:
        STORE(double, x);
        break;
    case TDM_S32:
        STORE(int32_t, tdm_int_from_f64(x, INT32_MIN, INT32_MAX));
        break;
    case TDM_S8:
        STORE(int8_t, (int8_t)tdm_int_from_f64(x, INT8_MIN, INT8_MAX));
        break;
    case TDM_U8:
        STORE(uint8_t, (uint8_t)tdm_int_from_f64(x, 0, UINT8_MAX));
        break;
    case TDM_S64:
        STORE(int64_t, s64_from_f64(x));
        break;
    case TDM_BOOL:
        STORE(uint8_t, x != 0);
        break;
    default:
        break;
    }
}

double tdm_number_roundoff(tdm_dtype dtype) {
    switch (dtype) {
    case TDM_F32:
        return 0x1p-24;
    case TDM_F16:
        return 0x1p-11;
    case TDM_BF16:
        return 0x1p-8;
    case TDM_F64:
        return 0x1p-53;
    default:
        return 0;
    }
}

double tdm_number_min_normal(tdm_dtype dtype) {
    switch (dtype) {
    case TDM_F32:
    case TDM_BF16:
        return (double)FLT_MIN;
    case TDM_F16:
        return 0x1p-14;
    case TDM_F64:
        return DBL_MIN;
    default:
        return 0;
    }
}

void tdm_number_int_range(tdm_dtype dtype, int32_t *low, int32_t *high) {
    *low = dtype == TDM_S32 ? INT32_MIN : dtype == TDM_S8 ? INT8_MIN : 0;
    *high = dtype == TDM_S32  ? INT32_MAX
            : dtype == TDM_S8 ? INT8_MAX
            : dtype == TDM_U8 ? UINT8_MAX
                              : 0;
}
