/*
 * The workers of cuBLAS and cuBLASLt share this file: the GPU, the types, and the operands of the
 * current case.
 */
#ifndef TANDEM_BENCH_PEERS_PEER_CUDA_GEMM_H
#define TANDEM_BENCH_PEERS_PEER_CUDA_GEMM_H

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include "bench/peers/host_gemm.h"
#include "bench/workers/toolkit_library.h"

#define CUDA_RUNTIME_FUNCTIONS(F)                                                                  \
    F(cudaGetErrorString)                                                                          \
    F(cudaGetDeviceCount)                                                                          \
    F(cudaGetDeviceProperties)                                                                     \
    F(cudaSetDevice)                                                                               \
    F(cudaStreamCreateWithFlags)                                                                   \
    F(cudaStreamSynchronize)                                                                       \
    F(cudaMalloc)                                                                                  \
    F(cudaFree)                                                                                    \
    F(cudaMemcpy)                                                                                  \
    F(cudaEventCreate)                                                                             \
    F(cudaEventRecord)                                                                             \
    F(cudaEventSynchronize)                                                                        \
    F(cudaEventElapsedTime)

/* All members are NULL until cuda_gemm_open has succeeded. */
typedef struct cuda_runtime_functions {
    CUDA_RUNTIME_FUNCTIONS(TOOLKIT_MEMBER)
} cuda_runtime_functions;
extern cuda_runtime_functions cuda_runtime;

/* The first member of a worker's state. */
typedef struct cuda_gemm {
    gemm_case item;
    cudaStream_t stream; /* NULL until the first case */
    char *a, *b, *d;     /* on the GPU; B in as many copies as the case uses */
    size_t copy_bytes;   /* distance from one copy of B to the next */
    int turn;
    const char *missing; /* reason why the library cannot be called, or NULL */
} cuda_gemm;

/*
 * Both libraries are column-major, and a dense row-major D is the transpose of a column-major one.
 * So rows and columns change places, and so do A and B: `left` is B.
 */
typedef struct cuda_gemm_shape {
    int rows, columns, depth, batch;
    cublasOperation_t left_way, right_way;
    int left_pitch, right_pitch, output_pitch;
    long long left_step, right_step,
        output_step; /* elements from one matrix of the batch to the next */
    cudaDataType_t input, output, scale;
    cublasComputeType_t compute;
} cuda_gemm_shape;

/* A number in the type of the GEMM's scaling factors. */
typedef union cuda_gemm_scale {
    float real;
    int32_t whole;
} cuda_gemm_scale;

/*
 * Opens the CUDA runtime and the library of the worker. If one of them cannot be opened, `missing`
 * gives the reason.
 */
void cuda_gemm_open(cuda_gemm *gemm, const toolkit_library *library, void *functions);

/*
 * Reads the request, opens the GPU that it names (or the first one) at the first case, and copies
 * A, B and D to it. Returns WORKER_SKIP if there is no library or no such GPU, or if the libraries
 * have no such GEMM.
 */
worker_answer cuda_gemm_describe(cuda_gemm *gemm, const char *request, worker_text *reply);
cuda_gemm_shape cuda_gemm_shape_of(const gemm_case *item);
cuda_gemm_scale cuda_gemm_number(const cuda_gemm_shape *shape, int value);

/* Returns the copy of B for the next call. */
char *cuda_gemm_next(cuda_gemm *gemm);

/* Functions of worker_implementation. */
worker_answer cuda_gemm_wait(void *state, worker_text *reply);
size_t cuda_gemm_output_bytes(void *state);
worker_answer cuda_gemm_output(void *state, void *bytes, worker_text *reply);
void cuda_gemm_release(void *state);

#endif
