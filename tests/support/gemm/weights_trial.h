/*
 * A trial is one GEMM with quantized weights on a device. It has operands, a plan, a run, and the
 * comparison with sums in double precision.
 */
#ifndef TANDEM_TESTS_SUPPORT_GEMM_WEIGHTS_TRIAL_H
#define TANDEM_TESTS_SUPPORT_GEMM_WEIGHTS_TRIAL_H

#include "tests/support/test_array.h"

typedef enum weights_data {
    WEIGHTS_RANDOM, /* checked within the bound of docs/numerics.md */
    WEIGHTS_EXACT,  /* small integers, power-of-two scales: sums are exact in any order */
    WEIGHTS_EQUAL   /* equal terms: all rounding errors have one sign; within the bound */
} weights_data;

typedef struct weights_trial {
    const test_device *device;
    const char *variant; /* forced, or NULL */
    int64_t m, n, k;
    int64_t group; /* group size along K; 0: one scale per column */
    tdm_dtype a_type, b_type, d_type, scale_type, zero_type;
    int quantize_a, transpose_a, transpose_b, packed;
    int epilogue;  /* 0: none; else a bias and the activation epilogue - 1 */
    int64_t batch; /* 0: none */
    int shares_a, shares_b;
    int side_by_side; /* rows of B begin one element apart; for K > 1 they overlap */
    int recorded;     /* recorded into a graph, which runs */
    test_placement a_place, b_place, d_place, parameters;
    weights_data data;
    uint64_t seed;
    test_array a, codes, scale, zero, bias, d;
    tdm_tensor *b;
} weights_trial;

const char *weights_trial_text(const weights_trial *t, char text[256]);

/* Creates, fills and sends the operands; D is poison. Equal seeds give equal B for any A. */
void weights_trial_create(weights_trial *t);
void weights_trial_destroy(weights_trial *t);

tdm_gemm_desc weights_trial_describe(const weights_trial *t);

/* Runs a plan with a workspace of NaNs and fetches D. `packed` is NULL to use B itself. */
tdm_status weights_trial_launch(weights_trial *t, const tdm_gemm_plan *plan,
                                const tdm_packed *packed);

/*
 * Creates a plan, packs B if the trial asks for it, and runs. Returns false if a forced variant
 * does not accept the problem.
 */
bool weights_trial_multiply(weights_trial *t);

/* Checks D as fetched. */
void weights_trial_check(const weights_trial *t);

/* Runs the trial as a test case of its own. Returns true if it was run. */
bool weights_trial_run(weights_trial t);

/*
 * Adapts the trial to a forced variant: sets the dtypes of A and B, and the quantization of A, if
 * the variant fixes them.
 */
void weights_trial_suit(weights_trial *t, const tdm_variant *row);

#endif
