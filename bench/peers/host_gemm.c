#include "bench/peers/host_gemm.h"

#include <stdlib.h>
#include <string.h>

/* Every copy begins at a multiple of 64 bytes. */
static size_t copy_bytes(const gemm_case *item) {
    return (gemm_case_bytes(item, OP_GEMM_B) + 63) / 64 * 64;
}

static void *create_copies(const gemm_case *item) {
    const size_t bytes = copy_bytes(item);
    const int copies = gemm_case_copies(item);
    char *const all = aligned_alloc(64, (size_t)copies * bytes);
    if (all == NULL)
        return NULL;
    gemm_case_fill(item, OP_GEMM_B, all);
    for (int i = 1; i < copies; i++)
        memcpy(all + (size_t)i * bytes, all, gemm_case_bytes(item, OP_GEMM_B));
    return all;
}

void host_gemm_turn(host_gemm *gemm) {
    gemm->turn = (gemm->turn + 1) % gemm_case_copies(&gemm->item);
}

worker_answer peer_read_gemm(const char *request, gemm_case *item, worker_text *reply) {
    return gemm_case_read(request, item) == 0
               ? WORKER_OK
               : PEER_ANSWER(reply, WORKER_FAIL, "the case cannot be read");
}

worker_answer host_gemm_describe(host_gemm *gemm, const char *request, worker_text *reply) {
    const worker_answer answer = peer_read_gemm(request, &gemm->item, reply);
    if (answer != WORKER_OK)
        return answer;
    gemm->a = gemm_case_create(&gemm->item, OP_GEMM_A);
    gemm->b = create_copies(&gemm->item);
    gemm->turn = 0;
    gemm->d = gemm_case_create(&gemm->item, OP_GEMM_D);
    return gemm->a != NULL && gemm->b != NULL && gemm->d != NULL
               ? WORKER_OK
               : PEER_ANSWER(reply, WORKER_FAIL, "out of host memory");
}

void *host_gemm_matrix(const host_gemm *gemm, op_gemm_operand operand, int64_t batch) {
    void *const all = operand == OP_GEMM_A ? gemm->a : operand == OP_GEMM_B ? gemm->b : gemm->d;
    const size_t bytes = gemm_case_bytes(&gemm->item, operand);
    const size_t copy = operand == OP_GEMM_B ? (size_t)gemm->turn * copy_bytes(&gemm->item) : 0;
    return (char *)all + copy + (size_t)batch * (bytes / (size_t)gemm_case_batch(&gemm->item));
}

size_t host_gemm_output_bytes(void *state) {
    const host_gemm *const gemm = state;
    return gemm->d == NULL ? 0 : gemm_case_bytes(&gemm->item, OP_GEMM_D);
}

worker_answer host_gemm_output(void *state, void *bytes, worker_text *reply) {
    (void)reply;
    memcpy(bytes, ((const host_gemm *)state)->d, host_gemm_output_bytes(state));
    return WORKER_OK;
}

void host_gemm_release(void *state) {
    host_gemm *const gemm = state;
    free(gemm->a);
    free(gemm->b);
    free(gemm->d);
    *gemm = (host_gemm){.d = NULL};
}
