/* The GEMM peers share this file: the reading of a case, and operands in host memory. */
#ifndef TANDEM_BENCH_PEERS_HOST_GEMM_H
#define TANDEM_BENCH_PEERS_HOST_GEMM_H

#include "bench/cases/gemm_case.h"
#include "bench/protocol/worker_serve.h"

/* Sets the reason and evaluates to the answer. */
#define PEER_ANSWER(reply, answer, ...) (worker_text_set(reply, __VA_ARGS__), answer)

/* Reads the case of a request. Fails if it cannot be read. */
worker_answer peer_read_gemm(const char *request, gemm_case *item, worker_text *reply);

/*
 * The state of a worker, or the first member of that state. The last three functions of this file
 * can therefore be members of a worker_implementation.
 */
typedef struct host_gemm {
    gemm_case item;
    void *a;
    void *b;  /* all copies, one after the other */
    int turn; /* the copy that host_gemm_matrix returns */
    void *d;
} host_gemm;

/* Reads the request; allocates and fills A, B and D. */
worker_answer host_gemm_describe(host_gemm *gemm, const char *request, worker_text *reply);

/* Selects the next copy of B. Called at the end of a call. */
void host_gemm_turn(host_gemm *gemm);

/* Returns the first element of matrix `batch` of A, B or D. */
void *host_gemm_matrix(const host_gemm *gemm, op_gemm_operand operand, int64_t batch);

size_t host_gemm_output_bytes(void *state);
worker_answer host_gemm_output(void *state, void *bytes, worker_text *reply);
void host_gemm_release(void *state);

#endif
