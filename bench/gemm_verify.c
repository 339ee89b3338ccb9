#include "bench/gemm_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/random_fill.h"
#include "quant/number_formats.h"

enum {
    SAMPLED_ENTRIES = 256
};

/*
 * A row's Freivalds residual is a sum of n independent errors with random signs, so it grows with
 * sqrt(n); six times that is exceeded by chance less than once in 10^8 rows.
 */
static const double freivalds_factor = 6;

/*
 * The problem in double: rounding the inputs to their dtype is part of the problem, not an error.
 */
typedef struct checker {
    const gemm_case *item;
    double *a; /* m×k, not transposed */
    double *b; /* k×n, not transposed */
    const void *output;
    op_gemm_case operation;
    gemm_verdict *verdict;
} checker;

/* op(X) as dense rows×columns in double. */
static double *load_operand(const gemm_case *item, op_gemm_operand operand, size_t rows,
                            size_t columns, int transposed) {
    void *const stored = gemm_case_create(item, operand);
    double *const matrix = malloc(rows * columns * sizeof *matrix);
    for (size_t row = 0; stored != NULL && matrix != NULL && row < rows; row++) {
        for (size_t column = 0; column < columns; column++) {
            const size_t at = transposed ? column * rows + row : row * columns + column;
            matrix[row * columns + column] = tdm_number_get(item->dtype, stored, at);
        }
    }
    if (stored == NULL) {
        free(matrix);
        return NULL;
    }
    free(stored);
    return matrix;
}

static void check_entry(checker *check, size_t row, size_t column) {
    const gemm_case *const item = check->item;
    const size_t n = (size_t)item->n;
    const size_t k = (size_t)item->k;
    double sum = 0;
    double magnitude = 0;
    for (size_t i = 0; i < k; i++) {
        const double product = check->a[row * k + i] * check->b[i * n + column];
        sum += product;
        magnitude += fabs(product);
    }
    const double got = tdm_number_get(item->dtype, check->output, row * n + column);
    const double error = fabs(got - sum);
    const double bound = op_gemm_bound(&check->operation, sum, magnitude);
    const double relative = error / (magnitude > 0 ? magnitude : 1);
    gemm_verdict *const verdict = check->verdict;
    /* Written so that a NaN fails. */
    if (!(relative <= verdict->max_error) && !isnan(verdict->max_error))
        verdict->max_error = relative;
    if (!(error <= bound) && verdict->right) {
        verdict->right = 0;
        snprintf(verdict->reason, sizeof verdict->reason,
                 "D[%zu][%zu] is %.9g, should be %.9g within %.2g", row, column, got, sum, bound);
    }
}

static void check_entries(checker *check) {
    const uint64_t m = (uint64_t)check->item->m;
    const uint64_t n = (uint64_t)check->item->n;
    check_entry(check, 0, 0);
    check_entry(check, 0, n - 1);
    check_entry(check, m - 1, 0);
    check_entry(check, m - 1, n - 1);
    for (uint64_t i = 0; i < SAMPLED_ENTRIES; i++)
        check_entry(check, random_bits(check->item->seed + 1000, 2 * i) % m,
                    random_bits(check->item->seed + 1000, 2 * i + 1) % n);
}

/* B·r for signs r, and |B|·1, each k long. */
static void multiply_b(const checker *check, const double *signs, double *product,
                       double *magnitude) {
    const size_t n = (size_t)check->item->n;
    for (size_t i = 0; i < (size_t)check->item->k; i++) {
        product[i] = 0;
        magnitude[i] = 0;
        for (size_t j = 0; j < n; j++) {
            product[i] += check->b[i * n + j] * signs[j];
            magnitude[i] += fabs(check->b[i * n + j]);
        }
    }
}

static void check_row(checker *check, size_t row, const double *signs, const double *product,
                      const double *magnitude) {
    const gemm_case *const item = check->item;
    const size_t n = (size_t)item->n;
    const size_t k = (size_t)item->k;
    double expected = 0;
    double size = 0;
    for (size_t i = 0; i < k; i++) {
        expected += check->a[row * k + i] * product[i];
        size += fabs(check->a[row * k + i]) * magnitude[i];
    }
    double got = 0;
    double got_size = 0;
    for (size_t j = 0; j < n; j++) {
        const double entry = tdm_number_get(item->dtype, check->output, row * n + j);
        got += entry * signs[j];
        got_size += fabs(entry);
    }
    const double entry_bound = op_gemm_bound(&check->operation, got_size, size);
    const double bound = freivalds_factor * entry_bound / sqrt((double)n);
    /* An infinite entry would widen the bound to infinity too. */
    if ((isfinite(got) && fabs(got - expected) <= bound) || !check->verdict->right)
        return;
    check->verdict->right = 0;
    snprintf(check->verdict->reason, sizeof check->verdict->reason,
             "row %zu of D times a sign vector is %.9g, should be %.9g within %.2g", row, got,
             expected, bound);
}

static int check_rows(checker *check) {
    const size_t n = (size_t)check->item->n;
    const size_t k = (size_t)check->item->k;
    double *const vectors = malloc((n + 2 * k) * sizeof *vectors);
    if (vectors == NULL)
        return -1;
    double *const signs = vectors;
    double *const product = vectors + n;
    double *const magnitude = vectors + n + k;
    for (size_t j = 0; j < n; j++)
        signs[j] = (random_bits(check->item->seed + 2000, j) & 1) != 0 ? 1 : -1;
    multiply_b(check, signs, product, magnitude);
    for (size_t row = 0; row < (size_t)check->item->m; row++)
        check_row(check, row, signs, product, magnitude);
    free(vectors);
    return 0;
}

int gemm_case_verify(const gemm_case *item, const void *output, size_t bytes,
                     gemm_verdict *verdict) {
    *verdict = (gemm_verdict){.right = 1};
    if (bytes != gemm_case_bytes(item, OP_GEMM_D)) {
        verdict->right = 0;
        verdict->max_error = NAN;
        snprintf(verdict->reason, sizeof verdict->reason, "the output has %zu bytes, not %zu",
                 bytes, gemm_case_bytes(item, OP_GEMM_D));
        return 0;
    }
    const size_t m = (size_t)item->m;
    const size_t n = (size_t)item->n;
    const size_t k = (size_t)item->k;
    checker check = {
        .item = item,
        .a = load_operand(item, OP_GEMM_A, m, k, item->transpose_a),
        .b = load_operand(item, OP_GEMM_B, k, n, item->transpose_b),
        .output = output,
        .operation = gemm_case_operation(item),
        .verdict = verdict,
    };
    int status = check.a == NULL || check.b == NULL ? -1 : 0;
    if (status == 0) {
        check_entries(&check);
        status = check_rows(&check);
    }
    free(check.a);
    free(check.b);
    return status;
}

int gemm_case_check(const void *user, const void *output, size_t bytes, double *max_error,
                    worker_text *reason) {
    gemm_verdict verdict;
    if (gemm_case_verify(user, output, bytes, &verdict) != 0) {
        worker_text_set(reason, "out of host memory");
        return -1;
    }
    *max_error = verdict.max_error;
    worker_text_set(reason, "%s", verdict.reason);
    return verdict.right ? 0 : -1;
}
