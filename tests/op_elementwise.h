/*
 * Elementwise operations, described once: how exact each one is and which shapes show its edges.
 */
#ifndef TANDEM_TESTS_OP_ELEMENTWISE_H
#define TANDEM_TESTS_OP_ELEMENTWISE_H

#include <tandem/ops.h>

/*
 * op, ulps, slope: the f32 result is within (ulps + slope·|a|) units in the last place (2^-23·|y|) of the formula,
 * where a is the exponential's argument. 0, 0: rounded correctly. From OpenCL C's bounds: exp 3,
 * tanh 5, rsqrt 2, divide 2.5; from IEEE: 0.5 for each + - *. A relative error of
 * the exponential's argument, r·2^-24, is an error of r/2·|a| ulps of its result.
 *   sigmoid, silu   exp 3 + add 0.5 + divide 2.5
 *   gelu_tanh       as silu; the argument has 6 roundings: slope 3
 *   gelu            exp 3 + polynomial 3 + s 4 (divide 2.5, two more) + products 2; argument: slope 1
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
    X(TDM_RSQRT, 2, 0)

typedef struct op_shape {
    int rank;
    int64_t shape[TDM_MAX_RANK];
} op_shape;

/* Nothing, one element, below, at and above each vector width, primes, all ranks, and rows long
 * and many enough to be split among workers (those are the last two, left out on slow
 * implementations). */
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
