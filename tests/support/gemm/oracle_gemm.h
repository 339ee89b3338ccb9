/*
 * The oracle of GEMM: plain C in double precision, one matrix.
 */
#ifndef TANDEM_TESTS_SUPPORT_GEMM_ORACLE_GEMM_H
#define TANDEM_TESTS_SUPPORT_GEMM_ORACLE_GEMM_H

#include <stdint.h>

#include <tandem/gemm.h>

/* Dense row-major operands; c, bias and residual may be NULL. */
typedef struct oracle_gemm {
    int64_t m, n, k;
    const double *a; /* m×k */
    const double *b; /* k×n */
    const double *c; /* m×n; never read when beta is 0 */
    const double *bias;
    const double *residual;
    double alpha, beta;
    tdm_activation activation;
} oracle_gemm;

/*
 * d[i, j] = act(alpha·A·B + beta·C + bias + residual), and size[i, j] = |alpha|·|A||B| + |beta·C| + |bias| +
 * |residual|, what the error bound is relative to.
 */
void oracle_gemm_run(const oracle_gemm *problem, double *d, double *size);

/* One entry. */
void oracle_gemm_entry(const oracle_gemm *problem, int64_t i, int64_t j, double *d, double *size);

#endif
