/*
 * Checks that the extensions' dot products of four bytes exist and are right. Some drivers list an
 * extension but reject its built-in, or declare it only for a later OpenCL C. Sources differ on the
 * signs of cl_qcom_dot_product8. So the device has to compute some.
 */
#include <stdio.h>
#include <string.h>

#include "backend_opencl/probe/opencl_probe.h"

enum {
    CASES = 4
};

/*
 * Two words of four bytes, an addend, and the sum. The ends of both ranges distinguish all
 * interpretations.
 */
typedef cl_uint dot_cases[CASES][4];

/* Cases for signed bytes by unsigned bytes. */
static const dot_cases mixed_cases = {
    {0x80ff7f01u, 0xff80ff01u, 7, (cl_uint)(1 + 127 * 255 - 128 - 128 * 255 + 7)},
    {0x000000ffu, 0x000000ffu, 0, (cl_uint)-255},
    {0x7f7f7f7fu, 0x80808080u, 1, (cl_uint)(4 * 127 * 128 + 1)},
    {0x80808080u, 0xffffffffu, (cl_uint)-5, (cl_uint)(4 * -128 * 255 - 5)},
};

/* Cases for signed bytes by signed bytes. */
static const dot_cases signed_cases = {
    {0x80ff7f01u, 0xff80ff01u, 7, (cl_uint)(1 - 127 + 128 + 128 + 7)},
    {0x000000ffu, 0x000000ffu, 0, 1},
    {0x7f7f7f7fu, 0x80808080u, 1, (cl_uint)(4 * 127 * -128 + 1)},
    {0x80808080u, 0xffffffffu, (cl_uint)-5, (cl_uint)(4 * 128 - 5)},
};

static const char qcom_source[] =
    "#ifdef cl_qcom_dot_product8\n"
    "#pragma OPENCL EXTENSION cl_qcom_dot_product8 : enable\n"
    "#endif\n"
    "__kernel void tdm_probe_dot(__global uint *v) {\n"
    "    const uint at = 4 * (uint)get_global_id(0);\n"
    "    v[at + 3] = as_uint(qcom_dot8_acc(v[at], v[at + 1], as_int(v[at + 2])));\n"
    "}\n";

static const char khr_source[] =
    "#ifdef cl_khr_integer_dot_product\n"
    "#pragma OPENCL EXTENSION cl_khr_integer_dot_product : enable\n"
    "#endif\n"
    "__kernel void tdm_probe_dot(__global uint *v) {\n"
    "    const uint at = 4 * (uint)get_global_id(0);\n"
    "    v[at + 3] = as_uint(dot_4x8packed_ss_int(v[at], v[at + 1])) + v[at + 2];\n"
    "}\n";

cl_program tdm_opencl_probe_build(const tdm_opencl_probe_state *probe, const char *source,
                                  size_t bytes, const char *options) {
    const tdm_opencl_api *const api = probe->api;
    cl_int code;
    const cl_program program = OPENCL_CREATE(api, &code, clCreateProgramWithSource, probe->context,
                                             1, (const char **)&source, &bytes);
    if (program && OPENCL_CALL(api, clBuildProgram, program, 1, &probe->record->id, options, NULL,
                               NULL) == CL_SUCCESS)
        return program;
    if (program)
        OPENCL_RELEASE(api, clReleaseProgram, program);
    return NULL;
}

/* Runs the cases on the device. Returns false on failure. */
static bool run(const tdm_opencl_probe_state *probe, cl_kernel kernel, cl_mem memory,
                dot_cases values) {
    const tdm_opencl_api *const api = probe->api;
    const size_t items = CASES, bytes = sizeof(dot_cases);
    return OPENCL_CALL(api, clEnqueueWriteBuffer, probe->queue, memory, CL_TRUE, 0, bytes, values,
                       0, NULL, NULL) == CL_SUCCESS &&
           OPENCL_CALL(api, clSetKernelArg, kernel, 0, sizeof memory, &memory) == CL_SUCCESS &&
           OPENCL_CALL(api, clEnqueueNDRangeKernel, probe->queue, kernel, 1, NULL, &items, NULL, 0,
                       NULL, NULL) == CL_SUCCESS &&
           OPENCL_CALL(api, clEnqueueReadBuffer, probe->queue, memory, CL_TRUE, 0, bytes, values, 0,
                       NULL, NULL) == CL_SUCCESS;
}

/* True if a program from this source and these options computes all cases right. */
static bool is_right(const tdm_opencl_probe_state *probe, const char *source, size_t source_bytes,
                     const char *options, const dot_cases cases) {
    const tdm_opencl_api *const api = probe->api;
    dot_cases values;
    cl_int code;
    memcpy(values, cases, sizeof values);
    for (int i = 0; i < CASES; i++)
        values[i][3] = ~cases[i][3];
    const cl_program program =
        probe->hung ? NULL : tdm_opencl_probe_build(probe, source, source_bytes, options);
    const cl_kernel kernel =
        program ? OPENCL_CREATE(api, &code, clCreateKernel, program, "tdm_probe_dot") : NULL;
    const cl_mem memory = kernel ? OPENCL_CREATE(api, &code, clCreateBuffer, probe->context,
                                                 CL_MEM_READ_WRITE, sizeof values, NULL)
                                 : NULL;
    const bool right =
        memory && run(probe, kernel, memory, values) && memcmp(values, cases, sizeof values) == 0;
    if (memory)
        OPENCL_RELEASE(api, clReleaseMemObject, memory);
    if (kernel)
        OPENCL_RELEASE(api, clReleaseKernel, kernel);
    if (program)
        OPENCL_RELEASE(api, clReleaseProgram, program);
    return right;
}

bool tdm_opencl_probe_qcom_dot(const tdm_opencl_probe_state *probe) {
    return is_right(probe, qcom_source, sizeof qcom_source - 1, TDM_OPENCL_STANDARD " -w",
                    mixed_cases);
}

bool tdm_opencl_probe_khr_dot(tdm_opencl_probe_state *probe) {
    static const struct {
        const char *option;
        int least_version;
    } standards[] = {{TDM_OPENCL_STANDARD, 12}, {"-cl-std=CL3.0", 30}, {"-cl-std=CL2.0", 20}};
    const int version = tdm_opencl_version_number(probe->record->info.api_version);
    for (size_t i = 0; i < sizeof standards / sizeof standards[0]; i++) {
        char options[32];
        snprintf(options, sizeof options, "%s -w", standards[i].option);
        if (version >= standards[i].least_version &&
            is_right(probe, khr_source, sizeof khr_source - 1, options, signed_cases)) {
            probe->dot_standard = standards[i].option;
            return true;
        }
    }
    return false;
}
