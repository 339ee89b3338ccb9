/*
 * One out-of-core GEMM on a device: operands in host memory of exactly their size (and on the device, for those that a mask names), a
 * plan within a budget, a run, and every byte of D against tdm_gemm_plan_run with everything on the device.
 */
#ifndef TANDEM_TESTS_SUPPORT_GEMM_OUTOFCORE_TRIAL_H
#define TANDEM_TESTS_SUPPORT_GEMM_OUTOFCORE_TRIAL_H

#include <tandem/outofcore.h>

#include "tests/support/test_array.h"

typedef enum outofcore_spread {
    OUTOFCORE_NONE,  /* it carries no parameters */
    OUTOFCORE_ONE,   /* one for all */
    OUTOFCORE_EACH,  /* one for each row of A, column of B or D */
    OUTOFCORE_GROUPS /* of B: for each column, and in groups along K */
} outofcore_spread;

enum {
    OUTOFCORE_MATRICES = 5 /* A, B, C, residual, D */
};

typedef struct outofcore_trial {
    int64_t m, n, k;
    tdm_dtype a, b, c, residual, d, bias;
    int transpose_a, transpose_b;
    test_placement place[OUTOFCORE_MATRICES];
    float alpha, beta;
    tdm_activation activation;
    int batch_rank;
    int64_t batch[2];
    unsigned shared[OUTOFCORE_MATRICES]; /* bit i: size 1 along batch dimension i */
    outofcore_spread a_quant, b_quant, d_quant;
    int zero_points, quantize_a;
    int64_t group;
    int c_is_d;         /* C is the very memory of D */
    unsigned on_device; /* of tdm_outofcore_operands */
    double
        budget; /* share of the operands' bytes; where that is too little: the smallest that is taken */
    int64_t tile_rows, tile_columns;
    int buffers, measure;
    int cuts_k; /* where the budget asks for it; D is then compared within a tolerance unless it is of integers */
    const char *variant;
    uint64_t seed;
} outofcore_trial;

const char *outofcore_trial_text(const outofcore_trial *trial, char text[512]);

/* Run it; fails the running test case if a byte differs, or if more than the budget was allocated. */
void outofcore_trial_run(const test_device *device, const outofcore_trial *trial);

/* Rates at which copies hide: the planner takes several buffers. Nothing is measured with them. */
extern const tdm_outofcore_rates outofcore_trial_rates;

/* The pieces, for tests that look at more: operands, the description, a run. */
typedef struct outofcore_operands outofcore_operands;
outofcore_operands *outofcore_operands_create(const test_device *device,
                                              const outofcore_trial *trial);
void outofcore_operands_destroy(outofcore_operands *operands);
void outofcore_operands_describe(const outofcore_operands *operands, tdm_outofcore_desc *desc);
void outofcore_operands_args(const outofcore_operands *operands, tdm_outofcore_args *args);
/* Bytes of all operands. */
uint64_t outofcore_operands_bytes(const outofcore_operands *operands);
/* Make D what it was before a run. */
void outofcore_operands_reset(outofcore_operands *operands);
/* Fail the case unless D is what the run in core made. */
void outofcore_operands_check(outofcore_operands *operands);
/* The smallest budget that is taken, by what refusals say. */
uint64_t outofcore_least_budget(const test_device *device, tdm_outofcore_desc desc);

#endif
