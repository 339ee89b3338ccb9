/*
 * The worker of OpenBLAS: sgemm on host memory, with the number of threads that OpenBLAS chooses.
 * It calls sgemv if A is one row, and makes one call for each matrix of a batch, as users do.
 */
#include <cblas.h>
#include <stdlib.h>

#include "bench/peers/host_gemm.h"

static void identify(void *state, worker_text *reply) {
    (void)state;
    worker_field_add(reply, "version", openblas_get_config());
    worker_field_add(reply, "core", openblas_get_corename());
    worker_field_add_integer(reply, "threads", openblas_get_num_threads());
}

static worker_answer describe(void *state, const char *request, worker_text *reply) {
    host_gemm *const gemm = state;
    const worker_answer answer = host_gemm_describe(gemm, request, reply);
    if (answer != WORKER_OK)
        return answer;
    if (gemm->item.types != GEMM_F32)
        return PEER_ANSWER(reply, WORKER_SKIP, "OpenBLAS has no GEMM in %s",
                           gemm_types_name(gemm->item.types));
    if (gemm->item.prepacked)
        return PEER_ANSWER(reply, WORKER_SKIP, "OpenBLAS has no interface for packed operands");
    worker_text variant = {.length = 0};
    worker_text_add(&variant, "%s %s%s", openblas_get_corename(),
                    gemm->item.m == 1 ? "sgemv" : "sgemm",
                    gemm_case_batch(&gemm->item) > 1 ? " loop" : "");
    worker_field_add(reply, "variant", variant.text);
    return WORKER_OK;
}

static void multiply(const host_gemm *gemm, int64_t batch) {
    const gemm_case *const item = &gemm->item;
    const blasint m = (blasint)item->m;
    const blasint n = (blasint)item->n;
    const blasint k = (blasint)item->k;
    cblas_sgemm(CblasRowMajor, item->transpose_a ? CblasTrans : CblasNoTrans,
                item->transpose_b ? CblasTrans : CblasNoTrans, m, n, k, 1.0f,
                host_gemm_matrix(gemm, OP_GEMM_A, batch), item->transpose_a ? m : k,
                host_gemm_matrix(gemm, OP_GEMM_B, batch), item->transpose_b ? k : n, 0.0f,
                host_gemm_matrix(gemm, OP_GEMM_D, batch), n);
}

/* Runs a case with one row of A, which is dense whether transposed or not. */
static void multiply_row(const host_gemm *gemm, int64_t batch) {
    const gemm_case *const item = &gemm->item;
    const blasint rows = (blasint)(item->transpose_b ? item->n : item->k);
    const blasint columns = (blasint)(item->transpose_b ? item->k : item->n);
    cblas_sgemv(CblasRowMajor, item->transpose_b ? CblasNoTrans : CblasTrans, rows, columns, 1.0f,
                host_gemm_matrix(gemm, OP_GEMM_B, batch), columns,
                host_gemm_matrix(gemm, OP_GEMM_A, batch), 1, 0.0f,
                host_gemm_matrix(gemm, OP_GEMM_D, batch), 1);
}

static worker_answer enqueue(void *state, worker_text *reply) {
    (void)reply;
    host_gemm *const gemm = state;
    for (int64_t batch = 0; batch < gemm_case_batch(&gemm->item); batch++) {
        if (gemm->item.m == 1)
            multiply_row(gemm, batch);
        else
            multiply(gemm, batch);
    }
    host_gemm_turn(gemm);
    return WORKER_OK;
}

int main(void) {
    static const worker_implementation openblas = {
        .name = "openblas",
        .identify = identify,
        .describe = describe,
        .enqueue = enqueue,
        .output_bytes = host_gemm_output_bytes,
        .output = host_gemm_output,
        .release = host_gemm_release,
    };
    host_gemm gemm = {.d = NULL};
    return worker_serve(&openblas, &gemm);
}
