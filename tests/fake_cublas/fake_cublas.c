/*
 * This file fakes cuBLAS, cuBLASLt and the parts of the CUDA runtime that their workers need, in
 * host memory. The workers open it so that they run without a GPU. It has one device, named by
 * FAKE_CUDA_NAME.
 *
 * The heuristic of cuBLASLt returns five algorithms: one is unsupported, one is slow, one fails,
 * one is fast, and the last is slow again. The slow ones leave D unchanged, which reveals a caller
 * that does not pick the fastest. The file FAKE_CUBLAS_LOG receives two counts. One is the number
 * of different weights that were multiplied since the last heuristic query. The other is the number
 * of calls of the last algorithm.
 */
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quant/number_formats.h"

enum {
    ALGORITHMS = 5,
    UNSUPPORTED = 0,
    SLOW = 1,
    FAILING = 2,
    SLOW_AGAIN = 4,
    ALIGNMENT = 256,
    MAX_ADDRESSES = 64
};

/* ---- the runtime ---- */

static char stream_place, handle_place;
static float events[2], milliseconds;
static int event_count, calls_of_last;

const char *cudaGetErrorString(cudaError_t error) {
    return error == cudaSuccess ? "no error" : "a fault of the stand-in";
}

cudaError_t cudaGetDeviceCount(int *count) {
    *count = 1;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device) {
    const char *const name = getenv("FAKE_CUDA_NAME");
    memset(properties, 0, sizeof *properties);
    snprintf(properties->name, sizeof properties->name, "%s", name != NULL ? name : "");
    return device == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t cudaSetDevice(int device) {
    return device == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags) {
    (void)flags;
    *stream = (cudaStream_t)(void *)&stream_place;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    return (void *)stream == (void *)&stream_place ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaMalloc(void **memory, size_t bytes) {
    *memory = aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT) / ALIGNMENT * ALIGNMENT);
    return *memory != NULL ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaFree(void *memory) {
    free(memory);
    return cudaSuccess;
}

cudaError_t cudaMemcpy(void *target, const void *source, size_t bytes, enum cudaMemcpyKind kind) {
    (void)kind;
    memcpy(target, source, bytes);
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event) {
    *event = (cudaEvent_t)(void *)&events[event_count++ % 2];
    return cudaSuccess;
}

/* Each event stores the simulated milliseconds of all calls before it. */
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    *(float *)(void *)event = milliseconds;
    return cudaStreamSynchronize(stream);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    (void)event;
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *between, cudaEvent_t begin, cudaEvent_t end) {
    *between = *(float *)(void *)end - *(float *)(void *)begin;
    return cudaSuccess;
}

/* ---- GEMM, column by column ---- */

typedef struct matrix {
    cudaDataType_t type;
    int transposed;
    int64_t rows, columns, pitch; /* as stored */
    int64_t batch, step;
} matrix;

static tdm_dtype dtype_of(cudaDataType_t type) {
    switch (type) {
    case CUDA_R_32F:
        return TDM_F32;
    case CUDA_R_16F:
        return TDM_F16;
    case CUDA_R_16BF:
        return TDM_BF16;
    case CUDA_R_8I:
        return TDM_S8;
    case CUDA_R_32I:
        return TDM_S32;
    default:
        return TDM_DTYPE_NONE;
    }
}

/* Returns an element of op(matrix). */
static double entry(const matrix *m, const void *data, int64_t batch, int64_t row, int64_t column) {
    const int64_t at = m->transposed ? row * m->pitch + column : column * m->pitch + row;
    return tdm_number_get(dtype_of(m->type), data, (size_t)(batch * m->step + at));
}

static void multiply(const matrix *left, const void *a, const matrix *right, const void *b,
                     const matrix *output, void *d) {
    const int64_t depth = left->transposed ? left->rows : left->columns;
    for (int64_t place = 0; place < output->batch * output->rows * output->columns; place++) {
        const int64_t batch = place / (output->rows * output->columns);
        const int64_t row = place % output->rows, column = place / output->rows % output->columns;
        double sum = 0;
        for (int64_t i = 0; i < depth; i++)
            sum += entry(left, a, batch, row, i) * entry(right, b, batch, i, column);
        tdm_number_set(dtype_of(output->type), d,
                       (size_t)(batch * output->step + column * output->pitch + row), sum);
    }
}

/* Returns 1 if alpha is one and beta is zero in the dtype of the scales, and TF32 is off. */
static int scales_are_right(cudaDataType_t scale, const void *alpha, const void *beta) {
    const char *const tf32 = getenv("NVIDIA_TF32_OVERRIDE");
    const tdm_dtype dtype = dtype_of(scale);
    return tf32 != NULL && strcmp(tf32, "0") == 0 && tdm_number_get(dtype, alpha, 0) == 1 &&
           tdm_number_get(dtype, beta, 0) == 0;
}

/* ---- the weights that were multiplied ---- */

static const void *addresses[MAX_ADDRESSES];
static int address_count;

static void note_address(const void *address) {
    for (int i = 0; i < address_count; i++)
        if (addresses[i] == address)
            return;
    if (address_count < MAX_ADDRESSES)
        addresses[address_count++] = address;
}

static void write_log(const char *library) {
    const char *const path = getenv("FAKE_CUBLAS_LOG");
    FILE *const file = path != NULL ? fopen(path, "a") : NULL;
    if (file == NULL)
        return;
    fprintf(file, "%s %d, %d calls of the last algorithm\n", library, address_count, calls_of_last);
    fclose(file);
}

/* ---- cuBLASLt ---- */

typedef struct description {
    cudaDataType_t scale;
    int left_transposed, right_transposed;
} description;

size_t cublasLtGetVersion(void) {
    return 990000;
}

const char *cublasLtGetStatusString(cublasStatus_t status) {
    return status == CUBLAS_STATUS_SUCCESS ? "success" : "a fault of the stand-in";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
    *handle = (cublasLtHandle_t)(void *)&handle_place;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
    (void)handle;
    write_log("cublaslt");
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t pitch) {
    matrix *const made = calloc(1, sizeof *made);
    *layout = (cublasLtMatrixLayout_t)(void *)made;
    if (made == NULL)
        return CUBLAS_STATUS_ALLOC_FAILED;
    *made = (matrix){type, 0, (int64_t)rows, (int64_t)columns, pitch, 1, 0};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
    free(layout);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void *value, size_t bytes) {
    matrix *const m = (matrix *)(void *)layout;
    if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT && bytes == sizeof(int32_t))
        m->batch = *(const int32_t *)value;
    else if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET && bytes == sizeof(int64_t))
        m->step = *(const int64_t *)value;
    else
        return CUBLAS_STATUS_INVALID_VALUE;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *operation, cublasComputeType_t sums,
                                        cudaDataType_t scale) {
    description *const made = calloc(1, sizeof *made);
    *operation = (cublasLtMatmulDesc_t)(void *)made;
    if (made == NULL)
        return CUBLAS_STATUS_ALLOC_FAILED;
    made->scale = scale;
    return (sums == CUBLAS_COMPUTE_32I) == (scale == CUDA_R_32I) ? CUBLAS_STATUS_SUCCESS
                                                                 : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation) {
    free(operation);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t bytes) {
    description *const own = (description *)(void *)operation;
    if (bytes != sizeof(cublasOperation_t))
        return CUBLAS_STATUS_INVALID_VALUE;
    const int transposed = *(const cublasOperation_t *)value == CUBLAS_OP_T;
    if (attribute == CUBLASLT_MATMUL_DESC_TRANSA)
        own->left_transposed = transposed;
    else if (attribute == CUBLASLT_MATMUL_DESC_TRANSB)
        own->right_transposed = transposed;
    else
        return CUBLAS_STATUS_INVALID_VALUE;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference) {
    size_t *const bytes = calloc(1, sizeof *bytes);
    *preference = (cublasLtMatmulPreference_t)(void *)bytes;
    return bytes != NULL ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
    free(preference);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void *value, size_t bytes) {
    size_t *const own = (size_t *)(void *)preference;
    if (attribute != CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES || bytes != sizeof *own)
        return CUBLAS_STATUS_INVALID_VALUE;
    *own = *(const size_t *)value;
    return CUBLAS_STATUS_SUCCESS;
}

/* Algorithms for current GPUs use 32 MiB of workspace. */
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle,
                                              cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t left,
                                              cublasLtMatrixLayout_t right,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int most,
                                              cublasLtMatmulHeuristicResult_t found[], int *count) {
    const size_t workspace = *(const size_t *)(const void *)preference;
    (void)handle;
    (void)operation;
    (void)left;
    (void)right;
    *count = 0;
    if (c != d || workspace < (size_t)32 << 20 || most < ALGORITHMS)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    address_count = 0;
    for (*count = 0; *count < ALGORITHMS; ++*count) {
        memset(&found[*count], 0, sizeof found[*count]);
        found[*count].algo.data[0] = (uint64_t)*count;
        found[*count].state =
            *count == UNSUPPORTED ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
    }
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                              const void *alpha, const void *a, cublasLtMatrixLayout_t left,
                              const void *b, cublasLtMatrixLayout_t right, const void *beta,
                              const void *c, cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t output, const cublasLtMatmulAlgo_t *algorithm,
                              void *workspace, size_t workspace_bytes, cudaStream_t stream) {
    const description *const own = (const description *)(const void *)operation;
    matrix turned_left = *(const matrix *)(const void *)left;
    matrix turned_right = *(const matrix *)(const void *)right;
    (void)handle;
    if (algorithm->data[0] == UNSUPPORTED || algorithm->data[0] == FAILING || c != d ||
        c_layout != output || workspace == NULL || workspace_bytes == 0 ||
        cudaStreamSynchronize(stream) != cudaSuccess || !scales_are_right(own->scale, alpha, beta))
        return CUBLAS_STATUS_INTERNAL_ERROR;
    const int is_slow = algorithm->data[0] == SLOW || algorithm->data[0] == SLOW_AGAIN;
    milliseconds += is_slow ? 5 : 1;
    calls_of_last += algorithm->data[0] == SLOW_AGAIN;
    note_address(a);
    turned_left.transposed = own->left_transposed;
    turned_right.transposed = own->right_transposed;
    if (!is_slow)
        multiply(&turned_left, a, &turned_right, b, (const matrix *)(const void *)output, d);
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- cuBLAS ---- */

cublasStatus_t cublasGetProperty(libraryPropertyType type, int *value) {
    *value = type == MAJOR_VERSION ? 99 : 0;
    return CUBLAS_STATUS_SUCCESS;
}

const char *cublasGetStatusString(cublasStatus_t status) {
    return cublasLtGetStatusString(status);
}

cublasStatus_t cublasCreate_v2(cublasHandle_t *handle) {
    *handle = (cublasHandle_t)(void *)&handle_place;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
    (void)handle;
    write_log("cublas");
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
    (void)handle;
    return cudaStreamSynchronize(stream) == cudaSuccess ? CUBLAS_STATUS_SUCCESS
                                                        : CUBLAS_STATUS_INVALID_VALUE;
}

/* Describes a matrix as stored, from the rows and columns of op(matrix). */
static matrix stored(cudaDataType type, cublasOperation_t way, int rows, int columns, int pitch,
                     int batch, long long step) {
    const int transposed = way == CUBLAS_OP_T;
    return (matrix){
        type,  transposed, transposed ? columns : rows, transposed ? rows : columns, pitch,
        batch, step};
}

cublasStatus_t cublasGemmStridedBatchedEx(
    cublasHandle_t handle, cublasOperation_t left_way, cublasOperation_t right_way, int rows,
    int columns, int depth, const void *alpha, const void *a, cudaDataType a_type, int a_pitch,
    long long a_step, const void *b, cudaDataType b_type, int b_pitch, long long b_step,
    const void *beta, void *d, cudaDataType d_type, int d_pitch, long long d_step, int batch,
    cublasComputeType_t sums, cublasGemmAlgo_t algorithm) {
    const matrix left = stored(a_type, left_way, rows, depth, a_pitch, batch, a_step);
    const matrix right = stored(b_type, right_way, depth, columns, b_pitch, batch, b_step);
    const matrix output = stored(d_type, CUBLAS_OP_N, rows, columns, d_pitch, batch, d_step);
    const cudaDataType scale = sums == CUBLAS_COMPUTE_32I ? CUDA_R_32I : CUDA_R_32F;
    (void)handle;
    (void)algorithm;
    if (!scales_are_right(scale, alpha, beta))
        return CUBLAS_STATUS_INTERNAL_ERROR;
    note_address(a);
    multiply(&left, a, &right, b, &output, d);
    return CUBLAS_STATUS_SUCCESS;
}
