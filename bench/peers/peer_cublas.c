/*
 * The worker of cuBLAS: cublasGemmStridedBatchedEx on the GPU that the request names. f32 (without
 * TF32), f16 and bf16 are summed in f32, and s8 in s32. The library chooses the kernels.
 */
#include <stdlib.h>

#include "bench/peers/peer_cuda_gemm.h"

#define CUBLAS_FUNCTIONS(F)                                                                        \
    F(cublasCreate_v2)                                                                             \
    F(cublasDestroy_v2)                                                                            \
    F(cublasSetStream_v2)                                                                          \
    F(cublasGetProperty)                                                                           \
    F(cublasGetStatusString)                                                                       \
    F(cublasGemmStridedBatchedEx)

static struct { CUBLAS_FUNCTIONS(TOOLKIT_MEMBER) } cublas;

typedef struct cublas_state {
    cuda_gemm gemm;
    cublasHandle_t handle; /* NULL until the first case */
} cublas_state;

static void identify(void *state, worker_text *reply) {
    int major = 0, minor = 0, patch = 0;
    if (((cublas_state *)state)->gemm.missing != NULL)
        return;
    cublas.cublasGetProperty(MAJOR_VERSION, &major);
    cublas.cublasGetProperty(MINOR_VERSION, &minor);
    cublas.cublasGetProperty(PATCH_LEVEL, &patch);
    worker_text version = {.length = 0};
    worker_text_set(&version, "%d.%d.%d", major, minor, patch);
    worker_field_add(reply, "version", version.text);
}

static worker_answer open_handle(cublas_state *own, worker_text *reply) {
    if (own->handle != NULL)
        return WORKER_OK;
    cublasStatus_t status = cublas.cublasCreate_v2(&own->handle);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublas.cublasSetStream_v2(own->handle, own->gemm.stream);
    return status == CUBLAS_STATUS_SUCCESS ? WORKER_OK
                                           : PEER_ANSWER(reply, WORKER_FAIL, "cublasCreate: %s",
                                                         cublas.cublasGetStatusString(status));
}

static cublasStatus_t multiply(cublas_state *own) {
    const cuda_gemm_shape s = cuda_gemm_shape_of(&own->gemm.item);
    const cuda_gemm_scale one = cuda_gemm_number(&s, 1), zero = cuda_gemm_number(&s, 0);
    return cublas.cublasGemmStridedBatchedEx(
        own->handle, s.left_way, s.right_way, s.rows, s.columns, s.depth, &one,
        cuda_gemm_next(&own->gemm), s.input, s.left_pitch, s.left_step, own->gemm.a, s.input,
        s.right_pitch, s.right_step, &zero, own->gemm.d, s.output, s.output_pitch, s.output_step,
        s.batch, s.compute, CUBLAS_GEMM_DEFAULT);
}

/* Runs the GEMM once, because only a call shows whether the library supports it. */
static worker_answer describe(void *state, const char *request, worker_text *reply) {
    cublas_state *const own = state;
    worker_answer answer = cuda_gemm_describe(&own->gemm, request, reply);
    if (answer == WORKER_OK)
        answer = open_handle(own, reply);
    if (answer != WORKER_OK)
        return answer;
    const cublasStatus_t status = multiply(own);
    if (status != CUBLAS_STATUS_SUCCESS) {
        worker_text_set(reply, "cuBLAS in %s: %s", gemm_types_name(own->gemm.item.types),
                        cublas.cublasGetStatusString(status));
        return status == CUBLAS_STATUS_NOT_SUPPORTED ? WORKER_SKIP : WORKER_FAIL;
    }
    worker_field_add(reply, "variant", "cublasGemmStridedBatchedEx");
    return cuda_gemm_wait(&own->gemm, reply);
}

static worker_answer enqueue(void *state, worker_text *reply) {
    const cublasStatus_t status = multiply(state);
    return status == CUBLAS_STATUS_SUCCESS ? WORKER_OK
                                           : PEER_ANSWER(reply, WORKER_FAIL, "cuBLAS: %s",
                                                         cublas.cublasGetStatusString(status));
}

int main(void) {
    static const char *const names[] = {CUBLAS_FUNCTIONS(TOOLKIT_NAME) NULL};
    static const toolkit_library library = {"cublas", "TANDEM_CUBLAS_LIBRARY", CUBLAS_VER_MAJOR,
                                            names};
    static const worker_implementation implementation = {
        .name = "cublas",
        .identify = identify,
        .describe = describe,
        .enqueue = enqueue,
        .wait = cuda_gemm_wait,
        .output_bytes = cuda_gemm_output_bytes,
        .output = cuda_gemm_output,
        .release = cuda_gemm_release,
    };
    cublas_state state = {.handle = NULL};
    cuda_gemm_open(&state.gemm, &library, &cublas);
    const int code = worker_serve(&implementation, &state);
    if (state.handle != NULL)
        cublas.cublasDestroy_v2(state.handle);
    return code;
}
