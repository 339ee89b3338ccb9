/* What tests of the benchmarks' GEMM check share: elements of operands, and what the check says of an output. */
#ifndef TANDEM_TESTS_SUPPORT_GEMM_BENCH_GEMM_CHECK_H
#define TANDEM_TESTS_SUPPORT_GEMM_BENCH_GEMM_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bench/cases/gemm_case.h"
#include "quant/number_formats.h"

/* A stored element of matrix `batch` of A or B, transposed or not. */
static inline double operand(const gemm_case *item, const void *data, op_gemm_operand which,
                             int64_t batch, int64_t row, int64_t column) {
    const int64_t rows = which == OP_GEMM_A ? item->m : item->k;
    const int64_t columns = which == OP_GEMM_A ? item->k : item->n;
    const int transposed = which == OP_GEMM_A ? item->transpose_a : item->transpose_b;
    const int64_t at = transposed ? column * rows + row : row * columns + column;
    return tdm_number_get(gemm_types_dtype(item->types, which), data,
                          (size_t)batch * gemm_case_matrix(item, which) + (size_t)at);
}

static inline gemm_verdict verdict_of(const gemm_case *item, const void *d) {
    gemm_verdict verdict;
    gemm_oracle oracle = GEMM_ORACLE_INIT;
    assert_int_equal(gemm_oracle_set(&oracle, item), 0);
    assert_int_equal(gemm_oracle_verify(&oracle, d, gemm_case_bytes(item, OP_GEMM_D), &verdict), 0);
    gemm_oracle_release(&oracle);
    return verdict;
}

#endif
