/*
 * One integer GEMM on a device: operands in fenced arrays of any placement, their parameters, a plan, a run, the comparison
 * with exact sums.
 */
#ifndef TANDEM_TESTS_SUPPORT_GEMM_GEMM_INT_TRIAL_H
#define TANDEM_TESTS_SUPPORT_GEMM_GEMM_INT_TRIAL_H

#include <tandem/gemm.h>

#include "tests/support/test_array.h"

/* How the parameters of A vary along its rows, or those of B or D along their columns. */
typedef enum gemm_int_spread {
    GEMM_INT_NONE, /* it carries none */
    GEMM_INT_ONE,  /* one for all */
    GEMM_INT_EACH, /* one for each row or column */
    GEMM_INT_SPREADS
} gemm_int_spread;

typedef enum gemm_int_data {
    GEMM_INT_UNIFORM, /* over the whole range of the types */
    GEMM_INT_EXTREME, /* only the ends of the ranges, of equal sign: the largest sums */
    GEMM_INT_TIES, /* small numbers and scales that are powers of two: sums half way between codes */
    GEMM_INT_DATA_KINDS
} gemm_int_data;

typedef struct gemm_int_trial {
    int64_t m, n, k;
    tdm_dtype a, d, bias;
    gemm_int_spread a_quant, b_quant, d_quant; /* d_quant: of an s8 or u8 D */
    tdm_dtype scale;                           /* of all operands; none: f32 */
    int a_zero, b_zero, d_zero;                /* with zero points, where it carries parameters */
    int transpose_a, transpose_b;
    test_placement a_place, b_place, d_place;
    tdm_activation activation;
    float alpha;   /* of a float D */
    int has_c;     /* of f32 with 0.75 for a float D, else of s32 with 1 */
    int64_t batch; /* 0: no batch dimension */
    int64_t outer; /* 0: that is the only one; else so many of them in a dimension before it */
    int shares_b;
    gemm_int_data data;
    int packed_b;
    const char *variant;
    const char *same_bits_as; /* a variant that must give the bits of `variant`, or NULL */
    uint64_t seed;
} gemm_int_trial;

/*
 * A trial, written out: "3x6x4141 u8>s8 A:each+zero B:one D:each" of M, N and K, types of A and D, and parameters, then any of
 * bias:s32, scale:bf16, A@padded, C, relu, ta, tb, packed, batch:3, outer:2, shared, extreme, ties and alpha:-0.5.
 */
gemm_int_trial gemm_int_trial_read(const char *text);

const char *gemm_int_trial_text(const gemm_int_trial *trial, char text[512]);

/* Run it and check every element; fails the running test case if one is wrong. */
void gemm_int_trial_run(const test_device *device, const gemm_int_trial *trial);

/* All of it as a case of its own; an alpha of 0 is 1. */
void gemm_int_trial_case(const test_device *device, gemm_int_trial trial);

#endif
