/*
 * One GEMM case D = op(A)·op(B), as parent and workers see it: its request line, its data from the
 * seed, and the check of an output.
 *
 * All matrices are dense and row-major: A is m×k (k×m when transposed), B is k×n (n×k), D is m×n.
 */
#ifndef BENCH_GEMM_CASE_H
#define BENCH_GEMM_CASE_H

#include <tandem/dtype.h>

#include "bench/worker_protocol.h"
#include "tests/op_gemm.h"

typedef struct gemm_case {
    tdm_dtype dtype; /* of A, B and D */
    int64_t m, n, k;
    int transpose_a, transpose_b;
    int prepacked; /* B is packed before the timing starts */
    int waited;    /* each call is waited for */
    uint64_t seed;
} gemm_case;

/* The case as tests and benchmarks describe GEMM: its work, shapes and error bound. */
op_gemm_case gemm_case_operation(const gemm_case *item);

/* Add the case's fields to a request line. */
void gemm_case_write(const gemm_case *item, worker_text *line);

/* Read a request line; -1 when fields are missing or out of range. */
int gemm_case_read(const char *line, gemm_case *item);

/* "f32 512x512x512 nn" */
void gemm_case_name(const gemm_case *item, char *text, size_t size);

/* Elements and bytes of an operand. */
size_t gemm_case_elements(const gemm_case *item, op_gemm_operand operand);
size_t gemm_case_bytes(const gemm_case *item, op_gemm_operand operand);

/* An operand's values, uniform in [-1, 1), the same in every process. */
void gemm_case_fill(const gemm_case *item, op_gemm_operand operand, void *data);

/*
 * An operand, allocated and filled (D: filled with NaN). NULL when memory is short; release with
 * free.
 */
void *gemm_case_create(const gemm_case *item, op_gemm_operand operand);

typedef struct gemm_verdict {
    int right;
    double max_error; /* greatest |d - d64| / (|A||B|)ij of the entries computed in double */
    char reason[160]; /* why it is wrong */
} gemm_verdict;

/*
 * Check an output of `bytes` bytes: sampled entries, corners included, against exact sums in
 * double, and the whole by Freivalds' method (D·r against A·(B·r) for a random vector of signs).
 * The bound is tests/op_gemm.h's. -1 when memory is short.
 */
int gemm_case_verify(const gemm_case *item, const void *output, size_t bytes,
                     gemm_verdict *verdict);

/* The same for bench_runner.h: `user` is the case. 0 when right, otherwise -1 and the reason. */
int gemm_case_check(const void *user, const void *output, size_t bytes, double *max_error,
                    worker_text *reason);

#endif
