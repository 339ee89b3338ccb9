/*
 * One GEMM with quantized weights on a device: operands, a plan, a run, and the comparison with sums in double precision.
 */
#ifndef TANDEM_TESTS_SUPPORT_GEMM_WEIGHTS_TRIAL_H
#define TANDEM_TESTS_SUPPORT_GEMM_WEIGHTS_TRIAL_H

#include "tests/support/test_array.h"

typedef enum weights_data {
    WEIGHTS_RANDOM, /* within the bound of docs/numerics.md */
    WEIGHTS_EXACT,  /* small integers, scales powers of two: sums are exact in any order */
    WEIGHTS_EQUAL   /* equal terms, whose rounding errors all have one sign; within the bound */
} weights_data;

typedef struct weights_trial {
    const test_device *device;
    const char *variant; /* forced, or NULL */
    int64_t m, n, k;
    int64_t group; /* steps of K; 0: one scale for a column */
    tdm_dtype a_type, b_type, d_type, scale_type, zero_type;
    int quantize_a, transpose_a, transpose_b, packed;
    int epilogue;  /* 0: none; else a bias, and activation epilogue - 1 */
    int64_t batch; /* 0: none */
    int shares_a, shares_b;
    int side_by_side; /* rows of B begin an element apart, with more than one step of K they overlap */
    int recorded;     /* into a graph, which runs */
    test_placement a_place, b_place, d_place, parameters;
    weights_data data;
    uint64_t seed;
    test_array a, codes, scale, zero, bias, d;
    tdm_tensor *b;
} weights_trial;

const char *weights_trial_text(const weights_trial *t, char text[256]);

/* Operands, filled and sent; D is poison. B is the same for the same seed, whatever A is. */
void weights_trial_create(weights_trial *t);
void weights_trial_destroy(weights_trial *t);

tdm_gemm_desc weights_trial_describe(const weights_trial *t);

/* Runs a plan, with a workspace of NaNs, and fetches D; packed: NULL for B itself. */
tdm_status weights_trial_launch(weights_trial *t, const tdm_gemm_plan *plan,
                                const tdm_packed *packed);

/* Plans, packs where the trial says so, and runs. False where a forced row does not take the problem. */
bool weights_trial_multiply(weights_trial *t);

/* D as fetched. */
void weights_trial_check(const weights_trial *t);

/* All of it as a case of its own; true where it was run. */
bool weights_trial_run(weights_trial t);

/* A forced row's types where it says them, of A, of B, and whether it quantizes A. */
void weights_trial_suit(weights_trial *t, const tdm_variant *row);

#endif
