/* This file implements modules, functions and launches. */
#include <algorithm>
#include <cstdio>

#include "tests/cuda_simulator/driver_state.h"
#include "tests/cuda_simulator/image.h"

/* ---- modules ---- */

static void tell(const std::string &text, unsigned count, const CUjit_option *names,
                 void *const *values) {
    char *buffer = nullptr;
    size_t bytes = 0;
    for (unsigned i = 0; i < count; i++)
        if (names[i] == CU_JIT_ERROR_LOG_BUFFER)
            buffer = static_cast<char *>(values[i]);
        else if (names[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
            bytes = reinterpret_cast<uintptr_t>(values[i]);
    if (buffer != nullptr && bytes > 0)
        snprintf(buffer, bytes, "%s", text.c_str());
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int options,
                            CUjit_option *names, void **values) {
    CUcontext context = nullptr;
    CUresult state = sim_context(&context);
    state = state == CUDA_SUCCESS ? sim_forbidden_in_capture() : state;
    if (state != CUDA_SUCCESS)
        return state;
    if (image == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    sim_image read;
    bool is_image = false;
    const std::string refusal =
        sim_image_read(image, sim_machine_get().architecture(), &read, &is_image);
    tell(refusal, options, names, values);
    if (!refusal.empty())
        return is_image ? CUDA_ERROR_NO_BINARY_FOR_GPU : CUDA_ERROR_INVALID_IMAGE;
    std::shared_ptr<CUmod_st> fresh = std::make_shared<CUmod_st>();
    fresh->context = context;
    fresh->named = read.named;
    fresh->names = std::move(read.names);
    *module = sim_get().modules.add(fresh);
    return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule handle) {
    CUcontext context = nullptr;
    const CUresult state = sim_context(&context);
    if (state != CUDA_SUCCESS && context == nullptr)
        return state;
    const std::shared_ptr<CUmod_st> module = sim_get().modules.take(handle);
    if (module == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    for (const auto &row : module->functions)
        sim_get().functions.take(row.second.get());
    return state;
}

/* A kernel that needs a later device is not found, because no image for this device contains it. */
CUresult cuModuleGetFunction(CUfunction *function, CUmodule handle, const char *name) {
    CUcontext context = nullptr;
    const CUresult state = sim_context(&context);
    if (state != CUDA_SUCCESS)
        return state;
    const std::shared_ptr<CUmod_st> module = sim_get().modules.find(handle);
    if (module == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    const tandem_sim_kernel *const kernel = sim_kernel_find(name, sim_machine_get().architecture());
    if (kernel == nullptr || (module->named && module->names.count(name) == 0)) {
        if (sim_kernel_find(name) == nullptr)
            sim_log("there is no host form of kernel %s", name);
        return CUDA_ERROR_NOT_FOUND;
    }
    const std::lock_guard<std::mutex> held(module->lock);
    std::shared_ptr<CUfunc_st> &found = module->functions[name];
    if (found == nullptr) {
        found = std::make_shared<CUfunc_st>();
        found->kernel = kernel;
        found->context = context;
        found->asked_for = -1;
        found->static_bytes = 0;
        sim_get().functions.add(found);
    }
    *function = found.get();
    return CUDA_SUCCESS;
}

/* ---- functions ---- */

static CUresult function_of(CUfunction handle, CUcontext *context,
                            std::shared_ptr<CUfunc_st> *function) {
    const CUresult state = sim_context(context);
    if (state != CUDA_SUCCESS)
        return state;
    *function = sim_get().functions.find(handle);
    return *function != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* Returns the bytes of shared memory that a block may have, including those that the kernel
 * declares. */
static size_t shared_limit(const CUfunc_st &function) {
    const sim_machine &machine = sim_machine_get();
    return function.asked_for < 0 ? machine.shared_default() : machine.shared_most();
}

static size_t dynamic_limit(const CUfunc_st &function) {
    return function.asked_for < 0
               ? shared_limit(function) - static_cast<size_t>(function.static_bytes)
               : static_cast<size_t>(function.asked_for);
}

static int threads_of(const tandem_sim_kernel *kernel) {
    const int *const group = kernel->group;
    return group[0] > 0 ? group[0] * group[1] * group[2] : SIM_BLOCK_THREADS;
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction handle) {
    CUcontext context = nullptr;
    std::shared_ptr<CUfunc_st> function;
    const CUresult state = function_of(handle, &context, &function);
    if (state != CUDA_SUCCESS)
        return state;
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = threads_of(function->kernel);
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
        *value = function->static_bytes;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        *value = 0;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *value = 64;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *value = sim_machine_get().architecture();
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = static_cast<int>(dynamic_limit(*function));
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuFuncSetAttribute(CUfunction handle, CUfunction_attribute attribute, int value) {
    CUcontext context = nullptr;
    std::shared_ptr<CUfunc_st> function;
    const CUresult state = function_of(handle, &context, &function);
    if (state != CUDA_SUCCESS)
        return state;
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        if (value < 0 || static_cast<size_t>(value) + static_cast<size_t>(function->static_bytes) >
                             sim_machine_get().shared_most())
            return CUDA_ERROR_INVALID_VALUE;
        function->asked_for = value;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction handle, int threads,
                                                     size_t dynamic_bytes) {
    CUcontext context = nullptr;
    std::shared_ptr<CUfunc_st> function;
    const CUresult state = function_of(handle, &context, &function);
    if (state != CUDA_SUCCESS)
        return state;
    if (threads < 1)
        return CUDA_ERROR_INVALID_VALUE;
    const size_t shared = dynamic_bytes + static_cast<size_t>(function->static_bytes.load()) + 1024;
    const int by_shared = static_cast<int>((sim_machine_get().shared_most() + 1024) / shared);
    const int by_threads = SIM_MULTIPROCESSOR_THREADS / threads;
    *blocks = threads > threads_of(function->kernel) ? 0
              : by_shared < by_threads               ? by_shared
                                                     : by_threads;
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveClusters(int *clusters, CUfunction handle,
                                      const CUlaunchConfig *launch) {
    CUcontext context = nullptr;
    std::shared_ptr<CUfunc_st> function;
    int blocks = 0, size = 1;
    CUresult state = function_of(handle, &context, &function);
    if (state == CUDA_SUCCESS && launch->sharedMemBytes > dynamic_limit(*function))
        return CUDA_ERROR_INVALID_VALUE;
    state = state != CUDA_SUCCESS
                ? state
                : cuOccupancyMaxActiveBlocksPerMultiprocessor(
                      &blocks, handle,
                      static_cast<int>(launch->blockDimX * launch->blockDimY * launch->blockDimZ),
                      launch->sharedMemBytes);
    for (unsigned i = 0; i < launch->numAttrs; i++) {
        if (launch->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
            const auto &dim = launch->attrs[i].value.clusterDim;
            size = static_cast<int>(dim.x * dim.y * dim.z);
        }
    }
    if (size < 1 || (size > 1 && sim_machine_get().major < 9))
        return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    *clusters = blocks * SIM_CLUSTER_REACH / size +
                blocks * (SIM_MULTIPROCESSORS - SIM_CLUSTER_REACH) / size;
    return state;
}

/* ---- launches ---- */

namespace {

/* This launch has copies of its parameters, because the caller keeps them only during the call. */
struct prepared_launch {
    std::shared_ptr<CUfunc_st> function;
    CUcontext context;
    sim_launch launch;
    std::vector<std::vector<max_align_t>> values;
    std::vector<void *> pointers;
};

/* Returns space for a value that may need an alignment of 64 bytes. */
void *aligned_room(std::vector<max_align_t> &room, size_t bytes) {
    room.resize((bytes + 64) / sizeof(max_align_t) + 1);
    const uintptr_t at = (reinterpret_cast<uintptr_t>(room.data()) + 63) / 64 * 64;
    return reinterpret_cast<void *>(at);
}

void keep_parameters(prepared_launch *prepared, void *const *parameters) {
    const tandem_sim_kernel *const kernel = prepared->function->kernel;
    const size_t count = static_cast<size_t>(kernel->parameter_count);
    prepared->values.resize(count);
    prepared->pointers.resize(count + 1);
    for (size_t i = 0; i < count; i++) {
        const size_t bytes = kernel->parameters[i].bytes;
        prepared->pointers[i] = aligned_room(prepared->values[i], bytes);
        memcpy(prepared->pointers[i], parameters[i], bytes);
    }
    prepared->launch.values = prepared->pointers.data();
}

CUdeviceptr pointer_value(const prepared_launch &prepared, int parameter) {
    void *value = nullptr;
    memcpy(&value, prepared.pointers[static_cast<size_t>(parameter)], sizeof value);
    return static_cast<CUdeviceptr>(reinterpret_cast<uintptr_t>(value));
}

/* Calls `check` for each pointer that is not NULL; returns false if `check` does for one of
 * them. */
template <typename Check>
bool each_pointer(const prepared_launch &prepared, const char *what, Check check) {
    const tandem_sim_kernel *const kernel = prepared.function->kernel;
    for (int i = 0; i < kernel->parameter_count; i++) {
        if (!kernel->parameters[i].is_pointer)
            continue;
        const CUdeviceptr address = pointer_value(prepared, i);
        if (address != 0 && !check(address)) {
            sim_log("kernel %s: parameter %d (%#llx) %s", kernel->name, i, address, what);
            return false;
        }
    }
    return true;
}

CUresult code_of(sim_outcome outcome) {
    switch (outcome) {
    case SIM_DONE:
        return CUDA_SUCCESS;
    case SIM_ILLEGAL_ADDRESS:
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    case SIM_MISALIGNED_ADDRESS:
        return CUDA_ERROR_MISALIGNED_ADDRESS;
    default:
        return CUDA_ERROR_LAUNCH_FAILED;
    }
}

CUresult execute(const prepared_launch &prepared, sim_worker &worker) {
    if (!each_pointer(prepared, "is not in memory of the device",
                      [](CUdeviceptr at) { return sim_memory_holds(at, 1); }))
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    const sim_outcome outcome = worker.run(prepared.launch);
    prepared.function->static_bytes = static_cast<int>(worker.static_bytes());
    if (outcome != SIM_DONE) {
        sim_log("%s", worker.message().c_str());
        return code_of(outcome);
    }
    return each_pointer(prepared, "was freed while it ran",
                        [](CUdeviceptr at) { return sim_memory_holds(at, 1); }) &&
                   each_pointer(prepared, "was written behind its end", sim_memory_unharmed)
               ? CUDA_SUCCESS
               : CUDA_ERROR_ILLEGAL_ADDRESS;
}

CUresult refuse(CUresult code, const char *kernel, const char *why) {
    sim_log("launch of %s: %s", kernel, why);
    return code;
}

CUresult check_shape(const CUlaunchConfig *c, const CUfunc_st &function) {
    const tandem_sim_kernel *const kernel = function.kernel;
    const unsigned long threads =
        static_cast<unsigned long>(c->blockDimX) * c->blockDimY * c->blockDimZ;
    if (c->gridDimX < 1 || c->gridDimY < 1 || c->gridDimZ < 1 || c->gridDimX > 0x7fffffffu ||
        c->gridDimY > SIM_GRID_YZ || c->gridDimZ > SIM_GRID_YZ)
        return refuse(CUDA_ERROR_INVALID_VALUE, kernel->name, "a grid of 0 or too many blocks");
    if (threads < 1 || c->blockDimX > SIM_BLOCK_THREADS || c->blockDimY > SIM_BLOCK_THREADS ||
        c->blockDimZ > 64 || threads > SIM_BLOCK_THREADS)
        return refuse(CUDA_ERROR_INVALID_VALUE, kernel->name, "a block of 0 or too many threads");
    const int *const group = kernel->group;
    if (group[0] > 0 && (c->blockDimX != static_cast<unsigned>(group[0]) ||
                         c->blockDimY != static_cast<unsigned>(group[1]) ||
                         c->blockDimZ != static_cast<unsigned>(group[2]))) {
        return refuse(CUDA_ERROR_INVALID_VALUE, kernel->name,
                      "the blocks do not have the size that the kernel requires");
    }
    if (c->sharedMemBytes > dynamic_limit(function) ||
        c->sharedMemBytes + static_cast<size_t>(function.static_bytes) > shared_limit(function)) {
        return refuse(CUDA_ERROR_INVALID_VALUE, kernel->name,
                      "more dynamic shared memory than the function allows");
    }
    return CUDA_SUCCESS;
}

CUresult read_cluster(const CUlaunchConfig *c, const char *kernel, int cluster[3]) {
    cluster[0] = cluster[1] = cluster[2] = 1;
    for (unsigned i = 0; i < c->numAttrs; i++) {
        if (c->attrs[i].id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
            return refuse(CUDA_ERROR_INVALID_VALUE, kernel, "an attribute that is not simulated");
        const auto &dim = c->attrs[i].value.clusterDim;
        if (dim.x < 1 || dim.y < 1 || dim.z < 1 || dim.x > 16 || dim.y > 16 || dim.z > 16 ||
            dim.x * dim.y * dim.z > 16 || c->gridDimX % dim.x != 0 || c->gridDimY % dim.y != 0 ||
            c->gridDimZ % dim.z != 0 || sim_machine_get().major < 9) {
            return refuse(CUDA_ERROR_INVALID_CLUSTER_SIZE, kernel,
                          "clusters that the device or the grid does not take");
        }
        cluster[0] = static_cast<int>(dim.x);
        cluster[1] = static_cast<int>(dim.y);
        cluster[2] = static_cast<int>(dim.z);
    }
    return CUDA_SUCCESS;
}

} // namespace

CUresult cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction handle, void **parameters,
                          void **extra) {
    CUcontext context = nullptr;
    std::shared_ptr<CUfunc_st> function;
    std::shared_ptr<CUstream_st> stream;
    CUresult state = function_of(handle, &context, &function);
    state = state == CUDA_SUCCESS ? sim_stream_of(c->hStream, context, &stream) : state;
    if (state != CUDA_SUCCESS)
        return state;
    if (extra != nullptr || (parameters == nullptr && function->kernel->parameter_count > 0))
        return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<prepared_launch> prepared = std::make_shared<prepared_launch>();
    sim_launch &launch = prepared->launch;
    state = check_shape(c, *function);
    state = state == CUDA_SUCCESS ? read_cluster(c, function->kernel->name, launch.cluster) : state;
    if (state != CUDA_SUCCESS)
        return state;
    const unsigned block[3] = {c->blockDimX, c->blockDimY, c->blockDimZ};
    const unsigned grid[3] = {c->gridDimX, c->gridDimY, c->gridDimZ};
    for (int d = 0; d < 3; d++) {
        launch.block[d] = static_cast<int>(block[d]);
        launch.grid[d] = static_cast<long>(grid[d]);
    }
    launch.kernel = function->kernel;
    launch.architecture = sim_machine_get().architecture();
    launch.dynamic_bytes = c->sharedMemBytes;
    /* The declared bytes are known only after the first run; too many of them fail the launch
     * then. */
    launch.static_limit = std::min(sim_machine_get().shared_default(),
                                   shared_limit(*function) - launch.dynamic_bytes);
    prepared->function = function;
    prepared->context = context;
    keep_parameters(prepared.get(), parameters);
    return sim_enqueue(
        stream.get(),
        {[prepared](sim_worker &worker) -> CUresult { return execute(*prepared, worker); }, false});
}

CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                        unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                        unsigned int block_z, unsigned int dynamic_bytes, CUstream stream,
                        void **parameters, void **extra) {
    CUlaunchConfig launch = CUlaunchConfig();
    launch.gridDimX = grid_x;
    launch.gridDimY = grid_y;
    launch.gridDimZ = grid_z;
    launch.blockDimX = block_x;
    launch.blockDimY = block_y;
    launch.blockDimZ = block_z;
    launch.sharedMemBytes = dynamic_bytes;
    launch.hStream = stream;
    return cuLaunchKernelEx(&launch, function, parameters, extra);
}
