/*
 * A trial is one GEMM case on a device. It has operands in fenced arrays of any placement, a plan,
 * a run, and the comparison with the oracle.
 */
#ifndef TANDEM_TESTS_SUPPORT_GEMM_GEMM_TRIAL_H
#define TANDEM_TESTS_SUPPORT_GEMM_GEMM_TRIAL_H

#include "common/op_gemm.h"
#include "tests/support/test_array.h"

/* Where an optional operand comes from. */
typedef enum gemm_source {
    GEMM_OWN, /* an array of its own */
    GEMM_SAME /* the same view as D */
} gemm_source;

typedef struct gemm_trial {
    op_gemm_case item;
    test_placement placement[OP_GEMM_OPERANDS];
    gemm_source c_source, residual_source;
    int packed_b;    /* B is packed before the run */
    int equal_terms; /* A is 0.1 and B is 1.1 everywhere: rounding errors of a long sum add up */
    int large; /* D is checked by Freivalds' method on every row, and by sampled exact entries */
    const char *variant; /* forced, or NULL; parameters may follow */
} gemm_trial;

/* Describes the case completely: "f32·f16→bf16 m7 n17 k33 tn …". */
const char *gemm_trial_text(const gemm_trial *trial, char text[512]);

/* Runs the case and checks every element. Fails the running test case if one is wrong. */
void gemm_trial_run(const test_device *device, const gemm_trial *trial);

/* Runs the trial as a test case of its own. */
void gemm_trial_case(const test_device *device, const gemm_trial *trial);

#endif
