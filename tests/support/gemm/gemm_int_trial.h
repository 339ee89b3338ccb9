/*
 * A trial is one integer GEMM on a device. It has operands in fenced arrays of any placement, their
 * quantization parameters, a plan, a run, and the comparison with exact sums.
 */
#ifndef TANDEM_TESTS_SUPPORT_GEMM_GEMM_INT_TRIAL_H
#define TANDEM_TESTS_SUPPORT_GEMM_GEMM_INT_TRIAL_H

#include <tandem/gemm.h>

#include "tests/support/test_array.h"

/* How the parameters vary: along the rows of A, or along the columns of B or D. */
typedef enum gemm_int_spread {
    GEMM_INT_NONE, /* no parameters */
    GEMM_INT_ONE,  /* one for the whole matrix */
    GEMM_INT_EACH, /* one for each row or column */
    GEMM_INT_SPREADS
} gemm_int_spread;

typedef enum gemm_int_data {
    GEMM_INT_UNIFORM, /* over the whole range of the dtypes */
    GEMM_INT_EXTREME, /* only range ends of equal sign: the largest sums */
    GEMM_INT_TIES,    /* small numbers, power-of-two scales: sums at rounding ties */
    GEMM_INT_DATA_KINDS
} gemm_int_data;

typedef struct gemm_int_trial {
    int64_t m, n, k;
    tdm_dtype a, d, bias;
    gemm_int_spread a_quant, b_quant, d_quant; /* d_quant: for an s8 or u8 D */
    tdm_dtype scale;                           /* dtype of all scales; none: f32 */
    int a_zero, b_zero, d_zero;                /* 1: with zero points; needs parameters */
    int transpose_a, transpose_b;
    test_placement a_place, b_place, d_place;
    tdm_activation activation;
    float alpha;   /* for a float D */
    int has_c;     /* for a float D: f32 C and beta 0.75; else s32 C and beta 1 */
    int64_t batch; /* 0: no batch dimension */
    int64_t outer; /* size of a second batch dimension, before `batch`; 0: none */
    int shares_b;
    gemm_int_data data;
    int packed_b;
    const char *variant;
    const char *same_bits_as; /* a variant that must give the same bits as `variant`, or NULL */
    uint64_t seed;
} gemm_int_trial;

/*
 * Reads a trial from text: "3x6x4141 u8>s8 A:each+zero B:one D:each". These are M, N and K, the
 * dtypes of A and D, and the parameters. Options may follow: bias:s32, scale:bf16, A@padded, C,
 * relu, ta, tb, packed, batch:3, outer:2, shared, extreme, ties and alpha:-0.5.
 */
gemm_int_trial gemm_int_trial_read(const char *text);

const char *gemm_int_trial_text(const gemm_int_trial *trial, char text[512]);

/* Runs the trial and checks every element. Fails the running test case if one is wrong. */
void gemm_int_trial_run(const test_device *device, const gemm_int_trial *trial);

/* Runs the trial as a test case of its own. An alpha of 0 means 1. */
void gemm_int_trial_case(const test_device *device, gemm_int_trial trial);

#endif
