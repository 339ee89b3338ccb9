/* Defines once, for elementwise operations, their error bounds and the shapes of edge cases. */
#ifndef TANDEM_COMMON_OP_ELEMENTWISE_H
#define TANDEM_COMMON_OP_ELEMENTWISE_H

#include <float.h>
#include <math.h>

#include <tandem/ops.h>

/*
 * Columns: op, ulps, slope. The f32 result is within (ulps + slope·|a|) units in the last place
 * (2^-23·|y|) of the formula. Here a is the exponential's argument; 0, 0 means rounded correctly.
 * The OpenCL C bounds are exp 3, tanh 5, rsqrt 2 and divide 2.5 ulps. The IEEE bound is 0.5 ulps
 * for each + - *. A relative error of r·2^-24 in the exponential's argument is an error of r/2·|a|
 * ulps of its result.
 *   sigmoid, silu   exp 3 + add 0.5 + divide 2.5
 *   gelu_tanh       as silu; the argument has 6 roundings: slope 3
 *   gelu            exp 3 + polynomial 3 + s 4 (divide 2.5, two more) + products 2; slope 1
 */
#define TANDEM_UNARY_BOUNDS(X)                                                                     \
    X(TDM_NEG, 0, 0)                                                                               \
    X(TDM_ABS, 0, 0)                                                                               \
    X(TDM_RELU, 0, 0)                                                                              \
    X(TDM_GELU, 12, 1)                                                                             \
    X(TDM_GELU_TANH, 6, 3)                                                                         \
    X(TDM_SILU, 6, 0)                                                                              \
    X(TDM_SIGMOID, 6, 0)                                                                           \
    X(TDM_TANH, 5, 0)                                                                              \
    X(TDM_EXP, 3, 0)                                                                               \
    X(TDM_SQRT, 0, 0)                                                                              \
    X(TDM_RSQRT, 2, 0)                                                                             \
    X(TDM_LOG, 3, 0)                                                                               \
    X(TDM_ERF, 16, 0)                                                                              \
    X(TDM_FLOOR, 0, 0)                                                                             \
    X(TDM_ROUND, 0, 0)                                                                             \
    X(TDM_SIN, 2, 0)                                                                               \
    X(TDM_COS, 2, 0)

#define OP_ULP 0x1p-23            /* the largest ulp relative to an f32 value */
#define OP_LARGEST_ANGLE 0x1p24   /* sine and cosine of larger angles are NaN */
#define OP_SMALLEST_STEP 0x1p-149 /* spacing of f32 denormals */

/* erfc keeps the relative accuracy that 1 + erf loses for large negative x. */
static inline double op_gelu(double x) {
    return isinf(x) && x < 0 ? (double)NAN : 0.5 * x * erfc(-x / sqrt(2.0));
}

/* Returns 2u of the tanh form x/2 · (1 + tanh u), which equals x · sigmoid(2u). */
static inline double op_gelu_tanh_argument(double x) {
    return 2.0 * sqrt(2.0 / acos(-1.0)) * (x + 0.044715 * x * x * x);
}

static inline double op_unary_value(tdm_unary op, double x) {
    switch (op) {
    case TDM_NEG:
        return -x;
    case TDM_ABS:
        return fabs(x);
    case TDM_RELU:
        return x < 0 ? 0.0 : x;
    case TDM_GELU:
        return op_gelu(x);
    case TDM_GELU_TANH:
        return x / (1.0 + exp(-op_gelu_tanh_argument(x)));
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
    case TDM_LOG:
        return log(x);
    case TDM_ERF:
        return erf(x);
    case TDM_FLOOR:
        return floor(x);
    case TDM_ROUND:
        return nearbyint(x);
    case TDM_SIN:
        return fabs(x) > OP_LARGEST_ANGLE ? (double)NAN : sin(x);
    case TDM_COS:
        return fabs(x) > OP_LARGEST_ANGLE ? (double)NAN : cos(x);
    }
    return (double)NAN;
}

/* Returns the argument of the inner exponential. */
static inline double op_exponent_argument(tdm_unary op, double x) {
    return op == TDM_GELU ? x * x / 2 : op == TDM_GELU_TANH ? op_gelu_tanh_argument(x) : x;
}

/* Returns the error bound of `y` before it is rounded to its dtype: see TANDEM_UNARY_BOUNDS. */
static inline double op_unary_bound(tdm_unary op, double x, double y) {
    double ulps = 0;
    double slope = 0;
    switch (op) {
#define OP_BOUND(name, row_ulps, row_slope)                                                        \
    case name:                                                                                     \
        ulps = row_ulps;                                                                           \
        slope = row_slope;                                                                         \
        break;
        TANDEM_UNARY_BOUNDS(OP_BOUND)
#undef OP_BOUND
    }
    if (ulps == 0 || !isfinite(x) || !isfinite(y))
        return 0;
    /* Beyond this argument, the nearest f32 is 1. */
    if (op == TDM_TANH && fabs(x) > 9.011)
        return 0;
    const double units = ulps + (slope > 0 ? slope * fabs(op_exponent_argument(op, x)) : 0);
    return units * (OP_ULP * fabs(y) + OP_SMALLEST_STEP);
}

/*
 * Returns the error bound of a division. In f16 and bf16, division and square root are built-ins
 * whose result is then rounded to the narrower type. In f32 they are correctly rounded, but a
 * quotient below the normal numbers may be rounded twice.
 */
static inline double op_divide_bound(tdm_dtype dtype, double y) {
    if (!isfinite(y))
        return 0;
    if (dtype == TDM_F32)
        return fabs(y) < (double)FLT_MIN ? OP_SMALLEST_STEP : 0;
    return 3 * OP_ULP * fabs(y);
}

/* Returns the error bound of a power, 16 ulps as in OpenCL C. */
static inline double op_pow_bound(double y) {
    return isfinite(y) ? 16 * (OP_ULP * fabs(y) + OP_SMALLEST_STEP) : 0;
}

typedef struct op_shape {
    int rank;
    int64_t shape[TDM_MAX_RANK];
} op_shape;

/*
 * Covers an empty shape, one element, sizes below, at and above each vector width, primes, and all
 * ranks. The last two have enough long rows to be split among workers; slow implementations leave
 * them out.
 */
static const op_shape op_elementwise_shapes[] = {
    {0, {0}},        {1, {1}},        {1, {3}},           {1, {16}},
    {1, {17}},       {2, {5, 7}},     {2, {4, 32}},       {2, {33, 1}},
    {3, {2, 3, 19}}, {3, {3, 0, 2}},  {4, {2, 1, 3, 15}}, {8, {2, 1, 2, 1, 2, 3, 1, 5}},
    {2, {211, 257}}, {2, {2, 40009}},
};

enum {
    OP_ELEMENTWISE_SHAPES = sizeof op_elementwise_shapes / sizeof op_elementwise_shapes[0],
    OP_ELEMENTWISE_SMALL_SHAPES = OP_ELEMENTWISE_SHAPES - 2
};

#endif
