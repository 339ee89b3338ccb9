/*
 * The operands of one small GEMM on a device, with a plan and its workspace: for tests of the
 * contract of the calls. Tests of the kernels use gemm_trial.h.
 */
#ifndef TANDEM_TESTS_SUPPORT_GEMM_GEMM_TABLE_H
#define TANDEM_TESTS_SUPPORT_GEMM_GEMM_TABLE_H

#include "tests/support/test_array.h"

/* A of m×k, B of k×n and D of m×n, dense. */
tdm_gemm_desc gemm_dense_desc(tdm_dtype a, tdm_dtype b, tdm_dtype d, int64_t m, int64_t n,
                              int64_t k);

/* A of 4×6, B of 6×5, C and D of 4×5, f32, dense. */
tdm_gemm_desc gemm_small_desc(void);

typedef struct gemm_table {
    test_array a, b, d;
    tdm_gemm_plan *plan;
    tdm_buffer *workspace; /* a byte more than the plan needs */
    tdm_gemm_args args;    /* of a run that succeeds */
} gemm_table;

/* A and B get small integers, D is poisoned. */
void gemm_table_lay(gemm_table *t, const test_device *device, const tdm_gemm_desc *desc);
void gemm_table_clear(gemm_table *t);

/* D must be A·B in every element; small integers, so exactly. */
void gemm_table_expect_product(gemm_table *t);

/* NaNs in floats, -1 in integers. */
void gemm_poison(const test_device *device, tdm_buffer *buffer, size_t bytes);

/* What a plan needs, full of NaNs; NULL where that is nothing. */
tdm_buffer *gemm_workspace(const test_device *device, const tdm_gemm_plan *plan);

#endif
