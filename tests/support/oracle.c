#include "tests/support/oracle.h"

#include <float.h>
#include <math.h>

#include "common/op_elementwise.h"
#include "quant/number_formats.h"

double oracle_unary(tdm_unary op, double x) {
    return op_unary_value(op, x);
}

double oracle_divide_bound(tdm_dtype dtype, double y) {
    return op_divide_bound(dtype, y);
}

double oracle_unary_bound(tdm_unary op, double x, double y) {
    return op_unary_bound(op, x, y);
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
    case TDM_POW:
        y = pow(a, b);
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

/* Rounding is monotone, so the legal results lie between the rounded ends of the interval. */
bool oracle_matches(tdm_dtype dtype, double actual, double expected, double bound) {
    if (isnan(expected) || isnan(actual))
        return isnan(expected) && isnan(actual);
    if (actual >= rounded(dtype, expected - bound) && actual <= rounded(dtype, expected + bound))
        return true;
    return actual == 0 && oracle_may_flush(dtype, fabs(expected) - bound);
}
