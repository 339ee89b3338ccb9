/*
 * Does cl_qcom_dot_product8 multiply signed bytes by unsigned ones? Drivers list the extension and refuse its built-in, and what
 * is written of the signs of its bytes differs, so the device is asked.
 */
#include <string.h>

#include "backend_opencl/opencl_probe.h"

enum {
    CASES = 4
};

/* Signed bytes, unsigned bytes, what is added, and the result: the ends of both ranges tell all readings apart. */
static const cl_uint cases[CASES][4] = {
    {0x80ff7f01u, 0xff80ff01u, 7, (cl_uint)(1 + 127 * 255 - 128 - 128 * 255 + 7)},
    {0x000000ffu, 0x000000ffu, 0, (cl_uint)-255},
    {0x7f7f7f7fu, 0x80808080u, 1, (cl_uint)(4 * 127 * 128 + 1)},
    {0x80808080u, 0xffffffffu, (cl_uint)-5, (cl_uint)(4 * -128 * 255 - 5)},
};

static const char text[] =
    "#ifdef cl_qcom_dot_product8\n"
    "#pragma OPENCL EXTENSION cl_qcom_dot_product8 : enable\n"
    "#endif\n"
    "__kernel void tdm_probe_dot(__global uint *v) {\n"
    "    const uint at = 4 * (uint)get_global_id(0);\n"
    "    v[at + 3] = as_uint(qcom_dot8_acc(v[at], v[at + 1], as_int(v[at + 2])));\n"
    "}\n";

static cl_kernel build(const tdm_opencl_probe_state *probe, cl_program *program) {
    const tdm_opencl_api *const api = probe->api;
    const char *const source = text;
    const size_t length = sizeof text - 1;
    cl_int code;
    *program = OPENCL_CREATE(api, &code, clCreateProgramWithSource, probe->context, 1,
                             (const char **)&source, &length);
    if (!*program || OPENCL_CALL(api, clBuildProgram, *program, 1, &probe->record->id,
                                 "-cl-std=CL1.2", NULL, NULL) != CL_SUCCESS)
        return NULL;
    return OPENCL_CREATE(api, &code, clCreateKernel, *program, "tdm_probe_dot");
}

/* Runs the cases on the device; false where that failed. */
static bool run(const tdm_opencl_probe_state *probe, cl_kernel kernel, cl_mem memory,
                cl_uint values[CASES][4]) {
    const tdm_opencl_api *const api = probe->api;
    const size_t items = CASES, bytes = sizeof cases;
    return OPENCL_CALL(api, clEnqueueWriteBuffer, probe->queue, memory, CL_TRUE, 0, bytes, values,
                       0, NULL, NULL) == CL_SUCCESS &&
           OPENCL_CALL(api, clSetKernelArg, kernel, 0, sizeof memory, &memory) == CL_SUCCESS &&
           OPENCL_CALL(api, clEnqueueNDRangeKernel, probe->queue, kernel, 1, NULL, &items, NULL, 0,
                       NULL, NULL) == CL_SUCCESS &&
           OPENCL_CALL(api, clEnqueueReadBuffer, probe->queue, memory, CL_TRUE, 0, bytes, values, 0,
                       NULL, NULL) == CL_SUCCESS;
}

bool tdm_opencl_probe_qcom_dot(const tdm_opencl_probe_state *probe) {
    const tdm_opencl_api *const api = probe->api;
    cl_uint values[CASES][4];
    cl_program program = NULL;
    cl_int code;
    memcpy(values, cases, sizeof values);
    for (int i = 0; i < CASES; i++)
        values[i][3] = ~cases[i][3];
    const cl_kernel kernel = probe->hung ? NULL : build(probe, &program);
    const cl_mem memory = kernel ? OPENCL_CREATE(api, &code, clCreateBuffer, probe->context,
                                                 CL_MEM_READ_WRITE, sizeof values, NULL)
                                 : NULL;
    const bool right =
        memory && run(probe, kernel, memory, values) && memcmp(values, cases, sizeof cases) == 0;
    if (memory)
        OPENCL_RELEASE(api, clReleaseMemObject, memory);
    if (kernel)
        OPENCL_RELEASE(api, clReleaseKernel, kernel);
    if (program)
        OPENCL_RELEASE(api, clReleaseProgram, program);
    return right;
}
