/*
 * The worker of CLBlast: sgemm on the OpenCL device whose name and driver version the request
 * gives, or on the first device of all when it names none.
 */
#define CL_TARGET_OPENCL_VERSION 120

#include <CL/cl.h>
#include <clblast_c.h>
#include <stdlib.h>
#include <string.h>

#include "bench/cases/gemm_case.h"
#include "bench/protocol/worker_serve.h"

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

static worker_answer refuse(worker_text *reply, const char *what, int code) {
    worker_text_set(reply, "%s: code %d", what, code);
    return WORKER_FAIL;
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

/* The device stays the same for the life of the worker: the first request decides. */
static worker_answer open_device(clblast_state *state, const char *request, worker_text *reply) {
    char name[MAX_NAME];
    char driver[MAX_NAME];
    cl_int code = CL_SUCCESS;
    if (state->queue != NULL)
        return WORKER_OK;
    worker_field(request, "device", name, sizeof name);
    worker_field(request, "driver", driver, sizeof driver);
    state->device = find_device(name, driver);
    if (state->device == NULL) {
        worker_text_set(reply, "no OpenCL device '%s'", name);
        return WORKER_SKIP;
    }
    state->context = clCreateContext(NULL, 1, &state->device, NULL, NULL, &code);
    if (code != CL_SUCCESS)
        return refuse(reply, "clCreateContext", code);
    state->queue = clCreateCommandQueue(state->context, state->device, 0, &code);
    return code == CL_SUCCESS ? WORKER_OK : refuse(reply, "clCreateCommandQueue", code);
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

/* Not NaN as elsewhere: CLBlast's gemv multiplies what is there by beta, which is 0. */
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
    if (gemm_case_read(request, &own->item) != 0) {
        worker_text_set(reply, "the case cannot be read");
        return WORKER_FAIL;
    }
    if (own->item.types != GEMM_F32) {
        worker_text_set(reply, "CLBlast has no %s with sums in f32",
                        gemm_types_name(own->item.types));
        return WORKER_SKIP;
    }
    if (own->item.prepacked) {
        worker_text_set(reply, "CLBlast packs in every call");
        return WORKER_SKIP;
    }
    if (gemm_case_copies(&own->item) > 1) {
        worker_text_set(reply, "CLBlast is measured with one B");
        return WORKER_SKIP;
    }
    const worker_answer answer = open_device(own, request, reply);
    if (answer != WORKER_OK)
        return answer;
    own->a = create_operand(own, OP_GEMM_A);
    own->b = create_operand(own, OP_GEMM_B);
    own->d = create_output(own);
    if (own->a != NULL && own->b != NULL && own->d != NULL)
        return WORKER_OK;
    worker_text_set(reply, "out of memory");
    return WORKER_FAIL;
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

/* One row of A, of one matrix. */
static CLBlastStatusCode run_gemv(clblast_state *own) {
    const gemm_case *const item = &own->item;
    const size_t rows = (size_t)(item->transpose_b ? item->n : item->k);
    const size_t columns = (size_t)(item->transpose_b ? item->k : item->n);
    return CLBlastSgemv(
        CLBlastLayoutRowMajor, item->transpose_b ? CLBlastTransposeNo : CLBlastTransposeYes, rows,
        columns, 1.0f, own->b, 0, columns, own->a, 0, 1, 0.0f, own->d, 0, 1, &own->queue, NULL);
}

static int is_gemv(const gemm_case *item) {
    return item->m == 1 && gemm_case_batch(item) == 1;
}

static worker_answer enqueue(void *state, worker_text *reply) {
    clblast_state *const own = state;
    const CLBlastStatusCode code = is_gemv(&own->item) ? run_gemv(own) : run_gemm(own);
    return code == CLBlastSuccess ? WORKER_OK : refuse(reply, "CLBlast", (int)code);
}

static worker_answer wait_for_queue(void *state, worker_text *reply) {
    const clblast_state *const own = state;
    const cl_int code = clFinish(own->queue);
    return code == CL_SUCCESS ? WORKER_OK : refuse(reply, "clFinish", code);
}

static size_t output_bytes(void *state) {
    const clblast_state *const own = state;
    return own->d == NULL ? 0 : gemm_case_bytes(&own->item, OP_GEMM_D);
}

static worker_answer output(void *state, void *bytes, worker_text *reply) {
    clblast_state *const own = state;
    const cl_int code = clEnqueueReadBuffer(own->queue, own->d, CL_TRUE, 0, output_bytes(own),
                                            bytes, 0, NULL, NULL);
    return code == CL_SUCCESS ? WORKER_OK : refuse(reply, "clEnqueueReadBuffer", code);
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
