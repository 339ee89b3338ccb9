/*
 * The worker of bare OpenCL, for the launch suite: the kernel of probe_launch.cl, enqueued with nothing
 * but clEnqueueNDRangeKernel, on the queue of a stream of Tandem, so that device and queue are the same.
 */
#define CL_TARGET_OPENCL_VERSION 120

#include <CL/cl.h>
#include <stdlib.h>
#include <string.h>

#include <tandem/opencl.h>

#include "bench/cases/launch_case.h"
#include "bench/workers/worker_tandem.h"

typedef struct opencl_state {
    worker_device device; /* first, for worker_tandem.h */
    launch_case item;
    cl_command_queue queue; /* the stream's */
    cl_program program;
    cl_kernel kernel;
    cl_mem output;
} opencl_state;

static const char text[] = "__kernel void launch(__global int *y, long y_offset, int value) {\n"
                           "    if (get_global_id(0) == 0)\n"
                           "        y[y_offset] = value;\n"
                           "}\n";

static worker_answer answer_of(worker_text *reply, const char *what, cl_int code) {
    if (code == CL_SUCCESS)
        return WORKER_OK;
    worker_text_set(reply, "%s: code %d", what, code);
    return WORKER_FAIL;
}

static void release(void *state) {
    opencl_state *const own = state;
    if (own->queue != NULL)
        clFinish(own->queue);
    if (own->kernel != NULL)
        clReleaseKernel(own->kernel);
    if (own->program != NULL)
        clReleaseProgram(own->program);
    if (own->output != NULL)
        clReleaseMemObject(own->output);
    *own = (opencl_state){.device = own->device};
}

static cl_int build(opencl_state *own, cl_context context, cl_device_id device) {
    const char *const texts[] = {text};
    const cl_long offset = 0;
    const cl_int value = probe_launch_value(&own->item.probe);
    cl_int code = CL_SUCCESS;
    own->program = clCreateProgramWithSource(context, 1, (const char **)texts, NULL, &code);
    if (code == CL_SUCCESS)
        code = clBuildProgram(own->program, 1, &device, "-w", NULL, NULL);
    if (code == CL_SUCCESS)
        own->kernel = clCreateKernel(own->program, "launch", &code);
    if (code == CL_SUCCESS)
        own->output = clCreateBuffer(context, CL_MEM_READ_WRITE, sizeof value, NULL, &code);
    if (code == CL_SUCCESS)
        code = clSetKernelArg(own->kernel, 0, sizeof own->output, (const void *)&own->output);
    if (code == CL_SUCCESS)
        code = clSetKernelArg(own->kernel, 1, sizeof offset, &offset);
    return code == CL_SUCCESS ? clSetKernelArg(own->kernel, 2, sizeof value, &value) : code;
}

static worker_answer describe(void *state, const char *request, worker_text *reply) {
    opencl_state *const own = state;
    cl_device_id device = NULL;
    cl_context context = NULL;
    if (getenv("TANDEM_OPENCL_LIBRARY") != NULL) {
        worker_text_set(reply, "TANDEM_OPENCL_LIBRARY names a driver that is not the loader's");
        return WORKER_SKIP;
    }
    if (launch_case_read(request, &own->item) != 0 || own->item.way != LAUNCH_KERNEL) {
        worker_text_set(reply, "bare OpenCL launches a kernel, nothing else");
        return WORKER_SKIP;
    }
    const worker_answer answer = worker_device_open(&own->device, request, reply);
    if (answer != WORKER_OK)
        return answer;
    tdm_status status = tdm_opencl_handles_of_device(own->device.device, NULL, &device, &context);
    if (status == TDM_OK)
        status = tdm_opencl_queue_of_stream(own->device.stream, &own->queue);
    if (status != TDM_OK)
        return worker_library_answer("device", status, reply);
    worker_field_add(reply, "variant", "clEnqueueNDRangeKernel");
    return answer_of(reply, "OpenCL", build(own, context, device));
}

static worker_answer enqueue(void *state, worker_text *reply) {
    const opencl_state *const own = state;
    static const size_t one = 1;
    return answer_of(
        reply, "clEnqueueNDRangeKernel",
        clEnqueueNDRangeKernel(own->queue, own->kernel, 1, NULL, &one, &one, 0, NULL, NULL));
}

static worker_answer wait_for_queue(void *state, worker_text *reply) {
    return answer_of(reply, "clFinish", clFinish(((opencl_state *)state)->queue));
}

static size_t output_bytes(void *state) {
    const opencl_state *const own = state;
    return own->output == NULL ? 0 : (PROBE_HEAD_WORDS + 1) * sizeof(cl_int);
}

/* As probe_case_check wants it. */
static worker_answer output(void *state, void *bytes, worker_text *reply) {
    const opencl_state *const own = state;
    cl_int words[PROBE_HEAD_WORDS + 1] = {1, 0};
    const cl_int code = clEnqueueReadBuffer(own->queue, own->output, CL_TRUE, 0, sizeof words[0],
                                            &words[PROBE_HEAD_WORDS], 0, NULL, NULL);
    memcpy(bytes, words, sizeof words);
    return answer_of(reply, "clEnqueueReadBuffer", code);
}

int main(void) {
    static const worker_implementation opencl = {
        .name = "opencl",
        .describe = describe,
        .enqueue = enqueue,
        .wait = wait_for_queue,
        .output_bytes = output_bytes,
        .output = output,
        .release = release,
    };
    opencl_state state = {.queue = NULL};
    return worker_device_serve(&opencl, &state);
}
