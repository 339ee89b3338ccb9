/* This file implements the initialisation of the driver, its devices and their contexts. */
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "tests/cuda_simulator/driver_state.h"

void sim_log(const char *format, ...) {
    const char *const wanted = getenv("TANDEM_SIMULATOR_LOG");
    if (wanted != nullptr && strcmp(wanted, "off") == 0)
        return;
    char text[2048];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "tandem simulator: %s\n", text);
}

size_t sim_machine::shared_most() const {
    switch (architecture()) {
    case 75:
        return 64 * 1024;
    case 80:
    case 87:
        return 163 * 1024;
    case 86:
    case 89:
    case 120:
        return 99 * 1024;
    default:
        return 227 * 1024;
    }
}

static sim_machine read_machine() {
    sim_machine machine = {1, 9, 0, static_cast<size_t>(4) << 30};
    const char *const architecture = getenv("TANDEM_SIMULATOR_ARCHITECTURE");
    const char *const memory = getenv("TANDEM_SIMULATOR_MEMORY");
    const char *const devices = getenv("TANDEM_SIMULATOR_DEVICES");
    if (architecture != nullptr &&
        sscanf(architecture, "%d.%d", &machine.major, &machine.minor) != 2) {
        sim_log("TANDEM_SIMULATOR_ARCHITECTURE=%s is no compute capability such as 9.0",
                architecture);
        machine.devices = 0;
    }
    if (memory != nullptr)
        machine.memory = strtoull(memory, nullptr, 10);
    if (devices != nullptr)
        machine.devices = atoi(devices);
    return machine;
}

const sim_machine &sim_machine_get() {
    static const sim_machine machine = read_machine();
    return machine;
}

sim_objects &sim_get() {
    static sim_objects *const objects = new sim_objects;
    return *objects;
}

/* ---- contexts ---- */

static thread_local std::vector<CUcontext> current_contexts;
thread_local bool sim_in_host_function;

static CUresult usable() {
    if (sim_in_host_function)
        return CUDA_ERROR_NOT_PERMITTED;
    const std::lock_guard<std::mutex> held(sim_get().lock);
    return sim_get().initialized ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult sim_context(CUcontext *context) {
    const CUresult state = usable();
    if (state != CUDA_SUCCESS)
        return state;
    if (current_contexts.empty())
        return CUDA_ERROR_INVALID_CONTEXT;
    *context = current_contexts.back();
    {
        const std::lock_guard<std::mutex> held(sim_get().lock);
        if ((*context)->retained == 0)
            return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    return (*context)->error.load();
}

CUresult cuInit(unsigned int flags) {
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    const sim_machine &machine = sim_machine_get();
    if (machine.devices < 1)
        return CUDA_ERROR_NO_DEVICE;
    sim_objects &sim = sim_get();
    const std::lock_guard<std::mutex> held(sim.lock);
    while (sim.contexts.size() < static_cast<size_t>(machine.devices)) {
        sim.contexts.push_back(std::make_unique<CUctx_st>());
        sim.contexts.back()->device = static_cast<int>(sim.contexts.size()) - 1;
    }
    sim.initialized = true;
    return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version) {
    if (version == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    *version = SIM_VERSION;
    return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult code, const char **name) {
    switch (code) {
#define CUDA_ERROR(error, value, status)                                                           \
    case error:                                                                                    \
        *name = #error;                                                                            \
        return CUDA_SUCCESS;
#include "backend_cuda/cuda_errors.def"
#undef CUDA_ERROR
    default:
        *name = nullptr;
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* ---- devices ---- */

static bool is_device(CUdevice device) {
    return device >= 0 && device < sim_machine_get().devices;
}

CUresult cuDeviceGetCount(int *count) {
    const CUresult state = usable();
    if (state == CUDA_SUCCESS)
        *count = sim_machine_get().devices;
    return state;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    const CUresult state = usable();
    if (state != CUDA_SUCCESS)
        return state;
    if (!is_device(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int bytes, CUdevice device) {
    const CUresult state = usable();
    if (state != CUDA_SUCCESS)
        return state;
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    const sim_machine &machine = sim_machine_get();
    snprintf(name, static_cast<size_t>(bytes), "Tandem simulator (compute capability %d.%d)",
             machine.major, machine.minor);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *text, int bytes, CUdevice device) {
    const CUresult state = usable();
    if (state != CUDA_SUCCESS)
        return state;
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (text == nullptr || bytes < 13) // "FFFF:00:00.0" and its terminating NUL
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(text, static_cast<size_t>(bytes), "FFFF:%02X:00.0", static_cast<unsigned>(device));
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
    const CUresult state = usable();
    if (state != CUDA_SUCCESS)
        return state;
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    *bytes = sim_machine_get().memory;
    return CUDA_SUCCESS;
}

static bool attribute_of(CUdevice_attribute attribute, int *value) {
    const sim_machine &machine = sim_machine_get();
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
        *value = SIM_BLOCK_THREADS;
        return true;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
        *value = 64;
        return true;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_PITCH:
        *value = 0x7fffffff;
        return true;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
        *value = SIM_GRID_YZ;
        return true;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
        *value = static_cast<int>(machine.shared_default());
        return true;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
        *value = static_cast<int>(machine.shared_most());
        return true;
    case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY:
        *value = 65536;
        return true;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
        *value = 32;
        return true;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
        *value = 1000000; /* kHz */
        return true;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *value = SIM_MULTIPROCESSORS;
        return true;
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
        *value = 1;
        return true;
    case CU_DEVICE_ATTRIBUTE_INTEGRATED:
    case CU_DEVICE_ATTRIBUTE_ECC_ENABLED:
        *value = 0;
        return true;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE:
        *value = CU_COMPUTEMODE_DEFAULT;
        return true;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
        *value = 256;
        return true;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
        *value = 4 << 20;
        return true;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
        *value = SIM_MULTIPROCESSOR_THREADS;
        return true;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value = machine.major;
        return true;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        *value = machine.minor;
        return true;
    case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH:
        *value = machine.major >= 9;
        return true;
    default:
        return false;
    }
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
    const CUresult state = usable();
    if (state != CUDA_SUCCESS)
        return state;
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    return attribute_of(attribute, value) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    const CUresult state = usable();
    if (state != CUDA_SUCCESS)
        return state;
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    const std::lock_guard<std::mutex> held(sim_get().lock);
    CUctx_st *const found = sim_get().contexts[static_cast<size_t>(device)].get();
    found->retained++;
    *context = found;
    return CUDA_SUCCESS;
}

/* The last release destroys everything in the context and clears its sticky error. */
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    const CUresult state = usable();
    if (state != CUDA_SUCCESS)
        return state;
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    CUctx_st *context = nullptr;
    {
        const std::lock_guard<std::mutex> held(sim_get().lock);
        context = sim_get().contexts[static_cast<size_t>(device)].get();
        if (context->retained == 0)
            return CUDA_ERROR_INVALID_CONTEXT;
        if (--context->retained > 0)
            return CUDA_SUCCESS;
    }
    sim_streams_release_all(context);
    for (const std::shared_ptr<CUmod_st> &module : sim_get().modules.all())
        if (module->context == context)
            sim_get().modules.take(module.get());
    for (const std::shared_ptr<CUfunc_st> &function : sim_get().functions.all())
        if (function->context == context)
            sim_get().functions.take(function.get());
    sim_memory_release_all(context);
    context->null_stream = nullptr;
    context->error = CUDA_SUCCESS;
    return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext context) {
    const CUresult state = usable();
    if (state != CUDA_SUCCESS)
        return state;
    sim_objects &sim = sim_get();
    {
        const std::lock_guard<std::mutex> held(sim.lock);
        const auto is_it = [context](const std::unique_ptr<CUctx_st> &each) {
            return each.get() == context && each->retained > 0;
        };
        if (std::none_of(sim.contexts.begin(), sim.contexts.end(), is_it))
            return CUDA_ERROR_INVALID_CONTEXT;
    }
    current_contexts.push_back(context);
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext *context) {
    const CUresult state = usable();
    if (state != CUDA_SUCCESS)
        return state;
    if (current_contexts.empty())
        return CUDA_ERROR_INVALID_CONTEXT;
    if (context != nullptr)
        *context = current_contexts.back();
    current_contexts.pop_back();
    return CUDA_SUCCESS;
}
