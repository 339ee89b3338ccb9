#include "bench/peers/peer_cuda_gemm.h"

#include <stdlib.h>
#include <string.h>

cuda_runtime_functions cuda_runtime;

enum {
    MAX_NAME = 256
};

static worker_answer answer_of(worker_text *reply, const char *what, cudaError_t code) {
    return code == cudaSuccess ? WORKER_OK
                               : PEER_ANSWER(reply, WORKER_FAIL, "%s: %s", what,
                                             cuda_runtime.cudaGetErrorString(code));
}

/* ---- the libraries --------------------------------------------------------------------------- */

void cuda_gemm_open(cuda_gemm *gemm, const toolkit_library *library, void *functions) {
    static const char *const names[] = {CUDA_RUNTIME_FUNCTIONS(TOOLKIT_NAME) NULL};
    static const toolkit_library runtime = {"cudart", "TANDEM_CUDART_LIBRARY",
                                            CUDART_VERSION / 1000, names};
    setenv("NVIDIA_TF32_OVERRIDE", "0", 1);
    gemm->missing = toolkit_library_open(library, functions);
    if (gemm->missing == NULL)
        gemm->missing = toolkit_library_open(&runtime, &cuda_runtime);
}

/* ---- the GPU --------------------------------------------------------------------------------- */

/*
 * A runtime of another version than the headers writes a structure of another length. The name
 * comes first in all versions.
 */
typedef union device_properties {
    struct cudaDeviceProp of_headers;
    char bytes[4 * sizeof(struct cudaDeviceProp)];
} device_properties;

static int find_device(const char *name, int count) {
    for (int i = 0; i < count; i++) {
        device_properties properties;
        if (cuda_runtime.cudaGetDeviceProperties(&properties.of_headers, i) == cudaSuccess &&
            (name[0] == '\0' || strcmp(properties.of_headers.name, name) == 0))
            return i;
    }
    return -1;
}

/* Opens the GPU of the first request, which stays the same for the life of the worker. */
static worker_answer open_device(cuda_gemm *gemm, const char *request, worker_text *reply) {
    char name[MAX_NAME];
    int count = 0;
    if (gemm->stream != NULL)
        return WORKER_OK;
    worker_field(request, "device", name, sizeof name);
    const cudaError_t code = cuda_runtime.cudaGetDeviceCount(&count);
    if (code != cudaSuccess || count == 0)
        return PEER_ANSWER(reply, WORKER_SKIP, "no CUDA device: %s",
                           cuda_runtime.cudaGetErrorString(code));
    const int device = find_device(name, count);
    if (device < 0)
        return PEER_ANSWER(reply, WORKER_SKIP, "no CUDA device '%s'", name);
    cudaError_t made = cuda_runtime.cudaSetDevice(device);
    if (made == cudaSuccess)
        made = cuda_runtime.cudaStreamCreateWithFlags(&gemm->stream, cudaStreamNonBlocking);
    return answer_of(reply, "opening the GPU", made);
}

/* ---- the case -------------------------------------------------------------------------------- */

static const struct {
    gemm_types types;
    cudaDataType_t input, output, scale;
    cublasComputeType_t compute;
} products[] = {
    // Sums are f32, or s32 for s8. NVIDIA_TF32_OVERRIDE keeps f32 inputs from becoming TF32.
    {GEMM_F32, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F},
    {GEMM_F16, CUDA_R_16F, CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F},
    {GEMM_BF16, CUDA_R_16BF, CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F},
    {GEMM_S8, CUDA_R_8I, CUDA_R_32I, CUDA_R_32I, CUBLAS_COMPUTE_32I},
};

static int find_product(gemm_types types) {
    for (int i = 0; i < (int)(sizeof products / sizeof products[0]); i++)
        if (products[i].types == types)
            return i;
    return -1;
}

cuda_gemm_shape cuda_gemm_shape_of(const gemm_case *item) {
    const int m = (int)item->m, n = (int)item->n, k = (int)item->k;
    const int row = find_product(item->types);
    return (cuda_gemm_shape){
        .rows = n,
        .columns = m,
        .depth = k,
        .batch = (int)gemm_case_batch(item),
        .left_way = item->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
        .right_way = item->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N,
        .left_pitch = item->transpose_b ? k : n,
        .right_pitch = item->transpose_a ? m : k,
        .output_pitch = n,
        .left_step = (long long)k * n,
        .right_step = (long long)m * k,
        .output_step = (long long)m * n,
        .input = products[row].input,
        .output = products[row].output,
        .scale = products[row].scale,
        .compute = products[row].compute,
    };
}

cuda_gemm_scale cuda_gemm_number(const cuda_gemm_shape *shape, int value) {
    return shape->scale == CUDA_R_32I ? (cuda_gemm_scale){.whole = value}
                                      : (cuda_gemm_scale){.real = (float)value};
}

static worker_answer read_case(cuda_gemm *gemm, const char *request, worker_text *reply) {
    const worker_answer answer = peer_read_gemm(request, &gemm->item, reply);
    if (answer != WORKER_OK)
        return answer;
    if (find_product(gemm->item.types) < 0)
        return PEER_ANSWER(reply, WORKER_SKIP, "there is no GEMM in %s",
                           gemm_types_name(gemm->item.types));
    return gemm->item.prepacked
               ? PEER_ANSWER(reply, WORKER_SKIP, "B is not packed in advance, see --packing inside")
               : WORKER_OK;
}

/* Fills an operand and copies it `count` times to the GPU, each time to a multiple of 256 bytes. */
static cudaError_t bring(const gemm_case *item, op_gemm_operand operand, int count, size_t *step,
                         char **memory) {
    const size_t bytes = gemm_case_bytes(item, operand);
    *step = (bytes + 255) / 256 * 256;
    void *const data = gemm_case_create(item, operand);
    if (data == NULL)
        return cudaErrorMemoryAllocation;
    cudaError_t code = cuda_runtime.cudaMalloc((void **)memory, (size_t)count * *step);
    for (int i = 0; i < count && code == cudaSuccess; i++)
        code = cuda_runtime.cudaMemcpy(*memory + (size_t)i * *step, data, bytes,
                                       cudaMemcpyHostToDevice);
    free(data);
    return code;
}

worker_answer cuda_gemm_describe(cuda_gemm *gemm, const char *request, worker_text *reply) {
    size_t step;
    if (gemm->missing != NULL)
        return PEER_ANSWER(reply, WORKER_SKIP, "%s", gemm->missing);
    worker_answer answer = read_case(gemm, request, reply);
    if (answer == WORKER_OK)
        answer = open_device(gemm, request, reply);
    if (answer != WORKER_OK)
        return answer;
    gemm->turn = 0;
    cudaError_t code = bring(&gemm->item, OP_GEMM_A, 1, &step, &gemm->a);
    if (code == cudaSuccess)
        code = bring(&gemm->item, OP_GEMM_D, 1, &step, &gemm->d);
    if (code == cudaSuccess)
        code = bring(&gemm->item, OP_GEMM_B, gemm_case_copies(&gemm->item), &gemm->copy_bytes,
                     &gemm->b);
    return answer_of(reply, "operands", code);
}

char *cuda_gemm_next(cuda_gemm *gemm) {
    char *const b = gemm->b + (size_t)gemm->turn * gemm->copy_bytes;
    gemm->turn = (gemm->turn + 1) % gemm_case_copies(&gemm->item);
    return b;
}

worker_answer cuda_gemm_wait(void *state, worker_text *reply) {
    return answer_of(reply, "cudaStreamSynchronize",
                     cuda_runtime.cudaStreamSynchronize(((cuda_gemm *)state)->stream));
}

size_t cuda_gemm_output_bytes(void *state) {
    const cuda_gemm *const gemm = state;
    return gemm->d == NULL ? 0 : gemm_case_bytes(&gemm->item, OP_GEMM_D);
}

worker_answer cuda_gemm_output(void *state, void *bytes, worker_text *reply) {
    return answer_of(reply, "cudaMemcpy",
                     cuda_runtime.cudaMemcpy(bytes, ((cuda_gemm *)state)->d,
                                             cuda_gemm_output_bytes(state),
                                             cudaMemcpyDeviceToHost));
}

void cuda_gemm_release(void *state) {
    cuda_gemm *const gemm = state;
    if (gemm->missing != NULL)
        return;
    cuda_runtime.cudaFree(gemm->a);
    cuda_runtime.cudaFree(gemm->b);
    cuda_runtime.cudaFree(gemm->d);
    gemm->a = gemm->b = gemm->d = NULL;
}
