/*
 * The operands of one small GEMM on a device, with a plan and its workspace: for tests of the contract of the calls, and of results
 * written out by hand. Tests of the kernels use gemm_trial.h and gemm_int_trial.h.
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

/* ---- integers, with their parameters ---- */

/* A of m×k and type a by B of k×n in s8 to D of type d, all dense, none with parameters. */
tdm_gemm_desc gemm_int_desc(tdm_dtype a, tdm_dtype d, int64_t m, int64_t n, int64_t k);

/* A and B as the row's copies take them, where those are by tensor maps: along K, their lines whole units of 16 bytes apart. */
void gemm_int_suit(const tdm_variant *row, tdm_gemm_desc *desc);

/* The dense arrangement of a matrix's parameters by blocks; zero: NONE for no zero points. */
void gemm_int_arrange(tdm_quant_layout *quant, const tdm_layout *matrix, int64_t row_block,
                      int64_t column_block, tdm_dtype zero);

typedef struct gemm_int_operand {
    test_array data, scale, zero;
    tdm_tensor *tensor; /* carries the parameters, or is a second handle on the data */
} gemm_int_operand;

/* As an arrangement says, in arrays of its own; data is poison, scales are 1, zero points 0. Sent. */
void gemm_int_operand_create(gemm_int_operand *o, const test_device *device,
                             const tdm_layout *layout, const tdm_quant_layout *quant);
void gemm_int_operand_destroy(gemm_int_operand *o);

/* Put values and send them; they repeat when there are fewer than elements. */
void gemm_int_put(test_array *array, const double *values, int count);

typedef struct gemm_int_table {
    const test_device *device;
    gemm_int_operand a, b, d;
    test_array bias; /* where the description has one: zeros */
    tdm_gemm_plan *plan;
    tdm_buffer *workspace; /* a byte more than the plan needs */
    tdm_packed *packed;    /* where the description says so */
    tdm_gemm_args args;    /* of a run that succeeds */
} gemm_int_table;

/* A and B are ones, D is poison. B is packed by gemm_int_table_run, or by the caller before it. */
void gemm_int_table_lay(gemm_int_table *t, const test_device *device, const tdm_gemm_desc *desc);
void gemm_int_table_clear(gemm_int_table *t);

/* Poison D, run, fetch D. */
void gemm_int_table_run(gemm_int_table *t);

/* D as fetched, row by row. */
void gemm_int_table_expect(const gemm_int_table *t, const double *expected);

#endif
