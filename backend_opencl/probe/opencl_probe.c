/* The capability table: one row per capability, with the function that finds it. */
#include <string.h>
#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "backend_opencl/opencl_internal.h"
#include "backend_opencl/probe/opencl_probe.h"

typedef bool (*probe_function)(tdm_opencl_probe_state *probe);

static bool has_extension(const tdm_opencl_probe_state *probe, const char *name) {
    return tdm_opencl_has_token(probe->record->extensions, name);
}

/*
 * rusticl on a CPU runs one work-item per vector lane, so wide vectors inside an item only cost
 * time. (GEMM 256 x 256 x 256 on llvmpipe 22.3: tiled 0.11 s, vector panels 5.2 s.)
 */
static bool probe_cpu_cores(tdm_opencl_probe_state *probe) {
    return probe->record->info.type == TDM_DEVICE_CPU && !probe->record->family->one_lane_per_item;
}

static bool probe_local_memory(tdm_opencl_probe_state *probe) {
    return tdm_opencl_device_uint(probe->api, probe->record->id, CL_DEVICE_LOCAL_MEM_TYPE) ==
           CL_LOCAL;
}

static bool probe_unified_memory(tdm_opencl_probe_state *probe) {
    return tdm_opencl_device_uint(probe->api, probe->record->id, CL_DEVICE_HOST_UNIFIED_MEMORY) !=
           0;
}

static bool probe_fp16(tdm_opencl_probe_state *probe) {
    return has_extension(probe, "cl_khr_fp16");
}

static bool probe_fp64(tdm_opencl_probe_state *probe) {
    return has_extension(probe, "cl_khr_fp64") ||
           tdm_opencl_device_ulong(probe->api, probe->record->id, CL_DEVICE_DOUBLE_FP_CONFIG) != 0;
}

/* The capability promises shuffles and reductions; cl_khr_subgroups alone lacks some. */
static bool probe_subgroups(tdm_opencl_probe_state *probe) {
    return has_extension(probe, "cl_intel_subgroups") ||
           (has_extension(probe, "cl_khr_subgroups") &&
            has_extension(probe, "cl_khr_subgroup_shuffle"));
}

/* Only the form for two words of signed bytes is used. */
static bool probe_int8_dot_khr(tdm_opencl_probe_state *probe) {
    if (!has_extension(probe, "cl_khr_integer_dot_product"))
        return false;
    cl_device_integer_dot_product_acceleration_properties_khr properties = {0};
    const cl_int code =
        OPENCL_CALL(probe->api, clGetDeviceInfo, probe->record->id,
                    CL_DEVICE_INTEGER_DOT_PRODUCT_ACCELERATION_PROPERTIES_4x8BIT_PACKED_KHR,
                    sizeof properties, &properties, NULL);
    return code == CL_SUCCESS && properties.signed_accelerated && tdm_opencl_probe_khr_dot(probe);
}

static bool probe_int8_dot_arm(tdm_opencl_probe_state *probe) {
    return has_extension(probe, "cl_arm_integer_dot_product_accumulate_int8");
}

static bool probe_int8_dot_qcom(tdm_opencl_probe_state *probe) {
    return has_extension(probe, "cl_qcom_dot_product8") && tdm_opencl_probe_qcom_dot(probe);
}

static bool probe_correct_divide(tdm_opencl_probe_state *probe) {
    const cl_ulong config =
        tdm_opencl_device_ulong(probe->api, probe->record->id, CL_DEVICE_SINGLE_FP_CONFIG);
    return (config & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0;
}

/* llvmpipe silently limits the total passes of all loops of a work-item. */
static bool probe_long_loops(tdm_opencl_probe_state *probe) {
    return probe->record->info.type != TDM_DEVICE_CPU || !probe->record->family->short_loops;
}

static bool probe_slabs(tdm_opencl_probe_state *probe) {
    return !probe->record->family->memory_checker;
}

/*
 * `cpuid` and __builtin_cpu_supports query this process's own CPU, so the device must be that CPU.
 * The driver's compiler must target the CPU's instructions too. The compiler is probed once for all
 * rows.
 */
#if defined(__x86_64__) || defined(__i386__)
static const tdm_opencl_host_compiler *host_compiler(tdm_opencl_probe_state *probe) {
    if (!probe->record->family->host_cores || !probe_cpu_cores(probe))
        return NULL;
    if (!probe->has_host) {
        probe->host = tdm_opencl_probe_host(probe);
        probe->has_host = true;
    }
    return &probe->host;
}

static bool probe_assembly(tdm_opencl_probe_state *probe) {
    const tdm_opencl_host_compiler *const compiler = host_compiler(probe);
    return compiler && compiler->assembly;
}

static bool probe_avx2(tdm_opencl_probe_state *probe) {
    const tdm_opencl_host_compiler *const compiler = host_compiler(probe);
    return compiler && compiler->avx2 && __builtin_cpu_supports("avx2") &&
           __builtin_cpu_supports("fma");
}

static bool probe_avx512(tdm_opencl_probe_state *probe) {
    const tdm_opencl_host_compiler *const compiler = host_compiler(probe);
    return compiler && compiler->avx512 && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}

static bool probe_vnni(tdm_opencl_probe_state *probe) {
    return probe_avx512(probe) && probe->host.vnni && __builtin_cpu_supports("avx512vnni");
}

#define CPUID_AVX512_BF16 (1u << 5)

/* Compilers know this feature by name only since gcc 11. */
static bool probe_bf16(tdm_opencl_probe_state *probe) {
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    return probe_avx512(probe) && probe->host.bf16 &&
           __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) && (eax & CPUID_AVX512_BF16);
}
#endif

/*
 * Linux permits the tile registers to a process that requests them, for all its threads from then
 * on.
 */
#if defined(__x86_64__) && defined(__linux__)
#define REQUEST_PERMISSION 0x1023 /* ARCH_REQ_XCOMP_PERM */
#define TILE_DATA 18              /* XFEATURE_XTILEDATA */
#define CPUID_AMX_TILE (1u << 24)
#define CPUID_AMX_INT8 (1u << 25)

static bool probe_amx_int8(tdm_opencl_probe_state *probe) {
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    if (!probe_avx512(probe) || !probe->host.amx_int8 ||
        !__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx))
        return false;
    return (edx & CPUID_AMX_TILE) && (edx & CPUID_AMX_INT8) &&
           syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}
#endif

static const struct {
    tdm_capability capability;
    probe_function probe;
} rows[] = {
    {TDM_CAP_CPU_CORES, probe_cpu_cores},
    {TDM_CAP_LOCAL_MEMORY, probe_local_memory},
    {TDM_CAP_UNIFIED_MEMORY, probe_unified_memory},
    {TDM_CAP_PROFILING, tdm_opencl_probe_profiling},
    {TDM_CAP_FP16_ARITHMETIC, probe_fp16},
    {TDM_CAP_FP64, probe_fp64},
    {TDM_CAP_SUBGROUPS, probe_subgroups},
    {TDM_CAP_INT8_DOT_KHR, probe_int8_dot_khr},
    {TDM_CAP_INT8_DOT_ARM, probe_int8_dot_arm},
    {TDM_CAP_INT8_DOT_QCOM, probe_int8_dot_qcom},
    {TDM_CAP_CORRECT_DIVIDE, probe_correct_divide},
    {TDM_CAP_HOST_TASK, tdm_opencl_probe_host_task},
    {TDM_CAP_UNLIMITED_LOOPS, probe_long_loops},
    {TDM_CAP_SLABS, probe_slabs},
#if defined(__x86_64__) || defined(__i386__)
    {TDM_CAP_HOST_ASSEMBLY, probe_assembly},
    {TDM_CAP_HOST_AVX2, probe_avx2},
    {TDM_CAP_HOST_AVX512, probe_avx512},
    {TDM_CAP_HOST_VNNI, probe_vnni},
    {TDM_CAP_HOST_BF16, probe_bf16},
#endif
#if defined(__x86_64__) && defined(__linux__)
    {TDM_CAP_HOST_AMX_INT8, probe_amx_int8},
#endif
};

#define ANY_INT8_DOT (TDM_CAP_INT8_DOT_KHR | TDM_CAP_INT8_DOT_ARM | TDM_CAP_INT8_DOT_QCOM)

tdm_status tdm_opencl_probe(const tdm_opencl_api *api, tdm_opencl_record *record,
                            uint32_t *capabilities) {
    tdm_opencl_probe_state probe = {.api = api, .record = record};
    tdm_status status = tdm_opencl_context_create(api, record, "probe", &probe.context);
    if (status == TDM_OK)
        status = tdm_opencl_queue_create(api, record, probe.context, "probe", &probe.queue);
    uint32_t found = 0;
    for (size_t i = 0; status == TDM_OK && i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].probe(&probe))
            found |= (uint32_t)rows[i].capability;
    if (found & ANY_INT8_DOT)
        found |= TDM_CAP_INT8_DOT;
    record->dot_standard = probe.dot_standard;
    // A queue that hung must not be released: the release would wait for it.
    if (probe.queue && !probe.hung)
        OPENCL_RELEASE(api, clReleaseCommandQueue, probe.queue);
    if (probe.context && !probe.hung)
        OPENCL_RELEASE(api, clReleaseContext, probe.context);
    if (status == TDM_OK)
        *capabilities = found;
    return status;
}
