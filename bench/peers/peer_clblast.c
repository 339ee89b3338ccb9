/*
 * The worker of CLBlast: sgemm on the OpenCL device whose name and driver version the request
 * gives. Without a name it uses the first device.
 */
#define CL_TARGET_OPENCL_VERSION 120

#include <CL/cl.h>
#include <clblast_c.h>
#include <stdlib.h>
#include <string.h>

#include "bench/peers/host_gemm.h"

enum {
    MAX_PLATFORMS = 16,
    MAX_DEVICES = 64,
    MAX_NAME = 256
};

typedef struct clblast_state {
    cl_device_id device;
    cl_context context;
    cl_command_queue queue;
    gemm_case item;
    cl_mem a;
    cl_mem b;
    cl_mem d;
} clblast_state;

static worker_answer answer_of(worker_text *reply, const char *what, int code) {
    return code == 0 ? WORKER_OK : PEER_ANSWER(reply, WORKER_FAIL, "%s: code %d", what, code);
}

static int device_is(cl_device_id device, const char *name, const char *driver) {
    char found_name[MAX_NAME] = "";
    char found_driver[MAX_NAME] = "";
    clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof found_name - 1, found_name, NULL);
    clGetDeviceInfo(device, CL_DRIVER_VERSION, sizeof found_driver - 1, found_driver, NULL);
    return name[0] == '\0' || (strcmp(found_name, name) == 0 &&
                               (driver[0] == '\0' || strcmp(found_driver, driver) == 0));
}

static cl_device_id find_device(const char *name, const char *driver) {
    cl_platform_id platforms[MAX_PLATFORMS];
    cl_uint platform_count = 0;
    clGetPlatformIDs(MAX_PLATFORMS, platforms, &platform_count);
    for (cl_uint p = 0; p < platform_count && p < MAX_PLATFORMS; p++) {
        cl_device_id devices[MAX_DEVICES];
        cl_uint count = 0;
        if (clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, MAX_DEVICES, devices, &count) !=
            CL_SUCCESS)
            continue;
        for (cl_uint i = 0; i < count && i < MAX_DEVICES; i++) {
            if (device_is(devices[i], name, driver))
                return devices[i];
        }
    }
    return NULL;
}

/* Opens the device of the first request, which stays the same for the life of the worker. */
static worker_answer open_device(clblast_state *state, const char *request, worker_text *reply) {
    char name[MAX_NAME];
    char driver[MAX_NAME];
    cl_int code = CL_SUCCESS;
    if (state->queue != NULL)
        return WORKER_OK;
    worker_field(request, "device", name, sizeof name);
    worker_field(request, "driver", driver, sizeof driver);
    state->device = find_device(name, driver);
    if (state->device == NULL)
        return PEER_ANSWER(reply, WORKER_SKIP, "no OpenCL device '%s'", name);
    state->context = clCreateContext(NULL, 1, &state->device, NULL, NULL, &code);
    if (code == CL_SUCCESS)
        state->queue = clCreateCommandQueue(state->context, state->device, 0, &code);
    return answer_of(reply, "opening the device", code);
}

static cl_mem create_operand(const clblast_state *state, op_gemm_operand operand) {
    cl_int code = CL_SUCCESS;
    void *const data = gemm_case_create(&state->item, operand);
    if (data == NULL)
        return NULL;
    const cl_mem memory = clCreateBuffer(state->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                         gemm_case_bytes(&state->item, operand), data, &code);
    free(data);
    return code == CL_SUCCESS ? memory : NULL;
}

/*
 * The output is not filled with NaN as elsewhere, because CLBlast's gemv multiplies it by beta,
 * which is 0.
 */
static cl_mem create_output(const clblast_state *state) {
    static const cl_float poison = 12345;
    const size_t bytes = gemm_case_bytes(&state->item, OP_GEMM_D);
    cl_int code = CL_SUCCESS;
    const cl_mem memory = clCreateBuffer(state->context, CL_MEM_READ_WRITE, bytes, NULL, &code);
    if (code != CL_SUCCESS)
        return NULL;
    code =
        clEnqueueFillBuffer(state->queue, memory, &poison, sizeof poison, 0, bytes, 0, NULL, NULL);
    if (code == CL_SUCCESS)
        return memory;
    clReleaseMemObject(memory);
    return NULL;
}

static worker_answer describe(void *state, const char *request, worker_text *reply) {
    clblast_state *const own = state;
    worker_answer answer = peer_read_gemm(request, &own->item, reply);
    if (answer != WORKER_OK)
        return answer;
    if (own->item.types != GEMM_F32)
        return PEER_ANSWER(reply, WORKER_SKIP, "CLBlast has no %s with sums in f32",
                           gemm_types_name(own->item.types));
    if (own->item.prepacked)
        return PEER_ANSWER(reply, WORKER_SKIP, "CLBlast packs in every call, see --packing inside");
    if (gemm_case_copies(&own->item) > 1)
        return PEER_ANSWER(reply, WORKER_SKIP,
                           "CLBlast is measured only with one B, without --rotate");
    answer = open_device(own, request, reply);
    if (answer != WORKER_OK)
        return answer;
    own->a = create_operand(own, OP_GEMM_A);
    own->b = create_operand(own, OP_GEMM_B);
    own->d = create_output(own);
    return own->a != NULL && own->b != NULL && own->d != NULL
               ? WORKER_OK
               : PEER_ANSWER(reply, WORKER_FAIL, "out of memory");
}

static CLBlastStatusCode run_gemm(clblast_state *own) {
    const gemm_case *const item = &own->item;
    const CLBlastTranspose a_way = item->transpose_a ? CLBlastTransposeYes : CLBlastTransposeNo;
    const CLBlastTranspose b_way = item->transpose_b ? CLBlastTransposeYes : CLBlastTransposeNo;
    const size_t m = (size_t)item->m;
    const size_t n = (size_t)item->n;
    const size_t k = (size_t)item->k;
    const size_t batch = (size_t)gemm_case_batch(item);
    if (batch == 1)
        return CLBlastSgemm(CLBlastLayoutRowMajor, a_way, b_way, m, n, k, 1.0f, own->a, 0,
                            item->transpose_a ? m : k, own->b, 0, item->transpose_b ? k : n, 0.0f,
                            own->d, 0, n, &own->queue, NULL);
    return CLBlastSgemmStridedBatched(CLBlastLayoutRowMajor, a_way, b_way, m, n, k, 1.0f, own->a, 0,
                                      item->transpose_a ? m : k, m * k, own->b, 0,
                                      item->transpose_b ? k : n, k * n, 0.0f, own->d, 0, n, m * n,
                                      batch, &own->queue, NULL);
}

/* Runs a case in which A has one row and the batch has one matrix. */
static CLBlastStatusCode run_gemv(clblast_state *own) {
    const gemm_case *const item = &own->item;
    const size_t rows = (size_t)(item->transpose_b ? item->n : item->k);
    const size_t columns = (size_t)(item->transpose_b ? item->k : item->n);
    return CLBlastSgemv(
        CLBlastLayoutRowMajor, item->transpose_b ? CLBlastTransposeNo : CLBlastTransposeYes, rows,
        columns, 1.0f, own->b, 0, columns, own->a, 0, 1, 0.0f, own->d, 0, 1, &own->queue, NULL);
}

static worker_answer enqueue(void *state, worker_text *reply) {
    clblast_state *const own = state;
    const int is_gemv = own->item.m == 1 && gemm_case_batch(&own->item) == 1;
    return answer_of(reply, "CLBlast", (int)(is_gemv ? run_gemv(own) : run_gemm(own)));
}

static worker_answer wait_for_queue(void *state, worker_text *reply) {
    return answer_of(reply, "clFinish", clFinish(((clblast_state *)state)->queue));
}

static size_t output_bytes(void *state) {
    const clblast_state *const own = state;
    return own->d == NULL ? 0 : gemm_case_bytes(&own->item, OP_GEMM_D);
}

static worker_answer output(void *state, void *bytes, worker_text *reply) {
    clblast_state *const own = state;
    return answer_of(reply, "clEnqueueReadBuffer",
                     clEnqueueReadBuffer(own->queue, own->d, CL_TRUE, 0, output_bytes(own), bytes,
                                         0, NULL, NULL));
}

static void release_operand(cl_mem *memory) {
    if (*memory != NULL)
        clReleaseMemObject(*memory);
    *memory = NULL;
}

static void release(void *state) {
    clblast_state *const own = state;
    release_operand(&own->a);
    release_operand(&own->b);
    release_operand(&own->d);
}

int main(void) {
    static const worker_implementation clblast = {
        .name = "clblast",
        .describe = describe,
        .enqueue = enqueue,
        .wait = wait_for_queue,
        .output_bytes = output_bytes,
        .output = output,
        .release = release,
    };
    clblast_state state = {.queue = NULL};
    const int code = worker_serve(&clblast, &state);
    if (state.queue != NULL)
        clReleaseCommandQueue(state.queue);
    if (state.context != NULL)
        clReleaseContext(state.context);
    return code;
}
