/*
 * The worker of cuBLASLt. For each case it times all algorithms that the heuristic returns, on the
 * operands and copies of B of the measurement. The fastest one is measured. An algorithm that is
 * far behind after few calls is dropped.
 */
#include <cublasLt.h>
#include <stdlib.h>

#include "bench/peers/peer_cuda_gemm.h"

enum {
    MAX_ALGORITHMS = 64,
    FIRST_CALLS = 2, /* an algorithm that is far behind after these is dropped */
    TRIAL_CALLS = 10
};

/*
 * An algorithm is far behind if it takes this multiple of the best time. Such algorithms only cost
 * time, most of all if there are many large GEMMs.
 */
static const float far_behind = 1.5f;

#define WORKSPACE_BYTES ((size_t)32 << 20)

#define CUBLASLT_FUNCTIONS(F)                                                                      \
    F(cublasLtGetVersion)                                                                          \
    F(cublasLtCreate)                                                                              \
    F(cublasLtGetStatusString)                                                                     \
    F(cublasLtMatrixLayoutCreate)                                                                  \
    F(cublasLtMatrixLayoutSetAttribute)                                                            \
    F(cublasLtMatmulDescCreate)                                                                    \
    F(cublasLtMatmulDescSetAttribute)                                                              \
    F(cublasLtMatmul)                                                                              \
    F(cublasLtMatmulPreferenceCreate)                                                              \
    F(cublasLtMatmulPreferenceSetAttribute)                                                        \
    F(cublasLtMatmulAlgoGetHeuristic)                                                              \
    F(cublasLtMatmulPreferenceDestroy)                                                             \
    F(cublasLtMatrixLayoutDestroy)                                                                 \
    F(cublasLtMatmulDescDestroy)                                                                   \
    F(cublasLtDestroy)

static struct { CUBLASLT_FUNCTIONS(TOOLKIT_MEMBER) } lt;

#define TRY(expression)                                                                            \
    do {                                                                                           \
        const cublasStatus_t try_status = (expression);                                            \
        if (try_status != CUBLAS_STATUS_SUCCESS)                                                   \
            return try_status;                                                                     \
    } while (0)

typedef struct lt_state {
    cuda_gemm gemm;
    cublasLtHandle_t handle; /* NULL until the first case, like the next three */
    void *workspace;
    cudaEvent_t begin, end;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t left, right, output;
    cublasLtMatmulAlgo_t algorithm;
} lt_state;

static void identify(void *state, worker_text *reply) {
    if (((lt_state *)state)->gemm.missing == NULL)
        worker_field_add_integer(reply, "version", (int64_t)lt.cublasLtGetVersion());
}

/* ---- the operands ---------------------------------------------------------------------------- */

static worker_answer open_handle(lt_state *own, worker_text *reply) {
    if (own->handle != NULL)
        return WORKER_OK;
    const cublasStatus_t status = lt.cublasLtCreate(&own->handle);
    if (status != CUBLAS_STATUS_SUCCESS)
        return PEER_ANSWER(reply, WORKER_FAIL, "cublasLtCreate: %s",
                           lt.cublasLtGetStatusString(status));
    cudaError_t code = cuda_runtime.cudaMalloc(&own->workspace, WORKSPACE_BYTES);
    if (code == cudaSuccess)
        code = cuda_runtime.cudaEventCreate(&own->begin);
    if (code == cudaSuccess)
        code = cuda_runtime.cudaEventCreate(&own->end);
    return code == cudaSuccess ? WORKER_OK
                               : PEER_ANSWER(reply, WORKER_FAIL, "workspace: %s",
                                             cuda_runtime.cudaGetErrorString(code));
}

/* Describes a matrix as it is stored; `way` states whether the GEMM transposes it. */
static cublasStatus_t layout_of(cublasLtMatrixLayout_t *layout, cudaDataType_t type,
                                cublasOperation_t way, int rows, int columns, int pitch, int batch,
                                long long step) {
    const int turned = way == CUBLAS_OP_T;
    const int32_t count = batch;
    const int64_t distance = step;
    TRY(lt.cublasLtMatrixLayoutCreate(layout, type, (uint64_t)(turned ? columns : rows),
                                      (uint64_t)(turned ? rows : columns), pitch));
    if (batch == 1)
        return CUBLAS_STATUS_SUCCESS;
    TRY(lt.cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                            sizeof count));
    return lt.cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                               &distance, sizeof distance);
}

static cublasStatus_t describe_operation(lt_state *own, const cuda_gemm_shape *s) {
    TRY(lt.cublasLtMatmulDescCreate(&own->operation, s->compute, s->scale));
    TRY(lt.cublasLtMatmulDescSetAttribute(own->operation, CUBLASLT_MATMUL_DESC_TRANSA, &s->left_way,
                                          sizeof s->left_way));
    TRY(lt.cublasLtMatmulDescSetAttribute(own->operation, CUBLASLT_MATMUL_DESC_TRANSB,
                                          &s->right_way, sizeof s->right_way));
    TRY(layout_of(&own->left, s->input, s->left_way, s->rows, s->depth, s->left_pitch, s->batch,
                  s->left_step));
    TRY(layout_of(&own->right, s->input, s->right_way, s->depth, s->columns, s->right_pitch,
                  s->batch, s->right_step));
    return layout_of(&own->output, s->output, CUBLAS_OP_N, s->rows, s->columns, s->output_pitch,
                     s->batch, s->output_step);
}

static cublasStatus_t multiply(lt_state *own, const cublasLtMatmulAlgo_t *algorithm) {
    const cuda_gemm_shape s = cuda_gemm_shape_of(&own->gemm.item);
    const cuda_gemm_scale one = cuda_gemm_number(&s, 1), zero = cuda_gemm_number(&s, 0);
    return lt.cublasLtMatmul(own->handle, own->operation, &one, cuda_gemm_next(&own->gemm),
                             own->left, own->gemm.a, own->right, &zero, own->gemm.d, own->output,
                             own->gemm.d, own->output, algorithm, own->workspace, WORKSPACE_BYTES,
                             own->gemm.stream);
}

/* ---- the fastest algorithm ------------------------------------------------------------------- */

static cublasStatus_t ask(lt_state *own, cublasLtMatmulHeuristicResult_t *found, int *count) {
    const size_t bytes = WORKSPACE_BYTES;
    cublasLtMatmulPreference_t preference = NULL;
    cublasStatus_t status = lt.cublasLtMatmulPreferenceCreate(&preference);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = lt.cublasLtMatmulPreferenceSetAttribute(
            preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = lt.cublasLtMatmulAlgoGetHeuristic(own->handle, own->operation, own->left,
                                                   own->right, own->output, own->output, preference,
                                                   MAX_ALGORITHMS, found, count);
    if (preference != NULL)
        lt.cublasLtMatmulPreferenceDestroy(preference);
    return status;
}

/* Returns the mean milliseconds per call, or a negative value if the algorithm does not run. */
static float time_calls(lt_state *own, const cublasLtMatmulAlgo_t *algorithm, int calls) {
    float milliseconds = -1;
    cuda_runtime.cudaEventRecord(own->begin, own->gemm.stream);
    for (int i = 0; i < calls; i++)
        if (multiply(own, algorithm) != CUBLAS_STATUS_SUCCESS)
            return -1;
    cuda_runtime.cudaEventRecord(own->end, own->gemm.stream);
    if (cuda_runtime.cudaEventSynchronize(own->end) != cudaSuccess ||
        cuda_runtime.cudaEventElapsedTime(&milliseconds, own->begin, own->end) != cudaSuccess)
        return -1;
    return milliseconds / (float)calls;
}

/*
 * Times an algorithm after an untimed call. `least` is the best time so far, negative if there is
 * none.
 */
static float time_algorithm(lt_state *own, const cublasLtMatmulAlgo_t *algorithm, float least) {
    if (multiply(own, algorithm) != CUBLAS_STATUS_SUCCESS)
        return -1;
    const float first = time_calls(own, algorithm, FIRST_CALLS);
    if (first < 0 || (least >= 0 && first > far_behind * least))
        return -1;
    return time_calls(own, algorithm, TRIAL_CALLS);
}

static worker_answer choose(lt_state *own, worker_text *reply) {
    cublasLtMatmulHeuristicResult_t found[MAX_ALGORITHMS];
    int count = 0, best = -1;
    float least = -1;
    const cublasStatus_t status = ask(own, found, &count);
    for (int i = 0; status == CUBLAS_STATUS_SUCCESS && i < count; i++) {
        const float time = found[i].state == CUBLAS_STATUS_SUCCESS
                               ? time_algorithm(own, &found[i].algo, least)
                               : -1;
        if (time >= 0 && (best < 0 || time < least)) {
            best = i;
            least = time;
        }
    }
    if (best < 0) {
        worker_text_set(reply, "cuBLASLt has no algorithm for %s in this layout (%s)",
                        gemm_types_name(own->gemm.item.types), lt.cublasLtGetStatusString(status));
        return WORKER_SKIP;
    }
    own->algorithm = found[best].algo;
    worker_text variant = {.length = 0};
    worker_text_set(&variant, "heuristic %d of %d", best + 1, count);
    worker_field_add(reply, "variant", variant.text);
    return WORKER_OK;
}

/* ---- the worker ------------------------------------------------------------------------------ */

static worker_answer describe(void *state, const char *request, worker_text *reply) {
    lt_state *const own = state;
    worker_answer answer = cuda_gemm_describe(&own->gemm, request, reply);
    if (answer == WORKER_OK)
        answer = open_handle(own, reply);
    if (answer != WORKER_OK)
        return answer;
    const cuda_gemm_shape shape = cuda_gemm_shape_of(&own->gemm.item);
    const cublasStatus_t status = describe_operation(own, &shape);
    if (status != CUBLAS_STATUS_SUCCESS)
        return PEER_ANSWER(reply, WORKER_FAIL, "cuBLASLt layouts: %s",
                           lt.cublasLtGetStatusString(status));
    return choose(own, reply);
}

static worker_answer enqueue(void *state, worker_text *reply) {
    lt_state *const own = state;
    const cublasStatus_t status = multiply(own, &own->algorithm);
    return status == CUBLAS_STATUS_SUCCESS ? WORKER_OK
                                           : PEER_ANSWER(reply, WORKER_FAIL, "cublasLtMatmul: %s",
                                                         lt.cublasLtGetStatusString(status));
}

static void release_layout(cublasLtMatrixLayout_t *layout) {
    if (*layout != NULL)
        lt.cublasLtMatrixLayoutDestroy(*layout);
    *layout = NULL;
}

static void release(void *state) {
    lt_state *const own = state;
    release_layout(&own->left);
    release_layout(&own->right);
    release_layout(&own->output);
    if (own->operation != NULL)
        lt.cublasLtMatmulDescDestroy(own->operation);
    own->operation = NULL;
    cuda_gemm_release(&own->gemm);
}

int main(void) {
    static const char *const names[] = {CUBLASLT_FUNCTIONS(TOOLKIT_NAME) NULL};
    static const toolkit_library library = {"cublasLt", "TANDEM_CUBLASLT_LIBRARY", CUBLAS_VER_MAJOR,
                                            names};
    static const worker_implementation implementation = {
        .name = "cublaslt",
        .identify = identify,
        .describe = describe,
        .enqueue = enqueue,
        .wait = cuda_gemm_wait,
        .output_bytes = cuda_gemm_output_bytes,
        .output = cuda_gemm_output,
        .release = release,
    };
    lt_state state = {.handle = NULL};
    cuda_gemm_open(&state.gemm, &library, &lt);
    const int code = worker_serve(&implementation, &state);
    if (state.handle != NULL)
        lt.cublasLtDestroy(state.handle);
    return code;
}
