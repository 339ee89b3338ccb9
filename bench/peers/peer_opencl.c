/*
 * The worker of bare OpenCL, for the launch suite. It enqueues the kernel of probe_launch.cl with
 * clEnqueueNDRangeKernel alone, on the queue of a Tandem stream, so that device and queue are the
 * same.
 */
#define CL_TARGET_OPENCL_VERSION 120

#include <CL/cl.h>
#include <stdlib.h>
#include <string.h>

#include <tandem/opencl.h>

#include "api/base/base.h"
#include "bench/cases/probe_case.h"
#include "bench/workers/worker_tandem.h"

typedef struct opencl_state {
    worker_device device; /* first, for worker_tandem.h */
    probe_case item;
    cl_command_queue queue; /* the stream's queue */
    cl_program program;
    cl_kernel kernel;
    cl_mem output;
} opencl_state;

static const char text[] = "__kernel void launch(__global int *y, long y_offset, int value) {\n"
                           "    if (get_global_id(0) == 0)\n"
                           "        y[y_offset] = value;\n"
                           "}\n";

static int read_case(void *state, const char *request) {
    return probe_case_read(request, &((opencl_state *)state)->item);
}

/*
 * Returns the reason not to run, or NULL. This program is linked with the ICD loader. If another
 * driver library is in the process, the two may deadlock.
 */
static const char *refusal(void) {
    return getenv("TANDEM_OPENCL_LIBRARY") == NULL
               ? NULL
               : "TANDEM_OPENCL_LIBRARY is set, but this peer uses the ICD loader";
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
}

static cl_int build(opencl_state *own, cl_context context, cl_device_id device) {
    const char *const texts[] = {text};
    const cl_long offset = 0;
    const cl_int value = probe_launch_value(&own->item);
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

static tdm_status status_of(const char *what, cl_int code) {
    return code == CL_SUCCESS ? TDM_OK : tdm_fail(TDM_INTERNAL, "%s: code %d", what, code);
}

static tdm_status prepare(void *state, const char *request, worker_text *reply) {
    opencl_state *const own = state;
    cl_device_id device = NULL;
    cl_context context = NULL;
    (void)request;
    TDM_TRY(tdm_opencl_handles_of_device(own->device.device, NULL, &device, &context));
    TDM_TRY(tdm_opencl_queue_of_stream(own->device.stream, &own->queue));
    worker_field_add(reply, "variant", "clEnqueueNDRangeKernel");
    return status_of("OpenCL", build(own, context, device));
}

static tdm_status enqueue(void *state) {
    const opencl_state *const own = state;
    static const size_t one = 1;
    return status_of(
        "clEnqueueNDRangeKernel",
        clEnqueueNDRangeKernel(own->queue, own->kernel, 1, NULL, &one, &one, 0, NULL, NULL));
}

static tdm_status wait_for_queue(void *state) {
    return status_of("clFinish", clFinish(((opencl_state *)state)->queue));
}

static size_t output_bytes(const void *state) {
    (void)state;
    return (PROBE_HEAD_WORDS + 1) * sizeof(cl_int);
}

/* Stores the output in the form that probe_case_check expects. */
static tdm_status output(void *state, void *bytes) {
    const opencl_state *const own = state;
    cl_int words[PROBE_HEAD_WORDS + 1] = {1, 0};
    const cl_int code = clEnqueueReadBuffer(own->queue, own->output, CL_TRUE, 0, sizeof words[0],
                                            &words[PROBE_HEAD_WORDS], 0, NULL, NULL);
    memcpy(bytes, words, sizeof words);
    return status_of("clEnqueueReadBuffer", code);
}

int main(void) {
    static const tandem_worker opencl = {
        "opencl",       sizeof(opencl_state), read_case, prepare, enqueue,
        wait_for_queue, output_bytes,         output,    release, refusal};
    return tandem_worker_serve(&opencl);
}
