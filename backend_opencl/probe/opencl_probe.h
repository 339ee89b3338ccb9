/* Declarations that the rows of the capability table share. */
#ifndef TANDEM_BACKEND_OPENCL_PROBE_OPENCL_PROBE_H
#define TANDEM_BACKEND_OPENCL_PROBE_OPENCL_PROBE_H

#include "backend_opencl/opencl_internal.h"

/*
 * The target of a driver's compiler on this host's CPU. A compiler that does not target x86 takes
 * no assembly. The code that it generates from its intermediate language follows the CPU.
 */
typedef struct tdm_opencl_host_compiler {
    bool assembly; /* takes x86 assembly in kernels */
    bool avx2, avx512;
    bool vnni, bf16, amx_int8; /* as the target of the program or of single functions */
} tdm_opencl_host_compiler;

typedef struct tdm_opencl_probe_state {
    const tdm_opencl_api *api;
    const tdm_opencl_record *record;
    cl_context context;
    cl_command_queue queue;
    bool hung;                /* commands of the queue never finish */
    const char *dot_standard; /* the build option with which the Khronos dot product works */
    bool has_host;            /* `host` is filled in */
    tdm_opencl_host_compiler host;
} tdm_opencl_probe_state;

/*
 * Builds the program of a probe. Returns NULL if the compiler rejects it, which is an answer and
 * not a failure.
 */
cl_program tdm_opencl_probe_build(const tdm_opencl_probe_state *probe, const char *source,
                                  size_t bytes, const char *options);

tdm_opencl_host_compiler tdm_opencl_probe_host(const tdm_opencl_probe_state *probe);

/* True if event times are real nanoseconds: two markers a millisecond apart must show it. */
bool tdm_opencl_probe_profiling(tdm_opencl_probe_state *probe);

/* True if a user event holds back later commands, and only those, even with two such events. */
bool tdm_opencl_probe_host_task(tdm_opencl_probe_state *probe);

/* True if the built-in of cl_qcom_dot_product8 exists and takes signed bytes by unsigned bytes. */
bool tdm_opencl_probe_qcom_dot(const tdm_opencl_probe_state *probe);

/*
 * True if the built-in of cl_khr_integer_dot_product for two words of signed bytes exists and its
 * sums are right. Sets dot_standard.
 */
bool tdm_opencl_probe_khr_dot(tdm_opencl_probe_state *probe);

#endif
