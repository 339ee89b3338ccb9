/*
 * One trial is an out-of-core GEMM on a device. The operands lie in host memory of exactly their
 * size; those in `on_device` lie on the device. A plan within a budget runs. Every byte of D is
 * compared with the result of tdm_gemm_plan_run with everything on the device.
 */
#ifndef TANDEM_TESTS_SUPPORT_GEMM_OUTOFCORE_TRIAL_H
#define TANDEM_TESTS_SUPPORT_GEMM_OUTOFCORE_TRIAL_H

#include <tandem/outofcore.h>

#include "tests/support/test_array.h"

typedef enum outofcore_spread {
    OUTOFCORE_NONE,  /* no quantization parameters */
    OUTOFCORE_ONE,   /* one for the whole matrix */
    OUTOFCORE_EACH,  /* one for each row of A, or column of B or D */
    OUTOFCORE_GROUPS /* B only: for each column, and in groups along K */
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
    int gated; /* the residual is a factor */
    int batch_rank;
    int64_t batch[2];
    unsigned shared[OUTOFCORE_MATRICES]; /* bit i: size 1 along batch dimension i */
    outofcore_spread a_quant, b_quant, d_quant;
    int zero_points, quantize_a;
    int64_t group;
    int c_is_d;         /* C is the memory of D */
    unsigned on_device; /* bit mask of tdm_outofcore_operands */
    double
        budget; /* fraction of the operands' bytes; if too little: the smallest accepted budget */
    int64_t tile_rows, tile_columns;
    int buffers, measure;
    int cuts_k; /* K is cut if the budget needs it; a float D is then compared within a tolerance */
    const char *variant;
    uint64_t seed;
} outofcore_trial;

const char *outofcore_trial_text(const outofcore_trial *trial, char text[512]);

/*
 * Runs the trial. Fails the running test case if a byte differs, or if the allocations exceeded the
 * budget.
 */
void outofcore_trial_run(const test_device *device, const outofcore_trial *trial);

/*
 * With these rates copies can overlap with compute, so the planner uses several buffers. The
 * planner measures nothing if rates are given.
 */
extern const tdm_outofcore_rates outofcore_trial_rates;

/* These are the parts of a trial, for tests that check more: operands, the descriptor, a run. */
typedef struct outofcore_operands outofcore_operands;
outofcore_operands *outofcore_operands_create(const test_device *device,
                                              const outofcore_trial *trial);
void outofcore_operands_destroy(outofcore_operands *operands);
void outofcore_operands_describe(const outofcore_operands *operands, tdm_outofcore_desc *desc);
void outofcore_operands_args(const outofcore_operands *operands, tdm_outofcore_args *args);
/* Returns the total bytes of all operands. */
uint64_t outofcore_operands_bytes(const outofcore_operands *operands);
/* Restores D to its content before a run. */
void outofcore_operands_reset(outofcore_operands *operands);
/* Fails the case unless D equals the in-core result. */
void outofcore_operands_check(outofcore_operands *operands);
/* The smallest accepted budget, taken from the messages of refusals. */
uint64_t outofcore_least_budget(const test_device *device, tdm_outofcore_desc desc);

#endif
