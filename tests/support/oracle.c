#include "tests/support/oracle.h"

#include <float.h>
#include <math.h>

#include "quant/number_formats.h"
#include "tests/op_elementwise.h"

static const double ulp = 0x1p-23;            /* of a number's own size, at most */
static const double smallest_step = 0x1p-149; /* of f32's denormals */

/* erfc keeps the relative accuracy that 1 + erf loses for large negative x; sigmoid(2u) is the
 * tanh form. */
static double gelu(double x) {
    return isinf(x) && x < 0 ? (double)NAN : 0.5 * x * erfc(-x / sqrt(2.0));
}

static double gelu_tanh_argument(double x) {
    return 2.0 * sqrt(2.0 / acos(-1.0)) * (x + 0.044715 * x * x * x);
}

double oracle_unary(tdm_unary op, double x) {
    switch (op) {
    case TDM_NEG:
        return -x;
    case TDM_ABS:
        return fabs(x);
    case TDM_RELU:
        return x < 0 ? 0.0 : x;
    case TDM_GELU:
        return gelu(x);
    case TDM_GELU_TANH:
        return x / (1.0 + exp(-gelu_tanh_argument(x)));
    case TDM_SILU:
        return x / (1.0 + exp(-x));
    case TDM_SIGMOID:
        return 1.0 / (1.0 + exp(-x));
    case TDM_TANH:
        return tanh(x);
    case TDM_EXP:
        return exp(x);
    case TDM_SQRT:
        return sqrt(x);
    case TDM_RSQRT:
        return 1.0 / sqrt(x);
    }
    return (double)NAN;
}

/* Division and square root of f16 and bf16 are the built-ins' before they are rounded to the
 * narrower type; f32's are correct, but a quotient below the normal numbers may be rounded
 * twice. */
double oracle_divide_bound(tdm_dtype dtype, double y) {
    if (!isfinite(y)) {
        return 0;
    }
    if (dtype == TDM_F32) {
        return fabs(y) < (double)FLT_MIN ? smallest_step : 0;
    }
    return 3 * ulp * fabs(y);
}

/* Argument of the exponential inside. */
static double exponent_argument(tdm_unary op, double x) {
    return op == TDM_GELU ? x * x / 2 : op == TDM_GELU_TANH ? gelu_tanh_argument(x) : x;
}

double oracle_unary_bound(tdm_unary op, double x, double y) {
    double ulps = 0;
    double slope = 0;
    switch (op) {
#define BOUND(name, row_ulps, row_slope)                                                           \
    case name:                                                                                     \
        ulps = row_ulps;                                                                           \
        slope = row_slope;                                                                         \
        break;
        TANDEM_UNARY_BOUNDS(BOUND)
#undef BOUND
    }
    if (ulps == 0 || !isfinite(x) || !isfinite(y)) {
        return 0;
    }
    /* An exponential below the normal numbers may be flushed, and is a factor of the result. */
    const double argument = slope > 0 || op == TDM_SILU ? fabs(exponent_argument(op, x)) : 0;
    if (exp(-argument) <= (double)FLT_MIN) {
        return fabs(x) * (double)FLT_MIN;
    }
    const double units = ulps + (slope > 0 ? slope * argument : 0);
    return units * (ulp * fabs(y) + smallest_step);
}

static double wrap_s32(double x) {
    const double range = 4294967296.0;
    const double low = -2147483648.0;
    return x - range * floor((x - low) / range);
}

/* Products of two s32 need 63 bits, more than a double has. */
static double multiply_s32(double a, double b) {
    const int64_t product = (int64_t)a * (int64_t)b;
    return (double)(int32_t)(uint32_t)(uint64_t)product;
}

double oracle_binary(tdm_binary op, tdm_dtype dtype, double a, double b) {
    double y = (double)NAN;
    switch (op) {
    case TDM_ADD:
        y = a + b;
        break;
    case TDM_SUB:
        y = a - b;
        break;
    case TDM_MUL:
        y = dtype == TDM_S32 ? multiply_s32(a, b) : a * b;
        break;
    case TDM_DIV:
        y = a / b;
        break;
    case TDM_MIN:
        return isnan(a) || isnan(b) ? (double)NAN : fmin(a, b);
    case TDM_MAX:
        return isnan(a) || isnan(b) ? (double)NAN : fmax(a, b);
    }
    return dtype == TDM_S32 ? wrap_s32(y) : y;
}

bool oracle_may_flush(tdm_dtype dtype, double x) {
    return (dtype == TDM_F32 || dtype == TDM_BF16) && fabs(x) < (double)FLT_MIN;
}

static double rounded(tdm_dtype dtype, double x) {
    unsigned char bytes[8];
    tdm_number_set(dtype, bytes, 0, x);
    return tdm_number_get(dtype, bytes, 0);
}

/* Rounding is monotone, so the legal results are those between the roundings of both ends. */
bool oracle_matches(tdm_dtype dtype, double actual, double expected, double bound) {
    if (isnan(expected) || isnan(actual)) {
        return isnan(expected) && isnan(actual);
    }
    if (actual >= rounded(dtype, expected - bound) && actual <= rounded(dtype, expected + bound)) {
        return true;
    }
    return actual == 0 && oracle_may_flush(dtype, fabs(expected) - bound);
}
