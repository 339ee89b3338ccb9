/*
 * Finds the instructions that a driver's compiler can generate, for a device that is this host's
 * CPU. The CPU alone does not decide this, because the compiler may target an older CPU. It may
 * also target an intermediate language such as SPIR-V. The translator of that language uses all
 * instructions that the CPU has, but rejects assembly.
 */
#include <string.h>

#include "backend_opencl/probe/opencl_probe.h"

/*
 * Each kernel of this program exists only if its condition holds. The names of the built kernels
 * therefore give the result, and no kernel has to run.
 */
static const char source[] = "__kernel void tdm_any(__global int *v) { *v = 1; }\n"
                             "#if defined(__x86_64__) || defined(__i386__)\n"
                             "__kernel void tdm_x86(__global float4 *v) {\n"
                             "    float4 x = *v;\n"
                             "    __asm__(\"addps %1, %0\" : \"+x\"(x) : \"x\"(x));\n"
                             "    *v = x;\n"
                             "}\n"
                             "#endif\n"
                             "#if defined(__AVX2__) && defined(__FMA__)\n"
                             "__kernel void tdm_avx2(__global int *v) { *v = 1; }\n"
                             "#endif\n"
                             "#if defined(__AVX512F__) && defined(__AVX512BW__) && "
                             "defined(__AVX512DQ__) && defined(__AVX512VL__)\n"
                             "__kernel void tdm_avx512(__global int *v) { *v = 1; }\n"
                             "#endif\n"
                             "#if defined(__AVX512VNNI__)\n"
                             "__kernel void tdm_vnni(__global int *v) { *v = 1; }\n"
                             "#endif\n"
                             "#if defined(__AVX512BF16__)\n"
                             "__kernel void tdm_bf16(__global int *v) { *v = 1; }\n"
                             "#endif\n"
                             "#if defined(__AMX_INT8__)\n"
                             "__kernel void tdm_amx_int8(__global int *v) { *v = 1; }\n"
                             "#endif\n";

/* True if `name` is one of `names`, which semicolons separate. */
static bool is_listed(const char *names, const char *name) {
    const size_t length = strlen(name);
    for (const char *at = names; (at = strstr(at, name)) != NULL; at += length)
        if ((at == names || at[-1] == ';') && (at[length] == '\0' || at[length] == ';'))
            return true;
    return false;
}

/* True if a function can request instructions that the program as a whole does not use. */
static bool has_function_targets(const tdm_opencl_record *record) {
    const int since = record->family->one_target_since;
    return since == 0 ||
           tdm_opencl_family_version(record->platform_version, record->family->name) < since;
}

tdm_opencl_host_compiler tdm_opencl_probe_host(const tdm_opencl_probe_state *probe) {
    tdm_opencl_host_compiler found = {.avx2 = true, .avx512 = true};
    char names[256] = "";
    const cl_program program =
        tdm_opencl_probe_build(probe, source, sizeof source - 1, TDM_OPENCL_STANDARD " -w");
    if (!program)
        return found;
    if (OPENCL_CALL(probe->api, clGetProgramInfo, program, CL_PROGRAM_KERNEL_NAMES, sizeof names,
                    names, NULL) == CL_SUCCESS &&
        is_listed(names, "tdm_x86")) {
        const bool any = has_function_targets(probe->record);
        found.assembly = true;
        found.avx2 = is_listed(names, "tdm_avx2");
        found.avx512 = is_listed(names, "tdm_avx512");
        found.vnni = any || is_listed(names, "tdm_vnni");
        found.bf16 = any || is_listed(names, "tdm_bf16");
        found.amx_int8 = any || is_listed(names, "tdm_amx_int8");
    }
    OPENCL_RELEASE(probe->api, clReleaseProgram, program);
    return found;
}
