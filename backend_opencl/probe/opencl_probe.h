/* What the rows of the capability table share. */
#ifndef TANDEM_BACKEND_OPENCL_PROBE_OPENCL_PROBE_H
#define TANDEM_BACKEND_OPENCL_PROBE_OPENCL_PROBE_H

#include "backend_opencl/opencl_internal.h"

/* The target of the compiler of a driver on this host's CPU. A compiler that targets no x86 CPU takes no
 * assembly, and the code that it makes of its intermediate language follows the CPU. */
typedef struct tdm_opencl_host_compiler {
    bool assembly; /* takes x86 assembly in kernels */
    bool avx2, avx512;
    bool vnni, bf16, amx_int8; /* as the target of the program, or of single functions */
} tdm_opencl_host_compiler;

typedef struct tdm_opencl_probe_state {
    const tdm_opencl_api *api;
    const tdm_opencl_record *record;
    cl_context context;
    cl_command_queue queue;
    bool hung;                /* commands of the queue never finish */
    const char *dot_standard; /* the option with which the Khronos dot product was found to work */
    bool has_host;            /* host was asked for */
    tdm_opencl_host_compiler host;
} tdm_opencl_probe_state;

/* Build a program of one of the probes. NULL where the compiler refuses it: that is an answer, not a failure. */
cl_program tdm_opencl_probe_build(const tdm_opencl_probe_state *probe, const char *source,
                                  size_t bytes, const char *options);

tdm_opencl_host_compiler tdm_opencl_probe_host(const tdm_opencl_probe_state *probe);

/* Are event times real nanoseconds? Two markers a millisecond apart must say so. */
bool tdm_opencl_probe_profiling(tdm_opencl_probe_state *probe);

/* Does a user event hold later commands back, and only later ones, also when there are two? */
bool tdm_opencl_probe_host_task(tdm_opencl_probe_state *probe);

/* Does the built-in of cl_qcom_dot_product8 exist and take signed bytes by unsigned ones? */
bool tdm_opencl_probe_qcom_dot(const tdm_opencl_probe_state *probe);

/* Does the built-in of cl_khr_integer_dot_product for two words of signed bytes exist and give the right sums? Sets
 * dot_standard. */
bool tdm_opencl_probe_khr_dot(tdm_opencl_probe_state *probe);

#endif
