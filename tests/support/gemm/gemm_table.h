/*
 * These are the operands of one small GEMM on a device, with a plan and its workspace. They serve
 * tests of the API's contract and tests whose results are written out. Tests of the kernels use
 * gemm_trial.h and gemm_int_trial.h.
 */
#ifndef TANDEM_TESTS_SUPPORT_GEMM_GEMM_TABLE_H
#define TANDEM_TESTS_SUPPORT_GEMM_GEMM_TABLE_H

#include "tests/support/test_array.h"

/* Describes a GEMM of dense A of m×k, B of k×n and D of m×n. */
tdm_gemm_desc gemm_dense_desc(tdm_dtype a, tdm_dtype b, tdm_dtype d, int64_t m, int64_t n,
                              int64_t k);

/* Describes a GEMM of dense f32: A of 4×6, B of 6×5, C and D of 4×5. */
tdm_gemm_desc gemm_small_desc(void);

typedef struct gemm_table {
    test_array a, b, d;
    tdm_gemm_plan *plan;
    tdm_buffer *workspace; /* one byte more than the plan needs */
    tdm_gemm_args args;    /* arguments of a run that succeeds */
} gemm_table;

/* A and B get small integers; D is poisoned. */
void gemm_table_lay(gemm_table *t, const test_device *device, const tdm_gemm_desc *desc);
void gemm_table_clear(gemm_table *t);

/* Every element of D must be exactly A·B: the operands are small integers. */
void gemm_table_expect_product(gemm_table *t);

/* Fills with NaNs for floats and -1 for integers. */
void gemm_poison(const test_device *device, tdm_buffer *buffer, size_t bytes);

/* Allocates the plan's workspace, filled with NaNs. Returns NULL if the plan needs none. */
tdm_buffer *gemm_workspace(const test_device *device, const tdm_gemm_plan *plan);

/* ---- integers, with their quantization parameters ---- */

/*
 * Describes a GEMM of dense m×k A of dtype `a`, k×n B of s8, and D of dtype `d`, without
 * quantization parameters.
 */
tdm_gemm_desc gemm_int_desc(tdm_dtype a, tdm_dtype d, int64_t m, int64_t n, int64_t k);

/*
 * If the variant copies A and B by tensor maps, makes both K-major with a pitch that is a multiple
 * of 16 bytes.
 */
void gemm_int_suit(const tdm_variant *row, tdm_gemm_desc *desc);

/* Sets the dense layout of a matrix's blockwise parameters. `zero` is NONE for no zero points. */
void gemm_int_arrange(tdm_quant_layout *quant, const tdm_layout *matrix, int64_t row_block,
                      int64_t column_block, tdm_dtype zero);

typedef struct gemm_int_operand {
    test_array data, scale, zero;
    tdm_tensor *tensor; /* has the quantization parameters, or is a second handle on the data */
} gemm_int_operand;

/*
 * Creates and sends the operand with its parameters in separate arrays. The data is poison, scales
 * are 1 and zero points 0.
 */
void gemm_int_operand_create(gemm_int_operand *o, const test_device *device,
                             const tdm_layout *layout, const tdm_quant_layout *quant);
void gemm_int_operand_destroy(gemm_int_operand *o);

/* Puts values and sends them. They repeat if there are fewer values than elements. */
void gemm_int_put(test_array *array, const double *values, int count);

typedef struct gemm_int_table {
    const test_device *device;
    gemm_int_operand a, b, d;
    test_array bias; /* zeros, if the descriptor has a bias */
    tdm_gemm_plan *plan;
    tdm_buffer *workspace; /* one byte more than the plan needs */
    tdm_packed *packed;    /* if the descriptor asks for packed B */
    tdm_gemm_args args;    /* arguments of a run that succeeds */
} gemm_int_table;

/* A and B are ones; D is poison. B is packed by gemm_int_table_run, or before it by the caller. */
void gemm_int_table_lay(gemm_int_table *t, const test_device *device, const tdm_gemm_desc *desc);
void gemm_int_table_clear(gemm_int_table *t);

/* Poisons D, runs the plan and fetches D. */
void gemm_int_table_run(gemm_int_table *t);

/* Compares D as fetched, in row-major order. */
void gemm_int_table_expect(const gemm_int_table *t, const double *expected);

#endif
