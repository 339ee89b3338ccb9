#include "tests/support/gemm/oracle_gemm.h"

#include <math.h>

#include "common/op_gemm.h"

void oracle_gemm_entry(const oracle_gemm *problem, int64_t i, int64_t j, double *d, double *size) {
    double sum = 0, magnitude = 0;
    for (int64_t p = 0; p < problem->k; p++) {
        const double product = problem->a[i * problem->k + p] * problem->b[p * problem->n + j];
        sum += product;
        magnitude += fabs(product);
    }
    const int64_t at = i * problem->n + j;
    double x = problem->alpha * sum;
    *size = fabs(problem->alpha) * magnitude;
    if (problem->beta != 0) {
        x += problem->beta * problem->c[at];
        *size += fabs(problem->beta * problem->c[at]);
    }
    if (problem->bias) {
        x += problem->bias[j];
        *size += fabs(problem->bias[j]);
    }
    if (problem->residual) {
        x += problem->residual[at];
        *size += fabs(problem->residual[at]);
    }
    *d = op_gemm_activate(x, problem->activation);
}

void oracle_gemm_run(const oracle_gemm *problem, double *d, double *size) {
    for (int64_t i = 0; i < problem->m; i++)
        for (int64_t j = 0; j < problem->n; j++)
            oracle_gemm_entry(problem, i, j, &d[i * problem->n + j], &size[i * problem->n + j]);
}
