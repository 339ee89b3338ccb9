/*
 * Tests an OpenCL kernel of your own, on a machine without a GPU. Tandem finds the device and lends
 * memory with red zones around it. The kernel runs on the queue of a Tandem stream. The test
 * compares the results and then asks whether anything was written outside of the buffer.
 *
 *     own_kernel              the first OpenCL device
 *     own_kernel pocl         a device by a part of its name
 */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdio.h>
#include <tandem/opencl.h>
#include <tandem/tandem.h>

#define TRY(call)                                                                                  \
    if ((call) != TDM_OK) {                                                                        \
        fprintf(stderr, "own_kernel: %s\n", tdm_last_detail());                                    \
        return 1;                                                                                  \
    }
#define CL_TRY(call)                                                                               \
    if ((call) != CL_SUCCESS) {                                                                    \
        fprintf(stderr, "own_kernel: %s\n", #call);                                                \
        return 1;                                                                                  \
    }

enum {
    COUNT = 1000, /* no multiple of the group: the last group must not write past the end */
    GROUP = 64
};

/* The kernel under test. Without `if (i < count)` the red zone behind x is overwritten. */
static const char *const source =
    "__kernel void scale(__global float *x, float factor, int count) {\n"
    "    const int i = get_global_id(0);\n"
    "    if (i < count)\n"
    "        x[i] *= factor;\n"
    "}\n";

/* Runs the kernel on the buffer: nothing in here knows of a test. */
static int scale(tdm_device *device, tdm_stream *stream, tdm_buffer *buffer, cl_float factor) {
    cl_device_id device_id;
    cl_context context;
    cl_command_queue queue;
    cl_mem memory;
    cl_buffer_region region = {0, COUNT * sizeof(float)};
    const cl_int count = COUNT;
    const size_t group = GROUP, items = (COUNT + GROUP - 1) / GROUP * GROUP;
    cl_int error;
    TRY(tdm_opencl_handles_of_device(device, NULL, &device_id, &context));
    TRY(tdm_opencl_queue_of_stream(stream, &queue));
    TRY(tdm_opencl_memory_of_buffer(buffer, &memory, &region.origin));
    cl_mem x =
        clCreateSubBuffer(memory, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &error);
    CL_TRY(error);
    cl_program program =
        clCreateProgramWithSource(context, 1, (const char **)&source, NULL, &error);
    CL_TRY(error);
    CL_TRY(clBuildProgram(program, 1, &device_id, "", NULL, NULL));
    cl_kernel kernel = clCreateKernel(program, "scale", &error);
    CL_TRY(error);
    CL_TRY(clSetKernelArg(kernel, 0, sizeof x, &x));
    CL_TRY(clSetKernelArg(kernel, 1, sizeof factor, &factor));
    CL_TRY(clSetKernelArg(kernel, 2, sizeof count, &count));
    CL_TRY(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, &group, 0, NULL, NULL));
    TRY(tdm_stream_synchronize(stream));
    clReleaseKernel(kernel);
    clReleaseProgram(program);
    clReleaseMemObject(x);
    return 0;
}

int main(int argc, char **argv) {
    static float before[COUNT], after[COUNT];
    const tdm_context_options options = {.struct_size = sizeof options, .debug_pool = 1};
    tdm_context *context;
    tdm_device *device;
    tdm_stream *stream;
    tdm_buffer *buffer;
    uint64_t reports = 0;
    int index, wrong = 0;
    TRY(tdm_context_create(&options, &context));
    TRY(tdm_context_find_device(context, argc > 1 ? argv[1] : "opencl", &index));
    TRY(tdm_device_get(context, index, &device));
    TRY(tdm_stream_create(device, &stream));
    TRY(tdm_buffer_create(device, sizeof before, &buffer));
    for (int i = 0; i < COUNT; i++)
        before[i] = (float)i;
    TRY(tdm_buffer_write(stream, buffer, 0, before, sizeof before));
    if (scale(device, stream, buffer, 3.0f) != 0)
        return 1;
    TRY(tdm_buffer_read(stream, buffer, 0, after, sizeof after));
    TRY(tdm_stream_synchronize(stream));
    for (int i = 0; i < COUNT; i++)
        wrong += after[i] != 3.0f * (float)i; /* exact: small integers */
    TRY(tdm_device_check_memory(device, &reports));
    printf("%d wrong values, %d reports of writes outside of the buffer\n", wrong, (int)reports);
    tdm_buffer_destroy(buffer);
    tdm_stream_destroy(stream);
    tdm_device_release(device);
    tdm_context_destroy(context);
    return wrong != 0 || reports != 0;
}
