/*
 * Declares the state and the functions of the capability probes. The table in opencl_probe.c calls
 * one probe for each capability.
 */
#ifndef TANDEM_BACKEND_OPENCL_PROBE_OPENCL_PROBE_H
#define TANDEM_BACKEND_OPENCL_PROBE_OPENCL_PROBE_H

#include "backend_opencl/opencl_internal.h"

/*
 * The instructions that a driver's compiler can generate, for a device that is this host's CPU. A
 * compiler that does not target x86 rejects x86 assembly. It generates an intermediate language,
 * and the driver translates that to any instructions that the CPU has.
 */
typedef struct tdm_opencl_host_compiler {
    bool assembly; /* accepts x86 assembly in kernels */
    bool avx2, avx512;
    bool vnni, bf16, amx_int8; /* in the whole program, or in functions that request it */
} tdm_opencl_host_compiler;

typedef struct tdm_opencl_probe_state {
    const tdm_opencl_api *api;
    const tdm_opencl_record *record;
    cl_context context;
    cl_command_queue queue;
    bool hung;                /* commands of the queue never finish */
    const char *dot_standard; /* build option with which the Khronos dot product works, or NULL */
    bool has_host;            /* `host` is filled in */
    tdm_opencl_host_compiler host;
} tdm_opencl_probe_state;

/*
 * Builds the program of a probe. Returns NULL if the compiler rejects it. The probe then answers
 * "no"; this is not an error.
 */
cl_program tdm_opencl_probe_build(const tdm_opencl_probe_state *probe, const char *source,
                                  size_t bytes, const char *options);

/* Finds the instructions that the driver's compiler can generate. */
tdm_opencl_host_compiler tdm_opencl_probe_host(const tdm_opencl_probe_state *probe);

/*
 * True if event times are in nanoseconds. The times of two markers a millisecond apart must roughly
 * agree with the host's clock.
 */
bool tdm_opencl_probe_profiling(tdm_opencl_probe_state *probe);

/*
 * True if a barrier on a user event delays the commands after it, and no earlier ones. This must
 * also hold with two such barriers in the queue.
 */
bool tdm_opencl_probe_host_task(tdm_opencl_probe_state *probe);

/*
 * True if the built-in function of cl_qcom_dot_product8 exists and multiplies signed bytes by
 * unsigned bytes.
 */
bool tdm_opencl_probe_qcom_dot(const tdm_opencl_probe_state *probe);

/*
 * True if cl_khr_integer_dot_product's built-in function for two words of four signed bytes exists
 * and its results are right. Sets dot_standard.
 */
bool tdm_opencl_probe_khr_dot(tdm_opencl_probe_state *probe);

#endif
