/* What the peers that multiply in host memory share: the operands of the present case. */
#ifndef TANDEM_BENCH_PEERS_HOST_GEMM_H
#define TANDEM_BENCH_PEERS_HOST_GEMM_H

#include "bench/cases/gemm_case.h"
#include "bench/protocol/worker_serve.h"

typedef struct host_gemm {
    gemm_case item;
    void *a;
    void *b;  /* all copies, one after the other */
    int turn; /* the copy that host_gemm_matrix gives */
    void *d;
} host_gemm;

/* Read the request, allocate and fill A, B and D. */
worker_answer host_gemm_describe(host_gemm *gemm, const char *request, worker_text *reply);

/* Let the next copy of B be the one that is multiplied by: at the end of a call. */
void host_gemm_turn(host_gemm *gemm);

/* The first element of matrix `batch` of A, B or D. */
void *host_gemm_matrix(const host_gemm *gemm, op_gemm_operand operand, int64_t batch);

size_t host_gemm_output_bytes(const host_gemm *gemm);
worker_answer host_gemm_output(const host_gemm *gemm, void *bytes);
void host_gemm_release(host_gemm *gemm);

#endif
